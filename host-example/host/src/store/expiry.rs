//! When an offload expires: by the time to live of the store, or by its own.

use std::time::{Duration, SystemTime};

use super::directory::Directory;
use super::{Store, StoreError, TIME_TO_LIVE_MAX, Ulid};

/// File name of the time to live of an offload that has its own. It begins with a dot, so no policy can use it.
pub(super) const TIME_TO_LIVE_NAME: &str = ".ttl-seconds";

/// Maximum size of this file, in bytes: the digits of the largest number, and a line feed.
const TIME_TO_LIVE_BYTES_MAX: u64 = 21;

/// The content of the file: whole seconds in decimal digits, and a line feed.
pub(super) fn time_to_live_text(time_to_live: Duration) -> String {
    format!("{}\n", time_to_live.as_secs())
}

impl Directory {
    /// The time to live of the offload in this directory. `None`: that of the store, also if the file is invalid.
    pub(super) fn time_to_live(&self) -> Result<Option<Duration>, StoreError> {
        let bytes = match self.read(TIME_TO_LIVE_NAME, TIME_TO_LIVE_BYTES_MAX) {
            Err(StoreError::NotFound { .. } | StoreError::Unexpected { .. }) => return Ok(None),
            read => read?,
        };
        let seconds = str::from_utf8(&bytes).ok().and_then(|text| text.trim_end().parse().ok());
        Ok(seconds.map(|seconds| Duration::from_secs(seconds).min(TIME_TO_LIVE_MAX)))
    }
}

impl Store {
    /// When an offload expires, which may have its own time to live.
    pub(super) fn expires(&self, id: Ulid, own: Option<Duration>) -> SystemTime {
        id.time() + own.unwrap_or(self.inner.config.time_to_live)
    }
}
