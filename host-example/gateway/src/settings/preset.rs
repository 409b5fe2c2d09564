//! Named thresholds.

use serde::{Deserialize, Serialize};

use super::{Size, SizeUnit};

/// A named threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preset {
    /// 1,600 tokens.
    #[serde(rename = "1600-tokens")]
    Tokens1600,
    /// 25,000 tokens, about 60,000 characters of JSON.
    #[serde(rename = "25k")]
    Tokens25000,
}

impl Preset {
    /// The threshold that this preset sets.
    pub fn size(self) -> Size {
        match self {
            Self::Tokens1600 => Size { amount: 1_600, unit: SizeUnit::Tokens },
            Self::Tokens25000 => Size { amount: 25_000, unit: SizeUnit::Tokens },
        }
    }
}
