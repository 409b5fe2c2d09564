//! JSON values one after another: JSON Lines, concatenated JSON, JSON text sequences, elements of an array.

use super::error::Fault;
use super::json::Value;
use super::records::Records;

/// White space of JSON, and the record separator of RFC 7464.
const BETWEEN: &[char] = &[' ', '\n', '\r', '\t', '\u{1e}'];

/// What stands between two elements of an array.
const BETWEEN_ELEMENTS: &[char] = &[' ', '\n', '\r', '\t', ','];

/// Reads values up to a number of them, and nothing behind them.
#[derive(Debug)]
pub(crate) struct Values {
    /// Bytes before the first one that are still to come.
    before: u64,
    /// Characters that may stand between two values, or none.
    between: &'static [char],
    /// Values that are still to come; `None` for all there are.
    left: Option<u64>,
    value: Value,
    inside: bool,
}

impl Values {
    /// All of a text.
    pub(crate) fn all() -> Self {
        Self { before: 0, between: BETWEEN, left: None, value: Value::default(), inside: false }
    }

    /// So many objects and arrays of an array whose bracket ends before byte `start`.
    pub(crate) fn elements(start: u64, count: u64) -> Self {
        Self { before: start, between: BETWEEN_ELEMENTS, left: Some(count), ..Self::all() }
    }

    pub(crate) fn push(&mut self, text: &str, records: &mut Records) -> Result<(), Fault> {
        let mut rest = records.skip(&mut self.before, text);
        while self.left != Some(0) {
            if !self.inside {
                rest = rest.trim_start_matches(self.between);
                if rest.is_empty() {
                    return Ok(());
                }
                self.inside = true;
            }
            let Some(length) = self.value.read(rest, &mut records.lines)? else { return Ok(()) };
            records.end();
            self.left = self.left.map(|left| left - 1);
            self.inside = false;
            rest = &rest[length..];
        }
        records.report.outside += rest.len() as u64;
        Ok(())
    }

    pub(crate) fn finish(self, records: &mut Records) -> Result<(), Fault> {
        if self.inside || self.left.is_some_and(|left| left > 0) {
            self.value.finish()?;
            records.end();
        }
        Ok(())
    }
}
