//! Turns 64 bytes into bit masks, one bit per byte; bit 0 is the first byte.

use crate::simd::{LANE, Lane};

/// Bytes in a block.
pub const BLOCK: usize = 64;

/// The positions of each class of bytes in a block. What a caller does not use costs nothing: it is not computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// `"`.
    pub quote: u64,
    /// `\`.
    pub backslash: u64,
    /// `{` and `[`.
    pub open: u64,
    /// `}` and `]`.
    pub close: u64,
    /// `,`.
    pub comma: u64,
    /// `:`.
    pub colon: u64,
    /// `{`, `[`, `}`, `]` and line feed.
    pub structure: u64,
    /// Bytes up to 0x20: white space and control characters.
    pub low: u64,
    /// Whether the block has a byte below 0x20.
    pub control: bool,
}

impl Masks {
    /// Classifies the first 64 bytes of a text; missing ones count as spaces.
    #[inline(always)]
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        match text.first_chunk() {
            Some(block) => Self::of_block(block),
            None => Self::of_block(&last_block(text)),
        }
    }

    /// Classifies a block.
    #[inline(always)]
    #[must_use]
    pub fn of_block(block: &[u8; BLOCK]) -> Self {
        let mut masks = Self::default();
        let mut least = Lane::splat(u8::MAX);
        for (index, lane) in lanes(block).enumerate() {
            let bits = |lane: Lane| u64::from(lane.bits()) << (index * LANE);
            // `[` and `{`, `]` and `}` differ in this bit only.
            let braces = lane.or(Lane::splat(0x20));
            let (open, close) = (braces.equal(b'{'), braces.equal(b'}'));
            masks.quote |= bits(lane.equal(b'"'));
            masks.backslash |= bits(lane.equal(b'\\'));
            masks.open |= bits(open);
            masks.close |= bits(close);
            masks.comma |= bits(lane.equal(b','));
            masks.colon |= bits(lane.equal(b':'));
            masks.structure |= bits(open.or(close).or(lane.equal(b'\n')));
            masks.low |= bits(lane.at_most(0x20));
            least = least.min(lane);
        }
        masks.control = least.at_most(0x1F).bits() != 0;
        masks
    }
}

/// The bytes of a text that is shorter than a block, and spaces.
#[cold]
fn last_block(text: &[u8]) -> [u8; BLOCK] {
    let mut block = [b' '; BLOCK];
    for (to, from) in block.iter_mut().zip(text) {
        *to = *from;
    }
    block
}

/// Marks the bytes below 0x20 among the first 64 of a text, and those of them that are white space in JSON. Missing ones
/// count as spaces.
#[inline(always)]
#[must_use]
pub fn controls(text: &[u8]) -> (u64, u64) {
    let of_block = |block: &[u8; BLOCK]| {
        lanes(block).rev().fold((0, 0), |(control, white): (u64, u64), lane| {
            let between = lane.equal(b'\n').or(lane.equal(b'\r')).or(lane.equal(b'\t'));
            let bits = |lane: Lane| u64::from(lane.bits());
            (control << LANE | bits(lane.at_most(0x1F)), white << LANE | bits(between))
        })
    };
    match text.first_chunk() {
        Some(block) => of_block(block),
        None => of_block(&last_block(text)),
    }
}

#[inline(always)]
fn lanes(block: &[u8; BLOCK]) -> impl DoubleEndedIterator<Item = Lane> + ExactSizeIterator {
    block.as_chunks().0.iter().map(Lane::load)
}

/// Marks the bytes of a block that equal `byte`.
#[inline(always)]
#[must_use]
pub fn equal(block: &[u8; BLOCK], byte: u8) -> u64 {
    lanes(block).rev().fold(0, |bits, lane| bits << LANE | u64::from(lane.equal(byte).bits()))
}

