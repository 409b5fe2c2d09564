//! Collects the pages of a tool: one call becomes a call of the server for each page.
//!
//! Where a page is asked for by its number, requests may run ahead of the answers: each is one that the pages before it
//! were expected to lead to, and its answer counts only if they do.

mod ended;
mod refusal;
mod requests;

use std::collections::HashSet;
use std::io;
use std::time::{Duration, Instant};

use lro_host::mcp::{self, Following, Message, Paging, ToolPage};
use lro_host::store::Digest;

pub use self::ended::{Ended, arguments_of, summary};
use self::refusal::{error_text, is_too_often, retry_after};
use self::requests::{Asking, Requests};
use crate::clock::Clock;
use crate::settings::CollectSettings;

/// Shortest and longest wait for a server that is called too often and does not say how long to wait.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Longest wait that a server may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3_600);

/// Why nothing was collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectError<E> {
    /// There was no first answer.
    #[error("{0}")]
    Ended(Ended),
    /// A page could not be kept.
    #[error(transparent)]
    Keep(E),
    /// The clock could not be started.
    #[error("the system cannot start a thread: try again in a moment")]
    Clock(#[source] io::Error),
}

/// A page, for the one who keeps it, and how far the collection is with it.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// The page.
    pub page: &'a ToolPage,
    /// Pages so far.
    pub pages: u64,
    /// Records of these pages.
    pub records: u64,
    /// Records of the whole list, if the page says so.
    pub total: Option<u64>,
    /// What follows the page.
    pub following: &'a Following,
}

/// What a server answered.
#[derive(Debug)]
pub enum Collected {
    /// The first answer is the whole result: a list without a next page, an error, or anything else.
    Single(Message),
    /// Pages, each of which was kept.
    Pages {
        /// The last page, which may be empty and was not kept then.
        last: ToolPage,
        /// The member `collected` of the result.
        summary: String,
        /// Why they are not all.
        ended: Option<Ended>,
    },
}

/// How the pages of one call are asked for.
#[derive(Debug)]
pub struct Collector<'a, Ask> {
    /// The settings of the tool.
    pub settings: &'a CollectSettings,
    /// JSON Schema of the arguments of the tool.
    pub schema: Option<&'a str>,
    /// Most milliseconds of all; `None` without a limit.
    pub time_max: Option<Duration>,
    /// Most bytes of all items.
    pub bytes_max: u64,
    /// Calls the tool with these arguments, a JSON object, at once. Gives the answer, or why there is none.
    pub ask: Ask,
}

impl<Ask, Asked> Collector<'_, Ask>
where
    Ask: Fn(&str) -> Asked + Sync,
    Asked: Future<Output = Result<Message, String>> + Send + 'static,
{
    /// Collects the pages from the one on that these arguments select, and calls `keep` with each in their order. Dropping
    /// the future gives up the requests that are under way.
    ///
    /// # Errors
    /// [`CollectError`] when there is no first answer, a page cannot be kept, or the system has no thread left.
    pub async fn run<E>(
        &self,
        arguments: String,
        keep: impl FnMut(&Kept<'_>) -> Result<(), E>,
    ) -> Result<Collected, CollectError<E>> {
        let clock = Clock::get().map_err(CollectError::Clock)?;
        let deadline = self.time_max.map(|time| Instant::now() + time);
        let collection = Collection { collector: self, paging: self.settings.paging(), clock, deadline };
        collection.run(arguments, keep).await
    }
}

/// A collection under way.
struct Collection<'a, Ask> {
    collector: &'a Collector<'a, Ask>,
    paging: Paging,
    clock: Clock,
    deadline: Option<Instant>,
}

