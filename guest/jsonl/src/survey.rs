//! Finds the sections of a document automatically.

use lro_json::{Scanner, SyntaxError, pointer};

use crate::lines::string_length;
use crate::{KEY_BYTES_MAX, Section, Shape};

/// Bytes at the beginning of a document that are worth a survey: 4 MiB. Sections rarely begin later, and a survey costs
/// about as much as splitting.
pub const SURVEY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Shortest closed container, in bytes of text, that can be a section: 8 KiB.
pub const SECTION_BYTES_MIN: usize = 8 * 1024;

/// Fewest members of an object with values of one type that make it a table: 16.
pub const KEYED_MEMBERS_MIN: usize = 16;

/// Most sections of a survey: 32.
pub const SECTIONS_MAX: usize = 32;

/// Finds the sections worth splitting at the beginning of a document, outermost first, in document order.
///
/// * An array at the root is a section, and so is any array with at least two elements in view. An array with fewer is
///   searched for sections instead.
/// * An object with at least [`KEYED_MEMBERS_MIN`] members whose values all have the same type is a table:
///   [`Shape::Members`](crate::Shape::Members).
/// * Any other object is skeleton: its members are searched.
/// * Closed containers shorter than [`SECTION_BYTES_MIN`] are skipped, except an array at the root.
///
/// Memory: the open containers and the large ones, with their keys; none of the text.
#[derive(Debug)]
pub struct Survey {
    scanner: Scanner,
    open: Vec<Container>,
    root: Option<Container>,
    /// Bytes of the previous slices.
    offset: usize,
    /// The last key of the previous slice and the text after it, when its value did not begin there.
    carried: Option<String>,
    /// Open containers inside an array whose content is skipped.
    skipped: usize,
}

/// A container that may be or contain a section.
#[derive(Debug)]
struct Container {
    object: bool,
    /// Offset in the document.
    start: usize,
    segment: Segment,
    /// Members or elements that are complete in view.
    complete: usize,
    /// The type of the first value, see [`value_type`].
    value_type: u8,
    /// Whether all values have that type.
    uniform: bool,
    /// Whether the last value is a scalar whose end was not yet seen.
    in_scalar: bool,
    /// Index of the last key, when it begins in this slice.
    key: Option<usize>,
    /// Containers in it that are open or long.
    children: Vec<Self>,
}

/// The last segment of the pointer of a container.
#[derive(Debug)]
enum Segment {
    /// Index in an array; 0 at the root.
    Index(usize),
    /// A key that begins at this index of the slice.
    KeyAt(usize),
    /// A key, without quotes and with its escapes.
    Key(String),
}

/// Surveys a document in memory, or its beginning; `complete` when `prefix` is the whole document.
///
/// # Errors
///
/// The first [`SyntaxError`] of `prefix`. A document that ends too early is an error only when `complete`.
pub fn survey(prefix: &str, complete: bool) -> Result<Vec<Section>, SyntaxError> {
    let mut survey = Survey::new();
    survey.push(prefix)?;
    survey.finish(complete)
}

impl Default for Survey {
    fn default() -> Self {
        Self::new()
    }
}

impl Survey {
    /// A survey at the beginning of a document.
    #[must_use]
    pub fn new() -> Self {
        Self { scanner: Scanner::new(), open: Vec::new(), root: None, offset: 0, carried: None, skipped: 0 }
    }

    /// Reads the next slice, cut between any two characters. The survey must not be used after an error.
    ///
    /// # Errors
    ///
    /// The first [`SyntaxError`] of the document.
    pub fn push(&mut self, slice: &str) -> Result<(), SyntaxError> {
        if let Some(carried) = &mut self.carried {
            carried.push_str(&slice[..slice.floor_char_boundary(KEY_BYTES_MAX)]);
        }
        let text = slice.as_bytes();
        self.scanner.begin(text)?;
        let mut start = 0;
        while start < text.len() {
            let block = self.scanner.block(text, start)?;
            let mut tokens = block.open | block.close | block.comma | block.string | block.scalar;
            loop {
                if self.is_decided() {
                    tokens &= self.skip(block.open & tokens, block.close & tokens);
                }
                if tokens == 0 {
                    break;
                }
                let bit = tokens.trailing_zeros();
                self.token(slice, start + bit as usize, block.key >> bit & 1 == 1);
                tokens &= tokens - 1;
            }
            start += block.length;
        }
        self.scanner.end(text);
        self.end_slice(slice);
        Ok(())
    }

    /// The sections found; `complete` when the slices were the whole document.
    ///
    /// # Errors
    ///
    /// When `complete` and the document ends too early.
    pub fn finish(mut self, complete: bool) -> Result<Vec<Section>, SyntaxError> {
        if complete {
            self.scanner.finish()?;
        }
        while !self.open.is_empty() {
            self.close("", 0, false);
        }
        let mut sections = Vec::new();
        match self.root {
            Some(root) if !root.object => sections.push(Section { pointer: String::new(), shape: Shape::Elements }),
            Some(root) => root.find(&mut String::new(), &mut sections),
            None => {}
        }
        Ok(sections)
    }

