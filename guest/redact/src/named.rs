//! Finds the values of secret fields in text that is not JSON: `key=value` and `key: value` in logs, settings and YAML,
//! JSON and Python literals inside text, elements and attributes of XML.

use std::ops::Range;

use crate::find::{AFTER_BYTES, MATCH_BYTES_MAX, Match, Search};

/// Most bytes from a name on that decide where its value ends. A longer value is removed to the end of its line.
const VIEW_BYTES_MAX: usize = MATCH_BYTES_MAX - AFTER_BYTES;

/// Most bytes of an object, a list or an element. They are searched for their end again and again when many have none.
const CONTAINER_BYTES_MAX: usize = 4096;

/// Most white space on either side of a separator, in bytes.
const SPACES_MAX: usize = 64;

/// Characters around a name that do not belong to it.
const DECORATION: [char; 6] = ['"', '\'', '`', '*', '\\', ']'];

/// Words before a name at the beginning of a line.
const COMMANDS: [&[u8]; 3] = [b"export", b"set", b"env"];

/// Schemes of HTTP authentication: the secret follows.
const SCHEMES: [&str; 4] = ["bearer", "basic", "digest", "token"];

/// Most bytes of the name that a value ends before: `password=a user=b`.
const NEXT_NAME_BYTES_MAX: usize = 64;

impl<'a> Search<'a> {
    /// The value after the `:` or `=` that follows the byte at `index`, if its name is secret.
    pub(crate) fn named(&self, index: usize, from: usize) -> Option<Match<'a>> {
        let head = self.text.get(..=index)?;
        let closed = head.trim_end_matches([' ', '\t']);
        let bare = closed.trim_end_matches(DECORATION);
        let evidence = self.rules.secret_at_end(bare, self.before.last).filter(|start| *start >= from)?;
        let value = self.value_start(index + 1)?;
        if head.len() - closed.len() > SPACES_MAX {
            return None;
        }
        let rest = self.text.get(value..)?;
        if rest.is_empty() && !self.complete {
            return Some(Match { evidence, ..Match::new(value..value, not_break) });
        }
        let prefix = self.before.line_prefix(self.text.as_bytes(), evidence);
        let indent = prefix.filter(|prefix| begins_line(prefix)).map(|prefix| prefix.len());
        // The lines of a value in YAML.
        let below = indent.filter(|_| self.text.as_bytes().get(index + 1) == Some(&b':'));
        if let Some((line, indent)) = block_indicator(rest).zip(below) {
            let range = self.indented(value + line, indent)?;
            return Some(Match { evidence, ..Match::new(range, |_| true) });
        }
        let view = rest.get(..rest.floor_char_boundary(VIEW_BYTES_MAX))?;
        let quote = quotation_mark(closed.get(bare.len()..)?);
        if let Some((start, length)) = quoted(view) {
            let end = start + length.unwrap_or_else(|| to_break(rest.get(start..).unwrap_or_default()));
            return (end > start).then(|| Match { evidence, ..Match::new(value + start..value + end, not_break) });
        }
        let length = match view.bytes().next()? {
            b'{' | b'[' => container(view),
            _ if !quote.is_empty() => view.find([',', '}', ']', ' ', '\t', '\r', '\n']),
            _ if below.is_some() => None,
            _ => plain(view, indent.is_none()),
        };
        let length = length.unwrap_or_else(|| to_break(rest));
        // YAML takes brackets for a list, and what begins a line may be YAML.
        let quote = if below.is_some() && quote.is_empty() { "\"" } else { quote };
        (length > 0).then(|| Match { evidence, quote, ..Match::new(value..value + length, not_break) })
    }

    /// Where the value begins after a separator, which may be `=>` or `:=`, and white space.
    fn value_start(&self, separator: usize) -> Option<usize> {
        let rest = self.text.get(separator..)?;
        let after = rest.get(1..)?;
        let arrow = if rest.starts_with('=') { '>' } else { '=' };
        let after = after.strip_prefix(arrow).unwrap_or(after);
        let value = after.trim_start_matches([' ', '\t']);
        (after.len() - value.len() <= SPACES_MAX).then(|| self.text.len() - value.len())
    }

    /// The lines that are indented deeper than a name, from the end of its line on. A list may stand as deep as the name.
    fn indented(&self, line_end: usize, indent: usize) -> Option<Range<usize>> {
        let rest = self.text.get(line_end..)?;
        let view = rest.get(..rest.floor_char_boundary(VIEW_BYTES_MAX))?;
        let is_cut = !self.complete && view.len() == rest.len();
        let (mut start, mut end, mut at) = (None, 0, 0);
        for line in view.split_inclusive('\n') {
            let content = line.trim_start_matches([' ', '\t']);
            let depth = line.len() - content.len();
            at += line.len();
            if content.trim_end().is_empty() {
                continue;
            }
            if depth < indent || depth == indent && !content.starts_with("- ") {
                let start = start?;
                return Some(line_end + start..line_end + end);
            }
            start = start.or(Some(at - content.len()));
            end = at - (content.len() - content.trim_end().len());
        }
        if is_cut || view.len() < rest.len() {
            // It may go on, or is too long to look for its end.
            let start = start.or(is_cut.then_some(view.len()))?;
            return Some(line_end + start..self.text.len());
        }
        start.map(|start| line_end + start..line_end + end)
    }

    /// The content of the XML element that begins at `index`, if its name is secret.
    pub(crate) fn element(&self, index: usize) -> Option<Match<'a>> {
        let inside = self.text.get(index + 1..)?;
        let view = inside.get(..inside.floor_char_boundary(CONTAINER_BYTES_MAX))?;
        let name_end = |character: char| character.is_ascii_whitespace() || matches!(character, '<' | '>' | '/' | '=');
        let tag = view.get(..view.find(name_end).unwrap_or(view.len()))?;
        if !self.rules.is_secret(tag.rsplit(':').next()?) {
            return None;
        }
        let Some(start) = view.find('>').map(|end| end + 1) else {
            let is_cut = !self.complete && view.len() == inside.len();
            return is_cut.then(|| Match { evidence: index, ..Match::new(self.text.len()..self.text.len(), not_tag) });
        };
        let content = view.get(start..).filter(|_| view.as_bytes().get(start.wrapping_sub(2)) != Some(&b'/'))?;
        let is_closing = |at: &usize| content.get(at + 2..).is_some_and(|rest| rest.starts_with(tag));
        let closing = content.match_indices("</").map(|(at, _)| at).find(is_closing);
        let whole = inside.get(start..)?;
        let length = closing.or_else(|| whole.find('<')).unwrap_or(whole.len());
        let range = index + 1 + start..index + 1 + start + length;
        (length > 0).then(|| Match { evidence: index, ..Match::new(range, not_tag) })
    }
}

