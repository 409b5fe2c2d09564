//! Least and greatest number, compared as decimal text: exact for any size, without parsing.

use std::cmp::Ordering;
use std::ops::Range;

use lro_json::big_endian;
use lro_json::masks::{digits, skip_digits};

use super::NUMBER_BYTES_MAX;
use super::decimal::{compare, exponent, rank_with_exponent};

/// Bytes of a number, without its sign, that its rank contains.
const RANK_BYTES: usize = 15;

/// The mask of the rank for each length of a number in bytes.
const RANK_MASKS: [u128; RANK_BYTES + 1] = {
    let mut masks = [0; RANK_BYTES + 1];
    let mut length = 1;
    while length <= RANK_BYTES {
        masks[length] = masks[length - 1] | 0xFF << (8 * (RANK_BYTES - length));
        length += 1;
    }
    masks
};

/// The extremes of the numbers seen.
#[derive(Clone, Debug)]
pub(super) struct Extremes {
    /// A short number whose rank is in `low..=high` changes nothing. While all numbers are short, these are the ranks
    /// of the least and the greatest.
    low: i128,
    high: i128,
    /// The least and the greatest while all numbers are short.
    texts: [ShortText; 2],
    /// The least and the greatest once a number was not short.
    range: Option<Box<(Number, Number)>>,
}

impl Default for Extremes {
    fn default() -> Self {
        Self { low: i128::MAX, high: i128::MIN, texts: [ShortText::default(); 2], range: None }
    }
}

/// A short number as written, and the bytes after it.
#[derive(Clone, Copy, Debug, Default)]
struct ShortText {
    bytes: [u8; RANK_BYTES + 1],
    length: usize,
}

impl ShortText {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// A number as written.
#[derive(Clone, Debug)]
struct Number {
    bytes: [u8; NUMBER_BYTES_MAX],
    length: usize,
    /// Orders like the number: the count of integer digits stands above the first bytes.
    rank: i128,
    /// Whether it has no exponent.
    plain: bool,
}

/// A number without exponent that fits in a rank.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short<'a> {
    pub(super) rank: i128,
    /// The number and the bytes after it.
    bytes: &'a [u8; RANK_BYTES + 1],
    pub(super) length: usize,
    pub(super) integer: bool,
}

impl<'a> Short<'a> {
    /// Reads the number at `start`; `None` when it has an exponent, is longer than [`RANK_BYTES`], or is too close to
    /// the end of the text to read a whole chunk.
    #[inline(always)]
    pub(super) fn read(text: &'a [u8], start: usize) -> Option<Self> {
        let window = text.get(start..)?.first_chunk::<{ RANK_BYTES + 2 }>()?;
        let negative = window[0] == b'-';
        let bytes = window.first_chunk()?;
        let chunk = if negative { window.last_chunk()? } else { bytes };
        let digits = digits(chunk);
        let point = digits.trailing_ones();
        let mut length = point as usize;
        let mut after = *chunk.get(length)?;
        let integer = after != b'.';
        if !integer {
            length += 1 + (digits >> (point + 1)).trailing_ones() as usize;
            after = *chunk.get(length)?;
        }
        if after | 0x20 == b'e' {
            return None;
        }
        let magnitude = big_endian(chunk) >> 8 & RANK_MASKS.get(length)? | u128::from(point) << 120;
        let rank = if negative { -(magnitude as i128) } else { magnitude as i128 };
        Some(Self { rank, bytes, length: length + usize::from(negative), integer })
    }

    /// The number at a range, which was [read](Self::read) before.
    #[inline(always)]
    pub(super) fn known(text: &'a [u8], range: Range<usize>, rank: i128, integer: bool) -> Option<Self> {
        let bytes = text.get(range.start..)?.first_chunk()?;
        Some(Self { rank, bytes, length: range.len(), integer })
    }

    /// Whether the bytes are a number in JSON. What follows them may still be wrong.
    #[inline(always)]
    pub(super) fn is_valid(&self) -> bool {
        let magnitude = self.rank.unsigned_abs();
        let (point, first) = ((magnitude >> 120) as usize, (magnitude >> 112) as u8);
        let length = self.length - usize::from(self.rank < 0);
        (point == 1 || (point > 1 && first != b'0')) && (self.integer || length > point + 1)
    }
}

impl Number {
    fn new(bytes: &[u8], rank: i128, plain: bool) -> Self {
        let mut number = Self { bytes: [0; NUMBER_BYTES_MAX], length: 0, rank, plain };
        number.set(bytes, rank, plain);
        number
    }