/// Marks the bytes that a backslash escapes, given the mask of the backslashes. `carry` says whether the first byte is
/// escaped.
#[inline(always)]
#[must_use]
pub fn escaped(backslash: u64, carry: bool) -> u64 {
    const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
    let first = u64::from(carry);
    if backslash == 0 {
        return first;
    }
    let candidates = backslash & !first;
    // A run of backslashes alternates between escaping and escaped: the subtraction carries that through each run.
    let alternating = (candidates << 1 | ODD).wrapping_sub(candidates) ^ ODD;
    alternating ^ (backslash | first)
}

/// Each bit becomes the exclusive or of itself and all lower ones, which turns quotes into the insides of strings.
#[inline(always)]
#[must_use]
pub fn prefix_xor(mut mask: u64) -> u64 {
    mask ^= mask << 1;
    mask ^= mask << 2;
    mask ^= mask << 4;
    mask ^= mask << 8;
    mask ^= mask << 16;
    mask ^ mask << 32
}

/// The first byte after each bit of `mask` that is not white space; `carry` passes it on to the next block.
#[inline(always)]
#[must_use]
pub fn follow(mask: u64, carry: &mut u64, white: u64) -> u64 {
    let next = mask << 1 | *carry;
    // Adding to a run of white space carries the bit to the first position after it.
    let (sum, over) = next.overflowing_add(white);
    *carry = mask >> (BLOCK - 1) | u64::from(over);
    sum & !white
}

/// The first bit of a closing bracket with nothing open inside. `inside` is the number of containers open before the block,
/// and becomes that at the bracket, or at the end of the block.
#[inline(always)]
#[must_use]
pub fn closing(open: u64, close: u64, inside: &mut usize) -> Option<usize> {
    let ends = close.count_ones() as usize;
    if ends <= *inside {
        *inside = *inside + open.count_ones() as usize - ends;
        return None;
    }
    let mut brackets = open | close;
    while brackets != 0 {
        let bracket = brackets & brackets.wrapping_neg();
        if open & bracket != 0 {
            *inside += 1;
        } else if *inside > 0 {
            *inside -= 1;
        } else {
            return Some(bracket.trailing_zeros() as usize);
        }
        brackets &= brackets - 1;
    }
    None
}

/// The state of strings between two blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Strings {
    /// All ones in a string.
    inside: u64,
    /// Whether the first byte of the next block is escaped.
    escaped: bool,
}

/// The strings of a block.
#[derive(Clone, Copy, Debug)]
pub struct InStrings {
    /// Bytes of strings: first quotes are, last ones are not.
    pub inside: u64,
    /// The quotes around strings.
    pub quote: u64,
    /// Bytes after a backslash, also outside strings.
    pub escaped: u64,
}

impl Strings {
    /// Reads the next block, whose last byte is at index `last`: 63, or less at the end of a slice.
    #[inline(always)]
    pub fn next(&mut self, masks: &Masks, last: usize) -> InStrings {
        let escaped = escaped(masks.backslash, self.escaped);
        self.escaped = (masks.backslash & !escaped) >> last & 1 == 1;
        let quote = masks.quote & !escaped;
        let inside = prefix_xor(quote) ^ self.inside;
        self.inside = 0_u64.wrapping_sub(inside >> (BLOCK - 1));
        InStrings { inside, quote, escaped }
    }

    /// Whether the last block ended in a string.
    #[inline(always)]
    #[must_use]
    pub fn is_inside(&self) -> bool {
        self.inside != 0
    }
}

/// Index of the first byte from `at` on that is `one` or `other`.
#[inline(always)]
#[must_use]
pub fn find_either(text: &[u8], mut at: usize, one: u8, other: u8) -> Option<usize> {
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        let lane = Lane::load(chunk);
        let found = lane.equal(one).or(lane.equal(other)).bits();
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += LANE;
    }
    let rest = text.get(at..)?;
    rest.iter().position(|&byte| byte == one || byte == other).map(|index| at + index)
}

/// Marks the digits among 16 bytes.
#[inline(always)]
#[must_use]
pub fn digits(chunk: &[u8; LANE]) -> u32 {
    u32::from(Lane::load(chunk).minus(b'0').at_most(9).bits())
}

