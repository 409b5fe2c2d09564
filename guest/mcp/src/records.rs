//! Keeps the first records of a splitter while a budget lasts, and counts the others.

use std::convert::Infallible;
use std::fmt::Write as _;

use bytes::Bytes;
use lro_jsonl::{FileReport, LargeShape, Output, Stream, Target};
use lro_payload::{Part, PartKind};

use super::budget::Budget;
use super::text::{escaped, quoted};

/// Longest escape sequence in a JSON string, in bytes.
const ESCAPE_BYTES_MAX: usize = 12;

/// The number of copies of an object in the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copies {
    /// In a text block, escaped.
    One,
    /// In a text block and as structured content.
    Two,
}

/// The kept part of one section or large member.
struct File {
    pointer: String,
    /// Whether it is one string or number instead of records.
    is_value: bool,
    /// The records with commas between them, or the value.
    text: String,
    /// Records, or bytes of the value.
    kept: u64,
    total: u64,
}

/// The records kept so far.
pub(super) struct Records {
    pub(super) budget: Budget,
    /// Part of the budget that must not be spent now.
    pub(super) reserved: u64,
    /// Number of members that are not named.
    pub(super) unnamed: u64,
    copies: Copies,
    /// Number of sections that follow.
    pub(super) sections_left: u64,
    files: Vec<File>,
    /// Part of the budget reserved for other files, in addition to `reserved`.
    others: u64,
    /// Whether the current file is the last of `files`.
    named: bool,
    /// Whether the current file accepts more records.
    open: bool,
    line: Vec<u8>,
}

impl Records {
    pub(super) fn new(budget: Budget, copies: Copies) -> Self {
        Self {
            budget,
            reserved: 0,
            unnamed: 0,
            copies,
            sections_left: 0,
            files: Vec::new(),
            others: 0,
            named: false,
            open: false,
            line: Vec::new(),
        }
    }

    /// Spends on a text in all copies of the object, if it fits.
    pub(super) fn take(&mut self, text: &str) -> bool {
        let copies = self.copies;
        self.budget.with_reserve(self.reserved, |budget| {
            text.len() as u64 <= budget.bytes_max() && budget.take(&on_wire(text, copies))
        })
    }

    /// Whether no record and no value was kept.
    pub(super) fn is_empty(&self) -> bool {
        self.files.iter().all(|file| file.kept == 0)
    }

