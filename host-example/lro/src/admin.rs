//! `lro policy list | load | swap | rollback | reload`: the policies of a running gateway.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use base64::Engine;
use clap::Args;
use lro_gateway::settings::{Config, PolicyPlace};
use lro_gateway::{Change, POLICIES_PATH, PolicyStatus, SIGNATURE_HEADER, TrialStatus};
use lro_host::mcp::percent_encoded;
use lro_host::policy::{Digest, SIGNATURE_SUFFIX};
use reqwest::{Method, Response};
use serde::de::DeserializeOwned;

use crate::exit::Exit;
use crate::{exchange, output};

/// Digits of a digest in the table.
const DIGITS: usize = 12;

/// The gateway, the admin token and the output format.
#[derive(Args)]
pub(crate) struct Gateway {
    /// Address of the gateway's metrics, such as http://127.0.0.1:9808 [default: gateway.metrics-listen]
    #[arg(long, value_name = "URL", env = "LRO_GATEWAY")]
    gateway: Option<String>,
    /// File with the admin token of the gateway [default: the variable LRO_ADMIN_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Whether a policy may be older than the current one.
#[derive(Args)]
struct Age {
    /// Take the policy even if its signature states an earlier version than that of the current one, or none
    #[arg(long)]
    allow_older: bool,
}

impl Age {
    /// The member of a request's query.
    fn query(&self) -> String {
        format!("allow-older={}", self.allow_older)
    }
}

/// List the policies of all tenants: version, digest, load time and problems
#[derive(Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    gateway: Gateway,
}

/// Load a component for a tenant; if it is refused, nothing changes
///
/// Of a file, also sends the signature FILE.minisig, if it exists. What is in a registry, the gateway pulls itself.
#[derive(Args)]
pub(crate) struct LoadArguments {
    /// The tenant
    tenant: String,
    /// The component: a file, or `oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]`
    #[arg(value_name = "FILE")]
    component: PathBuf,
    #[command(flatten)]
    age: Age,
    #[command(flatten)]
    gateway: Gateway,
}

/// Replace the policy of a tenant by one that the gateway knows by its digest
#[derive(Args)]
pub(crate) struct SwapArguments {
    /// The tenant
    tenant: String,
    /// SHA-256 of the component: the current one of another tenant, or a kept one of this tenant
    digest: Digest,
    #[command(flatten)]
    age: Age,
    #[command(flatten)]
    gateway: Gateway,
}

/// Replace the policy of a tenant by the previous one
#[derive(Args)]
pub(crate) struct RollbackArguments {
    /// The tenant
    tenant: String,
    #[command(flatten)]
    gateway: Gateway,
}

/// Reload the policy of a tenant from its file or registry
#[derive(Args)]
pub(crate) struct ReloadArguments {
    /// The tenant
    tenant: String,
    #[command(flatten)]
    age: Age,
    #[command(flatten)]
    gateway: Gateway,
}

pub(crate) fn list(arguments: &ListArguments, config: &Config) -> anyhow::Result<Exit> {
    let policies: Vec<PolicyStatus> = arguments.gateway.request(config, Method::GET, "", Vec::new(), None)?;
    if arguments.gateway.json {
        output::json(&policies)?;
        return Ok(Exit::Success);
    }
    for policy in policies {
        output::text(&format!("{}\n", line(&policy)))?;
    }
    Ok(Exit::Success)
}

pub(crate) fn load(arguments: &LoadArguments, config: &Config) -> anyhow::Result<Exit> {
    let LoadArguments { tenant, component, age, gateway } = arguments;
    let (tenant, age) = (percent_encoded(tenant), age.query());
    let path = match component.clone().try_into()? {
        PolicyPlace::File(path) => path,
        PolicyPlace::Registry(reference) => {
            let path = format!("/{tenant}?reference={}&{age}", percent_encoded(&reference.to_string()));
            return change(gateway, config, &path, Vec::new(), None);
        }
    };
    let bytes = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let mut signature = path.into_os_string();
    signature.push(SIGNATURE_SUFFIX);
    let signature = fs::read(signature).ok().map(|text| base64::engine::general_purpose::STANDARD.encode(text));
    let path = format!("/{tenant}?sha256={}&{age}", Digest::of(&bytes));
    change(gateway, config, &path, bytes, signature)
}

