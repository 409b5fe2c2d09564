//! The totals of one gateway or of several.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::Add;

use serde::{Deserialize, Serialize};

use super::ToolCost;

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
    /// Answers and requests of servers other than tool results, by method; JSON-RPC errors as `error`.
    #[serde(default)]
    pub methods: BTreeMap<String, Sizes>,
    /// What tools cost, of at most [`AUDITED_TOOLS_MAX`](super::AUDITED_TOOLS_MAX), those with most tokens first.
    #[serde(default)]
    pub tools: Vec<ToolCost>,
}

/// Messages and their sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sizes {
    /// Number of messages.
    pub messages: u64,
    /// Bytes of the messages, as the server sent them.
    pub bytes: u64,
    /// Estimated tokens of the messages.
    pub tokens: u64,
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

impl Verdicts {
    /// The count of a verdict by its name in the metrics.
    pub(super) fn named(&mut self, verdict: &str) -> &mut u64 {
        match verdict {
            "pass" => &mut self.pass,
            "offload" => &mut self.offload,
            "truncate" => &mut self.truncate,
            "reject" => &mut self.reject,
            _ => &mut self.fail,
        }
    }
}

impl<'a> Sum<&'a Self> for Snapshot {
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
            methods: added(sum.methods, &one.methods),
            tools: all_tools(sum.tools, &one.tools),
        })
    }
}

fn all_tools(mut sum: Vec<ToolCost>, more: &[ToolCost]) -> Vec<ToolCost> {
    for one in more {
        match sum.iter_mut().find(|tool| tool.tool == one.tool) {
            Some(tool) => tool.add(one),
            None => sum.push(one.clone()),
        }
    }
    sum.sort_by_key(ToolCost::rank);
    sum
}

fn added(mut sum: BTreeMap<String, Sizes>, one: &BTreeMap<String, Sizes>) -> BTreeMap<String, Sizes> {
    for (method, sizes) in one {
        let total = sum.entry(method.clone()).or_default();
        *total = &*total + sizes;
    }
    sum
}

impl Add for &Sizes {
    type Output = Sizes;

    fn add(self, other: Self) -> Sizes {
        Sizes {
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
            tokens: self.tokens + other.tokens,
        }
    }
}

impl Add<&Self> for Traffic {
    type Output = Self;

    fn add(self, other: &Self) -> Self {
        Self { messages: self.messages + other.messages, bytes: self.bytes + other.bytes }
    }
}
