//! Filters tool results: runs the policy, and builds the reply in the form that the client accepts.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use lro_host::filter::{Decision, Filter, Offloaded, Outcome, Request, verdict_name};
use lro_host::job;
use lro_host::mcp::{self, INTERNAL_ERROR, Kind, Message, ParseError, Replacement, ToolResult};
use lro_host::sandbox::types::Abilities;
use lro_host::store::Ulid;
use tracing::Instrument as _;

use crate::metrics::{Observation, label, tokens};
use crate::operations::trail;
use crate::session::{
    Call, QUERY_BYTES_MAX, RequestKind, Session, ToolCall, arguments, ask, batch_of, ceiling, outputs, own, reuse,
    shape,
};
use crate::settings::{DecisionMode, DescriptorLevel, ImageMode, PolicySettings, SchemaStrategy, Sees};
use crate::tenants::tasks::{self, TaskAnswer, TaskCall};
use crate::trace;

/// The result of a call that a policy decides about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer<'a> {
    pub(super) result: &'a ToolResult,
    pub(super) call: &'a Call,
    pub(super) tool: &'a ToolCall,
}

impl Session {
    /// Filters a response with a tool result, and returns its replacement.
    pub(crate) async fn filter(&self, message: Message, call: &Call) -> Bytes {
        let (bytes, id) = (message.bytes().clone(), message.id());
        match ToolResult::of_message(message) {
            Ok(result) => {
                let (reply, outcome) = self.filtered_reply(&result, call).await;
                let offload = outcome.as_ref().and_then(offload_of);
                // The rest of the message counts too.
                if self.exceeds(&result, &reply, call) {
                    return mcp::error_response(id.as_ref(), INTERNAL_ERROR, ceiling::TOO_LARGE);
                }
                self.keep_for_reuse(&result, call, offload, &reply);
                let noted = arguments::noted(self, reply, call);
                self.with_outputs(noted, &result, outcome.as_ref(), call).await
            }
            Err(error) => self.unreadable_result(&bytes, &error, || {
                let text = format!("cannot read the response of the server: {error}");
                mcp::error_response(id.as_ref(), INTERNAL_ERROR, &text)
            }),
        }
    }

    /// Whether a reply is larger than its client accepts. What no policy sees, and all in an audit, is as the server sent it.
    fn exceeds(&self, result: &ToolResult, reply: &Bytes, call: &Call) -> bool {
        let is_filtered = !result.not_for_policy() && !self.rules.audits();
        is_filtered && self.is_too_large(reply, &self.reader(call))
    }

    /// Replaces a message whose result cannot be shown to a policy by an error. An audit changes nothing.
    fn unreadable_result(&self, message: &Bytes, error: &ParseError, refusal: impl FnOnce() -> Bytes) -> Bytes {
        self.rules.metrics.unreadable();
        tracing::warn!(%error, "cannot read the response of the server");
        if self.rules.audits() { message.clone() } else { refusal() }
    }

