//! Records that come value by value, from a reader that knows their columns: neither tokens nor keys are looked for.

use std::ops::Range;

use super::keys::canonical;
use super::node::{NONE, Node};
use super::number::Short;
use super::{PROPERTY_BYTES_MAX, Profile};
use crate::lines::Form;

impl Profile {
    /// A profile of records that follow as [values](Profile::add_value) and [ends](Profile::end_record). It equals that of their
    /// lines.
    #[must_use]
    pub fn of_rows() -> Self {
        let mut profile = Self::default();
        profile.begin(Form::Elements);
        profile
    }

    /// Adds the value of a column to the current record: a string, number, boolean or null, as compact JSON at a range of
    /// `text`. The values of a record come in the order of the columns, counted from 0, without gaps; only the last ones may be
    /// missing. `key` is the key as a JSON string, the same each time, and another one for each column.
    ///
    /// It is fast where 16 bytes follow the value in `text`, whatever they are.
    #[inline(always)]
    pub fn add_value(&mut self, column: usize, key: &[u8], text: &[u8], value: Range<usize>) {
        let Some(node) = self.column(column, key) else { return };
        match text.get(value.start) {
            Some(b'"') => node.add_string(text, value.start, value.end),
            Some(&first @ b'a'..=b'z') => node.add_literal(first),
            _ => match Short::read(text, value.start).filter(|short| short.length == value.len()) {
                Some(short) => node.add_short(short, text, value.start),
                None => node.add_number(text, value.start, value.end),
            },
        }
    }

    /// As [`Profile::add_value`], for a string longer than [`DISTINCT_BYTES_MAX`](crate::DISTINCT_BYTES_MAX).
    pub fn add_long_string(&mut self, column: usize, key: &[u8]) {
        if let Some(node) = self.column(column, key) {
            node.types.strings += 1;
            node.counter.give_up();
        }
    }

    /// As [`Profile::add_value`], for an array of so many strings, at least one.
    pub fn add_strings(&mut self, column: usize, key: &[u8], count: u64) {
        let Some(node) = self.column(column, key) else { return };
        node.types.arrays += 1;
        if node.items == NONE {
            let items = self.nodes.len() as u32;
            self.nodes.push(Node::new(b"", 0, true));
            self.nodes.get_mut(column + 1).into_iter().for_each(|node| node.items = items);
        }
        let items = self.nodes.get(column + 1).map_or(NONE, |node| node.items);
        if let Some(items) = self.nodes.get_mut(items as usize) {
            items.types.strings += count;
        }
    }

    /// Ends a record.
    #[inline(always)]
    pub fn end_record(&mut self) {
        if let Some(record) = self.nodes.first_mut() {
            record.types.objects += 1;
        }
    }

    /// The node of a column that the current record has; nothing beyond the limits. It follows the node of the record.
    #[inline(always)]
    fn column(&mut self, column: usize, key: &[u8]) -> Option<&mut Node> {
        if column + 1 >= self.nodes.len() && !self.add_column(key) {
            return None;
        }
        let node = self.nodes.get_mut(column + 1)?;
        node.present += 1;
        Some(node)
    }

    /// Adds the next column; `false` when a limit is reached, after which no column counts any more.
    #[cold]
    fn add_column(&mut self, key: &[u8]) -> bool {
        let next = self.nodes.len() as u32;
        let Some(record) = self.nodes.first_mut() else { return false };
        let inside = key.get(1..).unwrap_or_default();
        let key = if inside.contains(&b'\\') { canonical(inside) } else { inside.to_vec() };
        if record.unlisted || !record.can_add_property() || key.len() > PROPERTY_BYTES_MAX + 1 {
            record.unlisted = true;
            return false;
        }
        let order = record.properties.len() as u32;
        record.properties.push(next);
        self.nodes.push(Node::new(&key, order, false));
        true
    }
}
