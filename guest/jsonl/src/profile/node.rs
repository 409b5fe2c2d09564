//! A node of the schema: a field, the items of an array, or the record itself.

use super::counter::Counter;
use super::number::{Extremes, Short};
use super::{Field, Key, PROPERTIES_MAX, Types};
use crate::split::copied_text;

/// The index that stands for no node.
pub(super) const NONE: u32 = u32::MAX;

/// Statistics of the values of one field, of the items of an array, or of the record.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// The first 16 bytes of `key`, and the mask of those it has.
    key_word: u128,
    key_mask: u128,
    /// The key with its last quote; empty for items and for the record.
    key: Box<[u8]>,
    /// The property after this one in the last object that had it.
    pub(super) next: u32,
    /// The first property of the last object at this node.
    pub(super) first: u32,
    /// The items of arrays at this node.
    pub(super) items: u32,
    /// A step behind its values.
    pub(super) step: u32,
    /// Its index among the properties of its object.
    pub(super) order: u32,
    pub(super) types: Types,
    /// Objects that have the property.
    pub(super) present: u64,
    /// The number of the last object that has it.
    last_object: u64,
    /// The properties of objects at this node, in order of appearance.
    pub(super) properties: Vec<u32>,
    /// Whether `properties` is incomplete because a limit was reached.
    pub(super) unlisted: bool,
    /// Whether the items are not known because a limit was reached.
    pub(super) items_unknown: bool,
    /// Whether it lies inside an array, where values are not counted.
    pub(super) in_array: bool,
    pub(super) extremes: Extremes,
    pub(super) counter: Counter,
}

impl Node {
    /// A node for the key, given with its last quote.
    pub(super) fn new(key: &[u8], order: u32, in_array: bool) -> Self {
        let mut word = [0; 16];
        for (to, from) in word.iter_mut().zip(key) {
            *to = *from;
        }
        Self {
            key_word: u128::from_le_bytes(word),
            key_mask: if key.len() < 16 { (1 << (8 * key.len())) - 1 } else { u128::MAX },
            key: key.into(),
            next: NONE,
            first: NONE,
            items: NONE,
            step: NONE,
            order,
            types: Types::default(),
            present: 0,
            last_object: 0,
            properties: Vec::new(),
            unlisted: false,
            items_unknown: false,
            in_array,
            extremes: Extremes::default(),
            counter: if in_array { Counter::Unknown } else { Counter::None },
        }
    }

    /// Whether the string whose content begins at `start` is the key of this property.
    #[inline(always)]
    pub(super) fn has_key(&self, text: &[u8], start: usize) -> bool {
        match text.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
            Some(chunk) => {
                (u128::from_le_bytes(*chunk) ^ self.key_word) & self.key_mask == 0
                    && (self.key.len() <= 16 || self.has_long_key(text, start))
            }
            None => self.has_long_key(text, start),
        }
    }

    #[inline(never)]
    fn has_long_key(&self, text: &[u8], start: usize) -> bool {
        text.get(start..start + self.key.len()) == Some(&self.key)
    }

    /// Length of the key with its last quote.
    #[inline(always)]
    pub(super) fn key_length(&self) -> usize {
        self.key.len()
    }

    /// Records that an object has the property.
    #[inline(always)]
    pub(super) fn occur(&mut self, object: u64) {
        if self.last_object != object {
            self.last_object = object;
            self.present += 1;
        }
    }

    /// Adds the string at `start..end`, quotes included.
    #[inline(always)]
    pub(super) fn add_string(&mut self, text: &[u8], start: usize, end: usize) {
        self.types.strings += 1;
        if self.counter.counts() {
            self.counter.add(text, start, end);
        }
    }

    /// Adds the literal at `start` by its first byte, which is not that of a number.
    #[inline(always)]
    pub(super) fn add_literal(&mut self, first: u8) {
        if first == b'n' {
            self.types.nulls += 1;
            return;
        }
        self.types.booleans += 1;
        if self.counter.counts() {
            // Padded, because the counter reads eight bytes at once.
            let (text, length) = if first == b't' { (b"true    ", 4) } else { (b"false   ", 5) };
            self.counter.add(text, 0, length);
        }
    }

    /// Adds the number at `start` if it is short; returns whether it is.
    #[inline(always)]
    pub(super) fn add_short_number(&mut self, text: &[u8], start: usize) -> bool {
        let Some(short) = Short::read(text, start) else {
            return false;
        };
        self.add_short(short, text, start);
        true
    }

    /// Adds the short number at `start`.
    #[inline(always)]
    pub(super) fn add_short(&mut self, short: Short<'_>, text: &[u8], start: usize) {
        self.extremes.add_short(short);
        if short.integer {
            self.types.integers += 1;
            if self.counter.counts() {
                self.counter.add(text, start, start + short.length);
            }
        } else {
            self.types.decimals += 1;
        }
    }

    /// Adds any number.
    pub(super) fn add_number(&mut self, text: &[u8], start: usize, end: usize) {
        if !self.extremes.add(&text[start..end]) {
            self.types.decimals += 1;
            return;
        }
        self.types.integers += 1;
        if self.counter.counts() {
            self.counter.add(text, start, end);
        }
    }

    pub(super) fn can_add_property(&self) -> bool {
        self.properties.len() < PROPERTIES_MAX
    }

    /// The key between its quotes.
    pub(super) fn key(&self) -> &str {
        let key = self.key.split_last().map_or(&[][..], |(_, key)| key);
        copied_text(key)
    }

    /// The public form of this node.
    pub(super) fn field<'a>(&'a self, path: &[Key<'a>], present: u64) -> Field<'a> {
        let (minimum, maximum) = self.extremes.texts();
        let (path, types, distinct) = (path.to_vec(), self.types, self.counter.values());
        Field { path, present, types, minimum, maximum, distinct }
    }
}
