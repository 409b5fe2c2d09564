//! Pages of an offload: as many records as fit into a byte budget, and a signed cursor for the next page.
//!
//! An offload never changes, so following the cursors returns every record exactly once. A file is verified before any
//! of it is returned.

mod records;

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

pub use lro_reading::{
    Cursor, CursorError, CursorKey, ListCursor, PAGE_BYTES_DEFAULT, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PAGE_RECORDS_MAX,
    Page, PageContent, PagePart, PageRequest, PageSize, Position, Start, Ticket, TicketError,
};
use lro_reading::{PageSource, find_section, read_page};

use crate::store::{Reader, Store, StoreError};

/// Why a page cannot be read.
pub type PageError = lro_reading::PageError<StoreError>;

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
            Start::Cursor(_) => request.cursor(self.key().map_err(PageError::Store)?, SystemTime::now())?,
            Start::Record(_) | Start::BeforeEnd(_) | Start::Within { .. } => None,
        };
        let offload = self.store.find(&request.tenant, request.offload).map_err(PageError::Store)?;
        let (number, file) = find_section(offload.record(), &request.section)?;
        let reader = offload.open(&file.name).map_err(PageError::Store)?;
        let (expires, growth) = (offload.expires(), offload.growth());
        let source = PageSource { offload: offload.id(), expires, growth, number, section: &reader };
        let sign = |cursor: &Cursor| Ok(self.key()?.sign(&request.tenant, cursor));
        read_page(request, &source, cursor, self.bytes_max, Reader::verify, sign)
    }
}
