//! Finds the sections of a document by itself.

use crate::pointer;
use crate::scan::Scanner;
use crate::{Section, Shape, SyntaxError};

/// Bytes of the beginning of a document that [`survey`] looks at: 1 MiB.
pub const SURVEY_BYTES_MAX: usize = 1024 * 1024;

/// A closed container shorter than this (8 KiB of text) is never a section.
pub const SECTION_BYTES_MIN: usize = 8 * 1024;

/// Members from which on an object with values of one type is a table: 16.
pub const KEYED_MEMBERS_MIN: usize = 16;

/// Most sections that are found: 32.
pub const SECTIONS_MAX: usize = 32;

/// Finds the sections worth splitting in the beginning of a document (`complete` when `prefix` is all of it), outermost
/// first, in document order.
///
/// * An array at the root is a section, and so is any array with at least two elements in view. One with fewer is looked
///   into instead.
/// * An object with at least [`KEYED_MEMBERS_MIN`] members whose values all have the same type is a table:
///   [`Shape::Members`](crate::Shape::Members).
/// * Any other object is skeleton: its members are looked into.
/// * Closed containers shorter than [`SECTION_BYTES_MIN`] do not count, except an array at the root.
///
/// # Errors
///
/// What is wrong with the document in view. A cut `prefix` is no error unless `complete`.
pub fn survey(prefix: &str, complete: bool) -> Result<Vec<Section>, SyntaxError> {
    let text = prefix.as_bytes();
    let mut scanner = Scanner::new();
    let mut tree = Tree { open: Vec::new(), root: None };
    let mut start = 0;
    while start < text.len() {
        let block = scanner.block(text, start)?;
        let mut tokens = block.open | block.close | block.comma | block.string | block.scalar;
        while tokens != 0 {
            let bit = tokens.trailing_zeros();
            tree.token(text, start + bit as usize, block.key >> bit & 1 == 1);
            tokens &= tokens - 1;
        }
        start += block.length;
    }
    scanner.end(text);
    if complete {
        scanner.finish()?;
    }
    while !tree.open.is_empty() {
        tree.close(text.len(), false);
    }
    let mut sections = Vec::new();
    match tree.root {
        Some(root) if !root.object => sections.push(Section { pointer: String::new(), shape: Shape::Elements }),
        Some(root) => root.find(prefix, &mut String::new(), &mut sections),
        None => {}
    }
    Ok(sections)
}

/// The containers in view: those still open, and below them the ones that were large enough to remember.
struct Tree {
    open: Vec<Container>,
    root: Option<Container>,
}

/// What matters of one container.
struct Container {
    object: bool,
    start: usize,
    /// Where its own key begins in the text, or its index in an array.
    place: usize,
    /// Members or elements that are wholly in view.
    complete: usize,
    /// The type of the first value, as [`value_type`] tells it.
    value_type: u8,
    /// Whether all values have that type.
    uniform: bool,
    /// Whether the last value is a scalar whose end was not yet seen.
    in_scalar: bool,
    /// Where the last key begins.
    key: usize,
    /// Containers in it that are open or long.
    children: Vec<Self>,
}

impl Tree {
    fn token(&mut self, text: &[u8], index: usize, key: bool) {
        let byte = text.get(index).copied().unwrap_or_default();
        let innermost = self.open.last_mut();
        match (byte, innermost) {
            (b'"', Some(container)) if key => container.key = index,
            (b',', Some(container)) => container.end_scalar(),
            (b'{' | b'[', innermost) => {
                let place = innermost.map_or(0, |container| {
                    container.begin_value(byte);
                    if container.object { container.key } else { container.complete }
                });
                self.open.push(Container::new(byte == b'{', index, place));
            }
            (b'}' | b']', Some(container)) => {
                container.end_scalar();
                self.close(index + 1, true);
            }
            (_, Some(container)) => {
                container.begin_value(byte);
                container.in_scalar = true;
            }
            (_, None) => {}
        }
    }

    /// Takes the innermost container off; `ended` by its bracket, or by the end of the view.
    fn close(&mut self, end: usize, ended: bool) {
        let Some(container) = self.open.pop() else {
            return;
        };
        let long = !ended || end - container.start >= SECTION_BYTES_MIN;
        match self.open.last_mut() {
            Some(parent) => {
                parent.complete += usize::from(ended);
                if long {
                    parent.children.push(container);
                }
            }
            None if long || !container.object => self.root = Some(container),
            None => {}
        }
    }
}

impl Container {
    fn new(object: bool, start: usize, place: usize) -> Self {
        let children = Vec::new();
        Self { object, start, place, complete: 0, value_type: 0, uniform: true, in_scalar: false, key: 0, children }
    }

    fn begin_value(&mut self, first: u8) {
        let value_type = value_type(first);
        if self.value_type == 0 {
            self.value_type = value_type;
        }
        self.uniform &= self.value_type == value_type;
    }

    fn end_scalar(&mut self) {
        self.complete += usize::from(std::mem::take(&mut self.in_scalar));
    }

    /// Adds the sections in this container, whose own pointer is given.
    fn find(&self, text: &str, pointer: &mut String, sections: &mut Vec<Section>) {
        let shape = match self.object {
            true if self.complete >= KEYED_MEMBERS_MIN && self.uniform => Some(Shape::Members),
            false if self.complete >= 2 => Some(Shape::Elements),
            _ => None,
        };
        if let Some(shape) = shape {
            if sections.len() < SECTIONS_MAX {
                sections.push(Section { pointer: pointer.clone(), shape });
            }
            return;
        }
        for child in &self.children {
            let length = pointer.len();
            if self.object {
                let key = text.get(child.place..).unwrap_or_default();
                let end = pointer::string_length(key.as_bytes()).saturating_sub(1);
                pointer::push_key(pointer, key.get(1..end).unwrap_or_default());
            } else {
                pointer.push('/');
                pointer.push_str(&child.place.to_string());
            }
            child.find(text, pointer, sections);
            pointer.truncate(length);
        }
    }
}

/// One byte for each JSON type, told from the first byte of a value.
fn value_type(first: u8) -> u8 {
    match first {
        b'-' | b'0'..=b'9' => b'0',
        b't' | b'f' => b't',
        other => other,
    }
}
