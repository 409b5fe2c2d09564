//! Searches the strings of JSON Lines.

use std::borrow::Cow;

use lro_json::pointer::push_step;
use lro_json::unescaped_lossy;
use memchr::{memchr, memchr2};

use super::hit::{FOUND_BYTES_MAX, Found, Hit, TEXT_BYTES_MAX};
use super::matcher::Matcher;
use super::{Search, SearchError};
use crate::regions::Region;
use crate::shorten::around;

/// Bytes of a record. Longer ones are not searched, but counted.
pub const RECORD_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Searches all strings of JSON Lines; keys and numbers are not searched. A hit is a string; its line is the number of its
/// record, and its place is the JSON Pointer to the string.
#[derive(Debug)]
pub struct RecordSearcher {
    matcher: Matcher,
    wanted: std::ops::Range<u64>,
    found: Found,
    /// Bytes of the hits.
    bytes: usize,
    /// The beginning of the record whose end is not seen.
    carry: Vec<u8>,
    /// The record in `carry` is too long, and its rest is skipped.
    too_long: bool,
}

/// A container on the way to a value.
#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    /// The raw key of the current member.
    Member(&'a [u8]),
    /// The index of the current element.
    Element(u64),
}

/// A record that is not JSON.
struct Damaged;

impl RecordSearcher {
    /// Prepares a search. Context counts for nothing: records have none.
    ///
    /// # Errors
    ///
    /// As [`Searcher::new`](super::Searcher::new); and with `rank`, which orders passages of a text.
    pub fn new(search: &Search) -> Result<Self, SearchError> {
        search.check()?;
        if search.rank {
            return Err(SearchError::RankOfRecords);
        }
        let limit = if search.count_only { 0 } else { u64::from(search.limit) };
        Ok(Self {
            matcher: search.matcher()?,
            wanted: search.offset..search.offset.saturating_add(limit),
            found: Found::default(),
            bytes: 0,
            carry: Vec::new(),
            too_long: false,
        })
    }

    /// Searches the next slice.
    pub fn push(&mut self, mut slice: &[u8]) {
        while let Some(end) = memchr(b'\n', slice) {
            let (line, rest) = slice.split_at(end);
            if self.carry.is_empty() && !self.too_long {
                self.record(line);
            } else {
                self.keep(line);
                self.end_record();
            }
            slice = rest.get(1..).unwrap_or_default();
        }
        self.keep(slice);
    }

    /// Ends the records.
    #[must_use]
    pub fn finish(mut self) -> Found {
        if self.too_long || !self.carry.is_empty() {
            self.end_record();
        }
        let next = self.wanted.start + self.found.hits.len() as u64;
        self.found.next = (!self.wanted.is_empty() && next < self.found.matches).then_some(next);
        self.found
    }

    fn keep(&mut self, piece: &[u8]) {
        self.too_long |= self.carry.len() + piece.len() > RECORD_BYTES_MAX;
        if self.too_long {
            self.carry.clear();
        } else {
            self.carry.extend_from_slice(piece);
        }
    }

    fn end_record(&mut self) {
        let mut record = std::mem::take(&mut self.carry);
        if std::mem::take(&mut self.too_long) {
            self.found.lines += 1;
            self.found.skipped += 1;
        } else {
            self.record(&record);
        }
        record.clear();
        self.carry = record;
    }

    fn record(&mut self, record: &[u8]) {
        self.found.lines += 1;
        // Without escapes, a string that matches has the literals of the pattern as they are.
        let has_escapes = memchr(b'\\', record).is_some();
        if !has_escapes && !self.matcher.may_match(record) {
            return;
        }
        if record.len() > RECORD_BYTES_MAX || self.strings(record).is_err() {
            self.found.skipped += 1;
        }
    }

    /// Searches every string of a record.
    fn strings(&mut self, record: &[u8]) -> Result<(), Damaged> {
        let mut steps: Vec<Step<'_>> = Vec::new();
        let mut at = 0;
        while let Some(&byte) = record.get(at) {
            at += 1;
            match byte {
                b'{' => steps.push(Step::Member(b"")),
                b'[' => steps.push(Step::Element(0)),
                b'}' | b']' => {
                    steps.pop().ok_or(Damaged)?;
                }
                b',' => match steps.last_mut().ok_or(Damaged)? {
                    Step::Element(index) => *index += 1,
                    Step::Member(_) => {}
                },
                b'"' => {
                    let raw = string(record, at)?;
                    at += raw.len() + 1;
                    let behind = record.get(at..).unwrap_or_default().iter().find(|byte| !byte.is_ascii_whitespace());
                    match steps.last_mut() {
                        Some(Step::Member(key)) if behind == Some(&b':') => *key = raw,
                        _ => self.value(raw, &steps),
                    }
                }
                _ => {}
            }
        }
        if steps.is_empty() { Ok(()) } else { Err(Damaged) }
    }

    fn value(&mut self, raw: &[u8], steps: &[Step<'_>]) {
        let value = unescape(raw);
        let region = Region { bytes: &value, given: 0, open: false };
        let Some(found) = self.matcher.find(region, 0) else { return };
        if self.wanted.contains(&self.found.matches) && self.bytes < FOUND_BYTES_MAX {
            let line = value.get(found.line.clone()).unwrap_or_default();
            let within = found.found.start - found.line.start..found.found.end - found.line.start;
            let hit = Hit {
                line: self.found.lines,
                offset: None,
                text: around(line, within, TEXT_BYTES_MAX),
                place: vec![pointer(steps)],
                before: Vec::new(),
                after: Vec::new(),
                score: 0,
            };
            self.bytes += hit.size();
            self.found.hits.push(hit);
        }
        self.found.matches += 1;
    }
}

/// The text of the string whose first quote is before `at`, without the quotes.
fn string(record: &[u8], at: usize) -> Result<&[u8], Damaged> {
    let mut end = at;
    loop {
        let rest = record.get(end..).ok_or(Damaged)?;
        end += memchr2(b'"', b'\\', rest).ok_or(Damaged)?;
        if record.get(end) == Some(&b'"') {
            return record.get(at..end).ok_or(Damaged);
        }
        end += 2;
    }
}

fn unescape(raw: &[u8]) -> Cow<'_, [u8]> {
    if memchr(b'\\', raw).is_none() { raw.into() } else { unescaped_lossy(raw).into() }
}

/// The JSON Pointer to the current value.
fn pointer(steps: &[Step<'_>]) -> String {
    let mut out = String::new();
    for step in steps {
        match step {
            Step::Element(index) => push_step(&mut out, &index.to_string()),
            Step::Member(raw) => push_step(&mut out, &String::from_utf8_lossy(&unescape(raw))),
        }
    }
    out
}
