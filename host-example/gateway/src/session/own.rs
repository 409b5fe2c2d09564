//! Calls that the gateway answers itself, of its own tools and resources, and calls whose arguments it fills in.

use std::future::ready;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::job;
use lro_host::mcp::{
    self, EXTRACT_TOOL, INTERNAL_ERROR, INVALID_PARAMS, Id, Message, ProtocolError, READ_TOOL, RequestedOutputs, Tools,
};
use tokio::sync::OwnedSemaphorePermit;
use tracing::{Instrument as _, Span};

use super::ceiling::{Reader, SHORTER_MAX};
use super::intercept::{InterceptError, Interception};
use super::job::task::TaskRequest;
use super::job::wait::Awaited;
use super::job::watch::WatchCall;
use super::job::{JOB_TOOL, tool};
use crate::files::{self, FILES_TOOL};
use crate::session::collect::Collecting;
use crate::session::{Call, FromClient, SendOwn, Session, arguments, description, handles, outputs, reuse};
use crate::settings::ClientProfile;
use crate::tenants::caches::CachedReply;
use crate::tenants::workers::Workers;
use crate::trace;

/// Error for an answer that exceeds the limit of its client or preset.
pub(crate) const ANSWER_TOO_LARGE: &str =
    "the answer is larger than this client accepts: ask for fewer records, fields or bytes";

/// Instructions about the gateway for the model.
pub(crate) fn guidance(has_jobs: bool) -> String {
    let jobs = if has_jobs { tool::guidance() } else { String::new() };
    format!("{}{jobs}", mcp::guidance())
}

/// Work of the gateway that a client's message requires.
#[derive(Debug)]
pub(crate) struct OwnCall {
    session: Arc<Session>,
    id: Id,
    client: Arc<ClientProfile>,
    modern: bool,
    outputs: Option<Arc<RequestedOutputs>>,
    span: Span,
    kind: OwnCallKind,
}

/// What a client's message requires.
#[derive(Debug)]
pub(super) enum OwnCallKind {
    /// A call of one of the gateway's tools, with its arguments as JSON.
    Tool(&'static str, String),
    /// A read of one of the gateway's resources.
    Resource(String),
    /// A request for an address to download a file from.
    Download(String),
    /// A request about the policy as an interceptor.
    Intercept { interception: Interception, call: Box<Call> },
    /// A call of the tool for jobs: its arguments, or why they cannot be read. It may wait, so it keeps its permits.
    Job { arguments: Result<tool::Arguments, String>, progress: Option<Id>, _permits: Vec<Arc<OwnedSemaphorePermit>> },
    /// A request about a task that is a job. It may wait, too.
    Task { asked: TaskRequest, _permits: Vec<Arc<OwnedSemaphorePermit>> },
    /// A request about subscriptions to jobs.
    Watch(WatchCall),
    /// A call of a server's tool, with references in its arguments.
    Arguments(Message),
    /// A call of a server's tool, identical to an earlier one, and the cached reply.
    Reused { call: Box<Call>, cached: Arc<CachedReply>, message: Bytes },
    /// A call of a server's tool whose pages are collected.
    Collect(Box<Collecting>),
}

impl OwnCall {
    /// Creates a call of one of the gateway's tools.
    pub(crate) fn tool(session: &Arc<Session>, id: &Id, call: &Call, tool: &str, arguments: &str) -> Self {
        let known = [EXTRACT_TOOL, READ_TOOL, FILES_TOOL].into_iter().find(|known| *known == tool);
        let tool = known.unwrap_or(READ_TOOL);
        Self::new(session, id, call, OwnCallKind::Tool(tool, arguments.to_owned()))
    }

    /// Creates a call of the tool for jobs.
    pub(crate) fn job(session: &Arc<Session>, id: &Id, call: &Call, arguments: &str) -> Self {
        let given = |arguments: tool::Arguments| arguments.give(session).map(|()| arguments);
        let (arguments, permits) = (tool::Arguments::read(arguments).and_then(given), call.permits.clone());
        let progress = call.progress.clone();
        Self::new(session, id, call, OwnCallKind::Job { arguments, progress, _permits: permits })
    }

