//! JSON that breaks: where, and the elements of an array before that place.

use lro_json::{SyntaxError, Validator};

use crate::Form;

/// Fewest elements that are worth to be records: 2.
const ELEMENTS_MIN: u64 = 2;

/// Follows a JSON document to the place where it breaks, for instance because a server has cut it.
#[derive(Debug, Default)]
pub struct BrokenJson {
    validator: Validator,
    fault: Option<SyntaxError>,
    /// Bytes so far.
    seen: u64,
    /// Line breaks so far.
    breaks: u64,
    in_string: bool,
    escaped: bool,
    /// The open containers, the outermost first.
    open: Vec<Container>,
}

#[derive(Debug)]
struct Container {
    is_array: bool,
    /// Offset of the byte after its bracket.
    start: u64,
    /// Containers in it that were closed.
    closed: u64,
    /// Whether it holds something else besides containers.
    is_mixed: bool,
}

/// A place where JSON breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Break {
    /// What is wrong there.
    pub fault: SyntaxError,
    /// Its line, from 1.
    pub line: u64,
    /// The form of the elements before it: those of the outermost open array with two objects or arrays at least, if it holds
    /// nothing else.
    pub elements: Option<Form>,
}

impl BrokenJson {
    /// Reads on, in a text without byte order mark. Whether more of it is needed.
    pub fn push(&mut self, text: &str) -> bool {
        if self.fault.is_none() {
            self.fault = self.validator.push(text).err();
            let left = self.fault.map_or(u64::MAX, |fault| fault.offset.saturating_sub(self.seen));
            let valid = usize::try_from(left).unwrap_or(usize::MAX).min(text.len());
            text.as_bytes()[..valid].iter().for_each(|byte| self.byte(*byte));
        }
        self.fault.is_none()
    }

    /// The break, unless all is one JSON document.
    #[must_use]
    pub fn finish(self) -> Option<Break> {
        let fault = self.fault.or_else(|| self.validator.finish().err())?;
        let is_list =
            |container: &&Container| container.is_array && !container.is_mixed && container.closed >= ELEMENTS_MIN;
        let line = self.breaks + 1;
        let array = self.open.iter().find(is_list);
        let elements = array.map(|array| Form::JsonElements { start: array.start, count: array.closed, line, fault });
        Some(Break { fault, line, elements })
    }

    fn byte(&mut self, byte: u8) {
        self.seen += 1;
        self.breaks += u64::from(byte == b'\n');
        if self.in_string {
            let ends = byte == b'"' && !self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            self.in_string = !ends;
            return;
        }
        match byte {
            b'{' | b'[' => {
                self.open.push(Container { is_array: byte == b'[', start: self.seen, closed: 0, is_mixed: false });
            }
            b'}' | b']' => {
                self.open.pop();
                if let Some(around) = self.open.last_mut() {
                    around.closed += 1;
                }
            }
            b' ' | b'\n' | b'\r' | b'\t' | b',' => {}
            _ => {
                self.in_string = byte == b'"';
                if let Some(around) = self.open.last_mut() {
                    around.is_mixed = true;
                }
            }
        }
    }
}
