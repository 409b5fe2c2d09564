//! Numbers of any size, compared by their exact value.

use std::cmp::Ordering;

use lro_json::walk::{Damaged, is_delimiter};

/// Most digits of a [`Short`] number, and most of them after the point.
const SHORT_DIGITS: usize = 18;

/// A number of at most 18 digits without an exponent: `mantissa` divided by ten to the `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short {
    pub(crate) mantissa: i64,
    pub(crate) scale: usize,
}

/// Reads the number at the beginning of `text`; `None` when it is too long or not a number.
#[inline(always)]
pub(crate) fn short(text: &[u8]) -> Option<Short> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (mut mantissa, mut count, mut point) = (0_i64, 0, None);
    for (index, &byte) in digits.iter().enumerate().take(SHORT_DIGITS + 2) {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(i64::from(digit));
            count += 1;
        } else if byte == b'.' && point.is_none() {
            point = Some(index);
        } else {
            let scale = point.map_or(0, |point| index - point - 1);
            let valid = is_delimiter(byte) && (1..=SHORT_DIGITS).contains(&count);
            return valid.then_some(Short { mantissa: if negative { -mantissa } else { mantissa }, scale });
        }
    }
    None
}

/// Any number: `0.D × 10^exponent`, where D are digits without zeros at either end; D is empty for zero.
#[derive(Clone, Debug)]
pub(crate) struct Decimal<'a> {
    negative: bool,
    /// Digits before and after the point; together, they begin and end with a significant digit.
    digits: [&'a [u8]; 2],
    exponent: i64,
    /// Written without point and exponent.
    pub(crate) is_integer: bool,
    /// Index of the byte after the number.
    pub(crate) end: usize,
}

impl<'a> Decimal<'a> {
    /// Reads the number that begins at `at`.
    pub(crate) fn read(text: &'a [u8], at: usize) -> Result<Self, Damaged> {
        let rest = text.get(at..).ok_or(Damaged)?;
        let (negative, unsigned) = match rest {
            [b'-', unsigned @ ..] => (true, unsigned),
            _ => (false, rest),
        };
        let (whole, after_whole) = digits(unsigned)?;
        let (fraction, rest) = match after_whole {
            [b'.', rest @ ..] => digits(rest)?,
            _ => ([].as_slice(), after_whole),
        };
        let (power, rest) = match rest {
            [b'e' | b'E', rest @ ..] => exponent(rest)?,
            _ => (0, rest),
        };
        if rest.first().is_some_and(|&byte| !is_delimiter(byte)) {
            return Err(Damaged);
        }
        let end = text.len() - rest.len();
        let is_integer = rest.len() == after_whole.len();
        let whole_length = whole.len() as i64;
        let (whole, fraction, skipped) = significant(whole, fraction);
        let exponent = power.saturating_add(whole_length).saturating_sub(skipped);
        Ok(Self { negative, digits: [whole, fraction], exponent, is_integer, end })
    }

    fn is_zero(&self) -> bool {
        self.digits.iter().all(|digits| digits.is_empty())
    }

    /// Appends bytes that order like the value.
    pub(crate) fn push_key(&self, key: &mut Vec<u8>) {
        if self.is_zero() {
            key.push(1);
            return;
        }
        key.push(if self.negative { 0 } else { 2 });
        let start = key.len();
        // Common exponents take one byte.
        match self.exponent {
            near @ -100..=100 => key.push((128 + near) as u8),
            far => {
                key.push(if far > 0 { 0xFF } else { 0 });
                key.extend_from_slice(&((far as u64) ^ 1 << 63).to_be_bytes());
            }
        }
        let [whole, fraction] = self.digits;
        let mut digits = whole.iter().chain(fraction).map(|digit| digit - b'0');
        while let Some(ten) = digits.next() {
            key.push(1 + ten * 10 + digits.next().unwrap_or_default());
        }
        key.push(0);
        if self.negative {
            key.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }
}

/// Splits digits, at least one, off the beginning.
fn digits(text: &[u8]) -> Result<(&[u8], &[u8]), Damaged> {
    let length = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    if length == 0 { Err(Damaged) } else { text.split_at_checked(length).ok_or(Damaged) }
}

/// Reads an exponent after its `e`; one that is too large counts as the largest.
fn exponent(text: &[u8]) -> Result<(i64, &[u8]), Damaged> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (digits, rest) = digits(rest)?;
    // Halved, so that adding the length of the digits cannot reach the end of the range.
    let amount = digits
        .iter()
        .fold(0_i64, |amount, digit| amount.saturating_mul(10).saturating_add(i64::from(digit - b'0')))
        .min(i64::MAX / 2);
    Ok((if negative { -amount } else { amount }, rest))
}

/// Both runs of digits without leading and trailing zeros of the whole, and the number of leading zeros dropped.
fn significant<'a>(mut whole: &'a [u8], mut fraction: &'a [u8]) -> (&'a [u8], &'a [u8], i64) {
    let mut skipped = 0;
    while let [b'0', rest @ ..] = whole {
        (whole, skipped) = (rest, skipped + 1);
    }
    if whole.is_empty() {
        while let [b'0', rest @ ..] = fraction {
            (fraction, skipped) = (rest, skipped + 1);
        }
    }
    while let [rest @ .., b'0'] = fraction {
        fraction = rest;
    }
    if fraction.is_empty() {
        while let [rest @ .., b'0'] = whole {
            whole = rest;
        }
    }
    (whole, fraction, skipped)
}

