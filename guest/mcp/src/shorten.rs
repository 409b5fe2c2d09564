//! Shortens the arrays and strings of a JSON value without changing its shape.

use lro_json::walk::skip_white;

use super::result::CURSOR;
use super::span::{self, Member, Span};

/// Longest string that stays whole, in bytes of JSON; longer ones are cut.
const STRING_BYTES_MAX: usize = 256;

/// Members with the cursor of the next page, which a shortened value omits.
const CURSORS: [&str; 2] = [CURSOR, "next_cursor"];

/// The end of a shortened string.
pub(super) const ENDS_SHORT: char = '…';

/// Most levels that are shortened; deeper values stay whole.
const LEVELS_MAX: usize = 128;

/// The value with at most `elements` elements of each array, the beginning of each long string, and no cursor. `None`
/// when it is still longer than `bytes_max`.
pub fn shortened(json: &[u8], elements: usize, bytes_max: usize) -> Option<Vec<u8>> {
    let mut short = Shortened { json, elements, bytes_max, output: Vec::new() };
    let start = skip_white(json, 0);
    short.value(start..span::skip_value(json, start), LEVELS_MAX).then_some(short.output)
}

struct Shortened<'a> {
    json: &'a [u8],
    elements: usize,
    bytes_max: usize,
    output: Vec<u8>,
}

impl Shortened<'_> {
    /// Writes a value; returns whether it fits.
    fn value(&mut self, value: Span, levels: usize) -> bool {
        let json = self.json;
        match json.get(value.start) {
            Some(b'{') if levels > 0 => {
                // An object of more members than bytes does not fit.
                let (mut members, _) = span::members(json, value.start, self.bytes_max, |_, _| None);
                members.retain(|member| !is_cursor(json, member));
                self.list(b"{}", members.len(), |short, index| {
                    let Some(Member { key, value }) = members.get(index).cloned() else { return false };
                    short.push(json.get(key).unwrap_or_default()) && short.push(b":") && short.value(value, levels - 1)
                })
            }
            Some(b'[') if levels > 0 => {
                let (elements, _) = span::elements(json, value.start, self.elements, |_| None);
                self.list(b"[]", elements.len().min(self.elements), |short, index| {
                    elements.get(index).cloned().is_some_and(|element| short.value(element, levels - 1))
                })
            }
            Some(b'"') if value.len() > STRING_BYTES_MAX => {
                let text = json.get(value.start + 1..value.start + STRING_BYTES_MAX).unwrap_or_default();
                self.push(b"\"") && self.push(whole_characters(text)) && self.push(format!("{ENDS_SHORT}\"").as_bytes())
            }
            _ => self.push(json.get(value).unwrap_or_default()),
        }
    }

    fn list(&mut self, brackets: &[u8; 2], count: usize, item: impl Fn(&mut Self, usize) -> bool) -> bool {
        let [open, close] = brackets;
        self.push(&[*open])
            && (0..count).all(|index| (index == 0 || self.push(b",")) && item(self, index))
            && self.push(&[*close])
    }

    fn push(&mut self, bytes: &[u8]) -> bool {
        let fits = self.output.len() + bytes.len() <= self.bytes_max;
        if fits {
            self.output.extend_from_slice(bytes);
        }
        fits
    }
}

fn is_cursor(json: &[u8], member: &Member) -> bool {
    let is_named = span::string(json, &member.key).is_some_and(|name| CURSORS.contains(&name.as_ref()));
    is_named && json.get(member.value.clone()) != Some(b"null")
}

/// The longest prefix of the inside of a string that cuts neither a character nor an escape.
fn whole_characters(text: &[u8]) -> &[u8] {
    let end = match std::str::from_utf8(text) {
        Ok(text) => text.len(),
        Err(error) => error.valid_up_to(),
    };
    let mut at = 0;
    while let Some(byte) = text.get(at).filter(|_| at < end) {
        let length = match (byte, text.get(at + 1)) {
            // Twelve with the other half of a surrogate pair, which must not be split.
            (b'\\', Some(b'u'))
                if matches!(text.get(at + 2..at + 4), Some([b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B'])) =>
            {
                12
            }
            (b'\\', Some(b'u')) => 6,
            (b'\\', _) => 2,
            _ => 1,
        };
        if at + length > end {
            break;
        }
        at += length;
    }
    text.get(..at).unwrap_or_default()
}
