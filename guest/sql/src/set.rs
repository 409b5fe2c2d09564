//! The values of an IN.

use std::collections::HashSet;
use std::rc::Rc;

use crate::Value;
use crate::value::Rank;

/// The values of a list or of a subquery. One is in it when `=` finds it equal to one of them: as it is, as it is read beside
/// them, or as they are read beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Set {
    /// Keys of the values.
    keys: HashSet<Box<[u8]>>,
    /// Keys of what the values are read as beside others.
    readings: HashSet<Box<[u8]>>,
    /// The types of the values, as bits.
    ranks: u8,
    has_null: bool,
}

impl Set {
    pub(crate) fn insert(&mut self, value: &Value) {
        if value.is_null() {
            self.has_null = true;
            return;
        }
        let mut key = Vec::new();
        push_key(value, &mut key);
        self.keys.insert(key.as_slice().into());
        for reading in Rank::READ.iter().filter_map(|rank| value.read_as(*rank)) {
            key.clear();
            push_key(&reading, &mut key);
            self.readings.insert(key.as_slice().into());
        }
        self.ranks |= value.rank().bit();
    }

    /// Whether a value is in the list; `None` when that is unknown.
    pub(crate) fn contains(&self, value: &Value) -> Option<bool> {
        if self.keys.is_empty() && !self.has_null {
            return Some(false);
        }
        if value.is_null() {
            return None;
        }
        let mut key = Vec::new();
        push_key(value, &mut key);
        let has = self.keys.contains(key.as_slice())
            || self.readings.contains(key.as_slice())
            || self.has_reading(value, &mut key);
        if has { Some(true) } else { (!self.has_null).then_some(false) }
    }

    /// Whether it has what a value is read as beside the values.
    fn has_reading(&self, value: &Value, key: &mut Vec<u8>) -> bool {
        let ranks = Rank::READ.iter().filter(|rank| self.ranks & rank.bit() != 0);
        ranks.filter_map(|rank| value.read_as(*rank)).any(|reading| {
            key.clear();
            push_key(&reading, key);
            self.keys.contains(key.as_slice())
        })
    }

    /// Bytes that holding a value more takes, at most.
    pub(crate) fn cost(value: &Value) -> usize {
        2 * value.size() + 256
    }
}

fn push_key(value: &Value, key: &mut Vec<u8>) {
    match value {
        // Beside a text an array or object is its JSON.
        Value::Json(json) => Value::Text(Rc::clone(json)).push_key(key),
        value => value.push_key(key),
    }
}
