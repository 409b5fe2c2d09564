//! The containers that a survey has seen, and which of them are sections.

use lro_json::pointer;

use crate::lines::string_length;
use crate::survey::{
    KEYED_MEMBERS_MIN, LongString, ONLY_TEXT_BYTES_MIN, SECTIONS_MAX, Surveyed, TEXT_BYTES_MIN, WRAPPER_ELEMENTS_MAX,
};
use crate::{Section, Shape};

/// A container that may be or contain a section.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) object: bool,
    /// Offset in the document.
    pub(crate) start: usize,
    /// Bytes in view, and whether they are enough for a section; known when it is closed.
    pub(crate) bytes: usize,
    pub(crate) is_long: bool,
    pub(crate) segment: Segment,
    /// Members or elements that are complete in view.
    pub(crate) complete: usize,
    /// The type of the first value, see [`value_type`].
    value_type: u8,
    /// Whether all values have that type.
    uniform: bool,
    /// Whether the last value is a string.
    in_string: bool,
    /// Offset in the document of the last value, when it is a scalar whose end was not yet seen.
    pub(crate) scalar: Option<usize>,
    /// Index of the last key, when it begins in this slice.
    pub(crate) key: Option<usize>,
    /// Containers in it that are long, or have a long string.
    children: Vec<Self>,
    /// Strings in it that are long, with their bytes.
    strings: Vec<(Segment, usize)>,
    /// Bytes of the longest string in it, or in its children but those that are long lists; 0 without a long one.
    pub(crate) longest: usize,
}

/// The last segment of the pointer of a value.
#[derive(Debug)]
pub(crate) enum Segment {
    /// Index in an array; 0 at the root.
    Index(usize),
    /// A key that begins at this index of the slice.
    KeyAt(usize),
    /// A key, without quotes and with its escapes.
    Key(String),
}

impl Segment {
    /// Copies the key out of the slice.
    pub(crate) fn keep(&mut self, slice: &str) {
        if let Self::KeyAt(start) = *self {
            *self = Self::Key(key_of(&slice[start..]));
        }
    }

    fn push(&self, pointer: &mut String) {
        match self {
            Self::Key(key) => pointer::push_json_step(pointer, key),
            Self::Index(index) => {
                pointer.push('/');
                pointer.push_str(&index.to_string());
            }
            // `Segment::keep` was called when the value ended.
            Self::KeyAt(_) => {}
        }
    }
}

/// The text between the quotes of the string at the beginning of `text`.
pub(crate) fn key_of(text: &str) -> String {
    let end = string_length(text.as_bytes()).saturating_sub(1);
    text.get(1..end).unwrap_or_default().to_owned()
}

impl Container {
    pub(crate) fn new(object: bool, start: usize, segment: Segment) -> Self {
        Self {
            object,
            start,
            bytes: 0,
            is_long: false,
            segment,
            complete: 0,
            value_type: 0,
            uniform: true,
            in_string: false,
            scalar: None,
            key: None,
            children: Vec::new(),
            strings: Vec::new(),
            longest: 0,
        }
    }

    pub(crate) fn begin_value(&mut self, first: u8) {
        let value_type = value_type(first);
        if self.value_type == 0 {
            self.value_type = value_type;
        }
        self.uniform &= self.value_type == value_type;
        self.in_string = first == b'"';
    }

    /// Ends the last value, if it is a scalar, before this offset in the document. `carried` is the last key, if it began
    /// in another slice.
    #[inline(always)]
    pub(crate) fn end_scalar(&mut self, slice: &str, end: usize, carried: &mut Option<String>) {
        if self.scalar.is_some_and(|start| end - start >= ONLY_TEXT_BYTES_MIN) {
            self.cut_scalar(slice, end, carried);
        }
        self.complete += usize::from(self.scalar.take().is_some());
    }