    /// Filters the result of a call that this gateway has not seen. Returns the reply, and its outcome if a policy decided.
    ///
    /// # Errors
    /// The reply is larger than the settings allow, in every form.
    pub(crate) async fn filter_result(
        &self,
        tool: String,
        arguments: Option<String>,
        result: &ToolResult,
    ) -> Result<(Bytes, Option<Outcome>), &'static str> {
        let query = arguments.filter(|arguments| arguments.len() <= QUERY_BYTES_MAX);
        let tool = ToolCall { name: tool, query, ..ToolCall::default() };
        let call = Call::new(RequestKind::Tool(tool), self.client(), Arc::clone(&self.usage));
        let (reply, outcome) = self.filtered_reply(result, &call).await;
        if self.exceeds(result, &reply, &call) {
            return Err(ceiling::TOO_LARGE);
        }
        Ok((reply, outcome))
    }

    /// Filters a message about a task, whose result is at `path`, and returns its replacement.
    pub(crate) async fn filter_task(&self, message: &Message, call: &Call, path: &[&str]) -> Bytes {
        let Some(object) = message.value(path) else { return message.bytes().clone() };
        let result = match ToolResult::of_value(object.clone()) {
            Ok(result) => result,
            Err(error) => return self.unreadable_result(message.bytes(), &error, || refused_task(message, &error)),
        };
        let RequestKind::Tool(ToolCall { task: Some(task), .. }) = &call.kind else { return message.bytes().clone() };
        let digest = tasks::digest(&object);
        let tenant = &self.owner.tenant;
        let known = self.rules.tasks.answer(tenant, task, &digest);
        if known.is_some() {
            // Looking up the offload reads files.
            job::pause().await;
        }
        if let Some(known) = known
            && self.rules.filter.store.as_ref().is_ok_and(|store| store.find(tenant, known.offload).is_ok())
        {
            let answer = outputs::shaped_task(call.outputs.as_deref(), message.with_bytes(path, &known.result));
            return self.within_ceiling(answer, message, call);
        }
        let (reply, outcome) = self.filtered_reply(&result, call).await;
        if let Some(offload) = outcome.as_ref().and_then(offload_of) {
            self.rules.tasks.answered(tenant, task, TaskAnswer { digest, offload, result: reply.clone() });
        }
        let answer = outputs::shaped_task(call.outputs.as_deref(), message.with_bytes(path, &reply));
        self.within_ceiling(answer, message, call)
    }

    /// Replaces a message that could not be filtered: an error for each response in it, or a notification without its
    /// data.
    pub(crate) fn unfiltered(message: &Bytes, reason: &str) -> Bytes {
        tracing::warn!(bytes = message.len(), reason, "refused a message that could not be filtered");
        let message = Message::read(message.clone());
        let text = format!("the result could not be filtered: {reason}");
        match message.kind() {
            Kind::Batch => errors(&message, &text),
            Kind::Notification => message.without_data(),
            _ => mcp::error_response(message.id().as_ref(), INTERNAL_ERROR, &text),
        }
    }

    /// Filters a result for a program, beside the reply for a model. Returns the reply, and its outcome if a policy decided.
    pub(super) async fn whole_result(&self, result: &ToolResult, call: &Call) -> (Bytes, Option<Outcome>) {
        let (reply, decision) = self.decided_reply(result, &call.of_program()).await;
        (reply, decision.map(|decision| decision.outcome))
    }

    /// Filters a result. Returns the reply, and its outcome if a policy decided.
    pub(super) async fn filtered_reply(&self, result: &ToolResult, call: &Call) -> (Bytes, Option<Outcome>) {
        let (reply, decision) = self.decided_reply(result, call).await;
        if let (Some(decision), RequestKind::Tool(tool)) = (&decision, &call.kind) {
            self.observe(Answer { result, call, tool }, &reply, decision);
        }
        (reply, decision.map(|decision| decision.outcome))
    }

    /// As [`Self::filtered_reply`], with the whole decision and without counting it.
    async fn decided_reply(&self, result: &ToolResult, call: &Call) -> (Bytes, Option<Decision>) {
        let RequestKind::Tool(tool) = &call.kind else { return (result.pass(), None) };
        let answer = Answer { result, call, tool };
        if result.not_for_policy() {
            if let Some(task) = result.task() {
                let ToolCall { name, query, asked, .. } = tool.clone();
                self.rules.tasks.started(&self.owner.tenant, &task, TaskCall { tool: name, query, asked });
            }
            return (result.pass(), None);
        }
        let mut settings = self.settings_for(answer);
        if self.rules.audits() {
            return (self.audit(answer, settings).await, None);
        }
        let (mut reply, mut decision) = self.decide(answer, settings.clone()).await;
        // A reply that passed but is too large is offloaded after all, unless its tool is exempt.
        let is_exempt = || self.rules.config.for_tool(&tool.name).mode == DecisionMode::Never;
        let is_offload = matches!(decision.outcome, Outcome::Offload(_));
        if self.is_too_large_for(&reply, call) && !is_offload && !is_exempt() {
            settings.mode = DecisionMode::Always;
            (reply, decision) = self.decide_again(answer, settings.clone(), &decision).await;
        }
        // So is one whose descriptor, or what stays beside it, is too large: now nothing stays.
        if self.is_too_large_for(&reply, call) && matches!(decision.outcome, Outcome::Offload(_)) {
            settings.mode = DecisionMode::Always;
            settings.level = DescriptorLevel::Pointer;
            settings.images = ImageMode::Offload;
            settings.inline_limit = 0;
            settings.inline_keys.clear();
            (reply, decision) = self.decide_again(answer, settings.clone(), &decision).await;
        }
        if self.is_too_large_for(&reply, call) {
            reply = match self.shorter(answer, &reply, &decision.outcome) {
                Some(shorter) => shorter,
                None => self.refused_result(answer, &settings, &mut decision),
            };
        }
        if matches!(decision.outcome, Outcome::Pass) && self.rules.config.has_budgets() {
            call.usage.add(shown_tokens(result, call.client.sees));
        }
        (reply, Some(decision))
    }

    /// The settings of a tool for the result of this call.
    fn settings_for(&self, Answer { result, call, tool }: Answer<'_>) -> PolicySettings {
        let mut settings = self.rules.config.for_tool_and_client(&tool.name, &call.client);
        if self.is_over_budget(result, call) && settings.mode == DecisionMode::BySize {
            settings.mode = DecisionMode::Always;
        }
        if result.is_error() {
            self.bound_error(&mut settings);
        }
        if tool.inline || call.client.inline {
            settings.mode = DecisionMode::Never;
        }
        if tool.asked.is_some() {
            // The answer says the rest.
            settings.level = DescriptorLevel::Pointer;
        }
        let tokenizer = call.client.tokenizer;
        let threshold = tokenizer.for_policy(settings.threshold, result.payload());
        settings.truncate_limit = match settings.truncate_limit == settings.threshold {
            true => threshold,
            false => tokenizer.for_policy(settings.truncate_limit, result.payload()),
        };
        settings.threshold = threshold;
        settings
    }

    /// Refuses a result that is too large in every form.
    fn refused_result(&self, answer: Answer<'_>, settings: &PolicySettings, decision: &mut Decision) -> Bytes {
        let (bytes, tool) = (answer.result.pass().len(), &answer.tool.name);
        let text = format!("the result of `{tool}` has {bytes} bytes, more than this client accepts: ask for less");
        decision.outcome = Outcome::Reject(text);
        self.advise(&mut decision.outcome, answer, settings);
        let reply = mcp::answer(answer.result, &decision.outcome);
        match self.is_too_large_for(&reply, answer.call) {
            true => self.shorter(answer, &reply, &decision.outcome).unwrap_or(reply),
            false => reply,
        }
    }

    /// Decides once more, by other settings. What the earlier decision cost counts, too.
    async fn decide_again(
        &self,
        answer: Answer<'_>,
        settings: PolicySettings,
        earlier: &Decision,
    ) -> (Bytes, Decision) {
        let (reply, mut decision) = self.decide(answer, settings).await;
        decision.add_costs_of(earlier);
        (reply, decision)
    }

    async fn decide(&self, answer: Answer<'_>, settings: PolicySettings) -> (Bytes, Decision) {
        let tool_settings = self.rules.config.gateway_tool(&answer.tool.name);
        let request = self.policy_request(answer, settings);
        let settings = Arc::clone(&request.settings);
        let request = Request { time_to_live: tool_settings.time_to_live(), ..request };
        let filter = Filter { failure: tool_settings.failure, ..self.rules.filter.clone() }
            .for_documents(tool_settings.documents);
        let mut decision = filter.apply_in_job(&request, answer.result.payload()).await;
        self.advise(&mut decision.outcome, answer, &settings);
        let reply = match &decision.outcome {
            Outcome::Offload(offloaded) => {
                let shown = self.advised(offloaded, answer, &settings);
                self.answered(answer, offloaded, &shown).await
            }
            outcome @ Outcome::Truncate { .. } => self.truncated(answer, outcome),
            outcome => mcp::answer(answer.result, outcome),
        };
        (reply, decision)
    }

    /// Keeps the reply for identical calls, unless it was offloaded only because of the session budget.
    fn keep_for_reuse(&self, result: &ToolResult, call: &Call, offload: Option<Ulid>, reply: &Bytes) {
        if let (RequestKind::Tool(ToolCall { reuse: Some(reuse), .. }), Some(offload)) = (&call.kind, offload)
            && !result.is_error()
            && !self.is_over_budget(result, call)
        {
            reuse::keep(self, reuse, offload, reply);
        }
    }

    /// The reply to a truncated result, in the form that the tool's output schema requires.
    pub(super) fn truncated(&self, answer: Answer<'_>, outcome: &Outcome) -> Bytes {
        let result = answer.result;
        match self.rules.config.gateway_tool(&answer.tool.name).schema {
            SchemaStrategy::Shape => mcp::answer_within_schema(result, outcome, self.short(answer).as_deref()),
            SchemaStrategy::Block => mcp::answer_within_schema(result, outcome, None),
            _ => mcp::answer(result, outcome),
        }
    }

    /// The structured content shortened within the tool's output schema. Only for the built-in policy: any other may
    /// have reasons to withhold parts of it.
    fn short(&self, Answer { result, tool, .. }: Answer<'_>) -> Option<Vec<u8>> {
        if !self.rules.filter.slot.current()?.policy.is_default() {
            return None;
        }
        let schema = self.rules.caches.output_schema(&self.owner.tenant, &tool.name)?;
        let shortened = shape::shortened(&result.structured()?, &schema);
        let (tenant, name) = (&self.owner.tenant, &*label(&tool.name));
        shortened
            .inspect_err(|error| tracing::warn!(tenant, tool = name, %error, "cannot apply the output schema"))
            .ok()?
    }

    /// The reply to an offloaded result, with the answer to the question of the call.
    async fn answered(&self, answer: Answer<'_>, offloaded: &Offloaded, descriptor: &str) -> Bytes {
        let offload = &offloaded.offload;
        let (Some(asked), Some(tools)) = (&answer.tool.asked, &self.rules.tools) else {
            return self.offloaded(answer, offloaded, descriptor);
        };
        let start = Instant::now();
        let reply = |found: Result<&str, &str>| self.offloaded(answer, offloaded, &ask::with_answer(descriptor, found));
        let (mut tools, mut bytes, mut answered) = (tools.clone(), u64::MAX, None);
        for _ in 0..=ceiling::SHORTER_MAX {
            let answering = tools.answer(&self.owner.tenant, offload, &asked.question);
            let found = answering.instrument(trace::of_query(ask::ARGUMENT)).await;
            let message = reply(found.as_deref().map_err(String::as_str));
            let excess = self.excess(&message, &self.reader(answer.call));
            let (Some(excess), Ok(found)) = (excess, found) else {
                answered = Some(message);
                break;
            };
            bytes = excess.share_of(bytes.min(found.len() as u64));
            tools = tools.at_most(u32::try_from(bytes).unwrap_or(u32::MAX));
        }
        self.rules.metrics.own_call(ask::ARGUMENT, start.elapsed());
        answered.unwrap_or_else(|| reply(Err(own::ANSWER_TOO_LARGE)))
    }

    /// The reply to an offloaded result, in the form that the tool's output schema requires. `shown` is the JSON object in
    /// the place of what was written to files.
    fn offloaded(&self, answer: Answer<'_>, offloaded: &Offloaded, shown: &str) -> Bytes {
        let Answer { result, call, tool } = answer;
        let mut more = if call.client.resource_links {
            mcp::resource_links(offloaded.offload.id(), offloaded.offload.record())
        } else {
            Vec::new()
        };
        let links = more.len();
        if call.downloads {
            more.extend(mcp::file_blocks(&offloaded.offload));
        }
        let strategy = self.rules.config.gateway_tool(&tool.name).schema;
        let shortened = match strategy {
            // A model that sees only the structured content would miss the descriptor.
            SchemaStrategy::Shape if call.client.sees != Sees::Structured => self.short(answer),
            _ => None,
        };
        let blocks = strategy == SchemaStrategy::Block
            || (strategy == SchemaStrategy::Shape && result.has_structured() && shortened.is_none());
        if blocks {
            return result.rejected(shown).into();
        }
        let reply = |more_blocks: &[String]| {
            let replacement = Replacement {
                descriptor: shown,
                kept: &offloaded.kept,
                structured: shortened.as_deref(),
                always_structured: false,
                more_blocks,
            };
            Bytes::from(result.offloaded(&replacement))
        };
        let whole = reply(&more);
        // The descriptor names the files as well.
        let is_too_large = more.len() > links && self.is_too_large_for(&whole, call);
        if is_too_large { reply(more.get(..links).unwrap_or_default()) } else { whole }
    }

    fn policy_request(&self, Answer { result, call, tool }: Answer<'_>, settings: PolicySettings) -> Request {
        let tools = if self.rules.tools.is_some() && !self.rules.has_name_conflict() {
            Abilities::EXTRACT_TOOL | Abilities::READ_TOOL
        } else {
            Abilities::empty()
        };
        let shell =
            if call.client.shares_disk.unwrap_or(self.owner.local) { Abilities::SHELL } else { Abilities::empty() };
        Request {
            tenant: self.owner.tenant.clone(),
            session: self.owner.session.clone(),
            tool: tool.name.clone(),
            query: tool.query.clone(),
            is_error: result.is_error(),
            input_schema: self.input_schema(&tool.name),
            abilities: tools | shell,
            reader_limit: self.reply_limit(&self.reader(call)),
            descriptor_room: call.client.descriptor_room(),
            settings: Arc::new(settings),
            time_to_live: None,
            // In place of what came of the result meanwhile.
            handle: call.job.as_ref().map(|job| job.handle),
        }
    }

    /// The input schema of a tool as the server listed it last.
    pub(super) fn input_schema(&self, tool: &str) -> Option<String> {
        let schema = self.rules.caches.input_schema(&self.owner.tenant, tool)?;
        String::from_utf8(schema.into()).ok()
    }

    /// Asks the policy for its verdict, records it, and returns the result unchanged.
    async fn audit(&self, answer: Answer<'_>, settings: PolicySettings) -> Bytes {
        let request = self.policy_request(answer, settings);
        let Answer { result, tool, .. } = answer;
        match self.rules.filter.inspect_in_job(&request, result.payload()).await {
            Ok((verdict, cost)) => {
                let (tenant, passed) = (&self.owner.tenant, result.pass());
                self.rules.metrics.observe(&Observation::audited(tool, tenant, &verdict, &cost, &passed));
                let (bytes, verdict) = (passed.len(), verdict_name(&verdict));
                tracing::info!(tenant, tool = &*label(&tool.name), bytes, verdict, "audit");
            }
            Err(error) => {
                self.rules.metrics.failed("inspect");
                let (tenant, tool) = (&self.owner.tenant, &*label(&tool.name));
                tracing::warn!(tenant, tool, %error, "audit: the policy failed");
            }
        }
        result.pass()
    }

    fn observe(&self, Answer { result, call, tool }: Answer<'_>, reply: &Bytes, decision: &Decision) {
        let observation = Observation::of(tool, &self.owner.tenant, result, reply, decision);
        let offload = offload_of(&decision.outcome);
        trace::decided(&call.span, observation.verdict, offload);
        trail::decided(&observation, self.owner.session.as_deref(), decision.policy, offload);
        self.rules.metrics.observe(&observation);
        // Most sessions have no offload, and need not load what answers questions about one.
        if let (Some(_), Some(tools)) = (offload, &self.rules.tools) {
            tools.expect_questions();
        }
    }

    /// Whether this result exceeds the rest of the session's budget.
    fn is_over_budget(&self, result: &ToolResult, call: &Call) -> bool {
        let gateway = &self.rules.config.gateway;
        let own = gateway.session_budget.map(NonZeroU64::get);
        let Some(budget) = own.into_iter().chain(call.client.session_budget).min() else { return false };
        let tokens = shown_tokens(result, call.client.sees);
        tokens > gateway.session_floor.get() && call.usage.tokens().saturating_add(tokens) > budget
    }
}

