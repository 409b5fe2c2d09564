//! Finds e-mail addresses, card numbers, keys and named secrets in a text.
//!
//! Every secret has a mark, see [`Marks`]: most of a text is only skipped, and what has a mark is verified here.

use std::borrow::Cow;
use std::ops::Range;

use lro_json::masks::BLOCK;
use lro_json::{LANE, Lane};

use crate::candidates::Marks;
use crate::rules::Rules;

/// Most bytes that decide whether a match is a secret: 16 KiB from its beginning. A longer secret is removed to its
/// end; a JSON Web Token with a longer header is not recognized.
pub const MATCH_BYTES_MAX: usize = 16 * 1024;

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
pub(crate) struct Match<'a> {
    /// Where the text begins that shows that this is a secret: at its beginning, or at its name.
    pub(crate) evidence: usize,
    pub(crate) range: Range<usize>,
    pub(crate) class: Class,
    /// The quotation mark to put around the replacement, with its backslashes.
    pub(crate) quote: &'a str,
    /// The characters that the replacement takes; otherwise as many as it has.
    pub(crate) width: Option<usize>,
}

impl Match<'_> {
    pub(crate) fn new(range: Range<usize>, class: Class) -> Self {
        Self { evidence: range.start, range, class, quote: "", width: None }
    }

    /// The match in a text that begins so many bytes earlier.
    pub(crate) fn moved(mut self, bytes: usize) -> Self {
        self.evidence += bytes;
        self.range = self.range.start + bytes..self.range.end + bytes;
        self
    }
}

/// The text before the one that is searched.
#[derive(Clone, Debug)]
pub(crate) struct Before {
    /// Its last two bytes.
    pub(crate) last: [u8; 2],
    /// The beginning of its last line, up to [`LINE_PREFIX_BYTES_MAX`] and one more.
    line: Vec<u8>,
}

impl Before {
    /// The text before a part.
    pub(crate) fn nothing() -> Self {
        Self { last: *b"  ", line: Vec::new() }
    }

    /// Begins again, behind a quotation mark.
    pub(crate) fn begin(&mut self) {
        self.last = *b" \"";
        self.line.clear();
    }

    /// Adds the text that follows.
    pub(crate) fn add(&mut self, text: &[u8]) {
        self.last = last_two(text, self.last);
        let line = match text.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => {
                self.line.clear();
                text.get(end + 1..).unwrap_or_default()
            }
            None => text,
        };
        let room = (LINE_PREFIX_BYTES_MAX + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(line.get(..room.min(line.len())).unwrap_or_default());
    }

    /// The text between the beginning of a line and an index of the text that follows; `None` for a longer one.
    pub(crate) fn line_prefix<'a>(&'a self, text: &'a [u8], index: usize) -> Option<Cow<'a, [u8]>> {
        let near = text.get(index.saturating_sub(LINE_PREFIX_BYTES_MAX + 1)..index)?;
        let prefix = match near.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => Cow::Borrowed(near.get(end + 1..)?),
            None if near.len() < index => return None,
            None if near.is_empty() => Cow::Borrowed(self.line.as_slice()),
            None => Cow::Owned([&self.line, near].concat()),
        };
        (prefix.len() <= LINE_PREFIX_BYTES_MAX).then_some(prefix)
    }
}

/// Most bytes of a line before a name that still begins the line: indentation, the dash of a list, `export`.
const LINE_PREFIX_BYTES_MAX: usize = 64;

/// How far a text is searched: the candidates left in a block, where that begins, and where the next one does.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) block: usize,
    pub(crate) next: usize,
    pub(crate) candidates: u64,
}

impl Seen {
    /// The same in the text between two indices.
    pub(crate) fn within(self, text: &Range<usize>) -> Self {
        let before = text.start.saturating_sub(self.block);
        let block = (self.block + before) - text.start;
        let candidates = self.candidates.unbounded_shr(u32::try_from(before).unwrap_or(u32::MAX));
        Self { block, next: self.next.saturating_sub(text.start), candidates: candidates & below(text.len(), block) }
    }
}

