//! Takes spaces around delimiters away before cells are read.

use crate::Blanks;

/// Most spaces in a row that are held until it shows whether the cell goes on, in bytes: 4 KiB. Of more, the first ones are
/// part of the cell.
const HELD_MAX: usize = 4 * 1024;

/// Follows the cells of a text, wherever it is cut.
#[derive(Debug)]
pub(crate) struct Spaced {
    delimiter: u8,
    blanks: Blanks,
    place: Place,
    /// Spaces that are part of the cell if it goes on.
    held: usize,
    /// What is left of a piece, kept for its memory.
    left: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first byte of a cell.
    Start,
    /// In a cell without quotes, or behind one in quotes.
    Plain,
    /// In quotes.
    Quoted,
    /// After a quote in quotes: the closing one, or the first of two.
    Quote,
    /// After a carriage return, which a line feed has to follow.
    Return,
}

impl Spaced {
    pub(crate) fn new(delimiter: u8, blanks: Blanks) -> Self {
        Self { delimiter, blanks, place: Place::Start, held: 0, left: Vec::new() }
    }

    /// The next piece of the text without the spaces that are not part of cells.
    pub(crate) fn without_blanks(&mut self, text: &[u8]) -> &[u8] {
        self.left.clear();
        text.iter().for_each(|&byte| self.byte(byte));
        &self.left
    }

    fn byte(&mut self, byte: u8) {
        self.place = match (self.place, byte) {
            (Place::Start, b' ') if self.blanks.leading => return,
            (Place::Quoted, b'"') => Place::Quote,
            (Place::Quoted, _) => Place::Quoted,
            (Place::Start | Place::Quote, b'"') => Place::Quoted,
            (Place::Start | Place::Plain | Place::Quote, b' ') if self.blanks.trailing => {
                self.place = Place::Plain;
                return self.hold();
            }
            (_, b'\n') => self.end_cell(),
            (_, delimiter) if delimiter == self.delimiter => self.end_cell(),
            (_, b'\r') => {
                self.held = 0;
                Place::Return
            }
            _ => Place::Plain,
        };
        self.left.extend(std::iter::repeat_n(b' ', std::mem::take(&mut self.held)));
        self.left.push(byte);
    }

    fn end_cell(&mut self) -> Place {
        self.held = 0;
        Place::Start
    }

    fn hold(&mut self) {
        if self.held == HELD_MAX {
            self.left.push(b' ');
        } else {
            self.held += 1;
        }
    }
}
