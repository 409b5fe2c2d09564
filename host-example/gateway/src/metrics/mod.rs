//! Metrics of the gateway: totals for `lro status`, and Prometheus metrics.
//!
//! Everything is counted once, here; [`Metrics::export`] sets the counters of Prometheus to these counts. Names and
//! labels follow the conventions of Prometheus. The label `tool` is the server's name of the tool, `tenant` the name in
//! the configuration. At most [`LABELS_MAX`] pairs have their own series, and one tenant cannot use up all of them.

mod costs;
mod days;
mod methods;
mod results;
mod snapshot;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lro_host::policy::{load_counts, parked_count};
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use parking_lot::Mutex;

pub use self::costs::ToolCost;
pub(crate) use self::costs::{ArgumentsHash, ListedTool, ToolCosts};
use self::days::Days;
pub use self::days::ToolDay;
pub(crate) use self::days::day_of;
pub(crate) use self::methods::ERROR;
use self::methods::Methods;
pub use self::results::LABELS_MAX;
use self::results::Results;
pub(crate) use self::results::{Observation, label, tokens};
pub use self::snapshot::{Sizes, Snapshot, Traffic, Verdicts};

/// Length at which names of tools in labels and names of clients are truncated, in bytes.
const LABEL_BYTES_MAX: usize = 128;

/// Histogram of the time in the policy for one result.
pub(crate) const POLICY_SECONDS: &str = "lro_policy_seconds";
/// Histogram of the memory of the policy for one result.
pub(crate) const POLICY_MEMORY_BYTES: &str = "lro_policy_memory_bytes";
/// Histogram of the time of a call of one of the gateway's tools or resources.
pub(crate) const OWN_CALL_SECONDS: &str = "lro_own_call_seconds";

/// Counter of the attempts to load a policy.
const LOADS: &str = "lro_policy_loads_total";
/// Gauge of the parked policies.
const PARKED: &str = "lro_policies_parked";
/// Counter of reused replies.
const REUSED: &str = "lro_reused_results_total";

/// The kind of failure of a response that could not be read.
const UNREADABLE: &str = "unreadable";

/// Kinds of failures, those of [`FilterError::kind`](lro_host::filter::FilterError::kind) and the gateway's. Each is
/// exported from the start, as a counter must start at zero.
const FAILURES: [&str; 21] = [
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
    "panic",
    "parked",
    "quota",
    "random",
    "refused",
    "stack",
    "store",
    "table",
    "trap",
    UNREADABLE,
];

/// Maximum number of tools, and of different calls of each, whose costs are counted for `lro audit`. Further ones are not.
pub const AUDITED_TOOLS_MAX: usize = 200;

/// Maximum size of a list of tools that is read for `lro audit`, in bytes.
const AUDITED_LIST_BYTES_MAX: usize = 1 << 20;

/// Counts since the start of the process.
#[derive(Debug, Default)]
pub struct Metrics {
    costs: Mutex<ToolCosts>,
    results: Mutex<Results>,
    days: Mutex<Days>,
    methods: Mutex<Methods>,
    /// By kind.
    failures: Mutex<BTreeMap<&'static str, u64>>,
    own_calls: AtomicU64,
    reused: AtomicU64,
    sessions: AtomicU64,
    children: AtomicU64,
    from_client: TrafficCounter,
    from_server: TrafficCounter,
    client: Mutex<Option<String>>,
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

impl Metrics {
    /// Keeps what a list of tools, a result as JSON, says of them.
    pub(crate) fn listed(&self, result: &[u8]) {
        if result.len() <= AUDITED_LIST_BYTES_MAX {
            let listed = ListedTool::all(result);
            self.costs.lock().list(listed);
        }
    }

    pub(crate) fn observe(&self, observation: &Observation<'_>) {
        let arguments = ArgumentsHash::of(observation.arguments);
        {
            let mut costs = self.costs.lock();
            costs.begin(observation.tool, arguments);
            costs.end(observation.tool, observation.tokens_in, observation.is_large());
        }
        self.results.lock().observe(observation);
        self.days.lock().observe(observation);
        if let Some(kind) = observation.failure {
            self.failed(kind);
        }
    }

    /// Counts a failure of a policy, of the store or of a response.
    pub(crate) fn failed(&self, kind: &'static str) {
        *self.failures.lock().entry(kind).or_default() += 1;
    }

