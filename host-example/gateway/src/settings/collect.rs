//! How the gateway collects the pages of a tool: the table `collect` of a tool.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use lro_host::mcp::{Paging, PagingStyle};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Config, at_least_one};

/// Default of [`CollectSettings::pages_max`].
const PAGES_MAX_DEFAULT: u32 = 10_000;
/// Default of [`CollectSettings::bytes_max`]: a quarter of the largest message.
const BYTES_MAX_DEFAULT: u64 = 256 << 20;
/// Longest time of a call whose client waits, unless the settings say otherwise: many clients give up after a minute.
const TIME_MAX_DEFAULT: Duration = Duration::from_millis(50_000);
/// Most requests at a time: more than servers like.
const CONCURRENCY_MAX: u32 = 64;

/// How the pages of a tool are collected. What is absent is found by usual spellings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CollectSettings {
    /// What selects a page. Default: `auto`.
    pub style: PagingStyle,
    /// The argument of the tool for it. Default: a usual name, such as `cursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// JSON Pointer, in a page, of what it says of the next: the cursor, the link, the number, or whether there is one. Default:
    /// members of usual names, such as `nextCursor`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// JSON Pointer of the list in a page. Default: the only list that it can be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<String>,
    /// JSON Pointer of the number of all items. Default: members of usual names, such as `total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total: Option<String>,
    /// Maximum number of pages. Default: 10,000.
    pub pages_max: NonZeroU32,
    /// Maximum bytes of all items together. Default: 256 MiB.
    pub bytes_max: NonZeroU64,
    /// Maximum milliseconds of a call, pauses included. Default: 50,000; for a call that can become a job,
    /// [`GatewaySettings::job_seconds_max`](super::GatewaySettings::job_seconds_max).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub milliseconds_max: Option<NonZeroU64>,
    /// Milliseconds between an answer and the request for the next page. Default: 0.
    pub pause_ms: u64,
    /// Requests at a time where pages are numbered, by page or offset; at most 64. Default: 1.
    #[serde(deserialize_with = "concurrency")]
    pub concurrency: NonZeroU32,
}

impl Default for CollectSettings {
    fn default() -> Self {
        Self {
            style: PagingStyle::Auto,
            argument: None,
            next: None,
            items: None,
            total: None,
            pages_max: NonZeroU32::new(PAGES_MAX_DEFAULT).unwrap_or(NonZeroU32::MIN),
            bytes_max: at_least_one(BYTES_MAX_DEFAULT),
            milliseconds_max: None,
            pause_ms: 0,
            concurrency: NonZeroU32::MIN,
        }
    }
}

impl CollectSettings {
    /// What decides which page follows another.
    pub(crate) fn paging(&self) -> Paging {
        let Self { style, argument, next, total, .. } = self.clone();
        Paging { style, argument, next, total }
    }

    /// Maximum time of a call; `job` is that of a job, for a call that can become one.
    pub(crate) fn time_max(&self, job: Option<Duration>) -> Duration {
        let own = self.milliseconds_max.map(|milliseconds| Duration::from_millis(milliseconds.get()));
        own.or(job).unwrap_or(TIME_MAX_DEFAULT)
    }
}

fn concurrency<'de, D: Deserializer<'de>>(input: D) -> Result<NonZeroU32, D::Error> {
    let count = NonZeroU32::deserialize(input)?;
    match count.get() {
        ..=CONCURRENCY_MAX => Ok(count),
        _ => Err(D::Error::custom(format!("expected 1 to {CONCURRENCY_MAX}"))),
    }
}

impl Config {
    /// How the pages of a tool are collected; `None` when they are not.
    pub fn collect(&self, tool: &str) -> Option<&CollectSettings> {
        self.tool_override(tool)?.collect.as_ref()
    }
}
