//! Whether a text is JSON, and nothing else of it.

use crate::SyntaxError;
use crate::scan::Scanner;

/// Validates one document, given in slices, and keeps nothing of it. After an error it must not be used any more.
///
/// ```
/// let mut validator = lro_jsonl::Validator::new();
/// validator.push("[1, 2")?;
/// validator.push("5]")?;
/// validator.finish()?;
/// # Ok::<(), lro_jsonl::SyntaxError>(())
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

    /// Reads the next slice of the document, cut at any character.
    ///
    /// # Errors
    ///
    /// What is wrong with the document so far.
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
    /// When it is not complete.
    pub fn finish(self) -> Result<(), SyntaxError> {
        self.0.finish().map(drop)
    }
}
