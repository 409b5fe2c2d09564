//! Keeps the first results of an order, or a sample of them, in bounded memory.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::ExtractError;
use crate::find::Record;

/// Most memory of the results kept until all have been seen, in bytes: 16 MiB.
pub const ORDER_BYTES_MAX: usize = 16 << 20;

/// The location of a result in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Location {
    /// Number in the file, counted from 0.
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

/// A result that is among the least so far.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Random rank for a sample; else 0.
    rank: u64,
    key: Box<[u8]>,
    location: Location,
}

impl Ord for Kept {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.rank, &self.key, self.location.number).cmp(&(other.rank, &other.key, other.location.number))
    }
}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The least results so far, up to a limit.
#[derive(Debug)]
pub(crate) struct Least {
    heap: BinaryHeap<Kept>,
    most: u64,
    by_chance: bool,
    bytes: usize,
}

impl Least {
    /// Keeps the `most` results with the least keys.
    pub(crate) fn sorted(most: u64) -> Self {
        Self { heap: BinaryHeap::new(), most, by_chance: false, bytes: 0 }
    }

    /// Keeps a random sample of `most` results.
    pub(crate) fn sample(most: u64) -> Self {
        Self { by_chance: true, ..Self::sorted(most) }
    }

    /// Keeps a result, if it is among the least.
    #[inline(always)]
    pub(crate) fn offer(&mut self, key: &[u8], record: &Record<'_>) -> Result<(), ExtractError> {
        let rank = if self.by_chance { chance(record.number) } else { 0 };
        let location = Location { number: record.number, offset: record.offset, length: record.line.len() as u64 };
        self.keep(rank, key, location)
    }

    /// Keeps a result of a part of the records, before which there are so many others.
    pub(crate) fn absorb(&mut self, kept: &Kept, before: u64) -> Result<(), ExtractError> {
        let location = Location { number: kept.location.number + before, ..kept.location };
        self.keep(kept.rank, &kept.key, location)
    }

    #[inline(always)]
    fn keep(&mut self, rank: u64, key: &[u8], location: Location) -> Result<(), ExtractError> {
        if self.heap.len() as u64 >= self.most {
            match self.heap.peek() {
                Some(last) if (rank, key, location.number) < (last.rank, &last.key, last.location.number) => {}
                _ => return Ok(()),
            }
            self.bytes -= self.heap.pop().map_or(0, |kept| kept.key.len() + size_of::<Kept>());
        }
        self.bytes += key.len() + size_of::<Kept>();
        if self.bytes > ORDER_BYTES_MAX {
            let message =
                format!("sort-bytes: the results up to the last one wanted need more than {ORDER_BYTES_MAX} bytes");
            return Err(ExtractError::Limit(message));
        }
        self.heap.push(Kept { rank, key: key.into(), location });
        Ok(())
    }

    /// The results, in no order.
    pub(crate) fn into_kept(self) -> Vec<Kept> {
        self.heap.into_vec()
    }

    /// The locations of the results, in the order of the keys; equal ones in the order of the file.
    pub(crate) fn into_locations(self) -> impl Iterator<Item = Location> {
        let mut kept = self.heap.into_vec();
        kept.sort_unstable_by(|left, right| {
            (&left.key, left.location.number).cmp(&(&right.key, right.location.number))
        });
        let locations: Vec<Location> = kept.into_iter().map(|kept| kept.location).collect();
        locations.into_iter()
    }
}

/// A deterministic pseudorandom number: a step of SplitMix64.
fn chance(number: u64) -> u64 {
    let mixed = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}
