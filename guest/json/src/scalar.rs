//! Numbers and literals of any length, by the grammar of RFC 8259.

use crate::SyntaxErrorKind;
use crate::masks::skip_digits;

/// The state of the parser inside a number or literal.
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
    /// In a literal: the bytes that must follow.
    Literal(&'static [u8]),
}

/// The result of [`check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// Valid, and ends before the end of the slice.
    Complete,
    /// Valid up to the end of the slice.
    Open(Scalar),
    /// The byte at this index of the slice is invalid.
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

    /// The state after one more byte.
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

    /// Whether the scalar may end here.
    pub(crate) fn is_complete(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::Power | Self::Literal([]))
    }

    /// The kind of error for an invalid byte in this state.
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

/// Whether a byte outside strings belongs to a scalar, valid or not: any byte except white space, control characters
/// and structural characters.
fn is_scalar_byte(byte: u8) -> bool {
    byte > b' ' && !matches!(byte, b'"' | b',' | b':' | b'[' | b']' | b'{' | b'}')
}

/// Checks the scalar that begins at `at`.
#[inline(always)]
pub(crate) fn check(text: &[u8], at: usize) -> Checked {
    if is_complete(text, at) { Checked::Complete } else { check_slow(text, at) }
}

/// The slow path of [`check`]: near the end of the slice, and to find the error.
#[cold]
fn check_slow(text: &[u8], at: usize) -> Checked {
    match text.get(at).map(|&byte| Scalar::begin(byte)) {
        Some(Ok(scalar)) => scalar.read(text, at + 1),
        Some(Err(kind)) => Checked::Wrong(at, kind),
        None => Checked::Complete,
    }
}

/// Whether a valid scalar begins at `at` and ends before the end of the slice; `false` also when that is not known yet.
#[inline(always)]
fn is_complete(text: &[u8], at: usize) -> bool {
    scalar_end(text, at).and_then(|end| text.get(end)).is_some_and(|&byte| !is_scalar_byte(byte))
}

/// The end of the longest valid number, or of the literal, from `at` on; `None` when there is none, or the text ends in a
/// number. What follows it is not looked at.
#[inline(always)]
#[must_use]
pub fn scalar_end(text: &[u8], at: usize) -> Option<usize> {
    match text.get(at)? {
        b't' => word(text, at, *b"true"),
        b'n' => word(text, at, *b"null"),
        b'f' => word(text, at + 1, *b"alse"),
        _ => number(text, at),
    }
}

#[inline(always)]
fn word(text: &[u8], at: usize, word: [u8; 4]) -> Option<usize> {
    (text.get(at..at + 4)? == word).then_some(at + 4)
}

/// The end of the longest valid number from `at` on.
#[inline(always)]
fn number(text: &[u8], at: usize) -> Option<usize> {
    let first = at + usize::from(*text.get(at)? == b'-');
    let mut end = skip_digits(text, first);
    if end == first || (end > first + 1 && *text.get(first)? == b'0') {
        return None;
    }
    if *text.get(end)? == b'.' {
        let fraction = end + 1;
        end = skip_digits(text, fraction);
        if end == fraction {
            return None;
        }
    }
    if *text.get(end)? | 0x20 == b'e' {
        let power = end + 1 + usize::from(matches!(text.get(end + 1)?, b'+' | b'-'));
        end = skip_digits(text, power);
        if end == power {
            return None;
        }
    }
    Some(end)
}