/// A number prepared for comparison with many short ones: for each scale the greatest mantissa that is not above it,
/// and whether that one is equal to it.
#[derive(Clone, Debug)]
pub(crate) struct Threshold([(i64, bool); SHORT_DIGITS + 1]);

impl Threshold {
    pub(crate) fn new(number: &Decimal<'_>) -> Self {
        let [whole, fraction] = number.digits;
        let length = (whole.len() + fraction.len()) as i64;
        Self(std::array::from_fn(|scale| {
            let places = number.exponent.saturating_add(scale as i64);
            if number.is_zero() {
                return (0, true);
            }
            if places > SHORT_DIGITS as i64 {
                // Beyond every short number.
                return (if number.negative { -i64::MAX } else { i64::MAX }, false);
            }
            let digits = whole.iter().chain(fraction).map(|digit| i64::from(digit - b'0'));
            let count = usize::try_from(places).unwrap_or_default();
            let floor = digits.chain(std::iter::repeat(0)).take(count).fold(0, |sum, digit| sum * 10 + digit);
            let exact = length <= places.max(0);
            let floor = if number.negative { -floor - i64::from(!exact) } else { floor };
            (floor, exact)
        }))
    }

    /// Compares a short number with this one.
    #[inline(always)]
    pub(crate) fn compare(&self, number: Short) -> Ordering {
        let (floor, exact) = self.0.get(number.scale).copied().unwrap_or_default();
        match number.mantissa.cmp(&floor) {
            Ordering::Equal if !exact => Ordering::Less,
            order => order,
        }
    }
}

/// A floating point number as JSON, in the shortest form that reads back the same. Of what JSON cannot
/// represent, infinity becomes the largest number, and NaN null.
pub(crate) fn spelled(amount: f64) -> String {
    if amount.is_nan() {
        return "null".to_owned();
    }
    let amount = amount.clamp(-f64::MAX, f64::MAX);
    let magnitude = amount.abs();
    if magnitude != 0.0 && !(1e-5..1e17).contains(&magnitude) { format!("{amount:e}") } else { format!("{amount}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal<'_> {
        Decimal::read(text.as_bytes(), 0).unwrap()
    }

    fn key(text: &str) -> Vec<u8> {
        let mut key = Vec::new();
        decimal(text).push_key(&mut key);
        key
    }

    const ASCENDING: [&str; 24] = [
        "-1e999999999999999999999",
        "-1e101",
        "-9007199254740993",
        "-9007199254740992",
        "-100",
        "-99.5",
        "-1.1",
        "-1",
        "-0.5",
        "-1e-101",
        "0",
        "1e-999",
        "0.001",
        "0.0011",
        "0.9",
        "0.90000000000000000000000001",
        "1",
        "1.5",
        "99",
        "100",
        "9007199254740992",
        "9007199254740993",
        "123456789012345678901234567890",
        "1e100000",
    ];

    #[test]
    fn keys_and_thresholds_are_in_the_order_of_amounts() {
        for (index, left) in ASCENDING.iter().enumerate() {
            for (other, right) in ASCENDING.iter().enumerate() {
                assert_eq!(key(left).cmp(&key(right)), index.cmp(&other), "{left} and {right}");
                if let Some(short) = short(format!("{left}\n").as_bytes()) {
                    let threshold = Threshold::new(&decimal(right));
                    assert_eq!(threshold.compare(short), index.cmp(&other), "{left} and {right}");
                }
            }
        }
    }

    #[test]
    fn spellings_of_one_amount_are_equal() {
        for (left, right) in
            [("1", "1.0"), ("1e2", "100"), ("0", "-0.0"), ("0", "0e5"), ("1200e-2", "12"), ("0.5", "5E-1")]
        {
            assert_eq!(key(left), key(right), "{left} and {right}");
            let short = short(format!("{left} ").as_bytes());
            assert!(short.is_none_or(|short| Threshold::new(&decimal(right)).compare(short).is_eq()));
        }
    }

    #[test]
    fn what_is_no_number_is_damaged() {
        for text in ["", "-", ".5", "1.", "1e", "1e+", "1x", "1.5.5", "--1", "1 2"] {
            let read = Decimal::read(text.as_bytes(), 0).map(|number| number.end);
            assert!(read.is_err() || read.is_ok_and(|end| end < text.len()), "{text}");
        }
    }

    #[test]
    fn spelling_is_short() {
        let spellings = [(0.1 + 0.2, "0.30000000000000004"), (5.0, "5"), (1e300, "1e300"), (1e-7, "1e-7")];
        for (amount, text) in spellings {
            assert_eq!(spelled(amount), text);
        }
        assert_eq!(spelled(f64::INFINITY), "1.7976931348623157e308");
        assert_eq!(spelled(f64::NAN), "null");
    }
}
