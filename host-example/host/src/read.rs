//! Pages of what was offloaded: as many records as fit into a budget of bytes, and a signed cursor to go on with.
//!
//! An offload never changes, so a walk from cursor to cursor meets every record once. A file is verified before anything of
//! it is given out.

mod cursor;

pub use cursor::{Cursor, CursorError, CursorKey, PageSize, Position};

use crate::store::{FileKind, Offload, Reader, Store, StoreError, Ulid};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::value::RawValue;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

/// Bytes of a page when none are asked for.
pub const PAGE_BYTES_DEFAULT: u32 = 20_000;
/// Fewest bytes of a page; a smaller number counts as this one.
pub const PAGE_BYTES_MIN: u32 = 256;
/// Most bytes of a page; a larger number counts as this one.
pub const PAGE_BYTES_MAX: u32 = 1 << 20;
/// Most records of a page when no number is asked for.
pub const PAGE_RECORDS_DEFAULT: u32 = 50;
/// Most records of a page; a larger number counts as this one.
pub const PAGE_RECORDS_MAX: u32 = 1000;

/// A page that is asked for.
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// Whose offload it is.
    pub tenant: String,
    /// The offload.
    pub offload: Ulid,
    /// The section, or the name of its file.
    pub section: String,
    /// Where the page begins.
    pub start: Start,
    /// Most bytes of the page: of its records without the line feeds between them, or of base64. From
    /// [`PAGE_BYTES_MIN`] to [`PAGE_BYTES_MAX`]. `None` is what the cursor says, else [`PAGE_BYTES_DEFAULT`].
    pub bytes: Option<u32>,
    /// Most records of the page. From 1 to [`PAGE_RECORDS_MAX`]. `None` is what the cursor says, else
    /// [`PAGE_RECORDS_DEFAULT`].
    pub records: Option<u32>,
}

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At a record, or the line of a text, counted from 0.
    Record(u64),
    /// Where the page before ended: [`Page::next`].
    Cursor(String),
}

/// A part of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// What it holds.
    pub content: PageContent,
    /// Number of its first record, counted from 0.
    pub first: u64,
    /// What the section is.
    pub kind: FileKind,
    /// Records of the section, or lines of a text; 1 for a file that is one value or bytes.
    pub total: u64,
    /// The cursor of the next page. `None` at the end.
    pub next: Option<String>,
}

/// What a page holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageContent {
    /// Whole records as they stand in the file, or lines of a text.
    Records(Vec<String>),
    /// A part of a record that is larger than the page, or of a file that is one value. It ends between two characters.
    Text(PagePart),
    /// A part of a binary file, as base64.
    Base64(PagePart),
}

/// As one object: `{"records": […], "first", "total", "next"}`, with `"text"` or `"base64"`, `"offset"`, `"bytes"` and
/// `"record_bytes"` in the place of the records for a part of one. A line of a text is a string.
impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Page", 7)?;
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
        object.end()
    }
}

/// A record as it is, or the line of a text.
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
    /// The bytes, as text or in base64.
    pub data: String,
    /// Where it begins in the record, in bytes.
    pub offset: u64,
    /// How many bytes of the record it holds.
    pub bytes: u64,
    /// Bytes of the whole record.
    pub record_bytes: u64,
}

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The cursor does not fit.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// The offload or its files.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The offload has no such section.
    #[error("there is no section {name:?}: the offload has {}", .sections.join(", "))]
    NoSection {
        /// The name that was asked for.
        name: String,
        /// Those that there are.
        sections: Vec<String>,
    },
    /// The section is shorter.
    #[error("there is no record {record}: the section has {total}, counted from 0")]
    NoRecord {
        /// The number that was asked for.
        record: u64,
        /// Number of records.
        total: u64,
    },
    /// Records that should be text are not UTF-8.
    #[error("record {record} is not UTF-8")]
    NotText {
        /// Its number, or that of the first record of the page.
        record: u64,
    },
}

/// Gives out pages of a store. A clone shares the store with its original.
#[derive(Clone, Debug)]
pub struct Pages {
    store: Store,
    /// Read when it is first needed.
    key: Arc<OnceLock<CursorKey>>,
}

impl Pages {
    /// Pages whose cursors are signed with a key that all processes on the root of the store share.
    ///
    /// # Errors
    /// When the key can be neither read nor made: see [`Store::cursor_key`].
    pub fn new(store: Store) -> Result<Self, StoreError> {
        let pages = Self::of(store);
        pages.key()?;
        Ok(pages)
    }

