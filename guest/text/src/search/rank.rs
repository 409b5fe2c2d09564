//! Orders passages by BM25, in one pass.
//!
//! A passage is a paragraph, cut at [`PASSAGE_BYTES_MAX`]; in a log, a line. How often a term is in passages is only known
//! at the end, so passages that match wait in a pool with how often they have each term, and are scored then. When the pool
//! is full, the worse half of it goes, judged by what is known so far: the best passages are exact up to
//! [`POOL_MAX`] matching ones, and nearly so beyond.

use memchr::{memchr, memchr_iter, memmem, memrchr};

use super::hit::{Found, Hit};
use super::scan::Many;
use super::words::{is_ending, is_word, terms};
use super::{Search, SearchError};
use crate::regions::Region;
use crate::shorten::{around, floor_char};
use crate::structure::{Kind, Tracker};

/// Bytes of a passage.
const PASSAGE_BYTES_MAX: usize = 1500;

/// Bytes that are shown of a passage, around its first term.
const SHOWN_BYTES_MAX: usize = 600;

/// Passages that wait to be scored.
const POOL_MAX: usize = 8192;

/// Passages that stay in a pool that was full, and hits that a ranked search has at most.
const POOL_KEPT: usize = POOL_MAX / 2;

/// The usual constants of BM25: how soon repetition stops to count, and how much length does.
const REPETITION: f64 = 1.2;
const LENGTH: f64 = 0.75;

/// A ranked search in progress.
#[derive(Debug)]
pub(crate) struct Ranker {
    terms: Vec<Vec<u8>>,
    scanner: Many,
    wanted: (usize, usize),
    tracker: Option<Tracker>,
    pool: Vec<Passage>,
    statistics: Statistics,
    matches: u64,
    /// What a passage has to score to enter the pool, after it was full once.
    entry: f64,
    approximate: bool,
    /// Number of the line that the next region begins in, from 1.
    line: u64,
    within_line: bool,
}

/// What BM25 needs to know of all passages.
#[derive(Debug, Default)]
struct Statistics {
    passages: u64,
    bytes: u64,
    /// Passages that have each term.
    having: Vec<u64>,
    /// How much each term counts, from the numbers above when they were last looked at.
    rarities: Vec<f64>,
}

/// A passage that has some of the terms.
#[derive(Debug)]
struct Passage {
    line: u64,
    bytes: usize,
    /// How often it has each term.
    counts: Box<[u32]>,
    text: String,
    place: Vec<String>,
}

/// The passage that a region is searched in, and what was found in it.
#[derive(Debug)]
struct Open {
    start: usize,
    end: usize,
    /// How often it has each term.
    counts: Vec<u32>,
    /// The first term in it.
    first: Option<(usize, usize)>,
}

/// How far a region is counted and followed.
#[derive(Debug)]
struct Cursor {
    at: usize,
    line: u64,
}

impl Ranker {
    pub(crate) fn new(question: &[String], search: &Search) -> Result<Self, SearchError> {
        let terms = terms(question);
        if terms.is_empty() {
            return Err(SearchError::Empty);
        }
        let last = search.offset.saturating_add(u64::from(search.limit));
        if last > POOL_KEPT as u64 {
            return Err(SearchError::OverLimit {
                what: "`offset` and `limit` of a ranked search",
                value: last,
                limit: POOL_KEPT as u64,
            });
        }
        let limit = if search.count_only { 0 } else { search.limit as usize };
        Ok(Self {
            scanner: Many::new(&terms, true),
            wanted: (search.offset as usize, limit),
            tracker: None,
            pool: Vec::new(),
            statistics: Statistics { having: vec![0; terms.len()], ..Statistics::default() },
            terms,
            matches: 0,
            entry: 0.0,
            approximate: false,
            line: 1,
            within_line: false,
        })
    }

    pub(crate) fn region(&mut self, region: Region<'_>) {
        let kind = self.tracker.get_or_insert_with(|| Tracker::new(Kind::of(region.bytes))).kind();
        let text = region.bytes.get(..region.last_start()).unwrap_or_default();
        let mut cursor = Cursor { at: 0, line: self.line };
        let given = region.given;
        let mut open = Open { start: given, end: given, counts: vec![0; self.terms.len()], first: None };
        let mut at = region.given;
        while let Some((place, length)) = self.scanner.find(text, at) {
            at = place + length;
            let Some((term, end)) = self.term_at(text, place) else { continue };
            at = end;
            if place >= open.end {
                self.close(region, &open, &mut cursor);
                open.start = self.passage_start(kind, text, open.end, place);
                open.end = passage_end(kind, text, open.start);
                open.counts.fill(0);
                open.first = None;
            }
            open.first.get_or_insert((place, end));
            if let Some(count) = open.counts.get_mut(term) {
                *count += 1;
            }
        }
        self.close(region, &open, &mut cursor);
        self.passage_start(kind, text, open.end, text.len());
        self.statistics.bytes += (text.len() - region.given) as u64;
        self.advance(region, &mut cursor, region.bytes.len());
        if kind == Kind::Log {
            self.statistics.passages += cursor.line - self.line;
        }
        self.line = cursor.line;
        self.within_line = region.bytes.last().is_some_and(|&byte| byte != b'\n');
    }

