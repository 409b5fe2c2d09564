//! Questions about an offload: typed queries, jq programs, searches, and lines by their numbers; SQL about several.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use lro_contract::query::Query;
use serde_json::value::RawValue;

use crate::{Answer, QuestionError};

/// Default of [`Budget::bytes`].
pub const ANSWER_BYTES_DEFAULT: u32 = 20_000;
/// Default of [`Budget::tokens`].
pub const ANSWER_TOKENS_DEFAULT: u32 = 8_000;
/// Maximum size of an answer in bytes, whatever the budget: half of what the sandbox lets cross in one call by default.
pub const ANSWER_BYTES_MAX: u32 = 4 << 20;
/// Maximum number of results that a query may ask for, and maximum size of a sample.
pub const RESULTS_MAX: u32 = 100_000;
/// Maximum number of hits that a search may ask for.
pub const HITS_MAX: u32 = 10_000;
/// Maximum number of tables of a query in SQL.
pub const TABLES_MAX: usize = 16;

/// Maximum size of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Maximum bytes of its lines.
    pub bytes: u32,
    /// Maximum estimated tokens of its lines.
    pub tokens: u32,
}

impl Budget {
    /// At most [`ANSWER_BYTES_MAX`].
    #[must_use]
    pub fn capped(self) -> Self {
        Self { bytes: self.bytes.min(ANSWER_BYTES_MAX), ..self }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: ANSWER_BYTES_DEFAULT, tokens: ANSWER_TOKENS_DEFAULT }
    }
}

/// A question about an offload.
#[derive(Clone, Debug)]
pub enum Question {
    /// A typed query.
    Query(Query),
    /// A jq program.
    Jq(Jq),
    /// A search.
    Search(Search),
    /// Lines of a text, or records, by their numbers.
    Lines(LineRange),
}

/// A jq program.
#[derive(Clone, Debug, Default)]
pub struct Jq {
    /// The program.
    pub filter: String,
    /// Whether to run it once over the array of all records instead of once per record.
    pub slurp: bool,
    /// Variables: `$name`, any JSON value.
    pub arguments: BTreeMap<String, Box<RawValue>>,
    /// Results to skip. With `slurp`, the results before and on the page together have at most [`ANSWER_BYTES_MAX`] bytes.
    pub offset: u64,
    /// Maximum number of results, from 1 to [`RESULTS_MAX`]. Default: as many as fit.
    pub limit: Option<u32>,
}

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

/// A query in SQL; `wit/lro-query.wit` describes the subset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sql {
    /// The query.
    pub query: String,
    /// Rows of its result to skip.
    pub offset: u64,
    /// Maximum number of rows, from 1 to [`RESULTS_MAX`]. Default: as many as fit.
    pub limit: Option<u32>,
}

impl Jq {
    /// Checks the limit.
    ///
    /// # Errors
    /// [`QuestionError::Invalid`].
    pub fn check_limit(&self) -> Result<(), QuestionError> {
        match self.limit {
            Some(limit) if limit == 0 || limit > RESULTS_MAX => {
                Err(QuestionError::Invalid(format!("limit: must be between 1 and {RESULTS_MAX}")))
            }
            _ => Ok(()),
        }
    }
}
