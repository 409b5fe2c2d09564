//! What becomes of a message from the client.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lro_host::mcp::{
    self, FILE_URI, INLINE_MODE, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, Id, Implementation, Kind, Message,
    Params, RequestedOutputs, method,
};
use tracing::Span;

use super::ask::{self, Asked, Asking};
use super::decision::{ClientDecision, FromClient, batch_of};
use super::intercept::Interception;
use super::job::task::{self, TaskRequest};
use super::job::watch::WatchCall;
use super::job::{self, JOB_TOOL};
use super::own::{OwnCall, OwnCallKind};
use super::pending::{Call, RequestKind, ToolCall};
use super::{QUERY_BYTES_MAX, Session, arguments, description, handles, outputs, reuse};
use crate::files::FILES_TOOL;
use crate::settings::ClientProfile;
use crate::tenants::caches::{ClientKey, TokenUsage};
use crate::tenants::pending_limits::CALLS_MAX;
use crate::trace;

impl Session {
    /// Decides what becomes of a message from the client.
    pub(crate) fn decide_client(self: &Arc<Self>, message: Message) -> ClientDecision {
        self.rules.metrics.client_sent(message.bytes().len());
        if let Some(refusal) = self.refusal(&message) {
            return refusal.into();
        }
        let (message, outputs) = match self.requested_outputs(message) {
            Ok(taken) => taken,
            Err(refusal) => return FromClient::Answer(refusal).into(),
        };
        match message.kind() {
            Kind::Request => self.request(message, outputs),
            Kind::Notification => self.client_notification(message).into(),
            Kind::Batch => self.client_batch(&message).into(),
            Kind::Response if self.give_response(&message) => FromClient::Nothing.into(),
            Kind::Response | Kind::Other => FromClient::Forward(message.bytes().clone()).into(),
        }
    }

    fn request(self: &Arc<Self>, message: Message, outputs: Option<Arc<RequestedOutputs>>) -> ClientDecision {
        let Some(id) = message.id() else { return FromClient::Forward(message.bytes().clone()).into() };
        let Asking { message: without_question, asked } = match ask::taken(self, &message) {
            Ok(asking) => asking,
            Err(reason) => {
                let error = mcp::with_result_type(mcp::tool_error(&reason), message.params().is_modern());
                return FromClient::Answer(outputs::shaped(outputs.as_deref(), mcp::response(&id, &error))).into();
            }
        };
        let (message, changed) = arguments::bounded(self, without_question.unwrap_or(message));
        let page = match self.asked_page(&message, &message.params()) {
            Ok(page) => page,
            Err(reason) => return FromClient::Answer(mcp::error_response(Some(&id), INVALID_PARAMS, reason)).into(),
        };
        // The server has the list only as a whole.
        let message = if page.is_some() { Message::read(message.without(&["params", "cursor"])) } else { message };
        let params = message.params();
        let Some(mut call) = self.call(&message, &params, asked, changed).with_permits(&self.rules.pending) else {
            return FromClient::Answer(too_many(&id)).into();
        };
        if let Some(job) = self.job_of(&id) {
            let text = format!("the request id {id} belongs to the job {} until that ends: use another", job.handle);
            return FromClient::Answer(mcp::error_response(Some(&id), INVALID_REQUEST, &text)).into();
        }
        call.page = page;
        call.want(outputs);
        if let Some(own) = self.own(&id, &call, &message, &params) {
            return own.into();
        }
        if message.method().as_deref() == Some(method::INITIALIZE) {
            self.introduce(&message, &params, &call);
        }
        let replaces =
            matches!(&call.kind, RequestKind::Tool(tool) if self.rules.config.gateway_tool(&tool.name).handles);
        let refers = replaces && params.arguments.is_some_and(|json| handles::mentions(json.get()));
        drop(params);
        call.detachment = self.detachment(&call, &message);
        call.beat = self.beat_of(&call);
        let message = self.detachable(message, &id, &mut call);
        let refers = refers && self.rules.enabled();
        let cached = if refers { None } else { reuse::cached(self, &call) };
        let message = if cached.is_none() { call.traced(&id, message) } else { message };
        let held = match cached {
            None => refers.then(|| {
                let message = Message::read(message.bytes().clone());
                OwnCall::new(self, &id, &call, OwnCallKind::Arguments(message))
            }),
            Some(cached) => Some(OwnCall::reused(self, &id, &call, cached, &message)),
        };
        if held.is_none()
            && let Some(collecting) = self.collecting(&id, &call, &message)
        {
            return OwnCall::collect(self, &id, collecting).into();
        }
        if held.is_none() {
            call.forward(message.bytes(), self.rules.config.gateway.job_call_bytes.get());
        }
        self.remember(id, call);
        held.map_or_else(|| FromClient::Forward(message.bytes().clone()).into(), ClientDecision::from)
    }

