//! Arguments of tools that the gateway fills in and caps: the table `arguments` of a tool.

use std::collections::BTreeMap;

use lro_host::mcp::ArgumentRule;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};

use super::layers::key_text;
use super::{Config, Problem};

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

impl ArgumentSettings {
    /// The defaults above their maximum: the name of the argument, and both.
    fn excessive(&self) -> impl Iterator<Item = (&String, f64, f64)> {
        self.default.iter().filter_map(|(name, value)| {
            let (value, most) = (value.as_f64()?, self.max.get(name)?.as_f64()?);
            (value > most).then_some((name, value, most))
        })
    }
}

impl Config {
    /// The defaults of arguments above their maximum, which may be in another layer.
    pub(super) fn argument_problems(&self) -> Vec<Problem> {
        let of_tools = self.tools.iter().filter_map(|(pattern, tool)| Some((pattern, tool.arguments.as_ref()?)));
        let of_each = of_tools.flat_map(|(pattern, arguments)| {
            arguments.excessive().map(move |(name, value, most)| {
                let key = key_text(&["tools", pattern, "arguments", "default", name].map(str::to_owned));
                let message = format!("the default of the argument `{name}`, {value}, is above its maximum, {most}");
                Problem::new(&key, value, self.origin(&key), message)
            })
        });
        of_each.collect()
    }

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
