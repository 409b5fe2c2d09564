//! The lines of one value, and their conversion back to compact JSON when the value turns out to be small.

use lro_json::walk;

use crate::{LargeShape, Shape};

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Elements of an array, one per line.
    Elements,
    /// Members of an object, one per line.
    Members,
    /// The value on one line.
    Value,
}

impl Form {
    /// The form of a value outside all sections, by its first byte.
    pub(crate) fn of_member(first: u8) -> Self {
        match first {
            b'[' => Self::Elements,
            b'{' => Self::Members,
            _ => Self::Value,
        }
    }

    /// The form of a section of this shape, by the first byte of its value.
    pub(crate) fn of_section(shape: Shape, first: u8) -> Self {
        match (shape, first) {
            (_, b'[') => Self::Elements,
            (Shape::Members, b'{') => Self::Members,
            _ => Self::Value,
        }
    }

    pub(crate) fn large_shape(self) -> LargeShape {
        match self {
            Self::Elements => LargeShape::Elements,
            Self::Members => LargeShape::Members,
            Self::Value => LargeShape::Value,
        }
    }
}

/// The text around the key and the value of a member in a line of a file.
pub(crate) const BEFORE_KEY: &[u8] = b"{\"key\":";
pub(crate) const BEFORE_VALUE: &[u8] = b",\"value\":";
pub(crate) const AFTER_VALUE: &[u8] = b"}\n";

/// Turns a value that was buffered as lines (members as `K:V`) into compact JSON, in place.
///
/// Compact JSON contains no line feeds, so every one of them ends a line.
pub(crate) fn join(form: Form, lines: &mut Vec<u8>) {
    let brackets = match form {
        Form::Elements => (b'[', b']'),
        Form::Members => (b'{', b'}'),
        Form::Value => {
            lines.pop();
            return;
        }
    };
    for byte in lines.iter_mut().filter(|byte| **byte == b'\n') {
        *byte = b',';
    }
    match lines.last_mut() {
        Some(last) => *last = brackets.1,
        None => lines.push(brackets.1),
    }
    lines.insert(0, brackets.0);
}

/// Turns members that were buffered as lines `K:V` into the lines of a file. The last one may be cut anywhere.
pub(crate) fn member_lines(buffered: &[u8]) -> Vec<u8> {
    let mut lines = Vec::with_capacity(buffered.len() * 2);
    for line in buffered.split_inclusive(|&byte| byte == b'\n') {
        lines.extend_from_slice(BEFORE_KEY);
        let (line, after_value) = match line.strip_suffix(b"\n") {
            Some(line) => (line, AFTER_VALUE),
            None => (line, [].as_slice()),
        };
        match line.split_at_checked(string_length(line)) {
            Some((key, [b':', value @ ..])) => {
                lines.extend_from_slice(key);
                lines.extend_from_slice(BEFORE_VALUE);
                lines.extend_from_slice(value);
            }
            _ => lines.extend_from_slice(line),
        }
        lines.extend_from_slice(after_value);
    }
    lines
}

/// Length in bytes, with the quotes, of the string at the beginning of valid JSON; all of it when the string is cut.
pub(crate) fn string_length(json: &[u8]) -> usize {
    walk::string(json, 0).map_or(json.len(), |string| string.end)
}
