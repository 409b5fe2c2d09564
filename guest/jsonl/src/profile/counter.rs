//! Distinct values of one field and their counts.

use super::{DISTINCT_BYTES_MAX, DISTINCT_MAX, Distinct};
use crate::split::copied_text;

/// Slots of the hash table: twice the values it can hold.
const SLOTS: usize = DISTINCT_MAX * 2;

/// The distinct values seen.
#[derive(Clone, Debug, Default)]
pub(super) enum Counter {
    /// No value yet.
    #[default]
    None,
    /// All of them.
    Values(Box<Table>),
    /// There were too many, or one was too long.
    Unknown,
}

/// Values in order of appearance, found by an open hash table.
#[derive(Clone, Debug)]
pub(super) struct Table {
    /// Index of a value plus one, 0 when free.
    slots: [u8; SLOTS],
    values: Vec<Value>,
    texts: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Value {
    /// First eight bytes, and last eight of a longer one.
    ends: (u64, u64),
    start: usize,
    length: usize,
    count: u64,
}

impl Counter {
    /// Whether values must still be added.
    #[inline(always)]
    pub(super) fn counts(&self) -> bool {
        !matches!(self, Self::Unknown)
    }

    /// A value was too long to count.
    pub(super) fn give_up(&mut self) {
        *self = Self::Unknown;
    }

    /// Counts the value at `start..end` of the text.
    #[inline(never)]
    pub(super) fn add(&mut self, text: &[u8], start: usize, end: usize) {
        if let Self::Values(table) = self
            && table.count(text, start, end)
        {
            return;
        }
        self.insert(&text[start..end]);
    }

    /// Adds a value that is not yet known.
    #[inline(never)]
    fn insert(&mut self, value: &[u8]) {
        if let Self::None = self {
            *self = Self::Values(Box::new(Table { slots: [0; SLOTS], values: Vec::new(), texts: Vec::new() }));
        }
        if let Self::Values(table) = self
            && !table.insert(value)
        {
            *self = Self::Unknown;
        }
    }

    /// The values; `None` when there were too many or one was too long.
    pub(super) fn values(&self) -> Option<Vec<Distinct<'_>>> {
        match self {
            Self::None => Some(Vec::new()),
            Self::Values(table) => Some(table.values.iter().map(|value| table.distinct(value)).collect()),
            Self::Unknown => None,
        }
    }
}

impl Table {
    /// Counts the value at `start..end` if it is known; returns whether it is.
    #[inline(always)]
    fn count(&mut self, text: &[u8], start: usize, end: usize) -> bool {
        let length = end - start;
        let ends = ends(text, start, end);
        let mut slot = slot(ends, length);
        while let Some(value) =
            self.slots.get(slot).and_then(|&index| self.values.get_mut(usize::from(index).wrapping_sub(1)))
        {
            if value.ends == ends && value.length == length {
                // Up to 16 bytes, the two ends are the whole value.
                if length <= 16 || same(self.texts.get(value.start..value.start + length), text.get(start..end)) {
                    value.count += 1;
                    return true;
                }
            }
            slot = (slot + 1) % SLOTS;
        }
        false
    }

    /// Adds a value; `false` when it is too long or the table is full.
    fn insert(&mut self, value: &[u8]) -> bool {
        let length = value.len();
        if length > DISTINCT_BYTES_MAX || self.values.len() == DISTINCT_MAX {
            return false;
        }
        let ends = ends(value, 0, length);
        let mut slot = slot(ends, length);
        while self.slots.get(slot).is_some_and(|&index| index != 0) {
            slot = (slot + 1) % SLOTS;
        }
        self.values.push(Value { ends, start: self.texts.len(), length, count: 1 });
        self.texts.extend_from_slice(value);
        if let Some(slot) = self.slots.get_mut(slot) {
            *slot = self.values.len() as u8;
        }
        true
    }

    fn distinct(&self, value: &Value) -> Distinct<'_> {
        let bytes = &self.texts[value.start..value.start + value.length];
        Distinct { json: copied_text(bytes), count: value.count }
    }
}

/// The first and the last eight bytes of a value; of a value of up to eight bytes, the value and 0.
#[inline(always)]
fn ends(text: &[u8], start: usize, end: usize) -> (u64, u64) {
    let word =
        |at: usize| text.get(at..).and_then(|rest| rest.first_chunk::<8>()).map(|bytes| u64::from_le_bytes(*bytes));
    match (word(start), end - start) {
        (Some(first), length @ 1..=8) => (first & u64::MAX >> (64 - 8 * length), 0),
        (Some(first), 9..) => (first, word(end - 8).unwrap_or_default()),
        _ => (short_word(&text[start..end]), 0),
    }
}

/// Whether two values of one length are the same whose last eight bytes are.
#[inline(always)]
fn same(one: Option<&[u8]>, other: Option<&[u8]>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    one.as_chunks::<8>().0.iter().zip(other.as_chunks::<8>().0).all(|(one, other)| one == other)
}

#[cold]
fn short_word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The first slot to search for a value. After the multiplication by an odd number, the high bits depend on all others.
#[inline(always)]
fn slot(ends: (u64, u64), length: usize) -> usize {
    let hash = (ends.0 ^ ends.1.rotate_left(29) ^ length as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 57) as usize % SLOTS
}