    fn set(&mut self, bytes: &[u8], rank: i128, plain: bool) {
        if let Some(to) = self.bytes.get_mut(..bytes.len()) {
            to.copy_from_slice(bytes);
            (self.length, self.rank, self.plain) = (bytes.len(), rank, plain);
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Compares another number to this one: by rank where the ranks differ, else by the digits.
    #[inline(always)]
    fn order(&self, bytes: &[u8], rank: i128, plain: bool) -> Ordering {
        if !(plain && self.plain) {
            return upper(rank).cmp(&upper(self.rank)).then_with(|| compare(bytes, self.bytes()));
        }
        match rank.cmp(&self.rank) {
            // Numbers with equally many integer digits order like their texts.
            Ordering::Equal if rank < 0 => self.bytes().cmp(bytes),
            Ordering::Equal => bytes.cmp(self.bytes()),
            unequal => unequal,
        }
    }

    /// The least distance between the rank of this extreme and that of a short number inside the range. `zero_inside`
    /// says whether inside is towards zero.
    fn margin(&self, zero_inside: bool) -> i128 {
        match self.plain {
            true if self.length <= RANK_BYTES + usize::from(self.rank < 0) => 0,
            // The rank contains only a part of a longer number.
            true => 1,
            // It contains only the upper part of a number with an exponent, and [`upper`] rounds towards zero.
            false if zero_inside => 1,
            false => 1 << 64,
        }
    }
}

/// The part of a rank that numbers with an exponent have too.
fn upper(rank: i128) -> i64 {
    if rank < 0 { -((-rank >> 64) as i64) } else { (rank >> 64) as i64 }
}

impl Extremes {
    /// Adds a short number.
    #[inline(always)]
    pub(super) fn add_short(&mut self, short: Short<'_>) {
        if short.rank < self.low || short.rank > self.high {
            self.extend(short);
        }
    }

    #[inline(always)]
    fn extend(&mut self, short: Short<'_>) {
        let text = ShortText { bytes: *short.bytes, length: short.length };
        if self.range.is_some() {
            return self.update(text.bytes(), short.rank, true);
        }
        let [least, greatest] = &mut self.texts;
        if short.rank < self.low {
            (self.low, *least) = (short.rank, text);
        }
        if short.rank > self.high {
            (self.high, *greatest) = (short.rank, text);
        }
    }

    /// Adds any number; returns whether it is an integer.
    #[inline(never)]
    pub(super) fn add(&mut self, number: &[u8]) -> bool {
        let negative = number.first() == Some(&b'-');
        let magnitude = &number[usize::from(negative)..];
        let point = skip_digits(magnitude, 0);
        let integer = point == magnitude.len();
        let plain =
            integer || (magnitude.get(point) == Some(&b'.') && skip_digits(magnitude, point + 1) == magnitude.len());
        if number.len() > NUMBER_BYTES_MAX || (!plain && exponent(number).is_none()) {
            *self = Self { low: i128::MIN, high: i128::MAX, ..Self::default() };
            return integer;
        }
        let mut chunk = [0; 16];
        for (to, from) in chunk.iter_mut().zip(magnitude.iter().take(RANK_BYTES)) {
            *to = *from;
        }
        let size = match plain {
            true => (point as i128) << 120 | (u128::from_be_bytes(chunk) >> 8) as i128,
            false => i128::from(rank_with_exponent(number)) << 64,
        };
        let rank = if negative { -size } else { size };
        let inside = plain && self.low < rank && rank < self.high;
        if plain && magnitude.len() <= RANK_BYTES {
            // A short number at the end of the text.
            let mut bytes = [0; RANK_BYTES + 1];
            for (to, from) in bytes.iter_mut().zip(number) {
                *to = *from;
            }
            self.add_short(Short { rank, bytes: &bytes, length: number.len(), integer });
        } else if !inside && !self.is_unknown() {
            self.update(number, rank, plain);
        }
        integer
    }

    /// Whether a number was too long.
    fn is_unknown(&self) -> bool {
        self.range.is_none() && self.low == i128::MIN
    }

    /// Updates the extremes when not all numbers are short.
    #[inline(never)]
    fn update(&mut self, bytes: &[u8], rank: i128, plain: bool) {
        let (least, greatest) = &mut **self.range.get_or_insert_with(|| {
            let number = |text: &ShortText, known| match text.length {
                0 => Number::new(bytes, rank, plain),
                _ => Number::new(text.bytes(), known, true),
            };
            let [least, greatest] = &self.texts;
            Box::new((number(least, self.low), number(greatest, self.high)))
        });
        if least.order(bytes, rank, plain).is_lt() {
            least.set(bytes, rank, plain);
        }
        if greatest.order(bytes, rank, plain).is_gt() {
            greatest.set(bytes, rank, plain);
        }
        self.low = least.rank + least.margin(least.rank < 0);
        self.high = greatest.rank - greatest.margin(greatest.rank > 0);
    }

    /// The least and the greatest as written.
    pub(super) fn texts(&self) -> (Option<&str>, Option<&str>) {
        let texts = |least, greatest| (std::str::from_utf8(least).ok(), std::str::from_utf8(greatest).ok());
        match (&self.range, &self.texts) {
            (Some(range), _) => texts(range.0.bytes(), range.1.bytes()),
            (None, [ShortText { length: 0, .. }, _]) => (None, None),
            (None, [least, greatest]) => texts(least.bytes(), greatest.bytes()),
        }
    }
}
