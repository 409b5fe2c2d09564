//! Metrics of the gateway: totals for `lro status`, and Prometheus metrics.
//!
//! Names and labels follow the conventions of Prometheus. The label `tool` is the server's name of the tool, `tenant`
//! the name in the configuration. At most [`LABELS_MAX`] pairs have their own series, and one tenant cannot use up all
//! of them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use metrics::{
    Counter, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};
use serde::{Deserialize, Serialize};

use lro_host::filter::{Decision, FilterError, Outcome};
use lro_host::mcp::{self, ToolResult};
use lro_host::policy::{LOADS, PARKED};
use lro_host::sandbox::{Cost, EPOCH_TICK, Verdict};
use lro_host::settings::SizeUnit;
use lro_transport::{Permit, Pool};

/// Maximum number of pairs of a tool and a tenant with their own series; further ones count as the tool `other`. The
/// last eighth is reserved for tenants that hold at most an eighth.
pub const LABELS_MAX: usize = 1_000;

/// Length at which names of tools in labels and names of clients are truncated, in bytes.
const LABEL_BYTES_MAX: usize = 128;

/// Histogram of the time in the policy for one result.
pub(crate) const POLICY_SECONDS: &str = "lro_policy_seconds";
/// Histogram of the memory of the policy for one result.
pub(crate) const POLICY_MEMORY_BYTES: &str = "lro_policy_memory_bytes";
/// Histogram of the time of a call of one of the gateway's tools or resources.
pub(crate) const OWN_CALL_SECONDS: &str = "lro_own_call_seconds";

/// Counter of reused replies.
const REUSED: &str = "lro_reused_results_total";

/// The label `tool` of all pairs beyond [`LABELS_MAX`].
const OTHER_TOOL: &str = "other";

/// Kinds of failures, those of [`FilterError::kind`] and the gateway's. Each is exported from the start, as a counter
/// must start at zero.
const FAILURES: [&str; 20] = [
    "absent",
    "answer",
    "busy",
    "crossing",
    "deadline",
    "fuel",
    "inspect",
    "instances",
    "lost",
    "memory",
    "output",
    "parked",
    "quota",
    "random",
    "refused",
    "stack",
    "store",
    "table",
    "trap",
    "unreadable",
];

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub struct Metrics {
    calls: AtomicU64,
    passed: AtomicU64,
    offloaded: AtomicU64,
    truncated: AtomicU64,
    rejected: AtomicU64,
    failed: AtomicU64,
    unreadable: AtomicU64,
    own_calls: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    tokens_saved: AtomicU64,
    policy_micros: AtomicU64,
    sessions: AtomicU64,
    children: AtomicU64,
    from_client: TrafficCounter,
    from_server: TrafficCounter,
    client: Mutex<Option<String>>,
    exported: OnceLock<Mutex<Exporter>>,
}

/// Counts messages of one direction.
#[derive(Debug, Default)]
struct TrafficCounter {
    messages: AtomicU64,
    bytes: AtomicU64,
}

/// Counts an open session or child process until it is dropped.
pub(crate) struct CountGuard {
    metrics: Arc<Metrics>,
    count: fn(&Metrics) -> &AtomicU64,
}

/// The Prometheus series by tenant and tool. Unlike the macros of `metrics`, looking them up allocates nothing.
struct Exporter {
    tenants: HashMap<String, HashMap<String, Series>>,
    pairs: Arc<Pool<String>>,
}

impl Default for Exporter {
    fn default() -> Self {
        Self { tenants: HashMap::new(), pairs: Pool::new(LABELS_MAX as u64) }
    }
}

/// The series of one tool and tenant.
struct Series {
    labels: [(&'static str, String); 2],
    /// By verdict and mode.
    results: HashMap<(&'static str, &'static str), Counter>,
    result_bytes: Counter,
    reply_bytes: Counter,
    tokens_saved: Counter,
    epochs: Counter,
    seconds: Histogram,
    memory: Histogram,
    /// The permit for the pair; `None` for the tool `other`.
    _pair: Option<Permit<String>>,
}

/// The totals at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Tool results that a policy saw.
    pub calls: u64,
    /// These results by verdict.
    pub verdicts: Verdicts,
    /// Responses that could not be read.
    pub unreadable: u64,
    /// Calls of the gateway's own tools and resources.
    pub own_calls: u64,
    /// Bytes of the results before filtering.
    pub bytes_in: u64,
    /// Bytes of the replies sent instead.
    pub bytes_out: u64,
    /// Estimated tokens that filtering saved clients.
    pub tokens_saved: u64,
    /// Time in policies, in microseconds.
    pub policy_micros: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Running server processes.
    pub children: u64,
    /// Messages from clients.
    pub from_client: Traffic,
    /// Messages from servers.
    pub from_server: Traffic,
}

/// Messages that arrived. The elements of a server's batch count individually.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Number of messages.
    pub messages: u64,
    /// Bytes of the messages.
    pub bytes: u64,
}