pub(crate) fn swap(arguments: &SwapArguments, config: &Config) -> anyhow::Result<Exit> {
    let SwapArguments { tenant, digest, age, gateway } = arguments;
    let path = format!("/{}/swap?sha256={digest}&{}", percent_encoded(tenant), age.query());
    change(gateway, config, &path, Vec::new(), None)
}

pub(crate) fn rollback(arguments: &RollbackArguments, config: &Config) -> anyhow::Result<Exit> {
    change(&arguments.gateway, config, &format!("/{}/rollback", percent_encoded(&arguments.tenant)), Vec::new(), None)
}

pub(crate) fn reload(arguments: &ReloadArguments, config: &Config) -> anyhow::Result<Exit> {
    let path = format!("/{}/reload?{}", percent_encoded(&arguments.tenant), arguments.age.query());
    change(&arguments.gateway, config, &path, Vec::new(), None)
}

fn change(
    gateway: &Gateway,
    config: &Config,
    path: &str,
    body: Vec<u8>,
    signature: Option<String>,
) -> anyhow::Result<Exit> {
    let change: Change = gateway.request(config, Method::POST, path, body, signature)?;
    if gateway.json {
        output::json(&change)?;
        return Ok(Exit::Success);
    }
    let version = change.version.map(|version| format!(", version {version}")).unwrap_or_default();
    output::text(&format!("{}{version}: {}\n", change.outcome, change.sha256))?;
    Ok(Exit::Success)
}

/// One line of the list.
fn line(policy: &PolicyStatus) -> String {
    let PolicyStatus { tenant, version, sha256, loaded, parked_ms, refusal, trial, .. } = policy;
    let mut text = match (version, sha256, loaded) {
        (Some(version), Some(sha256), Some(loaded)) => {
            let digits = sha256.get(..DIGITS).unwrap_or(sha256);
            format!("{tenant}  version {version}  {digits}  since {loaded}")
        }
        _ => format!("{tenant}  no policy"),
    };
    if let Some(left) = parked_ms {
        text.push_str(&format!("  parked for {left} ms"));
    }
    if let Some(refusal) = refusal {
        text.push_str(&format!("  last refusal: {}", output::printable(refusal)));
    }
    if let Some(TrialStatus { same, different, failed, state, .. }) = trial {
        text.push_str(&format!("  trial {state}: {same} the same, {different} different, {failed} failed"));
    }
    text
}

impl Gateway {
    fn request<T: DeserializeOwned>(
        &self,
        config: &Config,
        method: Method,
        path: &str,
        body: Vec<u8>,
        signature: Option<String>,
    ) -> anyhow::Result<T> {
        let url = match (&self.gateway, config.gateway.metrics_listen) {
            (Some(url), _) => url.trim_end_matches('/').to_owned(),
            (None, Some(address)) => format!("http://{address}"),
            (None, None) => bail!("no gateway given: use --gateway URL, LRO_GATEWAY or gateway.metrics-listen"),
        };
        let token = self.token()?;
        let sent = exchange::wait(async {
            let client = exchange::client().build()?;
            let mut request =
                client.request(method, format!("{url}{POLICIES_PATH}{path}")).bearer_auth(token).body(body);
            if let Some(signature) = signature {
                request = request.header(SIGNATURE_HEADER, signature);
            }
            let response: Response = request.send().await?;
            anyhow::Ok((response.status(), response.bytes().await?))
        });
        let (status, answer) =
            sent.with_context(|| format!("cannot reach {url} (--gateway URL, LRO_GATEWAY or gateway.metrics-listen)"))?;
        if status.is_success() {
            return serde_json::from_slice(&answer)
                .with_context(|| format!("unexpected answer from {url}: is it the metrics address of a gateway?"));
        }
        let error = serde_json::from_slice::<serde_json::Value>(&answer).ok();
        let error = error.and_then(|error| Some(output::printable(error.get("error")?.as_str()?).into_owned()));
        bail!("{}", error.unwrap_or_else(|| format!("{url} returned {status}: is gateway.admin-token set there?")))
    }

    fn token(&self) -> anyhow::Result<String> {
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
