//! The settings of the policy: what it removes.

use lro_json::pointer::key_of_step;
use lro_json::write::push_escaped;
use lro_json::{elements, members};
use lro_text::{COLUMN_KEYS, Layout, Tabular, tabular};

use crate::find::last_two;
use crate::redactor::Redactor;
use crate::text::decoded;

/// Default keys whose values are secret.
pub const FIELDS: [&str; 18] = [
    "access_key",
    "access_token",
    "api_key",
    "auth_token",
    "authorization",
    "client_secret",
    "cookie",
    "id_token",
    "passphrase",
    "passwd",
    "password",
    "private_key",
    "refresh_token",
    "secret",
    "secret_key",
    "set_cookie",
    "token",
    "x_api_key",
];

/// Default replacement of a secret.
pub const REPLACEMENT: &str = "[redacted]";

/// The secrets to remove from a result, and their replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Keys at any depth, normalized by [`plain`].
    keys: Vec<String>,
    bytes: KeyBytes,
    /// Steps of JSON Pointers. `*` is any step.
    pub(crate) pointers: Vec<Vec<String>>,
    pub(crate) patterns: Patterns,
    /// Whether binary parts, which cannot be searched, are dropped.
    pub(crate) drops_binary: bool,
    pub(crate) replacement: String,
    /// The replacement, escaped for a JSON string.
    pub(crate) escaped: String,
}

/// The patterns searched for in texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Patterns {
    /// E-mail addresses.
    pub(crate) email: bool,
    /// Numbers of payment cards.
    pub(crate) card: bool,
    /// Keys and tokens with a known prefix.
    pub(crate) key: bool,
}

/// Which bytes keys that matter begin and end with: most other keys differ there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyBytes {
    /// Of the first and the last byte of a key in JSON, the bytes that such a key has at least. Both count by their low bits,
    /// which are the same in upper and lower case.
    lengths: [[u8; 1 << LOW_BITS]; 1 << LOW_BITS],
    /// What may stand between a key and a separator in a text, and the last byte of a key.
    end: [bool; 256],
    /// Length of the shortest key in bytes.
    shortest: usize,
}

const LOW_BITS: u32 = 5;

fn low(byte: u8) -> usize {
    usize::from(byte) % (1 << LOW_BITS)
}

impl KeyBytes {
    fn of(keys: &[String]) -> Self {
        let of_json = || keys.iter().map(String::as_str).chain(COLUMN_KEYS);
        let shortest = of_json().map(str::len).min().unwrap_or_default();
        let lengths = [[u8::MAX; 1 << LOW_BITS]; 1 << LOW_BITS];
        let mut bytes = Self { lengths, end: [false; 256], shortest };
        for key in of_json() {
            for first in key.bytes().take(1).chain(*b"-_") {
                for last in key.bytes().last().into_iter().chain(*b"-_") {
                    let length = &mut bytes.lengths[low(first)][low(last)];
                    *length = u8::try_from(key.len()).unwrap_or(u8::MAX).min(*length);
                }
            }
        }
        for byte in keys.iter().filter_map(|key| key.bytes().last()).chain(*b"-_ \t\"'`*]") {
            bytes.end[usize::from(byte.to_ascii_lowercase())] = true;
            bytes.end[usize::from(byte.to_ascii_uppercase())] = true;
        }
        bytes
    }
}

impl Default for Rules {
    fn default() -> Self {
        let keys: Vec<String> = FIELDS.iter().map(|key| plain(key).collect()).collect();
        Self {
            bytes: KeyBytes::of(&keys),
            keys,
            pointers: Vec::new(),
            patterns: Patterns { email: true, card: true, key: true },
            drops_binary: true,
            replacement: REPLACEMENT.to_owned(),
            escaped: REPLACEMENT.to_owned(),
        }
    }
}

impl Rules {
    /// Reads `{"fields": [...], "patterns": [...], "replacement": "...", "binary": "drop"}`; each member is optional. A
    /// field is a key at any depth, or a JSON Pointer into a part, in which `*` matches any key or index.
    ///
    /// # Errors
    /// A message that describes the invalid setting.
    pub fn read(custom: &str) -> Result<Self, String> {
        let mut rules = Self::default();
        for member in members(custom).map_err(|error| error.to_string())? {
            let name = string(member.key)?;
            match name.as_str() {
                "fields" => rules.set_fields(&strings(&name, member.value)?)?,
                "patterns" => rules.set_patterns(&strings(&name, member.value)?)?,
                "replacement" => {
                    rules.replacement = string(member.value).map_err(|error| format!("`{name}`: {error}"))?;
                    rules.escaped.clear();
                    push_escaped(&mut rules.escaped, &rules.replacement);
                }
                "binary" => {
                    rules.drops_binary = match member.value {
                        "\"drop\"" => true,
                        "\"keep\"" => false,
                        other => return Err(format!("`binary`: expected \"drop\" or \"keep\", not {other}")),
                    };
                }
                _ => return Err(format!("unknown member `{name}`")),
            }
        }
        Ok(rules)
    }

