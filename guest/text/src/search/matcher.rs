//! Finds the next matching line of a region: a scanner looks for literals, a regular expression checks their lines.

use std::ops::Range;

use memchr::{memchr, memrchr};
use regex_automata::Input;
use regex_automata::meta::{Cache, Regex};
use regex_syntax::hir::Hir;

use super::SearchError;
use super::pattern::{self, Literals};
use super::scan::{Many, Pair};
use crate::regions::{LINE_BYTES_MAX, Region};

/// Bytes that a compiled expression may have. `\w{50}` has half of it.
pub const COMPILED_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of the states that the matching of an expression keeps. With more states, it forgets some, or goes on without.
pub const STATES_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of lines that are checked before it is clear whether looking for literals pays: with literals in most lines, the
/// expression alone is faster.
const CHECKED_BYTES_MIN: u64 = 1024 * 1024;

/// Bytes of a piece of a line longer than [`LINE_BYTES_MAX`], in which all terms have to be.
pub const PIECE_BYTES: usize = 4 * 1024;

/// Finds lines that have all of its terms.
#[derive(Debug)]
pub(crate) struct Matcher {
    /// Says where to look.
    first: Term,
    /// What the line has to have, too.
    others: Vec<Term>,
}

/// One expression.
#[derive(Debug)]
struct Term {
    scanner: Option<Scanner>,
    /// Missing if each place that the scanner finds is a match.
    regex: Option<Compiled>,
    /// Bytes that the scanner has passed, and those of them that the expression checked.
    passed: u64,
    checked: u64,
}

#[derive(Debug)]
struct Compiled {
    regex: Regex,
    cache: Cache,
}

#[derive(Debug)]
enum Scanner {
    Pair(Pair),
    Many(Many),
}

/// A match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Match {
    pub(crate) found: Range<usize>,
    /// The line, or the piece of a long line, with its line break.
    pub(crate) line: Range<usize>,
    /// Whether it is a piece.
    pub(crate) is_long: bool,
    /// Where the next match may begin.
    pub(crate) next: usize,
}

impl Match {
    fn new(region: Region<'_>, found: Range<usize>) -> Self {
        let around = line_around(region, found.start);
        let (is_long, line) = (around.is_long, around.piece(found.start));
        // Where nothing is a match, every place of a long line is one.
        let next = if is_long && !found.is_empty() { found.end } else { line.end };
        Self { found, line, is_long, next }
    }
}

impl Matcher {
    /// A matcher for lines that match all of `expressions`.
    pub(crate) fn new(expressions: &[Hir]) -> Result<Self, SearchError> {
        let mut terms = expressions.iter().map(Term::new).collect::<Result<Vec<_>, _>>()?;
        // The longest literal is in the fewest lines.
        let first = (0..terms.len()).max_by_key(|&index| terms.get(index).map_or(0, Term::rarity));
        let first = first.map(|index| terms.swap_remove(index)).ok_or(SearchError::Empty)?;
        Ok(Self { first, others: terms })
    }

    /// Whether a text may have a match: false is certain.
    pub(crate) fn may_match(&self, text: &[u8]) -> bool {
        self.first.scanner.as_ref().is_none_or(|scanner| scanner.find(text, 0).is_some())
    }

    /// The first line from `at` on that matches.
    pub(crate) fn find(&mut self, region: Region<'_>, mut at: usize) -> Option<Match> {
        let Self { first, others } = self;
        loop {
            let found = first.find(region, at)?;
            if others.is_empty() {
                return Some(found);
            }
            at = found.line.end;
            if others.iter_mut().all(|term| term.is_in(region, &found.line)) {
                return Some(Match { next: at, ..found });
            }
        }
    }
}

impl Term {
    fn new(hir: &Hir) -> Result<Self, SearchError> {
        let literals = pattern::literals(hir);
        let exact = literals.as_ref().is_some_and(|literals| literals.exact);
        let regex = if exact { None } else { Some(Compiled::new(hir)?) };
        Ok(Self { scanner: literals.map(Scanner::new), regex, passed: 0, checked: 0 })
    }

    fn rarity(&self) -> usize {
        match &self.scanner {
            Some(Scanner::Pair(pair)) => 1 + pair.len(),
            Some(Scanner::Many(_)) => 1,
            None => 0,
        }
    }

