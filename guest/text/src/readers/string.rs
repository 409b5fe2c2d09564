//! Writes JSON strings.

use std::ops::Range;

use lro_json::{LANE, Lane};

use super::append::append;

/// Appends the inside of a JSON string, a range of a text, with the shortest escapes. The range may be any part, cut anywhere.
pub(crate) fn escape(text: &[u8], range: Range<usize>, lines: &mut Vec<u8>) {
    let mut from = range.start;
    while let Some(at) = special(text, from..range.end) {
        append(lines, text, from..at);
        escape_byte(text[at], lines);
        from = at + 1;
    }
    append(lines, text, from..range.end);
}

/// Appends a whole JSON string.
pub(crate) fn quote(text: &[u8], lines: &mut Vec<u8>) {
    lines.push(b'"');
    escape(text, 0..text.len(), lines);
    lines.push(b'"');
}

/// The first byte of a range that needs an escape.
#[inline(always)]
fn special(text: &[u8], mut range: Range<usize>) -> Option<usize> {
    while let Some(chunk) = text.get(range.start..).and_then(|rest| rest.first_chunk()).filter(|_| !range.is_empty()) {
        let lane = Lane::load(chunk);
        let found = lane.at_most(0x1F).or(lane.equal(b'"')).or(lane.equal(b'\\')).bits();
        if found != 0 {
            return Some(range.start + found.trailing_zeros() as usize).filter(|at| *at < range.end);
        }
        range.start += LANE;
    }
    let is_special = |byte: &u8| *byte < b' ' || matches!(*byte, b'"' | b'\\');
    text.get(range.clone())?.iter().position(is_special).map(|at| range.start + at)
}

fn escape_byte(byte: u8, lines: &mut Vec<u8>) {
    let letter = match byte {
        b'"' | b'\\' => byte,
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0C => b'f',
        control => {
            let digit = |value: u8| if value < 10 { b'0' + value } else { b'a' + value - 10 };
            lines.extend_from_slice(&[b'\\', b'u', b'0', b'0', digit(control >> 4), digit(control & 0xF)]);
            return;
        }
    };
    lines.extend_from_slice(&[b'\\', letter]);
}
