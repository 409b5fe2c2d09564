//! Text of a policy's making, before a person or a log sees it.

use super::bindings::exports::lro::filter::lro_filter::{Descriptor, PolicyError, Verdict};
use super::bindings::lro::filter::types::ReadError;
use super::limits::{Limits, NAME_BYTES_MAX};

/// What stands for the rest of a text that was cut, and for a character that is not shown.
const REST: char = '…';
const HIDDEN: char = '\u{FFFD}';

/// The beginning of a text on one line: nothing in it moves a cursor, forges a line of a log or floods it. A cut text ends
/// in `…` and has at most that many bytes more.
pub(crate) fn one_line(text: &str, bytes_max: usize) -> String {
    let shown = |character: char| if character.is_control() { HIDDEN } else { character };
    let mut line = String::new();
    for character in text.chars().map(shown) {
        if line.len() + character.len_utf8() > bytes_max {
            line.push(REST);
            break;
        }
        line.push(character);
    }
    line
}

/// Cuts the advice of a rejection that is longer than a descriptor may be: both go to the model.
pub(super) fn short_advice(verdict: &mut Verdict, characters_max: u32) {
    let Verdict::Reject(advice) = verdict else { return };
    if let Some((end, _)) = advice.char_indices().nth(characters_max as usize) {
        advice.truncate(end);
        advice.push(REST);
    }
}

/// Makes the texts of an error fit for a log.
pub(super) fn plain_error(error: PolicyError, limits: &Limits) -> PolicyError {
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

/// Makes the notes of a descriptor fit for a log, and so the names of its files, which are told when they are refused.
pub(super) fn plain_descriptor(descriptor: &mut Descriptor, limits: &Limits) {
    let mut left = limits.log_bytes;
    let note = |note: &String| {
        let line = (left > 0).then(|| one_line(note, left))?;
        left = left.saturating_sub(line.len().max(1));
        Some(line)
    };
    descriptor.notes = descriptor.notes.iter().map_while(note).collect();
    for file in &mut descriptor.files {
        // A name that changes here was none that is allowed, and is none afterwards.
        file.name = one_line(&file.name, NAME_BYTES_MAX);
    }
}
