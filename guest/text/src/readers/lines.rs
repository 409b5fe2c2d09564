//! Whole lines of a text that comes in pieces.

use super::LINE_BYTES_MAX;
use super::error::Fault;

/// Gathers lines.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    /// The beginning of the current line.
    line: String,
}

impl Lines {
    /// Calls `each` for every line that ends in the piece, without its line end.
    pub(crate) fn push(&mut self, text: &str, mut each: impl FnMut(&str) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut rest = text;
        while let Some((line, after)) = rest.split_once('\n') {
            rest = after;
            if self.line.is_empty() {
                each(line.strip_suffix('\r').unwrap_or(line))?;
            } else {
                self.add(line)?;
                each(self.line.strip_suffix('\r').unwrap_or(&self.line))?;
                self.line.clear();
            }
        }
        self.add(rest)
    }

    /// The last line when it has no line end.
    pub(crate) fn last(self) -> Option<String> {
        Some(self.line).filter(|line| !line.is_empty())
    }

    fn add(&mut self, text: &str) -> Result<(), Fault> {
        if self.line.len() + text.len() > LINE_BYTES_MAX {
            return Err(Fault::Line);
        }
        self.line.push_str(text);
        Ok(())
    }
}
