//! The settings of the policy: what it removes.

use crate::text::decoded;
use lro_json::pointer::key_of_step;
use lro_json::write::push_escaped;
use lro_json::{elements, members};

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

impl Default for Rules {
    fn default() -> Self {
        Self {
            keys: FIELDS.iter().map(|key| plain(key).collect()).collect(),
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

    fn set_fields(&mut self, fields: &[String]) -> Result<(), String> {
        let (pointers, keys): (Vec<_>, Vec<_>) = fields.iter().partition(|field| field.starts_with('/'));
        if let Some(key) = keys.iter().find(|key| plain(key).next().is_none()) {
            return Err(format!("`fields`: `{key}` names no key"));
        }
        self.keys = keys.iter().map(|key| plain(key).collect()).collect();
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

    /// Whether the value of a key is secret at any depth.
    pub(crate) fn is_secret(&self, key: &str) -> bool {
        let Some(first) = plain(key).next() else { return false };
        self.keys.iter().any(|secret| secret.starts_with(first) && plain(key).eq(secret.chars()))
    }

    /// Length in bytes of the longest key, escaped as a JSON string, that these rules can match.
    pub(crate) fn key_bytes_max(&self) -> usize {
        let longest = self.keys.iter().chain(self.pointers.iter().flatten()).map(String::len).max().unwrap_or(0);
        // A character may be an escape of six bytes, and so may a hyphen before it.
        longest * 12 + 6
    }
}

/// The normal form of a key: case, `-` and `_` do not matter, so that `apiKey` equals `API-Key`.
fn plain(key: &str) -> impl Iterator<Item = char> {
    let characters = key.chars().filter(|character| !matches!(character, '-' | '_'));
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
