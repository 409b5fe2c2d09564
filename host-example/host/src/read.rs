//! Pages of an offload: as many records as fit into a byte budget, and a signed cursor for the next page.
//!
//! An offload never changes, so following the cursors returns every record exactly once. A file is verified before any
//! of it is returned.

mod cursor;
mod list_cursor;
mod records;
mod ticket;

use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
pub use cursor::{Cursor, CursorError, CursorKey, PageSize, Position};
pub use list_cursor::ListCursor;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
pub use ticket::{Ticket, TicketError};

use crate::store::{FileKind, Growth, Offload, Reader, Store, StoreError, Ulid};

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
        let record = match self {
            Self::Record(record) => *record,
            Self::BeforeEnd(count) => total.saturating_sub(*count),
            Self::Cursor(_) => 0,
        };
        Position { record, offset: 0 }
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

/// Why a page cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The cursor is invalid or does not match the request.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The offload or one of its files cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The offload has no such section.
    #[error("there is no section {name:?}: the offload has {}", .sections.join(", "))]
    NoSection {
        /// The requested name.
        name: String,
        /// The existing sections.
        sections: Vec<String>,
    },
    /// The section has fewer records.
    #[error("there is no record {record}: the section has {total}, counted from 0")]
    NoRecord {
        /// The requested number.
        record: u64,
        /// Number of records.
        total: u64,
    },
    /// A record is not valid UTF-8.
    #[error("record {record} is not valid UTF-8")]
    NotText {
        /// Number of the record, or of the first record of the page.
        record: u64,
    },
}

/// Reads pages from a store. Clones share the store.
#[derive(Clone, Debug)]
pub struct Pages {
    store: Store,
    /// Read on first use.
    key: Arc<OnceLock<CursorKey>>,
    bytes_max: u32,
}

impl Pages {
    /// Signs cursors with the key that all processes share that use the root of the store.
    ///
    /// # Errors
    /// When the key can be neither read nor created: see [`Store::cursor_key`].
    pub fn new(store: Store) -> Result<Self, StoreError> {
        let pages = Self::of(store);
        pages.key()?;
        Ok(pages)
    }

    /// As [`Pages::new`], but reads the key on first use: until that succeeds, each page that needs it fails.
    pub fn of(store: Store) -> Self {
        Self { store, key: Arc::default(), bytes_max: PAGE_BYTES_MAX }
    }

    /// Signs cursors with the given key.
    pub fn with_key(store: Store, key: CursorKey) -> Self {
        Self { store, key: Arc::new(key.into()), bytes_max: PAGE_BYTES_MAX }
    }

    /// These pages with at most so many bytes each, at least [`PAGE_BYTES_MIN`], whatever a request or a cursor says.
    pub fn at_most(&self, bytes: u32) -> Self {
        Self { bytes_max: self.bytes_max.min(bytes).max(PAGE_BYTES_MIN), ..self.clone() }
    }

    pub(crate) fn bytes_max(&self) -> u32 {
        self.bytes_max
    }