    /// Adds the members of all files and the end of the object.
    pub(super) fn write_to(&self, object: &mut String) {
        let mut omitted = Vec::new();
        for file in &self.files {
            let pointer = quoted(&file.pointer);
            // Writing to a string cannot fail.
            let _ = match file.is_value {
                true if file.text.is_empty() => write!(object, ",{pointer}:\"\""),
                true => write!(object, ",{pointer}:{}", file.text),
                false => write!(object, ",{pointer}:[{}]", file.text),
            };
            if file.total > file.kept {
                omitted.push(format!("{pointer}:{}", file.total - file.kept));
            }
        }
        let _ = write!(object, r#","omitted":{{{}}}"#, omitted.join(","));
        if self.unnamed > 0 {
            let _ = write!(object, r#","omitted_members":{}"#, self.unnamed);
        }
        object.push('}');
    }

    /// Adds the complete line as a record; closes the file when it does not fit.
    fn add_record(&mut self) {
        let line = std::mem::take(&mut self.line);
        self.reserved += self.others;
        let record = String::from_utf8_lossy(&line);
        let fits = self.take(&format!(",{record}"));
        self.reserved -= self.others;
        match self.files.last_mut() {
            Some(file) if fits => {
                file.text.push_str(if file.kept > 0 { "," } else { "" });
                file.text.push_str(&record);
                file.kept += 1;
            }
            _ => self.open = false,
        }
        self.line = line;
        self.line.clear();
    }

    /// Ends a value of `total` bytes, of which at least the beginning is buffered: keeps it if it fits, or the prefix
    /// of a string that does.
    fn add_value(&mut self, total: u64) {
        let line = std::mem::take(&mut self.line);
        self.reserved += self.others;
        let whole = std::str::from_utf8(&line).ok().filter(|line| line.len() as u64 == total);
        let kept = match whole {
            Some(value) if self.take(value) => (value.to_owned(), total),
            _ => self.take_head(&line),
        };
        self.reserved -= self.others;
        if let Some(file) = self.files.last_mut() {
            (file.text, file.kept) = kept;
        }
    }

    /// Keeps the prefix of a string literal that fits; the literal may be cut in an escape. Returns the kept JSON and
    /// its bytes.
    fn take_head(&mut self, line: &[u8]) -> (String, u64) {
        let Some(inside) = line.strip_prefix(b"\"") else { return (String::new(), 0) };
        let inside = inside.strip_suffix(b"\"").unwrap_or(inside);
        let decoded = (0..=ESCAPE_BYTES_MAX.min(inside.len())).find_map(|less| {
            let inside = Bytes::copy_from_slice(inside.get(..inside.len() - less)?);
            Part::json_string(PartKind::Text, inside).ok()
        });
        let text = decoded.and_then(|part| part.into_text().ok()).unwrap_or_default();
        let copies = self.copies;
        let wire = |head: &str| on_wire(&quoted(head), copies);
        let head = quoted(self.budget.with_reserve(self.reserved, |budget| budget.take_head(&text, wire)));
        let kept = head.len() as u64;
        (head, kept)
    }
}

fn on_wire(text: &str, copies: Copies) -> String {
    let mut wire = escaped(text);
    if copies == Copies::Two {
        wire.push_str(text);
    }
    wire
}

impl Output for Records {
    type Error = Infallible;

    fn begin(&mut self, target: Target<'_>) -> Result<(), Infallible> {
        let (pointer, is_value, shares) = match target {
            Target::Section { pointer, .. } => {
                self.sections_left = self.sections_left.saturating_sub(1);
                (pointer, false, self.sections_left + 1)
            }
            // An unknown number of large members may follow.
            Target::Large { pointer, shape } => (pointer, shape == LargeShape::Value, self.sections_left + 2),
            Target::Rest => return Ok(()),
        };
        self.line.clear();
        let name = quoted(pointer);
        // Its name, its brackets, and its entry in `omitted`.
        self.named = self.take(&format!(",{name}:[],{name}:{}", u64::MAX));
        self.open = self.named;
        if self.named {
            let left = self.budget.left().saturating_sub(self.reserved);
            self.others = left - left / shares;
            let pointer = pointer.to_owned();
            self.files.push(File { pointer, is_value, text: String::new(), kept: 0, total: 0 });
        } else {
            self.unnamed += 1;
        }
        Ok(())
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), Infallible> {
        if stream == Stream::Rest || !self.open {
            return Ok(());
        }
        let room = usize::try_from(self.budget.bytes_max()).unwrap_or(usize::MAX);
        let is_value = self.files.last().is_some_and(|file| file.is_value);
        if is_value {
            let most = room.saturating_sub(self.line.len()).min(bytes.len());
            let bytes = bytes.get(..most).unwrap_or_default();
            self.line.extend_from_slice(bytes.strip_suffix(b"\n").unwrap_or(bytes));
            return Ok(());
        }
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let record = piece.strip_suffix(b"\n");
            self.line.extend_from_slice(record.unwrap_or(piece));
            if record.is_some() {
                self.add_record();
            } else if self.line.len() > room {
                self.open = false;
            }
            if !self.open {
                break;
            }
        }
        Ok(())
    }

    fn end(&mut self, stream: Stream, report: FileReport) -> Result<(), Infallible> {
        if stream == Stream::Rest {
            self.unnamed += report.records;
            return Ok(());
        }
        let Some(file) = self.files.last_mut().filter(|_| self.named) else { return Ok(()) };
        if file.is_value {
            // The line feed is not part of the value.
            file.total = report.bytes.saturating_sub(1);
            let total = file.total;
            self.add_value(total);
        } else {
            file.total = report.records;
        }
        Ok(())
    }
}