    /// Takes from a handshake what it says of the client.
    fn introduce(&self, initialize: &Message, params: &Params<'_>, call: &Call) {
        let mut state = self.state();
        state.client = Arc::clone(&call.client);
        let info = params.client_info.as_ref();
        state.client_info = info.map(|info| (info.name.to_string(), info.version.to_string())).unwrap_or_default();
        state.handshake = Some(initialize.bytes().clone());
        state.knows_tasks = call.knows_tasks;
        state.initialized = None;
    }

    /// Goes on with the session of a client that has introduced itself at another replica.
    pub(crate) fn resume(&self, initialize: &Message) {
        let params = initialize.params();
        self.introduce(initialize, &params, &self.call(initialize, &params, None, None));
    }

    /// Creates the pending entry of a request, with the question about its result, and what was changed of its arguments.
    fn call(&self, message: &Message, params: &Params<'_>, asked: Option<Asked>, changed: Option<Arc<str>>) -> Call {
        let meta = params.meta.as_ref();
        let revision = meta.and_then(|meta| meta.protocol_version.as_deref());
        let info = meta.and_then(|meta| meta.client_info.as_ref()).or(params.client_info.as_ref());
        let usage = self.usage_of(info);
        let model = meta.and_then(|meta| meta.model.as_deref());
        let profile = |name: &str, version: &str| {
            Arc::new(self.rules.config.for_client_and_model(name, version, model.unwrap_or_default()))
        };
        let client = match info {
            Some(info) => {
                self.rules.metrics.record_client(&info.name, &info.version);
                profile(&info.name, &info.version)
            }
            None if model.is_some() => {
                let (name, version) = self.state().client_info.clone();
                profile(&name, &version)
            }
            None => Arc::clone(&self.state().client),
        };
        let downloads = self.rules.transfers_files() && self.downloads_files(params);
        let kind = self.kind_of(message, params, &client, downloads, asked, changed);
        let progress = meta.and_then(|meta| meta.progress_id());
        let knows_tasks = match &kind {
            _ if revision.is_some() => task::is_accepted(message),
            RequestKind::Handshake => task::is_declared(message),
            _ => self.state().knows_tasks,
        };
        let span = match &kind {
            RequestKind::Tool(tool) => self.span_of_call(message, &tool.name, revision),
            _ => Span::none(),
        };
        Call { modern: revision.is_some(), knows_tasks, downloads, progress, span, ..Call::new(kind, client, usage) }
    }

