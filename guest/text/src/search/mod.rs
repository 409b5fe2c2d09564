//! Finds lines by words, a literal or a regular expression, and says where each one stands.
//!
//! ```text
//! let mut searcher = Searcher::new(&search)?;
//! for slice in text { searcher.push(slice); }
//! let found = searcher.finish();
//! ```
//!
//! [`RecordSearcher`] does the same for all strings of JSON Lines, and [`LineReader`] gives lines by their numbers.
//!
//! # Lines
//!
//! A hit is a line that matches, once, however often it does. Line breaks are `\n` and `\r\n`. In a line longer
//! than 64 KiB each match is a hit and says its offset; for several words, each piece of 4 KiB that has them all. A match there is certain to
//! be found if it has at most 512 bytes.
//!
//! # Memory
//!
//! A search keeps at most [`FOUND_BYTES_MAX`] of hits, two blocks of 256 KiB and, with a regular expression, 6 MiB. A ranked
//! one keeps up to 8,192 passages of 600 bytes and their places, 25 MiB at most; one of records, a record of 8 MiB.

mod hit;
mod lines;
mod matcher;
mod pattern;
mod ranges;
mod rank;
mod records;
mod scan;
mod words;

pub use hit::{FOUND_BYTES_MAX, Found, Hit, TEXT_BYTES_MAX};
use lines::LineSearch;
use matcher::Matcher;
pub use matcher::{COMPILED_BYTES_MAX, PIECE_BYTES, STATES_BYTES_MAX};
pub use pattern::NEST_MAX;
pub use ranges::{LineReader, Lines, ReadLine};
use rank::Ranker;
pub use records::{RECORD_BYTES_MAX, RecordSearcher};
use regex_syntax::hir::Hir;

use crate::regions::Regions;
pub use crate::regions::{LINE_BYTES_MAX, OVERLAP_BYTES};

/// Lines of context that a hit may have on either side.
pub const CONTEXT_LINES_MAX: u32 = 100;

/// Hits that one search may return.
pub const HITS_MAX: u32 = 10_000;

/// Bytes that a pattern may have, all its words together.
pub const PATTERN_BYTES_MAX: usize = 16 * 1024;

/// Words that a search may have.
pub const WORDS_MAX: usize = 32;

/// What to look for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Lines that have all of these, anywhere and in any order. Ranked: passages that have some of them, as whole words.
    Words(Vec<String>),
    /// Lines that match this regular expression, in the syntax of the crate `regex`. `^` and `$` are the ends of a line.
    Regex(String),
    /// Lines that contain this.
    Literal(String),
}

/// A search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// What to look for.
    pub pattern: Pattern,
    /// Upper and lower case are the same, of all letters.
    pub ignore_case: bool,
    /// Lines to show before each hit, up to [`CONTEXT_LINES_MAX`]. A line that was shown before is not shown again.
    pub before: u32,
    /// Lines to show after each hit, up to [`CONTEXT_LINES_MAX`].
    pub after: u32,
    /// Hits to return, up to [`HITS_MAX`].
    pub limit: u32,
    /// Hits to leave out before the first one.
    pub offset: u64,
    /// Only count: no hits are returned.
    pub count_only: bool,
    /// Order passages by how well they answer a question in plain words: BM25. The pattern has to be words.
    pub rank: bool,
}

