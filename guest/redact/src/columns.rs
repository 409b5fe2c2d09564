//! Finds the cells of secret columns in the tables of a text: CSV and its relatives, tables of Markdown and of command
//! lines.
//!
//! The first line of a text may be the header of delimited or aligned cells, also below one that names the delimiter; the line
//! before a rule is one of a table with rules. What a header names stays; cells below the name of a secret field are found.

use std::ops::Range;

use lro_text::{Form, Hints, named_delimiter, recognize, without_mark};

use crate::delimited::Row;
use crate::find::{MATCH_BYTES_MAX, Match};
use crate::named::not_break;
use crate::rules::Rules;

/// Delimiters of cells. The first that makes the most cells of a header counts.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// Longest name of a column that makes a header of the first line, in characters. Longer ones are sentences.
const NAME_CHARACTERS_MAX: usize = 64;

/// Spaces between the names of aligned columns, at least.
const GAP: usize = 2;

/// Boundaries of cells in tables with rules, and what rules consist of beside them.
const BOUNDARIES: [char; 4] = ['|', '│', '┃', '║'];
const RULE: [char; 4] = ['-', '=', ':', ' '];

/// Follows the tables of a text, piece by piece.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    table: Table,
    /// Whether nothing of the text was read, except for empty lines and the one that names the delimiter.
    at_start: bool,
    /// The delimiter that the first line names.
    delimiter: Option<u8>,
}

#[derive(Clone, Debug)]
enum Table {
    None,
    /// The rest of the text is delimited cells.
    Delimited(Row),
    /// Cells between boundaries, which stand at these characters when the rule draws them.
    Bounded {
        secret: Vec<usize>,
        boundaries: Vec<usize>,
    },
    /// Cells that begin at these characters.
    Aligned {
        secret: Vec<usize>,
        starts: Vec<usize>,
    },
    /// Words, as many as there are names.
    Padded {
        secret: Vec<usize>,
        columns: usize,
    },
    /// psql's blocks of a line for each value, and whether the last name was secret.
    Blocks {
        is_secret: bool,
    },
}

impl Columns {
    pub(crate) fn new() -> Self {
        Self { table: Table::None, at_start: true, delimiter: None }
    }

    /// The cells of secret columns in a part of a text, in order. The part begins where the last one ended; it ends with a
    /// line, or inside a line too long to be one of a table with rules. What follows it is only looked at.
    pub(crate) fn cells(&mut self, text: &str, part: Range<usize>, rules: &Rules, found: &mut Vec<Match<'static>>) {
        let mut at = part.start;
        while let Some(rest) = text.get(at..part.end).filter(|rest| !rest.is_empty()) {
            if let Table::Delimited(row) = &mut self.table {
                row.read(rest, at, rules, found);
                return;
            }
            let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
            let line = rest.get(..length).unwrap_or_default();
            let after = text.get(at + length..).unwrap_or_default();
            let line = line.trim_end_matches(['\n', '\r']);
            let is_first = self.at_start && !line.trim().is_empty();
            self.line(line, after.lines().next().unwrap_or_default(), at, rules, found);
            if is_first && matches!(self.table, Table::None) {
                self.table = padded_header(line, text.get(at..).unwrap_or_default(), rules).unwrap_or(Table::None);
            }
            at += length;
        }
    }

    fn line(&mut self, line: &str, next: &str, at: usize, rules: &Rules, found: &mut Vec<Match<'static>>) {
        let is_empty = line.trim().is_empty();
        match &self.table {
            Table::Bounded { .. } if is_empty || !line.contains(BOUNDARIES) && !is_rule(line) => {
                self.table = Table::None;
            }
            Table::Aligned { .. } | Table::Padded { .. } | Table::Blocks { .. } if is_empty => self.table = Table::None,
            Table::Bounded { .. } | Table::Aligned { .. } if is_rule(line) => return,
            Table::Bounded { secret, boundaries } => {
                let cells = bounded(line, boundaries);
                let width = |cell: &Range<usize>| (!boundaries.is_empty()).then(|| chars(line, cell));
                for cell in secret.iter().filter_map(|index| cells.get(*index)) {
                    found.extend(replaced(line, cell, width(cell), rules).map(|cell| cell.moved(at)));
                }
                return;
            }
            Table::Aligned { secret, starts } => {
                for &index in secret {
                    let (cell, width) = aligned(line, starts, index);
                    found.extend(replaced(line, &cell, width, rules).map(|cell| cell.moved(at)));
                }
                return;
            }
            Table::Padded { secret, columns } => {
                let words = words(line, *columns);
                for cell in secret.iter().filter_map(|index| words.get(*index)) {
                    found.extend(replaced(line, cell, Some(0), rules).map(|cell| cell.moved(at)));
                }
                return;
            }
            Table::Blocks { is_secret } => {
                if let Some((name, value)) = line.split_once('|') {
                    // A value goes on below an empty name.
                    let is_secret = if name.trim().is_empty() { *is_secret } else { rules.is_secret(name.trim()) };
                    let cell = line.len() - value.len()..line.len();
                    found.extend(replaced(line, &cell, None, rules).filter(|_| is_secret).map(|cell| cell.moved(at)));
                    self.table = Table::Blocks { is_secret };
                    return;
                }
                self.table = Table::None;
            }
            Table::None | Table::Delimited(_) => {}
        }
        if line.starts_with("-[ RECORD ") {
            self.table = Table::Blocks { is_secret: false };
            return;
        }
        let is_first = self.at_start && !is_empty;
        if is_first && self.delimiter.is_none() {
            self.delimiter = named_delimiter(without_mark(line));
            if self.delimiter.is_some() {
                return;
            }
        }
        self.at_start &= is_empty;
        self.table = ruled_header(line, next, rules)
            .or_else(|| if is_first { first_header(line, next, self.delimiter, rules) } else { None })
            .unwrap_or(Table::None);
    }
}

