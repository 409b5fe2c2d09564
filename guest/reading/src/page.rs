//! Pages of an offload: as many records as fit into a byte budget, and a signed cursor for the next page.
//!
//! An offload never changes, so following the cursors returns every record exactly once.

use std::ops::Range;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lro_contract::manifest::{FileKind, FileRecord, OffloadRecord};
use lro_contract::ulid::Ulid;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Cursor, CursorError, CursorKey, PageSize, Position, Section};

/// Default size of a page, in bytes.
pub const PAGE_BYTES_DEFAULT: u32 = 20_000;
/// Minimum size of a page, in bytes; smaller values are raised to it.
pub const PAGE_BYTES_MIN: u32 = 256;
/// Maximum size of a page, in bytes; larger values are lowered to it.
pub const PAGE_BYTES_MAX: u32 = 1 << 20;
/// Maximum number of records in a page; larger values are lowered to it. It bounds what empty lines cost in JSON.
pub const PAGE_RECORDS_MAX: u32 = 10_000;

/// A request for a page.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// The tenant that owns the offload.
    pub tenant: String,
    /// Id of the offload.
    pub offload: Ulid,
    /// Name of the section, or of its file.
    pub section: String,
    /// Where the page begins.
    pub start: Start,
    /// Maximum size of the page in bytes, from [`PAGE_BYTES_MIN`] to [`PAGE_BYTES_MAX`]: of its records without the
    /// line feeds between them, or of base64. Default: the value in the cursor, else [`PAGE_BYTES_DEFAULT`].
    pub bytes: Option<u32>,
    /// Maximum number of records, from 1 to [`PAGE_RECORDS_MAX`]. Default: the value in the cursor, else as many as fit.
    pub records: Option<u32>,
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At a record, or the line of a text, counted from 0.
    Record(u64),
    /// This many records or lines before the end; at the beginning when there are fewer.
    BeforeEnd(u64),
    /// Inside of a record or a line.
    Within {
        /// Its number, counted from 0.
        record: u64,
        /// Bytes of it before the page. A page of text begins with the next character.
        offset: u64,
    },
    /// Where the previous page ended: [`Page::next`].
    Cursor(String),
}

impl Start {
    /// At a number counted from 0, or from the end when it is negative.
    pub fn of_number(number: i64) -> Self {
        if number < 0 { Self::BeforeEnd(number.unsigned_abs()) } else { Self::Record(number.unsigned_abs()) }
    }

    /// The position in a section of this many records, unless a cursor says it.
    fn position(&self, total: u64) -> Position {
        let at = |record| Position { record, offset: 0 };
        match *self {
            Self::Record(record) => at(record),
            Self::BeforeEnd(count) => at(total.saturating_sub(count)),
            Self::Within { record, offset } => Position { record, offset },
            Self::Cursor(_) => at(0),
        }
    }
}

/// A page of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The content.
    pub content: PageContent,
    /// Number of its first record, counted from 0.
    pub first: u64,
    /// Kind of the section.
    pub kind: FileKind,
    /// Number of records in the section, or of lines in a text; 1 for a single value or a binary file.
    pub total: u64,
    /// Cursor of the next page. `None` at the end.
    pub next: Option<String>,
    /// Why the section is not whole; `None` if it is.
    pub growth: Option<Growth>,
}

/// The content of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageContent {
    /// Whole records exactly as in the file, or lines of a text.
    Records(Vec<String>),
    /// Part of a record that is larger than the page, or of a file with a single value. It ends at a character
    /// boundary.
    Text(PagePart),
    /// Part of a binary file, as base64.
    Base64(PagePart),
}

/// As one object: `{"records": […], "first", "total", "next"}`, with `"text"` or `"base64"`, `"offset"`, `"bytes"` and
/// `"record_bytes"` in place of `records` for a part of a record. A line of a text is a string.
impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Page", 9)?;
        let part = match &self.content {
            PageContent::Records(records) => {
                let records: Vec<Item<'_>> = records.iter().map(|line| Item::of(line, self.kind)).collect();
                object.serialize_field("records", &records)?;
                None
            }
            PageContent::Text(part) => {
                object.serialize_field("text", &part.data)?;
                Some(part)
            }
            PageContent::Base64(part) => {
                object.serialize_field("base64", &part.data)?;
                Some(part)
            }
        };
        if let Some(part) = part {
            object.serialize_field("offset", &part.offset)?;
            object.serialize_field("bytes", &part.bytes)?;
            object.serialize_field("record_bytes", &part.record_bytes)?;
        }
        object.serialize_field("first", &self.first)?;
        object.serialize_field("total", &self.total)?;
        object.serialize_field("next", &self.next)?;
        if let Some(growth) = &self.growth {
            object.serialize_field("complete", &false)?;
            object.serialize_field("state", growth)?;
        }
        object.end()
    }
}

