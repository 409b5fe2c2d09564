//! Validates a document and does nothing else.

use crate::SyntaxError;
use crate::scan::Scanner;

/// Validates one document, given in slices, and keeps none of it. Must not be used after an error.
///
/// ```
/// let mut validator = lro_json::Validator::new();
/// validator.push("[1, 2")?;
/// validator.push("5]")?;
/// validator.finish()?;
/// # Ok::<(), lro_json::SyntaxError>(())
/// ```
#[derive(Debug)]
pub struct Validator(Scanner);

impl Default for Validator {
    fn default() -> Self {
        Self::new()
    }
}

impl Validator {
    /// A validator at the beginning of a document.
    #[must_use]
    pub fn new() -> Self {
        Self(Scanner::new())
    }

    /// Reads the next slice of the document, cut between any two characters.
    ///
    /// # Errors
    ///
    /// The first [`SyntaxError`] of the document.
    pub fn push(&mut self, text: &str) -> Result<(), SyntaxError> {
        let text = text.as_bytes();
        self.0.begin(text)?;
        let mut start = 0;
        while start < text.len() {
            start += self.0.block(text, start)?.length;
        }
        self.0.end(text);
        Ok(())
    }

    /// Ends the document.
    ///
    /// # Errors
    ///
    /// When the document ends too early.
    pub fn finish(self) -> Result<(), SyntaxError> {
        self.0.finish().map(drop)
    }
}

/// Validates a document in memory.
///
/// # Errors
///
/// The first [`SyntaxError`] of the document.
pub fn validate(document: &str) -> Result<(), SyntaxError> {
    let mut validator = Validator::new();
    validator.push(document)?;
    validator.finish()
}
