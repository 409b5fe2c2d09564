//! What a pattern means, and which literals every match of it has.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look};

use super::SearchError;
use super::scan::frequency;

/// Groups inside groups that a regular expression may have: it is taken apart recursively.
pub const NEST_MAX: u32 = 100;

/// Literals that are looked for at once. With more, nearly every line has one of them.
const LITERALS_MAX: usize = 32;

/// Letters outside of ASCII that are `k` and `s` in another case.
const KELVIN: char = '\u{212A}';
const LONG_S: char = '\u{17F}';

/// Literals of which every matching line has at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Literals {
    pub(crate) texts: Vec<Vec<u8>>,
    pub(crate) ignore_case: bool,
    /// Whether each place of a literal is a match, too.
    pub(crate) exact: bool,
}

/// Parses a regular expression that is matched line by line: `^` and `$` are the ends of a line, and nothing matches a line
/// break.
///
/// Ignoring case, the Kelvin sign is not a `k` and the long s is not an `s`, unlike in Unicode, unless the pattern has one of
/// them: each letter of a literal then has two spellings.
pub(crate) fn parse(regex: &str, ignore_case: bool) -> Result<Hir, SearchError> {
    let hir = ParserBuilder::new()
        .multi_line(true)
        .crlf(true)
        .case_insensitive(ignore_case)
        .nest_limit(NEST_MAX)
        .build()
        .parse(regex)
        .map_err(|error| SearchError::Invalid { pattern: regex.into(), reason: reason(&error) })?;
    let folds_signs = regex.contains([KELVIN, LONG_S]);
    within_line(hir, folds_signs).ok_or_else(|| SearchError::LineBreak(regex.into()))
}

/// What the parser says, without the picture of the pattern.
fn reason(error: &regex_syntax::Error) -> String {
    match error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        other => other.to_string(),
    }
}

/// The expression without line breaks, and with the ends of the text being the ends of a line; nothing if a match would
/// have a line break.
fn within_line(hir: Hir, folds_signs: bool) -> Option<Hir> {
    let within = |hir| within_line(hir, folds_signs);
    let all = |parts: Vec<Hir>| parts.into_iter().map(within).collect::<Option<Vec<_>>>();
    Some(match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) if literal.0.contains(&b'\n') => return None,
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(without_line_break(class, folds_signs)?),
        HirKind::Look(Look::Start) => Hir::look(Look::StartCRLF),
        HirKind::Look(Look::End) => Hir::look(Look::EndCRLF),
        HirKind::Look(look) => Hir::look(look),
        HirKind::Repetition(mut repetition) => {
            repetition.sub = Box::new(within(*repetition.sub)?);
            Hir::repetition(repetition)
        }
        HirKind::Capture(capture) => within(*capture.sub)?,
        HirKind::Concat(parts) => Hir::concat(all(parts)?),
        HirKind::Alternation(parts) => Hir::alternation(all(parts)?),
    })
}

fn without_line_break(class: Class, folds_signs: bool) -> Option<Class> {
    match class {
        Class::Unicode(mut class) => {
            let letters: Vec<char> = class.iter().filter(|range| range.len() == 1).map(|range| range.start()).collect();
            let sign = match *letters.as_slice() {
                ['K', 'k', KELVIN] if !folds_signs => Some(KELVIN),
                ['S', 's', LONG_S] if !folds_signs => Some(LONG_S),
                _ => None,
            };
            let without = std::iter::once('\n').chain(sign).map(|letter| ClassUnicodeRange::new(letter, letter));
            class.difference(&ClassUnicode::new(without));
            (!class.ranges().is_empty()).then_some(Class::Unicode(class))
        }
        Class::Bytes(mut class) => {
            class.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            (!class.ranges().is_empty()).then_some(Class::Bytes(class))
        }
    }
}