    pub(crate) fn finish(mut self) -> Found {
        self.statistics.update();
        self.sort_pool();
        let (offset, limit) = self.wanted;
        let scored = self.pool.iter().skip(offset).take(limit).map(|passage| Hit {
            line: passage.line,
            offset: None,
            text: passage.text.clone(),
            place: passage.place.clone(),
            before: Vec::new(),
            after: Vec::new(),
            score: (self.statistics.score(passage.bytes, &passage.counts) * 1000.0) as u64,
        });
        let hits: Vec<_> = scored.collect();
        let next = offset + hits.len();
        Found {
            next: (limit > 0 && (next as u64) < self.matches && next < POOL_KEPT).then_some(next as u64),
            hits,
            matches: self.matches,
            lines: self.line - 1 + u64::from(self.within_line),
            skipped: 0,
            long_lines: false,
            approximate: self.approximate,
        }
    }

    /// The term that the word at `at` is a form of, and the end of the word.
    fn term_at(&self, text: &[u8], at: usize) -> Option<(usize, usize)> {
        if at.checked_sub(1).and_then(|before| text.get(before)).is_some_and(|&byte| is_word(byte)) {
            return None;
        }
        let rest = text.get(at..)?;
        let word = rest.get(..rest.iter().take_while(|&&byte| is_word(byte)).count())?;
        let term = self.terms.iter().position(|term| {
            word.split_at_checked(term.len())
                .is_some_and(|(stem, ending)| stem.eq_ignore_ascii_case(term) && is_ending(ending))
        })?;
        Some((term, at + word.len()))
    }

    /// Counts the passages from `from` to the one with `to`; its beginning.
    fn passage_start(&mut self, kind: Kind, text: &[u8], from: usize, to: usize) -> usize {
        let between = text.get(from..to).unwrap_or_default();
        if kind == Kind::Log {
            // All lines are counted at the end of the region.
            return memrchr(b'\n', between).map_or(from, |at| from + at + 1);
        }
        let mut start = from;
        while start < to {
            self.statistics.passages += 1;
            let end = passage_end(kind, text, start);
            if end > to {
                break;
            }
            start = end;
        }
        start
    }

    fn close(&mut self, region: Region<'_>, open: &Open, cursor: &mut Cursor) {
        let Some((start, end)) = open.first else { return };
        self.matches += 1;
        for (having, count) in self.statistics.having.iter_mut().zip(&open.counts) {
            *having += u64::from(*count > 0);
        }
        let bytes = open.end - open.start;
        if self.wanted.1 == 0 {
            return;
        }
        if self.approximate && self.statistics.score(bytes, &open.counts) < self.entry {
            return;
        }
        self.advance(region, cursor, open.start);
        let text = region.bytes.get(open.start..open.end).unwrap_or_default();
        let before = region.bytes.get(..open.start).unwrap_or_default();
        self.pool.push(Passage {
            line: cursor.line,
            bytes,
            counts: open.counts.as_slice().into(),
            text: around(text, start - open.start..end - open.start, SHOWN_BYTES_MAX),
            place: self.tracker.as_ref().map(|tracker| tracker.place(before, text)).unwrap_or_default(),
        });
        if self.pool.len() == POOL_MAX {
            self.statistics.update();
            self.sort_pool();
            self.pool.truncate(POOL_KEPT);
            self.entry = self.pool.last().map_or(0.0, |last| self.statistics.score(last.bytes, &last.counts));
            self.approximate = true;
        }
    }

    fn sort_pool(&mut self) {
        let statistics = &self.statistics;
        self.pool.sort_by_cached_key(|passage| {
            let score = statistics.score(passage.bytes, &passage.counts);
            // Scores are not negative: their bits are ordered as they are.
            (std::cmp::Reverse(score.to_bits()), passage.line)
        });
    }

    fn advance(&mut self, region: Region<'_>, cursor: &mut Cursor, to: usize) {
        let text = region.bytes.get(cursor.at..to).unwrap_or_default();
        if let Some(tracker) = &mut self.tracker {
            tracker.advance(text, region.starts_line(cursor.at));
        }
        cursor.line += memchr_iter(b'\n', text).count() as u64;
        cursor.at = to;
    }
}

impl Statistics {
    fn update(&mut self) {
        let passages = self.passages.max(1) as f64;
        let rarity = |having: f64| (1.0 + (passages - having + 0.5).max(0.0) / (having + 0.5)).ln();
        self.rarities = self.having.iter().map(|&having| rarity(having as f64)).collect();
    }

    fn score(&self, bytes: usize, counts: &[u32]) -> f64 {
        let length = bytes as f64 * self.passages as f64 / self.bytes.max(1) as f64;
        let saturation = REPETITION * (1.0 - LENGTH + LENGTH * length);
        let terms = counts.iter().zip(&self.rarities).filter(|(count, _)| **count > 0);
        terms
            .map(|(&count, rarity)| rarity * f64::from(count) * (REPETITION + 1.0) / (f64::from(count) + saturation))
            .sum()
    }
}

/// The end of the passage that begins at `start`: after an empty line, or the last line that fits.
fn passage_end(kind: Kind, text: &[u8], start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let window = rest.get(..rest.len().min(PASSAGE_BYTES_MAX)).unwrap_or_default();
    let length = if kind == Kind::Log {
        memchr(b'\n', rest).map_or(rest.len(), |at| at + 1)
    } else if let Some(at) = memmem::find(window, b"\n\n") {
        at + 2
    } else if window.len() == rest.len() {
        rest.len()
    } else {
        memrchr(b'\n', window).map_or_else(|| floor_char(rest, window.len()).max(1), |at| at + 1)
    };
    start + length
}
