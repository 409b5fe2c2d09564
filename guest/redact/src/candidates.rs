//! Marks where in 64 bytes a secret may be. Every secret has a mark; few marks are secrets, so each is verified.

use lro_json::masks::BLOCK;
use lro_json::{LANE, Lane};

/// Pairs of bytes of which each key, token and private key has one near its beginning: one of the first, and then the second.
const PAIRS: [(&[u8], u8); 8] = [
    (b"kt", b'-'),
    (b"kbmf", b'_'),
    (b"g", b'h'),
    (b"x", b'o'),
    (b"I", b'z'),
    (b"KS", b'I'),
    (b"y", b'J'),
    (b"-", b'B'),
];

/// Digits in the first group of a card number, and the least length of the whole, in bytes.
const CARD_GROUP: u32 = 4;
const CARD_BYTES_MIN: u32 = 13;

/// The marks of a block, one bit per byte; bit 0 is the first byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// `@`, the first digit of what may be a card number, and the first byte of each pair.
    pub(crate) patterns: u64,
    /// Bytes before `:` and `=`, `<`, and a bracket before another: what may end or begin the name of a value, or begin a
    /// table.
    pub(crate) names: u64,
}

impl Marks {
    /// Marks the first bytes of a text, at most 64. Missing bytes are zero.
    #[inline(always)]
    pub(crate) fn of(text: &[u8]) -> Self {
        match text.first_chunk() {
            Some(bytes) => Self::of_block(bytes),
            None => Self::of_end(text),
        }
    }

    #[inline(always)]
    fn of_block(bytes: &[u8; BLOCK + 1]) -> Self {
        let (mut marks, mut digits, mut spans) = (Self::default(), 0, 0);
        let [this @ .., _] = bytes;
        let [_, next @ ..] = bytes;
        let lanes = this.as_chunks::<LANE>().0.iter().zip(next.as_chunks::<LANE>().0);
        for (index, (this, next)) in lanes.enumerate() {
            let (this, next) = (Lane::load(this), Lane::load(next));
            let bits = |lane: Lane| u64::from(lane.bits()) << (index * LANE);
            let digit = this.minus(b'0').at_most(9);
            let rows = this.equal(b'[').min(next.equal(b'[').or(next.equal(b'(')));
            let no_pair = this.lookup(&FIRST[0], &FIRST[1]).and(next.lookup(&SECOND[0], &SECOND[1])).equal(0);
            marks.patterns |= bits(this.equal(b'@')) | bits(no_pair) ^ 0xFFFF << (index * LANE);
            marks.names |= bits(next.equal(b':').or(next.equal(b'=')).or(this.equal(b'<')).or(rows));
            digits |= bits(digit);
            spans |= bits(digit.or(this.equal(b' ')).or(this.equal(b'-')));
        }
        if spans != 0 {
            marks.patterns |= digits & !(digits << 1) & runs(digits, CARD_GROUP) & runs(spans, CARD_BYTES_MIN);
        }
        marks
    }

    #[cold]
    fn of_end(text: &[u8]) -> Self {
        let mut bytes = [0; BLOCK + 1];
        let length = text.len().min(bytes.len());
        bytes[..length].copy_from_slice(&text[..length]);
        Self::of_block(&bytes)
    }
}

/// For the low and for the high four bits of a byte, a bit for each of [`PAIRS`] that it may belong to.
type Tables = [[u8; LANE]; 2];

const FIRST: Tables = tables(true);
const SECOND: Tables = tables(false);

const fn tables(first: bool) -> Tables {
    let mut tables = [[0; LANE]; 2];
    let mut pair = 0;
    while pair < PAIRS.len() {
        let (firsts, second) = PAIRS[pair];
        let bytes: &[u8] = if first { firsts } else { &[second] };
        let mut index = 0;
        while index < bytes.len() {
            tables[0][bytes[index] as usize & 0xF] |= 1 << pair;
            tables[1][bytes[index] as usize >> 4] |= 1 << pair;
            index += 1;
        }
        pair += 1;
    }
    tables
}

/// The bits that begin a run of so many bits, or one that may continue in the next block.
#[inline(always)]
fn runs(mask: u64, length: u32) -> u64 {
    let (mut runs, mut done) = (mask.cast_signed(), 1);
    while done < length {
        let step = done.min(length - done);
        // The shift repeats the highest bit: what follows a run at the end of the block counts as its continuation.
        runs &= runs >> step;
        done += step;
    }
    runs.cast_unsigned()
}
