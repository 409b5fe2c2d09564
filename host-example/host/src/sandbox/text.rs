//! Sanitizes text from a policy for people and logs.

use super::bindings::exports::lro::filter::lro_filter::{Descriptor, PolicyError, Verdict};
use super::bindings::lro::filter::types::ReadError;
use super::limits::{Limits, NAME_BYTES_MAX};

/// Replacements for the rest of a truncated text, and for a control character.
const ELLIPSIS: char = '…';
const REPLACEMENT: char = '\u{FFFD}';

/// Truncates a text and replaces its control characters, so that it stays on one line and cannot forge or flood a log.
/// A truncated text ends in `…`, which is not counted in `bytes_max`.
pub(crate) fn one_line(text: &str, bytes_max: usize) -> String {
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

/// Truncates the advice of a rejection to the descriptor limit, because both go to the model.
pub(super) fn truncate_advice(verdict: &mut Verdict, characters_max: u32) {
    let Verdict::Reject(advice) = verdict else { return };
    if let Some((end, _)) = advice.char_indices().nth(characters_max as usize) {
        advice.truncate(end);
        advice.push(ELLIPSIS);
    }
}

/// Sanitizes the texts of an error for a log.
pub(super) fn sanitize_error(error: PolicyError, limits: &Limits) -> PolicyError {
    let plain = |text: String| one_line(&text, limits.log_bytes);
    match error {
        PolicyError::Invalid(text) => PolicyError::Invalid(plain(text)),
        PolicyError::Read(ReadError::Failed(text)) => PolicyError::Read(ReadError::Failed(plain(text))),
        PolicyError::Io(text) => PolicyError::Io(plain(text)),
        PolicyError::Limit(text) => PolicyError::Limit(plain(text)),
        PolicyError::Other(text) => PolicyError::Other(plain(text)),
        error @ (PolicyError::Read(_) | PolicyError::NoSpace) => error,
    }
}

/// Sanitizes the notes and file names of a descriptor for a log: errors about a file quote its name.
pub(super) fn sanitize_descriptor(descriptor: &mut Descriptor, limits: &Limits) {
    let mut left = limits.log_bytes;
    let note = |note: &String| {
        let line = (left > 0).then(|| one_line(note, left))?;
        left = left.saturating_sub(line.len().max(1));
        Some(line)
    };
    descriptor.notes = descriptor.notes.iter().map_while(note).collect();
    for file in &mut descriptor.files {
        // A name that this changes was not allowed before, and is not allowed afterwards.
        file.name = one_line(&file.name, NAME_BYTES_MAX);
    }
}
