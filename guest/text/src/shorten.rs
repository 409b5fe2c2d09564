//! Shortens lines for people and models.

use std::ops::Range;

/// What stands for the text that was left out.
const ELLIPSIS: char = '…';

/// The line without its line break.
pub(crate) fn trim_break(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The beginning of a line, at most `limit` bytes of it.
pub(crate) fn beginning(line: &[u8], limit: usize) -> String {
    around(line, 0..0, limit)
}

/// At most `limit` bytes of a line: all of it, or what surrounds `found`, a third of it before.
pub(crate) fn around(line: &[u8], found: Range<usize>, limit: usize) -> String {
    let line = trim_break(line);
    if line.len() <= limit {
        return String::from_utf8_lossy(line).into_owned();
    }
    let spare = limit.saturating_sub(found.len());
    let start = found.start.saturating_sub(spare / 3).min(line.len() - limit);
    let (start, end) = (ceil_char(line, start), floor_char(line, start + limit));
    let mut out = String::with_capacity(limit + 2 * ELLIPSIS.len_utf8());
    if start > 0 {
        out.push(ELLIPSIS);
    }
    out.push_str(&String::from_utf8_lossy(line.get(start..end).unwrap_or_default()));
    if end < line.len() {
        out.push(ELLIPSIS);
    }
    out
}

/// The first character boundary from `at` on.
pub(crate) fn ceil_char(text: &[u8], mut at: usize) -> usize {
    while text.get(at).is_some_and(|byte| is_continuation(*byte)) {
        at += 1;
    }
    at
}

/// The last character boundary up to `at`.
pub(crate) fn floor_char(text: &[u8], mut at: usize) -> usize {
    while at > 0 && text.get(at).is_some_and(|byte| is_continuation(*byte)) {
        at -= 1;
    }
    at
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}