    pub(crate) fn key(&self) -> Result<&CursorKey, StoreError> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let key = CursorKey::new(self.store.cursor_key()?);
        Ok(self.key.get_or_init(|| key))
    }

    /// Returns one page. The first read of a section verifies it, in time proportional to its size; see
    /// [`Reader::verify`].
    ///
    /// # Errors
    /// When a part of the request is invalid, or the file has changed.
    pub fn page(&self, request: &PageRequest) -> Result<Page, PageError> {
        let cursor = match &request.start {
            Start::Cursor(text) => Some(self.cursor(request, text)?),
            Start::Record(_) | Start::BeforeEnd(_) => None,
        };
        let offload = self.store.find(&request.tenant, request.offload)?;
        let (number, reader) = open(&offload, &request.section)?;
        let total = total(&reader);
        let (position, mut size) = match cursor {
            Some(cursor) if cursor.file != number => return Err(CursorError::Section.into()),
            Some(cursor) => (cursor.position, cursor.size),
            None => (request.start.position(total), request.size(PageSize::default())),
        };
        size.bytes = size.bytes.min(self.bytes_max);
        if position.record >= total.max(1) {
            return Err(PageError::NoRecord { record: position.record, total });
        }
        reader.verify()?;
        let (content, next) = read(&reader, position, size)?;
        let next = match next.record < total {
            true => {
                let (expires, offload) = (offload.expires(), offload.id());
                let cursor = Cursor { offload, file: number, position: next, size, expires, query: None };
                Some(self.key()?.sign(&request.tenant, &cursor))
            }
            false => None,
        };
        let (kind, growth) = (reader.record().kind, offload.growth());
        Ok(Page { content, first: position.record, kind, total, next, growth })
    }

    fn cursor(&self, request: &PageRequest, text: &str) -> Result<Cursor, PageError> {
        let cursor = self.key()?.open(&request.tenant, text, SystemTime::now())?;
        if cursor.offload != request.offload {
            return Err(CursorError::Offload.into());
        }
        if cursor.query.is_some() {
            return Err(CursorError::Query.into());
        }
        if request.size(cursor.size) != cursor.size {
            return Err(CursorError::PageSize.into());
        }
        Ok(cursor)
    }
}

impl PageRequest {
    /// Requests a page of default size from the beginning.
    pub fn new(tenant: impl Into<String>, offload: Ulid, section: impl Into<String>) -> Self {
        let (tenant, section) = (tenant.into(), section.into());
        Self { tenant, offload, section, start: Start::Record(0), bytes: None, records: None }
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

/// Opens a section, and returns the index of its file in the record too.
fn open(offload: &Offload, section: &str) -> Result<(u16, Reader), PageError> {
    let files = &offload.record().files;
    let found = offload.file(section).and_then(|found| (0..).zip(files).find(|(_, file)| file.name == found.name));
    let Some((number, file)) = found else {
        let sections = files.iter().map(|file| file.section.clone()).collect();
        return Err(PageError::NoSection { name: section.to_owned(), sections });
    };
    // A cursor into what has come of a result is not one into the result.
    let number = if offload.growth().is_some() { u16::MAX } else { number };
    Ok((number, offload.open(&file.name)?))
}

fn total(reader: &Reader) -> u64 {
    if reader.record().has_lines() { reader.record().records } else { 1 }
}

/// Reads from a position, and returns the position after what was read.
fn read(reader: &Reader, position: Position, size: PageSize) -> Result<(PageContent, Position), PageError> {
    let bytes_max = size.bytes as usize;
    if !reader.record().has_lines() {
        return part(reader, 0..reader.record().bytes, position, bytes_max);
    }
    let Some(line) = reader.line(position.record)? else { return Ok((PageContent::Records(Vec::new()), position)) };
    if position.offset > 0 || line.end - line.start > u64::from(size.bytes) {
        return part(reader, line, position, bytes_max);
    }
    let lines = reader.lines(position.record, size.records as usize, bytes_max)?;
    let next = Position { record: position.record + lines.len() as u64, offset: 0 };
    let records = lines.into_iter().map(String::from_utf8).collect::<Result<_, _>>();
    let records = records.map_err(|_| PageError::NotText { record: position.record })?;
    Ok((PageContent::Records(records), next))
}

/// Reads part of a record from a position on, and returns the position after it.
fn part(
    reader: &Reader,
    record: Range<u64>,
    position: Position,
    bytes_max: usize,
) -> Result<(PageContent, Position), PageError> {
    let (start, record_bytes) = (record.start.saturating_add(position.offset), record.end - record.start);
    let rest = usize::try_from(record.end.saturating_sub(start)).unwrap_or(usize::MAX);
    let is_binary = reader.record().kind == FileKind::Bytes;
    // Base64 encodes three bytes as four characters.
    let bytes_max = if is_binary { bytes_max / 4 * 3 } else { bytes_max };
    let mut found = reader.bytes(start, rest.min(bytes_max))?;
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
