//! Collects the pages of a tool: one call of a client becomes a call of the server for each page, and one result.
//!
//! The items are copied as they stand in the pages. The result is the last page with the items of all, so that what it says
//! of the list, such as a total, stays true, and with a member `collected`.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::job;
use lro_host::mcp::{self, Following, Id, Message, Paging, ToolPage};
use lro_host::store::Digest;
use lro_json::write::{Object, string};
use lro_transport::SpoolError;

use super::Session;
use super::collected::Collected;
use super::pending::{Call, RequestKind, cancellation};
use crate::settings::CollectSettings;

/// Sends a message of the gateway itself to the server; the response to a request arrives like any other.
pub(crate) type Send = Arc<dyn Fn(Bytes) + std::marker::Send + Sync>;

/// How often a wait checks whether it is still wanted.
const TICK: Duration = Duration::from_millis(20);

/// Shortest and longest wait for a server that is asked too often and does not say how long to wait.
const WAIT_MIN: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Most characters of a server's error in the reason for an early end.
const ERROR_CHARACTERS_MAX: usize = 200;

/// Room in bytes for what stands around the items in a message: the members of the last page.
const AROUND_BYTES: u64 = 1 << 20;

/// Makes the ids of requests unique in this process.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Why the pages that came are not all.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("there are more than {0} pages (collect.pages-max)")]
    Pages(u32),
    #[error("the items have more than {0} bytes (collect.bytes-max)")]
    Bytes(u64),
    #[error("the pages took more than {0} ms (collect.milliseconds-max)")]
    Time(u128),
    #[error("the server names a page again that it has answered already")]
    Again,
    #[error("the server answered with the same items again")]
    Same,
    #[error("the page says that there are more, but not how to ask for them")]
    Unknown,
    #[error("the server has fewer items than the {0} that it names")]
    Fewer(u64),
    #[error("the server answered: {0}")]
    Server(String),
    #[error("the next page has no list at {0:?}")]
    Shape(String),
    #[error("the client cancelled the call")]
    Cancelled,
}

/// Why the call has no result.
#[derive(Debug, thiserror::Error)]
enum NoResult {
    #[error("{0}")]
    Ended(#[from] Ended),
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

/// A call whose pages are collected.
#[derive(Debug)]
pub(super) struct Collecting {
    /// The call of the client.
    pub(super) call: Call,
    pub(super) message: Message,
    pub(super) settings: CollectSettings,
    /// Whether the client has cancelled it.
    pub(super) stop: Arc<AtomicBool>,
}

/// Whether the id is that of a request of the gateway for a page.
pub(crate) fn is_own(id: &Id) -> bool {
    id.json().starts_with("\"lro-page-")
}

/// A request for a page. Dropping it cancels it, unless it is answered.
struct Asked<'a> {
    session: &'a Session,
    send: &'a Send,
    id: Id,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if self.session.take(&self.id).is_some() {
            (self.send)(cancellation(&self.id, "the page is not needed any more"));
        }
    }
}

impl Session {
    /// The call of a tool whose pages are to be collected, which is pending from now on; `None` for any other.
    pub(super) fn collecting(&self, id: &Id, call: &Call, message: &Message) -> Option<Collecting> {
        let RequestKind::Tool(tool) = &call.kind else { return None };
        let settings = self.rules.config.collect(&tool.name).filter(|_| self.rules.changes())?.clone();
        if tool.inline || call.client.inline || message.value(&["params", "task"]).is_some() {
            return None;
        }
        let stop = Arc::<AtomicBool>::default();
        self.remember(id.clone(), Call { kind: RequestKind::Collecting(Arc::clone(&stop)), ..call.clone() });
        Some(Collecting { call: call.clone(), message: message.clone(), settings, stop })
    }

