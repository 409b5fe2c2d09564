//! All records of a section, one after another.

use std::collections::VecDeque;
use std::panic::resume_unwind;

use futures_util::stream::{Stream, try_unfold};
use tokio::task::spawn_blocking;

use super::{Page, PageContent, PageError, PageRequest, Pages, Start};

/// Where a stream of records is.
struct Walk {
    pages: Pages,
    /// `None` after the last page.
    request: Option<PageRequest>,
    /// Records of the page that was read last.
    read: VecDeque<String>,
    /// The beginning of a record that is larger than a page.
    begun: String,
}

impl Pages {
    /// Returns all records of a section, or all lines of a text, from the start of the request on. A section with a
    /// single value is one item, a binary file is one in base64.
    ///
    /// The stream reads a page when the one before it is used up, on tokio's blocking threads: it needs a runtime. It
    /// holds one page and one record in memory, and ends after the first error.
    pub fn records(&self, request: PageRequest) -> impl Stream<Item = Result<String, PageError>> + Send + use<> {
        let walk = Walk { pages: self.clone(), request: Some(request), read: VecDeque::new(), begun: String::new() };
        try_unfold(walk, Walk::next)
    }
}

impl Walk {
    async fn next(mut self) -> Result<Option<(String, Self)>, PageError> {
        loop {
            if let Some(record) = self.read.pop_front() {
                return Ok(Some((record, self)));
            }
            let Some(request) = self.request.take() else { return Ok(None) };
            let pages = self.pages.clone();
            let (page, request) = match spawn_blocking(move || (pages.page(&request), request)).await {
                Ok(answer) => answer,
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => resume_unwind(panic),
                    // The runtime is shutting down, and drops this future.
                    Err(_) => std::future::pending().await,
                },
            };
            self.take(page?, request);
        }
    }

    fn take(&mut self, page: Page, request: PageRequest) {
        match page.content {
            PageContent::Records(records) => self.read.extend(records),
            PageContent::Text(part) | PageContent::Base64(part) => {
                self.begun.push_str(&part.data);
                if part.offset + part.bytes >= part.record_bytes {
                    self.read.push_back(std::mem::take(&mut self.begun));
                }
            }
        }
        // The cursor keeps the size of a page.
        let next = page.next.map(Start::Cursor);
        self.request = next.map(|start| PageRequest { start, bytes: None, records: None, ..request });
    }
}
