//! The gateways that a command asks: one, several, or all behind a name.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use lro_gateway::settings::Config;
use lro_gateway::{POLICIES_PATH, SIGNATURE_HEADER};
use reqwest::{Method, StatusCode, Url};
use serde::de::DeserializeOwned;

use crate::{exchange, output};

/// How long a gateway may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which gateways, and the admin token.
#[derive(Args)]
pub(crate) struct Gateways {
    /// Address of the gateway's metrics, such as http://127.0.0.1:9808; several are asked one after the other [default:
    /// gateway.metrics-listen]
    #[arg(long = "gateway", value_name = "URL", env = "LRO_GATEWAY", value_delimiter = ',')]
    urls: Vec<String>,
    /// Ask every gateway behind the name: each address that it resolves to, as the name of a headless service does
    #[arg(long)]
    pub(crate) all: bool,
    /// File with the admin token of the gateways [default: the variable LRO_ADMIN_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// A gateway.
pub(crate) struct Replica {
    pub(crate) url: String,
}

/// What gateways are asked.
pub(crate) struct Question {
    pub(crate) method: Method,
    /// Path and query below that of the policies.
    pub(crate) path: String,
    pub(crate) body: Vec<u8>,
    pub(crate) signature: Option<String>,
}

impl Gateways {
    /// The gateways, at least one.
    pub(crate) fn replicas(&self, config: &Config) -> anyhow::Result<Vec<Replica>> {
        let mut urls = addresses(&self.urls, config)?;
        if self.all {
            urls = urls.iter().map(|url| resolved(url)).collect::<anyhow::Result<Vec<_>>>()?.concat();
        }
        Ok(urls.into_iter().map(|url| Replica { url }).collect())
    }

    pub(crate) fn token(&self) -> anyhow::Result<String> {
        match &self.token_file {
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
                Ok(text.trim().to_owned())
            }
            None => std::env::var("LRO_ADMIN_TOKEN")
                .context("the admin token is needed: use --token-file or LRO_ADMIN_TOKEN"),
        }
    }
}

/// The URLs of the metrics of these gateways, or else of that of the configuration on this machine.
pub(crate) fn addresses(given: &[String], config: &Config) -> anyhow::Result<Vec<String>> {
    let given = given.iter().filter(|url| !url.is_empty()).map(|url| url.trim_end_matches('/').to_owned());
    let urls: Vec<String> = given.collect();
    if !urls.is_empty() {
        return Ok(urls);
    }
    let Some(mut address) = config.gateway.metrics_listen else {
        bail!("no gateway given: use --gateway URL, LRO_GATEWAY or gateway.metrics-listen");
    };
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    Ok(vec![format!("http://{address}")])
}

/// The addresses behind a name, as URLs. A gateway lets a request name the address that it listens on.
fn resolved(url: &str) -> anyhow::Result<Vec<String>> {
    let cannot = || format!("cannot resolve {url} (--gateway URL)");
    let mut parsed = Url::parse(url).with_context(cannot)?;
    let mut addresses = parsed.socket_addrs(|| None).with_context(cannot)?;
    addresses.sort_unstable();
    addresses.dedup();
    let mut urls = Vec::new();
    for address in addresses {
        parsed.set_ip_host(address.ip()).map_err(|()| anyhow!(cannot()))?;
        urls.push(parsed.as_str().trim_end_matches('/').to_owned());
    }
    Ok(urls)
}

impl Replica {
    /// The answer of the gateway.
    pub(crate) fn answer<T: DeserializeOwned>(&self, question: &Question, token: &str) -> anyhow::Result<T> {
        let url = &self.url;
        let (status, answer) = exchange::wait(self.send(question, token))
            .with_context(|| format!("cannot reach {url} (--gateway URL, LRO_GATEWAY or gateway.metrics-listen)"))?;
        if status.is_success() {
            return serde_json::from_slice(&answer)
                .with_context(|| format!("unexpected answer from {url}: is it the metrics address of a gateway?"));
        }
        let error = serde_json::from_slice::<serde_json::Value>(&answer).ok();
        let error = error.and_then(|error| Some(output::printable(error.get("error")?.as_str()?).into_owned()));
        bail!("{}", error.unwrap_or_else(|| format!("{url} returned {status}: is gateway.admin-token set there?")))
    }

    async fn send(&self, question: &Question, token: &str) -> anyhow::Result<(StatusCode, Vec<u8>)> {
        let Question { method, path, body, signature } = question;
        let client = exchange::client().connect_timeout(CONNECT_TIMEOUT).build()?;
        let url = format!("{}{POLICIES_PATH}{path}", self.url);
        let mut request = client.request(method.clone(), url).bearer_auth(token).body(body.clone());
        if let Some(signature) = signature {
            request = request.header(SIGNATURE_HEADER, signature);
        }
        let response = request.send().await?;
        Ok((response.status(), response.bytes().await?.into()))
    }
}
