//! Searches and ranges of lines.

use std::fmt;
use std::str::FromStr;

use super::{Answer, component};

/// Maximum number of hits that a search may ask for.
pub const HITS_MAX: u32 = 10_000;

/// A search of texts, line by line, and of records, in all their strings.
///
/// A result is a hit: `{"line": …, "text": …, "where": […], "before": […], "after": […]}`, without the members that are
/// empty; with `section` if several files are searched, and `score` if it ranks. See `wit/lro-query.wit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// What to look for.
    pub pattern: Pattern,
    /// Whether upper and lower case are the same.
    pub ignore_case: bool,
    /// Lines of a text to show before each hit, at most 100.
    pub before: u32,
    /// Lines of a text to show after each hit, at most 100.
    pub after: u32,
    /// Whether to order passages of texts by how well they answer a question in plain words.
    pub rank: bool,
    /// Whether to return only the number of hits.
    pub count: bool,
    /// Hits to skip.
    pub offset: u64,
    /// Maximum number of hits, from 1 to [`HITS_MAX`]. Default: 20.
    pub limit: Option<u32>,
}

/// What to look for: at most 16,384 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Lines or strings that have all of these words, at most 32. Ranked, passages that have some of them.
    Words(Vec<String>),
    /// Lines or strings that have this text.
    Literal(String),
    /// Lines or strings in which this regular expression matches somewhere.
    Regex(String),
}

impl Pattern {
    /// The words of a text, between its white space.
    pub fn words(text: &str) -> Self {
        Self::Words(text.split_whitespace().map(str::to_owned).collect())
    }
}

impl Search {
    /// A search without context that respects case.
    pub fn new(pattern: Pattern) -> Self {
        Self { pattern, ignore_case: false, before: 0, after: 0, rank: false, count: false, offset: 0, limit: None }
    }
}

/// Lines of a text, or records, both included, counted from 1; negative numbers count from the end, -1 is the last one.
///
/// Parses `10:40`, `-5:` to the last line, `:10` from the first one, and `7`. A result is `{"line": …, "text": …}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    /// The first line.
    pub first: i64,
    /// The last line.
    pub last: i64,
}

impl LineRange {
    /// The rest of the range behind the lines of an answer.
    #[must_use]
    pub fn behind(self, answer: &Answer) -> Self {
        let signed = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let first =
            if self.first < 0 { signed(answer.examined).saturating_add(self.first + 1).max(1) } else { self.first };
        Self { first: first.saturating_add(signed(answer.results)), ..self }
    }
}

impl FromStr for LineRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |text: &str, missing| match text.trim() {
            "" => Ok(missing),
            text => text.parse().map_err(|_| "expected FROM:TO with whole numbers, such as 10:40 or -5:"),
        };
        match text.split_once(':') {
            Some((first, last)) => Ok(Self { first: number(first, 1)?, last: number(last, -1)? }),
            None => number(text, 1).map(|line| Self { first: line, last: line }),
        }
    }
}

impl fmt::Display for LineRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.first, self.last)
    }
}

impl From<&Search> for component::Search {
    fn from(search: &Search) -> Self {
        let Search { pattern, ignore_case, before, after, rank, count, offset, limit } = search.clone();
        let pattern = match pattern {
            Pattern::Words(words) => component::Pattern::Words(words),
            Pattern::Literal(literal) => component::Pattern::Literal(literal),
            Pattern::Regex(regex) => component::Pattern::Regex(regex),
        };
        Self { pattern, ignore_case, before, after, rank, count, offset, limit }
    }
}

impl From<LineRange> for component::LineRange {
    fn from(LineRange { first, last }: LineRange) -> Self {
        Self { first, last }
    }
}
