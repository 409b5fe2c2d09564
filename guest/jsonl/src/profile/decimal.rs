//! Compares numbers with exponents to any other number, digit by digit.

use std::cmp::Ordering;

/// Most digits of an exponent; a number with more makes minimum and maximum unknown.
const EXPONENT_DIGITS_MAX: usize = 15;

/// The rank of a number with an exponent: that of the same number written without one, the count of its integer digits
/// above its first seven bytes. Between numbers of equal rank, the digits decide.
#[cold]
pub(super) fn rank_with_exponent(number: &[u8]) -> i64 {
    let magnitude = sign(number).1;
    let mut digits = significant(magnitude);
    let scale = scale(magnitude);
    let mut rank = scale.clamp(1, INTEGER_DIGITS_MAX);
    for place in 0..7 {
        let byte = match place {
            _ if scale >= 1 && place == scale => b'.',
            0 if scale < 1 => b'0',
            1 if scale < 1 => b'.',
            _ if scale < 1 && place < 2 - scale => b'0',
            _ => digits.next().unwrap_or(if scale >= 1 && place < scale { b'0' } else { 0 }),
        };
        rank = rank << 8 | i64::from(byte);
    }
    rank
}

/// Upper bound on the integer digits of a number without exponent.
const INTEGER_DIGITS_MAX: i64 = 100;

/// Compares two numbers, each with or without an exponent.
pub(super) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let order = |number| {
        let (negative, magnitude) = sign(number);
        match significant(magnitude).next() {
            None => 0,
            Some(_) if negative => -1,
            Some(_) => 1,
        }
    };
    match order(left).cmp(&order(right)) {
        Ordering::Equal if order(left) < 0 => compare_magnitudes(sign(right).1, sign(left).1),
        Ordering::Equal => compare_magnitudes(sign(left).1, sign(right).1),
        unequal => unequal,
    }
}

fn compare_magnitudes(left: &[u8], right: &[u8]) -> Ordering {
    let (left_scale, right_scale) = (scale(left), scale(right));
    left_scale.cmp(&right_scale).then_with(|| {
        let (mut left, mut right) = (significant(left), significant(right));
        loop {
            match (left.next(), right.next()) {
                (None, None) => return Ordering::Equal,
                (left, right) => match left.unwrap_or(b'0').cmp(&right.unwrap_or(b'0')) {
                    Ordering::Equal => {}
                    unequal => return unequal,
                },
            }
        }
    })
}

fn sign(number: &[u8]) -> (bool, &[u8]) {
    match number {
        [b'-', magnitude @ ..] => (true, magnitude),
        magnitude => (false, magnitude),
    }
}

/// Integer and fraction digits without leading zeros.
fn significant(magnitude: &[u8]) -> impl Iterator<Item = u8> {
    let mantissa = magnitude.iter().copied().take_while(|byte| byte | 0x20 != b'e');
    mantissa.filter(|byte| *byte != b'.').skip_while(|byte| *byte == b'0')
}

/// The decimal exponent of the first significant digit.
fn scale(magnitude: &[u8]) -> i64 {
    let mantissa = magnitude.iter().copied().take_while(|byte| byte | 0x20 != b'e');
    let integer = mantissa.clone().take_while(|byte| *byte != b'.').count() as i64;
    let zeros = mantissa.filter(|byte| *byte != b'.').take_while(|byte| *byte == b'0').count() as i64;
    integer - zeros + exponent(magnitude).unwrap_or_default()
}

/// The written exponent, 0 without one; `None` when it has too many digits.
pub(super) fn exponent(number: &[u8]) -> Option<i64> {
    let Some(at) = number.iter().position(|byte| byte | 0x20 == b'e') else {
        return Some(0);
    };
    let text = std::str::from_utf8(number.get(at + 1..)?).ok()?;
    if text.len() > EXPONENT_DIGITS_MAX { None } else { text.parse().ok() }
}
