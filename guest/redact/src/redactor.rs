//! Applies the two steps one after the other.

use crate::fields::Eraser;
use crate::patterns::Scrubber;
use crate::rules::Rules;

/// Removes the secrets from one text, given in slices. Memory does not grow with the text: it is bounded by
/// [`MATCH_BYTES_MAX`](crate::MATCH_BYTES_MAX) and the size of a slice.
pub struct Redactor<'a> {
    /// `None` for a text that is not JSON.
    eraser: Option<Eraser<'a>>,
    scrubber: Scrubber<'a>,
}

impl<'a> Redactor<'a> {
    /// A redactor for a text that is JSON or not. A text that is not JSON after all passes through as well.
    #[must_use]
    pub fn new(rules: &'a Rules, is_json: bool) -> Self {
        let eraser = is_json.then(|| Eraser::new(rules));
        Self { eraser, scrubber: Scrubber::new(rules, is_json) }
    }

    /// Reads the next slice, cut between any two characters, and appends the decided text.
    pub fn push(&mut self, slice: &str, out: &mut String) {
        let pending = &mut self.scrubber.pending;
        match &mut self.eraser {
            Some(eraser) => eraser.push(slice, pending),
            None => pending.push_str(slice),
        }
        self.scrubber.read(false, out);
    }

    /// Appends the rest.
    pub fn finish(&mut self, out: &mut String) {
        self.scrubber.read(true, out);
    }

    /// Whether anything was removed so far.
    #[must_use]
    pub fn found(&self) -> bool {
        self.scrubber.found || self.eraser.as_ref().is_some_and(|eraser| eraser.found)
    }
}
