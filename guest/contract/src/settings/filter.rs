//! The settings of a composed component: a JSON object with the keys of `docs/reference/settings.md`.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{Bounds, FailureMode, PolicySettings, Size, SizeUnit, preset};
use crate::text::one_line;

/// Most bytes of a value that an error quotes.
const QUOTED_BYTES_MAX: usize = 80;

/// What a composed component takes in place of a configuration.
#[derive(Clone, Debug)]
pub struct FilterSettings {
    /// Those of the policy.
    pub policy: PolicySettings,
    /// What a client gets when the policy fails.
    pub failure: FailureMode,
    /// Whether tools lose their output schemas, which are widened otherwise.
    pub strips_schemas: bool,
    /// What the policy may write.
    pub bounds: Bounds,
}

impl FilterSettings {
    /// Reads them. Absent keys have their defaults.
    ///
    /// # Errors
    /// What is wrong with them, for whoever wrote them.
    pub fn parse(json: &str) -> Result<Self, String> {
        let given: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(json).map_err(|error| format!("expected a JSON object: {error}"))?;
        let mut policy = PolicySettings::default();
        let (mut failure, mut strips_schemas, mut bounds) = (FailureMode::default(), false, Bounds::default());
        let (mut threshold, mut unit, mut named) = (None, None, None);
        let mut truncate_limit = None;
        for (key, json) in &given {
            let value = Value { key, json };
            match key.as_str() {
                "mode" => policy.mode = value.read()?,
                "threshold" => threshold = Some(value.read::<NonZeroU64>()?.get()),
                "unit" => unit = Some(value.read::<SizeUnit>()?),
                "preset" => named = Some(value.preset()?),
                "action" => policy.action = value.read()?,
                "sections" => policy.sections = value.read()?,
                "inline-keys" => policy.inline_keys = value.read()?,
                "inline-limit" => policy.inline_limit = value.read()?,
                "infer" => policy.infer = value.read()?,
                "header-type" => policy.header_type = value.read()?,
                "session-key" => policy.session_key = Some(value.read()?),
                "level" => policy.level = value.read()?,
                "dialect" => policy.dialect = value.read()?,
                "descriptor-limit" => policy.descriptor_limit = value.read::<NonZeroU32>()?.get(),
                "truncate-limit" => truncate_limit = Some(value.read::<NonZeroU64>()?.get()),
                "truncate-suffix" => policy.truncate_suffix = value.read()?,
                "advice" => policy.advice = value.read()?,
                "images" => policy.images = value.read()?,
                "images-max" => policy.images_max = value.read()?,
                "images-bytes" => policy.images_bytes = value.read()?,
                "custom" => policy.custom = Some(value.read()?),
                "failure" => failure = value.read()?,
                "schema" => strips_schemas = value.strips_schemas()?,
                "limits" => bounds = value.read()?,
                _ => return Err(format!("`{}` is not a setting", one_line(key, QUOTED_BYTES_MAX))),
            }
        }
        let named = named.unwrap_or(policy.threshold);
        let size = |amount| Size { amount, unit: unit.unwrap_or(named.unit) };
        policy.threshold = size(threshold.unwrap_or(named.amount));
        policy.truncate_limit = size(truncate_limit.unwrap_or(policy.threshold.amount));
        Ok(Self { policy, failure, strips_schemas, bounds })
    }
}

/// The value of a key.
struct Value<'a> {
    key: &'a str,
    json: &'a RawValue,
}

impl Value<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_str(self.json.get()).map_err(|error| self.invalid(&without_place(&error)))
    }

    fn preset(&self) -> Result<Size, String> {
        preset(&self.read::<String>()?).ok_or_else(|| self.invalid("expected `1600-tokens` or `25k`"))
    }

    /// The change of output schemas. The other strategies of the gateway need what it remembers of a server.
    fn strips_schemas(&self) -> Result<bool, String> {
        match self.read::<String>()?.as_str() {
            "rewrite" => Ok(false),
            "strip" => Ok(true),
            _ => Err(self.invalid("expected `rewrite` or `strip`")),
        }
    }

    fn invalid(&self, why: &str) -> String {
        let found = one_line(self.json.get(), QUOTED_BYTES_MAX);
        format!("`{}` is {found}: {why}", self.key)
    }
}

/// The message without line and column, which mean nothing to whoever gave the value in another form.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}
