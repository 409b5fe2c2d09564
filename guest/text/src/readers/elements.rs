//! The elements of a JSON array that is not valid to its end.

use super::error::Fault;
use super::json::Value;
use super::records::Records;

/// What stands between two elements.
const BETWEEN: [char; 5] = [',', ' ', '\n', '\r', '\t'];

/// Reads the objects and arrays in an array up to a number of them, and nothing behind them.
#[derive(Debug)]
pub(crate) struct Elements {
    /// Bytes before the first one that are still to come.
    before: u64,
    /// Elements that are still to come.
    left: u64,
    value: Value,
    inside: bool,
}

impl Elements {
    pub(crate) fn new(start: u64, count: u64) -> Self {
        Self { before: start, left: count, value: Value::default(), inside: false }
    }

    pub(crate) fn push(&mut self, text: &str, records: &mut Records) -> Result<(), Fault> {
        let before = text.len().min(usize::try_from(self.before).unwrap_or(usize::MAX));
        self.before -= before as u64;
        records.report.outside += before as u64;
        let mut rest = &text[before..];
        while self.left > 0 {
            if !self.inside {
                rest = rest.trim_start_matches(BETWEEN);
                if rest.is_empty() {
                    return Ok(());
                }
                self.inside = true;
            }
            let Some(length) = self.value.read(rest, &mut records.lines)? else { return Ok(()) };
            records.end();
            self.left -= 1;
            self.inside = false;
            rest = &rest[length..];
        }
        records.report.outside += rest.len() as u64;
        Ok(())
    }

    /// Ends the text, which must have all the elements.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        if self.left > 0 { self.value.finish() } else { Ok(()) }
    }
}
