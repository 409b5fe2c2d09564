//! Finds e-mail addresses, card numbers and keys in a text.
//!
//! Each search starts from a byte that every match must contain, so most of a text is only skipped.

use crate::rules::Patterns;
use std::ops::Range;

/// Most bytes that decide whether a match is a secret: 16 KiB from its beginning. A longer secret is removed to its
/// end; a JSON Web Token with a longer header is not recognized.
pub const MATCH_BYTES_MAX: usize = 16 * 1024;

/// Length of the shortest secret, in bytes.
pub(crate) const MATCH_BYTES_MIN: usize = "a@b.cd".len();

/// Bytes after a secret that may still extend it: a later label of a domain, and the longest character after it.
pub(crate) const AFTER_BYTES: usize = DOMAIN_BYTES_MAX + 4;

/// Longest local part of an e-mail address, in characters, and longest domain, in bytes (RFC 5321).
const LOCAL_CHARACTERS_MAX: usize = 64;
const DOMAIN_BYTES_MAX: usize = 255;

const CARD_DIGITS_MIN: usize = 13;
const CARD_DIGITS_MAX: usize = 19;

/// Prefixes of keys, with the least number of letters, digits, `-` and `_` that follow.
const PREFIXES: [(&str, usize); 20] = [
    ("sk-", 16),
    ("sk_live_", 16),
    ("sk_test_", 16),
    ("rk_live_", 16),
    ("ghp_", 20),
    ("gho_", 20),
    ("ghu_", 20),
    ("ghs_", 20),
    ("ghr_", 20),
    ("github_pat_", 20),
    ("glpat-", 16),
    ("npm_", 20),
    ("hf_", 20),
    ("xoxa-", 10),
    ("xoxb-", 10),
    ("xoxp-", 10),
    ("xoxs-", 10),
    ("AIza", 30),
    ("AKIA", 16),
    ("ASIA", 16),
];

/// The beginning of a JSON object in base64.
const TOKEN: &str = "eyJ";

const BEGIN: &str = "-----BEGIN ";
const PRIVATE_KEY: &str = "PRIVATE KEY-----";
const END: &str = "-----END ";
const DASHES: &str = "-----";

/// Most bytes between [`BEGIN`] and [`PRIVATE_KEY`]: `ENCRYPTED `, `RSA `, `OPENSSH ` and so on.
const ALGORITHM_BYTES_MAX: usize = 32;

/// The class of bytes that continue a secret.
pub(crate) type Class = fn(u8) -> bool;

/// A secret in a text.
pub(crate) struct Match {
    pub(crate) range: Range<usize>,
    pub(crate) class: Class,
}