    fn find(&mut self, region: Region<'_>, mut at: usize) -> Option<Match> {
        // No line begins at the end, where an expression may still match nothing.
        while at < region.bytes.len() {
            let Some(scanner) = &self.scanner else {
                let found = self.regex.as_mut()?.find(region.bytes, at..region.bytes.len())?;
                return Self::given(region, found);
            };
            let place = scanner.find(region.bytes, at)?;
            let Some(regex) = &mut self.regex else { return Self::given(region, place) };
            let line = line_around(region, place.start).range;
            let start = line.start.max(at);
            self.passed += (line.end - at) as u64;
            self.checked += line.len() as u64;
            if self.checked > CHECKED_BYTES_MIN && self.checked * 2 > self.passed {
                self.scanner = None;
            }
            match regex.find(region.bytes, start..line.end) {
                Some(found) if found.start < line.end.min(region.last_start()) => {
                    return Some(Match::new(region, found));
                }
                _ => at = line.end,
            }
        }
        None
    }

    /// The match, unless it begins where the next region begins, or behind the last line.
    fn given(region: Region<'_>, found: Range<usize>) -> Option<Match> {
        let ends_line = region.bytes.last().is_none_or(|&byte| matches!(byte, b'\n' | b'\r'));
        let behind = found.start == region.bytes.len() && ends_line;
        let deferred = region.open && found.start >= region.last_start();
        (!behind && !deferred).then(|| Match::new(region, found))
    }

    fn is_in(&mut self, region: Region<'_>, line: &Range<usize>) -> bool {
        let text = region.bytes.get(..line.end).unwrap_or_default();
        let region = Region { bytes: text, open: false, ..region };
        self.find(region, line.start.max(region.given)).is_some()
    }
}

impl Scanner {
    fn new(literals: Literals) -> Self {
        match literals.texts.as_slice() {
            [literal] => Self::Pair(Pair::new(literal, literals.ignore_case)),
            several => Self::Many(Many::new(several, literals.ignore_case)),
        }
    }

    #[inline]
    fn find(&self, text: &[u8], at: usize) -> Option<Range<usize>> {
        match self {
            Self::Pair(pair) => pair.find(text, at).map(|start| start..start + pair.len()),
            Self::Many(many) => many.find(text, at).map(|(start, length)| start..start + length),
        }
    }
}

impl Compiled {
    fn new(hir: &Hir) -> Result<Self, SearchError> {
        let config = Regex::config()
            .auto_prefilter(false)
            .utf8_empty(false)
            .nfa_size_limit(Some(COMPILED_BYTES_MAX))
            .hybrid_cache_capacity(STATES_BYTES_MAX)
            .which_captures(regex_automata::nfa::thompson::WhichCaptures::Implicit);
        let regex =
            Regex::builder().configure(config).build_from_hir(hir).map_err(|error| match error.size_limit() {
                Some(limit) => SearchError::TooLarge { limit },
                None => SearchError::Invalid { pattern: hir.to_string(), reason: error.to_string() },
            })?;
        let cache = regex.create_cache();
        Ok(Self { regex, cache })
    }

    fn find(&mut self, text: &[u8], span: Range<usize>) -> Option<Range<usize>> {
        self.regex.search_with(&mut self.cache, &Input::new(text).span(span)).map(|found| found.range())
    }
}

/// A line with its line break, as far as it is in the region.
struct Line {
    range: Range<usize>,
    /// It is longer than [`LINE_BYTES_MAX`].
    is_long: bool,
}

impl Line {
    /// The line, or the piece around `at` if it is long.
    fn piece(self, at: usize) -> Range<usize> {
        if !self.is_long {
            return self.range;
        }
        let start = self.range.start + (at - self.range.start) / PIECE_BYTES * PIECE_BYTES;
        start..(start + PIECE_BYTES).min(self.range.end)
    }
}

/// The line around `at`.
fn line_around(region: Region<'_>, at: usize) -> Line {
    let (before, after) = region.bytes.split_at(at.min(region.bytes.len()));
    let start = memrchr(b'\n', before).map_or(0, |index| index + 1);
    let end = memchr(b'\n', after).map_or(region.bytes.len(), |index| at + index + 1);
    let goes_on = start == 0 && region.given > 0 || end == region.bytes.len() && region.open;
    Line { range: start..end, is_long: goes_on || end - start > LINE_BYTES_MAX }
}

/// Whether a line of a region is longer than [`LINE_BYTES_MAX`].
pub(crate) fn has_long_line(region: Region<'_>) -> bool {
    // Such a line covers one of these chunks.
    const CHUNK_BYTES: usize = LINE_BYTES_MAX / 2;
    let mut chunks = (0..).step_by(CHUNK_BYTES).zip(region.bytes.chunks(CHUNK_BYTES));
    region.open || chunks.any(|(at, chunk)| memchr(b'\n', chunk).is_none() && line_around(region, at).is_long)
}
