//! A record with its values shortened: what the records of a section look like.

use lro_json::unescaped_lossy;
use lro_json::walk::{Damaged, elements, members, skip_white, string, value_end};
use lro_json::write::push_escaped;

/// Longest string that is shown whole, in characters; longer ones are cut to it.
const STRING_CHARACTERS_MAX: usize = 48;

/// Bytes of a string that are looked at: a character outside the first plane has an escape of twelve.
const STRING_BYTES_MAX: usize = 12 * (STRING_CHARACTERS_MAX + 1);

/// Longest number that is shown, in bytes.
const NUMBER_BYTES_MAX: usize = 64;

/// Levels of containers that are shown.
const DEPTH_MAX: usize = 4;

/// Stands for what is not shown.
const MORE: &str = "\"…\"";

/// A record as JSON in about so many bytes at most: strings cut, one element of each array, as many members as fit. Fields for
/// which `is_left_out`, by the keys that lead to them as they are written, are not shown. The record may be cut anywhere.
pub(crate) fn shortened(record: &[u8], bytes_max: usize, is_left_out: &dyn Fn(&[&[u8]]) -> bool) -> Option<String> {
    let mut sample = Sample { record, is_left_out, path: Vec::new() };
    sample.value(skip_white(record, 0), bytes_max)
}

struct Sample<'a> {
    record: &'a [u8],
    is_left_out: &'a dyn Fn(&[&[u8]]) -> bool,
    /// The keys that lead to the current value.
    path: Vec<&'a [u8]>,
}

impl Sample<'_> {
    /// The value at an index, if it fits.
    fn value(&mut self, at: usize, room: usize) -> Option<String> {
        let short = match self.record.get(at)? {
            b'{' | b'[' if self.path.len() >= DEPTH_MAX => MORE.to_owned(),
            b'{' => self.object(at, room),
            b'[' => self.array(at, room),
            b'"' => self.text(at),
            _ => {
                // Where the record is cut, so may be the number.
                let end = value_end(self.record, at).ok().filter(|end| *end < self.record.len())?;
                let number = self.record.get(at..end)?;
                if number.len() > NUMBER_BYTES_MAX {
                    MORE.to_owned()
                } else {
                    String::from_utf8(number.to_vec()).ok()?
                }
            }
        };
        (short.len() <= room).then_some(short)
    }

    fn object(&mut self, at: usize, room: usize) -> String {
        let record = self.record;
        let mut out = String::from("{");
        // A member with the sign for more, and the bracket.
        let room = room.saturating_sub("\"…\":\"more\",}".len());
        let mut is_whole = true;
        let end = members(record, at, |key, value| {
            self.path.push(key.bytes);
            if !(self.is_left_out)(&self.path) {
                let before =
                    format!("{}\"{}\":", if out.len() > 1 { "," } else { "" }, String::from_utf8_lossy(key.bytes));
                let left = room.saturating_sub(out.len() + before.len());
                // One large member leaves room for those behind it.
                let most = if matches!(record.get(value), Some(b'{' | b'[')) { left / 2 } else { left };
                match self.value(value, most) {
                    Some(short) => out.extend([before, short]),
                    None => is_whole = false,
                }
            }
            self.path.pop();
            if out.len() < room { Ok(()) } else { Err(Damaged) }
        });
        if !is_whole || end.is_err() {
            out.push_str(if out.len() > 1 { "," } else { "" });
            out.push_str("\"…\":\"more\"");
        }
        out.push('}');
        out
    }

    /// The first element, and a sign for others.
    fn array(&mut self, at: usize, room: usize) -> String {
        let record = self.record;
        let (mut first, mut count) = (None, 0);
        // Of a record that is cut, the elements that are there count.
        let _ = elements(record, at, |element| {
            count += 1;
            if count > 1 {
                return Err(Damaged);
            }
            first = self.value(element, room.saturating_sub(MORE.len() + 3));
            Ok(())
        });
        match (first, count) {
            (_, 0) => "[]".to_owned(),
            (Some(first), 1) => format!("[{first}]"),
            (Some(first), _) => format!("[{first},{MORE}]"),
            (None, _) => format!("[{MORE}]"),
        }
    }

    fn text(&self, at: usize) -> String {
        let (bytes, is_cut) = match string(self.record, at) {
            Ok(raw) => (raw.bytes, false),
            Err(Damaged) => (self.record.get(at + 1..).unwrap_or_default(), true),
        };
        let looked_at = bytes.get(..STRING_BYTES_MAX).unwrap_or(bytes);
        let is_cut = is_cut || looked_at.len() < bytes.len();
        let text = unescaped_lossy(looked_at);
        let text = String::from_utf8_lossy(&text);
        let text = if is_cut { text.trim_end_matches(char::REPLACEMENT_CHARACTER) } else { &text };
        let mut out = String::from("\"");
        match text.char_indices().nth(STRING_CHARACTERS_MAX) {
            Some((end, _)) => push_escaped(&mut out, &format!("{}…", &text[..end])),
            None if is_cut => push_escaped(&mut out, &format!("{text}…")),
            None => push_escaped(&mut out, text),
        }
        out.push('"');
        out
    }
}
