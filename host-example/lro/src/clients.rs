//! `lro clients`: what clients can take, and where each figure comes from.

use clap::Args;
use lro_gateway::parts;
use lro_gateway::settings::{ClientProfile, Config, KNOWN_CLIENTS, KnownClient};
use lro_gateway::status::live;
use lro_host::store::Store;
use serde::Serialize;
use serde_json::Value;

use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "Examples:
  lro clients
  lro clients codex-mcp-client
  lro clients --connected --config lro.toml
  lro clients --json | jq -r '.[] | select(.profile.\"text-limit\") | .client'";

/// Show what clients can take, and where each figure comes from
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of a client as it sends it, optionally with a slash and its version: what holds for it, with the configuration
    #[arg(value_name = "NAME[/VERSION]", conflicts_with = "connected")]
    name: Option<String>,
    /// What holds for the clients that last introduced themselves to the running gateways of this directory (--dir)
    #[arg(long)]
    connected: bool,
    /// Print one line of JSON: a list of {client, pattern, profile, source}, with {name, version} for clients by name
    #[arg(long)]
    json: bool,
}

/// A client by the name that it sends.
#[derive(Serialize)]
struct Named {
    name: String,
    version: String,
    client: Option<&'static str>,
    pattern: Option<&'static str>,
    profile: ClientProfile,
    source: Option<&'static str>,
}

impl Named {
    fn new(config: &Config, name: &str, version: &str) -> Self {
        let known = KnownClient::find(name, version);
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            client: known.map(|known| known.client),
            pattern: known.map(|known| known.pattern),
            profile: config.for_client(name, version),
            source: known.map(|known| known.source),
        }
    }

    fn text(&self) -> anyhow::Result<String> {
        let known = self.client.unwrap_or("an unknown client");
        let name = format!("{} {}", self.name, self.version);
        entry(&format!("{}: {known}", name.trim_end()), &self.profile, self.source.unwrap_or_default())
    }
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> anyhow::Result<Exit> {
    let named = match (&arguments.name, arguments.connected) {
        (Some(name), _) => {
            let (name, version) = name_and_version(name);
            vec![Named::new(config, name, version)]
        }
        (None, true) => {
            let gateways = live(&Store::open_unswept(parts::store_config(config))?)?;
            let clients = gateways.iter().filter_map(|gateway| gateway.client.as_deref()?.rsplit_once(' '));
            clients.map(|(name, version)| Named::new(config, name, version)).collect()
        }
        (None, false) if arguments.json => {
            output::json(&KNOWN_CLIENTS)?;
            return Ok(Exit::Success);
        }
        (None, false) => {
            let entries = KNOWN_CLIENTS
                .iter()
                .map(|known| entry(&format!("{}: {}", known.pattern, known.client), known.profile, known.source));
            output::text(&entries.collect::<anyhow::Result<String>>()?)?;
            return Ok(Exit::Success);
        }
    };
    if arguments.json {
        output::json(&named)?;
    } else if named.is_empty() {
        output::text("no client has introduced itself to a running gateway\n")?;
    } else {
        output::text(&named.iter().map(Named::text).collect::<anyhow::Result<String>>()?)?;
    }
    Ok(Exit::Success)
}

/// Name and version of a client; without a version, that is empty.
pub(crate) fn name_and_version(text: &str) -> (&str, &str) {
    // A name may have slashes itself; a version begins with a digit.
    let is_version = |version: &str| version.starts_with(|first: char| first.is_ascii_digit());
    text.rsplit_once('/').filter(|(_, version)| is_version(version)).unwrap_or((text, ""))
}

/// The key of the unit of an amount.
fn unit_key(key: &str) -> String {
    match key {
        "threshold" => "unit".to_owned(),
        key => format!("{}-unit", key.trim_end_matches("-limit")),
    }
}

/// A heading, what is known as it stands in a configuration, and the source.
fn entry(heading: &str, profile: &impl Serialize, source: &str) -> anyhow::Result<String> {
    let mut text = format!("{}\n", output::printable(heading.trim()));
    if let Value::Object(members) = serde_json::to_value(profile)? {
        // In a configuration, an amount and its unit are two keys, and the tokenizer is not a setting of a client.
        for (key, value) in members.into_iter().filter(|(key, value)| !value.is_null() && key != "tokenizer") {
            text += &match (&value["amount"], &value["unit"]) {
                (Value::Null, _) => format!("  {key} = {value}\n"),
                (amount, unit) => format!("  {key} = {amount}\n  {} = {unit}\n", unit_key(&key)),
            };
        }
    }
    if !source.is_empty() {
        text += &format!("  {source}\n");
    }
    Ok(text)
}
