//! The lines of an answer, within its budget.

use lro_json::walk::Damaged;
use lro_jsonl::Measure;

use crate::json::checked;
use crate::{Answer, Budget};

/// Results so far.
#[derive(Debug)]
pub(crate) struct Lines {
    budget: Budget,
    text: String,
    size: Measure,
    results: u64,
    /// Bytes of the first result that did not fit, its line feed included.
    next_bytes: Option<u64>,
}

impl Lines {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, text: String::new(), size: Measure::text(), results: 0, next_bytes: None }
    }

    /// Whether a result did not fit; no later one is added.
    pub(crate) fn is_full(&self) -> bool {
        self.next_bytes.is_some()
    }

    /// Adds a result that was copied from the file, if it fits.
    pub(crate) fn push_copied(&mut self, line: &[u8]) -> Result<(), Damaged> {
        if self.has_bytes_for(line) {
            self.push(checked(line)?);
        }
        Ok(())
    }

    /// Adds a result, if it fits.
    pub(crate) fn push(&mut self, line: &str) {
        if !self.has_bytes_for(line.as_bytes()) {
            return;
        }
        let mut size = self.size.clone();
        size.push(line);
        size.push("\n");
        if size.tokens() > u64::from(self.budget.tokens) {
            self.next_bytes = Some(line.len() as u64 + 1);
            return;
        }
        self.size = size;
        self.text.push_str(line);
        self.text.push('\n');
        self.results += 1;
    }

    fn has_bytes_for(&mut self, line: &[u8]) -> bool {
        let bytes = line.len() + 1;
        if !self.is_full() && self.text.len() + bytes > self.budget.bytes as usize {
            self.next_bytes = Some(bytes as u64);
        }
        !self.is_full()
    }

    /// The answer, completed with these counts.
    pub(crate) fn answer(self, total: u64, matched: u64, examined: u64) -> Answer {
        Answer {
            lines: self.text,
            results: self.results,
            total,
            matched,
            examined,
            next_bytes: self.next_bytes,
            failures: None,
            notes: Vec::new(),
        }
    }
}
