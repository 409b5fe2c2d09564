//! Scalars: plain, quoted, literal, folded.

use super::item::Lines;
use crate::readers::error::Fault;
use crate::readers::string::quote;

/// Writes the scalar that begins with `text` and may go on in the following lines, which then are indented by at least
/// `indent`.
pub(super) fn write<'a>(text: &'a str, lines: &mut Lines<'a>, indent: usize, json: &mut Vec<u8>) -> Result<(), Fault> {
    let string = match text.as_bytes().first() {
        Some(b'"') => {
            let (string, rest) = double(&text[1..], Some((lines, indent)))?.ok_or(Fault::Yaml)?;
            end(rest)?;
            string
        }
        Some(b'\'') => {
            let (string, rest) = single(&text[1..], Some((lines, indent)))?.ok_or(Fault::Yaml)?;
            end(rest)?;
            string
        }
        Some(b'|' | b'>') => block(text, lines, indent)?,
        Some(b'[' | b'{') => {
            let empty = text.get(..2).filter(|empty| matches!(*empty, "[]" | "{}")).ok_or(Fault::Yaml)?;
            end(&text[2..])?;
            json.extend_from_slice(empty.as_bytes());
            return Ok(());
        }
        _ => return plain(text, lines, indent, json),
    };
    quote(string.as_bytes(), json);
    Ok(())
}

/// A quoted key at the beginning of a line, and what follows its colon. `None` when no colon follows.
pub(super) fn quoted_key(text: &str) -> Result<Option<(String, &str)>, Fault> {
    let found = match (text.strip_prefix('"'), text.strip_prefix('\'')) {
        (Some(inside), _) => double(inside, None)?,
        (None, Some(inside)) => single(inside, None)?,
        (None, None) => None,
    };
    let key = found.and_then(|(name, rest)| Some((name, rest.strip_prefix(':')?)));
    Ok(key.filter(|(_, rest)| rest.is_empty() || rest.starts_with(' ')))
}

/// Whether a plain scalar may begin like this and go on in one line.
pub(super) fn is_plain(text: &str) -> bool {
    let starts = match text.as_bytes() {
        [] => false,
        [b'-' | b':' | b'?', next, ..] => *next != b' ',
        [first, ..] => !b"-:?,[]{}#&*!|>'\"%@`".contains(first),
    };
    starts && !text.contains(": ") && !text.ends_with(':') && !text.bytes().any(|byte| byte < b' ' || byte == 0x7F)
}

/// Whether a plain scalar is null or a boolean.
pub(super) fn is_keyword(text: &str) -> bool {
    keyword(text).is_some()
}

fn keyword(text: &str) -> Option<&'static str> {
    match text {
        "~" | "null" | "Null" | "NULL" => Some("null"),
        "true" | "True" | "TRUE" => Some("true"),
        "false" | "False" | "FALSE" => Some("false"),
        _ => None,
    }
}

fn plain(text: &str, lines: &mut Lines<'_>, indent: usize, json: &mut Vec<u8>) -> Result<(), Fault> {
    let (first, has_comment) = before_comment(text);
    let mut value = String::from(first);
    if !is_plain(&value) {
        return Err(Fault::Yaml);
    }
    while let Some(breaks) = fold(lines, indent) {
        let Some(line) = lines.peek_any() else { break };
        let (next, ends) = before_comment(line.text);
        let is_more = !next.starts_with('#') && !next.contains(": ") && !next.ends_with(':') && !has_comment;
        if !is_more || ends || next.bytes().any(|byte| byte < b' ') {
            return Err(Fault::Yaml);
        }
        value.push_str(&breaks);
        value.push_str(next);
        lines.take();
    }
    match keyword(&value) {
        Some(keyword) => json.extend_from_slice(keyword.as_bytes()),
        None if is_number(&value) => json.extend_from_slice(value.as_bytes()),
        None => quote(value.as_bytes(), json),
    }
    Ok(())
}

/// Whether a plain scalar is a number in YAML 1.1 and 1.2, and spelled as one in JSON: with an exponent only behind a point and
/// before a sign.
fn is_number(text: &str) -> bool {
    let is_exponent = |at| text[..at].contains('.') && text[at + 1..].starts_with(['+', '-']);
    text.starts_with(|first: char| first == '-' || first.is_ascii_digit())
        && text.find(['e', 'E']).is_none_or(is_exponent)
        && lro_json::validate(text).is_ok()
}

/// A line without its comment and the spaces at its end, and whether it has a comment.
fn before_comment(text: &str) -> (&str, bool) {
    match text.find(" #") {
        Some(at) => (text[..at].trim_end_matches(' '), true),
        None => (text.trim_end_matches(' '), false),
    }
}

/// Checks that nothing but a comment follows.
fn end(rest: &str) -> Result<(), Fault> {
    let comment = rest.trim_start_matches(' ');
    if comment.is_empty() || (comment.starts_with('#') && comment.len() < rest.len()) {
        Ok(())
    } else {
        Err(Fault::Yaml)
    }
}

/// What a line break becomes: a space, or a line feed for each blank line. Takes the blank lines. `None` when the
/// scalar does not go on.
fn fold(lines: &mut Lines<'_>, indent: usize) -> Option<String> {
    let mut blank = 0;
    while lines.peek_any()?.is_blank() {
        blank += 1;
        lines.take();
    }
    let goes_on = lines.peek_any().is_some_and(|line| line.indent >= indent && !line.text.starts_with('#'));
    goes_on.then(|| if blank == 0 { " ".to_owned() } else { "\n".repeat(blank) })
}

