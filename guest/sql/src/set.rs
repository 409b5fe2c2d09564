//! The values of an IN.

use std::collections::HashSet;

use crate::Value;
use crate::value::number;

/// The values of a list or of a subquery.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    /// Keys of the values.
    keys: HashSet<Box<[u8]>>,
    /// Keys of the numbers that the texts in the list are.
    numbers: HashSet<Box<[u8]>>,
    has_null: bool,
}

impl Set {
    pub(crate) fn insert(&mut self, value: &Value) {
        if value.is_null() {
            self.has_null = true;
            return;
        }
        self.keys.insert(key(value));
        if let Some(number) = as_number(value) {
            self.numbers.insert(key(&number));
        }
    }

    /// Whether a value is in the list; `None` when that is unknown.
    pub(crate) fn contains(&self, value: &Value) -> Option<bool> {
        if self.keys.is_empty() && !self.has_null {
            return Some(false);
        }
        if value.is_null() {
            return None;
        }
        let has = self.keys.contains(&key(value))
            || value.rank() == Value::Integer(0).rank() && self.numbers.contains(&key(value))
            || as_number(value).is_some_and(|number| self.keys.contains(&key(&number)));
        if has { Some(true) } else { (!self.has_null).then_some(false) }
    }

    /// Bytes that holding a value more takes, at most.
    pub(crate) fn cost(value: &Value) -> usize {
        2 * value.size() + 128
    }
}

/// The number that a text is.
fn as_number(value: &Value) -> Option<Value> {
    match value {
        Value::Text(text) => number(text.trim()),
        _ => None,
    }
}

fn key(value: &Value) -> Box<[u8]> {
    let mut key = Vec::new();
    value.push_key(&mut key);
    key.into()
}