/// The table whose names are in a line, if the next line is a rule.
fn ruled_header(line: &str, next: &str, rules: &Rules) -> Option<Table> {
    if !is_rule(next) || is_rule(line) {
        return None;
    }
    if !next.contains(|character| !RULE.contains(&character)) {
        let starts = starts(next, 1);
        let secret = secret(starts.len(), rules, |index| line.get(aligned(line, &starts, index).0));
        return secret.filter(|_| starts.len() > 1).map(|secret| Table::Aligned { secret, starts });
    }
    // Those of Markdown stand anywhere.
    let is_drawn = next.contains(|character| !RULE.contains(&character) && character != '|');
    let is_boundary = |character: char| !RULE.contains(&character) && !matches!(character, '─' | '━' | '═');
    let places = next.chars().enumerate().filter(|(_, character)| is_drawn && is_boundary(*character));
    let boundaries: Vec<usize> = places.map(|(place, _)| place).collect();
    let cells = bounded(line, &boundaries);
    let secret = secret(cells.len(), rules, |index| line.get(cells.get(index)?.clone()))?;
    Some(Table::Bounded { secret, boundaries })
}

/// The table whose names are in the first line, or in the one behind that which names the delimiter.
fn first_header(line: &str, next: &str, named: Option<u8>, rules: &Rules) -> Option<Table> {
    let line = without_mark(line);
    let delimiter = |delimiter: u8| {
        let cells: Vec<&str> = line.split(char::from(delimiter)).collect();
        (cells.len() > 1 && cells.iter().all(|cell| is_name(bare(cell)))).then_some((delimiter, cells))
    };
    let delimiters = named.as_ref().map_or(&DELIMITERS[..], std::slice::from_ref);
    let best = delimiters.iter().copied().rev().filter_map(delimiter).max_by_key(|(_, cells)| cells.len());
    if let Some((delimiter, cells)) = best {
        let secret = secret(cells.len(), rules, |index| cells.get(index).copied().map(bare))?;
        let has_blanks = cells.iter().skip(1).all(|cell| cell.starts_with(' '));
        // The cells of the header are read like the others, and none of them is secret.
        return Some(Table::Delimited(Row::new(delimiter, secret, has_blanks)));
    }
    let starts = starts(line, GAP);
    let cell = |index: usize| line.get(aligned(line, &starts, index).0).filter(|cell| is_name(cell.trim()));
    let secret = secret(starts.len(), rules, cell)?;
    (starts.len() > 1 && !next.trim().is_empty()).then_some(Table::Aligned { secret, starts })
}

/// The table of padded words whose names are in the first line of a text, when the text is recognized as one.
fn padded_header(line: &str, text: &str, rules: &Rules) -> Option<Table> {
    let names: Vec<&str> = line.split_whitespace().collect();
    let secret = secret(names.len(), rules, |index| names.get(index).copied())?;
    let view = text.get(..text.floor_char_boundary(MATCH_BYTES_MAX))?;
    match recognize(view, &Hints { complete: view.len() == text.len(), ..Hints::default() })? {
        Form::PaddedTable { columns } => Some(Table::Padded { secret, columns }),
        _ => None,
    }
}

/// The words of a line, the last of so many columns with all that follows it.
fn words(line: &str, columns: usize) -> Vec<Range<usize>> {
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    for word in line.split(' ') {
        let is_last = words.len() == columns;
        match words.last_mut() {
            Some(last) if is_last => last.end = at + word.len(),
            _ if word.is_empty() => {}
            _ => words.push(at..at + word.len()),
        }
        at += word.len() + 1;
    }
    words
}

/// The name in a cell of delimited cells.
fn bare(cell: &str) -> &str {
    cell.trim_matches(['"', ' '])
}

