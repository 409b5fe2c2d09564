//! Sizes of what a server sends besides tool results.

use lro_host::mcp::{Message, method};

use super::Session;
use super::pending::{Call, RequestKind};
use crate::metrics::{ERROR, tokens};

impl Session {
    /// Counts an answer of the server by the method of its request, and an error as such.
    pub(super) fn measure_answer(&self, call: &Call, message: &Message) {
        let method = match &call.kind {
            _ if message.error_code().is_some() => ERROR,
            RequestKind::Tools { .. } => method::TOOLS_LIST,
            RequestKind::Templates { .. } => method::RESOURCE_TEMPLATES_LIST,
            RequestKind::Resources => method::RESOURCES_LIST,
            RequestKind::Prompts => method::PROMPTS_LIST,
            RequestKind::Resource(_) => method::RESOURCES_READ,
            RequestKind::Prompt => method::PROMPTS_GET,
            _ => return,
        };
        self.measure(method, message);
    }

    /// Counts a request of the server that a model or a person reads.
    pub(super) fn measure_request(&self, message: &Message) {
        let known = [method::SAMPLING, method::ELICITATION];
        let asked = message.method();
        if let Some(method) = known.into_iter().find(|known| asked.as_deref() == Some(*known)) {
            self.measure(method, message);
        }
    }

    fn measure(&self, method: &'static str, message: &Message) {
        let bytes = message.bytes();
        self.rules.metrics.measured(method, self.tenant(), bytes.len() as u64, tokens(bytes));
    }
}
