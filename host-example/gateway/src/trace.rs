//! Spans of calls, and their trace context: W3C `traceparent` and `tracestate`, in the metadata of a request and, over HTTP, in
//! its headers. The attributes are those of the semantic conventions of OpenTelemetry for MCP.
//!
//! Nothing is looked at or changed here while no subscriber takes spans of the target [`SPANS`].

use std::collections::HashMap;

use axum::http::{HeaderMap, HeaderName};
use lro_host::SPANS;
use lro_host::mcp::{self, Id, Message, method};
use lro_host::store::Ulid;
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry::{Context, global};
use tracing::field::Empty;
use tracing::{Level, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::metrics::label;
use crate::session::SessionOwner;

/// The context of the caller.
pub(crate) const PARENT: &str = "traceparent";
/// What tracing systems add to it.
pub(crate) const STATE: &str = "tracestate";

/// `error.type` of a result that says that the tool has failed.
const TOOL_ERROR: &str = "tool_error";

/// Whether anybody takes spans.
pub(crate) fn is_on() -> bool {
    tracing::span_enabled!(target: SPANS, Level::INFO)
}

/// The span of a client's call of a tool, under the context in the metadata of its request.
pub(crate) fn of_call(owner: &SessionOwner, message: &Message, tool: &str, revision: Option<&str>) -> Span {
    let tool = label(tool);
    let span = tracing::info_span!(
        target: SPANS,
        parent: None,
        "tools/call",
        "otel.name" = format!("{} {tool}", method::TOOLS_CALL),
        "otel.kind" = "server",
        "otel.status_code" = Empty,
        "mcp.method.name" = method::TOOLS_CALL,
        "mcp.protocol.version" = revision.map(|revision| label(revision).into_owned()),
        "mcp.session.id" = owner.session.as_deref().map(|session| label(session).into_owned()),
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = &*tool,
        "network.transport" = if owner.local { "pipe" } else { "tcp" },
        "error.type" = Empty,
        "rpc.response.status_code" = Empty,
        "lro.tenant" = &*label(&owner.tenant),
        "lro.verdict" = Empty,
        "lro.handle" = Empty,
    );
    // It has not begun yet.
    let _ = span.set_parent(context_of(|name| text(message, name)));
    span
}

/// The span of a call while the server has it, in the span of the client's call.
pub(crate) fn of_upstream(call: &Span, id: &Id, tool: &str) -> Span {
    if call.is_disabled() {
        return Span::none();
    }
    let tool = label(tool);
    tracing::info_span!(
        target: SPANS,
        parent: call,
        "upstream",
        "otel.name" = format!("{} {tool}", method::TOOLS_CALL),
        "otel.kind" = "client",
        "otel.status_code" = Empty,
        "mcp.method.name" = method::TOOLS_CALL,
        "gen_ai.operation.name" = "execute_tool",
        "gen_ai.tool.name" = &*tool,
        "jsonrpc.request.id" = id.json().trim_matches('"'),
        "error.type" = Empty,
        "rpc.response.status_code" = Empty,
    )
}

/// The span of a question about an offload, in the current one.
pub(crate) fn of_query(tool: &str) -> Span {
    tracing::info_span!(target: SPANS, "query", "gen_ai.tool.name" = tool)
}

/// Notes in a span how the call was answered.
pub(crate) fn answered(span: &Span, answer: &Message) {
    if span.is_disabled() {
        return;
    }
    match answer.error_code() {
        Some(code) => failed(span, &code.to_string(), true),
        None if answer.is_tool_error() => failed_tool(span),
        None => {}
    }
}

/// Notes in a span that the client gets a tool error.
pub(crate) fn failed_tool(span: &Span) {
    failed(span, TOOL_ERROR, false);
}

/// Notes in a span that the call failed with a JSON-RPC error.
pub(crate) fn ended_with(span: &Span, code: i32) {
    if !span.is_disabled() {
        failed(span, &code.to_string(), true);
    }
}

fn failed(span: &Span, kind: &str, is_protocol_error: bool) {
    span.record("otel.status_code", "error");
    span.record("error.type", kind);
    if is_protocol_error {
        span.record("rpc.response.status_code", kind);
    }
}

/// Notes in a span what became of the result.
pub(crate) fn decided(span: &Span, verdict: &str, offload: Option<Ulid>) {
    span.record("lro.verdict", verdict);
    if let Some(id) = offload {
        span.record("lro.handle", tracing::field::display(id));
    }
}

/// The request with a span as the parent in its metadata; unchanged without a context. What else the metadata says of a trace
/// holds for the span, too.
pub(crate) fn with_context(message: Message, span: &Span) -> Message {
    if span.is_disabled() {
        return message;
    }
    let mut fields = HashMap::new();
    global::get_text_map_propagator(|propagator| propagator.inject_context(&span.context(), &mut fields));
    match fields.get(PARENT) {
        Some(parent) => with_field(message, PARENT, parent),
        None => message,
    }
}

/// The request with the context of its headers in its metadata, unless that has one.
pub(crate) fn with_headers(message: Message, headers: &HeaderMap) -> Message {
    let is_call = || message.method().as_deref() == Some(method::TOOLS_CALL);
    if !headers.contains_key(PARENT) || !is_on() || !is_call() || text(&message, PARENT).is_some() {
        return message;
    }
    let field = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if !context_of(field).span().span_context().is_valid() {
        return message;
    }
    [PARENT, STATE].into_iter().fold(message, |message, name| match field(name) {
        Some(text) => with_field(message, name, &text),
        None => message,
    })
}

/// The context in the metadata of a request as headers.
pub(crate) fn headers(message: &Message) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if is_on() {
        for name in [PARENT, STATE] {
            let value = text(message, name).and_then(|text| text.parse().ok());
            headers.extend(value.map(|value| (HeaderName::from_static(name), value)));
        }
    }
    headers
}

fn with_field(message: Message, name: &str, text: &str) -> Message {
    let (path, json) = (["params", "_meta", name], serde_json::Value::from(text).to_string());
    if message.value(&path).is_some() {
        return Message::read(message.with_bytes(&path, json.as_bytes()));
    }
    match message.value(&["params"]) {
        Some(params) => Message::read(message.with_bytes(&["params"], &mcp::with_metadata(&params, name, &json))),
        None => message,
    }
}

/// A text in the metadata of a request.
fn text(message: &Message, name: &str) -> Option<String> {
    serde_json::from_slice(&message.value(&["params", "_meta", name])?).ok()
}

/// The context that these fields name; one without a span if they name none.
fn context_of(field: impl Fn(&str) -> Option<String>) -> Context {
    let fields: HashMap<String, String> =
        [PARENT, STATE].into_iter().filter_map(|name| Some((name.to_owned(), field(name)?))).collect();
    global::get_text_map_propagator(|propagator| propagator.extract_with_context(&Context::new(), &fields))
}