/// Why a search cannot be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The regular expression is not one.
    #[error("{pattern:?} is not a regular expression: {reason}")]
    Invalid {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Every match would have a line break.
    #[error(
        "{0:?} matches only text with a line break; a search looks at one line at a time: use `after` to see the next ones"
    )]
    LineBreak(String),
    /// The compiled expression has too many bytes.
    #[error("the regular expression is too large: compiled, it has more than {limit} bytes; use smaller repetitions")]
    TooLarge {
        /// Bytes that it may have.
        limit: usize,
    },
    /// A count is over its limit.
    #[error("{what} is {value}, at most {limit} is possible")]
    OverLimit {
        /// What is counted.
        what: &'static str,
        /// The count.
        value: u64,
        /// Its limit.
        limit: u64,
    },
    /// There is nothing to look for.
    #[error("the pattern is empty")]
    Empty,
    /// Only words can be ranked.
    #[error("`rank` orders passages by words; a regular expression or a literal has none")]
    RankWithoutWords,
    /// Passages have no context.
    #[error("`rank` gives passages: `before` and `after` do not go with it")]
    RankWithContext,
    /// Records are not ranked.
    #[error("`rank` orders passages of a text, not strings of records; search without it")]
    RankOfRecords,
    /// No lines have these numbers.
    #[error("lines from {from} to {to} cannot be: lines are counted from 1, or back from -1, the last one")]
    LineNumbers {
        /// The first line.
        from: i64,
        /// The last line.
        to: i64,
    },
}

impl Search {
    fn check(&self) -> Result<(), SearchError> {
        let (bytes, words) = match &self.pattern {
            Pattern::Words(words) => (words.iter().map(String::len).sum(), words.len()),
            Pattern::Regex(text) | Pattern::Literal(text) => (text.len(), 1),
        };
        let limits = [
            ("`before`", u64::from(self.before), u64::from(CONTEXT_LINES_MAX)),
            ("`after`", u64::from(self.after), u64::from(CONTEXT_LINES_MAX)),
            ("`limit`", u64::from(self.limit), u64::from(HITS_MAX)),
            ("the size of the pattern in bytes", bytes as u64, PATTERN_BYTES_MAX as u64),
            ("the number of words", words as u64, WORDS_MAX as u64),
        ];
        match limits.into_iter().find(|(_, value, limit)| value > limit) {
            Some((what, value, limit)) => Err(SearchError::OverLimit { what, value, limit }),
            None if bytes == 0 => Err(SearchError::Empty),
            None if self.rank && self.before + self.after > 0 => Err(SearchError::RankWithContext),
            None => Ok(()),
        }
    }

    fn matcher(&self) -> Result<Matcher, SearchError> {
        let parse = |regex: &str| pattern::parse(regex, self.ignore_case);
        let literal = |text: &String| parse(&regex_syntax::escape(text));
        let expressions: Vec<Hir> = match &self.pattern {
            Pattern::Regex(regex) => vec![parse(regex)?],
            Pattern::Literal(text) => vec![literal(text)?],
            Pattern::Words(words) => {
                words.iter().filter(|word| !word.is_empty()).map(literal).collect::<Result<_, _>>()?
            }
        };
        Matcher::new(&expressions)
    }
}

/// Searches a text.
#[derive(Debug)]
pub struct Searcher {
    regions: Regions,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Lines(Box<LineSearch>),
    Ranked(Box<Ranker>),
}

impl Searcher {
    /// Prepares a search.
    ///
    /// # Errors
    ///
    /// If the pattern is invalid, too large, empty or does not go with `rank`, or a count is over its limit.
    pub fn new(search: &Search) -> Result<Self, SearchError> {
        search.check()?;
        let way = match &search.pattern {
            Pattern::Words(words) if search.rank => Way::Ranked(Box::new(Ranker::new(words, search)?)),
            _ if search.rank => return Err(SearchError::RankWithoutWords),
            _ => Way::Lines(Box::new(LineSearch::new(search.matcher()?, search))),
        };
        Ok(Self { regions: Regions::default(), way })
    }

    /// Searches the next slice of the text.
    pub fn push(&mut self, slice: &[u8]) {
        let Self { regions, way } = self;
        match way {
            Way::Lines(lines) => regions.push(slice, &mut |region| lines.region(region)),
            Way::Ranked(ranker) => regions.push(slice, &mut |region| ranker.region(region)),
        }
    }

    /// Ends the text.
    #[must_use]
    pub fn finish(mut self) -> Found {
        match self.way {
            Way::Lines(mut lines) => {
                self.regions.finish(&mut |region| lines.region(region));
                lines.finish()
            }
            Way::Ranked(mut ranker) => {
                self.regions.finish(&mut |region| ranker.region(region));
                ranker.finish()
            }
        }
    }
}