    /// Collects the pages, and returns the reply to the client. Blocks.
    pub(super) async fn collect(self: &Arc<Self>, id: &Id, collecting: &Collecting, send: &Send) -> Bytes {
        let schema = match &collecting.call.kind {
            RequestKind::Tool(tool) => self.input_schema(&tool.name),
            _ => None,
        };
        let Collecting { settings, .. } = collecting;
        let deadline = Instant::now() + settings.time_max();
        let collector = Collector { session: self, collecting, send, schema, deadline, paging: settings.paging() };
        let whole = collector.run(id).await;
        self.forget(id);
        match whole {
            Ok(whole) => {
                let message = Message::read(whole);
                match message.result() {
                    Some(_) => self.filter(message, &collecting.call).await,
                    None => self.within_ceiling(message.bytes().clone(), &message, &collecting.call.client),
                }
            }
            Err(error) => {
                mcp::response(id, &mcp::with_result_type(mcp::tool_error(&error.to_string()), collecting.call.modern))
            }
        }
    }
}

struct Collector<'a> {
    session: &'a Arc<Session>,
    collecting: &'a Collecting,
    send: &'a Send,
    /// JSON Schema of the arguments.
    schema: Option<String>,
    deadline: Instant,
    paging: Paging,
}

impl Collector<'_> {
    /// The response for the client: that of the server when its result is not a page of more.
    async fn run(&self, id: &Id) -> Result<Bytes, NoResult> {
        let settings = &self.collecting.settings;
        let arguments = self.collecting.message.value(&["params", "arguments"]).filter(|arguments| arguments != "null");
        let mut arguments =
            arguments.map_or_else(|| "{}".to_owned(), |json| String::from_utf8_lossy(&json).into_owned());
        let answer = self.answer(&arguments).await?;
        let first = ToolPage::of(&answer, settings.items.as_deref());
        let Some(mut page) = first.filter(|page| page.count > 0) else { return Ok(answer.with_id(id)) };
        let mut items = page.count as u64;
        let mut following = self.following(&page, &arguments, items);
        if !matches!(following, Following::Page(_)) {
            return Ok(answer.with_id(id));
        }
        let mut whole = Collected::new(&self.session.rules.limits, id, &page)?;
        let mut asked = HashSet::from([Digest::of(arguments.as_bytes())]);
        let mut pages = 1_u64;
        let ended = loop {
            let changes = match &following {
                Following::End => break self.missing(&page, items),
                Following::Unknown => break Some(Ended::Unknown),
                Following::Page(changes) => changes,
            };
            if pages >= u64::from(settings.pages_max.get()) {
                break Some(Ended::Pages(settings.pages_max.get()));
            }
            let next = mcp::with_arguments(&arguments, changes);
            if !asked.insert(Digest::of(next.as_bytes())) {
                break Some(Ended::Again);
            }
            let new = match self.page(&next, &page.pointer).await {
                Ok(new) => new,
                Err(Ended::Cancelled) => return Err(Ended::Cancelled.into()),
                Err(ended) => break Some(ended),
            };
            if new.count == 0 {
                let ended = self.missing(&new, items);
                page = new;
                following = Following::End;
                break ended;
            }
            if new.items() == page.items() {
                break Some(Ended::Same);
            }
            let room =
                settings.bytes_max.get().min(self.session.rules.limits.message_bytes.saturating_sub(AROUND_BYTES));
            if whole.bytes().saturating_add(new.items().len() as u64) > room {
                break Some(Ended::Bytes(room));
            }
            whole.push(&new)?;
            (pages, items, arguments, page) = (pages + 1, items + new.count as u64, next, new);
            following = self.following(&page, &arguments, items);
        };
        if let Some(reason) = &ended {
            tracing::warn!(tenant = self.session.tenant(), pages, items, %reason, "not all pages were collected");
        }
        let summary = summary(pages, items, ended.as_ref(), &following);
        Ok(whole.finish(&page, &summary, self.collecting.call.modern)?)
    }

    fn following(&self, page: &ToolPage, arguments: &str, items: u64) -> Following {
        self.paging.following(page, arguments, self.schema.as_deref(), items)
    }

    /// Why a list that seems to be at its end is not whole.
    fn missing(&self, page: &ToolPage, items: u64) -> Option<Ended> {
        self.paging.total_of(page).filter(|total| *total > items).map(Ended::Fewer)
    }

    /// The page that these arguments select.
    async fn page(&self, arguments: &str, pointer: &str) -> Result<ToolPage, Ended> {
        self.wait(Duration::from_millis(self.collecting.settings.pause_ms)).await?;
        let answer = self.answer(arguments).await?;
        ToolPage::of(&answer, Some(pointer))
            .ok_or_else(|| error_text(&answer).map_or_else(|| Ended::Shape(pointer.to_owned()), Ended::Server))
    }

    /// The answer to a call with these arguments. Calls again, later, while the server says that it is called too often.
    async fn answer(&self, arguments: &str) -> Result<Message, Ended> {
        let mut pause = WAIT_MIN;
        loop {
            let answer = self.ask(arguments).await?;
            let Some(text) = error_text(&answer).filter(|text| is_too_often(text)) else { return Ok(answer) };
            let wait = retry_after(&text).unwrap_or(pause);
            if Instant::now() + wait > self.deadline {
                return Err(Ended::Server(text));
            }
            self.wait(wait).await?;
            pause = (pause * 2).min(WAIT_MAX);
        }
    }

    async fn ask(&self, arguments: &str) -> Result<Message, Ended> {
        let id = Id::own(&format!("lro-page-{:x}-{}", std::process::id(), REQUESTS.fetch_add(1, Ordering::Relaxed)));
        let (answer, answered) = mpsc::sync_channel(1);
        self.session.expect_page(id.clone(), answer);
        let _asked = Asked { session: self.session, send: self.send, id: id.clone() };
        (self.send)(mcp::page_request(&self.collecting.message, &id, arguments));
        loop {
            match answered.recv_timeout(TICK) {
                Ok(answer) => return Ok(Message::read(answer)),
                Err(RecvTimeoutError::Timeout) => self.check().await?,
                Err(RecvTimeoutError::Disconnected) => return Err(Ended::Server("the call has ended".to_owned())),
            }
        }
    }

    async fn wait(&self, time: Duration) -> Result<(), Ended> {
        let end = Instant::now() + time;
        self.check().await?;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            thread::sleep(left.min(TICK));
            self.check().await?;
        }
        Ok(())
    }

    /// Lets a caller that has gone cancel the work, and ends it when it takes too long.
    async fn check(&self) -> Result<(), Ended> {
        job::pause().await;
        if self.collecting.stop.load(Ordering::Relaxed) {
            return Err(Ended::Cancelled);
        }
        if Instant::now() >= self.deadline {
            return Err(Ended::Time(self.collecting.settings.time_max().as_millis()));
        }
        Ok(())
    }
}

