//! What the tools of a recorded session cost, and which settings would help.

use std::collections::HashMap;

use bytes::Bytes;
use lro_host::mcp::{self, Id, Kind, Message, method};

use crate::metrics::{ArgumentsHash, ListedTool, ToolCost, ToolCosts, tokens};
use crate::settings::Config;

/// Maximum number of tools, and of requests without an answer, that are counted. Further ones are not.
pub const RECORDED_MAX: usize = 10_000;

/// A recorded session: JSON-RPC messages of client and server, in the order in which they were sent.
#[derive(Debug)]
pub struct Recorded {
    tools: ToolCosts,
    /// Requests without an answer: the tool of a call, or none for a list.
    pending: HashMap<Id, Option<String>>,
}

impl Default for Recorded {
    fn default() -> Self {
        Self { tools: ToolCosts::new(RECORDED_MAX), pending: HashMap::new() }
    }
}

impl Recorded {
    /// Counts a message of either side. Returns whether it is one.
    pub fn push(&mut self, message: Bytes, config: &Config) -> bool {
        let message = Message::read(message);
        match message.kind() {
            Kind::Request => self.request(&message),
            Kind::Response => self.response(&message, config),
            Kind::Batch => {
                let elements = message.batch().unwrap_or_default();
                return !elements.is_empty() && elements.into_iter().all(|element| self.push(element, config));
            }
            Kind::Notification => {}
            Kind::Other => return false,
        }
        true
    }

    /// The tools, those with most tokens first.
    pub fn tools(&self) -> Vec<&ToolCost> {
        self.tools.all()
    }

    fn request(&mut self, message: &Message) {
        let (Some(id), params) = (message.id(), message.params()) else { return };
        if self.pending.len() >= RECORDED_MAX {
            return;
        }
        match (message.method().as_deref(), params.name) {
            (Some(method::TOOLS_LIST), _) => drop(self.pending.insert(id, None)),
            (Some(method::TOOLS_CALL), Some(name)) => {
                self.tools.begin(&name, ArgumentsHash::of(params.arguments.map(|json| json.get())));
                self.pending.insert(id, Some(name.into_owned()));
            }
            _ => {}
        }
    }

    fn response(&mut self, message: &Message, config: &Config) {
        let pending = message.id().and_then(|id| self.pending.remove(&id));
        let (Some(asked), Some(result)) = (pending, message.result()) else { return };
        let Some(tool) = asked else { return self.tools.list(ListedTool::all(&result)) };
        let is_large = mcp::exceeds(&result, config.for_tool(&tool).threshold);
        self.tools.end(&tool, tokens(&result), is_large);
    }
}