/// The bits of a block that stand before an index.
fn below(index: usize, block: usize) -> u64 {
    !u64::MAX.unbounded_shl(u32::try_from(index.saturating_sub(block)).unwrap_or(u32::MAX))
}

/// A text that is searched.
pub(crate) struct Search<'a> {
    pub(crate) text: &'a str,
    /// The bytes of the text, and those that follow them where they come from: only to read whole blocks.
    pub(crate) bytes: &'a [u8],
    pub(crate) before: &'a Before,
    /// Whether the text ends here. Otherwise a match at its end may turn out to be longer, or not to match.
    pub(crate) complete: bool,
    pub(crate) rules: &'a Rules,
}

impl<'a> Search<'a> {
    /// The first secret from `from` on that is not part of an earlier one. Of the text before it, `seen` is behind.
    pub(crate) fn find(&self, from: usize, seen: &mut Seen) -> Option<Match<'a>> {
        let mut header_end = 0;
        loop {
            while seen.candidates != 0 {
                let index = seen.block + seen.candidates.trailing_zeros() as usize;
                seen.candidates &= seen.candidates - 1;
                let found = if index < from { None } else { self.check(index, from, &mut header_end) };
                if found.is_some() {
                    return found;
                }
            }
            let block = seen.next.max(from);
            if block >= self.text.len() {
                return None;
            }
            let marks = Marks::of(self.bytes.get(block..)?);
            let candidates = (marks.patterns | marks.names) & below(self.text.len(), block);
            *seen = Seen { block, next: block + BLOCK, candidates };
        }
    }

    /// The secret that a marked byte shows, unless it begins before `from`.
    fn check(&self, index: usize, from: usize, header_end: &mut usize) -> Option<Match<'a>> {
        let (text, bytes, patterns) = (self.text, self.text.as_bytes(), self.rules.patterns);
        let next = bytes.get(index + 1).copied().unwrap_or_default();
        match (*bytes.get(index)?, next) {
            (byte, b':' | b'=') if self.rules.may_end_name(byte) => self.named(index, from),
            (b'<', _) => self.element(index),
            (b'@', _) if patterns.email => {
                email(text, self.bytes, from, index).map(|range| Match::new(range, |_| false))
            }
            (b'2'..=b'6', _) if patterns.card => {
                let [second_last, last] = last_two(bytes.get(..index)?, self.before.last);
                let is_escape = second_last == b'\\' && last.is_ascii_alphabetic();
                let is_part = is_word(last) && !is_escape || last == b'.' && second_last.is_ascii_digit();
                let end = if is_part { None } else { card(bytes, index) };
                end.map(|end| Match::new(index..end, |_| false))
            }
            (b'-', b'B') if patterns.key => {
                let start = (index + 1).checked_sub(DASHES.len()).filter(|start| *start >= from)?;
                block(text, start)
            }
            (byte, next) if patterns.key && byte.is_ascii_alphabetic() => {
                let (start, escape) = self.word(index + 1, from)?;
                if next != b'J' {
                    return key(text, start).or_else(|| key(text, start + escape));
                }
                if start < *header_end {
                    return None;
                }
                let mut token = |start| token(text, start, self.complete, header_end);
                token(start).or_else(|| token(start + escape))
            }
            _ => None,
        }
    }

    /// Where the word begins that a prefix of a key ends at `end`, and 1 if its first letter may belong to an escape: in a
    /// text that is not JSON, `\n` may stand before a key. `None` when the word is longer.
    fn word(&self, end: usize, from: usize) -> Option<(usize, usize)> {
        let bytes = self.text.as_bytes();
        let ahead = bytes.get(end.saturating_sub(WORD_BYTES_MAX).max(from)..end)?;
        let start = end - ahead.iter().rev().take_while(|byte| is_word(**byte)).count();
        let [_, outside] = last_two(bytes.get(..start)?, self.before.last);
        (!is_word(outside)).then_some((start, usize::from(outside == b'\\')))
    }
}

/// Most letters of a prefix up to its mark: those of `github_pat_`, and one more that shows that a word is longer.
const WORD_BYTES_MAX: usize = "github".len() + 1;