    /// What a request asks for, with the question about its result, and what was changed of its arguments.
    fn kind_of(
        &self,
        message: &Message,
        params: &Params<'_>,
        client: &ClientProfile,
        downloads: bool,
        asked: Option<Asked>,
        changed: Option<Arc<str>>,
    ) -> RequestKind {
        let first_page = params.cursor.is_none();
        match message.method().as_deref() {
            Some(method::INITIALIZE) => RequestKind::Handshake,
            Some(method::DISCOVER) => RequestKind::Discovery,
            Some(method::TOOLS_LIST) => RequestKind::Tools { first_page },
            Some(method::RESOURCE_TEMPLATES_LIST) => RequestKind::Templates { first_page },
            Some(method::RESOURCES_LIST) => RequestKind::Resources,
            Some(method::PROMPTS_LIST) => RequestKind::Prompts,
            Some(method::RESOURCES_READ) => RequestKind::Resource(params.uri.as_deref().unwrap_or_default().to_owned()),
            Some(method::PROMPTS_GET) => RequestKind::Prompt,
            Some(method::TOOLS_CALL) => {
                let query = params.arguments.map(|arguments| arguments.get().to_owned());
                let name = params.name.as_deref().unwrap_or_default().to_owned();
                // A reply that is kept answers no other question.
                let reuse = || reuse::wanted(self, message, &name, client, params.is_modern(), downloads);
                RequestKind::Tool(ToolCall {
                    query: query.filter(|query| query.len() <= QUERY_BYTES_MAX),
                    inline: params.meta.as_ref().and_then(|meta| meta.mode.as_deref()) == Some(INLINE_MODE),
                    task: None,
                    reuse: if asked.is_none() { reuse() } else { None },
                    asked,
                    changed,
                    name,
                })
            }
            Some(task @ (method::TASKS_GET | method::TASKS_RESULT)) => RequestKind::Task {
                id: params.task_id.as_deref().unwrap_or_default().to_owned(),
                is_known: task == method::TASKS_GET || !params.is_modern(),
            },
            Some(method::TASKS_LIST) if !params.is_modern() => RequestKind::TaskList { first_page },
            Some(method::LISTEN) => RequestKind::Subscription,
            _ => RequestKind::Other,
        }
    }

    fn span_of_call(&self, message: &Message, tool: &str, revision: Option<&str>) -> Span {
        if !trace::is_on() {
            return Span::none();
        }
        let agreed = || self.state().revision.clone();
        let revision = revision.map(str::to_owned).or_else(agreed);
        trace::of_call(&self.owner, message, tool, revision.as_deref())
    }

    /// Whether the client declares, in this request or in its handshake, that it downloads files.
    fn downloads_files(&self, params: &Params<'_>) -> bool {
        let in_handshake = |request| Message::read(request).params().downloads_files();
        params.downloads_files()
            || (!params.is_modern() && self.handshake().is_some_and(|(request, _)| in_handshake(request)))
    }

    /// The token usage that a request counts against.
    fn usage_of(&self, info: Option<&Implementation<'_>>) -> Arc<TokenUsage> {
        let gateway = &self.rules.config.gateway;
        match self.request_from.filter(|_| self.rules.config.has_budgets()) {
            Some(address) => {
                let (name, version) = info.map_or(("", ""), |info| (&info.name, &info.version));
                let idle = Duration::from_secs(gateway.session_idle_seconds.get());
                self.rules.caches.usage(&self.owner.tenant, ClientKey::new(name, version, address), idle)
            }
            None => Arc::clone(&self.usage),
        }
    }

