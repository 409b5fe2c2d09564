//! The text of documents that arrive as bytes: PDF, Word, PowerPoint, OpenDocument, and the records of spreadsheets.
//!
//! ```text
//! bytes ─► format, from the bytes ─► pdf            pages as Markdown, a heading for each
//!                                    word           paragraphs, headings and tables as Markdown
//!                                    slides         the same, and a heading for each slide; notes
//!                                    open_document  texts and slides in the format OpenDocument
//!                                    sheet          one JSON object: an array of records for each sheet
//! ```
//!
//! What is written is bounded by a limit, and so is what an archive unfolds to by its own account. The crates that parse
//! have no limits of time or memory, and may panic: a hostile document has to be read in a sandbox with limits for both. That is
//! what the component `lro-document-text` is for.
//!
//! Images, drawings, comments, footnotes and formulas are left out: the bytes of the document remain what counts.

mod archive;
mod markdown;
mod office;
mod open_document;
mod output;
mod pdf;
mod sheet;
mod slides;
mod word;
mod xml;

use self::archive::{Archive, Kind};

/// Rust types of the WIT file.
#[expect(missing_docs, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit/document",
        world: "lro-document",
        pub_export_macro: true,
        default_bindings_module: "lro_document::bindings",
    });
}

/// What a text of a document is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Markdown: a page, a slide or a heading of the document is a heading of it, and a table a table.
    Markdown,
    /// One JSON object: `{"Sheet": [{"column": value, …}, …], …}`.
    Records,
}

/// What a document says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extracted {
    /// What the text is written as.
    pub form: Form,
    /// The text.
    pub text: String,
}

/// Why a document gives no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The bytes are of no format that is read here.
    #[error("not a PDF, a text, a spreadsheet or slides of Office or OpenDocument")]
    Unknown,
    /// The document needs a password.
    #[error("the document is encrypted")]
    Encrypted,
    /// The document has no text, such as scanned pages.
    #[error("the document has no text")]
    Empty,
    /// A limit was met.
    #[error("more than {limit} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The most there may be.
        limit: u64,
    },
    /// The document contradicts its format. The text is of the crate that parses it.
    #[error("damaged: {0}")]
    Damaged(String),
}

/// The text of a document, at most `limit` bytes. The format is recognized from the bytes.
///
/// # Errors
/// [`DocumentError`]; nothing is returned of a document with more text.
pub fn extract(document: &[u8], limit: usize) -> Result<Extracted, DocumentError> {
    let markdown = |text| Extracted { form: Form::Markdown, text };
    let records = |text| Extracted { form: Form::Records, text };
    if document.starts_with(b"%PDF-") {
        pdf::text(document, limit).map(markdown)
    } else if document.starts_with(archive::ZIP) {
        let mut archive = Archive::open(document)?;
        match archive.kind()? {
            Kind::Word => word::text(&mut archive, limit).map(markdown),
            Kind::Excel => sheet::excel(document, limit).map(records),
            Kind::PowerPoint => slides::text(&mut archive, limit).map(markdown),
            Kind::OpenSpreadsheet => sheet::open_document(document, limit).map(records),
            Kind::OpenText => open_document::text(&mut archive, limit).map(markdown),
        }
    } else if document.starts_with(archive::COMPOUND) {
        sheet::old_excel(document, limit).map(records)
    } else {
        Err(DocumentError::Unknown)
    }
}
