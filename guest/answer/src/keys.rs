//! A compact set of numbered byte strings.

use crate::ExtractError;

/// A free slot of the table.
const FREE: u32 = u32::MAX;

/// Keys in the order of insertion.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// All keys, one after another.
    bytes: Vec<u8>,
    /// End of each key.
    ends: Vec<u32>,
    /// Hash table of key numbers; its length is a power of two, at least twice the number of keys.
    table: Vec<u32>,
    limit: usize,
    limit_name: &'static str,
}

impl Keys {
    /// An empty set for keys of up to `limit` bytes together.
    pub(crate) fn new(limit_name: &'static str, limit: usize) -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), table: vec![FREE; 16], limit, limit_name }
    }

    /// The keys, in the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len() as u32).map(|number| self.key(number))
    }

    fn key(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(number).copied().unwrap_or(0);
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The slot of a key in the table, or the free slot for it.
    #[inline(always)]
    fn slot(&self, key: &[u8]) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = hash(key) as usize & mask;
        loop {
            match self.table.get(slot) {
                Some(&number) if number != FREE && !same(self.key(number), key) => slot = (slot + 1) & mask,
                _ => return slot,
            }
        }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.table.get(self.slot(key)).is_some_and(|number| *number != FREE)
    }

    /// The number of a key, and whether it is new.
    #[inline(always)]
    pub(crate) fn index(&mut self, key: &[u8]) -> Result<(usize, bool), ExtractError> {
        let slot = self.slot(key);
        match self.table.get(slot) {
            Some(&number) if number != FREE => Ok((number as usize, false)),
            _ => self.add(key, slot).map(|number| (number, true)),
        }
    }

    #[cold]
    fn add(&mut self, key: &[u8], slot: usize) -> Result<usize, ExtractError> {
        let number = self.ends.len();
        if self.bytes.len() + key.len() + (number + 1) * 16 > self.limit {
            let (name, limit) = (self.limit_name, self.limit);
            return Err(ExtractError::Limit(format!("{name}: more than {limit} bytes of distinct values")));
        }
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u32);
        if let Some(slot) = self.table.get_mut(slot) {
            *slot = number as u32;
        }
        if self.ends.len() * 2 > self.table.len() {
            self.grow();
        }
        Ok(number)
    }

    fn grow(&mut self) {
        self.table = vec![FREE; self.table.len() * 2];
        for number in 0..self.ends.len() as u32 {
            let slot = self.slot(self.key(number));
            if let Some(slot) = self.table.get_mut(slot) {
                *slot = number;
            }
        }
    }
}

/// A deterministic hash.
#[inline(always)]
fn hash(key: &[u8]) -> u64 {
    let mut hash = key.len() as u64;
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    let rest = match key.last_chunk::<8>() {
        // Overlaps with bytes that were already mixed.
        Some(last) => u64::from_le_bytes(*last),
        None => rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    hash = mix(hash, rest);
    hash ^ hash >> 32
}

#[inline(always)]
fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(23) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Whether two texts are equal. They are short: comparing them here is faster than a call.
#[inline(always)]
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    let ((left_words, left_rest), (right_words, right_rest)) = (left.as_chunks::<8>(), right.as_chunks::<8>());
    left.len() == right.len()
        && left_words
            .iter()
            .zip(right_words)
            .all(|(left, right)| u64::from_le_bytes(*left) == u64::from_le_bytes(*right))
        && left_rest.iter().zip(right_rest).all(|(left, right)| left == right)
}
