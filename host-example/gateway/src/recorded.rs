//! What the tools of a recorded session cost, and which settings would help.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use bytes::Bytes;
use lro_host::mcp::{self, Id, Kind, Message, method};
use serde::Serialize;
use serde_json::Value;

use crate::metrics::tokens;
use crate::settings::Config;

/// Maximum number of tools, and of requests without an answer, that are counted. Further ones are not.
pub const RECORDED_MAX: usize = 10_000;

/// Words of names of arguments that ask for less.
const LIMITING_WORDS: [&str; 7] = ["limit", "max", "maximum", "count", "top", "page", "cursor"];

/// Whole names of such arguments, whose words alone may mean something else.
const LIMITING_NAMES: [&str; 3] = ["first", "head", "tail"];

/// What is known of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ToolCost {
    /// Its name.
    pub tool: String,
    /// Answered calls.
    pub calls: u64,
    /// Calls with the name and the arguments of an earlier one.
    pub repeated: u64,
    /// Results above the threshold of the tool.
    pub large: u64,
    /// Estimated tokens of all results.
    pub tokens: u64,
    /// Estimated tokens of the largest result.
    pub tokens_max: u64,
    /// Estimated tokens of its definition in the list of tools; 0 if it was not listed.
    pub definition_tokens: u64,
    /// The arguments that ask for less; `None` if the tool was not listed.
    pub limiting: Option<Vec<String>>,
    #[serde(skip)]
    only_reads: bool,
    #[serde(skip)]
    arguments: HashSet<u64>,
}

/// A recorded session: JSON-RPC messages of client and server, in the order in which they were sent.
#[derive(Debug, Default)]
pub struct Recorded {
    tools: BTreeMap<String, ToolCost>,
    /// Requests without an answer: the tool of a call, or none for a list.
    pending: HashMap<Id, Option<String>>,
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
        let mut tools: Vec<&ToolCost> = self.tools.values().collect();
        tools.sort_by_key(|tool| std::cmp::Reverse((tool.tokens, tool.definition_tokens)));
        tools
    }

    /// The settings that would help, as TOML. Empty if none would.
    pub fn settings(&self) -> String {
        self.tools().into_iter().map(ToolCost::settings).collect()
    }

    fn request(&mut self, message: &Message) {
        let (Some(id), params) = (message.id(), message.params()) else { return };
        if self.pending.len() >= RECORDED_MAX {
            return;
        }
        match (message.method().as_deref(), params.name) {
            (Some(method::TOOLS_LIST), _) => drop(self.pending.insert(id, None)),
            (Some(method::TOOLS_CALL), Some(name)) => {
                let arguments: Value =
                    params.arguments.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default();
                let mut hasher = DefaultHasher::new();
                arguments.to_string().hash(&mut hasher);
                if let Some(tool) = self.tool(&name) {
                    let is_new = tool.arguments.len() >= RECORDED_MAX || tool.arguments.insert(hasher.finish());
                    tool.repeated += u64::from(!is_new);
                }
                self.pending.insert(id, Some(name.into_owned()));
            }
            _ => {}
        }
    }

    fn response(&mut self, message: &Message, config: &Config) {
        let pending = message.id().and_then(|id| self.pending.remove(&id));
        let (Some(asked), Some(result)) = (pending, message.result()) else { return };
        let Some(name) = asked else { return self.list(&result) };
        let Some(tool) = self.tool(&name) else { return };
        let tokens = tokens(&result);
        tool.calls += 1;
        tool.tokens += tokens;
        tool.tokens_max = tool.tokens_max.max(tokens);
        tool.large += u64::from(mcp::exceeds(&result, config.for_tool(&name).threshold));
    }

    fn list(&mut self, result: &[u8]) {
        let list: Value = serde_json::from_slice(result).unwrap_or_default();
        for definition in list["tools"].as_array().into_iter().flatten() {
            let Some(tool) = definition["name"].as_str().and_then(|name| self.tool(name)) else { continue };
            tool.definition_tokens = tokens(definition.to_string().as_bytes());
            let arguments = definition["inputSchema"]["properties"].as_object();
            let names = arguments.into_iter().flat_map(serde_json::Map::keys);
            tool.limiting = Some(names.filter(|name| asks_for_less(name)).cloned().collect());
            tool.only_reads = definition["annotations"]["readOnlyHint"] == true;
        }
    }

    /// The tool of a name; `None` beyond [`RECORDED_MAX`].
    fn tool(&mut self, name: &str) -> Option<&mut ToolCost> {
        if self.tools.len() >= RECORDED_MAX && !self.tools.contains_key(name) {
            return None;
        }
        let new = || ToolCost { tool: name.to_owned(), ..ToolCost::default() };
        Some(self.tools.entry(name.to_owned()).or_insert_with(new))
    }
}

impl ToolCost {
    /// The settings that would help: a question with each call where results are large and the tool cannot give less, and
    /// reuse where a tool that changes nothing was called again in the same way.
    fn settings(&self) -> String {
        let asks = self.large > 0 && self.limiting.as_ref().is_none_or(Vec::is_empty);
        let reuses = self.large > 0 && self.repeated > 0 && self.only_reads;
        let mut settings = String::new();
        if asks || reuses {
            let name = toml::Value::from(self.tool.as_str());
            let _ = writeln!(settings, "[tools.{name}]");
        }
        if asks {
            let _ = writeln!(settings, "ask = true            # {} of {} results are large", self.large, self.calls);
        }
        if reuses {
            let _ = writeln!(settings, "reuse-seconds = 60    # {} identical calls", self.repeated);
        }
        settings
    }
}

fn asks_for_less(argument: &str) -> bool {
    let mut words = String::new();
    for character in argument.chars() {
        if character.is_uppercase() {
            words.push('_');
        }
        words.extend(character.to_lowercase());
    }
    let has = |word: &str| LIMITING_WORDS.contains(&word);
    LIMITING_NAMES.contains(&argument) || words.split(|character: char| !character.is_alphanumeric()).any(has)
}
