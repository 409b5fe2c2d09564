//! Text from a policy for people and logs.

/// Replacements for the rest of a truncated text, and for a control character.
pub const ELLIPSIS: char = '…';
const REPLACEMENT: char = '\u{FFFD}';

/// Truncates a text and replaces its control characters, so that it stays on one line and cannot forge or flood a log.
/// A truncated text ends in `…`, which is not counted in `bytes_max`.
pub fn one_line(text: &str, bytes_max: usize) -> String {
    let shown = |character: char| if character.is_control() { REPLACEMENT } else { character };
    let mut line = String::new();
    for character in text.chars().map(shown) {
        if line.len() + character.len_utf8() > bytes_max {
            line.push(ELLIPSIS);
            break;
        }
        line.push(character);
    }
    line
}
