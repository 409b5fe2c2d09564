//! Searches lines: hits with their numbers, context and place.

use std::collections::VecDeque;
use std::ops::Range;

use memchr::memchr;

use super::Search;
use super::hit::{CONTEXT_BYTES_MAX, FOUND_BYTES_MAX, Found, Hit, TEXT_BYTES_MAX};
use super::matcher::{Match, Matcher, has_long_line};
use crate::regions::{Region, last_lines};
use crate::shorten::{around, beginning};
use crate::structure::{Kind, Tracker};

/// A search in progress.
#[derive(Debug)]
pub(crate) struct LineSearch {
    matcher: Matcher,
    before: usize,
    after: usize,
    /// Numbers of the matches to show, from 0.
    wanted: Range<u64>,
    tracker: Option<Tracker>,
    found: Found,
    /// Bytes of the hits.
    bytes: usize,
    /// Lines that the last hit still gets.
    owed: usize,
    /// Number of the last line that was shown.
    shown: u64,
    /// The last lines of the regions before, with their numbers, as many as a hit shows.
    recent: VecDeque<(u64, String)>,
    /// Number of the line that the next region begins in, from 1.
    line: u64,
    /// The last region ended in a line without line break.
    within_line: bool,
    /// Bytes of a line that goes on in the next region up to where matches may begin there, and how far the last match reaches
    /// behind that.
    open_bytes: u64,
    reached: usize,
}

/// Bytes whose line breaks are counted in one byte for each of 16 places.
const COUNTED_BYTES: usize = 240;

/// Line breaks of a text. The loop has no branches, so that the compiler adds up 16 bytes at once.
fn breaks(text: &[u8]) -> u64 {
    let of_chunk = |chunk: &[u8]| chunk.iter().fold(0_u8, |breaks, byte| breaks + u8::from(*byte == b'\n'));
    text.chunks(COUNTED_BYTES).map(|chunk| u64::from(of_chunk(chunk))).sum()
}

/// Where the search is in a region.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    at: usize,
    /// Number of the line at `at`.
    line: u64,
}

impl LineSearch {
    pub(crate) fn new(matcher: Matcher, search: &Search) -> Self {
        let limit = if search.count_only { 0 } else { u64::from(search.limit) };
        Self {
            matcher,
            before: search.before as usize,
            after: search.after as usize,
            wanted: search.offset..search.offset.saturating_add(limit),
            tracker: None,
            found: Found::default(),
            bytes: 0,
            owed: 0,
            shown: 0,
            recent: VecDeque::new(),
            line: 1,
            within_line: false,
            open_bytes: 0,
            reached: 0,
        }
    }

    pub(crate) fn region(&mut self, region: Region<'_>) {
        if self.wants_more() && self.tracker.is_none() {
            self.tracker = Some(Tracker::new(Kind::of(region.bytes)));
        }
        let mut cursor = Cursor { at: 0, line: self.line };
        self.found.long_lines = self.found.long_lines || has_long_line(region);
        let mut at = region.given + std::mem::take(&mut self.reached);
        while let Some(found) = self.matcher.find(region, at) {
            at = found.next;
            if self.wanted.contains(&self.found.matches) && self.wants_more() {
                // In a long line, the last match may lie in the same piece.
                let start = found.line.start.max(cursor.at);
                self.advance(region, &mut cursor, start);
                self.owed = 0;
                if self.tracker.as_ref().is_some_and(|tracker| tracker.kind() == Kind::Html) {
                    // Headings may be in the same line.
                    self.advance(region, &mut cursor, found.found.start);
                }
                self.hit(region, cursor.line, &found);
                let end = at.max(cursor.at);
                self.advance(region, &mut cursor, end);
                self.owed = self.after;
            }
            self.found.matches += 1;
        }
        if region.open {
            self.reached = at.saturating_sub(region.last_start());
        }
        self.end(region, cursor);
        self.open_bytes = if region.open { self.bytes_before(region) + region.last_start() as u64 } else { 0 };
    }

    /// Bytes before the region of the line that the region begins in.
    fn bytes_before(&self, region: Region<'_>) -> u64 {
        self.open_bytes.saturating_sub(region.given as u64)
    }