/// The lines that a quoted scalar may go on in, and how far they are indented.
type More<'a, 'b> = Option<(&'b mut Lines<'a>, usize)>;

/// The next line of a quoted scalar.
fn more<'a>(more: &mut More<'a, '_>, value: &mut String, is_escaped: bool) -> Result<Option<&'a str>, Fault> {
    let Some((lines, indent)) = more else { return Ok(None) };
    if !is_escaped {
        value.truncate(value.trim_end_matches([' ', '\t']).len());
    }
    let mut blank = 0;
    while lines.peek_any().is_some_and(|line| line.is_blank()) {
        blank += 1;
        lines.take();
    }
    let line = lines.peek_any().filter(|line| line.indent >= *indent).ok_or(Fault::Yaml)?;
    lines.take();
    match (blank, is_escaped) {
        (0, true) => {}
        (0, false) => value.push(' '),
        _ => value.extend(std::iter::repeat_n('\n', blank)),
    }
    Ok(Some(line.text.trim_start_matches([' ', '\t'])))
}

/// A scalar in single quotes, from behind the first, and what follows. `None` when its end is not in this line and
/// there are no more.
fn single<'a>(text: &'a str, mut next: More<'a, '_>) -> Result<Option<(String, &'a str)>, Fault> {
    let (mut value, mut rest) = (String::new(), text);
    loop {
        let Some((plain, after)) = rest.split_once('\'') else {
            value.push_str(rest);
            match more(&mut next, &mut value, false)? {
                Some(line) => rest = line,
                None => return Ok(None),
            }
            continue;
        };
        value.push_str(plain);
        match after.strip_prefix('\'') {
            Some(after) => {
                value.push('\'');
                rest = after;
            }
            None => return Ok(Some((value, after))),
        }
    }
}

/// The same for double quotes.
fn double<'a>(text: &'a str, mut next: More<'a, '_>) -> Result<Option<(String, &'a str)>, Fault> {
    let (mut value, mut rest) = (String::new(), text);
    loop {
        let Some(at) = rest.find(['"', '\\']) else {
            value.push_str(rest);
            match more(&mut next, &mut value, false)? {
                Some(line) => rest = line,
                None => return Ok(None),
            }
            continue;
        };
        value.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if rest.as_bytes()[at] == b'"' {
            return Ok(Some((value, after)));
        }
        if after.is_empty() {
            match more(&mut next, &mut value, true)? {
                Some(line) => rest = line,
                None => return Ok(None),
            }
            continue;
        }
        let (character, length) = escape(after).ok_or(Fault::Yaml)?;
        value.push(character);
        rest = &after[length..];
    }
}

/// The character of an escape, from behind the backslash, and the length of the escape.
fn escape(text: &str) -> Option<(char, usize)> {
    let letter = text.chars().next()?;
    let digits = match letter {
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => {
            let plain = match letter {
                '0' => '\0',
                'a' => '\u{7}',
                'b' => '\u{8}',
                't' | '\t' => '\t',
                'n' => '\n',
                'v' => '\u{b}',
                'f' => '\u{c}',
                'r' => '\r',
                'e' => '\u{1b}',
                ' ' | '"' | '/' | '\\' => letter,
                'N' => '\u{85}',
                '_' => '\u{a0}',
                'L' => '\u{2028}',
                'P' => '\u{2029}',
                _ => return None,
            };
            return Some((plain, 1));
        }
    };
    let code = text.get(1..=digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some((char::from_u32(u32::from_str_radix(code, 16).ok()?)?, digits + 1))
}

/// A literal or folded block, whose header is `text`.
fn block(text: &str, lines: &mut Lines<'_>, indent: usize) -> Result<String, Fault> {
    let (header, _) = before_comment(text);
    let is_folded = header.starts_with('>');
    let keep = match &header[1..] {
        "" => Some(false),
        "+" => Some(true),
        "-" => None,
        // An indentation in digits.
        _ => return Err(Fault::Yaml),
    };
    let mut content: Vec<String> = Vec::new();
    let mut base = None;
    while let Some(line) = lines.peek_any() {
        if line.is_blank() {
            let kept = base.map_or(0, |base| line.indent.saturating_sub(base));
            content.push(" ".repeat(kept));
        } else if line.indent < indent || base.is_some_and(|base| line.indent < base) {
            break;
        } else {
            let base = *base.get_or_insert(line.indent);
            content.push(" ".repeat(line.indent - base) + line.text);
        }
        lines.take();
    }
    let last = content.iter().rposition(|line| !line.is_empty()).map_or(0, |last| last + 1);
    let after = content.len() - last;
    content.truncate(last);
    // Lines that are indented further, or have no text, fold by other rules.
    if is_folded && content.iter().any(|line| line.starts_with([' ', '\t']) || line.is_empty()) {
        return Err(Fault::Yaml);
    }
    let mut value = content.join(if is_folded { " " } else { "\n" });
    match keep {
        Some(true) => value.push_str(&"\n".repeat(after + usize::from(last > 0))),
        Some(false) if last > 0 => value.push('\n'),
        _ => {}
    }
    Ok(value)
}
