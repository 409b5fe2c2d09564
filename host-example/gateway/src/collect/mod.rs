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
use serde::{Deserialize, Serialize};

pub use self::ended::{Ended, arguments_of, summary};
pub use self::refusal::error_text;
use self::refusal::{is_too_often, retry_after};
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

/// A number of pages, and of their records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Pages.
    pub pages: u64,
    /// Records.
    pub records: u64,
}

impl Count {
    /// This many, and these.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self { pages: self.pages.saturating_add(more.pages), records: self.records.saturating_add(more.records) }
    }
}

/// A page, for the one who keeps it, and how far the collection is with it.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// The page.
    pub page: &'a ToolPage,
    /// How many there are so far.
    pub count: Count,
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
        /// How many pages and records were kept.
        count: Count,
        /// What follows the pages that were kept.
        following: Following,
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
    /// Longest time for all pages together; `None`: no limit.
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
    /// [`CollectError`] when there is no first answer, a page cannot be kept, or the system cannot start a thread.
    pub async fn run<E>(
        &self,
        arguments: String,
        keep: impl FnMut(&Kept<'_>) -> Result<(), E>,
    ) -> Result<Collected, CollectError<E>> {
        let clock = Clock::get().map_err(CollectError::Clock)?;
        let deadline = self.time_max.and_then(|time| Instant::now().checked_add(time));
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
        let mut count = Count { pages: 1, records: page.count as u64 };
        let mut bytes = page.items().len() as u64;
        let Following::Page(changes) = self.following(&page, &arguments, count.records) else {
            return Ok(Collected::Single(first));
        };
        // Where a list begins in the middle, its total says nothing about its end.
        let before = self.paging.before(&arguments, &changes, &page, self.collector.schema).unwrap_or(u64::MAX);
        let position = |count: Count| before.saturating_add(count.records);
        let mut following = self.following(&page, &arguments, position(count));
        if !matches!(following, Following::Page(_)) {
            return Ok(Collected::Single(first));
        }
        // The page is enough from here on.
        drop(first);
        let mut known = HashSet::from([Digest::of(arguments.as_bytes())]);
        let mut requests = Requests::default();
        let ended = loop {
            let total = self.paging.total_of(&page);
            let kept = Kept { page: &page, count, total, following: &following };
            let next = self.next(&kept, &arguments, position(count), &mut known);
            if let Ok(next) = &next {
                self.ask_ahead(&mut requests, &kept, next, position(count));
            }
            // The server works on the next page while this one is kept.
            keep(&kept).map_err(CollectError::Keep)?;
            let next = match next {
                Ok(next) => next,
                Err(ended) => break ended,
            };
            let new = match self.page(&mut requests, &page.pointer).await {
                Ok(new) => new,
                Err(ended) => break Some(ended),
            };
            if new.count == 0 {
                let ended = missing(self.paging.total_of(&new), position(count));
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
            (arguments, page) = (next, new);
            count = count.plus(Count { pages: 1, records: page.count as u64 });
            following = self.following(&page, &arguments, position(count));
        };
        Ok(Collected::Pages { last: page, count, following, ended })
    }

    /// What follows a page at whose end this many items of the list are known.
    fn following(&self, page: &ToolPage, arguments: &str, position: u64) -> Following {
        self.paging.following(page, arguments, self.collector.schema, position)
    }

    /// The arguments of the page after this one, or why there is none.
    fn next(
        &self,
        kept: &Kept<'_>,
        arguments: &str,
        position: u64,
        known: &mut HashSet<Digest>,
    ) -> Result<String, Option<Ended>> {
        let changes = match kept.following {
            Following::End => return Err(missing(kept.total, position)),
            Following::Unknown => return Err(Some(Ended::Unknown)),
            Following::Page(changes) => changes,
        };
        let pages_max = self.collector.settings.pages_max.get();
        if kept.count.pages >= u64::from(pages_max) {
            return Err(Some(Ended::Pages(pages_max)));
        }
        let next = mcp::with_arguments(arguments, changes);
        if known.insert(Digest::of(next.as_bytes())) { Ok(next) } else { Err(Some(Ended::Again)) }
    }

    /// Asks for the next page and, where pages are numbered, for as many after it as may be under way at a time.
    fn ask_ahead<'s>(&'s self, requests: &mut Requests<'s>, kept: &Kept<'_>, next: &str, position: u64) {
        let Kept { page, count, total, following } = *kept;
        // What was expected to follow does not.
        if !requests.begin_with(next) {
            *requests = Requests::default();
            requests.push(next.to_owned(), self.request(next));
        }
        let settings = self.collector.settings;
        let allowed = u64::from(settings.pages_max.get()).saturating_sub(count.pages);
        let left = total.map(|total| total.saturating_sub(position).div_ceil(page.count as u64));
        let wanted = u64::from(settings.concurrency.get()).min(allowed).min(left.unwrap_or(u64::MAX));
        let Following::Page(changes) = following else { return };
        let ahead = self.paging.ahead(changes, page, self.collector.schema);
        for changes in ahead.take(usize::try_from(wanted).unwrap_or(usize::MAX)).skip(requests.count()) {
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

/// Why a list that seems to be at its end is not whole.
fn missing(total: Option<u64>, position: u64) -> Option<Ended> {
    total.filter(|total| *total > position).map(Ended::Fewer)
}
