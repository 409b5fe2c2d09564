//! Writes JSON strings.

/// Appends the inside of a JSON string, with the shortest escapes. The bytes may be any part of a text, cut anywhere.
pub(crate) fn escape(text: &[u8], lines: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte < b' ' || matches!(byte, b'"' | b'\\')) {
        lines.extend_from_slice(&rest[..at]);
        escape_byte(rest[at], lines);
        rest = &rest[at + 1..];
    }
    lines.extend_from_slice(rest);
}

/// Appends a whole JSON string.
pub(crate) fn quote(text: &[u8], lines: &mut Vec<u8>) {
    lines.push(b'"');
    escape(text, lines);
    lines.push(b'"');
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
