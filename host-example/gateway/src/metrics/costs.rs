//! What tools cost, and which settings would help.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::results::label;
use super::{AUDITED_TOOLS_MAX, tokens};

/// Maximum number of arguments of a tool that are named.
const LIMITING_MAX: usize = 10;

/// Words of names of arguments that ask for less.
const LIMITING_WORDS: [&str; 7] = ["limit", "max", "maximum", "count", "top", "page", "cursor"];

/// Whole names of such arguments, whose words alone may mean something else.
const LIMITING_NAMES: [&str; 3] = ["first", "head", "tail"];

/// What is known of one tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCost {
    /// Its name.
    pub tool: String,
    /// Answered calls.
    pub calls: u64,
    /// Calls with the name and the arguments of an earlier one.
    pub repeated: u64,
    /// Results above the threshold of the tool; of a running gateway, those that its policy did not pass.
    pub large: u64,
    /// Estimated tokens of all results.
    pub tokens: u64,
    /// Estimated tokens of the largest result.
    pub tokens_max: u64,
    /// Estimated tokens of its definition in the list of tools; 0 if it was not listed.
    pub definition_tokens: u64,
    /// The arguments that ask for less; `None` if the tool was not listed.
    pub limiting: Option<Vec<String>>,
    /// Whether it says of itself that it changes nothing.
    pub only_reads: bool,
}

/// What a list of tools says of one.
#[derive(Debug)]
pub(crate) struct ListedTool {
    name: String,
    definition_tokens: u64,
    limiting: Vec<String>,
    only_reads: bool,
}

impl ListedTool {
    /// The tools of a list, a result as JSON.
    pub(crate) fn all(result: &[u8]) -> Vec<Self> {
        let mut list: Value = serde_json::from_slice(result).unwrap_or_default();
        let Value::Array(tools) = list["tools"].take() else { return Vec::new() };
        tools.iter().filter_map(Self::of).collect()
    }

    fn of(definition: &Value) -> Option<Self> {
        let arguments = definition["inputSchema"]["properties"].as_object();
        let names = arguments.into_iter().flat_map(serde_json::Map::keys).filter(|name| asks_for_less(name));
        Some(Self {
            name: definition["name"].as_str()?.to_owned(),
            definition_tokens: tokens(definition.to_string().as_bytes()),
            limiting: names.take(LIMITING_MAX).map(|name| label(name).into_owned()).collect(),
            only_reads: definition["annotations"]["readOnlyHint"] == true,
        })
    }
}

/// The arguments of a call, the same for equal JSON.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ArgumentsHash(u64);

impl ArgumentsHash {
    pub(crate) fn of(json: Option<&str>) -> Self {
        let arguments: Value = json.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        arguments.to_string().hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The costs of tools by name.
#[derive(Debug)]
pub(crate) struct ToolCosts {
    tools: BTreeMap<String, Counted>,
    max: usize,
}

#[derive(Debug, Default)]
struct Counted {
    cost: ToolCost,
    /// Hashes of the arguments so far.
    arguments: HashSet<u64>,
}

impl Default for ToolCosts {
    fn default() -> Self {
        Self::new(AUDITED_TOOLS_MAX)
    }
}

impl ToolCosts {
    /// For `max` tools and as many different calls of each. Further ones are not counted.
    pub(crate) fn new(max: usize) -> Self {
        Self { tools: BTreeMap::new(), max }
    }

    /// Counts a call.
    pub(crate) fn begin(&mut self, name: &str, arguments: ArgumentsHash) {
        let max = self.max;
        if let Some(tool) = self.tool(name) {
            let is_new = tool.arguments.len() >= max || tool.arguments.insert(arguments.0);
            tool.cost.repeated += u64::from(!is_new);
        }
    }

    /// Counts a result of so many tokens.
    pub(crate) fn end(&mut self, name: &str, tokens: u64, is_large: bool) {
        let Some(tool) = self.tool(name) else { return };
        tool.cost.calls += 1;
        tool.cost.tokens += tokens;
        tool.cost.tokens_max = tool.cost.tokens_max.max(tokens);
        tool.cost.large += u64::from(is_large);
    }

    /// Keeps what a list says of tools.
    pub(crate) fn list(&mut self, listed: Vec<ListedTool>) {
        for ListedTool { name, definition_tokens, limiting, only_reads } in listed {
            let Some(tool) = self.tool(&name) else { continue };
            tool.cost.definition_tokens = definition_tokens;
            tool.cost.limiting = Some(limiting);
            tool.cost.only_reads = only_reads;
        }
    }

    /// The tools, those with most tokens first.
    pub(crate) fn all(&self) -> Vec<&ToolCost> {
        let mut tools: Vec<&ToolCost> = self.tools.values().map(|tool| &tool.cost).collect();
        tools.sort_by_key(|tool| tool.rank());
        tools
    }

    /// The tool of a name; `None` beyond the limit.
    fn tool(&mut self, name: &str) -> Option<&mut Counted> {
        let name = label(name);
        if self.tools.len() >= self.max && !self.tools.contains_key(name.as_ref()) {
            return None;
        }
        let cost = ToolCost { tool: name.to_string(), ..ToolCost::default() };
        Some(self.tools.entry(name.into_owned()).or_insert_with(|| Counted { cost, ..Counted::default() }))
    }
}

impl ToolCost {
    /// Orders tools: those with most tokens first.
    pub(super) fn rank(&self) -> Reverse<(u64, u64)> {
        Reverse((self.tokens, self.definition_tokens))
    }

    /// Adds what another gateway has counted of the same tool.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.repeated += other.repeated;
        self.large += other.large;
        self.tokens += other.tokens;
        self.tokens_max = self.tokens_max.max(other.tokens_max);
        self.definition_tokens = self.definition_tokens.max(other.definition_tokens);
        self.limiting = self.limiting.take().or_else(|| other.limiting.clone());
        self.only_reads |= other.only_reads;
    }

    /// The settings that would help, as TOML: a question with each call where results are large and the tool cannot give
    /// less, and reuse where a tool that changes nothing was called again in the same way. Empty if none would.
    pub fn settings(&self) -> String {
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