/// Index of the first byte from `at` on that is not a digit; the length of `text` if all are digits.
#[inline(always)]
#[must_use]
pub fn skip_digits(text: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        let count = digits(chunk).trailing_ones() as usize;
        at += count;
        if count < LANE {
            return at;
        }
    }
    skip_digits_at_end(text, at)
}

#[cold]
fn skip_digits_at_end(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn positions(block: &[u8], class: impl Fn(u8) -> bool) -> u64 {
        block.iter().enumerate().map(|(bit, byte)| u64::from(class(*byte)) << bit).sum()
    }

    fn naive(block: &[u8]) -> Masks {
        Masks {
            quote: positions(block, |byte| byte == b'"'),
            backslash: positions(block, |byte| byte == b'\\'),
            open: positions(block, |byte| matches!(byte, b'{' | b'[')),
            close: positions(block, |byte| matches!(byte, b'}' | b']')),
            comma: positions(block, |byte| byte == b','),
            colon: positions(block, |byte| byte == b':'),
            structure: positions(block, |byte| matches!(byte, b'{' | b'[' | b'}' | b']' | b'\n')),
            low: positions(block, |byte| byte <= b' '),
            control: block.iter().any(|byte| *byte < b' '),
        }
    }

    #[test]
    fn every_byte_is_classified_at_every_index() {
        // Miri takes a second for a thousand.
        for byte in (0..=u8::MAX).step_by(if cfg!(miri) { 31 } else { 1 }) {
            for index in (0..BLOCK).step_by(if cfg!(miri) { 7 } else { 1 }) {
                for around in [b'a', b' ', b'"', 0, 0xFF] {
                    let mut block = [around; BLOCK];
                    block[index] = byte;
                    assert_eq!(Masks::of(&block), naive(&block), "{byte} at {index} among {around}");
                    assert_eq!(equal(&block, byte), positions(&block, |other| other == byte));
                    let white = |byte| matches!(byte, b'\t' | b'\n' | b'\r');
                    assert_eq!(controls(&block), (positions(&block, |byte| byte < b' '), positions(&block, white)));
                }
            }
        }
    }

    /// Strings of a text, byte by byte: inside, unescaped quotes, escaped.
    fn walked(text: &[u8]) -> Vec<(bool, bool, bool)> {
        let (mut inside, mut escaped) = (false, false);
        let walk = text.iter().map(|&byte| {
            let quote = byte == b'"' && !escaped;
            inside ^= quote;
            let this = (inside, quote, escaped);
            escaped = byte == b'\\' && !escaped;
            this
        });
        walk.collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Slices may be cut anywhere.
        #[test]
        fn strings_are_found(text in "[\\\\\"a ]{0,400}", cut in 0_usize..400) {
            let (one, other) = text.as_bytes().split_at(cut.min(text.len()));
            let (mut strings, mut found) = (Strings::default(), Vec::new());
            for chunk in one.chunks(BLOCK).chain(other.chunks(BLOCK)) {
                let InStrings { inside, quote, escaped } = strings.next(&Masks::of(chunk), chunk.len() - 1);
                let bit = |mask: u64, index: usize| mask >> index & 1 == 1;
                found.extend((0..chunk.len()).map(|index| (bit(inside, index), bit(quote, index), bit(escaped, index))));
            }
            let expected = walked(text.as_bytes());
            prop_assert_eq!(strings.is_inside(), expected.last().is_some_and(|(inside, _, _)| *inside));
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn bytes_are_found(text in "[0-9ab]{0,60}", at in 0_usize..70) {
            let text = text.as_bytes();
            let rest = text.get(at..).unwrap_or_default();
            let first = |class: fn(&u8) -> bool| rest.iter().position(class).map(|index| at + index);
            prop_assert_eq!(find_either(text, at, b'a', b'7'), first(|byte| matches!(byte, b'a' | b'7')));
            if at <= text.len() {
                prop_assert_eq!(skip_digits(text, at), first(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()));
            }
        }
    }
}