/// The member `collected`: `{"pages", "records", "complete"}`, and the reason and the arguments that continue when it is not
/// complete.
fn summary(pages: u64, items: u64, ended: Option<&Ended>, following: &Following) -> String {
    let mut object = Object::default();
    object.member("pages", &pages.to_string()).member("records", &items.to_string());
    object.member("complete", if ended.is_none() { "true" } else { "false" });
    if let Some(ended) = ended {
        object.member("reason", &string(&ended.to_string()));
        if let Following::Page(changes) = following {
            let mut next = Object::default();
            for (name, value) in changes {
                next.member(name, value);
            }
            object.member("next", &next.finish());
        }
    }
    object.finish()
}

/// The beginning of the text of an error of the protocol or of the tool.
fn error_text(answer: &Message) -> Option<String> {
    let is_error = answer.value(&["result", "isError"]).is_some_and(|flag| flag == "true");
    let text: Option<String> = match answer.value(&["error", "message"]) {
        Some(message) => serde_json::from_slice(&message).ok(),
        None => {
            let content = answer.value(&["result", "content"]).filter(|_| is_error)?;
            let blocks: Vec<serde_json::Value> = serde_json::from_slice(&content).ok()?;
            blocks.iter().find_map(|block| block.get("text")?.as_str()).map(str::to_owned)
        }
    };
    Some(text?.chars().take(ERROR_CHARACTERS_MAX).collect())
}

/// Whether an error says that the server is called too often.
fn is_too_often(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.split(|character: char| !character.is_ascii_alphanumeric()).any(|word| word == "429")
        || ["rate limit", "rate-limit", "too many requests"].iter().any(|sign| text.contains(sign))
}

/// How long to wait, as an error says: the number of seconds after `retry-after` or `retry after`.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    let (_, rest) = text.split_once("retry-after").or_else(|| text.split_once("retry after"))?;
    let rest = rest.trim_start_matches([':', '=', '"', '\\', ' ']);
    let digits = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok().map(Duration::from_secs)
}