    /// The call of one of the gateway's tools or resources; `None` for any other.
    fn own(self: &Arc<Self>, id: &Id, call: &Call, message: &Message, params: &Params<'_>) -> Option<OwnCall> {
        if self.rules.enabled()
            && self.rules.config.gateway.interceptor
            && let Some(interception) = Interception::of(message)
        {
            return Some(OwnCall::intercept(self, id, call, interception));
        }
        if !self.rules.announces() {
            return None;
        }
        let own = |kind| Some(OwnCall::new(self, id, call, kind));
        if self.has_tasks(call)
            && let Some(watch) = WatchCall::of(self, call, message, params)
        {
            return own(OwnCallKind::Watch(watch));
        }
        match &call.kind {
            RequestKind::Tool(tool) if tool.name == JOB_TOOL => {
                let arguments = params.arguments.map_or("{}", |arguments| arguments.get());
                let is_listed = self.rules.config.has_jobs() && !self.rules.has_name_conflict();
                if !is_listed && !job::tool::knows(self, arguments) {
                    return None;
                }
                Some(OwnCall::job(self, id, call, arguments))
            }
            RequestKind::Tool(tool) if tool.name == FILES_TOOL && self.rules.files.is_some() => {
                let arguments = params.arguments.map_or("{}", |arguments| arguments.get());
                Some(OwnCall::tool(self, id, call, FILES_TOOL, arguments))
            }
            RequestKind::Tool(tool) if mcp::reads_offloads(&tool.name) => {
                let arguments = params.arguments.map_or("{}", |arguments| arguments.get());
                let is_known = || handles::knows(self, arguments) || description::knows(self, arguments);
                if self.rules.has_name_conflict() && !is_known() {
                    return None;
                }
                Some(OwnCall::tool(self, id, call, &tool.name, arguments))
            }
            RequestKind::Resource(uri) if uri.starts_with(handles::SCHEME) => own(OwnCallKind::Resource(uri.clone())),
            RequestKind::Other
                if self.rules.transfers_files()
                    && message.method().as_deref() == Some(method::AUTHORIZE_DOWNLOAD)
                    && let Some(uri) = params.uri.as_deref().filter(|uri| uri.starts_with(FILE_URI)) =>
            {
                own(OwnCallKind::Download(uri.to_owned()))
            }
            RequestKind::Task { .. } | RequestKind::Other => {
                let asked = TaskRequest::read(self, message, params.task_id.as_deref())?;
                own(OwnCallKind::Task { asked, _permits: call.permits.clone() })
            }
            _ => None,
        }
    }

    /// Forwards a batch if all of its requests get permits; else answers each with an error.
    fn client_batch(&self, message: &Message) -> FromClient {
        let elements = message.batch().unwrap_or_default().into_iter().map(Message::read);
        let elements: Vec<_> = elements.map(|element| arguments::bounded(self, element)).collect();
        let requests = elements.iter().filter(|(element, _)| element.kind() == Kind::Request);
        let requests: Vec<(Id, &Message, &Option<Arc<str>>)> =
            requests.filter_map(|(one, changed)| Some((one.id()?, one, changed))).collect();
        let admit = |(_, one, changed): &(Id, &Message, &Option<Arc<str>>)| {
            self.call(one, &one.params(), None, Option::clone(changed)).with_permits(&self.rules.pending)
        };
        let Some(calls) = requests.iter().map(admit).collect::<Option<Vec<Call>>>() else {
            let errors: Vec<Bytes> = requests.iter().map(|(id, ..)| too_many(id)).collect();
            return FromClient::Answer(batch_of(&errors));
        };
        for ((id, ..), call) in requests.into_iter().zip(calls) {
            self.remember(id, call);
        }
        if elements.iter().all(|(_, changed)| changed.is_none()) {
            return FromClient::Forward(message.bytes().clone());
        }
        let elements: Vec<Bytes> = elements.into_iter().map(|(element, _)| element.bytes().clone()).collect();
        FromClient::Forward(batch_of(&elements))
    }

    /// Ends what the gateway does for a canceled request that never was the server's.
    fn give_up(&self, id: &Id) {
        let mut state = self.state();
        state.waiting.remove(id);
        state.watched.end(id);
    }

    fn client_notification(&self, message: Message) -> FromClient {
        match message.method().as_deref() {
            Some(method::INITIALIZED) => self.state().initialized = Some(message.bytes().clone()),
            Some(method::CANCELLED) => {
                let id = message.params().cancelled_id();
                id.iter().for_each(|id| self.give_up(id));
                match id.as_ref().map(|id| (id, self.job_of(id))) {
                    Some((_, Some(job))) => job.cancel(true),
                    // The server may still answer; the response is then filtered as that of an unknown tool.
                    Some((id, None)) => match self.collection_of(id) {
                        Some(collection) => collection.stop(),
                        None => self.forget(id),
                    },
                    None => {}
                }
            }
            _ => {}
        }
        FromClient::Forward(message.bytes().clone())
    }
}

fn too_many(id: &Id) -> Bytes {
    let text = format!(
        "too many requests of this tenant are pending (at most {CALLS_MAX}), or their questions are too long together: \
         wait for responses"
    );
    mcp::error_response(Some(id), INTERNAL_ERROR, &text)
}
