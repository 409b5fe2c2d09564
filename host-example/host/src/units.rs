//! Limits in a configuration: whole numbers, in the unit that their key names. For `serialize_with` and
//! `deserialize_with`.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

/// Reads an unsigned number of at least 1.
pub(crate) fn positive<'de, D: Deserializer<'de>, N: Deserialize<'de> + Default + PartialEq>(
    deserializer: D,
) -> Result<N, D::Error> {
    let number = N::deserialize(deserializer)?;
    if number == N::default() { Err(D::Error::custom("expected a number of at least 1")) } else { Ok(number) }
}

/// Reads an optional number of at least 1.
pub(crate) fn some_positive<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    positive(deserializer).map(Some)
}

/// Reads milliseconds.
pub(crate) fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

/// Reads at least 1 millisecond.
pub(crate) fn positive_milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    positive(deserializer).map(Duration::from_millis)
}

/// Reads at least 1 second.
pub(crate) fn some_positive_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    positive(deserializer).map(Duration::from_secs).map(Some)
}

/// Writes whole milliseconds.
pub(crate) fn in_milliseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Writes whole seconds, if there are any.
pub(crate) fn in_some_seconds<S: Serializer>(time: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.serialize_some(&time.as_secs()),
        None => serializer.serialize_none(),
    }
}
