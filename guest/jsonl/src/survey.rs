//! Finds the sections of a document automatically.

use lro_json::masks::closing;
use lro_json::{Scanner, SyntaxError};

use crate::container::{Container, Search, Segment};
use crate::{KEY_BYTES_MAX, Section};

/// Bytes at the beginning of a document that are worth a survey: 4 MiB. Sections rarely begin later, and a survey costs
/// about as much as splitting.
pub const SURVEY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Shortest closed container, in bytes of text, that can be a section: 8 KiB.
pub const SECTION_BYTES_MIN: usize = 8 * 1024;

/// Fewest members of an object with values of one type that make it a table: 16.
pub const KEYED_MEMBERS_MIN: usize = 16;

/// Most sections of a survey: 32.
pub const SECTIONS_MAX: usize = 32;

/// Shortest string, in bytes of JSON, that is a text whatever else the document has: 8 KiB.
pub const TEXT_BYTES_MIN: usize = 8 * 1024;

/// Shortest string, in bytes of JSON, that is a text when it is at least half of the document: 1 KiB.
pub const ONLY_TEXT_BYTES_MIN: usize = 1024;

/// Most elements of an array that is searched for texts because a string is at least half of it, as in
/// `[{"type": "text", "text": "…"}]`: 3. The elements of a longer one are records, with all their strings.
pub const WRAPPER_ELEMENTS_MAX: usize = 3;

/// Finds the sections worth splitting at the beginning of a document, outermost first, in document order.
///
/// * An array at the root is a section, and so is any array with at least two elements in view. An array with fewer is
///   searched for sections instead.
/// * An object with at least [`KEYED_MEMBERS_MIN`] members whose values all have the same type is a table:
///   [`Shape::Members`](crate::Shape::Members).
/// * Any other object is skeleton: its members are searched.
/// * Closed containers shorter than [`SECTION_BYTES_MIN`] are skipped, except an array at the root.
///
/// [`Survey::finish`] finds sections alone. [`Survey::finish_with_texts`] finds strings as well that are texts of their own:
/// outside of sections, of at least [`TEXT_BYTES_MIN`] or half of the document. It searches an array of at most
/// [`WRAPPER_ELEMENTS_MAX`] elements, instead of finding it as a section, when half of it is such a string.
///
/// Memory: the open containers, the large ones and the long strings, with their keys; none of the text.
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

/// What a survey found that is worth a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// The sections.
    pub sections: Vec<Section>,
    /// The strings outside of them that are texts of their own.
    pub texts: Vec<LongString>,
}

/// A string worth a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongString {
    /// Its JSON Pointer.
    pub pointer: String,
    /// Its length in bytes of JSON, as far as it is in view.
    pub bytes: usize,
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
    /// The first [`SyntaxError`] of the document, outside of the records of sections: most of these are not validated.
    pub fn push(&mut self, slice: &str) -> Result<(), SyntaxError> {
        // A key is complete in its first bytes; the string behind it may be long.
        if let Some(carried) = self.carried.as_mut().filter(|carried| carried.len() <= KEY_BYTES_MAX) {
            carried.push_str(&slice[..slice.floor_char_boundary(KEY_BYTES_MAX)]);
        }
        let text = slice.as_bytes();
        self.scanner.begin(text)?;
        let mut start = 0;
        while start < text.len() {
            let block = if self.is_decided() {
                let Some(block) = self.scanner.skip(text, &mut start, &mut self.skipped)? else { break };
                block
            } else {
                self.scanner.block(text, start)?
            };
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

    /// Whether what follows changes nothing of what is found, if it is valid: at the root is an array of records.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.open.first().is_some_and(Container::is_decided)
    }

    /// The sections found; `complete` when the slices were the whole document.
    ///
    /// # Errors
    ///
    /// When `complete` and the document ends too early.
    pub fn finish(self, complete: bool) -> Result<Vec<Section>, SyntaxError> {
        Ok(self.search(complete, false)?.sections)
    }

    /// The sections and the texts found; `complete` when the slices were the whole document.
    ///
    /// # Errors
    ///
    /// When `complete` and the document ends too early.
    pub fn finish_with_texts(self, complete: bool) -> Result<Surveyed, SyntaxError> {
        self.search(complete, true)
    }

    fn search(mut self, complete: bool, texts: bool) -> Result<Surveyed, SyntaxError> {
        if complete {
            self.scanner.finish()?;
        }
        while !self.open.is_empty() {
            self.close("", 0, false);
        }
        let search = Search::new(texts.then_some(self.offset));
        Ok(self.root.map_or_else(Surveyed::default, |root| search.of(&root)))
    }

    /// Whether the innermost container is a section whatever follows in it.
    #[inline(always)]
    fn is_decided(&self) -> bool {
        self.open.last().is_some_and(Container::is_decided)
    }

    /// Skips the content of the innermost container, given the remaining brackets of a block. Returns the mask of the
    /// positions from its closing bracket on.
    #[inline(always)]
    fn skip(&mut self, open: u64, close: u64) -> u64 {
        closing(open, close, &mut self.skipped).map_or(0, |bit| u64::MAX << bit)
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
            (b',', Some(container)) => container.end_scalar(slice, self.offset + index, &mut self.carried),
            (b'{' | b'[', innermost) => {
                let segment = innermost.map_or(Segment::Index(0), |container| {
                    container.begin_value(byte);
                    container.segment_of_value(&mut self.carried)
                });
                self.open.push(Container::new(byte == b'{', self.offset + index, segment));
            }
            (b'}' | b']', Some(container)) => {
                container.end_scalar(slice, self.offset + index, &mut self.carried);
                self.close(slice, index + 1, true);
            }
            (_, Some(container)) => {
                container.begin_value(byte);
                container.scalar = Some(self.offset + index);
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
        let end = self.offset + end;
        if !ended {
            container.cut_scalar(slice, end, &mut self.carried);
        }
        container.bytes = end - container.start;
        container.is_long = !ended || container.bytes >= SECTION_BYTES_MIN;
        match self.open.last_mut() {
            Some(parent) => {
                parent.complete += usize::from(ended);
                if container.is_long || container.longest > 0 {
                    container.segment.keep(slice);
                    parent.add(container);
                }
            }
            None => self.root = Some(container),
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