    /// Counts a response that could not be read.
    pub(crate) fn unreadable(&self) {
        self.failed(UNREADABLE);
    }

    /// Counts a call of one of the gateway's tools or resources.
    pub(crate) fn own_call(&self, tool: &'static str, time: Duration) {
        self.own_calls.fetch_add(1, Ordering::Relaxed);
        histogram!(OWN_CALL_SECONDS, "tool" => tool).record(time.as_secs_f64());
    }

    /// Counts a message of a server other than a tool result, with its estimated tokens.
    pub(crate) fn measured(&self, method: &'static str, tenant: &str, bytes: u64, tokens: u64) {
        self.methods.lock().observe(method, tenant, bytes, tokens);
    }

    /// Counts a reused reply.
    pub(crate) fn reused(&self) {
        self.reused.fetch_add(1, Ordering::Relaxed);
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
        let mut client = self.client.lock();
        let (name, version) = (shortened(name), shortened(version));
        let is_known =
            |known: &String| known.strip_prefix(name).and_then(|rest| rest.strip_prefix(' ')) == Some(version);
        if !client.as_ref().is_some_and(is_known) {
            *client = Some(format!("{name} {version}"));
        }
    }

    /// Name and version of the client that last introduced itself.
    pub fn client(&self) -> Option<String> {
        self.client.lock().clone()
    }

    /// Sets the counters and gauges of the global recorder of the crate `metrics`. Call it before each scrape, and
    /// install the recorder before the first session: histograms record each value when it is observed.
    pub fn export(&self) {
        let totals = self.snapshot();
        gauge!("lro_sessions").set(totals.sessions as f64);
        gauge!("lro_children").set(totals.children as f64);
        for (from, traffic) in [("client", totals.from_client), ("server", totals.from_server)] {
            counter!("lro_messages_total", "from" => from).absolute(traffic.messages);
            counter!("lro_message_bytes_total", "from" => from).absolute(traffic.bytes);
        }
        let failures = self.failures.lock().clone();
        for (kind, count) in FAILURES.map(|kind| (kind, 0)).into_iter().chain(failures) {
            counter!("lro_failures_total", "kind" => kind).absolute(count);
        }
        for (result, count) in load_counts() {
            counter!(LOADS, "result" => result).absolute(count);
        }
        gauge!(PARKED).set(parked_count() as f64);
        counter!(REUSED).absolute(self.reused.load(Ordering::Relaxed));
        self.results.lock().export();
        self.methods.lock().export();
    }

    /// The results of each tool by verdict, of all tenants.
    pub(crate) fn verdicts(&self) -> Vec<(String, Verdicts)> {
        self.results.lock().verdicts()
    }

    /// The counts by day and tool that are not in the history yet.
    pub(crate) fn days(&self) -> Vec<ToolDay> {
        self.days.lock().all()
    }

    /// Those of the days before this one.
    pub(crate) fn days_before(&self, day: &str) -> Vec<ToolDay> {
        self.days.lock().before(day)
    }

    /// Forgets the counts of the days before this one, as they are in the history.
    pub(crate) fn forget_days_before(&self, day: &str) {
        self.days.lock().forget_before(day);
    }

    /// Returns the totals so far.
    pub fn snapshot(&self) -> Snapshot {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut totals = Snapshot {
            unreadable: self.failures.lock().get(UNREADABLE).copied().unwrap_or(0),
            own_calls: get(&self.own_calls),
            sessions: get(&self.sessions),
            children: get(&self.children),
            from_client: self.from_client.total(),
            from_server: self.from_server.total(),
            ..Snapshot::default()
        };
        totals.tools = self.costs.lock().all().into_iter().cloned().collect();
        self.results.lock().add_to(&mut totals);
        self.methods.lock().add_to(&mut totals);
        totals
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

/// Truncates a name to [`LABEL_BYTES_MAX`].
fn shortened(name: &str) -> &str {
    name.get(..name.floor_char_boundary(LABEL_BYTES_MAX)).unwrap_or_default()
}

/// Describes the metrics to the global recorder.
pub(crate) fn describe() {
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
    describe_counter!("lro_method_messages_total", count, "Messages of servers other than tool results, by method");
    describe_counter!("lro_method_bytes_total", bytes, "Bytes of these messages");
    describe_counter!("lro_method_tokens_total", count, "Estimated tokens of these messages");
}
