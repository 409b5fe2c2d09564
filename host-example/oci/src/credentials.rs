//! User names and passwords, by registry.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use crate::reference::Reference;

/// Variables of the credentials of one registry.
const HOST: &str = "LRO_REGISTRY_HOST";
const USER: &str = "LRO_REGISTRY_USER";
const PASSWORD: &str = "LRO_REGISTRY_PASSWORD";

/// What the files call the registry `docker.io`.
const DOCKER_HUB: &str = "index.docker.io";

/// User names and passwords, by registry or by the beginning of a name there. `Debug` shows none of them.
#[derive(Clone, Default)]
pub struct Credentials(BTreeMap<String, Login>);

/// A user name and a password.
#[derive(Clone)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: String,
}

/// Why credentials cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// Some of the variables are missing.
    #[error("{HOST}, {USER} and {PASSWORD} belong together: set all of them, or none")]
    Variables,
    /// The file cannot be read.
    #[error("cannot read the credentials in `{path}`")]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The file is not one of docker or podman.
    #[error("cannot use the credentials in `{path}`: {reason}")]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong. It holds nothing of the file.
        reason: &'static str,
    },
}

/// A file of docker or podman.
#[derive(Deserialize)]
struct File {
    #[serde(default)]
    auths: BTreeMap<String, Auth>,
}

#[derive(Deserialize)]
struct Auth {
    /// `USER:PASSWORD` as base64. Missing where a credential helper has it.
    auth: Option<String>,
}

impl Credentials {
    /// Those in the variables `LRO_REGISTRY_HOST`, `LRO_REGISTRY_USER` and `LRO_REGISTRY_PASSWORD`, which are for that host
    /// alone, and those in the `auths` of the first of these files that exists: `$REGISTRY_AUTH_FILE`,
    /// `$DOCKER_CONFIG/config.json`, `$HOME/.docker/config.json`, `$XDG_RUNTIME_DIR/containers/auth.json`.
    ///
    /// # Errors
    /// When only some of the variables are set, or the file cannot be read.
    pub fn load(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, CredentialsError> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let path = |name: &str, below: &str| variable(name).map(|path| PathBuf::from(path).join(below));
        let named = variable("REGISTRY_AUTH_FILE").map(PathBuf::from);
        let files = [
            path("DOCKER_CONFIG", "config.json").or_else(|| path("HOME", ".docker/config.json")),
            path("XDG_RUNTIME_DIR", "containers/auth.json"),
        ];
        let file = named.or_else(|| files.into_iter().flatten().find(|file| file.exists()));
        let mut all = file.map(|file| Self::read(&file)).transpose()?.unwrap_or_default();
        let text = |name: &str| variable(name).and_then(|value| value.into_string().ok());
        match (text(HOST), text(USER), text(PASSWORD)) {
            (Some(host), Some(user), Some(password)) => drop(all.0.insert(host, Login { user, password })),
            (None, None, None) => {}
            _ => return Err(CredentialsError::Variables),
        }
        Ok(all)
    }

    fn read(path: &Path) -> Result<Self, CredentialsError> {
        let text = fs::read(path).map_err(|source| CredentialsError::Read { path: path.to_owned(), source })?;
        let wrong = |reason| CredentialsError::Format { path: path.to_owned(), reason };
        let file: File = serde_json::from_slice(&text).map_err(|_| wrong("it is not JSON with a table `auths`"))?;
        let mut all = BTreeMap::new();
        for (registry, auth) in file.auths {
            let Some(encoded) = auth.auth.filter(|auth| !auth.is_empty()) else { continue };
            let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let (user, password) = decoded
                .as_deref()
                .and_then(|text| text.split_once(':'))
                .ok_or_else(|| wrong("an `auth` in it is not USER:PASSWORD as base64"))?;
            all.insert(normal(&registry), Login { user: user.to_owned(), password: password.to_owned() });
        }
        Ok(Self(all))
    }

    /// The credentials for an artifact: those of the longest beginning of its name, else those of its registry.
    pub(crate) fn of(&self, reference: &Reference) -> Option<&Login> {
        let registry = if reference.registry == "docker.io" { DOCKER_HUB } else { &reference.registry };
        let whole = format!("{registry}/{}", reference.name);
        let ends = whole.match_indices('/').map(|(at, _)| at).chain([whole.len()]);
        let mut beginnings: Vec<&str> = ends.filter_map(|end| whole.get(..end)).collect();
        beginnings.reverse();
        beginnings.into_iter().find_map(|beginning| self.0.get(beginning))
    }
}

/// A key of the files, which may be a URL.
fn normal(key: &str) -> String {
    let key = key.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    key.trim_end_matches("/v1").trim_end_matches("/v2").to_owned()
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(credentials: &Credentials, reference: &str) -> Option<String> {
        credentials.of(&reference.parse().unwrap()).map(|login| format!("{}:{}", login.user, login.password))
    }

    #[test]
    fn credentials_are_for_the_registry_they_name() {
        let path = std::env::temp_dir().join(format!("lro-oci-auths-{}.json", std::process::id()));
        let auth = |text: &str| STANDARD.encode(text);
        let file = serde_json::json!({ "auths": {
            "https://index.docker.io/v1/": { "auth": auth("hub:a:b") },
            "127.0.0.1:5000": { "auth": auth("all:1") },
            "127.0.0.1:5000/team": { "auth": auth("team:2") },
            "helped.example.com": {},
        }, "credsStore": "desktop" });
        fs::write(&path, file.to_string()).unwrap();
        let variables =
            [("REGISTRY_AUTH_FILE", path.to_str().unwrap()), (HOST, "ghcr.io"), (USER, "me"), (PASSWORD, "x")];
        let variable =
            |name: &str| variables.iter().find(|(it, _)| *it == name).map(|(_, value)| OsString::from(value));
        let credentials = Credentials::load(variable).unwrap();
        for (reference, expected) in [
            ("oci://docker.io/user/policy", Some("hub:a:b")),
            ("oci://127.0.0.1:5000/policy", Some("all:1")),
            ("oci://127.0.0.1:5000/team/policy", Some("team:2")),
            ("oci://127.0.0.1:5000/teams/policy", Some("all:1")),
            ("oci://127.0.0.1:5001/policy", None),
            ("oci://ghcr.io/policy", Some("me:x")),
            ("oci://helped.example.com/policy", None),
        ] {
            assert_eq!(user(&credentials, reference).as_deref(), expected, "{reference}");
        }
        assert!(!format!("{credentials:?}").contains("me"), "{credentials:?}");

        let partly = Credentials::load(|name| (name == USER).then(|| "me".into()));
        assert!(matches!(partly, Err(CredentialsError::Variables)));
        fs::write(&path, r#"{"auths":{"a":{"auth":"c2VjcmV0"}}}"#).unwrap();
        let error = Credentials::load(variable).unwrap_err();
        assert!(matches!(error, CredentialsError::Format { .. }) && !error.to_string().contains("secret"), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(matches!(Credentials::load(variable), Err(CredentialsError::Read { .. })));
        assert!(user(&Credentials::load(|_| None).unwrap(), "oci://ghcr.io/a").is_none());
    }
}
