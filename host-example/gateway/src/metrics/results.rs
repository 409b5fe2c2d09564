//! Tool results by tool and tenant.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lro_host::filter::{Decision, FilterError, Outcome, verdict_name};
use lro_host::mcp::{self, ToolResult};
use lro_host::sandbox::{Cost, EPOCH_TICK, Verdict};
use lro_host::settings::SizeUnit;
use lro_transport::{Permit, Pool};
use metrics::{Histogram, counter, histogram};

use super::days::ToolDay;
use super::snapshot::{Snapshot, Verdicts};
use super::{POLICY_MEMORY_BYTES, POLICY_SECONDS, shortened};
use crate::session::ToolCall;

/// Maximum number of pairs of a tool and a tenant with their own series; further ones count as the tool `other`. The
/// last eighth is reserved for tenants that hold at most an eighth.
pub const LABELS_MAX: usize = 1_000;

/// The name of tools that are not counted on their own, such as the label `tool` of all pairs beyond [`LABELS_MAX`].
pub(super) const OTHER_TOOL: &str = "other";

/// Bytes of a message whose tokens are counted for `lro audit`.
const TOKENS_BYTES_MAX: usize = 64 << 10;

/// Counts of the results by tenant and tool.
pub(super) struct Results {
    tenants: HashMap<String, HashMap<String, Series>>,
    pairs: Arc<Pool<String>>,
}

/// The results of one tool and tenant.
struct Series {
    labels: [(&'static str, String); 2],
    /// Number of results by verdict and mode.
    results: BTreeMap<(&'static str, &'static str), u64>,
    result_bytes: u64,
    reply_bytes: u64,
    tokens_saved: u64,
    epochs: u64,
    time: Duration,
    seconds: Histogram,
    memory: Histogram,
    /// The permit for the pair; `None` for the tool `other`.
    _pair: Option<Permit<String>>,
}

/// One tool result and its verdict.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    pub(crate) tool: &'a str,
    pub(crate) tenant: &'a str,
    pub(crate) verdict: &'static str,
    audit: bool,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    pub(crate) tokens_saved: u64,
    /// Estimated tokens of the result.
    pub(super) tokens_in: u64,
    /// The arguments of the call, as JSON.
    pub(super) arguments: Option<&'a str>,
    pub(crate) time: Duration,
    memory_bytes: usize,
    pub(crate) failure: Option<&'static str>,
}

impl<'a> Observation<'a> {
    pub(crate) fn of(
        tool: &'a ToolCall,
        tenant: &'a str,
        result: &ToolResult,
        reply: &Bytes,
        decision: &Decision,
    ) -> Self {
        let passed = result.pass();
        let bytes_in = passed.len() as u64;
        let tokens_in = match &decision.outcome {
            Outcome::Offload(offloaded) => offloaded.offloaded_tokens,
            _ => tokens_by_beginning(&passed),
        };
        let costs = || [&decision.inspect, &decision.write].into_iter().flatten();
        Self {
            tool: &tool.name,
            tenant,
            verdict: decision.outcome.name(),
            audit: false,
            bytes_in,
            bytes_out: reply.len() as u64,
            tokens_saved: tokens_saved(&decision.outcome, bytes_in, reply),
            tokens_in,
            arguments: tool.query.as_deref(),
            time: costs().map(|cost| cost.time).sum(),
            memory_bytes: costs().map(|cost| cost.memory_bytes).max().unwrap_or(0),
            failure: decision.failure.as_ref().map(FilterError::kind),
        }
    }

    pub(crate) fn audited(tool: &'a ToolCall, tenant: &'a str, verdict: &Verdict, cost: &Cost, result: &Bytes) -> Self {
        let bytes = result.len() as u64;
        Self {
            tool: &tool.name,
            tenant,
            verdict: verdict_name(verdict),
            audit: true,
            bytes_in: bytes,
            bytes_out: bytes,
            tokens_saved: 0,
            tokens_in: tokens_by_beginning(result),
            arguments: tool.query.as_deref(),
            time: cost.time,
            memory_bytes: cost.memory_bytes,
            failure: None,
        }
    }

    /// Whether the policy has not passed the result, or would not.
    pub(super) fn is_large(&self) -> bool {
        self.verdict != "pass"
    }

    /// What it adds to the counts of its tool and day.
    pub(super) fn of_day(&self) -> ToolDay {
        ToolDay {
            calls: 1,
            large: self.is_large().into(),
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            tokens_saved: self.tokens_saved,
            ..ToolDay::default()
        }
    }
}

/// Estimated tokens that a reply in place of a result saves.
pub(super) fn tokens_saved(outcome: &Outcome, bytes_in: u64, reply: &[u8]) -> u64 {
    let tokens_in = match outcome {
        Outcome::Pass => return 0,
        Outcome::Offload(offloaded) => offloaded.offloaded_tokens,
        _ => bytes_in.div_ceil(4),
    };
    tokens_in.saturating_sub(tokens(reply))
}

/// Estimated tokens of a message, by those of its beginning if it is long.
fn tokens_by_beginning(message: &[u8]) -> u64 {
    let beginning = message.get(..TOKENS_BYTES_MAX).map(|bytes| match std::str::from_utf8(bytes) {
        Ok(_) => bytes,
        Err(error) => &bytes[..error.valid_up_to()],
    });
    match beginning {
        Some(beginning) if !beginning.is_empty() => {
            let all = u128::from(tokens(beginning)) * message.len() as u128 / beginning.len() as u128;
            u64::try_from(all).unwrap_or(u64::MAX)
        }
        _ => tokens(message),
    }
}

/// Estimated tokens of a message.
pub(crate) fn tokens(message: &[u8]) -> u64 {
    std::str::from_utf8(message).map_or(0, |text| mcp::wire_size(text, SizeUnit::Tokens))
}

impl Default for Results {
    fn default() -> Self {
        Self { tenants: HashMap::new(), pairs: Pool::new(LABELS_MAX as u64) }
    }
}

impl fmt::Debug for Results {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Results").field("pairs", &self.pairs).finish_non_exhaustive()
    }
}

