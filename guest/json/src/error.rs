//! Errors of a document, with their offsets.

use std::fmt;

/// The reason why a text is not one JSON document, and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The kind of error.
    pub kind: SyntaxErrorKind,
    /// Offset in bytes, from the beginning of the document, of the first invalid byte; the length of the document when
    /// it ends too early.
    pub offset: u64,
}

/// The kinds of [`SyntaxError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyntaxErrorKind {
    /// The text ends before the document is complete; also for an empty text.
    UnexpectedEnd,
    /// A token that the grammar does not allow here, or a byte that cannot begin a token.
    UnexpectedToken,
    /// A `}` or `]` that does not close the innermost open container.
    MismatchedBracket,
    /// A number outside the grammar of RFC 8259: a leading zero or plus, a missing digit, a letter.
    InvalidNumber,
    /// A word other than `true`, `false` and `null`.
    InvalidLiteral,
    /// A backslash followed by something other than `"`, `\`, `/`, `b`, `f`, `n`, `r`, `t`, or `u` and four hex digits.
    InvalidEscape,
    /// A byte below 0x20: unescaped in a string, or between tokens and not tab, line feed or carriage return.
    ControlCharacter,
    /// More than [`DEPTH_MAX`](crate::DEPTH_MAX) nested containers.
    DepthLimit,
    /// A key of more than this many bytes, for a reader that keeps keys. The offset is the end of the slice or token
    /// where the reader noticed it.
    KeyLimit(usize),
    /// [`members`](crate::members) was called on something that is not an object.
    NotAnObject,
    /// [`elements`](crate::elements) was called on something that is not an array.
    NotAnArray,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset;
        match self.kind {
            SyntaxErrorKind::UnexpectedEnd => write!(formatter, "JSON ends too early, after {offset} bytes"),
            SyntaxErrorKind::UnexpectedToken => write!(formatter, "unexpected token at byte {offset}"),
            SyntaxErrorKind::MismatchedBracket => write!(formatter, "mismatched bracket at byte {offset}"),
            SyntaxErrorKind::InvalidNumber => write!(formatter, "invalid number at byte {offset}"),
            SyntaxErrorKind::InvalidLiteral => write!(formatter, "invalid literal at byte {offset}"),
            SyntaxErrorKind::InvalidEscape => write!(formatter, "invalid escape at byte {offset}"),
            SyntaxErrorKind::ControlCharacter => write!(formatter, "control character at byte {offset}"),
            SyntaxErrorKind::DepthLimit => {
                write!(formatter, "nested more than {} deep at byte {offset}", crate::DEPTH_MAX)
            }
            SyntaxErrorKind::KeyLimit(limit) => {
                write!(formatter, "key of more than {limit} bytes, before byte {offset}")
            }
            SyntaxErrorKind::NotAnObject => write!(formatter, "not an object: unexpected token at byte {offset}"),
            SyntaxErrorKind::NotAnArray => write!(formatter, "not an array: unexpected token at byte {offset}"),
        }
    }
}

impl std::error::Error for SyntaxError {}
