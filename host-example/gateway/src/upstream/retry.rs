//! `Retry-After` in the responses of servers that are called too often.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Names of months in dates of HTTP.
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// What the reason of a failure says of the wait that a response with the status 429 or 503 asks for, as errors of tools do:
/// whole seconds, at least one. Empty for any other response.
pub(crate) fn note(status: StatusCode, headers: &HeaderMap) -> String {
    if !matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return String::new();
    }
    let value = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
    let wait = value.and_then(|value| seconds(value.trim(), SystemTime::now()));
    wait.map(|seconds| format!("retry-after: {}; ", seconds.max(1))).unwrap_or_default()
}

/// The seconds from now on, of a number of seconds or a date.
fn seconds(value: &str, now: SystemTime) -> Option<u64> {
    if let Ok(seconds) = value.parse() {
        return Some(seconds);
    }
    let wait = date(value)?.duration_since(now).unwrap_or_default();
    Some(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

/// A date of HTTP in the form that servers have to send: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<SystemTime> {
    let (_, rest) = text.split_once(", ")?;
    let [day, month, year, time, "GMT"] = rest.split(' ').collect::<Vec<_>>()[..] else { return None };
    let month = (1..).zip(MONTHS).find_map(|(number, name)| (name == month).then_some(number))?;
    let [hours, minutes, seconds] =
        time.split(':').map(|part| part.parse::<u64>().ok()).collect::<Option<Vec<_>>>()?[..]
    else {
        return None;
    };
    let days = days(year.parse().ok().filter(|year| (1970..=9999).contains(year))?, month, day.parse().ok()?)?;
    let is_time = hours < 24 && minutes < 60 && seconds <= 60;
    is_time.then(|| UNIX_EPOCH + Duration::from_secs(((days * 24 + hours) * 60 + minutes) * 60 + seconds))
}

/// Days from 1970 to a date.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let is_day = (1..=31).contains(&day);
    // Years begin in March here, so that a leap day is their last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = year * 365 + year / 4 - year / 100 + year / 400;
    is_day.then(|| before + (month * 153 + 2) / 5 + day - 1).and_then(|days| days.checked_sub(719_468))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_understood() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(date("Sun, 06 Nov 1994 08:49:37 GMT"), Some(at(784_111_777)));
        assert_eq!(date("Thu, 29 Feb 2024 00:00:00 GMT"), Some(at(1_709_164_800)));
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(UNIX_EPOCH));
        assert_eq!(seconds("120", at(0)), Some(120));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT", at(784_111_700)), Some(77));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT", at(784_111_800)), Some(0), "it has passed");
        for odd in [
            "",
            "-1",
            "1.5",
            "soon",
            "Sun, 06 Nov 1994",
            "Sun, 06 Xyz 1994 08:49:37 GMT",
            "Sun, 99999999999999999999 Nov 1994 08:49:37 GMT",
        ] {
            assert_eq!(seconds(odd, at(0)), None, "{odd}");
        }
    }
}
