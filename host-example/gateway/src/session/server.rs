//! What becomes of a message from the server.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use lro_host::job::Job;
use lro_host::mcp::{self, Fault, Kind, Message, method};
use tracing::Instrument as _;

use super::Session;
use super::decision::{Failure, Filtering, FromServer, Refused, ServerDecision, batch_of};
use super::job::{self, task};
use super::pending::{Call, RequestKind, ToolCall};
use crate::tenants::tasks::TaskCall;
use crate::trace;

impl Session {
    /// Decides what becomes of a message from the server.
    pub(super) fn decide_server(self: &Arc<Self>, message: Message) -> ServerDecision {
        self.rules.metrics.server_sent(message.bytes().len());
        if self.rules.enabled() {
            return self.handle_server_message(if self.rules.audits() { message } else { message.without_marks() });
        }
        if message.kind() == Kind::Response && self.deliver_own_response(&message) {
            return FromServer::Nothing.into();
        }
        self.forget_answered(&message);
        FromServer::Pass(message.bytes().clone()).into()
    }

    /// Removes the pending requests that a message answers.
    fn forget_answered(&self, message: &Message) {
        match message.kind() {
            Kind::Response => drop(message.id().and_then(|id| self.take(&id))),
            Kind::Batch => {
                let elements = message.batch().into_iter().flatten().map(Message::read);
                elements
                    .filter(|element| element.kind() == Kind::Response)
                    .for_each(|element| self.forget_answered(&element));
            }
            Kind::Request | Kind::Notification | Kind::Other => {}
        }
    }

    fn handle_server_message(self: &Arc<Self>, message: Message) -> ServerDecision {
        match (message.kind(), message.fault()) {
            (_, Some(fault)) => self.refuse_invalid(&message, fault).into(),
            (Kind::Response, _) => self.handle_response(message),
            (Kind::Notification, _) => self.server_notification(message),
            (Kind::Batch, _) => self.server_batch(message),
            (Kind::Request, _) => self.server_request(&message).into(),
            (Kind::Other, _) => FromServer::Pass(message.bytes().clone()).into(),
        }
    }

    fn server_notification(self: &Arc<Self>, message: Message) -> ServerDecision {
        match message.method().as_deref() {
            // After its answer, a client gets no progress.
            Some(method::PROGRESS) if self.handle_progress(&message) => return FromServer::Nothing.into(),
            Some(method::PARTIAL_RESULT) if self.hear_part(&message) => return FromServer::Nothing.into(),
            Some(method::RESOURCE_UPDATED) => self.hear_update(&message),
            Some(method::CANCELLED) => {
                let id = message.params().cancelled_id();
                id.iter().for_each(|id| self.withdraw(id));
            }
            Some(method::TASK_STATUS) => {
                let task = message.params().task_id.as_deref().unwrap_or_default().to_owned();
                return match message.is_task(&["params"]) {
                    true => self.task_result(message, task, &["params", "result"], &self.unknown_call()),
                    false if self.rules.audits() => FromServer::Pass(message.bytes().clone()).into(),
                    false => FromServer::Pass(message.without_data()).into(),
                };
            }
            _ => {}
        }
        FromServer::Pass(message.bytes().clone()).into()
    }

    /// Restarts the timeout of calls that make progress, and keeps the progress of jobs. Returns whether no client asked
    /// for it, or it has its answer.
    fn handle_progress(&self, message: &Message) -> bool {
        let Some(token) = message.params().progress_id() else { return false };
        let mut state = self.state();
        let (mut is_known, mut is_awaited) = (false, false);
        for call in state.calls.values_mut().flatten().filter(|call| call.progress.as_ref() == Some(&token)) {
            call.last = Instant::now();
            call.hear(message);
            is_known = true;
            is_awaited |= call.job.is_none() && !call.has_own_token;
        }
        is_known && !is_awaited
    }

    fn server_batch(self: &Arc<Self>, message: Message) -> ServerDecision {
        let elements = message.batch().into_iter().flatten();
        let decided: Vec<ServerDecision> =
            elements.map(|element| self.handle_server_message(Message::read(element))).collect();
        let has_output = |element: &ServerDecision| match element {
            ServerDecision::Ready(FromServer::Nothing) => false,
            ServerDecision::Ready(FromServer::Refuse(refused)) => !refused.failures.is_empty(),
            ServerDecision::Ready(FromServer::Pass(_)) | ServerDecision::Filter(_) => true,
        };
        if !decided.iter().any(has_output) {
            return FromServer::Nothing.into();
        }
        let (original, session) = (message.bytes().clone(), Arc::clone(self));
        let job = Job::new(async move {
            let mut elements = Vec::new();
            for element in decided {
                match element {
                    ServerDecision::Ready(decided) => elements.extend(decided.into_messages()),
                    ServerDecision::Filter(filtering) => elements.extend(filtering.job.await.into_messages()),
                }
            }
            if session.rules.audits() {
                return FromServer::Pass(original);
            }
            match elements.is_empty() {
                // All were answers to jobs.
                true => FromServer::Nothing,
                false => FromServer::Pass(session.batch_within_ceiling(batch_of(&elements))),
            }
        });
        Filtering { message: message.bytes().clone(), job, is_answered: false }.into()
    }

    /// Handles a message that is invalid or ambiguous: stray output or a broken response. An audit changes nothing.
    fn refuse_invalid(&self, message: &Message, fault: Fault) -> FromServer {
        if self.rules.audits() {
            return FromServer::Pass(message.bytes().clone());
        }
        self.rules.record_dropped(message, fault);
        let reason = format!("the server answered with something that is not a JSON-RPC message: {fault}");
        FromServer::Refuse(Refused { failures: self.fail_answered(message, &reason), reason })
    }