    /// Creates a request about the policy as an interceptor.
    pub(super) fn intercept(session: &Arc<Session>, id: &Id, call: &Call, interception: Interception) -> Self {
        let of_request = Box::new(call.clone());
        Self::new(session, id, call, OwnCallKind::Intercept { interception, call: of_request })
    }

    /// Creates a pending call with a cached reply. It goes to the server if the offload behind the reply is gone.
    pub(crate) fn reused(
        session: &Arc<Session>,
        id: &Id,
        call: &Call,
        cached: Arc<CachedReply>,
        message: &Message,
    ) -> Self {
        let message = message.bytes().clone();
        Self::new(session, id, call, OwnCallKind::Reused { call: Box::new(call.clone()), cached, message })
    }

    /// Creates a pending call whose pages are collected.
    pub(super) fn collect(session: &Arc<Session>, id: &Id, collecting: Collecting) -> Self {
        let call = collecting.call.clone();
        Self::new(session, id, &call, OwnCallKind::Collect(Box::new(collecting)))
    }

    /// The id of a call that waits for the server, and so must not hold a thread.
    pub(super) fn waits(&self) -> Option<&Id> {
        matches!(self.kind, OwnCallKind::Collect(_)).then_some(&self.id)
    }

    /// The threads that run the call.
    pub(super) fn workers(&self) -> &Workers {
        match self.kind {
            OwnCallKind::Collect(_) => &self.session.rules.collectors,
            // It reads one small file, and the calls that waited for one job come at once.
            OwnCallKind::Job { .. } | OwnCallKind::Task { .. } | OwnCallKind::Watch(_) => &self.session.rules.workers,
            _ => &self.session.rules.questions,
        }
    }

    pub(super) fn new(session: &Arc<Session>, id: &Id, call: &Call, kind: OwnCallKind) -> Self {
        let (session, client) = (Arc::clone(session), Arc::clone(&call.client));
        let (outputs, span) = (call.outputs.clone(), call.span.clone());
        Self { session, id: id.clone(), client, modern: call.modern, outputs, span, kind }
    }

    /// Does what need not wait for a thread. Returns the job that the call waits for before it runs, and until when.
    pub(super) fn begin(&self) -> Option<(Awaited, Instant)> {
        match &self.kind {
            OwnCallKind::Job { arguments: Ok(arguments), progress, .. } => {
                let (job, until) = arguments.begin(&self.session)?;
                if let (Some(token), Awaited::Here(job)) = (progress, &job) {
                    self.session.begin_waiting(&self.id, token, job, until);
                }
                Some((job, until))
            }
            OwnCallKind::Task { asked, .. } => {
                let (job, until) = asked.begin(&self.session)?;
                if let Awaited::End(job) = &job
                    && !self.modern
                {
                    self.session.begin_giving(&self.id, job, until);
                }
                Some((job, until))
            }
            _ => None,
        }
    }

    /// Runs the call. It reads files, so poll it on a thread that may block. `send` is for requests of the gateway itself.
    pub(crate) async fn run(&self, send: &SendOwn) -> FromClient {
        // In place, as it is large.
        pin!(self.decided(send)).instrument(self.span.clone()).await
    }

