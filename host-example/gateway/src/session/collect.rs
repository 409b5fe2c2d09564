//! Calls whose pages the gateway collects: one call of a client becomes a call of the server for each page, and one result.
//!
//! The items are copied as they stand in the pages. The result is the last page with the items of all, so that what it says
//! of the list, such as a total, stays true, and with a member `collected`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, Id, Message};
use lro_json::write::thousands;
use lro_transport::SpoolError;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Session;
use super::collected::CollectedResult;
use super::decision::{FromClient, FromServer, ServerDecision};
use super::own_request::{SendOwn, own_id};
use super::pending::{Call, Detachment, RequestKind};
use crate::clock::Clock;
use crate::collect::{CollectError, Collected, Collector, Count, Ended, Kept, summary};
use crate::settings::CollectSettings;
use crate::tenants::jobs::{Outcome, Progress};

/// How often a collection that is a job is checked for its cancellation.
const JOB_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Room in bytes for what stands around the items in a message: the members of the last page.
const AROUND_BYTES: u64 = 1 << 20;

/// A call whose pages are collected.
#[derive(Debug)]
pub(super) struct Collecting {
    pub(super) call: Call,
    message: Message,
    settings: CollectSettings,
    shared: Arc<CollectState>,
}

/// What those who do not collect do with a collection: end it, and see how far it is.
#[derive(Debug, Default)]
pub(crate) struct CollectState {
    stop: Notify,
    progress: Mutex<Option<Progress>>,
}

impl CollectState {
    /// Ends the collection without a result.
    pub(super) fn stop(&self) {
        self.stop.notify_one();
    }

    pub(super) fn progress(&self) -> Option<Progress> {
        self.progress.lock().clone()
    }
}

impl Session {
    /// The call of a tool whose pages are to be collected, which is pending from now on; `None` for any other.
    pub(super) fn collecting(&self, id: &Id, call: &Call, message: &Message) -> Option<Collecting> {
        let settings = self.collects(call, message)?.clone();
        let shared = Arc::<CollectState>::default();
        let call = Call { collect: Some(Arc::clone(&shared)), is_forwarded: true, ..call.clone() };
        self.remember(id.clone(), call.clone());
        Some(Collecting { call, message: message.clone(), settings, shared })
    }

    /// How the pages of a call are to be collected; `None` when they are not.
    pub(super) fn collects(&self, call: &Call, message: &Message) -> Option<&CollectSettings> {
        let RequestKind::Tool(tool) = &call.kind else { return None };
        let is_exempt = tool.inline || call.client.inline || message.value(&["params", "task"]).is_some();
        self.rules.config.collect(&tool.name).filter(|_| self.rules.changes() && !is_exempt)
    }

    /// Collects the pages, and decides what becomes of the call. To be polled on threads that may block.
    pub(super) async fn collect(self: &Arc<Self>, id: &Id, collecting: &Collecting, send: &SendOwn) -> FromClient {
        let whole = tokio::select! {
            biased;
            () = self.stopped(id, collecting) => Err(Ended::Cancelled.to_string()),
            whole = self.pages(id, collecting, send) => whole.map_err(|error| error.to_string()),
        };
        let whole = match whole {
            Ok(whole) => Message::read(whole),
            Err(reason) => return self.not_collected(id, collecting, reason),
        };
        let call = self.take(id).unwrap_or_else(|| collecting.call.clone());
        let decided = match self.tool_answer(whole, call) {
            ServerDecision::Ready(decided) => decided,
            ServerDecision::Filter(filtering) => filtering.job.await,
        };
        match decided {
            FromServer::Pass(answer) => FromClient::Answer(answer),
            FromServer::Refuse(_) | FromServer::Nothing => FromClient::Nothing,
        }
    }

    /// Ends a call without a result, for this reason.
    pub(super) fn not_collected(&self, id: &Id, collecting: &Collecting, reason: String) -> FromClient {
        let call = self.take(id).unwrap_or_else(|| collecting.call.clone());
        if let Some(job) = &call.job {
            self.end_job(job, Outcome::Failed(reason));
            return FromClient::Nothing;
        }
        let error = mcp::with_result_type(mcp::tool_error(&reason), call.modern);
        FromClient::Answer(call.shaped(mcp::response(id, &error)))
    }

