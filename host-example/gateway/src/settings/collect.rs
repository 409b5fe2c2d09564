//! How the gateway collects the pages of a tool: the table `collect` of a tool.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use lro_host::mcp::{Paging, PagingStyle};
use serde::{Deserialize, Serialize};

use super::{Config, at_least_one};

/// Default of [`CollectSettings::pages_max`].
const PAGES_MAX_DEFAULT: u32 = 10_000;
/// Default of [`CollectSettings::bytes_max`]: a quarter of the largest message.
const BYTES_MAX_DEFAULT: u64 = 256 << 20;
/// Default of [`CollectSettings::milliseconds_max`]: many clients give up a call after a minute.
const MILLISECONDS_MAX_DEFAULT: u64 = 50_000;

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
    /// Maximum milliseconds of a call, pauses included. Default: 50,000.
    pub milliseconds_max: NonZeroU64,
    /// Milliseconds between an answer and the request for the next page. Default: 0.
    pub pause_ms: u64,
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
            milliseconds_max: at_least_one(MILLISECONDS_MAX_DEFAULT),
            pause_ms: 0,
        }
    }
}

impl CollectSettings {
    /// What decides which page follows another.
    pub(crate) fn paging(&self) -> Paging {
        let Self { style, argument, next, total, .. } = self.clone();
        Paging { style, argument, next, total }
    }

    /// Maximum time of a call.
    pub(crate) fn time_max(&self) -> Duration {
        Duration::from_millis(self.milliseconds_max.get())
    }
}

impl Config {
    /// How the pages of a tool are collected; `None` when they are not.
    pub fn collect(&self, tool: &str) -> Option<&CollectSettings> {
        self.tool_override(tool)?.collect.as_ref()
    }
}
