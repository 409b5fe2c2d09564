//! Text of bounded size.

use super::DocumentError;

/// Collects text up to a limit.
pub(crate) struct Output {
    text: String,
    limit: usize,
}

impl Output {
    pub(crate) fn new(limit: usize) -> Self {
        Self { text: String::new(), limit }
    }

    /// # Errors
    /// [`DocumentError::TooLarge`].
    pub(crate) fn push(&mut self, text: &str) -> Result<(), DocumentError> {
        self.check(text.len())?;
        self.text.push_str(text);
        Ok(())
    }

    /// Whether there is room for so many bytes.
    pub(crate) fn check(&self, bytes: usize) -> Result<(), DocumentError> {
        if bytes > self.limit - self.text.len() {
            return Err(DocumentError::TooLarge { what: "bytes of text", limit: self.limit as u64 });
        }
        Ok(())
    }

    pub(crate) fn ends_with(&self, end: char) -> bool {
        self.text.ends_with(end)
    }

    pub(crate) fn finish(self) -> String {
        self.text
    }
}
