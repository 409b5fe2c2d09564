//! Reads a text with `serde_json`, as reference.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The members of an object in order, duplicates included.
pub(crate) struct Members<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'a> Deserialize<'a> for Members<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct All;
        impl<'a> Visitor<'a> for All {
            type Value = Members<'a>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut found = Vec::new();
                while let Some(member) = map.next_entry()? {
                    found.push(member);
                }
                Ok(Members(found))
            }
        }
        deserializer.deserialize_map(All)
    }
}

impl<'a> Members<'a> {
    /// An object whose keys have no half surrogate pairs.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The value of the only member with this name.
    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        let mut found = self.0.iter().filter(|(key, _)| key == name);
        let (_, value) = found.next()?;
        found.next().is_none().then_some(value.get())
    }
}

/// Whether it is JSON by the grammar alone.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| serde_json::from_str::<&RawValue>(text).is_ok())
}

/// The value, if no string has half a surrogate pair and no object has two members of the same name: one that all
/// readers agree on.
pub(crate) fn strict(text: &str) -> Option<Value> {
    match text.trim_start().as_bytes().first()? {
        b'{' => {
            let Members(members) = Members::of(text)?;
            let mut names = HashSet::new();
            let member = |(name, value): (String, &RawValue)| {
                names.insert(name.clone()).then(|| Some((name, strict(value.get())?))).flatten()
            };
            members.into_iter().map(member).collect::<Option<_>>().map(Value::Object)
        }
        b'[' => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            elements.into_iter().map(|element| strict(element.get())).collect::<Option<_>>().map(Value::Array)
        }
        _ => serde_json::from_str(text).ok(),
    }
}

/// The value at a path of keys.
pub(crate) fn find<'a>(text: &'a str, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(text, |text, key| Members::of(text)?.get(key))
}
