//! The policy as an interceptor: the proposal SEP-2624, in its text of 2026-07-17.
//!
//! A host that calls servers itself sends their results here, and gets them back as the gateway would have forwarded them:
//! the same policy, settings, store and limits.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::filter::Outcome;
use lro_host::mcp::{INTERNAL_ERROR, INVALID_PARAMS, Id, Message, ToolResult, method};
use lro_host::settings::FailureMode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::filtering::offload_of;
use super::pending::{Call, RequestKind, ToolCall};
use super::{QUERY_BYTES_MAX, Session};
use crate::clock::Clock;
use crate::tenants::rules::Rules;

/// Name of the extension in the capabilities.
pub(super) const EXTENSION: &str = "io.modelcontextprotocol/interceptors";
/// Settings of the extension.
pub(super) const SUPPORT: &str = r#"{"supportedEvents":["tools/call"]}"#;

/// Name of the interceptor.
const NAME: &str = "lro-filter";
const EVENT: &str = method::TOOLS_CALL;
const PHASE: &str = "response";

/// JSON-RPC error code of an invocation that took too long.
const TIMEOUT: i32 = -32000;

/// A request about the interceptor.
#[derive(Debug)]
pub(super) enum Interception {
    /// Which interceptors there are, for one event or for all.
    List(Option<String>),
    /// The parameters of an invocation.
    Invoke(Bytes),
}

/// Why an invocation has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum InterceptError {
    #[error("{0}")]
    Invalid(String),
    #[error("Interceptor execution failed")]
    Failed(String),
    #[error("Interceptor execution timeout")]
    Timeout(u64),
}

#[derive(Deserialize)]
struct ListParams<'a> {
    #[serde(borrow, default)]
    event: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Invocation<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    payload: &'a RawValue,
    #[serde(default)]
    config: Option<InvocationConfig>,
    timeout_ms: Option<u64>,
}

/// What `configSchema` describes.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct InvocationConfig {
    /// The tool whose result the payload is.
    #[serde(default)]
    tool: String,
    /// The arguments of its call.
    arguments: Option<Box<RawValue>>,
}

impl Interception {
    /// The request in a message; `None` for any other.
    pub(super) fn of(message: &Message) -> Option<Self> {
        let params = || message.value(&["params"]).unwrap_or_default();
        match message.method().as_deref()? {
            method::INTERCEPTORS_LIST => {
                let event = |params: ListParams<'_>| params.event.map(Cow::into_owned);
                Some(Self::List(serde_json::from_slice(&params()).ok().and_then(event)))
            }
            method::INTERCEPTOR_INVOKE => Some(Self::Invoke(params())),
            _ => None,
        }
    }

    /// The result of the request as JSON. `call` is its pending entry.
    pub(super) async fn answer(&self, session: &Session, call: &Call) -> Result<String, InterceptError> {
        match self {
            Self::List(event) => {
                let is_about = event.as_deref().is_none_or(|event| event == EVENT);
                let interceptors: Vec<Value> = is_about.then(|| definition(&session.rules)).into_iter().collect();
                Ok(json!({ "interceptors": interceptors }).to_string())
            }
            Self::Invoke(params) => invoke(session, call, params).await,
        }
    }
}

impl InterceptError {
    /// The response to the request.
    pub(super) fn response(&self, id: &Id) -> Bytes {
        let (code, data) = match self {
            Self::Invalid(_) => (INVALID_PARAMS, json!({ "interceptor": NAME })),
            Self::Failed(reason) => (INTERNAL_ERROR, json!({ "interceptor": NAME, "reason": reason })),
            Self::Timeout(millis) => (TIMEOUT, json!({ "interceptor": NAME, "timeoutMs": millis, "phase": PHASE })),
        };
        let error = json!({ "code": code, "message": self.to_string(), "data": data });
        format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.json()).into()
    }
}

/// The interceptor, as `interceptors/list` shows it.
fn definition(rules: &Rules) -> Value {
    json!({
        "name": NAME,
        "version": env!("CARGO_PKG_VERSION"),
        "description": "Writes large tool results to files, and puts a descriptor in their place",
        "type": "mutation",
        "hooks": [{ "events": [EVENT], "phase": PHASE }],
        "mode": if rules.audits() { "audit" } else { "active" },
        "failOpen": rules.config.failure != FailureMode::Closed,
        "configSchema": {
            "type": "object",
            "properties": {
                "tool": { "type": "string", "description": "the tool whose result the payload is" },
                "arguments": { "description": "the arguments of its call" },
            },
            "additionalProperties": false,
        },
    })
}

async fn invoke(session: &Session, call: &Call, params: &Bytes) -> Result<String, InterceptError> {
    let begun = Instant::now();
    let asked: Invocation<'_> = serde_json::from_slice(params)
        .map_err(|error| InterceptError::Invalid(format!("invalid parameters: {error}")))?;
    if (&*asked.name, &*asked.event, &*asked.phase) != (NAME, EVENT, PHASE) {
        let text = format!("the only interceptor is `{NAME}`, for the event `{EVENT}` in the phase `{PHASE}`");
        return Err(InterceptError::Invalid(text));
    }
    if !asked.payload.get().starts_with('{') {
        return Err(InterceptError::Invalid("the payload is not the result of a tool: expected an object".to_owned()));
    }
    let payload = params.slice_ref(asked.payload.get().as_bytes());
    let result = ToolResult::of_value(payload.clone())
        .map_err(|error| InterceptError::Invalid(format!("the payload is not the result of a tool: {error}")))?;
    let InvocationConfig { tool, arguments } = asked.config.unwrap_or_default();
    let query = arguments.map(|json| json.get().to_owned()).filter(|query| query.len() <= QUERY_BYTES_MAX);
    let kind = RequestKind::Tool(ToolCall { name: tool, query, ..ToolCall::default() });
    let call = Call { kind, progress: None, ..call.clone() };
    let filtered = session.filtered_reply(&result, &call);
    let (reply, outcome) = match asked.timeout_ms {
        Some(millis) => {
            let clock = Clock::get().map_err(|error| InterceptError::Failed(error.to_string()))?;
            let done = clock.until(begun.checked_add(Duration::from_millis(millis)), filtered).await;
            done.ok_or(InterceptError::Timeout(millis))?
        }
        None => filtered.await,
    };
    if let Some(Outcome::Fail(reason)) = outcome {
        return Err(InterceptError::Failed(reason));
    }
    let handle = outcome.as_ref().and_then(offload_of);
    let info = handle.map(|handle| format!(r#","info":{{"handle":"{handle}"}}"#)).unwrap_or_default();
    let (modified, millis) = (reply != payload, begun.elapsed().as_millis());
    let reply = std::str::from_utf8(&reply).map_err(|error| InterceptError::Failed(error.to_string()))?;
    Ok(format!(
        r#"{{"interceptor":"{NAME}","type":"mutation","phase":"{PHASE}","durationMs":{millis}{info},"modified":{modified},"payload":{reply}}}"#
    ))
}