    async fn decided(&self, send: &SendOwn) -> FromClient {
        let start = Instant::now();
        let (name, answer) = match (&self.kind, self.session.rules.tools.as_ref()) {
            (OwnCallKind::Arguments(message), _) => return self.replace_references(message),
            (OwnCallKind::Reused { call, cached, message }, _) => return self.reuse_reply(call, cached, message),
            (OwnCallKind::Collect(collecting), _) => {
                return self.session.collect(&self.id, collecting, send).await;
            }
            (OwnCallKind::Intercept { interception, call }, _) => {
                match interception.answer(&self.session, call).await {
                    Ok(result) => ("interceptor", self.message(Ok(result))),
                    Err(failure) => return FromClient::Answer(failure.response(&self.id)),
                }
            }
            (OwnCallKind::Tool(tool, arguments), Some(tools)) => {
                let read = |tools: Tools| async move { self.read_tool(&tools, tool, arguments).await };
                (*tool, self.read_back(tools, read).instrument(trace::of_query(tool)).await)
            }
            (OwnCallKind::Watch(watch), _) => return watch.run(&self.session, &self.id, self.modern),
            (OwnCallKind::Job { arguments, .. }, _) => {
                self.session.end_waiting(&self.id);
                let answer = |arguments| tool::answer(&self.session, arguments);
                let result = arguments.as_ref().map_or_else(|reason| mcp::tool_error(reason), answer);
                (JOB_TOOL, self.message(Ok(result)))
            }
            (OwnCallKind::Task { asked, .. }, _) => {
                self.session.end_waiting(&self.id);
                ("task", self.message(asked.answer(&self.session, self.modern)))
            }
            (OwnCallKind::Resource(uri), Some(_)) if uri.starts_with(tool::JOBS_URI) => {
                ("resource", self.message(tool::resource(&self.session, uri, self.modern)))
            }
            (OwnCallKind::Resource(uri), Some(_)) if uri.starts_with(description::URI) => {
                ("resource", self.message(description::resource(&self.session, uri, self.modern)))
            }
            (OwnCallKind::Resource(uri), Some(tools)) => {
                let read = |tools: Tools| ready(tools.resource(&self.session.owner.tenant, uri, self.modern));
                ("resource", self.read_back(tools, read).await)
            }
            (OwnCallKind::Download(uri), Some(tools)) => ("download", self.message(self.authorized(tools, uri))),
            (OwnCallKind::Tool(..) | OwnCallKind::Resource(_) | OwnCallKind::Download(_), None) => {
                let message = "nothing can be read back: the gateway has no store, see its log".to_owned();
                ("resource", self.message(Err(ProtocolError { code: INVALID_PARAMS, message })))
            }
        };
        self.session.rules.metrics.own_call(name, start.elapsed());
        if !self.span.is_disabled() {
            trace::answered(&self.span, &Message::read(answer.clone()));
        }
        if !self.session.is_too_large(&answer, &self.reader()) {
            return FromClient::Answer(self.shaped(answer));
        }
        self.refused(ANSWER_TOO_LARGE)
    }

    /// The answer with the outputs that the client wants of a tool.
    fn shaped(&self, answer: Bytes) -> Bytes {
        let outputs = self.outputs.as_deref();
        match &self.kind {
            OwnCallKind::Tool(..) | OwnCallKind::Job { .. } => outputs::shaped(outputs, answer),
            OwnCallKind::Task { .. } => outputs::shaped_task(outputs, answer),
            _ => answer,
        }
    }

    fn message(&self, answered: Result<String, ProtocolError>) -> Bytes {
        match answered {
            Ok(result) => mcp::response(&self.id, &mcp::with_result_type(result, self.modern)),
            Err(error) => mcp::error_response(Some(&self.id), error.code, &error.message),
        }
    }

    /// What `read` gives of an offload, with as much data as the ceiling of the answer leaves room for.
    async fn read_back<R>(&self, tools: &Tools, read: impl Fn(Tools) -> R) -> Bytes
    where
        R: Future<Output = Result<String, ProtocolError>>,
    {
        let answered = read(tools.clone()).await;
        // The data stands in an answer twice, as text and as structured content.
        let mut bytes = answered.as_ref().map_or(0, |result| result.len() as u64 / 2);
        let mut answer = self.message(answered);
        for _ in 0..SHORTER_MAX {
            let Some(excess) = self.session.excess(&answer, &self.reader()) else { break };
            bytes = excess.share_of(bytes);
            answer = self.message(read(tools.at_most(u32::try_from(bytes).unwrap_or(u32::MAX))).await);
        }
        answer
    }

    async fn read_tool(&self, tools: &Tools, tool: &str, arguments: &str) -> Result<String, ProtocolError> {
        if tool == READ_TOOL
            && let Some(asked) = description::asked(arguments)
        {
            return Ok(description::page(&self.session, &asked, tools.page_bytes_max()));
        }
        let (session, tenant) = (&self.session, &self.session.owner.tenant);
        let Some(files) = &session.rules.files else { return tools.call_async(tenant, tool, arguments).await };
        // What follows reads files, and may write an offload.
        job::pause().await;
        if tool == FILES_TOOL {
            return Ok(files::answer(files, session, arguments, tools.page_bytes_max()));
        }
        match files::with_handles(files, session, tool, arguments) {
            Ok(replaced) => tools.call_async(tenant, tool, replaced.as_deref().unwrap_or(arguments)).await,
            Err(reason) => Ok(mcp::tool_error(&reason)),
        }
    }

