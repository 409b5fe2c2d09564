//! ULIDs: unique ids, sorted by time.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(not(target_family = "wasm"))]
use parking_lot::Mutex;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A ULID: 48 bits of milliseconds since 1970, then 80 random bits; written as 26 characters of Crockford's base 32,
/// which sort by time as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ulid(u128);

const RANDOM_BITS: u32 = 80;
const MILLISECONDS_MAX: u128 = (1 << 48) - 1;

/// The last id of this process.
#[cfg(not(target_family = "wasm"))]
static LAST: Mutex<Ulid> = Mutex::new(Ulid(0));

impl Ulid {
    /// Generates an id greater than all previous ones of this process. Ids of one millisecond count up from a random
    /// start; if the clock is set back, ids continue from the latest.
    ///
    /// # Errors
    /// When the system provides no random bytes.
    #[cfg(not(target_family = "wasm"))]
    pub fn generate() -> std::io::Result<Self> {
        let mut last = LAST.lock();
        let milliseconds = milliseconds_since_1970(SystemTime::now());
        if milliseconds > last.milliseconds() {
            let mut random = [0; 16];
            getrandom::fill(&mut random)?;
            *last = Self::from_parts(milliseconds, u128::from_ne_bytes(random));
        } else {
            // After the last of one millisecond comes the first of the next.
            last.0 += 1;
        }
        Ok(*last)
    }

    /// Builds an id from the low 48 bits of a time in milliseconds since 1970, and the low 80 bits of `random`.
    pub const fn from_parts(milliseconds: u128, random: u128) -> Self {
        let random = random & ((1 << RANDOM_BITS) - 1);
        Self(((milliseconds & MILLISECONDS_MAX) << RANDOM_BITS) | random)
    }

    /// The id as a number.
    pub const fn bits(self) -> u128 {
        self.0
    }

    /// The id of a number.
    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Time of creation, in whole milliseconds.
    pub fn time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.milliseconds() as u64)
    }

    const fn milliseconds(self) -> u128 {
        self.0 >> RANDOM_BITS
    }
}

/// Milliseconds since 1970; 0 before.
#[cfg(not(target_family = "wasm"))]
fn milliseconds_since_1970(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()
}

/// Formats a time as RFC 3339 in UTC, truncated to seconds, such as `2026-11-20T09:30:00Z`. Times before 1970 count as
/// 1970.
pub fn rfc3339(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    // Howard Hinnant's `civil_from_days`: years start in March, so that a leap day is the last day of its year.
    let days = seconds / 86_400 + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

impl fmt::Display for Ulid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        rusty_ulid::Ulid::from(self.0).fmt(formatter)
    }
}

/// The text is not a ULID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ULID is 26 characters of 0-9 and A-Z without I, L, O and U, and begins with 0 to 7")]
pub struct ParseUlidError;

impl FromStr for Ulid {
    type Err = ParseUlidError;

    /// Accepts only the canonical upper-case form, so that an id has a single text and path.
    fn from_str(text: &str) -> Result<Self, ParseUlidError> {
        // The library also reads lower case, and letters that look like digits.
        let id: rusty_ulid::Ulid = text.parse().map_err(|_| ParseUlidError)?;
        if id.to_string() == text { Ok(Self(id.into())) } else { Err(ParseUlidError) }
    }
}

impl Serialize for Ulid {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ulid {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}