/// A record as raw JSON, or the line of a text.
#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Record(&'a RawValue),
    Line(&'a str),
}

impl<'a> Item<'a> {
    fn of(line: &'a str, kind: FileKind) -> Self {
        match serde_json::from_str(line) {
            Ok(record) if kind == FileKind::Records => Self::Record(record),
            _ => Self::Line(line),
        }
    }
}

/// A part of one record, or of a file without records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagePart {
    /// The content, as text or in base64.
    pub data: String,
    /// Offset in the record, in bytes.
    pub offset: u64,
    /// Number of bytes of the record in this part.
    pub bytes: u64,
    /// Size of the whole record in bytes.
    pub record_bytes: u64,
}

/// Why an offload is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// More may come.
    Running,
    /// Its store was closed, or its process ended, before the rest came.
    Lost,
    /// The rest will not come.
    Ended,
}

/// Why a page cannot be read; `E` is why a file cannot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError<E: std::error::Error + 'static> {
    /// The cursor is invalid or does not match the request.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The offload or one of its files cannot be read.
    #[error(transparent)]
    Store(E),
    /// The offload has no such section.
    #[error("there is no section {name:?}: the offload has {}", .sections.join(", "))]
    NoSection {
        /// The requested name.
        name: String,
        /// The existing sections.
        sections: Vec<String>,
    },
    /// The section has fewer records.
    #[error("there is no record {record}: the section has {total} records, and the first is number 0")]
    NoRecord {
        /// The requested number.
        record: u64,
        /// Number of records.
        total: u64,
    },
    /// The record has fewer bytes.
    #[error("byte {offset} is beyond the end of record {record}, which has {bytes} bytes, counted from 0")]
    NoByte {
        /// The requested offset.
        offset: u64,
        /// Number of the record.
        record: u64,
        /// Bytes of the record.
        bytes: u64,
    },
    /// A record is not valid UTF-8.
    #[error("record {record} is not valid UTF-8")]
    NotText {
        /// Number of the record, or of the first record of the page.
        record: u64,
    },
}

/// The offload that a page is read from.
#[derive(Clone, Copy, Debug)]
pub struct PageSource<'a, S> {
    /// Id of the offload.
    pub offload: Ulid,
    /// When it expires.
    pub expires: SystemTime,
    /// Why it is not whole; `None` if it is.
    pub growth: Option<Growth>,
    /// Index of the file in the record of the offload.
    pub number: u16,
    /// The file.
    pub section: &'a S,
}

impl PageRequest {
    /// Requests a page of default size from the beginning.
    pub fn new(tenant: impl Into<String>, offload: Ulid, section: impl Into<String>) -> Self {
        let (tenant, section) = (tenant.into(), section.into());
        Self { tenant, offload, section, start: Start::Record(0), bytes: None, records: None }
    }

    /// The cursor in the request, if it begins at one, verified and compared with the rest of the request.
    ///
    /// # Errors
    /// When it was not signed with this key, has expired by `now`, or belongs to another request.
    pub fn cursor(&self, key: &CursorKey, now: SystemTime) -> Result<Option<Cursor>, CursorError> {
        let Start::Cursor(text) = &self.start else { return Ok(None) };
        let cursor = key.open(&self.tenant, text, now)?;
        if cursor.offload != self.offload {
            return Err(CursorError::Offload);
        }
        if cursor.query.is_some() {
            return Err(CursorError::Query);
        }
        if self.size(cursor.size) != cursor.size {
            return Err(CursorError::PageSize);
        }
        Ok(Some(cursor))
    }

    /// The requested size, clamped to the bounds.
    fn size(&self, default: PageSize) -> PageSize {
        PageSize {
            bytes: self.bytes.unwrap_or(default.bytes).clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX),
            records: self.records.unwrap_or(default.records).clamp(1, PAGE_RECORDS_MAX),
        }
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self { bytes: PAGE_BYTES_DEFAULT, records: PAGE_RECORDS_MAX }
    }
}

/// Finds a section, named as in [`OffloadRecord::file`]: the index of its file, and its record.
///
/// # Errors
/// [`PageError::NoSection`], with the existing ones.
pub fn find_section<'a, E: std::error::Error>(
    offload: &'a OffloadRecord,
    section: &str,
) -> Result<(u16, &'a FileRecord), PageError<E>> {
    let files = &offload.files;
    let found = offload.file(section).and_then(|found| (0..).zip(files).find(|(_, file)| file.name == found.name));
    found.ok_or_else(|| {
        let sections = files.iter().map(|file| file.section.clone()).collect();
        PageError::NoSection { name: section.to_owned(), sections }
    })
}

