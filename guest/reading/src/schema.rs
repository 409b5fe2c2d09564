//! What the manifest knows about the fields of a section: the JSON Schema of a line.

use serde_json::Value;
use serde_json::value::RawValue;

/// The schema of a section.
#[derive(Debug, Default)]
pub(crate) struct Schema(Value);

/// The JSON types of a field, other than null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Types {
    pub(crate) strings: bool,
    pub(crate) numbers: bool,
    pub(crate) booleans: bool,
    pub(crate) arrays: bool,
    pub(crate) objects: bool,
}

impl Schema {
    /// A section without a schema has one that knows nothing.
    pub(crate) fn new(schema: Option<&RawValue>) -> Self {
        Self(schema.and_then(|schema| serde_json::from_str(schema.get()).ok()).unwrap_or_default())
    }

    /// Whether some record has a value at these keys.
    pub(crate) fn has(&self, keys: &[String]) -> bool {
        self.node(keys).is_some()
    }

    /// The types of the values at these keys, if the schema says them.
    pub(crate) fn types(&self, keys: &[String]) -> Option<Types> {
        let named = self.node(keys)?.get("type")?;
        let names = named.as_array().map_or(std::slice::from_ref(named), Vec::as_slice);
        let mut types = Types::default();
        for name in names {
            match name.as_str()? {
                "string" => types.strings = true,
                "number" | "integer" => types.numbers = true,
                "boolean" => types.booleans = true,
                "array" => types.arrays = true,
                "object" => types.objects = true,
                _ => {}
            }
        }
        Some(types)
    }

    fn node(&self, keys: &[String]) -> Option<&Value> {
        keys.iter().try_fold(&self.0, |node, key| {
            let property = node.get("properties").and_then(|properties| properties.get(key));
            let is_index = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_digit());
            property.or_else(|| node.get("items").filter(|_| is_index))
        })
    }
}

impl Types {
    /// The names of the types, such as `numbers and strings`.
    pub(crate) fn names(self) -> String {
        let all = [
            (self.numbers, "numbers"),
            (self.strings, "strings"),
            (self.booleans, "booleans"),
            (self.arrays, "arrays"),
            (self.objects, "objects"),
        ];
        let names: Vec<&str> = all.iter().filter(|(there, _)| *there).map(|(_, name)| *name).collect();
        if names.is_empty() { "only null".to_owned() } else { names.join(" and ") }
    }
}
