//! JSON Pointers (RFC 6901) and their keys.

/// Appends `/` and the escaped key to a pointer. `raw` is the text between the quotes of the key.
///
/// A lone surrogate, which a `String` cannot hold, stays the six characters of its escape.
pub(crate) fn push_key(pointer: &mut String, raw: &str) {
    pointer.push('/');
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        push_escaped(pointer, plain);
        let (character, length) = unescape(escape.as_bytes());
        match character {
            Some(character) => push_escaped(pointer, character.encode_utf8(&mut [0; 4])),
            None => pointer.push_str(&escape[..length]),
        }
        rest = &escape[length..];
    }
    push_escaped(pointer, rest);
}

fn push_escaped(pointer: &mut String, text: &str) {
    for piece in text.split_inclusive(['~', '/']) {
        match piece.strip_suffix(['~', '/']) {
            Some(plain) => {
                pointer.push_str(plain);
                pointer.push_str(if piece.ends_with('~') { "~0" } else { "~1" });
            }
            None => pointer.push_str(piece),
        }
    }
}

/// Length in bytes, with the quotes, of the string at the beginning of valid `json`; all of `json` when the string is
/// cut.
pub(crate) fn string_length(json: &[u8]) -> usize {
    let mut escaped = false;
    let end = json.iter().skip(1).position(|&byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(json.len(), |end| end + 2)
}

/// Decodes the valid escape of a JSON string at the beginning of `text`, from its backslash on. Returns the character,
/// or `None` for a lone surrogate, and the length of the escape in bytes. A cut escape is `None` with the length of
/// `text`.
#[must_use]
pub fn unescape(text: &[u8]) -> (Option<char>, usize) {
    let simple = |character| (Some(character), 2);
    match text.get(1) {
        Some(b'b') => simple('\u{8}'),
        Some(b'f') => simple('\u{c}'),
        Some(b'n') => simple('\n'),
        Some(b'r') => simple('\r'),
        Some(b't') => simple('\t'),
        Some(b'u') => {
            let high = unit(text);
            let low = unit(text.get(6..).unwrap_or_default());
            match (high, low) {
                (Some(high @ 0xD800..=0xDBFF), Some(low @ 0xDC00..=0xDFFF)) => {
                    (char::from_u32(0x1_0000 + ((high - 0xD800) << 10) + (low - 0xDC00)), 12)
                }
                (Some(unit), _) => (char::from_u32(unit), 6),
                (None, _) => (None, text.len()),
            }
        }
        Some(&byte) => simple(char::from(byte)),
        None => (None, text.len()),
    }
}

/// The UTF-16 unit of the `\u` escape at the beginning of `text`.
fn unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Writes text as a JSON string, with the shortest escapes.
pub(crate) fn write_string(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        write_character(json, character);
    }
    json.push('"');
}

/// Writes one character of a JSON string, with the shortest escape if it needs one.
pub(crate) fn write_character(json: &mut String, character: char) {
    match character {
        '"' => json.push_str("\\\""),
        '\\' => json.push_str("\\\\"),
        '\n' => json.push_str("\\n"),
        '\r' => json.push_str("\\r"),
        '\t' => json.push_str("\\t"),
        '\u{8}' => json.push_str("\\b"),
        '\u{c}' => json.push_str("\\f"),
        control @ '\0'..='\u{1f}' => json.push_str(&format!("\\u{:04x}", u32::from(control))),
        plain => json.push(plain),
    }
}