/// The last two bytes of a text and the bytes before it.
pub(crate) fn last_two(bytes: &[u8], before: [u8; 2]) -> [u8; 2] {
    match bytes {
        [.., second_last, last] => [*second_last, *last],
        [only] => [before[1], *only],
        [] => before,
    }
}

/// `local@domain.tld` around an `@`, in the letters of any alphabet. `bytes` are those of the text and any after it.
#[inline(always)]
fn email(text: &str, bytes: &[u8], from: usize, at: usize) -> Option<Range<usize>> {
    let local = local_bytes(bytes, from, at);
    let (domain, end) = domain_bytes(bytes.get(at + 1..)?, text.len() - at - 1);
    // The byte before the local part, and that after the domain.
    let ends = [bytes.get(from..at - local)?.last(), text.as_bytes().get(at + 1 + domain)];
    if ends.into_iter().flatten().any(|byte| !byte.is_ascii()) {
        return email_of_any_alphabet(text, from, at);
    }
    (local > 0 && end > 0).then(|| at - local..at + 1 + end)
}

/// As [`email`], character by character.
#[cold]
fn email_of_any_alphabet(text: &str, from: usize, at: usize) -> Option<Range<usize>> {
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
    let end = domain_end(domain.as_bytes(), domain.match_indices('.').map(|(dot, _)| dot));
    (local > 0 && end > 0).then(|| at - local..at + 1 + end)
}

/// Where a domain ends: text after the last label that may be a top-level domain belongs to the sentence. 0 if none may be one.
#[inline(always)]
fn domain_end(domain: &[u8], dots: impl Iterator<Item = usize>) -> usize {
    let (mut start, mut end) = (0, 0);
    for dot in dots.chain([domain.len()]) {
        let Some([first, others @ ..]) = domain.get(start..dot) else { break };
        // A single character may have several bytes.
        let is_long = others.iter().any(|byte| !matches!(byte, 0x80..0xC0));
        if start > 0 && is_long && !first.is_ascii_digit() {
            end = dot;
        }
        start = dot + 1;
    }
    end
}

/// ASCII bytes of the local part that ends at `at`, from `from` on, at most [`LOCAL_CHARACTERS_MAX`].
#[inline(always)]
fn local_bytes(text: &[u8], from: usize, at: usize) -> usize {
    let start = at.saturating_sub(LANE);
    if let Some(chunk) = text.get(start..).and_then(|rest| rest.first_chunk()) {
        let lane = Lane::load(chunk);
        let others = lane.equal(b'_').or(lane.equal(b'%')).or(lane.equal(b'+'));
        let bits = u32::from(of_domain(lane).or(others).bits());
        let run = bits.unbounded_shl(u32::BITS - (at - start) as u32).leading_ones() as usize;
        if run < LANE || at - from <= LANE {
            return run.min(at - from);
        }
    }
    let is_local = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'%' | b'+' | b'-');
    let before = text.get(from..at).unwrap_or_default();
    before.iter().rev().take(LOCAL_CHARACTERS_MAX).take_while(is_local).count()
}

/// ASCII bytes of the domain at the beginning of a text, of so many bytes and at most [`DOMAIN_BYTES_MAX`], and where it ends.
#[inline(always)]
fn domain_bytes(text: &[u8], length: usize) -> (usize, usize) {
    if let Some(chunk) = text.first_chunk() {
        let lane = Lane::load(chunk);
        let run = length.min(of_domain(lane).bits().trailing_ones() as usize);
        if let Some(domain) = chunk.get(..run).filter(|_| run < LANE) {
            let mut dots = lane.equal(b'.').bits() & ((1 << run) - 1);
            let next = || {
                let dot = (dots != 0).then(|| dots.trailing_zeros() as usize);
                dots &= dots.wrapping_sub(1);
                dot
            };
            return (run, domain_end(domain, std::iter::from_fn(next)));
        }
    }
    let is_domain = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let run = text.iter().take(DOMAIN_BYTES_MAX.min(length)).take_while(is_domain).count();
    let domain = text.get(..run).unwrap_or_default();
    (run, domain_end(domain, (0..run).filter(|at| domain.get(*at) == Some(&b'.'))))
}

