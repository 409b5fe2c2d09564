//! Parents by indentation: YAML, accessibility snapshots, trees, XML.

use super::{Mark, Parents};

/// Every line with content is a mark: the next ones may be deeper.
#[inline]
pub(super) fn line(line: &[u8], parents: &mut Parents) -> Option<Mark> {
    let (level, text) = level_and_text(line)?;
    parents.push(level, text);
    Some(Mark { level, back: false })
}

/// The level of a line and its text without what indents it; nothing for a line that is empty, a comment or a fence.
///
/// An element of a list is deeper than a key in its column: YAML allows both there.
#[inline]
pub(super) fn level_and_text(line: &[u8]) -> Option<(u32, &[u8])> {
    let (columns, text) = indent_of(line);
    let text = text.trim_ascii_end();
    let level = columns.saturating_mul(2).saturating_add(1);
    match text.strip_prefix(b"- ") {
        _ if text.is_empty() || text.starts_with(b"#") || text.starts_with(b"```") => None,
        Some(element) => Some((level + 1, element)),
        None => Some((level, text)),
    }
}

/// The columns that a line is indented by, with spaces, tabs or the lines of a tree, and what follows.
#[inline]
pub(crate) fn indent_of(line: &[u8]) -> (u32, &[u8]) {
    let (mut columns, mut at) = (0, 0);
    let is_row = is_row(line);
    loop {
        let rest = line.get(at..).unwrap_or_default();
        let length = match rest {
            [b' ' | b'\t', ..] => 1,
            // U+00A0.
            [0xC2, 0xA0, ..] => 2,
            // Box drawing, U+2500 to U+257F.
            [0xE2, 0x94 | 0x95, _, ..] if !is_row => 3,
            [b'|', b'-' | b' ', ..] if !is_row => 1,
            [b'`' | b'+', b'-', b'-', ..] => 1,
            [b'-', b'-' | b' ', ..] if at > 0 && matches!(line.get(at - 1), Some(b'|' | b'`' | b'+' | b'-')) => 1,
            _ => return (columns, rest),
        };
        columns += 1;
        at += length;
    }
}

/// Whether the line is a row of a table: what stands at its end does not indent.
#[inline]
fn is_row(line: &[u8]) -> bool {
    matches!(line.first(), Some(b'|' | 0xE2)) && {
        let text = line.trim_ascii_end();
        text.ends_with(b"|") || text.ends_with("│".as_bytes())
    }
}
