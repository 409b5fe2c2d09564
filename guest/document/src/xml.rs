//! Events of XML with plain texts.

use std::io::BufRead;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::DocumentError;

/// A step through a document. Names have no prefix, and each element has an end.
pub(crate) enum Xml<'a> {
    Start(&'a BytesStart<'a>),
    End(&'a str),
    Text(&'a str),
}

/// Calls `each` with all steps of a document.
pub(crate) fn each(
    source: impl BufRead,
    mut each: impl FnMut(Xml<'_>) -> Result<(), DocumentError>,
) -> Result<(), DocumentError> {
    let mut reader = Reader::from_reader(source);
    reader.config_mut().expand_empty_elements = true;
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer).map_err(damaged)? {
            Event::Start(element) => each(Xml::Start(&element))?,
            Event::End(element) => each(Xml::End(element.local_name().as_ref()))?,
            Event::Text(text) => each(Xml::Text(&text.xml10_content()))?,
            Event::CData(text) => each(Xml::Text(&text.xml10_content()))?,
            Event::GeneralRef(reference) => each(Xml::Text(&referred(&reference)?))?,
            Event::Eof => return Ok(()),
            _ => {}
        }
    }
}

/// The value of an attribute, by its name without prefix.
pub(crate) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element.attributes().flatten().find(|attribute| attribute.key.local_name().as_ref() == name)?;
    Some(found.value.into_owned())
}

fn referred(reference: &BytesRef<'_>) -> Result<String, DocumentError> {
    if let Some(text) = resolve_xml_entity(reference.as_ref()) {
        return Ok(text.to_owned());
    }
    let character = reference.resolve_char_ref().map_err(damaged)?;
    character.map(String::from).ok_or_else(|| DocumentError::Damaged("an entity that is not of XML".to_owned()))
}

fn damaged(error: impl ToString) -> DocumentError {
    DocumentError::Damaged(error.to_string())
}