/// Tool results by verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdicts {
    /// Passed unchanged.
    pub pass: u64,
    /// Offloaded to files.
    pub offload: u64,
    /// Truncated.
    pub truncate: u64,
    /// Rejected with advice.
    pub reject: u64,
    /// Failed, as the policy failed.
    pub fail: u64,
}

/// One tool result and its verdict.
#[derive(Debug)]
pub(crate) struct Observation<'a> {
    tool: &'a str,
    tenant: &'a str,
    verdict: &'static str,
    audit: bool,
    bytes_in: u64,
    bytes_out: u64,
    tokens_saved: u64,
    time: Duration,
    memory_bytes: usize,
    failure: Option<&'static str>,
}

impl<'a> Observation<'a> {
    pub(crate) fn of(tool: &'a str, tenant: &'a str, result: &ToolResult, reply: &Bytes, decision: &Decision) -> Self {
        let bytes_in = result.pass().len() as u64;
        let verdict = match &decision.outcome {
            Outcome::Pass => "pass",
            Outcome::Offload(_) => "offload",
            Outcome::Truncate { .. } => "truncate",
            Outcome::Reject(_) => "reject",
            Outcome::Fail(_) => "fail",
        };
        let tokens_saved = match &decision.outcome {
            Outcome::Pass => 0,
            Outcome::Offload(offloaded) => offloaded.offloaded_tokens.saturating_sub(tokens(reply)),
            _ => bytes_in.div_ceil(4).saturating_sub(tokens(reply)),
        };
        let costs = || [&decision.inspect, &decision.write].into_iter().flatten();
        Self {
            tool,
            tenant,
            verdict,
            audit: false,
            bytes_in,
            bytes_out: reply.len() as u64,
            tokens_saved,
            time: costs().map(|cost| cost.time).sum(),
            memory_bytes: costs().map(|cost| cost.memory_bytes).max().unwrap_or(0),
            failure: decision.failure.as_ref().map(FilterError::kind),
        }
    }

    pub(crate) fn audited(tool: &'a str, tenant: &'a str, verdict: &Verdict, cost: &Cost, bytes: u64) -> Self {
        Self {
            tool,
            tenant,
            verdict: verdict_name(verdict),
            audit: true,
            bytes_in: bytes,
            bytes_out: bytes,
            tokens_saved: 0,
            time: cost.time,
            memory_bytes: cost.memory_bytes,
            failure: None,
        }
    }
}

/// The name of a verdict.
pub(crate) fn verdict_name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Offload(_) => "offload",
        Verdict::Truncate(_) => "truncate",
        Verdict::Reject(_) => "reject",
    }
}

/// Estimated tokens of a message.
pub(crate) fn tokens(message: &[u8]) -> u64 {
    std::str::from_utf8(message).map_or(0, |text| mcp::wire_size(text, SizeUnit::Tokens))
}

impl Metrics {
    pub(crate) fn observe(&self, observation: &Observation<'_>) {
        let add = |counter: &AtomicU64, amount: u64| counter.fetch_add(amount, Ordering::Relaxed);
        add(&self.calls, 1);
        let verdict = match observation.verdict {
            "pass" => &self.passed,
            "offload" => &self.offloaded,
            "truncate" => &self.truncated,
            "reject" => &self.rejected,
            _ => &self.failed,
        };
        add(verdict, 1);
        add(&self.bytes_in, observation.bytes_in);
        add(&self.bytes_out, observation.bytes_out);
        add(&self.tokens_saved, observation.tokens_saved);
        add(&self.policy_micros, u64::try_from(observation.time.as_micros()).unwrap_or(u64::MAX));
        if let Some(exported) = self.exported.get() {
            exported.lock().unwrap_or_else(PoisonError::into_inner).observe(observation);
        }
        if let Some(kind) = observation.failure {
            self.failed(kind);
        }
    }

    /// Counts a failure of a policy, of the store or of a response.
    pub(crate) fn failed(&self, kind: &'static str) {
        counter!("lro_failures_total", "kind" => kind).increment(1);
    }

