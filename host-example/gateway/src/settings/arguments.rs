//! Arguments of tools that the gateway fills in and caps: the table `arguments` of a tool.

use std::collections::BTreeMap;

use lro_host::mcp::ArgumentRule;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};

use super::Config;

/// What becomes of the arguments of a call, by their top-level names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ArgumentSettings {
    /// Values of arguments that a call does not have, or has as null.
    pub default: BTreeMap<String, Value>,
    /// The greatest numbers that arguments may be; a greater one becomes this.
    pub max: BTreeMap<String, Number>,
}

impl<'de> Deserialize<'de> for ArgumentSettings {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
        #[derive(Default)]
        struct Tables {
            default: BTreeMap<String, Value>,
            max: BTreeMap<String, Number>,
        }
        let Tables { default, max } = Tables::deserialize(deserializer)?;
        for (name, value) in &default {
            if has_no_json(value) {
                return Err(D::Error::custom(format!("the default of the argument `{name}` is not JSON")));
            }
            let numbers = value.as_f64().zip(max.get(name).and_then(Number::as_f64));
            if let Some((value, most)) = numbers.filter(|(value, most)| value > most) {
                return Err(D::Error::custom(format!(
                    "the default of the argument `{name}`, {value}, is above its maximum, {most}"
                )));
            }
        }
        Ok(Self { default, max })
    }
}

/// Whether a value is, or holds, a null: in TOML it was a number that JSON does not have.
fn has_no_json(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.iter().any(has_no_json),
        Value::Object(members) => members.values().any(has_no_json),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

impl Config {
    /// Whether arguments of some tools are filled in or capped.
    pub(crate) fn has_argument_rules(&self) -> bool {
        self.tools.values().any(|tool| tool.arguments.is_some())
    }

    /// What becomes of the arguments of a tool.
    pub(crate) fn argument_rules(&self, tool: &str) -> Vec<ArgumentRule> {
        let Some(ArgumentSettings { default, max }) = self.tool_override(tool).and_then(|own| own.arguments.as_ref())
        else {
            return Vec::new();
        };
        let others = max.keys().filter(|name| !default.contains_key(*name));
        let rule = |name: &String| ArgumentRule {
            name: name.clone(),
            default: default.get(name).map(ToString::to_string),
            max: max.get(name).map(ToString::to_string),
        };
        default.keys().chain(others).map(rule).collect()
    }
}
