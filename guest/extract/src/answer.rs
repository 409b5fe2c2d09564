//! The lines of an answer, as many as its budget has room for.

use crate::{Answer, Budget};
use lro_jsonl::Measure;

/// Results so far.
#[derive(Debug)]
pub(crate) struct Lines {
    budget: Budget,
    text: String,
    size: Measure,
    results: u64,
    /// Bytes of the first result that found no room, its line feed included.
    next_bytes: Option<u64>,
}

impl Lines {
    pub(crate) fn new(budget: Budget) -> Self {
        Self { budget, text: String::new(), size: Measure::text(), results: 0, next_bytes: None }
    }

    /// Whether a result found no room: none after it is added.
    pub(crate) fn is_full(&self) -> bool {
        self.next_bytes.is_some()
    }

    /// Bytes that still have room.
    pub(crate) fn room(&self) -> usize {
        (self.budget.bytes as usize).saturating_sub(self.text.len())
    }

    /// Adds a result, if there is room.
    pub(crate) fn push(&mut self, line: &str) {
        if self.is_full() {
            return;
        }
        let bytes = line.len() + 1;
        if bytes > self.room() {
            self.next_bytes = Some(bytes as u64);
            return;
        }
        let mut size = self.size.clone();
        size.push(line);
        size.push("\n");
        if size.tokens() > u64::from(self.budget.tokens) {
            self.next_bytes = Some(bytes as u64);
            return;
        }
        self.size = size;
        self.text.push_str(line);
        self.text.push('\n');
        self.results += 1;
    }

    /// The answer, of which these counts are known besides.
    pub(crate) fn answer(self, total: u64, matched: u64, examined: u64) -> Answer {
        Answer {
            lines: self.text,
            results: self.results,
            total,
            matched,
            examined,
            next_bytes: self.next_bytes,
            failures: None,
        }
    }
}