    /// Counts a response that could not be read.
    pub(crate) fn unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
        self.failed("unreadable");
    }

    /// Counts a call of one of the gateway's tools or resources.
    pub(crate) fn own_call(&self, tool: &'static str, time: Duration) {
        self.own_calls.fetch_add(1, Ordering::Relaxed);
        histogram!(OWN_CALL_SECONDS, "tool" => tool).record(time.as_secs_f64());
    }

    /// Counts a reused reply.
    pub(crate) fn reused(&self) {
        counter!(REUSED).increment(1);
    }

    /// Counts an open session until the returned guard is dropped.
    pub(crate) fn session(self: &Arc<Self>) -> CountGuard {
        CountGuard::new(self, |metrics| &metrics.sessions)
    }

    /// Counts a running server process until the returned guard is dropped.
    pub(crate) fn child(self: &Arc<Self>) -> CountGuard {
        CountGuard::new(self, |metrics| &metrics.children)
    }

    /// Counts a message from a client.
    pub(crate) fn client_sent(&self, bytes: usize) {
        self.from_client.add(bytes);
    }

    /// Counts a message from a server.
    pub(crate) fn server_sent(&self, bytes: usize) {
        self.from_server.add(bytes);
    }

    /// Records the name and version of a client.
    pub(crate) fn record_client(&self, name: &str, version: &str) {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        let (name, version) = (shortened(name), shortened(version));
        let is_known =
            |known: &String| known.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')) == Some(version);
        if !client.as_ref().is_some_and(is_known) {
            *client = Some(format!("{name} {version}"));
        }
    }

    /// Name and version of the client that last introduced itself.
    pub fn client(&self) -> Option<String> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Exports metrics to the global recorder of the crate `metrics` from now on. The recorder must be installed
    /// before.
    pub fn export(&self) {
        if self.exported.set(Mutex::default()).is_ok() {
            describe();
            for kind in FAILURES {
                counter!("lro_failures_total", "kind" => kind).increment(0);
            }
        }
    }

    /// Updates the exported gauges and counters that mirror totals.
    pub(crate) fn export_totals(&self) {
        let totals = self.snapshot();
        gauge!("lro_sessions").set(totals.sessions as f64);
        gauge!("lro_children").set(totals.children as f64);
        for (from, traffic) in [("client", totals.from_client), ("server", totals.from_server)] {
            counter!("lro_messages_total", "from" => from).absolute(traffic.messages);
            counter!("lro_message_bytes_total", "from" => from).absolute(traffic.bytes);
        }
    }

    /// Returns the totals so far.
    pub fn snapshot(&self) -> Snapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Snapshot {
            calls: get(&self.calls),
            verdicts: Verdicts {
                pass: get(&self.passed),
                offload: get(&self.offloaded),
                truncate: get(&self.truncated),
                reject: get(&self.rejected),
                fail: get(&self.failed),
            },
            unreadable: get(&self.unreadable),
            own_calls: get(&self.own_calls),
            bytes_in: get(&self.bytes_in),
            bytes_out: get(&self.bytes_out),
            tokens_saved: get(&self.tokens_saved),
            policy_micros: get(&self.policy_micros),
            sessions: get(&self.sessions),
            children: get(&self.children),
            from_client: self.from_client.total(),
            from_server: self.from_server.total(),
        }
    }
}

impl<'a> std::iter::Sum<&'a Self> for Snapshot {
    fn sum<I: Iterator<Item = &'a Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            calls: sum.calls + one.calls,
            verdicts: Verdicts {
                pass: sum.verdicts.pass + one.verdicts.pass,
                offload: sum.verdicts.offload + one.verdicts.offload,
                truncate: sum.verdicts.truncate + one.verdicts.truncate,
                reject: sum.verdicts.reject + one.verdicts.reject,
                fail: sum.verdicts.fail + one.verdicts.fail,
            },
            unreadable: sum.unreadable + one.unreadable,
            own_calls: sum.own_calls + one.own_calls,
            bytes_in: sum.bytes_in + one.bytes_in,
            bytes_out: sum.bytes_out + one.bytes_out,
            tokens_saved: sum.tokens_saved + one.tokens_saved,
            policy_micros: sum.policy_micros + one.policy_micros,
            sessions: sum.sessions + one.sessions,
            children: sum.children + one.children,
            from_client: sum.from_client + &one.from_client,
            from_server: sum.from_server + &one.from_server,
        })
    }
}

impl std::ops::Add<&Self> for Traffic {
    type Output = Self;

