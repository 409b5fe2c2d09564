//! Points in time: ISO 8601 texts, `2024-05-31`, or `2024-05-31T10:20:30.5Z` with a `T` or a space. A time zone is read and left
//! out: times are as written.

use std::fmt::{self, Display, Formatter};

pub(crate) const SECOND: i64 = 1_000_000;
pub(crate) const MINUTE: i64 = 60 * SECOND;
pub(crate) const HOUR: i64 = 60 * MINUTE;
pub(crate) const DAY: i64 = 24 * HOUR;

/// A date, or a date and a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Microseconds since 1970.
    pub(crate) micros: i64,
    pub(crate) has_time: bool,
}

/// Days since 1970 of a day of the Gregorian calendar.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March, in eras of 400 years, so that leap days are last.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a number of days since 1970.
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

impl Moment {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (date, time) = match text.find(['T', ' ']) {
            Some(at) => (text.get(..at)?, text.get(at + 1..)),
            None => (text, None),
        };
        let mut parts = date.splitn(3, '-').map(digits);
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        let since = days(year, month, day);
        if year > 9999 || civil(since) != (year, month, day) {
            return None;
        }
        let of_day = time.map_or(Some(0), time_of_day)?;
        Some(Self { micros: since * DAY + of_day, has_time: time.is_some() })
    }

    pub(crate) fn civil(self) -> (i64, i64, i64) {
        civil(self.day())
    }

    /// Days since 1970.
    pub(crate) fn day(self) -> i64 {
        self.micros.div_euclid(DAY)
    }

    pub(crate) fn of_day(self) -> i64 {
        self.micros.rem_euclid(DAY)
    }

    pub(crate) fn weekday(self) -> i64 {
        (self.day() + 4).rem_euclid(7)
    }

    pub(crate) fn day_of_year(self) -> i64 {
        self.day() - days(self.civil().0, 1, 1) + 1
    }
}

impl Display for Moment {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(formatter, "{year:04}-{month:02}-{day:02}")?;
        if !self.has_time {
            return Ok(());
        }
        let of_day = self.of_day();
        let (hour, minute, second) = (of_day / HOUR, of_day / MINUTE % 60, of_day / SECOND % 60);
        write!(formatter, " {hour:02}:{minute:02}:{second:02}")?;
        let (mut fraction, mut width) = (of_day % SECOND, 6);
        if fraction == 0 {
            return Ok(());
        }
        while fraction % 10 == 0 {
            (fraction, width) = (fraction / 10, width - 1);
        }
        write!(formatter, ".{fraction:0width$}")
    }
}

/// Date and time of a text that is an ISO 8601 timestamp, without what is spelled in several ways: the `T` or space between
/// them, a `Z` or `+00:00`, and zeros at the end of a fraction. In this form timestamps are equal and ordered as their texts.
pub(crate) fn date_and_time(text: &str) -> Option<(&str, &str)> {
    let (date, time) = text.split_at_checked("2024-05-31".len())?;
    let time = time.strip_prefix(['T', ' '])?;
    if !has_form(date, "0000-00-00") || !has_form(time.get(..5)?, "00:00") {
        return None;
    }
    let is_of_time = |byte: u8| byte.is_ascii_digit() || matches!(byte, b':' | b'.' | b'+' | b'-' | b'Z');
    if !time.bytes().all(is_of_time) {
        return None;
    }
    let clock = time.strip_suffix('Z').or_else(|| time.strip_suffix("+00:00")).unwrap_or(time);
    let has_fraction = clock.contains('.') && !clock.contains(['+', '-']);
    Some((date, if has_fraction { clock.trim_end_matches('0').trim_end_matches('.') } else { clock }))
}

/// Whether a text has digits where a form has zeros, and else the same characters.
fn has_form(text: &str, form: &str) -> bool {
    let has = |(byte, form): (u8, u8)| if form == b'0' { byte.is_ascii_digit() } else { byte == form };
    text.bytes().zip(form.bytes()).all(has)
}

fn digits(text: &str) -> Option<i64> {
    (!text.is_empty() && text.len() <= 6 && text.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| text.parse().ok())?
}

/// Microseconds of a time `10:20`, `10:20:30` or `10:20:30.5`, and possibly a time zone.
fn time_of_day(text: &str) -> Option<i64> {
    let zone = text.find(['Z', '+', '-']).unwrap_or(text.len());
    let (clock, zone) = text.split_at_checked(zone)?;
    let is_zone = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'Z' | b'+' | b'-' | b':');
    if !zone.bytes().all(is_zone) {
        return None;
    }
    let (clock, fraction) = match clock.trim_end().split_once('.') {
        Some((clock, fraction)) => (clock, fraction),
        None => (clock.trim_end(), "0"),
    };
    let mut parts = clock.split(':').map(digits);
    let (hour, minute) = (parts.next()??, parts.next()??);
    let second = parts.next().unwrap_or(Some(0))?;
    if hour > 23
        || minute > 59
        || second > 59
        || parts.next().is_some()
        || !fraction.bytes().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let micros =
        fraction.bytes().chain(*b"000000").take(6).fold(0, |micros, digit| micros * 10 + i64::from(digit - b'0'));
    Some(hour * HOUR + minute * MINUTE + second * SECOND + micros)
}
