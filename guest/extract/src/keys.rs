//! A set of byte strings, each with its number, in little memory.

use crate::ExtractError;
use crate::json::same;

/// Place of the table that no key has.
const FREE: u32 = u32::MAX;

/// Keys in the order in which they came.
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
    /// No keys, of which there may come as many as have room in `limit` bytes.
    pub(crate) fn new(limit_name: &'static str, limit: usize) -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), table: vec![FREE; 16], limit, limit_name }
    }

    fn key(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = number.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(number).copied().unwrap_or(0);
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// Where in the table a key is, or belongs.
    #[inline(always)]
    fn place(&self, key: &[u8]) -> usize {
        let mask = self.table.len() - 1;
        let mut place = hash(key) as usize & mask;
        loop {
            match self.table.get(place) {
                Some(&number) if number != FREE && !same(self.key(number), key) => place = (place + 1) & mask,
                _ => return place,
            }
        }
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.table.get(self.place(key)).is_some_and(|number| *number != FREE)
    }

    /// The number of a key, and whether it is new.
    #[inline(always)]
    pub(crate) fn index(&mut self, key: &[u8]) -> Result<(usize, bool), ExtractError> {
        let place = self.place(key);
        match self.table.get(place) {
            Some(&number) if number != FREE => Ok((number as usize, false)),
            _ => self.add(key, place).map(|number| (number, true)),
        }
    }

    #[cold]
    fn add(&mut self, key: &[u8], place: usize) -> Result<usize, ExtractError> {
        let number = self.ends.len();
        if self.bytes.len() + key.len() + (number + 1) * 16 > self.limit {
            let (name, limit) = (self.limit_name, self.limit);
            return Err(ExtractError::Limit(format!("{name}: more than {limit} bytes of different values")));
        }
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len() as u32);
        if let Some(slot) = self.table.get_mut(place) {
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
            let place = self.place(self.key(number));
            if let Some(slot) = self.table.get_mut(place) {
                *slot = number;
            }
        }
    }
}

/// Always the same for the same bytes.
#[inline(always)]
fn hash(key: &[u8]) -> u64 {
    let mut hash = key.len() as u64;
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    let rest = match key.last_chunk::<8>() {
        // Some of these bytes a second time.
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