    fn add(self, other: &Self) -> Self {
        Self { messages: self.messages + other.messages, bytes: self.bytes + other.bytes }
    }
}

impl TrafficCounter {
    fn add(&self, bytes: usize) {
        self.messages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn total(&self) -> Traffic {
        Traffic { messages: self.messages.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }
}

impl CountGuard {
    fn new(metrics: &Arc<Metrics>, count: fn(&Metrics) -> &AtomicU64) -> Self {
        count(metrics).fetch_add(1, Ordering::Relaxed);
        Self { metrics: Arc::clone(metrics), count }
    }
}

impl Drop for CountGuard {
    fn drop(&mut self) {
        (self.count)(&self.metrics).fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for CountGuard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CountGuard").finish_non_exhaustive()
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Exporter").field("pairs", &self.pairs).finish_non_exhaustive()
    }
}

impl Exporter {
    fn observe(&mut self, observation: &Observation<'_>) {
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
}

impl Series {
    fn new(tool: &str, tenant: &str, pair: Option<Permit<String>>) -> Self {
        let labels = [("tool", tool.to_owned()), ("tenant", tenant.to_owned())];
        Self {
            results: HashMap::new(),
            result_bytes: counter!("lro_result_bytes_total", &labels),
            reply_bytes: counter!("lro_reply_bytes_total", &labels),
            tokens_saved: counter!("lro_tokens_saved_total", &labels),
            epochs: counter!("lro_policy_epochs_total", &labels),
            seconds: histogram!(POLICY_SECONDS, &labels),
            memory: histogram!(POLICY_MEMORY_BYTES, &labels),
            _pair: pair,
            labels,
        }
    }

    fn observe(&mut self, observation: &Observation<'_>) {
        let mode = if observation.audit { "audit" } else { "enforce" };
        let [tool, tenant] = &self.labels;
        let result = self.results.entry((observation.verdict, mode)).or_insert_with(|| {
            let labels =
                [tool.clone(), tenant.clone(), ("verdict", observation.verdict.to_owned()), ("mode", mode.to_owned())];
            counter!("lro_tool_results_total", &labels)
        });
        result.increment(1);
        self.result_bytes.increment(observation.bytes_in);
        self.reply_bytes.increment(observation.bytes_out);
        self.tokens_saved.increment(observation.tokens_saved);
        self.epochs
            .increment(u64::try_from(observation.time.as_nanos().div_ceil(EPOCH_TICK.as_nanos())).unwrap_or(u64::MAX));
        self.seconds.record(observation.time.as_secs_f64());
        self.memory.record(observation.memory_bytes as f64);
    }
}

/// The name of a tool as a label: truncated, without characters that control a terminal or the direction of text.
fn label(name: &str) -> Cow<'_, str> {
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

/// Truncates a name to [`LABEL_BYTES_MAX`].
fn shortened(name: &str) -> &str {
    name.get(..name.floor_char_boundary(LABEL_BYTES_MAX)).unwrap_or_default()
}

fn describe() {
    let (count, bytes, seconds) = (Unit::Count, Unit::Bytes, Unit::Seconds);
    describe_counter!(
        "lro_tool_results_total",
        count,
        "Tool results by verdict; in the mode audit the verdict was not applied"
    );
    describe_counter!("lro_result_bytes_total", bytes, "Bytes of tool results");
    describe_counter!("lro_reply_bytes_total", bytes, "Bytes of the replies sent instead of tool results");
    describe_counter!("lro_tokens_saved_total", count, "Estimated tokens that filtering saved clients");
    describe_counter!("lro_policy_epochs_total", count, "Engine epochs started in policies, 10 ms each");
    describe_histogram!(POLICY_SECONDS, seconds, "Time in the policy for one tool result");
    describe_histogram!(POLICY_MEMORY_BYTES, bytes, "Largest linear memory of the policy for one tool result");
    describe_counter!("lro_failures_total", count, "Failures of policies, of the store and of responses, by kind");
    describe_counter!(REUSED, count, "Calls answered with the offload of an earlier identical call");
    describe_histogram!(OWN_CALL_SECONDS, seconds, "Time of one call of a gateway tool or resource");
    describe_counter!(LOADS, count, "Attempts to load a policy, by result");
    describe_gauge!(PARKED, count, "Policies parked after repeated failures");
    describe_gauge!("lro_sessions", count, "Open sessions");
    describe_gauge!("lro_children", count, "Running server processes");
    describe_counter!("lro_messages_total", count, "Messages by sender");
    describe_counter!("lro_message_bytes_total", bytes, "Bytes of messages by sender");
}
