//! Numbers and literals, by the grammar of RFC 8259 and of any length.

use crate::SyntaxErrorKind;
use crate::simd;

/// How far a number or literal has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    /// After `-`: a digit must follow.
    Minus,
    /// After a leading `0`: no digit may follow.
    Zero,
    /// After a digit of the integer part.
    Integer,
    /// After `.`: a digit must follow.
    Point,
    /// After a digit of the fraction.
    Fraction,
    /// After `e` or `E`: a sign or a digit must follow.
    Exponent,
    /// After the sign of the exponent: a digit must follow.
    Sign,
    /// After a digit of the exponent.
    Power,
    /// In a literal: what must still come.
    Literal(&'static [u8]),
}

/// What [`check`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// Correct, and ended before the end of the slice.
    Complete,
    /// Correct up to the end of the slice.
    Open(Scalar),
    /// The byte at this index of the slice cannot be there.
    Wrong(usize, SyntaxErrorKind),
}

impl Scalar {
    /// The state after a first byte.
    fn begin(byte: u8) -> Result<Self, SyntaxErrorKind> {
        match byte {
            b'-' => Ok(Self::Minus),
            b'0' => Ok(Self::Zero),
            b'1'..=b'9' => Ok(Self::Integer),
            b't' => Ok(Self::Literal(b"rue")),
            b'f' => Ok(Self::Literal(b"alse")),
            b'n' => Ok(Self::Literal(b"ull")),
            b'+' | b'.' => Err(SyntaxErrorKind::InvalidNumber),
            b'a'..=b'z' | b'A'..=b'Z' => Err(SyntaxErrorKind::InvalidLiteral),
            _ => Err(SyntaxErrorKind::UnexpectedToken),
        }
    }

    /// The state after one byte more.
    fn step(self, byte: u8) -> Result<Self, SyntaxErrorKind> {
        match (self, byte) {
            (Self::Minus, b'0') => Ok(Self::Zero),
            (Self::Minus, b'1'..=b'9') | (Self::Integer, b'0'..=b'9') => Ok(Self::Integer),
            (Self::Zero | Self::Integer, b'.') => Ok(Self::Point),
            (Self::Point | Self::Fraction, b'0'..=b'9') => Ok(Self::Fraction),
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Ok(Self::Exponent),
            (Self::Exponent, b'+' | b'-') => Ok(Self::Sign),
            (Self::Exponent | Self::Sign | Self::Power, b'0'..=b'9') => Ok(Self::Power),
            (Self::Literal([next, rest @ ..]), _) if *next == byte => Ok(Self::Literal(rest)),
            _ => Err(self.error()),
        }
    }

    /// Whether it may end here.
    pub(crate) fn is_complete(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::Power | Self::Literal([]))
    }

    /// The error for whatever breaks it.
    fn error(self) -> SyntaxErrorKind {
        match self {
            Self::Literal(_) => SyntaxErrorKind::InvalidLiteral,
            _ => SyntaxErrorKind::InvalidNumber,
        }
    }

    /// Reads on from `at` to the end of the scalar or of the slice, byte by byte.
    pub(crate) fn read(mut self, text: &[u8], at: usize) -> Checked {
        for (index, &byte) in text.iter().enumerate().skip(at) {
            if !is_scalar_byte(byte) {
                return if self.is_complete() { Checked::Complete } else { Checked::Wrong(index, self.error()) };
            }
            match self.step(byte) {
                Ok(next) => self = next,
                Err(kind) => return Checked::Wrong(index, kind),
            }
        }
        Checked::Open(self)
    }
}

/// Whether a byte outside strings belongs to a scalar, right or wrong: no white space, control character or structure.
fn is_scalar_byte(byte: u8) -> bool {
    byte > b' ' && !matches!(byte, b'"' | b',' | b':' | b'[' | b']' | b'{' | b'}')
}

/// Checks the scalar that begins at `at`.
#[inline(always)]
pub(crate) fn check(text: &[u8], at: usize) -> Checked {
    if ends_well(text, at) { Checked::Complete } else { check_slowly(text, at) }
}

/// The same for any case: near the end of the slice, and to tell what is wrong.
#[cold]
fn check_slowly(text: &[u8], at: usize) -> Checked {
    match text.get(at).map(|&byte| Scalar::begin(byte)) {
        Some(Ok(scalar)) => scalar.read(text, at + 1),
        Some(Err(kind)) => Checked::Wrong(at, kind),
        None => Checked::Complete,
    }
}

/// Whether a correct scalar begins at `at` and ends before the end of the slice; `false` also for "cannot tell".
#[inline(always)]
fn ends_well(text: &[u8], at: usize) -> bool {
    let end = match text.get(at) {
        Some(b't') => word(text, at, *b"true"),
        Some(b'n') => word(text, at, *b"null"),
        Some(b'f') => word(text, at + 1, *b"alse"),
        Some(_) => number(text, at),
        None => None,
    };
    end.and_then(|end| text.get(end)).is_some_and(|&byte| !is_scalar_byte(byte))
}

#[inline(always)]
fn word(text: &[u8], at: usize, word: [u8; 4]) -> Option<usize> {
    (text.get(at..at + 4)? == word).then_some(at + 4)
}

/// The end of the longest correct number from `at` on.
#[inline(always)]
fn number(text: &[u8], at: usize) -> Option<usize> {
    let first = at + usize::from(*text.get(at)? == b'-');
    let mut end = simd::skip_digits(text, first);
    if end == first || (end > first + 1 && *text.get(first)? == b'0') {
        return None;
    }
    if *text.get(end)? == b'.' {
        let fraction = end + 1;
        end = simd::skip_digits(text, fraction);
        if end == fraction {
            return None;
        }
    }
    if *text.get(end)? | 0x20 == b'e' {
        let power = end + 1 + usize::from(matches!(text.get(end + 1)?, b'+' | b'-'));
        end = simd::skip_digits(text, power);
        if end == power {
            return None;
        }
    }
    Some(end)
}
