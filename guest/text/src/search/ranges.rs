//! Gives lines by their numbers.

use std::collections::VecDeque;

use memchr::memchr_iter;

use super::SearchError;
use crate::regions::{Region, Regions, last_lines};
use crate::shorten::beginning;
use crate::structure::lines;

/// Bytes that are shown of a line: its beginning.
const LINE_SHOWN_MAX: usize = 4096;

/// Bytes of all lines that one reading gives.
const READ_BYTES_MAX: usize = 1024 * 1024;

/// Reads the lines from one number to another, both included, counted from 1; negative numbers count from the end, -1 is
/// the last line.
#[derive(Debug)]
pub struct LineReader {
    regions: Regions,
    kept: Kept,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadLine {
    /// Its number, from 1.
    pub line: u64,
    /// Its text without the line break, at most 4 KiB; `…` stands for the rest.
    pub text: String,
}

/// Some lines of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The lines.
    pub lines: Vec<ReadLine>,
    /// Lines of the whole text.
    pub total: u64,
    /// Whether these are all that were asked for. Otherwise the last ones are missing, or the first ones if they were
    /// counted from the end, because all together have more than 1 MiB.
    pub complete: bool,
}

#[derive(Debug)]
struct Kept {
    from: i64,
    to: i64,
    lines: VecDeque<ReadLine>,
    bytes: usize,
    complete: bool,
    /// Number of the line that the next region begins in, from 1.
    line: u64,
    within_line: bool,
}

impl LineReader {
    /// Prepares reading.
    ///
    /// # Errors
    ///
    /// If a number is 0, or the last line is certain to lie before the first one.
    pub fn new(from: i64, to: i64) -> Result<Self, SearchError> {
        if from == 0 || to == 0 || (from < 0) == (to < 0) && to < from {
            return Err(SearchError::LineNumbers { from, to });
        }
        let kept = Kept { from, to, lines: VecDeque::new(), bytes: 0, complete: true, line: 1, within_line: false };
        Ok(Self { regions: Regions::default(), kept })
    }

    /// Reads the next slice of the text.
    pub fn push(&mut self, slice: &[u8]) {
        let Self { regions, kept } = self;
        regions.push(slice, &mut |region| kept.region(region));
    }

    /// Ends the text.
    #[must_use]
    pub fn finish(mut self) -> Lines {
        self.regions.finish(&mut |region| self.kept.region(region));
        self.kept.finish()
    }
}

impl Kept {
    fn region(&mut self, region: Region<'_>) {
        let count = memchr_iter(b'\n', region.bytes).count() as u64;
        let (first, next) = (self.line + u64::from(region.given > 0), self.line + count);
        self.line = next;
        self.within_line = region.bytes.last().is_some_and(|&byte| byte != b'\n');
        let numbers = first..next + u64::from(self.within_line);
        let text = region.bytes.get(region.first_line()..).unwrap_or_default();
        match u64::try_from(self.from) {
            Ok(from) => self.keep_first(text, numbers, from),
            Err(_) => self.keep_last(text, numbers),
        }
    }

    fn keep_first(&mut self, text: &[u8], numbers: std::ops::Range<u64>, from: u64) {
        let to = u64::try_from(self.to).unwrap_or(u64::MAX);
        if numbers.end <= from || to < numbers.start || !self.complete {
            return;
        }
        let wanted = lines(text).zip(numbers).skip_while(|(_, number)| *number < from);
        for (line, number) in wanted.take_while(|(_, number)| *number <= to) {
            let line = ReadLine { line: number, text: beginning(line, LINE_SHOWN_MAX) };
            self.bytes += line.size();
            if self.bytes > READ_BYTES_MAX {
                self.complete = false;
                return;
            }
            self.lines.push_back(line);
        }
    }

    fn keep_last(&mut self, text: &[u8], numbers: std::ops::Range<u64>) {
        let most = usize::try_from(self.from.unsigned_abs()).unwrap_or(usize::MAX);
        let (mut last, mut bytes) = (Vec::new(), 0);
        for (line, number) in last_lines(text, 0).zip(numbers.rev()).take(most) {
            let line = ReadLine { line: number, text: beginning(line, LINE_SHOWN_MAX) };
            bytes += line.size();
            last.push(line);
            if bytes > READ_BYTES_MAX {
                break;
            }
        }
        self.bytes += bytes;
        self.lines.extend(last.into_iter().rev());
        while self.lines.len() > most || self.bytes > READ_BYTES_MAX {
            self.bytes -= self.lines.pop_front().map_or(0, |line| line.size());
        }
    }

    fn finish(mut self) -> Lines {
        let total = self.line - 1 + u64::from(self.within_line);
        let number = |from_end: i64| match u64::try_from(from_end) {
            Ok(number) => number,
            Err(_) => (total + 1).saturating_sub(from_end.unsigned_abs()),
        };
        let wanted = number(self.from).max(1)..=number(self.to).min(total);
        self.lines.retain(|line| wanted.contains(&line.line));
        let count = (wanted.end() + 1).saturating_sub(*wanted.start());
        Lines { complete: self.lines.len() as u64 == count, lines: self.lines.into(), total }
    }
}

impl ReadLine {
    fn size(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}
