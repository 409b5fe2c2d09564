//! Tool results by day and tool, for `lro status --days`.

use std::collections::BTreeMap;
use std::time::SystemTime;

use lro_host::filter::Outcome;
use lro_host::store::rfc3339;
use serde::{Deserialize, Serialize};

use super::results::{OTHER_TOOL, Observation, label, tokens_saved};

/// Maximum number of tools of one day with counts of their own. Further ones count as [`OTHER_TOOL`].
const TOOLS_MAX: usize = 200;

/// Length of a date in a time of RFC 3339.
const DATE_LENGTH: usize = "2026-11-25".len();

/// What was done with the results of one tool on one day.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDay {
    /// The day in UTC, such as `2026-11-25`.
    pub day: String,
    /// Name of the tool.
    pub tool: String,
    /// Results that a policy saw.
    pub calls: u64,
    /// Those that it did not pass.
    pub large: u64,
    /// Bytes of the results before filtering.
    pub bytes_in: u64,
    /// Bytes of the replies sent instead.
    pub bytes_out: u64,
    /// Estimated tokens that filtering saved clients.
    pub tokens_saved: u64,
}

impl ToolDay {
    /// Counts a result of this many bytes today, with the reply that is sent instead.
    pub fn of(tool: &str, bytes_in: u64, reply: &[u8], outcome: &Outcome) -> Self {
        Self {
            day: day_of(SystemTime::now()),
            tool: label(tool).into_owned(),
            calls: 1,
            large: (!matches!(outcome, Outcome::Pass)).into(),
            bytes_in,
            bytes_out: reply.len() as u64,
            tokens_saved: tokens_saved(outcome, bytes_in, reply),
        }
    }

    /// Adds what was counted elsewhere of the same tool and day.
    pub fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.large += other.large;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.tokens_saved += other.tokens_saved;
    }
}

/// The counts of each day that is not in the history yet.
#[derive(Debug, Default)]
pub(super) struct Days(BTreeMap<String, BTreeMap<String, ToolDay>>);

impl Days {
    pub(super) fn observe(&mut self, observation: &Observation<'_>) {
        let (day, tool) = (day_of(SystemTime::now()), label(observation.tool));
        if let Some(count) = self.0.get_mut(&day).and_then(|tools| tools.get_mut(tool.as_ref())) {
            return count.add(&observation.of_day());
        }
        let tools = self.0.entry(day.clone()).or_default();
        let tool = if tools.len() < TOOLS_MAX { tool.into_owned() } else { OTHER_TOOL.to_owned() };
        let count = tools.entry(tool.clone()).or_insert_with(|| ToolDay { day, tool, ..ToolDay::default() });
        count.add(&observation.of_day());
    }

    pub(super) fn all(&self) -> Vec<ToolDay> {
        self.0.values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Those of the days before this one.
    pub(super) fn before(&self, day: &str) -> Vec<ToolDay> {
        self.0
            .iter()
            .take_while(|(counted, _)| counted.as_str() < day)
            .flat_map(|(_, tools)| tools.values())
            .cloned()
            .collect()
    }

    /// Forgets the days before this one.
    pub(super) fn forget_before(&mut self, day: &str) {
        self.0 = self.0.split_off(day);
    }
}

/// The day of a time, in UTC.
pub(crate) fn day_of(time: SystemTime) -> String {
    rfc3339(time).chars().take(DATE_LENGTH).collect()
}