    /// Waits until the client cancels the call, or the job that it has become.
    async fn stopped(&self, id: &Id, collecting: &Collecting) {
        let canceled = async {
            let Ok(clock) = Clock::get() else { return std::future::pending().await };
            while !self.job_of(id).is_some_and(|job| job.is_canceled()) {
                clock.sleep(JOB_POLL_INTERVAL).await;
            }
        };
        tokio::select! {
            () = collecting.shared.stop.notified() => {}
            () = canceled => {}
        }
    }

    /// The response for the client: that of the server when its result is not a page of more.
    async fn pages(
        self: &Arc<Self>,
        id: &Id,
        collecting: &Collecting,
        send: &SendOwn,
    ) -> Result<Bytes, CollectError<SpoolError>> {
        let Collecting { call, message, settings, shared } = collecting;
        let schema = match &call.kind {
            RequestKind::Tool(tool) => self.input_schema(&tool.name),
            _ => None,
        };
        let limits = &self.rules.limits;
        let job_time = Duration::from_secs(self.rules.config.gateway.job_seconds_max.get());
        let collector = Collector {
            settings,
            schema: schema.as_deref(),
            time_max: Some(settings.time_max(call.detachment.as_ref().map(|_| job_time))),
            bytes_max: settings.bytes_max.get().min(limits.message_bytes.saturating_sub(AROUND_BYTES)),
            ask: |arguments: &str| self.ask(message, arguments, send),
        };
        let arguments = message.value(&["params", "arguments"]).filter(|arguments| arguments != "null");
        let arguments = arguments.map_or_else(|| "{}".to_owned(), |json| String::from_utf8_lossy(&json).into_owned());
        let mut whole = None;
        let keep = |kept: &Kept<'_>| {
            self.report(id, shared, kept);
            self.keep_items(call, kept);
            match &mut whole {
                None => whole = Some(CollectedResult::new(limits, id, kept.page)?),
                Some(whole) => whole.push(kept.page)?,
            }
            Ok(())
        };
        let (last, count, following, ended) = match collector.run(arguments, keep).await? {
            Collected::Single(answer) => return Ok(answer.with_id(id)),
            Collected::Pages { last, count, following, ended } => (last, count, following, ended),
        };
        let summary = summary(count, ended.as_ref(), &following);
        if let Some(reason) = ended {
            // A text is logged escaped, as this one may quote the server.
            let reason = reason.to_string();
            tracing::warn!(tenant = self.tenant(), reason, collected = summary, "not all pages were collected");
        }
        let whole = whole.map_or_else(|| CollectedResult::new(limits, id, &last), Ok);
        whole.and_then(|whole| whole.finish(&last, &summary, call.modern)).map_err(CollectError::Keep)
    }

    /// Keeps the items of a page for those who read before the end. Blocks.
    fn keep_items(&self, call: &Call, kept: &Kept<'_>) {
        if let (Some(Detachment { parts, .. }), Ok(store)) = (&call.detachment, &self.rules.filter.store)
            && parts.take_items(kept.page.items())
        {
            parts.write(store);
        }
    }

    /// Says how far a collection is.
    fn report(&self, id: &Id, shared: &CollectState, kept: &Kept<'_>) {
        let Kept { count: Count { pages, records }, total, .. } = *kept;
        let message = format!("page {}, {} records", thousands(pages), thousands(records));
        let (progress, total) = (records as f64, total.map(|total| total as f64));
        let progress = Progress { progress, total, message: Some(message), at: Instant::now() };
        if let Some(job) = self.job_of(id) {
            job.report(progress.clone());
        }
        *shared.progress.lock() = Some(progress);
    }

    /// Asks the server for a page. Gives its answer, or why there is none.
    fn ask(
        self: &Arc<Self>,
        call: &Message,
        arguments: &str,
        send: &SendOwn,
    ) -> impl Future<Output = Result<Message, String>> + Send + use<> {
        let id = own_id();
        let request = mcp::page_request(call, &id, arguments);
        self.ask_own(send, id, request)
    }
}
