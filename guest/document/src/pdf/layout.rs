//! Joins strings at positions to lines.

use super::matrix::Point;
use crate::DocumentError;
use crate::output::Output;

/// A gap wider than this parts words. A share of the height of the text: spaces of narrow fonts have a fifth.
const GAP: f64 = 0.15;

/// Text that is this far above or below the last one is on another line; less is raised or lowered.
const LINE: f64 = 0.5;

/// Text that is this far below the last one begins a paragraph.
const PARAGRAPH: f64 = 1.9;

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

/// A string on the page.
pub(super) struct Shown<'a> {
    pub(super) text: &'a str,
    /// Where it begins, and where the next one would.
    pub(super) start: Point,
    pub(super) end: Point,
    /// Where it reads to: of length 1.
    pub(super) direction: Point,
    /// Height of the font.
    pub(super) height: f64,
}

/// Writes the text of pages.
pub(super) struct Layout {
    output: Output,
    /// Where the last string of the page ended, and how high it was.
    last: Option<(Point, f64)>,
    has_text: bool,
}

impl Layout {
    pub(super) fn new(output: Output) -> Self {
        Self { output, last: None, has_text: false }
    }

    pub(super) fn begin_page(&mut self, number: u32) -> Result<(), DocumentError> {
        self.last = None;
        self.output.push(&format!("# Page {number}\n\n"))
    }

    pub(super) fn end_page(&mut self) -> Result<(), DocumentError> {
        if self.last.is_some() { self.output.push("\n\n") } else { Ok(()) }
    }

    pub(super) fn show(&mut self, shown: &Shown<'_>) -> Result<(), DocumentError> {
        let text = plain(shown.text);
        if text.is_empty() || self.last.is_none() && text.trim().is_empty() {
            return Ok(());
        }
        if let Some((end, height)) = self.last {
            let (x, y) = (shown.start.x - end.x, shown.start.y - end.y);
            let along = x * shown.direction.x + y * shown.direction.y;
            let across = (x * shown.direction.y - y * shown.direction.x).abs();
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
        self.output.push(&text)
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
