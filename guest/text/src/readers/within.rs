//! JSON with other text around it: behind a sentence, in a fence, under a heading, in several paragraphs.
//!
//! After the first value, a value begins where a line begins with a bracket and what may follow it in JSON. All other
//! lines are not read.

use super::error::Fault;
use super::json::Value;
use super::records::Records;

/// Reads the JSON values of a text.
#[derive(Debug)]
pub(crate) struct Within {
    /// Bytes before the first value that are still to come.
    before: u64,
    /// Whether there is one value alone.
    document: bool,
    place: Place,
    value: Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first character of a line that is not white space.
    LineStart,
    /// In a line without a value.
    Line,
    /// After a bracket that may begin a value.
    Bracket(char),
    Value,
    /// In the rest of the line after a value.
    AfterValue,
}

impl Within {
    pub(crate) fn new(start: u64, document: bool) -> Self {
        Self { before: start, document, place: Place::LineStart, value: Value::default() }
    }

    pub(crate) fn push(&mut self, text: &str, records: &mut Records) -> Result<(), Fault> {
        let mut rest = records.skip(&mut self.before, text);
        while !rest.is_empty() {
            let length = match self.place {
                Place::Value => self.read(rest, records)?,
                _ => self.step(rest, records)?,
            };
            if self.place != Place::Value && !matches!(self.place, Place::AfterValue) {
                records.report.outside += length as u64;
            }
            rest = &rest[length..];
        }
        Ok(())
    }

    fn read(&mut self, text: &str, records: &mut Records) -> Result<usize, Fault> {
        let Some(length) = self.value.read(text, &mut records.lines)? else { return Ok(text.len()) };
        self.place = Place::AfterValue;
        records.end();
        Ok(length)
    }

    /// Reads on outside values; returns how many bytes.
    fn step(&mut self, text: &str, records: &mut Records) -> Result<usize, Fault> {
        let Some(first) = text.chars().next() else { return Ok(0) };
        self.place = match (self.place, first) {
            (Place::Line, _) => {
                let end = text.find('\n').map(|at| at + 1);
                if end.is_some() {
                    self.place = Place::LineStart;
                }
                return Ok(end.unwrap_or(text.len()));
            }
            (Place::LineStart | Place::AfterValue, '\n') => Place::LineStart,
            (place, ' ' | '\t' | '\r' | '\n') => place,
            (Place::AfterValue, _) => return Err(Fault::AfterValue),
            (Place::LineStart, '{' | '[') => Place::Bracket(first),
            (Place::Bracket(bracket), _) if may_follow(bracket, first) => return self.begin(bracket, records),
            _ => Place::Line,
        };
        Ok(first.len_utf8())
    }

    /// Begins a value whose bracket has been read.
    fn begin(&mut self, bracket: char, records: &mut Records) -> Result<usize, Fault> {
        if self.document && records.report.records > 0 {
            return Err(Fault::Second);
        }
        // The bracket is part of the value.
        records.report.outside -= 1;
        self.value = Value::default();
        self.value.read(if bracket == '{' { "{" } else { "[" }, &mut records.lines)?;
        self.place = Place::Value;
        Ok(0)
    }

    pub(crate) fn finish(self) -> Result<(), Fault> {
        match self.place {
            Place::Value => self.value.finish(),
            _ => Ok(()),
        }
    }
}

/// Whether JSON may go on like this after a bracket. `- [ ] task`, `[link](url)` and `{name}` are no JSON.
pub(crate) fn may_follow(bracket: char, next: char) -> bool {
    match bracket {
        '{' => matches!(next, '"' | '}'),
        _ => matches!(next, '{' | '[' | '"' | ']' | '-' | '0'..='9' | 't' | 'f' | 'n'),
    }
}