    /// Fails all requests that some parser could take this message to answer.
    pub(crate) fn fail_answered(&self, message: &Message, reason: &str) -> Vec<Failure> {
        let mut failures = Vec::new();
        message.each_id(&mut |id| failures.extend(self.fail(&id, reason)));
        failures
    }

    /// Delivers a response to a request from the gateway itself. Returns whether it was one.
    fn deliver_own_response(&self, message: &Message) -> bool {
        let Some(id) = message.id() else { return false };
        let is_own = {
            let state = self.state();
            let first = state.calls.get(&id).and_then(VecDeque::front);
            first.is_some_and(|call| matches!(call.kind, RequestKind::Handshaking(_) | RequestKind::Own(_)))
        };
        let call = if is_own { self.take(&id) } else { None };
        match call.map(|call| call.kind) {
            Some(RequestKind::Handshaking(answer)) => drop(answer.try_send(message.bytes().clone())),
            Some(RequestKind::Own(answer)) => drop(answer.try_send(message.clone())),
            _ => {}
        }
        is_own
    }

    fn handle_response(self: &Arc<Self>, message: Message) -> ServerDecision {
        if self.deliver_own_response(&message) {
            return FromServer::Nothing.into();
        }
        // The server does not know a call whose pages are collected.
        if message.id().is_some_and(|id| self.collection_of(&id).is_some()) {
            self.rules.record_dropped(&message, "it answers a call that the server did not get");
            return FromServer::Nothing.into();
        }
        let message = self.bounded_input(message);
        // Clients may still read an unexpected response as the result of a call.
        let mut call = message.id().and_then(|id| self.take(&id)).unwrap_or_else(|| self.unknown_call());
        call.answered(&message);
        if matches!(call.kind, RequestKind::Handshake) && trace::is_on() {
            let revision = message.value(&["result", "protocolVersion"]);
            self.state().revision = revision.and_then(|revision| serde_json::from_slice(&revision).ok());
        }
        if let RequestKind::Resource(uri) = &call.kind
            && !mcp::looks_like_tool_result(&message)
        {
            let uri = uri.clone();
            return self.resource_answer(message, call, uri).into();
        }
        self.measure_answer(&call, &message);
        let message = self.bounded_error(message);
        match &call.kind {
            RequestKind::Tool(_) => self.tool_answer(message, call),
            RequestKind::Task { is_known: true, .. }
                if self.has_tasks(&call)
                    && let Some(answer) = task::unknown_answer(&message) =>
            {
                FromServer::Pass(answer).into()
            }
            RequestKind::TaskList { first_page } if self.has_tasks(&call) => {
                task::list_answer(self, message, *first_page).into()
            }
            RequestKind::Task { id, .. } => {
                let task = id.clone();
                let is_task = message.result().is_none() || message.is_task(&["result"]);
                self.task_result(message, task, if is_task { &["result", "result"] } else { &["result"] }, &call)
            }
            RequestKind::Other | RequestKind::Prompts | RequestKind::Resource(_) | RequestKind::Prompt
                if mcp::looks_like_tool_result(&message) =>
            {
                let call = Call { kind: RequestKind::Tool(ToolCall::default()), ..call };
                self.tool_answer(message, call)
            }
            RequestKind::Prompt => FromServer::Pass(self.prompt(&message)).into(),
            _ => {
                let answer = self.with_allowed_tools(&call, self.with_own_items(&call, &message));
                FromServer::Pass(self.paged(&call, answer)).into()
            }
        }
    }

    /// The call to assume for a response that matches no request.
    fn unknown_call(&self) -> Call {
        let client = Arc::clone(&self.state().client);
        Call::new(RequestKind::Tool(ToolCall::default()), client, Arc::clone(&self.usage))
    }

    pub(super) fn tool_answer(self: &Arc<Self>, message: Message, mut call: Call) -> ServerDecision {
        let is_answered = call.job.is_some();
        if !is_answered && !job::asks_for_input(&message) {
            call.job = self.begin_answered(&call, &message);
        }
        if let Some(job) = call.job.clone() {
            return self.job_answer(message, call, job, is_answered).into();
        }
        if message.result().is_none() {
            return FromServer::Pass(self.within_ceiling(message.bytes().clone(), &message, &call)).into();
        }
        self.tool_result(message, call).into()
    }

    pub(super) fn tool_result(self: &Arc<Self>, message: Message, call: Call) -> Filtering {
        let (session, bytes) = (Arc::clone(self), message.bytes().clone());
        let filtered = async move {
            // In place, as it is large.
            let filtering = pin!(session.filter(message, &call));
            FromServer::Pass(filtering.instrument(call.span.clone()).await)
        };
        Filtering { message: bytes, job: Job::new(filtered), is_answered: false }
    }

    fn task_result(
        self: &Arc<Self>,
        message: Message,
        task: String,
        path: &'static [&'static str],
        call: &Call,
    ) -> ServerDecision {
        if message.value(path).is_none_or(|value| value == "null") {
            return FromServer::Pass(self.within_ceiling(message.bytes().clone(), &message, call)).into();
        }
        let TaskCall { tool: name, query, asked } = self.rules.tasks.call(&self.owner.tenant, &task);
        let call_of_task = ToolCall { name, query, asked, task: Some(task), ..ToolCall::default() };
        let kind = RequestKind::Tool(call_of_task);
        let call = Call { kind, modern: false, progress: None, ..call.clone() };
        let (session, bytes) = (Arc::clone(self), message.bytes().clone());
        let job = Job::new(async move { FromServer::Pass(session.filter_task(&message, &call, path).await) });
        Filtering { message: bytes, job, is_answered: false }.into()
    }
}
