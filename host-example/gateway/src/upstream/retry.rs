//! `Retry-After` in the responses of servers that are called too often.

use std::time::SystemTime;

use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};

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
    let wait = httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or_default();
    Some(wait.as_secs() + u64::from(wait.subsec_nanos() > 0))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn seconds_and_dates_are_understood() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(seconds("120", at(0)), Some(120));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT", at(784_111_700)), Some(77));
        assert_eq!(seconds("Thu, 29 Feb 2024 00:00:00 GMT", at(1_709_164_799)), Some(1));
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:00 GMT", UNIX_EPOCH), Some(0));
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