/// The indices of secret columns, if there are any.
fn secret<'a>(count: usize, rules: &Rules, name: impl Fn(usize) -> Option<&'a str>) -> Option<Vec<usize>> {
    let is_secret =
        |index: &usize| name(*index).is_some_and(|name| rules.is_secret(name.trim_matches([' ', '"', '*', '`'])));
    Some((0..count).filter(is_secret).collect()).filter(|secret: &Vec<usize>| !secret.is_empty())
}

/// Whether a cell may name a column; a missing name may, too.
fn is_name(cell: &str) -> bool {
    let begins = |first: char| first.is_alphabetic() || matches!(first, '_' | '#' | '%' | '$');
    cell.chars().next().is_none_or(begins) && cell.chars().count() <= NAME_CHARACTERS_MAX
}

/// Whether a line is a rule between the header and the rows of a table of several columns.
fn is_rule(line: &str) -> bool {
    let line = line.trim();
    let is_stroke = |character: char| matches!(character, '-' | '=' | '─' | '━' | '═');
    let is_drawing =
        |character: char| matches!(character, '\u{2500}'..='\u{257f}' | '|' | '+') || RULE.contains(&character);
    // Most lines of a text begin with something else.
    line.starts_with(is_drawing)
        && line.chars().all(is_drawing)
        && line.contains(is_stroke)
        && line.contains(|character| !is_stroke(character) && character != ':')
}

/// The cells of a line, between boundaries that nothing escapes. Of those, only the ones at certain characters count when
/// all of them are there.
fn bounded(line: &str, boundaries: &[usize]) -> Vec<Range<usize>> {
    let mut all = Vec::new();
    let (mut drawn, mut is_escaped) = (Vec::new(), false);
    for (place, (at, character)) in line.char_indices().enumerate() {
        if BOUNDARIES.contains(&character) && !is_escaped {
            all.push((at, character.len_utf8()));
            drawn.extend(boundaries.binary_search(&place).is_ok().then_some((at, character.len_utf8())));
        }
        is_escaped = character == '\\' && !is_escaped;
    }
    let ends = if !boundaries.is_empty() && drawn.len() == boundaries.len() { drawn } else { all };
    let mut from = 0;
    let mut cells: Vec<Range<usize>> = Vec::with_capacity(ends.len() + 1);
    for (end, length) in ends.into_iter().chain([(line.len(), 0)]) {
        cells.push(from..end);
        from = end + length;
    }
    // A line of Markdown may begin with a boundary or not.
    if boundaries.is_empty()
        && cells.len() > 1
        && cells.first().and_then(|first| line.get(first.clone())).is_some_and(|first| first.trim().is_empty())
    {
        cells.remove(0);
    }
    cells
}

/// The cell of a column that begins at a character, whole words, and the characters it may have: any number in the last.
fn aligned(line: &str, starts: &[usize], index: usize) -> (Range<usize>, Option<usize>) {
    let byte = |place: usize| line.char_indices().nth(place).map_or(line.len(), |(at, _)| at);
    let head = line.get(..starts.get(index).map_or(0, |start| byte(*start))).unwrap_or_default();
    let start = head.trim_end_matches(|character| character != ' ').len();
    let Some(&next) = starts.get(index + 1) else { return (start..line.len(), None) };
    let end = byte(next).max(start);
    // A word that reaches into the next column belongs to this one.
    let reaches = line.get(..end).is_some_and(|before| !before.is_empty() && !before.ends_with(' '));
    let rest = line.get(end..).unwrap_or_default();
    let end = if reaches { end + rest.find(' ').unwrap_or(rest.len()) } else { end };
    (start..end, Some(chars(line, &(start..end)).saturating_sub(GAP)))
}

/// Where words begin that at least so many spaces separate, in characters.
fn starts(line: &str, gap: usize) -> Vec<usize> {
    let (mut starts, mut spaces) = (Vec::new(), gap);
    for (place, character) in line.chars().enumerate() {
        if character == ' ' {
            spaces += 1;
        } else {
            starts.extend((spaces >= gap).then_some(place));
            spaces = 0;
        }
    }
    starts
}

fn chars(line: &str, range: &Range<usize>) -> usize {
    line.get(range.clone()).map_or(0, |text| text.chars().count())
}

/// The match of a cell without the spaces around it. Of at most `width` characters, it takes so many spaces along that what
/// follows stays in its place.
fn replaced(line: &str, cell: &Range<usize>, width: Option<usize>, rules: &Rules) -> Option<Match<'static>> {
    let text = line.get(cell.clone())?;
    let content = text.trim();
    let start = cell.start + text.len() - text.trim_start().len();
    let mut range = start..start + content.len();
    let width = width.map(|most| content.chars().count().max(rules.replacement.chars().count().min(most)));
    let mut missing = width.map_or(0, |width| width - content.chars().count());
    while missing > 0 && range.end < cell.end {
        range.end += 1;
        missing -= 1;
    }
    range.start = range.start.saturating_sub(missing).max(cell.start);
    (!content.is_empty()).then(|| Match { width, ..Match::new(range, not_break) })
}
