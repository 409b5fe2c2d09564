//! What becomes of large resources.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::patterns::{matches, most_specific};

/// What becomes of an answer to `resources/read`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceMode {
    /// It passes byte for byte.
    #[default]
    Pass,
    /// The policy decides, as about the result of a tool `resources/read`.
    Offload,
    /// One above the threshold of a tool `resources/read` becomes an error.
    Refuse,
}

/// Settings of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ResourceSettings {
    /// What becomes of a large resource. Default: `pass`.
    pub mode: ResourceMode,
    /// Modes by URI. `*` matches any characters; the longest matching pattern applies. Default: none.
    pub uris: BTreeMap<String, ResourceMode>,
}

impl ResourceSettings {
    /// The mode of a resource.
    pub fn mode(&self, uri: &str) -> ResourceMode {
        let uris = self.uris.iter().map(|(pattern, mode)| (pattern.as_str(), *mode));
        most_specific(uris, |pattern| matches(pattern, uri)).unwrap_or(self.mode)
    }
}
