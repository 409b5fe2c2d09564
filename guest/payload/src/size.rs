//! Sizes of results and of their replacements.

use serde::{Deserialize, Serialize};

/// Unit of a size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizeUnit {
    /// Bytes of UTF-8.
    Bytes,
    /// Unicode scalar values.
    #[default]
    Characters,
    /// Estimated tokens.
    Tokens,
}

impl SizeUnit {
    /// Its name in settings, logs and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Characters => "characters",
            Self::Tokens => "tokens",
        }
    }
}

/// A size with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Number of units; at least 1.
    pub amount: u64,
    /// The unit.
    pub unit: SizeUnit,
}
