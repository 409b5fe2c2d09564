//! Reads the text of documents.
#![cfg(target_arch = "wasm32")]

use lro_document::bindings::exports::lro::document::reader;
use lro_document::{DocumentError, Form, bindings, extract};

struct DocumentText;

bindings::export!(DocumentText with_types_in bindings);

impl reader::Guest for DocumentText {
    fn extract(document: Vec<u8>, limit: u32) -> Result<reader::Extracted, reader::DocumentError> {
        let extracted = extract(&document, limit as usize).map_err(|error| match error {
            DocumentError::Unknown => reader::DocumentError::Unknown,
            DocumentError::Encrypted => reader::DocumentError::Encrypted,
            DocumentError::Empty => reader::DocumentError::Empty,
            DocumentError::TooLarge { .. } => reader::DocumentError::TooLarge(error.to_string()),
            error => reader::DocumentError::Damaged(error.to_string()),
        })?;
        let form = match extracted.form {
            Form::Markdown => reader::Form::Markdown,
            Form::Records => reader::Form::Records,
        };
        Ok(reader::Extracted { form, text: extracted.text })
    }
}
