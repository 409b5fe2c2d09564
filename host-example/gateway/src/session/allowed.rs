//! Tools that the settings withhold from clients.

use std::collections::HashMap;

use bytes::Bytes;
use lro_host::mcp::{self, EXTRACT_TOOL, INVALID_PARAMS, INVALID_REQUEST, Kind, Message, READ_TOOL, method};
use serde::de::IgnoredAny;

use super::Session;
use super::decision::{FromClient, batch_of};
use super::job::JOB_TOOL;
use super::pending::{Call, RequestKind};

impl Session {
    /// Whether clients may see and call a tool. The gateway's own are withheld only by their whole name.
    pub(super) fn allows(&self, tool: &str) -> bool {
        let config = &self.rules.config;
        let is_own = [EXTRACT_TOOL, READ_TOOL, JOB_TOOL].contains(&tool);
        match is_own && self.rules.announces() && !self.rules.has_name_conflict() {
            true => !config.tools_deny.iter().any(|denied| denied == tool),
            false => config.allows_tool(tool),
        }
    }

    /// What becomes of a message that calls a tool which is not allowed; `None` for any other. A server may read a message
    /// with a fault in another way than the gateway.
    pub(super) fn refusal(&self, message: &Message) -> Option<FromClient> {
        if !self.rules.changes() || !self.rules.config.restricts_tools() {
            return None;
        }
        if let Some(fault) = message.fault() {
            let text = format!("the message is not forwarded: {fault}");
            return Some(FromClient::Answer(mcp::error_response(message.id().as_ref(), INVALID_REQUEST, &text)));
        }
        if message.kind() != Kind::Batch {
            let reason = self.denied(message)?;
            return Some(message.id().map_or(FromClient::Nothing, |id| {
                FromClient::Answer(mcp::error_response(Some(&id), INVALID_PARAMS, &reason))
            }));
        }
        let elements: Vec<Message> = message.batch()?.into_iter().map(Message::read).collect();
        let reason = elements.iter().find_map(|element| match element.fault() {
            Some(fault) => Some(fault.to_string()),
            None => self.denied(element),
        })?;
        let text = format!("the batch is not forwarded: {reason}");
        let ids = elements.iter().filter(|element| element.kind() == Kind::Request).filter_map(Message::id);
        let errors: Vec<Bytes> = ids.map(|id| mcp::error_response(Some(&id), INVALID_PARAMS, &text)).collect();
        Some(if errors.is_empty() { FromClient::Nothing } else { FromClient::Answer(batch_of(&errors)) })
    }

    /// Why a message may not go to the server: it calls a tool that is not allowed, or whose name readers disagree about.
    fn denied(&self, message: &Message) -> Option<String> {
        if message.method().as_deref() != Some(method::TOOLS_CALL) {
            return None;
        }
        let params = message.value(&["params"]).unwrap_or_default();
        let members: HashMap<String, IgnoredAny> = serde_json::from_slice(&params).unwrap_or_default();
        let names = members.keys().filter(|key| key.eq_ignore_ascii_case("name")).count();
        match message.params().name.filter(|_| names == 1) {
            Some(tool) if self.allows(&tool) => None,
            Some(tool) => Some(format!("the tool `{tool}` is not allowed by the settings of the gateway")),
            None => Some("the call does not name one tool".to_owned()),
        }
    }

    /// An answer without the tools that are not allowed.
    pub(super) fn with_allowed_tools(&self, call: &Call, answer: Bytes) -> Bytes {
        let lists = matches!(call.kind, RequestKind::Tools { .. });
        if !lists || !self.rules.changes() || !self.rules.config.restricts_tools() {
            return answer;
        }
        mcp::with_tools_that(&Message::read(answer), |tool| self.allows(tool))
    }
}
