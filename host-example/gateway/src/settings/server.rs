//! The environment of a server that the gateway starts.

use std::collections::BTreeSet;
use std::ffi::OsString;

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use super::patterns::matches;
use super::variables::VARIABLE_PREFIX;
use super::{Config, StorePlace, Token, UpstreamHeader};

/// Variables that a server gets if not all are passed, as patterns: paths of programs, home and files, language and
/// time, setup of Node and Python, and certificates. None of them usually holds a secret, as those for proxies and
/// package indexes do.
pub const SERVER_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TZ",
    "TERM",
    "NO_COLOR",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_ENV",
    "NODE_EXTRA_CA_CERTS",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NPM_CONFIG_CACHE",
    "NPM_CONFIG_PREFIX",
    "npm_config_cache",
    "npm_config_prefix",
    "CONDA_PREFIX",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "PYTHONHOME",
    "PYTHONIOENCODING",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
    "UV_CACHE_DIR",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
];

/// Variables that a server gets on Windows in addition, for the same reasons.
const WINDOWS_VARIABLES: &[&str] = &[
    "APPDATA",
    "COMSPEC",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "PROGRAMDATA",
    "PROGRAMFILES",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "USERNAME",
    "USERPROFILE",
    "WINDIR",
];

/// Prefixes of the gateway's own variables, which no server gets.
const OWN_PREFIXES: [&str; 2] = [VARIABLE_PREFIX, "LRO_"];

/// Headers for a collector of traces, which usually have its token: a server gets them only by name.
const COLLECTOR_HEADERS: [&str; 2] = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"];

/// The environment of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEnvironment {
    /// The variables that the server gets.
    pub variables: Vec<(OsString, OsString)>,
    /// Names of the variables that the server does not get and [`GatewaySettings::env`](super::GatewaySettings::env)
    /// could pass, in alphabetical order.
    pub withheld: Vec<String>,
}

impl Config {
    /// Selects the variables that a server gets from an environment, usually [`std::env::vars_os`]. It never gets the
    /// settings of the gateway or the variables that they name as `env:NAME`, and those of a cloud whose bucket has the
    /// offloads of all tenants and the headers for a collector of traces only by name.
    pub fn server_environment(&self, environment: impl IntoIterator<Item = (OsString, OsString)>) -> ServerEnvironment {
        let secrets = self.secret_variables();
        let passes_all = self.gateway.env_all.unwrap_or(self.gateway.listen.is_none());
        let of_system = if cfg!(windows) { WINDOWS_VARIABLES } else { &[] };
        let of_bucket = self.store.as_ref().and_then(StorePlace::variables);
        let own = self.gateway.env.iter().map(String::as_str);
        let patterns: Vec<String> =
            SERVER_VARIABLES.iter().chain(of_system).copied().chain(own).map(comparable).collect();
        let (mut variables, mut withheld) = (Vec::new(), BTreeSet::new());
        for (name, value) in environment {
            let shown = name.to_string_lossy().into_owned();
            let compared = comparable(&shown);
            if secrets.contains(&compared) || OWN_PREFIXES.iter().any(|prefix| compared.starts_with(prefix)) {
                continue;
            }
            let is_secret = of_bucket.is_some_and(|prefix| compared.starts_with(prefix))
                || COLLECTOR_HEADERS.contains(&compared.as_str());
            let passes = passes_all && !is_secret;
            if passes || patterns.iter().any(|pattern| matches(pattern, &compared)) {
                variables.push((name, value));
            } else {
                withheld.insert(shown);
            }
        }
        ServerEnvironment { variables, withheld: withheld.into_iter().collect() }
    }

    /// The variables that hold secrets of the gateway.
    fn secret_variables(&self) -> BTreeSet<String> {
        let gateway = &self.gateway;
        let headers = gateway.upstream_headers.values().filter_map(|header| match header {
            UpstreamHeader::Variable(name) => Some(name),
            UpstreamHeader::Text(_) => None,
        });
        let tokens =
            gateway.tokens.values().chain(&gateway.admin_token).chain(&gateway.metrics_token).filter_map(|token| {
                match token {
                    Token::Variable(name) => Some(name),
                    Token::File(_) | Token::Sha256(_) => None,
                }
            });
        tokens.chain(headers).map(|name| comparable(name)).collect()
    }
}

/// The name of a variable, of which Windows ignores the case.
fn comparable(name: &str) -> String {
    if cfg!(windows) { name.to_ascii_uppercase() } else { name.to_owned() }
}

pub(super) fn env<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let patterns = Vec::<String>::deserialize(deserializer)?;
    match patterns.iter().find(|pattern| pattern.is_empty() || pattern.contains(['=', '\0'])) {
        Some(pattern) => {
            Err(D::Error::custom(format!("expected names of variables, optionally with `*`, not `{pattern}`")))
        }
        None => Ok(patterns),
    }
}

pub(super) fn user<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let user = String::deserialize(deserializer)?;
    let is_number = |id: &str| id.parse::<u32>().is_ok_and(|id| id < u32::MAX);
    let is_user = match user.split_once(':') {
        Some((uid, gid)) => is_number(uid) && is_number(gid),
        None => !user.is_empty() && !is_number(&user),
    };
    if is_user { Ok(Some(user)) } else { Err(D::Error::custom("expected the name of a user, or UID:GID")) }
}
