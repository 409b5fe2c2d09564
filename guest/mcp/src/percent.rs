//! Percent-encoding of URIs (RFC 3986, section 2.1).

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// What a segment of a path does not hold as it is. A segment of dots alone would mean another path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'~');

/// Encodes a name as a segment of a path.
pub fn encoded(name: &str) -> String {
    utf8_percent_encode(name, ESCAPED).to_string()
}

/// Decodes percent-encoding; `None` when an escape is incomplete or the result is not UTF-8.
pub fn decoded(text: &str) -> Option<String> {
    // The library keeps incomplete escapes as they are.
    let is_escape = |(at, _)| {
        let digits = text.as_bytes().get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !text.match_indices('%').all(is_escape) {
        return None;
    }
    percent_decode_str(text).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_as_segments() {
        for (name, segment) in
            [("team-a_1~", "team-a_1~"), ("a/b c", "a%2Fb%20c"), ("..", "%2E%2E"), ("ä%", "%C3%A4%25")]
        {
            assert_eq!(encoded(name), segment);
            assert_eq!(decoded(segment).as_deref(), Some(name));
        }
        for wrong in ["%", "a%2", "%2g", "%+2f", "%%41", "%FF"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
