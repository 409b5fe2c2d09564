//! What share of a model's context window results may take, and how its tokens are counted.

use std::num::NonZeroU64;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::patterns::{matches, most_specific};
use super::{ClientProfile, Config, Size, SizeUnit, Tokenizer, within};

/// Default of [`ModelSettings::result_share`].
const RESULT_SHARE_DEFAULT: u64 = 10;

/// The context window and the tokenizer of the models of one pattern, and the shares of results in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ModelSettings {
    /// How tokens are counted for these models. Default: [`Config::tokenizer`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokenizer: Option<Tokenizer>,
    /// Size of the context window, in tokens. Without it the shares have no effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<NonZeroU64>,
    /// What one result may take of the window, in percent from 1 to 100. Default: 10.
    #[serde(default = "default_share", deserialize_with = "percent")]
    pub result_share: u64,
    /// What all results of a session may take of the window, in percent from 1 to 100, as
    /// [`GatewaySettings::session_budget`](super::GatewaySettings::session_budget), of which the smaller holds. Default: none.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_percent")]
    pub session_share: Option<u64>,
}

fn default_share() -> u64 {
    RESULT_SHARE_DEFAULT
}

fn percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let percent = u64::deserialize(deserializer)?;
    if (1..=100).contains(&percent) { Ok(percent) } else { Err(D::Error::custom("expected 1 to 100 percent")) }
}

fn some_percent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    percent(deserializer).map(Some)
}

impl ModelSettings {
    /// A share of the window in tokens, at least 1.
    fn tokens(&self, percent: u64) -> Option<u64> {
        let share = u128::from(self.window?.get()) * u128::from(percent) / 100;
        Some(u64::try_from(share).unwrap_or(u64::MAX).max(1))
    }
}

impl Config {
    /// The profile of a client with the tokenizer and the share of its model, by the most specific pattern of [`Config::models`]; the empty name
    /// stands for a model that the client does not tell.
    pub fn for_client_and_model(&self, name: &str, version: &str, model: &str) -> ClientProfile {
        let mut client = self.for_client(name, version);
        let models = self.models.iter().map(|(pattern, model)| (pattern.as_str(), model));
        let Some(model) = most_specific(models, |pattern| matches(pattern, model)) else { return client };
        client.tokenizer = model.tokenizer.unwrap_or(client.tokenizer);
        let Some(amount) = model.tokens(model.result_share) else { return client };
        let share = Size { amount, unit: SizeUnit::Tokens };
        let text_limit = client.text_limit.map_or(share, |limit| within(limit, Some(share)));
        let session_budget = model.session_share.and_then(|percent| model.tokens(percent));
        ClientProfile { text_limit: Some(text_limit), session_budget, ..client }
    }

    /// Whether what a session receives inline counts.
    pub(crate) fn has_budgets(&self) -> bool {
        self.gateway.session_budget.is_some() || self.models.values().any(|model| model.session_share.is_some())
    }
}
