//! ULIDs: unique ids, sorted by time.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    str::FromStr,
    sync::{Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Characters of a ULID.
const LENGTH: usize = 26;
/// Number of random bits.
const RANDOM_BITS: u32 = 80;
/// Crockford's base 32: no I, L, O, U.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A ULID: 48 bits of milliseconds since 1970, then 80 random bits; written as 26 characters of Crockford's base 32,
/// which sort by time as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ulid(u128);

/// The source of random bits and the last id of this process. The file stays open, so that a process without free
/// descriptors can still generate ids.
static LAST: Mutex<Option<(File, u128)>> = Mutex::new(None);

impl Ulid {
    /// Generates an id greater than all previous ones of this process. Ids of one millisecond count up from a random
    /// start; if the clock is set back, ids continue from the latest.
    ///
    /// # Errors
    /// When `/dev/urandom` cannot be read.
    pub fn generate() -> io::Result<Self> {
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        let (source, latest) = match last.as_mut() {
            Some((source, latest)) => (source, latest),
            None => {
                let (source, latest) = last.insert((File::open("/dev/urandom")?, 0));
                (source, latest)
            }
        };
        let milliseconds = milliseconds_since_1970(SystemTime::now());
        if milliseconds > (*latest >> RANDOM_BITS) {
            let mut random = [0; 16];
            source.read_exact(&mut random)?;
            *latest = Self::from_parts(milliseconds, u128::from_ne_bytes(random)).0;
        } else {
            *latest += 1;
        }
        Ok(Self(*latest))
    }

    /// Builds an id from the low 48 bits of a time in milliseconds since 1970, and the low 80 bits of `random`.
    pub const fn from_parts(milliseconds: u128, random: u128) -> Self {
        Self(milliseconds << RANDOM_BITS | (random & ((1 << RANDOM_BITS) - 1)))
    }

    /// The id as a number.
    pub(crate) const fn bits(self) -> u128 {
        self.0
    }

    /// The id of a number.
    pub(crate) const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }

    /// Time of creation, in whole milliseconds.
    pub fn time(self) -> SystemTime {
        // 48 bits always fit.
        UNIX_EPOCH + Duration::from_millis(u64::try_from(self.0 >> RANDOM_BITS).unwrap_or(u64::MAX))
    }
}

/// Milliseconds since 1970; 0 before.
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
        let digit = |position: usize| DIGITS[(self.0 >> (5 * (LENGTH - 1 - position)) & 31) as usize];
        let text: [u8; LENGTH] = std::array::from_fn(digit);
        formatter.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
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
        if text.len() != LENGTH || !matches!(text.as_bytes().first(), Some(b'0'..=b'7')) {
            return Err(ParseUlidError);
        }
        let mut value = 0;
        for byte in text.bytes() {
            let digit = DIGITS.iter().position(|digit| *digit == byte).ok_or(ParseUlidError)?;
            value = value << 5 | digit as u128;
        }
        Ok(Self(value))
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
