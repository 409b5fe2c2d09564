//! Arguments that the gateway fills in and caps before the server sees a call, for tools with the setting `arguments`.

use std::sync::Arc;

use bytes::Bytes;
use lro_host::mcp::{self, ArgumentRule, BoundedCall, EXTRACT_TOOL, Message, READ_TOOL, method};

use super::job::JOB_TOOL;
use super::pending::{Call, RequestKind};
use crate::session::Session;

/// Metadata key of an answer for the arguments that the server got in place of those of the call.
const KEY: &str = "io.github.lro-filter/arguments";

/// The message with its arguments filled in and capped, and the changed ones as a JSON object.
pub(crate) fn bounded(session: &Session, message: Message) -> (Message, Option<Arc<str>>) {
    if !session.rules.changes()
        || !session.rules.config.has_argument_rules()
        || message.method().as_deref() != Some(method::TOOLS_CALL)
    {
        return (message, None);
    }
    let rules = message.params().name.map(|tool| rules(session, &tool)).unwrap_or_default();
    match mcp::bounded_call(&message, &rules) {
        Some(BoundedCall { message, changed }) => (Message::read(message), Some(changed.into())),
        None => (message, None),
    }
}

/// The rules that fit a tool, as far as its schema is known.
pub(super) fn rules(session: &Session, tool: &str) -> Vec<ArgumentRule> {
    if [EXTRACT_TOOL, READ_TOOL, JOB_TOOL].contains(&tool) {
        return Vec::new();
    }
    let mut rules = session.rules.config.argument_rules(tool);
    let schema = if rules.is_empty() { None } else { session.input_schema(tool) };
    rules.retain(|rule| schema.as_ref().is_none_or(|schema| mcp::check_argument(schema.as_bytes(), rule).is_ok()));
    rules
}

/// Logs which rules do not fit a tool that is listed with another schema than before.
pub(super) fn check(session: &Session, tool: &str, schema: &[u8]) {
    let rules = session.rules.config.argument_rules(tool);
    if rules.is_empty() || session.input_schema(tool).is_some_and(|known| known.as_bytes() == schema) {
        return;
    }
    for rule in rules {
        if let Err(error) = mcp::check_argument(schema, &rule) {
            tracing::warn!(tool, argument = rule.name, %error, "a rule of `arguments` does not fit and is left out");
        }
    }
}

/// The response with what the server got in place of arguments of the call, where the client accepts as much.
pub(super) fn noted(session: &Session, response: Bytes, call: &Call) -> Bytes {
    let RequestKind::Tool(tool) = &call.kind else { return response };
    let Some(changed) = &tool.changed else { return response };
    let noted = mcp::with_response_metadata(&response, KEY, changed);
    if session.is_too_large(&noted, &session.reader(call)) { response } else { noted }
}
