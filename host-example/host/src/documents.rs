//! The text of documents that arrive as bytes, for a policy to write beside them.
//!
//! The component `guest/document-text` reads PDF, DOCX, PPTX, ODT, ODP, XLSX, ODS and XLS in the sandbox. It is compiled at the first document,
//! and each document has an instance of its own: one that is hostile, or meets a fault of a parser, ends that instance.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::policy::{BuiltIn, CompileCache, LoadError};
use crate::sandbox::bindings::document::exports::lro::document::reader::{DocumentError, Extracted, Form};
use crate::sandbox::{
    CallError, Limits, Part, PartKind, Payload, PayloadReader, PreparedDocumentReader, ReadError, SLICE_BYTES_MAX,
    Sandbox, one_line,
};

/// The component of `guest/document-text`.
pub const DOCUMENT_COMPONENT: &[u8] = component!("lro_document_text.wasm");

/// Default of the time in which one document is read: 2 s, enough for a few hundred pages, or 100,000 rows of five cells.
pub const DOCUMENT_TIME_DEFAULT: Duration = Duration::from_secs(2);

/// Default of the memory in which one document is read: 256 MiB. Parsers hold a document, and what it unfolds to.
pub const DOCUMENT_MEMORY_BYTES_DEFAULT: usize = 256 << 20;

/// Largest document that is read: 32 MiB. It is copied into the memory of the component.
const DOCUMENT_BYTES_MAX: u64 = 32 << 20;

/// Longest text of a document: 32 MiB, in a quarter of that memory as it grows.
const DOCUMENT_TEXT_BYTES_MAX: u32 = 32 << 20;

/// Most documents of one result that are read, so that they take a bounded time.
const DOCUMENTS_MAX: usize = 8;

/// Bytes that pass beside a text when it is returned.
const CROSSING_BYTES: usize = 64 << 10;

/// Longest name of a document in the log, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// What documents begin with: PDF, ZIP archives, files of Office before 2007. Which of the archives are documents, the component
/// finds out.
const BEGINNINGS: [&[u8]; 3] = [b"%PDF-", b"PK\x03\x04", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"];

/// Why a part has no text. The message is about the document.
#[derive(Debug, thiserror::Error)]
enum NoText {
    #[error("larger than {DOCUMENT_BYTES_MAX} bytes")]
    TooLarge,
    #[error("one of more than {DOCUMENTS_MAX} documents")]
    TooMany,
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the component {}", .0.with_keys("documents-"))]
    Call(CallError),
    #[error("{}", described(.0))]
    Document(DocumentError),
}

fn described(error: &DocumentError) -> String {
    match error {
        DocumentError::Unknown => "of no format that is read".to_owned(),
        DocumentError::Encrypted => "encrypted".to_owned(),
        DocumentError::Empty => "without text".to_owned(),
        DocumentError::TooLarge(limit) => format!("too large: {}", one_line(limit, NAME_BYTES_MAX)),
        DocumentError::Damaged(text) => format!("damaged: {}", one_line(text, NAME_BYTES_MAX)),
    }
}

/// Reads documents of up to 32 MiB, 8 of each result, whose texts may have as much. Clones share their state.
#[derive(Clone, Debug)]
pub struct Documents {
    reader: Arc<BuiltIn<PreparedDocumentReader>>,
    limits: Limits,
}

impl Documents {
    /// Reads documents in this time and memory each. Without a cache, the component is compiled in every process.
    pub fn new(sandbox: &Sandbox, cache: Option<CompileCache>, time: Duration, memory_bytes: usize) -> Self {
        let reader = BuiltIn::new(sandbox, DOCUMENT_COMPONENT, cache, Sandbox::prepare_document_reader);
        let limits = Limits {
            wall_time: time,
            memory_bytes,
            crossing_bytes: DOCUMENT_TEXT_BYTES_MAX as usize + CROSSING_BYTES,
            written_bytes: 0,
            files: 0,
            ..Limits::default()
        };
        Self { reader: Arc::new(reader), limits }
    }

    /// The most time that the documents of one result take, without compiling the component.
    pub(crate) fn time_max(&self) -> Duration {
        (self.limits.wall_time + self.limits.wait) * DOCUMENTS_MAX as u32
    }

    /// The texts of the parts that are documents, as parts: a Markdown text, or a JSON document with the sheets of a
    /// workbook, named after the document. The log says which documents have none, and why. Blocks.
    pub(crate) async fn texts(&self, payload: &Arc<Payload>) -> Vec<Part> {
        let mut reader = PayloadReader::new(Arc::clone(payload));
        let mut texts = Vec::new();
        let mut count = 0;
        for (index, part) in (0..).zip(payload.parts()) {
            if part.kind != PartKind::Binary || !begins_as_document(&mut reader, index) {
                continue;
            }
            count += 1;
            let text = match count <= DOCUMENTS_MAX {
                true => self.text(&mut reader, index, part).await,
                false => Err(NoText::TooMany),
            };
            let name = one_line(part.name.as_deref().unwrap_or_default(), NAME_BYTES_MAX);
            match text {
                Ok(text) => texts.push(text),
                // Most archives are of other kinds.
                Err(error @ NoText::Document(DocumentError::Unknown)) => tracing::debug!(name, %error, "no text"),
                Err(error) => tracing::warn!(name, bytes = part.size(), %error, "a document has no text to ask about"),
            }
        }
        texts
    }

    async fn text(&self, reader: &mut PayloadReader, index: u32, part: &Part) -> Result<Part, NoText> {
        if part.size() > DOCUMENT_BYTES_MAX {
            return Err(NoText::TooLarge);
        }
        let mut document = Vec::with_capacity(part.size() as usize);
        while (document.len() as u64) < part.size() {
            document.extend(reader.read_bytes(index, document.len() as u64, SLICE_BYTES_MAX)?);
        }
        let prepared = self.reader.get()?;
        let answer = prepared.extract(&self.limits, &document, DOCUMENT_TEXT_BYTES_MAX).await.map_err(NoText::Call)?;
        let Extracted { form, text } = answer.map_err(NoText::Document)?;
        let (media_type, extension) = match form {
            Form::Markdown => ("text/markdown", "md"),
            Form::Records => ("application/json", "json"),
        };
        let text = Part::checked_text(PartKind::Text, Bytes::from(text)).with_media_type(media_type);
        Ok(text.with_name(format!("{}.{extension}", part.name.as_deref().unwrap_or("document"))))
    }
}

fn begins_as_document(reader: &mut PayloadReader, part: u32) -> bool {
    let length = BEGINNINGS.iter().map(|beginning| beginning.len()).max().unwrap_or_default();
    let beginning = reader.read_bytes(part, 0, length as u32).unwrap_or_default();
    BEGINNINGS.iter().any(|known| beginning.starts_with(known))
}