    pub(crate) fn finish(mut self) -> Found {
        self.found.lines = self.line - 1 + u64::from(self.within_line);
        let next = self.wanted.start + self.found.hits.len() as u64;
        self.found.next = (!self.wanted.is_empty() && next < self.found.matches).then_some(next);
        self.found
    }

    /// Whether another hit would be shown.
    fn wants_more(&self) -> bool {
        (self.found.hits.len() as u64) < self.wanted.end - self.wanted.start && self.bytes < FOUND_BYTES_MAX
    }

    /// Goes on to `to`: counts lines, gives the last hit those after it, and follows the structure.
    fn advance(&mut self, region: Region<'_>, cursor: &mut Cursor, to: usize) {
        let from = cursor.at;
        let text = region.bytes.get(from..to).unwrap_or_default();
        let begins_line = region.starts_line(from);
        if self.owed > 0 {
            self.give_owed(text, begins_line, cursor.line);
        }
        if let Some(tracker) = &mut self.tracker
            && self.found.hits.len() as u64 != self.wanted.end - self.wanted.start
        {
            tracker.advance(text, begins_line);
        }
        cursor.line += breaks(text);
        cursor.at = to;
    }

    fn give_owed(&mut self, text: &[u8], begins_line: bool, mut number: u64) {
        let Some(hit) = self.found.hits.last_mut() else { return };
        let mut rest = text;
        if !begins_line {
            let Some(end) = memchr(b'\n', text) else { return };
            rest = text.get(end + 1..).unwrap_or_default();
            number += 1;
        }
        while self.owed > 0 && !rest.is_empty() {
            let (line, behind) = rest.split_at(memchr(b'\n', rest).map_or(rest.len(), |end| end + 1));
            let text = beginning(line, CONTEXT_BYTES_MAX);
            self.bytes += size_of::<String>() + text.len();
            hit.after.push(text);
            self.shown = number;
            self.owed -= 1;
            number += 1;
            rest = behind;
        }
    }

    fn hit(&mut self, region: Region<'_>, line: u64, found: &Match) {
        let start = region.line_start(found.line.start);
        let text = region.bytes.get(found.line.clone()).unwrap_or_default();
        let within = found.found.start - found.line.start..found.found.end - found.line.start;
        let earlier = region.bytes.get(..start).unwrap_or_default();
        let before = if start == 0 { self.bytes_before(region) } else { 0 };
        let offset = found.is_long.then(|| before + (found.found.start - start) as u64);
        let hit = Hit {
            line,
            offset,
            text: around(text, within, TEXT_BYTES_MAX),
            place: self.tracker.as_ref().map(|tracker| tracker.place(earlier, text)).unwrap_or_default(),
            before: self.lines_before(earlier, region.first_line(), line),
            after: Vec::new(),
            score: 0,
        };
        self.bytes += hit.size();
        self.shown = line;
        self.found.hits.push(hit);
    }

    /// The lines before line number `line` that were not shown, as many as a hit has.
    fn lines_before(&self, earlier: &[u8], first: usize, line: u64) -> Vec<String> {
        let mut lines: Vec<_> = last_lines(earlier, first)
            .zip((self.shown + 1..line).rev())
            .take(self.before)
            .map(|(text, _)| beginning(text, CONTEXT_BYTES_MAX))
            .collect();
        let numbers = self.shown + 1..line - lines.len() as u64;
        let recent = self.recent.iter().rev().filter(|(number, _)| numbers.contains(number));
        lines.extend(recent.take(self.before - lines.len()).map(|(_, text)| text.clone()));
        lines.reverse();
        lines
    }

    fn end(&mut self, region: Region<'_>, mut cursor: Cursor) {
        self.advance(region, &mut cursor, region.bytes.len());
        self.line = cursor.line;
        self.within_line = region.bytes.last().is_some_and(|&byte| byte != b'\n');
        if self.before > 0 && self.wants_more() {
            let next = self.line + u64::from(self.within_line);
            let lines: Vec<_> =
                last_lines(region.bytes, region.first_line()).zip((1..next).rev()).take(self.before).collect();
            for (text, number) in lines.into_iter().rev() {
                self.recent.push_back((number, beginning(text, CONTEXT_BYTES_MAX)));
            }
            self.recent.drain(..self.recent.len().saturating_sub(self.before + 1));
        }
    }
}