    /// Ends the view at this offset; a long string that it cuts counts.
    #[cold]
    pub(crate) fn cut_scalar(&mut self, slice: &str, end: usize, carried: &mut Option<String>) {
        let bytes = self.scalar.filter(|_| self.in_string).map_or(0, |start| end - start);
        if bytes >= ONLY_TEXT_BYTES_MIN {
            let mut segment = self.segment_of_value(carried);
            segment.keep(slice);
            self.strings.push((segment, bytes));
            self.longest = self.longest.max(bytes);
        }
    }

    /// The segment of the last value.
    pub(crate) fn segment_of_value(&self, carried: &mut Option<String>) -> Segment {
        match (self.object, self.key) {
            (false, _) => Segment::Index(self.complete),
            (true, Some(key)) => Segment::KeyAt(key),
            (true, None) => Segment::Key(key_of(&carried.take().unwrap_or_default())),
        }
    }

    /// Adds a container in this one.
    pub(crate) fn add(&mut self, child: Self) {
        if !child.is_decided() {
            self.longest = self.longest.max(child.longest);
        }
        self.children.push(child);
    }

    /// Whether it is an array of at least two elements, which makes it a section.
    fn is_list(&self) -> bool {
        !self.object && self.complete >= 2
    }

    /// Whether it is an array of so many elements that they are records, whatever they are.
    pub(crate) fn is_decided(&self) -> bool {
        !self.object && self.complete > WRAPPER_ELEMENTS_MAX
    }

    /// Its shape, if it can be a section.
    fn shape(&self) -> Option<Shape> {
        match self.object {
            true if self.complete >= KEYED_MEMBERS_MIN && self.uniform => Some(Shape::Members),
            false if self.is_list() => Some(Shape::Elements),
            _ => None,
        }
        .filter(|_| self.is_long)
    }
}

/// A search of the containers for sections, and for texts.
pub(crate) struct Search {
    /// Bytes of the document in view, when texts are searched for.
    document: Option<usize>,
    pointer: String,
    found: Surveyed,
}

impl Search {
    pub(crate) fn new(document: Option<usize>) -> Self {
        Self { document, pointer: String::new(), found: Surveyed::default() }
    }

    /// What is in a document.
    pub(crate) fn of(mut self, root: &Container) -> Surveyed {
        if root.object || self.is_wrapper(root) {
            self.container(root);
        } else {
            self.found.sections.push(Section { pointer: String::new(), shape: Shape::Elements });
        }
        self.found
    }

    /// Whether a string of so many bytes is a text.
    fn is_text(&self, bytes: usize) -> bool {
        self.document
            .is_some_and(|document| bytes >= TEXT_BYTES_MIN || bytes >= ONLY_TEXT_BYTES_MIN && is_half(bytes, document))
    }

    /// Whether an array only wraps a text.
    fn is_wrapper(&self, container: &Container) -> bool {
        !container.object
            && !container.is_decided()
            && self.is_text(container.longest)
            && is_half(container.longest, container.bytes)
    }

    /// Searches a container, whose pointer is given.
    fn container(&mut self, container: &Container) {
        match container.shape() {
            Some(shape) if !self.is_wrapper(container) => {
                if self.found.sections.len() < SECTIONS_MAX {
                    self.found.sections.push(Section { pointer: self.pointer.clone(), shape });
                }
            }
            _ => self.inside(container),
        }
    }

    fn inside(&mut self, container: &Container) {
        let length = self.pointer.len();
        for child in &container.children {
            child.segment.push(&mut self.pointer);
            self.container(child);
            self.pointer.truncate(length);
        }
        for &(ref segment, bytes) in &container.strings {
            if self.is_text(bytes) {
                let mut pointer = self.pointer.clone();
                segment.push(&mut pointer);
                self.found.texts.push(LongString { pointer, bytes });
            }
        }
    }
}

/// Whether a string is at least half of so many bytes.
fn is_half(string: usize, bytes: usize) -> bool {
    2 * string >= bytes
}

/// One byte for each JSON type, derived from the first byte of a value.
fn value_type(first: u8) -> u8 {
    match first {
        b'-' | b'0'..=b'9' => b'0',
        b't' | b'f' => b't',
        other => other,
    }
}
