//! Repeated elements of XML.
//!
//! A record is an object: attributes are `@name`, child elements their names, several of one name an array, text beside
//! attributes `#text`. An element with text alone is a string. White space around child elements is left out; text
//! between them has no place in an object and is a fault. Namespaces stay prefixes. Documents with a `DOCTYPE` that
//! defines entities are refused, so nothing in a text can grow.

mod element;
mod token;

use element::Element;
use token::decode;
pub(crate) use token::{Token, next};

use super::error::Fault;
use super::records::Records;

/// Longest tag, comment or CDATA section, in bytes: 64 KiB. They are held in memory.
pub const TOKEN_BYTES_MAX: usize = 64 * 1024;

/// Most memory of a record of XML, in bytes: 256 KiB, of which each element takes 128 beside its text.
pub const ELEMENT_BYTES_MAX: usize = 256 * 1024;

/// What an element takes beside its text, in bytes: about its fields.
const ELEMENT_BYTES: usize = 128;

/// Most nested elements: 128. Records are written by recursion.
pub(crate) const DEPTH_MAX: usize = 128;

/// Reads the elements at one path.
#[derive(Debug)]
pub(crate) struct Markup {
    /// Names from the root to the records.
    path: Vec<String>,
    /// The token that the piece cut.
    cut: String,
    /// Open elements outside the record.
    outer: Vec<String>,
    /// Open elements of the record, the record first.
    open: Vec<Element>,
    /// Bytes of the record.
    size: usize,
    /// Whether the root has ended.
    ended: bool,
}

impl Markup {
    /// A reader of the elements at a path like `feed/entry`.
    pub(crate) fn new(path: &str) -> Self {
        let path = path.split('/').map(String::from).collect();
        Self { path, cut: String::new(), outer: Vec::new(), open: Vec::new(), size: 0, ended: false }
    }

    pub(crate) fn push(&mut self, text: &str, records: &mut Records) -> Result<(), Fault> {
        let mut buffer = std::mem::take(&mut self.cut);
        buffer.push_str(text);
        let mut rest = buffer.as_str();
        while let Some((token, length)) = next(rest)? {
            let is_outside = self.open.is_empty();
            self.token(token, records)?;
            if is_outside && self.open.is_empty() {
                records.report.outside += length as u64;
            }
            rest = &rest[length..];
        }
        if rest.len() > TOKEN_BYTES_MAX {
            return Err(Fault::Token);
        }
        self.cut = rest.to_owned();
        Ok(())
    }

    fn token(&mut self, token: Token<'_>, records: &mut Records) -> Result<(), Fault> {
        match token {
            Token::Nothing => Ok(()),
            Token::Text(text) => self.text(&decode(text)?),
            Token::Data(text) => self.text(text),
            Token::Open { name, attributes, is_empty } => {
                self.begin(name, attributes)?;
                if is_empty { self.end(name, records) } else { Ok(()) }
            }
            Token::Close(name) => self.end(name, records),
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Fault> {
        self.size += text.len();
        match self.open.last_mut() {
            Some(element) if self.size <= ELEMENT_BYTES_MAX => {
                element.text.push_str(text);
                Ok(())
            }
            Some(_) => Err(Fault::Element),
            None => {
                self.size = 0;
                if self.outer.is_empty() && !text.trim().is_empty() { Err(Fault::Markup) } else { Ok(()) }
            }
        }
    }

    fn begin(&mut self, name: &str, attributes: &str) -> Result<(), Fault> {
        if self.ended {
            return Err(Fault::Second);
        }
        if self.outer.len() + self.open.len() == DEPTH_MAX {
            return Err(Fault::Depth);
        }
        let is_record = self.open.is_empty()
            && self.path.split_last().is_some_and(|(last, outer)| last == name && outer == self.outer);
        if !is_record && self.open.is_empty() {
            token::attributes(attributes)?;
            self.outer.push(name.to_owned());
            return Ok(());
        }
        if is_record {
            self.size = 0;
        }
        self.size += ELEMENT_BYTES + name.len() + attributes.len();
        if self.size > ELEMENT_BYTES_MAX {
            return Err(Fault::Element);
        }
        self.open.push(Element {
            name: name.to_owned(),
            attributes: token::attributes(attributes)?,
            ..Element::default()
        });
        Ok(())
    }

    fn end(&mut self, name: &str, records: &mut Records) -> Result<(), Fault> {
        let Some(element) = self.open.pop() else {
            let is_innermost = self.outer.pop().is_some_and(|open| open == name);
            self.ended = self.outer.is_empty();
            return if is_innermost { Ok(()) } else { Err(Fault::Markup) };
        };
        if element.name != name {
            return Err(Fault::Markup);
        }
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => {
                element.write(&mut records.lines)?;
                records.end();
                self.ended = self.outer.is_empty();
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<(), Fault> {
        let is_complete = self.ended && self.open.is_empty() && self.cut.trim().is_empty();
        if is_complete { Ok(()) } else { Err(Fault::End) }
    }
}
