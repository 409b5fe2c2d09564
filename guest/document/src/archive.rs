//! The ZIP archive that a document is.

use std::io::{BufRead, BufReader, Cursor, Read};

use zip::ZipArchive;
use zip::result::ZipError;

use super::DocumentError;

/// What an archive begins with.
pub(crate) const ZIP: &[u8] = b"PK\x03\x04";

/// What the compound files of older programs begin with; newer ones keep encrypted documents in them.
pub(crate) const COMPOUND: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";

/// Most bytes that the members of an archive say they unfold to: 256 MiB, a hundred times what documents of people have. One
/// that says less than it has meets the limits of the sandbox.
const UNFOLDED_BYTES_MAX: u64 = 256 << 20;

/// The member with the text of a Word document.
const WORD: &str = "word/document.xml";

/// A member that every workbook of Excel has.
const EXCEL: &str = "xl/workbook.xml";

/// The member that says what an OpenDocument file is, and what it says of a spreadsheet.
const MEDIA_TYPE: &str = "mimetype";
const SPREADSHEET: &[u8] = b"application/vnd.oasis.opendocument.spreadsheet";

/// What an archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Excel,
    OpenDocument,
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
        if self.0.index_for_name(WORD).is_some() {
            return Ok(Kind::Word);
        }
        if self.0.index_for_name(EXCEL).is_some() {
            return Ok(Kind::Excel);
        }
        let mut said = Vec::new();
        if let Ok(member) = self.0.by_name(MEDIA_TYPE) {
            // What cannot be read says nothing.
            let _ = member.take(SPREADSHEET.len() as u64 + 1).read_to_end(&mut said);
        }
        if said == SPREADSHEET { Ok(Kind::OpenDocument) } else { Err(DocumentError::Unknown) }
    }

    /// The XML of a Word document.
    pub(crate) fn word(&mut self) -> Result<impl BufRead, DocumentError> {
        self.0.by_name(WORD).map(BufReader::new).map_err(damaged)
    }
}

fn damaged(error: ZipError) -> DocumentError {
    DocumentError::Damaged(error.to_string())
}
