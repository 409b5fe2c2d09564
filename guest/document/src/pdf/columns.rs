//! The order in which the text of a page is read.
//!
//! It is that in which it was drawn, but on a page with two columns of prose whose lines were drawn across both: there, the
//! left column comes before the right one. Lines over the whole width part such columns. What could be a table stays as it
//! was drawn: one with more columns, with short cells, or with cells of differing lengths.

use std::mem::take;
use std::ops::Range;

use super::layout::{Shown, is_on_one_line};

/// Fewest lines across both columns.
const LINES_MIN: usize = 6;

/// Narrowest gutter, as a share of the height of the text: spaces have less than half of it.
const GUTTER: f64 = 1.0;

/// Fewest characters of a line of prose in a column.
const CHARACTERS_MIN: usize = 20;

/// A line that is as long as this share of the longest one fills its column.
const FILLED: f64 = 0.8;

/// What holds for most lines holds for this share of them.
const MOST: f64 = 0.6;

/// Consecutive strings at one height.
struct Line {
    strings: Range<usize>,
    left: f64,
    right: f64,
    /// The wide gap in it, if there is one only.
    gap: Option<(f64, f64)>,
}

/// Where a line is.
#[derive(PartialEq)]
enum Place {
    InBoth,
    Left,
    Right,
    Across,
}

/// Puts strings that were drawn one after another in the order in which they are read.
pub(super) fn in_reading_order(strings: &mut Vec<Shown>) {
    let lines = lines(strings);
    let Some(gutter) = gutter(&lines) else { return };
    let both: Vec<&Line> = lines.iter().filter(|line| line.place(gutter) == Place::InBoth).collect();
    if !is_prose(strings, &both, gutter) {
        return;
    }
    let mut unread = take(strings).into_iter();
    let mut right = Vec::new();
    for line in &lines {
        let place = line.place(gutter);
        if place == Place::Across {
            strings.append(&mut right);
        }
        for string in unread.by_ref().take(line.strings.len()) {
            let is_right = place == Place::Right || place == Place::InBoth && string.start.x >= gutter;
            if is_right { right.push(string) } else { strings.push(string) }
        }
    }
    strings.append(&mut right);
}

fn lines(strings: &[Shown]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut start = 0;
    for end in 1..=strings.len() {
        let is_end = match (strings.get(end - 1), strings.get(end)) {
            (Some(last), Some(next)) => !is_on_one_line(last, next),
            _ => true,
        };
        if is_end {
            lines.push(Line::new(strings, start..end));
            start = end;
        }
    }
    lines
}

/// Where most lines have a wide gap.
fn gutter(lines: &[Line]) -> Option<f64> {
    // Where gaps begin and end. Of those at one place, an end comes first.
    let gaps = lines.iter().filter_map(|line| line.gap);
    let mut edges: Vec<(f64, i32)> = gaps.flat_map(|(left, right)| [(left, 1), (right, -1)]).collect();
    edges.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    let (mut open, mut most, mut found) = (0, 0, None);
    for pair in edges.windows(2) {
        let [(from, change), (to, _)] = *pair else { continue };
        open += change;
        if open > most {
            (most, found) = (open, Some(f64::midpoint(from, to)));
        }
    }
    found.filter(|_| most as usize >= LINES_MIN && is_most(most as usize, lines.len()))
}

/// Whether most of these lines are prose on both sides of the gutter.
fn is_prose(strings: &[Shown], both: &[&Line], gutter: f64) -> bool {
    let (left, right): (Vec<_>, Vec<_>) = both.iter().filter_map(|line| line.sides()).unzip();
    let is_long = |line: &&&Line| {
        let (mut left, mut right) = (0, 0);
        for string in strings.get(line.strings.clone()).unwrap_or_default() {
            *(if string.start.x >= gutter { &mut right } else { &mut left }) += string.text.chars().count();
        }
        left >= CHARACTERS_MIN && right >= CHARACTERS_MIN
    };
    is_filled(&left) && is_filled(&right) && is_most(both.iter().filter(is_long).count(), both.len())
}

/// Whether most lines of a column, each from one place to another, go to its end.
fn is_filled(column: &[(f64, f64)]) -> bool {
    let start = column.iter().map(|line| line.0).fold(f64::INFINITY, f64::min);
    let end = column.iter().map(|line| line.1).fold(f64::NEG_INFINITY, f64::max);
    let filled = column.iter().filter(|line| line.1 - start >= FILLED * (end - start));
    is_most(filled.count(), column.len())
}

fn is_most(some: usize, all: usize) -> bool {
    some as f64 >= MOST * all as f64
}

impl Line {
    fn new(strings: &[Shown], range: Range<usize>) -> Self {
        let (mut left, mut right) = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut gap, mut gaps) = (None, 0);
        let shown = strings.get(range.clone()).unwrap_or_default();
        for string in shown.iter().filter(|string| !string.text.trim().is_empty()) {
            if string.start.x - right > GUTTER * string.height && right.is_finite() {
                (gap, gaps) = (Some((right, string.start.x)), gaps + 1);
            }
            left = left.min(string.start.x);
            right = right.max(string.end.x);
        }
        let is_level = shown.iter().all(Shown::is_level);
        Self { strings: range, left, right, gap: gap.filter(|_| gaps == 1 && is_level) }
    }

    /// What is before the gap, and what is behind it.
    fn sides(&self) -> Option<((f64, f64), (f64, f64))> {
        self.gap.map(|gap| ((self.left, gap.0), (gap.1, self.right)))
    }

    fn place(&self, gutter: f64) -> Place {
        match self.gap {
            Some((left, right)) if left <= gutter && gutter <= right => Place::InBoth,
            _ if self.right <= gutter => Place::Left,
            _ if self.left >= gutter => Place::Right,
            _ => Place::Across,
        }
    }
}
