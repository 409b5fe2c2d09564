//! Finds the cells of secret columns in the tables of a text, whatever draws the table.

use std::ops::Range;

use lro_json::masks::{BLOCK, equal};

use crate::columns::Columns;
use crate::find::Match;
use crate::html::Html;
use crate::literals::Literals;
use crate::rules::Rules;

/// Follows the tables of a text, piece by piece.
#[derive(Clone, Debug)]
pub(crate) struct Cells {
    columns: Columns,
    html: Html,
    literals: Literals,
}

impl Cells {
    /// At the beginning of a text.
    pub(crate) fn new() -> Self {
        Self { columns: Columns::new(), html: Html::default(), literals: Literals::default() }
    }

    /// The cells of secret columns in a part of a text, by where they begin. The part begins where the last one ended; it
    /// ends with a line, or inside a long one. What follows it is only looked at.
    pub(crate) fn find(&mut self, text: &str, part: Range<usize>, rules: &Rules, found: &mut Vec<Match<'static>>) {
        self.columns.cells(text, part.clone(), rules, found);
        let lines = found.len();
        self.html.cells(text, part.clone(), rules, found);
        self.literals.cells(text, part, rules, found);
        if found.len() > lines {
            found.sort_by_key(|cell| cell.range.start);
        }
    }

    /// Whether a text that is whole may have a table: so many of these bytes. The others are only read.
    pub(crate) fn may_have(bytes: &[u8], length: usize) -> bool {
        (0..length).step_by(BLOCK).any(|start| {
            let rest = &bytes[start..];
            let padded;
            let block = match rest.first_chunk() {
                Some(block) => block,
                None => {
                    padded = std::array::from_fn(|index| rest.get(index).copied().unwrap_or_default());
                    &padded
                }
            };
            let found = equal(block, b'<') | equal(block, b'[') | equal(block, b'\n');
            (found.trailing_zeros() as usize) < length - start
        })
    }
}
