//! The text of a PDF: its pages as Markdown, each under a heading `# Page N`.
//!
//! Strings stand where the drawing operators put them; what is on one line is joined, with a space where there is a gap.
//! Two columns of prose are read one after the other, also where their lines were drawn side by side. Text in images is not read.

mod columns;
mod content;
mod font;
mod layout;
mod matrix;

use lopdf::{Dictionary, Document, Object, ObjectId};

use self::content::Interpreter;
use self::layout::Layout;
use super::DocumentError;
use super::output::Output;

/// How far up the tree of pages a page inherits. lopdf allows as much.
const PARENTS_MAX: usize = 256;

pub(crate) fn text(document: &[u8], limit: usize) -> Result<String, DocumentError> {
    let document = Document::load_mem(document).map_err(damaged)?;
    if document.is_encrypted() {
        return Err(DocumentError::Encrypted);
    }
    let nothing = Dictionary::new();
    let mut layout = Layout::new(Output::new(limit));
    let mut interpreter = Interpreter::new(&document);
    for (number, page) in document.get_pages() {
        layout.begin_page(number)?;
        let content = document.get_page_content(page).map_err(damaged)?;
        interpreter.run(&content, resources(&document, page).unwrap_or(&nothing), &mut layout)?;
        layout.end_page()?;
    }
    layout.finish()
}

/// The resources of a page, which it may inherit.
fn resources(document: &Document, page: ObjectId) -> Option<&Dictionary> {
    let mut node = document.get_dictionary(page).ok()?;
    for _ in 0..PARENTS_MAX {
        if let Ok(found) = node.get_deref(b"Resources", document).and_then(Object::as_dict) {
            return Some(found);
        }
        node = node.get_deref(b"Parent", document).and_then(Object::as_dict).ok()?;
    }
    None
}

fn damaged(error: lopdf::Error) -> DocumentError {
    match error {
        lopdf::Error::InvalidPassword | lopdf::Error::Decryption(_) => DocumentError::Encrypted,
        error => DocumentError::Damaged(error.to_string()),
    }
}
