//! Names of files and sections: safe, bounded, and unique.

use std::collections::BTreeSet;

/// Longest beginning of a file name that comes from a key or the configuration, in bytes.
const PREFIX_BYTES_MAX: usize = 48;

/// Longest session in a file name, in bytes.
const SESSION_BYTES_MAX: usize = 32;

/// Longest section name, in characters.
const SECTION_CHARACTERS_MAX: usize = 48;

/// A text with all characters except ASCII letters, digits, `-` and `_` replaced by `_`, at most `bytes_max` bytes.
/// When anything was replaced or cut, a hash of the whole text is appended, so that different texts get different
/// names.
fn safe(text: &str, bytes_max: usize) -> String {
    let mut name: String = text
        .chars()
        .take(bytes_max)
        .map(
            |character| {
                if character.is_ascii_alphanumeric() || matches!(character, '-' | '_') { character } else { '_' }
            },
        )
        .collect();
    if name != text {
        name.truncate(bytes_max.saturating_sub(9));
        name = format!("{name}-{:08x}", hash(text));
    }
    name
}

/// FNV-1a, folded to 32 bits: enough to distinguish the names in one directory.
fn hash(text: &str) -> u32 {
    let mut state = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    (state ^ (state >> 32)) as u32
}

/// The names assigned so far.
#[derive(Default)]
pub(crate) struct Names(BTreeSet<String>);

impl Names {
    /// Whether a name is not assigned.
    pub(crate) fn is_free(&self, name: &str) -> bool {
        !self.0.contains(name)
    }

    /// Makes a name free that is not needed.
    pub(crate) fn release(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Makes the name of a file free that was removed.
    pub(crate) fn release_file(&mut self, file_name: &str) {
        self.release(file_name.rsplit_once('.').map_or(file_name, |(stem, _)| stem));
    }

    /// The name, with the lowest number appended that makes it unique if it is taken.
    pub(crate) fn unique(&mut self, name: &str) -> String {
        let mut candidate = name.to_owned();
        let mut number = 2;
        while !self.0.insert(candidate.clone()) {
            candidate = format!("{name}-{number}");
            number += 1;
        }
        candidate
    }

    /// A section name from a key, cut to [`SECTION_CHARACTERS_MAX`].
    pub(crate) fn section(&mut self, key: &str) -> String {
        self.unique(&key.chars().take(SECTION_CHARACTERS_MAX).collect::<String>())
    }

    /// A file name of a prefix, the session and an extension.
    pub(crate) fn file(&mut self, prefix: &str, session: Option<&str>, extension: &str) -> String {
        let mut stem = safe(prefix, PREFIX_BYTES_MAX);
        if stem.is_empty() {
            stem.push_str("result");
        }
        if let Some(session) = session.filter(|session| !session.is_empty()) {
            stem = format!("{stem}-{}", safe(session, SESSION_BYTES_MAX));
        }
        // The stem is unique: two files never differ in their extension alone.
        format!("{}.{extension}", self.unique(&stem))
    }
}