/// The literals by which to look for a parsed expression; nothing if it has none.
pub(crate) fn literals(hir: &Hir) -> Option<Literals> {
    let required = required(hir)?;
    let ignore_case = required.iter().any(|run| run.folded);
    let texts: Vec<_> = required.iter().map(|run| run.bytes.clone()).collect();
    // The scanner ignores the case of all letters, or of none.
    let exact = required.iter().all(|run| run.exact && !(ignore_case && run.has_case));
    Some(Literals { texts, ignore_case, exact })
}

/// Bytes that follow each other in every match.
#[derive(Clone, Debug, Default)]
struct Run {
    /// Letters of either case are lower case.
    bytes: Vec<u8>,
    /// Some letters may be of either case.
    folded: bool,
    /// Some letters may not.
    has_case: bool,
    /// The run is the whole expression.
    exact: bool,
}

impl Run {
    /// How much it is worth to look for this: short and frequent texts are found in most lines.
    fn worth(&self) -> u32 {
        let mut rare: Vec<_> = self.bytes.iter().map(|&byte| u32::from(u8::MAX - frequency(byte))).collect();
        rare.sort_unstable_by(|left, right| right.cmp(left));
        200 * self.bytes.len().min(4) as u32 + rare.iter().take(2).sum::<u32>()
    }
}

/// Runs of which every match has at least one; the best such choice.
fn required(hir: &Hir) -> Option<Vec<Run>> {
    match hir.kind() {
        HirKind::Literal(_) | HirKind::Class(_) => {
            let mut run = Run { exact: true, ..Run::default() };
            extend(&mut run, hir).then(|| vec![run])
        }
        HirKind::Repetition(repetition) if repetition.min > 0 => {
            let runs = required(&repetition.sub)?;
            Some(runs.into_iter().map(|run| Run { exact: false, ..run }).collect())
        }
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Concat(parts) => best_of(parts),
        HirKind::Alternation(parts) => {
            let runs = parts.iter().map(required).collect::<Option<Vec<_>>>()?.concat();
            (runs.len() <= LITERALS_MAX).then_some(runs)
        }
        HirKind::Empty | HirKind::Look(_) | HirKind::Repetition(_) => None,
    }
}

/// Appends what an expression matches to a run, if that is one text, but for the case of a letter.
fn extend(run: &mut Run, hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Literal(literal) => {
            run.has_case |= literal.0.iter().any(u8::is_ascii_alphabetic);
            run.bytes.extend_from_slice(&literal.0);
            true
        }
        HirKind::Class(class) => {
            let letter = either_case(class);
            run.bytes.extend(letter);
            run.folded |= letter.is_some();
            letter.is_some()
        }
        _ => false,
    }
}

/// The letter in lower case, if a class is one ASCII letter of either case.
fn either_case(class: &Class) -> Option<u8> {
    let letters: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
        Class::Bytes(class) => class.iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    match *letters.as_slice() {
        [(upper, upper_end), (lower, lower_end)] if upper == upper_end && lower == lower_end => {
            let lower = u8::try_from(lower).ok().filter(u8::is_ascii_lowercase)?;
            (upper == u32::from(lower.to_ascii_uppercase())).then_some(lower)
        }
        _ => None,
    }
}

fn best_of(parts: &[Hir]) -> Option<Vec<Run>> {
    let mut choices = Vec::new();
    let mut run = Run { exact: true, ..Run::default() };
    for part in parts {
        if !extend(&mut run, part) {
            let next = Run::default();
            choices.push(vec![Run { exact: false, ..std::mem::replace(&mut run, next) }]);
            choices
                .extend(required(part).map(|runs| runs.into_iter().map(|run| Run { exact: false, ..run }).collect()));
        }
    }
    choices.push(vec![run]);
    choices.retain(|runs: &Vec<Run>| runs.iter().all(|run| !run.bytes.is_empty()));
    let worth = |runs: &Vec<Run>| runs.iter().map(Run::worth).min().unwrap_or_default() / (1 + runs.len() as u32 / 8);
    choices.into_iter().max_by_key(worth)
}
