//! The flags of `lro extract` that search.

use clap::{Args, value_parser};
use lro_host::extract::{HITS_MAX, LineRange, Pattern, Question, Search};

/// Most lines of context, as in `wit/lro-query.wit`.
const CONTEXT_MAX: i64 = 100;

/// Flags that search, or show lines by their numbers.
#[derive(Args)]
pub(crate) struct SearchArguments {
    /// Find this text: in lines of texts and in all strings of records, of one section or of all
    #[arg(long, value_name = "TEXT", group = "whole", allow_hyphen_values = true, help_heading = "Search")]
    pub(crate) search: Option<String>,
    /// The text is a regular expression
    #[arg(long, requires = "search", conflicts_with_all = ["words", "rank"], help_heading = "Search")]
    regex: bool,
    /// The text is words that stand in one line, in any order
    #[arg(long, requires = "search", help_heading = "Search")]
    words: bool,
    /// The text is a question in plain words: order passages by how well they answer it
    #[arg(long, requires = "search", help_heading = "Search")]
    rank: bool,
    /// Show this many lines before each hit
    #[arg(long, value_name = "NUMBER", requires = "search", value_parser = context(), help_heading = "Search")]
    before: Option<u32>,
    /// Show this many lines after each hit
    #[arg(long, value_name = "NUMBER", requires = "search", value_parser = context(), help_heading = "Search")]
    after: Option<u32>,
    /// Show this many lines before and after each hit
    #[arg(
        short = 'C',
        long,
        value_name = "NUMBER",
        requires = "search",
        conflicts_with_all = ["before", "after"],
        value_parser = context(),
        help_heading = "Search"
    )]
    context: Option<u32>,
    /// Show lines or records by number: FROM:TO, from 1; negative numbers count from the end
    #[arg(
        long,
        value_name = "FROM:TO",
        group = "whole",
        conflicts_with_all = ["ignore_case", "count", "offset", "limit"],
        allow_hyphen_values = true,
        help_heading = "Search"
    )]
    lines: Option<LineRange>,
}

fn context() -> clap::builder::RangedI64ValueParser<u32> {
    value_parser!(u32).range(0..=CONTEXT_MAX)
}

impl SearchArguments {
    /// The question, if these flags ask one; other flags fill in the rest of a search.
    pub(crate) fn question(&self, fill: impl FnOnce(Search) -> Search) -> Option<Question> {
        if let Some(lines) = self.lines {
            return Some(Question::Lines(lines));
        }
        let text = self.search.as_deref()?;
        let pattern = match () {
            () if self.regex => Pattern::Regex(text.to_owned()),
            () if self.words || self.rank => Pattern::words(text),
            () => Pattern::Literal(text.to_owned()),
        };
        let before = self.before.or(self.context).unwrap_or(0);
        let after = self.after.or(self.context).unwrap_or(0);
        Some(Question::Search(fill(Search { before, after, rank: self.rank, ..Search::new(pattern) })))
    }
}

/// Raises the default limit, for hits that are offloaded. A ranked search has a lower maximum, which depends on its offset.
pub(crate) fn unlimited(search: Search) -> Search {
    if search.rank { search } else { Search { limit: Some(search.limit.unwrap_or(HITS_MAX)), ..search } }
}