/// Reads the page of a request, whose cursor [`PageRequest::cursor`] returned, of at most `bytes_max` bytes. `verify` compares
/// the file with its record, and `sign` signs the cursor of the next page.
///
/// # Errors
/// When a part of the request is invalid, the file has changed, or cannot be read.
pub fn read_page<S: Section<Error: std::error::Error + 'static>>(
    request: &PageRequest,
    source: &PageSource<'_, S>,
    cursor: Option<Cursor>,
    bytes_max: u32,
    verify: impl FnOnce(&S) -> Result<(), S::Error>,
    sign: impl FnOnce(&Cursor) -> Result<String, S::Error>,
) -> Result<Page, PageError<S::Error>> {
    let PageSource { offload, expires, growth, section, .. } = *source;
    // A cursor into what has come of a result is not one into the result.
    let number = if growth.is_some() { u16::MAX } else { source.number };
    let total = if section.record().has_lines() { section.record().records } else { 1 };
    let (position, mut size) = match cursor {
        Some(cursor) if cursor.file != number => return Err(CursorError::Section.into()),
        Some(cursor) => (cursor.position, cursor.size),
        None => (request.start.position(total), request.size(PageSize::default())),
    };
    size.bytes = size.bytes.min(bytes_max);
    if position.record >= total.max(1) {
        return Err(PageError::NoRecord { record: position.record, total });
    }
    verify(section).map_err(PageError::Store)?;
    let (content, next) = read(section, position, size)?;
    let next = match next.record < total {
        true => {
            let cursor = Cursor { offload, file: number, position: next, size, expires, query: None };
            Some(sign(&cursor).map_err(PageError::Store)?)
        }
        false => None,
    };
    Ok(Page { content, first: position.record, kind: section.record().kind, total, next, growth })
}

/// Reads from a position, and returns the position after what was read.
fn read<S: Section<Error: std::error::Error + 'static>>(
    section: &S,
    position: Position,
    size: PageSize,
) -> Result<(PageContent, Position), PageError<S::Error>> {
    let bytes_max = size.bytes as usize;
    if !section.record().has_lines() {
        return part(section, 0..section.record().bytes, position, bytes_max);
    }
    let Some(line) = section.line(position.record).map_err(PageError::Store)? else {
        return Ok((PageContent::Records(Vec::new()), position));
    };
    if position.offset > 0 || line.end - line.start > u64::from(size.bytes) {
        return part(section, line, position, bytes_max);
    }
    let lines = section.lines(position.record, size.records as usize, bytes_max).map_err(PageError::Store)?;
    let next = Position { record: position.record + lines.len() as u64, offset: 0 };
    let records = lines.into_iter().map(String::from_utf8).collect::<Result<_, _>>();
    let records = records.map_err(|_| PageError::NotText { record: position.record })?;
    Ok((PageContent::Records(records), next))
}

/// Reads part of a record from a position on, and returns the position after it.
fn part<S: Section<Error: std::error::Error + 'static>>(
    section: &S,
    record: Range<u64>,
    position: Position,
    bytes_max: usize,
) -> Result<(PageContent, Position), PageError<S::Error>> {
    let record_bytes = record.end - record.start;
    if position.offset > 0 && position.offset >= record_bytes {
        return Err(PageError::NoByte { offset: position.offset, record: position.record, bytes: record_bytes });
    }
    let start = record.start + position.offset;
    let rest = usize::try_from(record.end.saturating_sub(start)).unwrap_or(usize::MAX);
    let is_binary = section.record().kind == FileKind::Bytes;
    // Base64 encodes three bytes as four characters.
    let bytes_max = if is_binary { bytes_max / 4 * 3 } else { bytes_max };
    let mut found = section.bytes(start, rest.min(bytes_max)).map_err(PageError::Store)?;
    // Of a character that began before the page.
    let skipped = if is_binary { 0 } else { found.iter().take_while(|&&byte| byte & 0xC0 == 0x80).count() };
    let position = Position { offset: position.offset + skipped as u64, ..position };
    let rest = rest - skipped;
    found.drain(..skipped);
    let data = if is_binary {
        STANDARD.encode(&found)
    } else {
        if found.len() < rest {
            found.truncate(end_of_characters(&found));
        }
        String::from_utf8(found.clone()).map_err(|_| PageError::NotText { record: position.record })?
    };
    let bytes = found.len() as u64;
    let end = position.offset + bytes;
    let next = if end < record_bytes && bytes > 0 {
        Position { offset: end, ..position }
    } else {
        Position { record: position.record + 1, offset: 0 }
    };
    let part = PagePart { data, offset: position.offset, bytes, record_bytes };
    Ok((if is_binary { PageContent::Base64(part) } else { PageContent::Text(part) }, next))
}

/// End of the last complete character.
fn end_of_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}
