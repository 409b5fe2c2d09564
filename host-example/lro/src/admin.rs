//! `lro policy list | load | swap | rollback | reload`: the policies of a running gateway.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};
use base64::Engine;
use clap::Args;
use lro_gateway::settings::{Config, PolicyPlace};
use lro_gateway::{Change, PolicyStatus, TrialStatus, begins_digest};
use lro_host::mcp::percent_encoded;
use lro_host::policy::{Digest, SIGNATURE_SUFFIX};
use reqwest::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::exit::Exit;
use crate::output;
use crate::replicas::{Gateways, Question};

/// Digits of a digest in the table.
const DIGITS: usize = 12;

/// The gateways, and the output format.
#[derive(Args)]
pub(crate) struct Gateway {
    #[command(flatten)]
    gateways: Gateways,
    /// Print JSON; of several gateways, a list of {"gateway", "answer", "error"}
    #[arg(long)]
    json: bool,
}

/// What one of several gateways answered.
#[derive(Serialize)]
struct Answered<T> {
    gateway: String,
    answer: Option<T>,
    error: Option<String>,
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
    /// SHA-256 of the component, or its first digits, at least 8: the current one of another tenant, or one that is kept
    /// (policy-keep)
    #[arg(value_parser = digits)]
    digest: String,
    #[command(flatten)]
    age: Age,
    #[command(flatten)]
    gateway: Gateway,
}

/// Replace the policy of a tenant by the previous one, which a gateway with policy-keep has
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

/// Reads the first digits of a SHA-256.
fn digits(text: &str) -> Result<String, &'static str> {
    let digits = text.trim_start_matches("sha256:");
    begins_digest(digits).then(|| digits.to_owned()).ok_or("expected 8 to 64 hexadecimal digits")
}

pub(crate) fn list(arguments: &ListArguments, config: &Config) -> anyhow::Result<Exit> {
    let question = Question { method: Method::GET, path: String::new(), body: Vec::new(), signature: None };
    let lines = |policies: &Vec<PolicyStatus>| policies.iter().map(line).collect();
    let Some(answered) = ask(&arguments.gateway, config, &question, lines)? else { return Ok(Exit::Success) };
    let differing = differing(answered.iter().filter_map(|replica| replica.answer.as_ref()));
    if !differing.is_empty() {
        bail!("the gateways have different policies of {}", differing.join(", "));
    }
    all_answered(&answered)
}

pub(crate) fn load(arguments: &LoadArguments, config: &Config) -> anyhow::Result<Exit> {
    let LoadArguments { tenant, component, age, gateway } = arguments;
    let (tenant, age) = (percent_encoded(tenant), age.query());
    let path = match component.clone().try_into()? {
        PolicyPlace::File(path) => path,
        PolicyPlace::Registry(reference) => {
            let path = format!("/{tenant}?reference={}&{age}", percent_encoded(&reference.to_string()));
            return change(gateway, config, path, Vec::new(), None);
        }
    };
    let bytes = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    let mut signature = path.into_os_string();
    signature.push(SIGNATURE_SUFFIX);
    let signature = fs::read(signature).ok().map(|text| base64::engine::general_purpose::STANDARD.encode(text));
    let path = format!("/{tenant}?sha256={}&{age}", Digest::of(&bytes));
    change(gateway, config, path, bytes, signature)
}

pub(crate) fn swap(arguments: &SwapArguments, config: &Config) -> anyhow::Result<Exit> {
    let SwapArguments { tenant, digest, age, gateway } = arguments;
    let path = format!("/{}/swap?sha256={digest}&{}", percent_encoded(tenant), age.query());
    change(gateway, config, path, Vec::new(), None)
}

pub(crate) fn rollback(arguments: &RollbackArguments, config: &Config) -> anyhow::Result<Exit> {
    change(&arguments.gateway, config, format!("/{}/rollback", percent_encoded(&arguments.tenant)), Vec::new(), None)
}

pub(crate) fn reload(arguments: &ReloadArguments, config: &Config) -> anyhow::Result<Exit> {
    let path = format!("/{}/reload?{}", percent_encoded(&arguments.tenant), arguments.age.query());
    change(&arguments.gateway, config, path, Vec::new(), None)
}

fn change(
    gateway: &Gateway,
    config: &Config,
    path: String,
    body: Vec<u8>,
    signature: Option<String>,
) -> anyhow::Result<Exit> {
    let question = Question { method: Method::POST, path, body, signature };
    let lines = |change: &Change| {
        let version = change.version.map(|version| format!(", version {version}")).unwrap_or_default();
        vec![format!("{}{version}: {}", change.outcome, change.sha256)]
    };
    ask(gateway, config, &question, lines)?.map_or(Ok(Exit::Success), |answered| all_answered(&answered))
}

/// Asks one gateway and prints its answer; or each of several, of which it returns what they answered.
fn ask<T: DeserializeOwned + Serialize>(
    gateway: &Gateway,
    config: &Config,
    question: &Question,
    lines: impl Fn(&T) -> Vec<String>,
) -> anyhow::Result<Option<Vec<Answered<T>>>> {
    let Gateway { gateways, json } = gateway;
    let replicas = gateways.replicas(config)?;
    let token = gateways.token()?;
    if let ([replica], false) = (&replicas[..], gateways.all) {
        let answer: T = replica.answer(question, &token)?;
        match json {
            true => output::json(&answer)?,
            false => output::text(&lines(&answer).iter().map(|line| format!("{line}\n")).collect::<String>())?,
        }
        return Ok(None);
    }
    let mut answered = Vec::new();
    for replica in &replicas {
        let name = replica.url.clone();
        let (answer, error) = match replica.answer(question, &token) {
            Ok(answer) => (Some(answer), None),
            Err(error) => (None, Some(format!("{error:#}"))),
        };
        if !json {
            let lines = answer.as_ref().map(&lines).into_iter().flatten().chain(error.clone());
            output::text(&lines.map(|line| format!("{name}  {line}\n")).collect::<String>())?;
        }
        answered.push(Answered { gateway: name, answer, error });
    }
    if *json {
        output::json(&answered)?;
    }
    Ok(Some(answered))
}

/// Fails unless all of several gateways answered.
fn all_answered<T>(answered: &[Answered<T>]) -> anyhow::Result<Exit> {
    let failed = answered.iter().filter(|replica| replica.error.is_some()).count();
    match failed {
        0 => Ok(Exit::Success),
        _ => bail!("{failed} of {} gateways did not do it: see above; the others did", answered.len()),
    }
}

/// The tenants whose policies are not the same everywhere.
fn differing<'a>(lists: impl Iterator<Item = &'a Vec<PolicyStatus>>) -> Vec<&'a str> {
    let mut of_tenant: BTreeMap<&str, Vec<Option<&str>>> = BTreeMap::new();
    let mut count = 0;
    for policy in lists.inspect(|_| count += 1).flatten() {
        of_tenant.entry(&policy.tenant).or_default().push(policy.sha256.as_deref());
    }
    let is_same =
        |digests: &[Option<&str>]| digests.len() == count && digests.windows(2).all(|pair| pair[0] == pair[1]);
    of_tenant.iter().filter(|(_, digests)| !is_same(digests)).map(|(tenant, _)| *tenant).collect()
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