fn is_break(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// A piece of a cell to take out. Only the first one has a replacement.
pub(crate) fn cell_piece(range: Range<usize>, is_replaced: &mut bool) -> Match<'static> {
    let width = std::mem::replace(is_replaced, true).then_some(0);
    Match { width, ..Match::new(range, not_break) }
}

pub(crate) fn not_break(byte: u8) -> bool {
    !is_break(byte)
}

fn not_tag(byte: u8) -> bool {
    byte != b'<'
}

/// Length of a line without white space at its end.
fn to_break(text: &str) -> usize {
    let line = text.bytes().position(is_break).and_then(|end| text.get(..end)).unwrap_or(text);
    line.trim_end_matches([' ', '\t']).len()
}

/// Whether nothing before a name takes the beginning of the line from it.
fn begins_line(prefix: &[u8]) -> bool {
    let is_mark = |byte: &u8| b" \t-*>#\"'`".contains(byte);
    let start = prefix.iter().position(|byte| !is_mark(byte));
    let end = prefix.iter().rposition(|byte| !is_mark(byte));
    let word = start.zip(end).and_then(|(start, end)| prefix.get(start..=end));
    word.is_none_or(|word| COMMANDS.contains(&word))
}

/// The quotation mark after a name, with its backslashes.
fn quotation_mark(decoration: &str) -> &str {
    let backslashes = decoration.len() - decoration.trim_start_matches('\\').len();
    let mark = decoration.get(..backslashes + 1).unwrap_or_default();
    if mark.ends_with(['"', '\'']) { mark } else { "" }
}

