//! The levels of a log, its times, and its most frequent messages.

use std::collections::BTreeMap;

use lro_json::write::thousands;

use super::times::Times;
use super::{Entry, Outline};
use crate::structure::{Level, stamp};

/// Messages that an outline shows.
pub const MESSAGES_MAX: usize = 20;

/// Messages that are counted at once. When there are more, those that are rare so far are forgotten.
const COUNTED_MAX: usize = 4096;

/// Bytes of a message that count, after its values are masked.
const MESSAGE_BYTES_MAX: usize = 160;

/// Bytes of a line that are read for its message.
const LINE_BYTES_MAX: usize = 400;

/// What a log says.
#[derive(Debug, Default)]
pub(super) struct Messages {
    /// For each level, how many lines have it, the number of the first, and how that spells it.
    levels: [(Counted, String); Level::ALL.len()],
    messages: BTreeMap<Vec<u8>, Counted>,
    /// Some messages were forgotten: counts are at least what is said.
    forgot: bool,
    times: Times,
    /// The message of the line, kept for its memory.
    masked: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    lines: u64,
    first: u64,
}

impl Counted {
    fn add(&mut self, number: u64) {
        if self.lines == 0 {
            self.first = number;
        }
        self.lines += 1;
    }
}

impl Messages {
    /// Counts a line. One without time and level continues the message before it, and so does one without time in a log with
    /// times, such as `Error: …` in a stack trace.
    pub(super) fn line(&mut self, number: u64, line: &[u8]) {
        let line = line.get(..line.len().min(LINE_BYTES_MAX)).unwrap_or_default();
        let stamp = stamp(line);
        if let Some(time) = stamp.time {
            self.times.add(time);
        }
        if stamp.time.is_none() && (stamp.level.is_none() || !self.times.is_empty()) {
            return;
        }
        if let Some((level, spelled)) = stamp.level
            && let Some((counted, name)) = self.levels.get_mut(level as usize)
        {
            if counted.lines == 0 {
                *name = String::from_utf8_lossy(spelled).into_owned();
            }
            counted.add(number);
        }
        mask(message(line, stamp.time.map(|time| time.text)), &mut self.masked);
        match self.messages.get_mut(&self.masked) {
            Some(counted) => counted.add(number),
            None => self.messages.entry(self.masked.clone()).or_default().add(number),
        }
        if self.messages.len() > COUNTED_MAX {
            self.forget();
        }
    }

    pub(super) fn outline(self, lines: u64) -> Outline {
        let seen = self.levels.into_iter().filter(|(counted, _)| counted.lines > 0);
        let mut entries: Vec<_> = seen.map(|(counted, name)| counted.entry(1, name)).collect();
        let levels = entries.len();
        let mut messages: Vec<_> = self.messages.into_iter().collect();
        messages.sort_by_key(|(_, counted)| (std::cmp::Reverse(counted.lines), counted.first));
        messages.truncate(MESSAGES_MAX);
        entries.extend(messages.iter().map(|(text, counted)| counted.entry(2, String::from_utf8_lossy(text).into())));
        let mut kind = format!("log of {} line{}", thousands(lines), if lines == 1 { "" } else { "s" });
        if levels > 0 {
            kind.push_str(&format!(", {levels} level{}", if levels == 1 { "" } else { "s" }));
        }
        if let Some((from, to)) = self.times.range() {
            kind.push_str(&format!(", from {from} to {to}"));
        }
        let mut notes = Vec::new();
        if self.forgot {
            notes.push(format!(
                "more than {} kinds of messages: their counts are at least these",
                thousands(COUNTED_MAX as u64)
            ));
        }
        Outline { kind, entries, notes, lines }
    }

    /// Forgets the rarer half of the messages.
    fn forget(&mut self) {
        let mut counts: Vec<u64> = self.messages.values().map(|counted| counted.lines).collect();
        let (_, middle, _) = counts.select_nth_unstable(COUNTED_MAX / 2);
        let middle = *middle;
        self.messages.retain(|_, counted| counted.lines > middle);
        self.forgot = true;
    }
}

impl Counted {
    fn entry(&self, level: u32, title: String) -> Entry {
        Entry { line: self.first, level, title, lines: self.lines }
    }
}

/// The line behind its time, if it begins with that.
fn message<'a>(line: &'a [u8], time: Option<&[u8]>) -> &'a [u8] {
    let line = line.trim_ascii();
    let bare = line.strip_prefix(b"[").unwrap_or(line);
    let behind = time.and_then(|time| bare.strip_prefix(time)).unwrap_or(line);
    let marks = behind.iter().take_while(|&&byte| matches!(byte, b' ' | b'\t' | b']' | b':' | b'-' | b'|')).count();
    behind.get(marks..).unwrap_or_default()
}

/// Writes a message with its values replaced: `<n>` for numbers, `<hex>`, `<uuid>`, `<text>` in quotes, `<path>`.
fn mask(message: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut at = 0;
    while out.len() < MESSAGE_BYTES_MAX
        && let Some(rest) = message.get(at..).filter(|rest| !rest.is_empty())
    {
        let (length, masked) = match rest {
            [quote @ (b'"' | b'\''), inside @ ..] => match inside.iter().position(|byte| byte == quote) {
                Some(length) => (length + 2, TEXT),
                None => (1, KEPT),
            },
            [b'/', next, ..] if next.is_ascii_alphanumeric() => (path(rest), PATH),
            [first, ..] if first.is_ascii_alphanumeric() => word(rest),
            _ => (1, KEPT),
        };
        // Times, versions and addresses are one number.
        if masked == NUMBER && matches!(out.as_slice(), [.., b'<', b'n', b'>', b'.' | b':' | b',' | b'-' | b'/']) {
            out.pop();
        } else if masked == KEPT {
            out.extend_from_slice(rest.get(..length).unwrap_or_default());
        } else {
            out.extend_from_slice(masked);
        }
        at += length;
    }
}

/// What stands for a value.
const NUMBER: &[u8] = b"<n>";
const HEX: &[u8] = b"<hex>";
const UUID: &[u8] = b"<uuid>";
const TEXT: &[u8] = b"<text>";
const PATH: &[u8] = b"<path>";

/// Text that stands for itself.
const KEPT: &[u8] = b"";

/// The bytes of the word at the beginning, or of its part that is a value, and what stands for them.
fn word(rest: &[u8]) -> (usize, &'static [u8]) {
    let length = rest.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    let word = rest.get(..length).unwrap_or_default();
    let Some(digit) = word.iter().position(u8::is_ascii_digit) else { return (length, KEPT) };
    let is_hex = |text: &[u8]| text.iter().all(u8::is_ascii_hexdigit);
    match word {
        _ if length == 8 && is_uuid(rest) => (36, UUID),
        [b'0', b'x' | b'X', number @ ..] if !number.is_empty() && is_hex(number) => (length, HEX),
        _ if length >= 6 && is_hex(word) && !word.iter().all(u8::is_ascii_digit) => (length, HEX),
        _ if digit > 0 => (digit, KEPT),
        _ => (digits(word), NUMBER),
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn path(text: &[u8]) -> usize {
    text.iter().take_while(|&&byte| byte.is_ascii_alphanumeric() || b"/._-+%@~".contains(&byte)).count()
}

fn is_uuid(text: &[u8]) -> bool {
    text.get(..36).is_some_and(|text| {
        text.iter().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
    })
}