    /// Who gets the answer.
    fn reader(&self) -> Reader<'_> {
        let takes_all = self.client.inline || !matches!(self.kind, OwnCallKind::Tool(..));
        Reader { client: &self.client, tool: self.tool_name(), takes_all }
    }

    /// The tool that is called; empty for another request.
    fn tool_name(&self) -> &str {
        match &self.kind {
            OwnCallKind::Tool(tool, _) => tool,
            OwnCallKind::Job { .. } => JOB_TOOL,
            OwnCallKind::Reused { call, .. } => call.tool_name(),
            _ => "",
        }
    }

    /// Where a file can be downloaded.
    fn authorized(&self, tools: &Tools, uri: &str) -> Result<String, ProtocolError> {
        let rules = &self.session.rules;
        let Some(base) = rules.downloads.get() else {
            let message = "nothing can be downloaded: this gateway does not listen for HTTP".to_owned();
            return Err(ProtocolError { code: INTERNAL_ERROR, message });
        };
        let lifetime = Duration::from_secs(rules.config.gateway.download_seconds.get());
        tools.authorize_download(&self.session.owner.tenant, uri, base, lifetime)
    }

    /// The outcome of a call that was refused for this reason.
    pub(crate) fn refused(&self, reason: &str) -> FromClient {
        trace::failed_tool(&self.span);
        let error = match &self.kind {
            OwnCallKind::Tool(..) | OwnCallKind::Job { .. } => {
                self.session.end_waiting(&self.id);
                mcp::response(&self.id, &mcp::with_result_type(mcp::tool_error(reason), self.modern))
            }
            OwnCallKind::Intercept { .. } => InterceptError::Failed(reason.to_owned()).response(&self.id),
            OwnCallKind::Resource(_) | OwnCallKind::Download(_) | OwnCallKind::Task { .. } | OwnCallKind::Watch(_) => {
                self.session.end_waiting(&self.id);
                mcp::error_response(Some(&self.id), INVALID_PARAMS, reason)
            }
            OwnCallKind::Collect(collecting) => {
                return self.session.not_collected(&self.id, collecting, reason.to_owned());
            }
            OwnCallKind::Arguments(_) => {
                let refused = self.session.refuse(&self.id, reason);
                // The request is no longer pending.
                refused.unwrap_or_else(|| mcp::error_response(Some(&self.id), INVALID_PARAMS, reason))
            }
            // The server can answer the call as well.
            OwnCallKind::Reused { message, .. } => return self.forwarded(message.clone()),
        };
        FromClient::Answer(self.shaped(error))
    }

    fn reuse_reply(&self, call: &Call, cached: &CachedReply, message: &Bytes) -> FromClient {
        match reuse::answer(&self.session, &self.id, call, cached) {
            Some(answer) => {
                trace::decided(&self.span, "reused", Some(cached.offload));
                self.session.take(&self.id);
                FromClient::Answer(answer)
            }
            None => self.forwarded(message.clone()),
        }
    }

    /// The call goes to the server.
    fn forwarded(&self, message: Bytes) -> FromClient {
        self.session.set_forwarded(&self.id, &message);
        FromClient::Forward(message)
    }

    fn replace_references(&self, message: &Message) -> FromClient {
        match handles::replaced(&self.session, message) {
            // What a reference stands for may be beyond a maximum.
            Ok(message) => self.forwarded(arguments::bounded(&self.session, Message::read(message)).0.bytes().clone()),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(tenant = self.session.owner.tenant, error, "cannot replace a reference in an argument");
                let answer = self.session.refuse(&self.id, &error.to_string());
                answer.map_or_else(|| FromClient::Forward(message.bytes().clone()), FromClient::Answer)
            }
        }
    }
}