impl<Ask, Asked> Collection<'_, Ask>
where
    Ask: Fn(&str) -> Asked + Sync,
    Asked: Future<Output = Result<Message, String>> + Send + 'static,
{
    async fn run<E>(
        &self,
        mut arguments: String,
        mut keep: impl FnMut(&Kept<'_>) -> Result<(), E>,
    ) -> Result<Collected, CollectError<E>> {
        let settings = self.collector.settings;
        let first = self.answer((self.collector.ask)(&arguments), arguments.clone());
        let first = self.in_time(first).await.map_err(CollectError::Ended)?;
        let Some(mut page) = ToolPage::of(&first, settings.items.as_deref()).filter(|page| page.count > 0) else {
            return Ok(Collected::Single(first));
        };
        let (mut pages, mut records, mut bytes) = (1_u64, page.count as u64, page.items().len() as u64);
        let mut following = self.following(&page, &arguments, records);
        if !matches!(following, Following::Page(_)) {
            return Ok(Collected::Single(first));
        }
        // The page is enough from here on.
        drop(first);
        let mut known = HashSet::from([Digest::of(arguments.as_bytes())]);
        let mut requests = Requests::default();
        let ended = loop {
            let next = self.next(&page, &following, &arguments, (pages, records), &mut known);
            if let Ok(next) = &next {
                self.ask_ahead(&mut requests, &page, &following, next, (pages, records));
            }
            // The server works on the next page while this one is kept.
            let total = self.paging.total_of(&page);
            keep(&Kept { page: &page, pages, records, total, following: &following }).map_err(CollectError::Keep)?;
            let next = match next {
                Ok(next) => next,
                Err(ended) => break ended,
            };
            let new = match self.page(&mut requests, &page.pointer).await {
                Ok(new) => new,
                Err(ended) => break Some(ended),
            };
            if new.count == 0 {
                let ended = self.missing(&new, records);
                (page, following) = (new, Following::End);
                break ended;
            }
            if new.items() == page.items() {
                break Some(Ended::Same);
            }
            bytes = bytes.saturating_add(new.items().len() as u64);
            if bytes > self.collector.bytes_max {
                break Some(Ended::Bytes(self.collector.bytes_max));
            }
            (pages, records, arguments, page) = (pages + 1, records + new.count as u64, next, new);
            following = self.following(&page, &arguments, records);
        };
        let summary = summary(pages, records, ended.as_ref(), &following);
        Ok(Collected::Pages { last: page, summary, ended })
    }

    fn following(&self, page: &ToolPage, arguments: &str, records: u64) -> Following {
        self.paging.following(page, arguments, self.collector.schema, records)
    }

    /// Why a list that seems to be at its end is not whole.
    fn missing(&self, page: &ToolPage, records: u64) -> Option<Ended> {
        self.paging.total_of(page).filter(|total| *total > records).map(Ended::Fewer)
    }

    /// The arguments of the next page, or why there is none.
    fn next(
        &self,
        page: &ToolPage,
        following: &Following,
        arguments: &str,
        (pages, records): (u64, u64),
        known: &mut HashSet<Digest>,
    ) -> Result<String, Option<Ended>> {
        let changes = match following {
            Following::End => return Err(self.missing(page, records)),
            Following::Unknown => return Err(Some(Ended::Unknown)),
            Following::Page(changes) => changes,
        };
        let pages_max = self.collector.settings.pages_max.get();
        if pages >= u64::from(pages_max) {
            return Err(Some(Ended::Pages(pages_max)));
        }
        let next = mcp::with_arguments(arguments, changes);
        if known.insert(Digest::of(next.as_bytes())) { Ok(next) } else { Err(Some(Ended::Again)) }
    }

    /// Asks for the next page and, where pages are numbered, for as many after it as may be under way at a time.
    fn ask_ahead<'s>(
        &'s self,
        requests: &mut Requests<'s>,
        page: &ToolPage,
        following: &Following,
        next: &str,
        (pages, records): (u64, u64),
    ) {
        // What was expected to follow does not.
        if !requests.begin_with(next) {
            *requests = Requests::default();
            requests.push(next.to_owned(), self.request(next));
        }
        let settings = self.collector.settings;
        let allowed = u64::from(settings.pages_max.get()).saturating_sub(pages);
        let total = self.paging.total_of(page);
        let left = total.map(|total| total.saturating_sub(records).div_ceil(page.count as u64));
        let count = u64::from(settings.concurrency.get()).min(allowed).min(left.unwrap_or(u64::MAX));
        let Following::Page(changes) = following else { return };
        let ahead = self.paging.ahead(changes, page, self.collector.schema);
        for changes in ahead.take(usize::try_from(count).unwrap_or(usize::MAX)).skip(requests.count()) {
            let arguments = mcp::with_arguments(next, &changes);
            let asked = self.request(&arguments);
            requests.push(arguments, asked);
        }
    }

    /// The page that the first request asks for.
    async fn page(&self, requests: &mut Requests<'_>, pointer: &str) -> Result<ToolPage, Ended> {
        let answer = async { requests.next().await.unwrap_or(Err(Ended::Unknown)) };
        let answer = self.in_time(answer).await?;
        ToolPage::of(&answer, Some(pointer))
            .ok_or_else(|| error_text(&answer).map_or_else(|| Ended::Shape(pointer.to_owned()), Ended::Server))
    }

    /// Asks for the page after the one that came, at once or after the pause between two requests.
    fn request(&self, arguments: &str) -> Asking<'_> {
        let pause = Duration::from_millis(self.collector.settings.pause_ms);
        if pause.is_zero() {
            return Box::pin(self.answer((self.collector.ask)(arguments), arguments.to_owned()));
        }
        let (slept, arguments) = (self.clock.sleep(pause), arguments.to_owned());
        Box::pin(async move {
            slept.await;
            self.answer((self.collector.ask)(&arguments), arguments).await
        })
    }

    /// The answer to a call with these arguments. Calls again, later, while the server says that it is called too often.
    async fn answer(&self, mut asked: Asked, arguments: String) -> Result<Message, Ended> {
        let mut pause = WAIT_MIN;
        loop {
            let answer = asked.await.map_err(Ended::Server)?;
            let Some(text) = error_text(&answer).filter(|text| is_too_often(text)) else { return Ok(answer) };
            let wait = retry_after(&text).unwrap_or(pause);
            let is_in_time = |end| self.deadline.is_none_or(|deadline| end < deadline);
            if wait > RETRY_AFTER_MAX || !Instant::now().checked_add(wait).is_some_and(is_in_time) {
                return Err(Ended::Server(text));
            }
            self.clock.sleep(wait).await;
            pause = (pause * 2).min(WAIT_MAX);
            asked = (self.collector.ask)(&arguments);
        }
    }

    async fn in_time<T>(&self, future: impl Future<Output = Result<T, Ended>>) -> Result<T, Ended> {
        let late = || Err(Ended::Time(self.collector.time_max.unwrap_or_default().as_millis()));
        self.clock.until(self.deadline, future).await.unwrap_or_else(late)
    }
}
