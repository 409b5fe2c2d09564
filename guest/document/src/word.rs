//! The text of a Word document as Markdown.

use super::archive::Archive;
use super::markdown::Markdown;
use super::{DocumentError, office};

/// The member with the text.
pub(crate) const DOCUMENT: &str = "word/document.xml";

pub(crate) fn text(archive: &mut Archive<'_>, limit: usize) -> Result<String, DocumentError> {
    let mut markdown = Markdown::new(limit);
    office::read(archive.member(DOCUMENT)?, &mut markdown)?;
    markdown.finish()
}
