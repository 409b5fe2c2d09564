//! The settings of a request: a JSON object with the keys of `docs/reference/settings.md`.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroU64};

use lro_contract::settings::{Bounds, FailureMode, PolicySettings, Size, SizeUnit, preset};
use lro_mcp::SchemaChange;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::bindings::exports::lro::adapter::filter::Error;

/// Most bytes of a value that an error quotes.
const QUOTED_BYTES_MAX: usize = 80;

/// The settings of a request.
pub(crate) struct Settings {
    pub(crate) policy: PolicySettings,
    pub(crate) failure: FailureMode,
    pub(crate) schema: SchemaChange,
    pub(crate) bounds: Bounds,
}

impl Settings {
    /// Reads them. Absent keys have their defaults.
    pub(crate) fn parse(json: &str) -> Result<Self, Error> {
        let given: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(json).map_err(|error| Error::Settings(format!("expected a JSON object: {error}")))?;
        let mut policy = PolicySettings::default();
        let (mut failure, mut schema, mut bounds) = (FailureMode::default(), SchemaChange::Widen, Bounds::default());
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
                "schema" => schema = value.schema()?,
                "limits" => bounds = value.read()?,
                _ => return Err(Error::Settings(format!("`{key}` is not a setting"))),
            }
        }
        let named = named.unwrap_or(policy.threshold);
        let size = |amount| Size { amount, unit: unit.unwrap_or(named.unit) };
        policy.threshold = size(threshold.unwrap_or(named.amount));
        policy.truncate_limit = size(truncate_limit.unwrap_or(policy.threshold.amount));
        Ok(Self { policy, failure, schema, bounds })
    }
}

/// The value of a key.
struct Value<'a> {
    key: &'a str,
    json: &'a RawValue,
}

impl Value<'_> {
    fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(self.json.get()).map_err(|error| self.invalid(&without_place(&error)))
    }

    fn preset(&self) -> Result<Size, Error> {
        preset(&self.read::<String>()?).ok_or_else(|| self.invalid("expected `1600-tokens` or `25k`"))
    }

    /// The change of output schemas. The other strategies of the gateway need what it remembers of a server.
    fn schema(&self) -> Result<SchemaChange, Error> {
        match self.read::<String>()?.as_str() {
            "rewrite" => Ok(SchemaChange::Widen),
            "strip" => Ok(SchemaChange::Remove),
            _ => Err(self.invalid("expected `rewrite` or `strip`")),
        }
    }

    fn invalid(&self, why: &str) -> Error {
        let found = lro_contract::text::one_line(self.json.get(), QUOTED_BYTES_MAX);
        Error::Settings(format!("`{}` is {found}: {why}", self.key))
    }
}

/// The message without line and column, which mean nothing to whoever gave the value in another form.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}