    /// Whether the innermost container is a section whatever follows in it.
    #[inline(always)]
    fn is_decided(&self) -> bool {
        self.open.last().is_some_and(Container::is_list)
    }

    /// Skips the content of the innermost container, given the remaining brackets of a block. Returns the mask of the
    /// positions from its closing bracket on.
    #[inline(always)]
    fn skip(&mut self, open: u64, close: u64) -> u64 {
        let closing = close.count_ones() as usize;
        if closing <= self.skipped {
            self.skipped = self.skipped + open.count_ones() as usize - closing;
            return 0;
        }
        let mut brackets = open | close;
        while brackets != 0 {
            let bracket = brackets & brackets.wrapping_neg();
            if open & bracket != 0 {
                self.skipped += 1;
            } else if self.skipped > 0 {
                self.skipped -= 1;
            } else {
                return !(bracket - 1);
            }
            brackets &= brackets - 1;
        }
        0
    }

    #[inline(always)]
    fn token(&mut self, slice: &str, index: usize, key: bool) {
        let byte = slice.as_bytes()[index];
        let innermost = self.open.last_mut();
        match (byte, innermost) {
            (b'"', Some(container)) if key => {
                container.key = Some(index);
                self.carried = None;
            }
            (b',', Some(container)) => container.end_scalar(),
            (b'{' | b'[', innermost) => {
                let segment = innermost.map_or(Segment::Index(0), |container| {
                    container.begin_value(byte);
                    match (container.object, container.key) {
                        (false, _) => Segment::Index(container.complete),
                        (true, Some(key)) => Segment::KeyAt(key),
                        (true, None) => Segment::Key(key_of(&self.carried.take().unwrap_or_default())),
                    }
                });
                self.open.push(Container::new(byte == b'{', self.offset + index, segment));
            }
            (b'}' | b']', Some(container)) => {
                container.end_scalar();
                self.close(slice, index + 1, true);
            }
            (_, Some(container)) => {
                container.begin_value(byte);
                container.in_scalar = true;
            }
            (_, None) => {}
        }
    }

    /// Closes the innermost container: `ended` by its bracket, or else by the end of the view.
    #[inline(always)]
    fn close(&mut self, slice: &str, end: usize, ended: bool) {
        let Some(mut container) = self.open.pop() else {
            return;
        };
        let long = !ended || self.offset + end - container.start >= SECTION_BYTES_MIN;
        match self.open.last_mut() {
            Some(parent) => {
                parent.complete += usize::from(ended);
                if long {
                    container.segment.keep(slice);
                    parent.children.push(container);
                }
            }
            None if long || !container.object => self.root = Some(container),
            None => {}
        }
    }

    /// Copies the keys that are still needed out of the slice.
    fn end_slice(&mut self, slice: &str) {
        for container in &mut self.open {
            container.segment.keep(slice);
        }
        let last_key = self.open.last_mut().and_then(|container| container.key.take());
        for container in &mut self.open {
            container.key = None;
        }
        if let Some(key) = last_key {
            let rest = &slice[key..];
            self.carried = Some(rest[..rest.floor_char_boundary(KEY_BYTES_MAX)].to_owned());
        }
        self.offset += slice.len();
    }
}

impl Segment {
    /// Copies the key out of the slice.
    fn keep(&mut self, slice: &str) {
        if let Self::KeyAt(start) = *self {
            *self = Self::Key(key_of(&slice[start..]));
        }
    }
}

/// The text between the quotes of the string at the beginning of `text`.
fn key_of(text: &str) -> String {
    let end = string_length(text.as_bytes()).saturating_sub(1);
    text.get(1..end).unwrap_or_default().to_owned()
}

impl Container {
    fn new(object: bool, start: usize, segment: Segment) -> Self {
        let children = Vec::new();
        Self {
            object,
            start,
            segment,
            complete: 0,
            value_type: 0,
            uniform: true,
            in_scalar: false,
            key: None,
            children,
        }
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

    /// Whether it is an array of at least two elements, which makes it a section.
    fn is_list(&self) -> bool {
        !self.object && self.complete >= 2
    }

    /// Adds the sections in this container, whose pointer is given.
    fn find(&self, pointer: &mut String, sections: &mut Vec<Section>) {
        let shape = match self.object {
            true if self.complete >= KEYED_MEMBERS_MIN && self.uniform => Some(Shape::Members),
            false if self.is_list() => Some(Shape::Elements),
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
            match &child.segment {
                Segment::Key(key) => pointer::push_json_step(pointer, key),
                Segment::Index(index) => {
                    pointer.push('/');
                    pointer.push_str(&index.to_string());
                }
                // `Segment::keep` was called when the child closed.
                Segment::KeyAt(_) => {}
            }
            child.find(pointer, sections);
            pointer.truncate(length);
        }
    }
}

/// One byte for each JSON type, derived from the first byte of a value.
fn value_type(first: u8) -> u8 {
    match first {
        b'-' | b'0'..=b'9' => b'0',
        b't' | b'f' => b't',
        other => other,
    }
}