/// The first secret from `from` on that is not part of an earlier one; `before` are the two bytes before the text.
///
/// A match at the end of a text that is not `complete` may turn out to be longer, or not to match.
pub(crate) fn find(text: &str, from: usize, before: [u8; 2], complete: bool, patterns: Patterns) -> Option<Match> {
    let bytes = text.as_bytes();
    // No token begins inside text that was already rejected as a header.
    let mut header_end = 0;
    let mut at = from;
    while let Some(length) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| TRIGGERS[usize::from(*byte)]))
    {
        let index = at + length;
        at = index + 1;
        let [second_last, last] = last_two(bytes.get(..index).unwrap_or_default(), before);
        let byte = bytes.get(index).copied().unwrap_or_default();
        if byte.is_ascii_digit() && is_word(last) && second_last != b'\\' {
            continue;
        }
        // The range that a secret with this byte can span.
        let ahead = bytes.get(index.saturating_sub(WORD_BYTES_MAX).max(from)..index).unwrap_or_default();
        let word = ahead.iter().rev().take_while(|byte| is_word(**byte)).count();
        let start = index - word;
        let [_, outside] = last_two(bytes.get(..start).unwrap_or_default(), before);
        let begins = !is_word(outside);
        // In a text that is not JSON the first letter may belong to an escape: `
        // `.
        let escape = usize::from(outside == b'\\' && word > 0);
        let found = match byte {
            b'@' if patterns.email => email(text, from, index).map(|range| Match { range, class: |_| false }),
            b'2'..=b'6' if patterns.card && !(last == b'.' && second_last.is_ascii_digit()) => {
                card(bytes, index).map(|end| Match { range: index..end, class: |_| false })
            }
            b'J' if patterns.key && begins && start >= header_end => {
                let mut token = |start| token(text, start, complete, &mut header_end);
                token(start).or_else(|| token(start + escape))
            }
            b'-' if patterns.key && word == 0 => block(text, index),
            b'-' | b'_' | b'A' | b'z' if patterns.key && begins => {
                key(text, start).or_else(|| key(text, start + escape))
            }
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Bytes that every secret contains, at its beginning or, except `@`, within [`WORD_BYTES_MAX`] of it.
const TRIGGERS: [bool; 256] = {
    let mut triggers = [false; 256];
    let bytes = b"@23456-_JAz";
    let mut index = 0;
    while index < bytes.len() {
        triggers[bytes[index] as usize] = true;
        index += 1;
    }
    triggers
};

/// Most letters before the trigger byte of a key: those of `github_pat_`, and one more that shows that a word is
/// longer.
const WORD_BYTES_MAX: usize = "github".len() + 1;

/// The last two bytes of a text and the bytes before it.
pub(crate) fn last_two(bytes: &[u8], before: [u8; 2]) -> [u8; 2] {
    match bytes {
        [.., second_last, last] => [*second_last, *last],
        [only] => [before[1], *only],
        [] => before,
    }
}

/// `local@domain.tld` around an `@`, in the letters of any alphabet.
fn email(text: &str, from: usize, at: usize) -> Option<Range<usize>> {
    let (before, after) = (text.get(from..at)?, text.get(at + 1..)?);
    let local = before
        .chars()
        .rev()
        .take(LOCAL_CHARACTERS_MAX)
        .take_while(|&character| is_letter(character) || matches!(character, '.' | '_' | '%' | '+' | '-'));
    let local: usize = local.map(char::len_utf8).sum();
    let is_domain = |character: char| is_letter(character) || matches!(character, '-' | '.');
    let domain = after.get(..after.find(|character| !is_domain(character)).unwrap_or(after.len()))?;
    let domain = domain.get(..domain.floor_char_boundary(DOMAIN_BYTES_MAX))?;
    let (mut length, mut end) = (0, 0);
    // Text after the last label that may be a top-level domain belongs to the sentence.
    for (index, label) in domain.split('.').take_while(|label| !label.is_empty()).enumerate() {
        length += label.len() + usize::from(index > 0);
        if index > 0 && label.chars().count() >= 2 && !label.starts_with(|first: char| first.is_ascii_digit()) {
            end = length;
        }
    }
    (local > 0 && end > 0).then(|| at - local..at + 1 + end)
}

/// Whether a character is a letter or digit of a script with spaces between words. In other scripts, the text before an
/// address is not part of it.
fn is_letter(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '\u{c0}'..='\u{1fff}')
}

/// The end of a card number: 13 to 19 digits with a valid check digit (Luhn), in one group, or in several separated by
/// one space or hyphen, the first with four digits. Cards begin with 2 to 6, which excludes times in milliseconds;
/// parts of decimal numbers and digits next to a letter are not matched.
fn card(bytes: &[u8], start: usize) -> Option<usize> {
    let mut digits = [0; CARD_DIGITS_MAX];
    let (mut count, mut group, mut groups, mut separator, mut end) = (0, 0, 0, None, None);
    for (index, &byte) in bytes.iter().enumerate().skip(start) {
        let next = bytes.get(index + 1).copied().unwrap_or(b' ');
        match byte {
            b'0'..=b'9' => {
                *digits.get_mut(count)? = byte - b'0';
                count += 1;
                group += 1;
                let continues = is_word(next) || next == b'.' && bytes.get(index + 2).is_some_and(u8::is_ascii_digit);
                let is_grouped = groups == 0 || group <= GROUP_DIGITS_MAX;
                if count >= CARD_DIGITS_MIN && !continues && is_grouped && has_valid_check_digit(digits.get(..count)?) {
                    end = Some(index + 1);
                }
            }
            b' ' | b'-' if next.is_ascii_digit() && separator.is_none_or(|other| other == byte) => {
                let is_group = if groups == 0 { group == 4 } else { (3..=GROUP_DIGITS_MAX).contains(&group) };
                if !is_group {
                    break;
                }
                separator = Some(byte);
                groups += 1;
                group = 0;
            }
            _ => break,
        }
        if count == CARD_DIGITS_MAX {
            break;
        }
    }
    end
}

/// Most digits in one of several groups.
const GROUP_DIGITS_MAX: usize = 6;

/// Whether the last digit is the check digit of the others (Luhn).
fn has_valid_check_digit(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, &digit)| match u32::from(digit) << (index % 2) {
            doubled @ 10.. => doubled - 9,
            digit => digit,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// A key that begins here.
fn key(text: &str, start: usize) -> Option<Match> {
    let rest = text.get(start..)?;
    let (prefix, least) = PREFIXES.iter().find(|(prefix, _)| rest.starts_with(prefix))?;
    let body = run(rest.get(prefix.len()..)?, is_key);
    (body >= *least).then(|| Match { range: start..start + prefix.len() + body, class: is_key })
}

/// A JSON Web Token: two JSON objects in base64url, separated by a full stop, and the rest of the token.
fn token(text: &str, start: usize, complete: bool, header_end: &mut usize) -> Option<Match> {
    let rest = text.get(start..).filter(|rest| rest.starts_with(TOKEN))?;
    let view = rest.get(..rest.floor_char_boundary(MATCH_BYTES_MAX - AFTER_BYTES))?;
    let header = run(view, is_key);
    *header_end = start + header;
    let payload = rest.get(header..)?.strip_prefix('.').map(|payload| payload.starts_with(TOKEN));
    let is_cut = !complete && view.len() == rest.len() && header + 1 + TOKEN.len() > rest.len();
    (payload == Some(true) || is_cut)
        .then(|| Match { range: start..start + run(rest, is_of_token), class: is_of_token })
}

/// A private key in PEM form, to its last line or, without one, to the end of its characters.
fn block(text: &str, start: usize) -> Option<Match> {
    let rest = text.get(start..)?;
    let inside = rest.strip_prefix(BEGIN)?;
    let first_line = inside.get(..inside.floor_char_boundary(ALGORITHM_BYTES_MAX + PRIVATE_KEY.len()))?;
    first_line.find(PRIVATE_KEY)?;
    let length = run(rest, is_of_block);
    let view = rest.get(..length.min(rest.floor_char_boundary(MATCH_BYTES_MAX - AFTER_BYTES)))?;
    let last_line = view.find(END).and_then(|at| {
        let name = at + END.len();
        Some(name + view.get(name..)?.find(DASHES)? + DASHES.len())
    });
    Some(Match { range: start..start + last_line.unwrap_or(length), class: is_of_block })
}

/// Number of bytes of a class at the beginning of a text.
fn run(text: &str, class: Class) -> usize {
    text.bytes().position(|byte| !class(byte)).unwrap_or(text.len())
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

fn is_of_token(byte: u8) -> bool {
    is_key(byte) || byte == b'.'
}

/// Base64, the words of the first and last line, headers, and doubly escaped line feeds.
fn is_of_block(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'+' | b'/' | b'=' | b'-' | b',' | b':' | b' ' | b'\\' | b'\r' | b'\n' | b'\t')
}
