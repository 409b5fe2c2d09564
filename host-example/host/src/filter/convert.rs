//! Converts settings into types of the contract, and a policy's answers into types of the store.

use super::Truncation;

lro_contract::conversions!(crate::sandbox::types);

impl From<types::Truncation> for Truncation {
    fn from(truncation: types::Truncation) -> Self {
        Self { limit: truncation.limit.into(), suffix: truncation.suffix }
    }
}
