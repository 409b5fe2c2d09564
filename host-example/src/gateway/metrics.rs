//! What operators watch: totals for `lro status`, and Prometheus metrics.
//!
//! Names and labels follow the conventions of Prometheus. The label `tool` is the name that the server gave it, `tenant` the
//! name in the configuration; at most [`LABELS_MAX`] pairs of them are told apart.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::filter::{Decision, FilterError, Outcome};
use crate::mcp::{self, ToolResult};
use crate::sandbox::types::SizeUnit;
use crate::sandbox::{Cost, Verdict};

/// Most pairs of a tool and a tenant with metrics of their own; the rest count as the tool `other`.
pub const LABELS_MAX: usize = 1_000;

/// Longest name of a tool in a label, in bytes.
const LABEL_BYTES_MAX: usize = 128;

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
    labels: Mutex<BTreeSet<(String, String)>>,
}

/// The totals at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Tool results that a policy saw.
    pub calls: u64,
    /// What became of them.
    pub verdicts: Verdicts,
    /// Answers that could not be read.
    pub unreadable: u64,
    /// Calls of the gateway's own tools and resources.
    pub own_calls: u64,
    /// Bytes of the results.
    pub bytes_in: u64,
    /// Bytes of what went on in their place.
    pub bytes_out: u64,
    /// Estimated tokens that clients did not get.
    pub tokens_saved: u64,
    /// Time in policies, in microseconds.
    pub policy_micros: u64,
}

/// Tool results by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdicts {
    /// Went on unchanged.
    pub pass: u64,
    /// Are in files.
    pub offload: u64,
    /// Were cut.
    pub truncate: u64,
    /// Were refused with advice.
    pub reject: u64,
    /// Became an error, as the policy failed.
    pub fail: u64,
}

/// One tool result and what became of it.
#[derive(Debug)]
pub(super) struct Observation<'a> {
    tool: &'a str,
    tenant: &'a str,
    verdict: &'static str,
    audit: bool,
    bytes_in: u64,
    bytes_out: u64,
    tokens_saved: u64,
    time: Duration,
    failure: Option<&'static str>,
}

impl<'a> Observation<'a> {
    pub(super) fn of(tool: &'a str, tenant: &'a str, result: &ToolResult, reply: &Bytes, decision: &Decision) -> Self {
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
        let time = [&decision.inspect, &decision.write].into_iter().flatten().map(|cost| cost.time).sum();
        let failure = decision.failure.as_ref().map(kind);
        Self {
            tool,
            tenant,
            verdict,
            audit: false,
            bytes_in,
            bytes_out: reply.len() as u64,
            tokens_saved,
            time,
            failure,
        }
    }

    pub(super) fn audited(tool: &'a str, tenant: &'a str, verdict: &Verdict, cost: &Cost, bytes: u64) -> Self {
        Self {
            tool,
            tenant,
            verdict: verdict_name(verdict),
            audit: true,
            bytes_in: bytes,
            bytes_out: bytes,
            tokens_saved: 0,
            time: cost.time,
            failure: None,
        }
    }
}

/// A verdict in one word.
pub(super) fn verdict_name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Offload(_) => "offload",
        Verdict::Truncate(_) => "truncate",
        Verdict::Reject(_) => "reject",
    }
}

/// The kind of a failure, for a label.
fn kind(error: &FilterError) -> &'static str {
    match error {
        FilterError::Call(_) => "call",
        FilterError::Store(_) => "store",
        FilterError::Answer(_) => "answer",
        FilterError::Random(_) => "random",
        FilterError::Lost(_) => "lost",
    }
}

fn tokens(message: &[u8]) -> u64 {
    std::str::from_utf8(message).map_or(0, |text| mcp::wire_size(text, SizeUnit::Tokens))
}

impl Metrics {
    pub(super) fn observe(&self, seen: &Observation<'_>) {
        let add = |counter: &AtomicU64, amount: u64| counter.fetch_add(amount, Ordering::Relaxed);
        add(&self.calls, 1);
        let verdict = match seen.verdict {
            "pass" => &self.passed,
            "offload" => &self.offloaded,
            "truncate" => &self.truncated,
            "reject" => &self.rejected,
            _ => &self.failed,
        };
        add(verdict, 1);
        add(&self.bytes_in, seen.bytes_in);
        add(&self.bytes_out, seen.bytes_out);
        add(&self.tokens_saved, seen.tokens_saved);
        add(&self.policy_micros, u64::try_from(seen.time.as_micros()).unwrap_or(u64::MAX));
        let (tool, tenant) = self.labels(seen.tool, seen.tenant);
        let mode = if seen.audit { "audit" } else { "enforce" };
        let labels = || [("tool", tool.clone()), ("tenant", tenant.clone())];
        let of_verdict = [("verdict", seen.verdict.to_owned()), ("mode", mode.to_owned())];
        let all: Vec<(&'static str, String)> = labels().into_iter().chain(of_verdict).collect();
        metrics::counter!("lro_tool_results_total", &all).increment(1);
        metrics::counter!("lro_result_bytes_total", &labels()).increment(seen.bytes_in);
        metrics::counter!("lro_reply_bytes_total", &labels()).increment(seen.bytes_out);
        metrics::counter!("lro_tokens_saved_total", &labels()).increment(seen.tokens_saved);
        metrics::histogram!("lro_policy_seconds", &labels()).record(seen.time.as_secs_f64());
        if let Some(kind) = seen.failure {
            self.failed(kind);
        }
    }

    /// A policy or the store failed.
    pub(super) fn failed(&self, kind: &'static str) {
        metrics::counter!("lro_failures_total", "kind" => kind).increment(1);
    }

    /// An answer could not be read.
    pub(super) fn unreadable(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
        self.failed("unreadable");
    }

    /// An own tool or resource was asked.
    pub(super) fn own_call(&self, tool: &'static str, time: Duration) {
        self.own_calls.fetch_add(1, Ordering::Relaxed);
        metrics::histogram!("lro_own_call_seconds", "tool" => tool).record(time.as_secs_f64());
    }

    /// The totals so far.
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
        }
    }

    /// Names that are told apart are few, whatever the server calls its tools.
    fn labels(&self, tool: &str, tenant: &str) -> (String, String) {
        let tool = tool.get(..tool.floor_char_boundary(LABEL_BYTES_MAX)).unwrap_or_default();
        let pair = (tool.to_owned(), tenant.to_owned());
        let mut labels = self.labels.lock().unwrap_or_else(PoisonError::into_inner);
        if labels.contains(&pair) {
            return pair;
        }
        if labels.len() >= LABELS_MAX {
            return ("other".to_owned(), pair.1);
        }
        labels.insert(pair.clone());
        pair
    }
}