/// Marks letters, digits, hyphens and full stops.
#[inline(always)]
fn of_domain(lane: Lane) -> Lane {
    let letter = lane.or(Lane::splat(0x20)).minus(b'a').at_most(25);
    letter.or(lane.minus(b'0').at_most(9)).or(lane.equal(b'-')).or(lane.equal(b'.'))
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
fn key<'a>(text: &str, start: usize) -> Option<Match<'a>> {
    let rest = text.get(start..)?;
    let (prefix, least) = PREFIXES.iter().find(|(prefix, _)| rest.starts_with(prefix))?;
    let body = run(rest.get(prefix.len()..)?, is_key);
    (body >= *least).then(|| Match::new(start..start + prefix.len() + body, is_key))
}

/// A JSON Web Token: two JSON objects in base64url, separated by a full stop, and the rest of the token.
fn token<'a>(text: &str, start: usize, complete: bool, header_end: &mut usize) -> Option<Match<'a>> {
    let rest = text.get(start..).filter(|rest| rest.starts_with(TOKEN))?;
    let view = rest.get(..rest.floor_char_boundary(MATCH_BYTES_MAX - AFTER_BYTES))?;
    let header = run(view, is_key);
    *header_end = start + header;
    let payload = rest.get(header..)?.strip_prefix('.').map(|payload| payload.starts_with(TOKEN));
    let is_cut = !complete && view.len() == rest.len() && header + 1 + TOKEN.len() > rest.len();
    (payload == Some(true) || is_cut).then(|| Match::new(start..start + run(rest, is_of_token), is_of_token))
}

/// A private key in PEM form, to its last line or, without one, to the end of its characters.
fn block<'a>(text: &str, start: usize) -> Option<Match<'a>> {
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
    Some(Match::new(start..start + last_line.unwrap_or(length), is_of_block))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// Bytes and characters show the same address.
        #[test]
        fn addresses_are_found_in_any_alphabet(
            before in "[a-z0-9._%+é東 -]{0,70}",
            after in "([a-z0-9-]{0,3}\\.?|[é東 ,.]|[a-z]{100}){0,8}",
            from in 0_usize..8,
        ) {
            let (whole, at) = (format!("{before}@{after}a.com"), before.len());
            let text = whole.strip_suffix("a.com").unwrap_or_default();
            let from = text.floor_char_boundary(from.min(at));
            let found = email(text, whole.as_bytes(), from, at);
            prop_assert_eq!(found, email_of_any_alphabet(text, from, at), "{}", text);
        }

        /// Marks leave nothing out: a search of every byte finds the same.
        #[test]
        fn every_secret_has_a_mark(
            text in "([ ,:=<>\\n\"\\\\a-z@._0-9-]|4111 ?1111-?1111 ?1111|4222222222222|eyJhbGci\\.eyJ|sk-[a-z0-9]{14,20}|ghp_[a-z]{18,22}|\
                github_pat_[a-z]{20}|AKIA[A-Z0-9]{16}|AIza[a-z]{30}|xoxb-[0-9]{10}|hf_[a-z]{20}|npm_[a-z]{20}|glpat-[a-z]{16}|bob@ex.com|\
                password ?[:=] ?|<token>|</token>|-----BEGIN |PRIVATE KEY-----){0,60}",
            from in 0_usize..80,
            complete: bool,
        ) {
            let (rules, before) = (Rules::default(), Before::nothing());
            let from = text.floor_char_boundary(from);
            let search = Search { text: &text, bytes: text.as_bytes(), before: &before, complete, rules: &rules };
            let mut header_end = 0;
            let naive = (from..text.len()).find_map(|index| search.check(index, from, &mut header_end));
            let place = |found: Match<'_>| (found.evidence, found.range);
            prop_assert_eq!(search.find(from, &mut Seen::default()).map(place), naive.map(place), "{}", text);
        }
    }
}
