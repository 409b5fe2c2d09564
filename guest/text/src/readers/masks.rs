//! Turns 64 bytes into bit masks, one bit per byte.

use lro_json::{LANE, Lane};

/// Bytes in a block.
pub(crate) const BLOCK: usize = 64;

/// 64 bytes, and how many of them are text.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    lanes: [Lane; BLOCK / LANE],
    /// The bits of the bytes that are text.
    text: u64,
}

impl Block {
    /// The block at the beginning of `text`, which is cut when the text is shorter.
    #[inline(always)]
    pub(crate) fn new(text: &[u8]) -> Self {
        match text.first_chunk::<BLOCK>() {
            Some(block) => Self { lanes: lanes(block), text: u64::MAX },
            None => Self::cut(text),
        }
    }

    #[cold]
    fn cut(text: &[u8]) -> Self {
        let mut block = [0; BLOCK];
        block.iter_mut().zip(text).for_each(|(to, from)| *to = *from);
        Self { lanes: lanes(&block), text: (1 << text.len().min(BLOCK - 1)) - 1 }
    }

    /// The bytes equal to `byte`; bit 0 is the first one.
    #[inline(always)]
    pub(crate) fn equal(&self, byte: u8) -> u64 {
        self.mask(|lane| lane.equal(byte))
    }

    /// The bytes equal to `byte` once bit 5 is set, which `[` and `{`, `]` and `}` differ in.
    #[inline(always)]
    pub(crate) fn equal_folded(&self, byte: u8) -> u64 {
        self.mask(|lane| lane.or(Lane::splat(0x20)).equal(byte))
    }

    /// The bytes up to `byte`.
    #[inline(always)]
    pub(crate) fn at_most(&self, byte: u8) -> u64 {
        self.mask(|lane| lane.at_most(byte))
    }

    #[inline(always)]
    fn mask(&self, class: impl Fn(Lane) -> Lane) -> u64 {
        let [first, second, third, fourth] = self.lanes.map(|lane| u64::from(class(lane).bits()));
        (first | second << LANE | third << (2 * LANE) | fourth << (3 * LANE)) & self.text
    }
}

#[inline(always)]
fn lanes(block: &[u8; BLOCK]) -> [Lane; BLOCK / LANE] {
    let (chunks, _) = block.as_chunks::<LANE>();
    std::array::from_fn(|index| Lane::load(&chunks[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_mark_the_bytes_of_a_class() {
        for length in [0, 1, 15, 16, 17, 63, 64, 80] {
            let text: Vec<u8> = (0..length).map(|index| (index * 37 + length) as u8).collect();
            let block = Block::new(&text);
            let mask = |class: &dyn Fn(u8) -> bool| {
                text.iter().take(BLOCK).rev().fold(0_u64, |mask, &byte| mask << 1 | u64::from(class(byte)))
            };
            // Miri takes a second for a few.
            for byte in (0..=u8::MAX).step_by(if cfg!(miri) { 37 } else { 1 }) {
                assert_eq!(block.equal(byte), mask(&|other| other == byte), "{byte}");
                assert_eq!(block.equal_folded(byte), mask(&|other| other | 0x20 == byte), "{byte}");
                assert_eq!(block.at_most(byte), mask(&|other| other <= byte), "{byte}");
            }
        }
    }
}