impl Results {
    pub(super) fn observe(&mut self, observation: &Observation<'_>) {
        let tool = label(observation.tool);
        if let Some(series) = self.tenants.get_mut(observation.tenant).and_then(|tools| tools.get_mut(tool.as_ref())) {
            return series.observe(observation);
        }
        // The number of series is bounded, whatever the server calls its tools.
        let tenant = observation.tenant.to_owned();
        let pair = self.pairs.take(&tenant, 1);
        let tool = if pair.is_some() { tool.as_ref() } else { OTHER_TOOL };
        let tools = self.tenants.entry(tenant).or_default();
        tools
            .entry(tool.to_owned())
            .or_insert_with(|| Series::new(tool, observation.tenant, pair))
            .observe(observation);
    }

    /// Adds the results to the totals.
    pub(super) fn add_to(&self, totals: &mut Snapshot) {
        for series in self.series() {
            for ((verdict, _), count) in &series.results {
                totals.calls += count;
                *totals.verdicts.named(verdict) += count;
            }
            totals.bytes_in += series.result_bytes;
            totals.bytes_out += series.reply_bytes;
            totals.tokens_saved += series.tokens_saved;
            totals.policy_micros += u64::try_from(series.time.as_micros()).unwrap_or(u64::MAX);
        }
    }

    /// The results of each tool by verdict.
    pub(super) fn verdicts(&self) -> Vec<(String, Verdicts)> {
        let mut tools: BTreeMap<&str, Verdicts> = BTreeMap::new();
        for series in self.series() {
            let [(_, tool), _] = &series.labels;
            let verdicts = tools.entry(tool).or_default();
            for ((verdict, _), count) in &series.results {
                *verdicts.named(verdict) += count;
            }
        }
        tools.into_iter().map(|(tool, verdicts)| (tool.to_owned(), verdicts)).collect()
    }

    /// Sets the counters of the global recorder.
    pub(super) fn export(&self) {
        self.series().for_each(Series::export);
    }

    fn series(&self) -> impl Iterator<Item = &Series> {
        self.tenants.values().flat_map(HashMap::values)
    }
}

impl Series {
    fn new(tool: &str, tenant: &str, pair: Option<Permit<String>>) -> Self {
        let labels = [("tool", tool.to_owned()), ("tenant", tenant.to_owned())];
        Self {
            results: BTreeMap::new(),
            result_bytes: 0,
            reply_bytes: 0,
            tokens_saved: 0,
            epochs: 0,
            time: Duration::ZERO,
            seconds: histogram!(POLICY_SECONDS, &labels),
            memory: histogram!(POLICY_MEMORY_BYTES, &labels),
            _pair: pair,
            labels,
        }
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        let mode = if observation.audit { "audit" } else { "enforce" };
        *self.results.entry((observation.verdict, mode)).or_default() += 1;
        self.result_bytes += observation.bytes_in;
        self.reply_bytes += observation.bytes_out;
        self.tokens_saved += observation.tokens_saved;
        let epochs = observation.time.as_nanos().div_ceil(EPOCH_TICK.as_nanos());
        self.epochs += u64::try_from(epochs).unwrap_or(u64::MAX);
        self.time += observation.time;
        self.seconds.record(observation.time.as_secs_f64());
        self.memory.record(observation.memory_bytes as f64);
    }

    fn export(&self) {
        let [tool, tenant] = &self.labels;
        for ((verdict, mode), count) in &self.results {
            let labels =
                [tool.clone(), tenant.clone(), ("verdict", (*verdict).to_owned()), ("mode", (*mode).to_owned())];
            counter!("lro_tool_results_total", &labels).absolute(*count);
        }
        counter!("lro_result_bytes_total", &self.labels).absolute(self.result_bytes);
        counter!("lro_reply_bytes_total", &self.labels).absolute(self.reply_bytes);
        counter!("lro_tokens_saved_total", &self.labels).absolute(self.tokens_saved);
        counter!("lro_policy_epochs_total", &self.labels).absolute(self.epochs);
    }
}

/// The name of a tool as a label: truncated, without characters that control a terminal or the direction of text.
pub(crate) fn label(name: &str) -> Cow<'_, str> {
    let is_hidden = |character: char| {
        let formats = ['\u{61C}', '\u{FEFF}'].contains(&character)
            || ('\u{200B}'..='\u{200F}').contains(&character)
            || ('\u{2028}'..='\u{202E}').contains(&character)
            || ('\u{2060}'..='\u{2069}').contains(&character);
        character.is_control() || formats
    };
    let name = shortened(name);
    if name.contains(is_hidden) { Cow::Owned(name.replace(is_hidden, "_")) } else { Cow::Borrowed(name) }
}