    /// As [`Pages::new`], but a key that can be neither read nor made is an error of each page, until it can.
    pub fn of(store: Store) -> Self {
        Self { store, key: Arc::default() }
    }

    /// Pages whose cursors are signed with a key of the caller's.
    pub fn with_key(store: Store, key: CursorKey) -> Self {
        Self { store, key: Arc::new(key.into()) }
    }

    fn key(&self) -> Result<&CursorKey, StoreError> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let key = CursorKey::new(self.store.cursor_key()?);
        Ok(self.key.get_or_init(|| key))
    }

    /// One page. The section is verified first, which takes time in proportion to its size once; see
    /// [`Reader::verify`].
    ///
    /// # Errors
    /// [`ReadError`] says which part of the request does not fit, or that the file has changed.
    pub fn page(&self, request: &PageRequest) -> Result<Page, ReadError> {
        let (position, size, of_file) = match &request.start {
            Start::Record(record) => (Position { record: *record, offset: 0 }, request.size(PageSize::default()), None),
            Start::Cursor(text) => {
                let cursor = self.cursor(request, text)?;
                (cursor.position, cursor.size, Some(cursor.file))
            }
        };
        let offload = self.store.find(&request.tenant, request.offload)?;
        let (number, reader) = open(&offload, &request.section)?;
        if of_file.is_some_and(|file| file != number) {
            return Err(CursorError::Section.into());
        }
        let total = total(&reader);
        if position.record >= total.max(1) {
            return Err(ReadError::NoRecord { record: position.record, total });
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
        Ok(Page { content, first: position.record, kind: reader.record().kind, total, next })
    }

    fn cursor(&self, request: &PageRequest, text: &str) -> Result<Cursor, ReadError> {
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
    /// A page of usual size from the beginning.
    pub fn new(tenant: impl Into<String>, offload: Ulid, section: impl Into<String>) -> Self {
        let (tenant, section) = (tenant.into(), section.into());
        Self { tenant, offload, section, start: Start::Record(0), bytes: None, records: None }
    }

    /// The size that is asked for, within the bounds.
    fn size(&self, default: PageSize) -> PageSize {
        PageSize {
            bytes: self.bytes.unwrap_or(default.bytes).clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX),
            records: self.records.unwrap_or(default.records).clamp(1, PAGE_RECORDS_MAX),
        }
    }
}

impl Default for PageSize {
    fn default() -> Self {
        Self { bytes: PAGE_BYTES_DEFAULT, records: PAGE_RECORDS_DEFAULT }
    }
}

/// Opens a section, and tells the index of its file in the record.
fn open(offload: &Offload, section: &str) -> Result<(u16, Reader), ReadError> {
    let files = &offload.record().files;
    let found = offload.file(section).and_then(|found| (0..).zip(files).find(|(_, file)| file.name == found.name));
    let Some((number, file)) = found else {
        let sections = files.iter().map(|file| file.section.clone()).collect();
        return Err(ReadError::NoSection { name: section.to_owned(), sections });
    };
    Ok((number, offload.open(&file.name)?))
}

fn total(reader: &Reader) -> u64 {
    if reader.record().has_lines() { reader.record().records } else { 1 }
}

/// What is at a position, and the position behind it.
fn read(reader: &Reader, position: Position, size: PageSize) -> Result<(PageContent, Position), ReadError> {
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
    let records = records.map_err(|_| ReadError::NotText { record: position.record })?;
    Ok((PageContent::Records(records), next))
}

/// The part of a record from a position on, and the position behind it.
fn part(
    reader: &Reader,
    record: Range<u64>,
    position: Position,
    bytes_max: usize,
) -> Result<(PageContent, Position), ReadError> {
    let (start, record_bytes) = (record.start.saturating_add(position.offset), record.end - record.start);
    let rest = usize::try_from(record.end.saturating_sub(start)).unwrap_or(usize::MAX);
    let is_binary = reader.record().kind == FileKind::Bytes;
    // Three bytes are four characters of base64.
    let bytes_max = if is_binary { bytes_max / 4 * 3 } else { bytes_max };
    let mut found = reader.bytes(start, rest.min(bytes_max))?;
    let data = if is_binary {
        STANDARD.encode(&found)
    } else {
        if found.len() < rest {
            found.truncate(end_of_characters(&found));
        }
        String::from_utf8(found.clone()).map_err(|_| ReadError::NotText { record: position.record })?
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

/// Where the last whole character ends.
fn end_of_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => bytes.len(),
    }
}