/// The id of an offload.
pub(super) fn offload_of(outcome: &Outcome) -> Option<Ulid> {
    match outcome {
        Outcome::Offload(offloaded) => Some(offloaded.offload.id()),
        _ => None,
    }
}

/// Replaces a message about a task whose result cannot be read.
fn refused_task(message: &Message, error: &ParseError) -> Bytes {
    match message.kind() {
        Kind::Notification => message.without_data(),
        _ => {
            let text = format!("cannot read the result of the task that the server sent: {error}");
            mcp::error_response(message.id().as_ref(), INTERNAL_ERROR, &text)
        }
    }
}

/// An error for each response in a batch.
pub(super) fn errors(batch: &Message, text: &str) -> Bytes {
    let answers = batch.batch().unwrap_or_default().into_iter().map(Message::read);
    let ids = answers.filter(|answer| answer.kind() == Kind::Response).filter_map(|answer| answer.id());
    let errors: Vec<Bytes> = ids.map(|id| mcp::error_response(Some(&id), INTERNAL_ERROR, text)).collect();
    batch_of(&errors)
}

/// Estimated tokens of a result that passes, counting what the client's model sees.
fn shown_tokens(result: &ToolResult, sees: Sees) -> u64 {
    let structured = result.structured().map(|structured| tokens(&structured));
    match (sees, structured) {
        (Sees::Structured, Some(structured)) => structured,
        (Sees::Text, Some(structured)) => tokens(&result.pass()).saturating_sub(structured),
        _ => tokens(&result.pass()),
    }
}