    /// These rules and, of the table that a JSON document is, the secret columns: a table may have its names behind its rows.
    /// `None` when the beginning of the document shows none; the policy looks no further either.
    #[must_use]
    pub fn with_table(&self, beginning: &str) -> Option<Self> {
        // Rows begin with a bracket behind a bracket.
        let mut between = beginning.split('[').skip(1);
        if !beginning.trim_start().starts_with('{') || between.all(|text| !text.trim_ascii_start().is_empty()) {
            return None;
        }
        let (mut redactor, mut head) = (Redactor::new(self, true), String::new());
        redactor.push(beginning, &mut head);
        redactor.finish(&mut head);
        let Tabular { path, layout: Layout::Rows(names) } = tabular(&head)? else { return None };
        let secret = (0..).zip(&names).filter(|(_, name)| self.is_secret(name));
        let step = |column: usize| path.iter().cloned().chain(["*".to_owned(), column.to_string()]).collect();
        let mut rules = self.clone();
        rules.pointers.extend(secret.map(|(column, _)| step(column)));
        (rules.pointers.len() > self.pointers.len()).then_some(rules)
    }

    fn set_fields(&mut self, fields: &[String]) -> Result<(), String> {
        let (pointers, keys): (Vec<_>, Vec<_>) = fields.iter().partition(|field| field.starts_with('/'));
        if let Some(key) = keys.iter().find(|key| plain(key).next().is_none()) {
            return Err(format!("`fields`: `{key}` names no key"));
        }
        self.keys = keys.iter().map(|key| plain(key).collect()).collect();
        self.bytes = KeyBytes::of(&self.keys);
        self.pointers = pointers.iter().map(|pointer| pointer.split('/').skip(1).map(key_of_step).collect()).collect();
        Ok(())
    }

    fn set_patterns(&mut self, patterns: &[String]) -> Result<(), String> {
        self.patterns = Patterns::default();
        for pattern in patterns {
            match pattern.as_str() {
                "email" => self.patterns.email = true,
                "card" => self.patterns.card = true,
                "key" => self.patterns.key = true,
                other => return Err(format!("`patterns`: expected `email`, `card` or `key`, not `{other}`")),
            }
        }
        Ok(())
    }

    /// Whether a key of JSON without escapes may be secret, or name columns: cheaper than a look at it.
    #[inline(always)]
    pub(crate) fn may_matter(&self, key: &[u8]) -> bool {
        let (Some(first), Some(last)) = (key.first(), key.last()) else { return false };
        key.len() >= usize::from(self.bytes.lengths[low(*first)][low(*last)])
    }

    /// The bits at and shortly behind the ends of keys that are too short to matter, given their first quotes: colons there
    /// need no look. At most keys of four bytes count.
    #[inline(always)]
    pub(crate) fn behind_short(&self, first_quotes: u64) -> u64 {
        let ends = first_quotes << 2 | first_quotes << 3 | first_quotes << 4 | first_quotes << 5 | first_quotes << 6;
        if self.bytes.shortest > 4 { ends } else { 0 }
    }

    /// Whether the value of a key is secret at any depth.
    pub(crate) fn is_secret(&self, key: &str) -> bool {
        self.keys.iter().any(|secret| secret.len() <= key.len() && plain(key).eq(secret.chars()))
    }

    /// Whether a byte may be the last one of a secret key, or of what stands between it and a separator.
    #[inline(always)]
    pub(crate) fn may_end_name(&self, byte: u8) -> bool {
        self.bytes.end[usize::from(byte)]
    }

    /// Where the secret key begins that a text ends with; `before` are the two bytes before the text.
    pub(crate) fn secret_at_end(&self, text: &str, before: [u8; 2]) -> Option<usize> {
        let begins = |start: &usize| {
            let outside = text.get(..*start).unwrap_or_default().trim_end_matches(['-', '_']);
            let [second_last, last] = last_two(outside.as_bytes(), before);
            // In a text that is not JSON, `\n` may stand before a key.
            let is_escape = second_last == b'\\' && matches!(last, b'n' | b'r' | b't');
            is_escape || !outside.chars().next_back().unwrap_or(char::from(last)).is_alphanumeric()
        };
        self.keys.iter().filter_map(|key| start_of(key, text)).find(begins)
    }

    /// Length in bytes of the longest key, escaped as a JSON string, that these rules can match.
    pub(crate) fn key_bytes_max(&self) -> usize {
        let longest = self.keys.iter().chain(self.pointers.iter().flatten()).map(String::len).max().unwrap_or(0);
        // A character may be an escape of six bytes, and so may a hyphen before it.
        longest * 12 + 6
    }
}

/// Where a normalized key begins that a text ends with.
fn start_of(key: &str, text: &str) -> Option<usize> {
    let mut characters = text.char_indices().rev().filter(|(_, character)| !is_separator(*character));
    let mut start = None;
    for wanted in key.chars().rev() {
        let (at, character) = characters.next()?;
        if character.to_ascii_lowercase() != wanted {
            return None;
        }
        start = Some(at);
    }
    start
}

fn is_separator(character: char) -> bool {
    matches!(character, '-' | '_')
}

/// The normal form of a key: case, `-` and `_` do not matter, so that `apiKey` equals `API-Key`.
fn plain(key: &str) -> impl Iterator<Item = char> {
    let characters = key.chars().filter(|character| !is_separator(*character));
    characters.map(|character| character.to_ascii_lowercase())
}

fn string(json: &str) -> Result<String, String> {
    let inside = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inside.map(|inside| decoded(inside).text.into_owned()).ok_or_else(|| format!("expected a string, not {json}"))
}

fn strings(name: &str, json: &str) -> Result<Vec<String>, String> {
    let elements = elements(json).map_err(|error| format!("`{name}`: {error}"))?;
    elements.into_iter().map(string).collect::<Result<_, _>>().map_err(|error| format!("`{name}`: {error}"))
}
