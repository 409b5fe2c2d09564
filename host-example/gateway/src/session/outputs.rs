//! Tool results by audience, the proposal SEP-3279, with the setting `gateway.output-variants`: to a client of revision
//! 2026-12-01 the gateway is a server of that revision, in front of servers of those before it.
//!
//! A message of such a client becomes one of 2026-07-28 when it arrives, and its answer takes the new form when it leaves. In
//! between, a call only knows which outputs it is to have.

use std::sync::Arc;

use bytes::Bytes;
use lro_host::filter::Outcome;
use lro_host::mcp::{
    self, EXTRACT_TOOL, INVALID_PARAMS, Message, OUTPUTS_REVISION, READ_TOOL, REVISION_BEFORE_OUTPUTS,
    RequestedOutputs, ToolResult, meta, method,
};
use serde_json::Value;

use super::ceiling::Reader;
use super::filtering::offload_of;
use super::job::{JOB_TOOL, task};
use super::pending::{Call, RequestKind};
use crate::session::Session;

/// Path of the revision of a request.
const REVISION: [&str; 3] = ["params", "_meta", meta::PROTOCOL_VERSION];

/// Path of the outputs that a call names.
const REQUESTED: [&str; 2] = ["params", "requestedOutputs"];

/// Path of the result of a task.
const TASK_RESULT: [&str; 2] = ["result", "result"];

/// Error for outputs that are larger than the client accepts.
const TOO_LARGE: &str =
    "the whole result is larger than this client accepts: request the output assistant/content, and ask for less";

impl Session {
    /// Takes the outputs that a client of [`OUTPUTS_REVISION`] wants out of its message, which becomes one of the revision
    /// before. `None` for the outputs of any other message.
    ///
    /// # Errors
    /// The response to a call whose outputs cannot be given.
    pub(super) fn requested_outputs(
        &self,
        message: Message,
    ) -> Result<(Message, Option<Arc<RequestedOutputs>>), Bytes> {
        if !self.rules.gives_outputs() || !is_of_outputs_revision(&message) {
            return Ok((message, None));
        }
        let before = Value::from(REVISION_BEFORE_OUTPUTS).to_string();
        let older = Message::read(message.with_bytes(&REVISION, before.as_bytes()));
        let requested = older.value(&REQUESTED).filter(|_| older.method().as_deref() == Some(method::TOOLS_CALL));
        let Some(requested) = requested else { return Ok((older, Some(Arc::default()))) };
        let refused = |reason: String| mcp::error_response(message.id().as_ref(), INVALID_PARAMS, &reason);
        let outputs = RequestedOutputs::read(&requested).map_err(|error| refused(error.to_string()))?;
        let tool = older.params().name.unwrap_or_default().into_owned();
        if let Some(output) = outputs.structured().filter(|_| self.has_no_structured(&tool)) {
            return Err(refused(format!("the tool `{tool}` does not declare the output {output}")));
        }
        let mut older = Message::read(older.without(&REQUESTED));
        if !outputs.is_fallback() {
            // The result of a task gets the output for a model alone.
            older = task::without_support(older);
        }
        Ok((older, Some(Arc::new(outputs))))
    }

    /// Whether a tool is known to declare no structured content.
    fn has_no_structured(&self, tool: &str) -> bool {
        let (caches, tenant) = (&self.rules.caches, self.tenant());
        let is_own = [EXTRACT_TOOL, READ_TOOL, JOB_TOOL].contains(&tool) && self.rules.announces();
        is_own || caches.is_structured(tenant, tool) == Some(false)
    }

    /// The response to a call whose result is this, with the outputs that the call wants; `outcome` is that of the policy. A job
    /// keeps its response as it is.
    pub(super) async fn with_outputs(
        &self,
        response: Bytes,
        result: &ToolResult,
        outcome: Option<&Outcome>,
        call: &Call,
    ) -> Bytes {
        let Some(outputs) = call.outputs.as_ref().filter(|_| call.job.is_none()) else { return response };
        let answer = match (outputs.has_whole(), outputs.has_assistant()) {
            (false, _) => return outputs.of_response(&response, None),
            (true, false) => match not_whole(outcome) {
                Some(reason) => outputs.of_response(&response, Some(Err(&reason))),
                None => outputs.of_response(&response, None),
            },
            (true, true) => {
                let (whole, outcome) = self.whole_result(result, call).await;
                let whole = match (not_whole(outcome.as_ref()), Message::read(whole).result()) {
                    (None, Some(whole)) => Ok(whole),
                    (reason, _) => Err(reason.unwrap_or_else(|| TOO_LARGE.to_owned())),
                };
                outputs.of_response(&response, Some(whole.as_ref().map_err(String::as_str)))
            }
        };
        let reader = Reader { takes_all: true, ..self.reader(call) };
        if !self.is_too_large(&answer, &reader) {
            return answer;
        }
        outputs.of_response(&response, Some(Err(TOO_LARGE)))
    }
}

impl Call {
    /// A response of the gateway itself to the call, in the form that its client expects.
    pub(super) fn shaped(&self, response: Bytes) -> Bytes {
        shaped(self.outputs.as_deref(), response)
    }

    /// Notes the outputs that the call is to have.
    pub(super) fn want(&mut self, outputs: Option<Arc<RequestedOutputs>>) {
        if let (Some(outputs), RequestKind::Tool(tool)) = (&outputs, &mut self.kind) {
            // A reply that is kept is for a model.
            tool.reuse = tool.reuse.take().filter(|_| outputs.is_fallback());
            if !outputs.has_assistant() {
                tool.inline = true;
                self.usage = Arc::default();
            }
        }
        self.outputs = outputs;
    }

    /// The same call by a program that wants the whole result.
    pub(super) fn of_program(&self) -> Self {
        let mut call = self.clone();
        if let RequestKind::Tool(tool) = &mut call.kind {
            tool.inline = true;
        }
        call.usage = Arc::default();
        call
    }
}

/// A response of the gateway itself, with these outputs.
pub(super) fn shaped(outputs: Option<&RequestedOutputs>, response: Bytes) -> Bytes {
    outputs.map_or_else(|| response.clone(), |outputs| outputs.of_response(&response, None))
}

/// A response about a task, whose result gets the output for a model.
pub(super) fn shaped_task(outputs: Option<&RequestedOutputs>, response: Bytes) -> Bytes {
    let message = Message::read(response.clone());
    let result = outputs.and_then(|_| message.value(&TASK_RESULT));
    let shaped = result.and_then(|result| RequestedOutputs::default().of_result(&result, Ok(&result)).ok());
    shaped.map_or(response, |result| message.with_bytes(&TASK_RESULT, &result))
}

/// Whether a message names the revision in which results have outputs.
pub(crate) fn is_of_outputs_revision(message: &Message) -> bool {
    let meta = message.params().meta;
    meta.is_some_and(|meta| meta.protocol_version.as_deref() == Some(OUTPUTS_REVISION))
}

/// Why the policy did not let the whole result pass, if it did not. An error of the policy is a whole result.
fn not_whole(outcome: Option<&Outcome>) -> Option<String> {
    match outcome? {
        Outcome::Pass | Outcome::Reject(_) | Outcome::Fail(_) => None,
        outcome @ Outcome::Offload(_) => offload_of(outcome).map(|handle| {
            format!("the policy or a limit of the client keeps it from being sent whole; it can be read by the handle {handle}")
        }),
        Outcome::Truncate { .. } => Some("the policy cut it".to_owned()),
    }
}
