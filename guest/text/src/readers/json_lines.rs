//! JSON Lines of which a few are not JSON: a log that is still being written, or with values that JSON does not know.

use super::error::Fault;
use super::json::Value;
use super::records::Records;

/// Fewest records that show JSON Lines: 2.
const RECORDS_MIN: u64 = 2;

/// At most one in ten lines may be anything else, besides the last one, which may be cut.
const BAD_SHARE_MAX: u64 = 10;

/// Reads a JSON object or array from each line, and counts the other lines.
#[derive(Debug, Default)]
pub(crate) struct JsonLines {
    /// Lines so far.
    number: u64,
    /// Lines with content so far.
    filled: u64,
    /// Whether the last of them is not JSON.
    ends_badly: bool,
}

impl JsonLines {
    pub(crate) fn line(&mut self, line: &str, records: &mut Records) {
        self.number += 1;
        let text = line.trim_ascii();
        if text.is_empty() {
            return;
        }
        self.filled += 1;
        let start = records.lines.len();
        self.ends_badly = !is_container(text, &mut records.lines);
        if self.ends_badly {
            records.lines.truncate(start);
            records.report.bad_lines += 1;
            records.report.first_bad_line.get_or_insert(self.number);
        } else {
            records.end();
        }
    }

    /// Checks that few enough lines were something else.
    pub(crate) fn settle(&self, records: &Records) -> Result<(), Fault> {
        let report = &records.report;
        let bad = report.bad_lines - u64::from(self.ends_badly);
        let is_most = bad * BAD_SHARE_MAX <= self.filled;
        if is_most && report.records >= RECORDS_MIN { Ok(()) } else { Err(Fault::Lines) }
    }
}

/// Whether a text is one JSON object or array. Appends it to `lines`, or its beginning.
fn is_container(text: &str, lines: &mut Vec<u8>) -> bool {
    text.starts_with(['{', '['])
        && matches!(Value::default().read(text, lines), Ok(Some(length)) if length == text.len())
}
