//! The ZIP archive that a document is.

use std::io::{BufRead, BufReader, Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use super::{DocumentError, slides, word};

/// What an archive begins with.
pub(crate) const ZIP: &[u8] = b"PK\x03\x04";

/// What the compound files of older programs begin with; newer ones keep encrypted documents in them.
pub(crate) const COMPOUND: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

/// Most bytes that the members of an archive say they unfold to: 256 MiB, a hundred times what documents of people have. One
/// that says less than it has meets the limits of the sandbox.
const UNFOLDED_BYTES_MAX: u64 = 256 << 20;

/// A member that every workbook of Excel has.
const EXCEL: &str = "xl/workbook.xml";

/// The member that says what an OpenDocument file is, and what it says.
const MEDIA_TYPE: &str = "mimetype";
const OPEN_DOCUMENTS: [(&[u8], Kind); 3] = [
    (b"application/vnd.oasis.opendocument.spreadsheet", Kind::OpenSpreadsheet),
    (b"application/vnd.oasis.opendocument.text", Kind::OpenText),
    (b"application/vnd.oasis.opendocument.presentation", Kind::OpenText),
];

/// Most bytes of what it says.
const MEDIA_TYPE_BYTES_MAX: u64 = 64;

/// What an archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    PowerPoint,
    Excel,
    OpenSpreadsheet,
    /// A text, or the slides of a presentation.
    OpenText,
}

/// An archive whose members say that they are not too large.
pub(crate) struct Archive<'a>(ZipArchive<Cursor<&'a [u8]>>);

impl<'a> Archive<'a> {
    pub(crate) fn open(document: &'a [u8]) -> Result<Self, DocumentError> {
        let mut archive = ZipArchive::new(Cursor::new(document)).map_err(damaged)?;
        let mut unfolded = 0u64;
        for index in 0..archive.len() {
            unfolded = unfolded.saturating_add(archive.by_index_raw(index).map_err(damaged)?.size());
        }
        if unfolded > UNFOLDED_BYTES_MAX {
            return Err(DocumentError::TooLarge { what: "bytes when unfolded", limit: UNFOLDED_BYTES_MAX });
        }
        Ok(Self(archive))
    }

    /// # Errors
    /// [`DocumentError::Unknown`] for any other archive.
    pub(crate) fn kind(&mut self) -> Result<Kind, DocumentError> {
        let members = [(word::DOCUMENT, Kind::Word), (slides::PRESENTATION, Kind::PowerPoint), (EXCEL, Kind::Excel)];
        if let Some((_, kind)) = members.into_iter().find(|(member, _)| self.has(member)) {
            return Ok(kind);
        }
        let mut said = Vec::new();
        if let Ok(member) = self.member(MEDIA_TYPE) {
            // What cannot be read says nothing.
            let _ = member.take(MEDIA_TYPE_BYTES_MAX).read_to_end(&mut said);
        }
        let known = OPEN_DOCUMENTS.into_iter().find(|(media_type, _)| said.trim_ascii() == *media_type);
        known.map(|(_, kind)| kind).ok_or(DocumentError::Unknown)
    }

    pub(crate) fn has(&self, member: &str) -> bool {
        self.0.index_for_name(member).is_some()
    }

    /// The content of a member.
    pub(crate) fn member(&mut self, name: &str) -> Result<impl BufRead, DocumentError> {
        self.0.by_name(name).map(BufReader::new).map_err(damaged)
    }
}

fn damaged(error: ZipError) -> DocumentError {
    DocumentError::Damaged(error.to_string())
}