/// Length of the rest of a line without a value, which YAML puts below: nothing, or `|` and `>` with their indicators.
fn block_indicator(text: &str) -> Option<usize> {
    let indicator = text.strip_prefix(['|', '>']).unwrap_or(text);
    let after = indicator.bytes().position(|byte| !matches!(byte, b'0'..=b'9' | b'+' | b'-' | b' '))?;
    let is_indicator = indicator.len() < text.len() || after == 0;
    let end = text.len() - indicator.len() + after;
    (is_indicator && text.as_bytes().get(end).is_some_and(|byte| is_break(*byte))).then_some(end)
}

/// Where the inside of the quoted string at the beginning of a text begins, and its length, if it ends in its line.
fn quoted(text: &str) -> Option<(usize, Option<usize>)> {
    let backslashes = text.len() - text.trim_start_matches('\\').len();
    let mark = *text.as_bytes().get(backslashes).filter(|byte| matches!(**byte, b'"' | b'\''))?;
    let start = backslashes + 1;
    let mut before = 0;
    for (at, byte) in text.bytes().enumerate().skip(start) {
        let is_end = if backslashes == 0 { before % 2 == 0 } else { before <= backslashes };
        match byte {
            b'\n' | b'\r' => break,
            b'\\' => before += 1,
            _ if byte == mark && is_end => return Some((start, Some(at - before.min(backslashes) - start))),
            _ => before = 0,
        }
    }
    Some((start, None))
}

/// Length of the object or list at the beginning of a text.
fn container(text: &str) -> Option<usize> {
    let (mut depth, mut string, mut escaped) = (0_u32, None, false);
    for (at, byte) in text.bytes().enumerate().take(CONTAINER_BYTES_MAX) {
        match (byte, string) {
            _ if escaped => escaped = false,
            (b'\\', Some(_)) => escaped = true,
            (_, Some(mark)) => string = string.filter(|_| byte != mark),
            (b'"' | b'\'', None) => string = Some(byte),
            (b'{' | b'[', None) => depth += 1,
            (b'}' | b']', None) => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

/// Length of a value without quotation marks: up to the name of the next one and, in the middle of a line, to white space.
/// `None` when it does not end in the text.
fn plain(text: &str, is_word: bool) -> Option<usize> {
    let start = if is_word { scheme(text) } else { 0 };
    let value = text.get(start..)?;
    let ends = |(at, byte): &(usize, u8)| match byte {
        b'\n' | b'\r' => true,
        b' ' | b'\t' if is_word => true,
        b' ' | b'\t' | b',' | b';' | b'&' | b'|' => value.get(at + 1..).is_some_and(begins_with_name),
        _ => false,
    };
    let (end, _) = value.bytes().enumerate().find(ends)?;
    let value = value.get(..end)?;
    let closing = |character| is_word && matches!(character, ',' | ';' | ')' | ']' | '}' | '>' | '"' | '\'');
    Some(start + value.trim_end_matches(|character| matches!(character, ' ' | '\t') || closing(character)).len())
}

/// Length of a scheme of HTTP authentication and the space after it.
fn scheme(text: &str) -> usize {
    let length = |scheme: &&str| {
        let word = text.get(..scheme.len())?;
        let is_scheme = word.eq_ignore_ascii_case(scheme) && text.get(scheme.len()..)?.starts_with(' ');
        is_scheme.then_some(scheme.len() + 1)
    };
    SCHEMES.iter().find_map(length).unwrap_or_default()
}

/// Whether a text begins with the name of a value, and `:` or `=`.
fn begins_with_name(text: &str) -> bool {
    let text = text.get(..text.floor_char_boundary(NEXT_NAME_BYTES_MAX)).unwrap_or_default();
    let name = text.trim_start_matches([' ', '\t', '"', '\'']);
    let after =
        name.trim_start_matches(|character: char| character.is_ascii_alphanumeric() || "_-.".contains(character));
    let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    begins && after.trim_start_matches(['"', '\'']).starts_with([':', '='])
}
