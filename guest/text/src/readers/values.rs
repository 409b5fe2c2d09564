//! JSON values one after another: JSON Lines, concatenated JSON, JSON text sequences.

use super::error::Fault;
use super::json::Value;
use super::records::Records;

/// White space of JSON, and the record separator of RFC 7464.
const BETWEEN: [char; 5] = [' ', '\n', '\r', '\t', '\u{1e}'];

/// Reads values with any white space, or none, between them.
#[derive(Debug, Default)]
pub(crate) struct Values {
    value: Value,
    inside: bool,
}

impl Values {
    pub(crate) fn push(&mut self, text: &str, records: &mut Records) -> Result<(), Fault> {
        let mut rest = text;
        loop {
            if !self.inside {
                rest = rest.trim_start_matches(BETWEEN);
                if rest.is_empty() {
                    return Ok(());
                }
                self.inside = true;
            }
            let Some(length) = self.value.read(rest, &mut records.lines)? else { return Ok(()) };
            records.end();
            self.inside = false;
            rest = &rest[length..];
        }
    }

    pub(crate) fn finish(self, records: &mut Records) -> Result<(), Fault> {
        if self.inside {
            self.value.finish()?;
            records.end();
        }
        Ok(())
    }
}
