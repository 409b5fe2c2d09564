//! Joins strings at positions to lines.

use super::columns;
use super::matrix::Point;
use crate::DocumentError;
use crate::output::Output;

/// A gap wider than this parts words. A share of the height of the text: spaces of narrow fonts have a fifth.
const GAP: f64 = 0.15;

/// Text that is this far above or below the last one is on another line; less is raised or lowered.
const LINE: f64 = 0.5;

/// Text that is this far below the last one begins a paragraph.
const PARAGRAPH: f64 = 1.9;

/// Text that rises less than this on its way is level.
const LEVEL: f64 = 0.01;

/// Characters that stand for several letters, so that words with them are found.
const LIGATURES: [(char, &str); 7] = [
    ('\u{fb00}', "ff"),
    ('\u{fb01}', "fi"),
    ('\u{fb02}', "fl"),
    ('\u{fb03}', "ffi"),
    ('\u{fb04}', "ffl"),
    ('\u{fb05}', "st"),
    ('\u{fb06}', "st"),
];

/// Most strings that are held until they are put in the order in which they are read; a page has a tenth. Of one with more,
/// so many are at a time.
const STRINGS_MAX: usize = 50_000;

/// A string on the page.
pub(super) struct Shown {
    pub(super) text: String,
    /// Where it begins, and where the next one would.
    pub(super) start: Point,
    pub(super) end: Point,
    /// Where it reads to: of length 1.
    pub(super) direction: Point,
    /// Height of the font.
    pub(super) height: f64,
}

impl Shown {
    /// Whether it reads from left to right.
    pub(super) fn is_level(&self) -> bool {
        self.direction.x > 0.0 && self.direction.y.abs() < LEVEL * self.direction.x
    }

    /// How far it begins behind a point in the direction it reads to, and how far beside.
    fn distances(&self, from: Point) -> (f64, f64) {
        let (x, y) = (self.start.x - from.x, self.start.y - from.y);
        (x * self.direction.x + y * self.direction.y, (x * self.direction.y - y * self.direction.x).abs())
    }
}

/// Whether a string is on the same line as the one drawn before it.
pub(super) fn is_on_one_line(last: &Shown, next: &Shown) -> bool {
    next.distances(last.end).1 <= LINE * last.height.max(next.height)
}

/// Writes the text of pages.
pub(super) struct Layout {
    output: Output,
    /// Strings that are not written yet, and their bytes.
    strings: Vec<Shown>,
    bytes: usize,
    /// Where the last string of the page ended, and how high it was.
    last: Option<(Point, f64)>,
    has_text: bool,
}

impl Layout {
    pub(super) fn new(output: Output) -> Self {
        Self { output, strings: Vec::new(), bytes: 0, last: None, has_text: false }
    }

    pub(super) fn begin_page(&mut self, number: u32) -> Result<(), DocumentError> {
        self.last = None;
        self.output.push(&format!("# Page {number}\n\n"))
    }

    pub(super) fn end_page(&mut self) -> Result<(), DocumentError> {
        self.write_all()?;
        if self.last.is_some() { self.output.push("\n\n") } else { Ok(()) }
    }

    pub(super) fn show(&mut self, mut shown: Shown) -> Result<(), DocumentError> {
        shown.text = plain(&shown.text);
        let is_first = self.last.is_none() && self.strings.is_empty();
        if shown.text.is_empty() || is_first && shown.text.trim().is_empty() {
            return Ok(());
        }
        self.bytes += shown.text.len();
        self.output.check(self.bytes)?;
        self.strings.push(shown);
        if self.strings.len() == STRINGS_MAX { self.write_all() } else { Ok(()) }
    }

    /// Writes the strings that were shown, in the order in which they are read.
    fn write_all(&mut self) -> Result<(), DocumentError> {
        let mut strings = std::mem::take(&mut self.strings);
        self.bytes = 0;
        columns::in_reading_order(&mut strings);
        strings.iter().try_for_each(|shown| self.write(shown))
    }

    fn write(&mut self, shown: &Shown) -> Result<(), DocumentError> {
        let Shown { text, .. } = shown;
        if let Some((end, height)) = self.last {
            let (along, across) = shown.distances(end);
            let height = height.max(shown.height);
            let is_parted = self.output.ends_with(' ') || text.starts_with(' ');
            if across > LINE * height {
                self.output.push(if across > PARAGRAPH * height { "\n\n" } else { "\n" })?;
            } else if !is_parted && (along > GAP * height || along < -height) {
                self.output.push(" ")?;
            }
        }
        self.has_text |= !text.trim().is_empty();
        self.last = Some((shown.end, shown.height));
        self.output.push(text)
    }

    pub(super) fn finish(self) -> Result<String, DocumentError> {
        if self.has_text { Ok(self.output.finish()) } else { Err(DocumentError::Empty) }
    }
}

/// The text with letters for ligatures, and a space for any other white space and for control characters.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match LIGATURES.iter().find(|(ligature, _)| *ligature == character) {
            Some((_, letters)) => plain.push_str(letters),
            None if character.is_whitespace() || character.is_control() => plain.push(' '),
            None => plain.push(character),
        }
    }
    plain
}
