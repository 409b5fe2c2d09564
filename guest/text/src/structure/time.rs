//! The order of the times of a log.

use std::cmp::Ordering;

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// A time as a line of a log spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) layout: Layout,
}

/// How a time is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) spelling: Spelling,
    /// Bytes before the zone.
    pub(crate) local: usize,
}

/// The spellings of times; `T` is any byte between date and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// `2026-01-31T23:59:59`
    Dashes,
    /// `2026/01/31T23:59:59`
    Slashes,
    /// `2026.01.31T23:59:59`
    Points,
    /// `31/Jan/2026:23:59:59`
    Month,
    /// `Jan 31 23:59:59`
    WithoutYear,
    /// `23:59:59`
    Clock,
}

impl Time<'_> {
    /// The order of two times, if both have one format, zone included, and months with a name that is known.
    pub(crate) fn order(self, other: Time<'_>) -> Option<Ordering> {
        let ((local, zone), (other_local, other_zone)) = (self.parts()?, other.parts()?);
        if self.layout.spelling != other.layout.spelling || zone != other_zone {
            return None;
        }
        match self.layout.spelling {
            Spelling::Dashes | Spelling::Slashes | Spelling::Points => {
                (local.get(10) == other_local.get(10)).then(|| local.cmp(other_local))
            }
            Spelling::Clock => Some(local.cmp(other_local)),
            Spelling::WithoutYear => {
                let months = order_of_months(local.get(..3)?, other_local.get(..3)?)?;
                Some(months.then_with(|| local.get(3..).cmp(&other_local.get(3..))))
            }
            Spelling::Month => {
                let months = order_of_months(local.get(3..6)?, other_local.get(3..6)?)?;
                let years = local.get(7..11)?.cmp(other_local.get(7..11)?);
                let days = || local.get(..2).cmp(&other_local.get(..2));
                let clocks = || local.get(11..).cmp(&other_local.get(11..));
                Some(years.then(months).then_with(days).then_with(clocks))
            }
        }
    }

    /// Whether another time of the same format that is not less is none of the year or the day before: it is less than half of
    /// that later.
    pub(crate) fn is_surely_before(self, later: Time<'_>) -> bool {
        let apart = |unit: fn(&[u8]) -> Option<usize>| Some(unit(later.text)?.saturating_sub(unit(self.text)?));
        match self.layout.spelling {
            Spelling::WithoutYear => apart(|text| month(text.get(..3)?)).is_some_and(|months| months < 6),
            Spelling::Clock => apart(hour).is_some_and(|hours| hours < 12),
            Spelling::Dashes | Spelling::Slashes | Spelling::Points | Spelling::Month => true,
        }
    }

    fn parts(&self) -> Option<(&[u8], &[u8])> {
        self.text.split_at_checked(self.layout.local)
    }
}

fn order_of_months(name: &[u8], other: &[u8]) -> Option<Ordering> {
    if name == other { Some(Ordering::Equal) } else { Some(month(name)?.cmp(&month(other)?)) }
}

fn month(name: &[u8]) -> Option<usize> {
    MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))
}

fn hour(clock: &[u8]) -> Option<usize> {
    match clock {
        [tens, ones, ..] => Some(usize::from(tens.checked_sub(b'0')?) * 10 + usize::from(ones.checked_sub(b'0')?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::structure::stamp;

    #[test]
    fn times_of_one_format_are_in_order() {
        for times in [
            &["2025-12-31T23:59:59Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.05Z", "2026-01-01T00:00:00.1Z"][..],
            &["2025.12.31 23:59:59", "2026.01.01 00:00:00"],
            &["2025/12/31 23:59:59,9", "2026/01/01 00:00:00"],
            &["31/Dec/2025:23:59:59 +0000", "02/Jan/2026:00:00:00 +0000", "01/Feb/2026:00:00:00 +0000"],
            &["Feb  9 10:00:00", "Feb 10 09:00:00", "mar  1 00:00:00", "Mar 01 00:00:01"],
            &["09:59:59", "10:00:00", "10:00:00.123", "10:00:00.1231", "10:00:00.9", "10:00:01"],
        ] {
            let time = |text: &'static str| stamp(text.as_bytes()).time.expect("a time");
            for (index, text) in times.iter().enumerate() {
                let orders = times.iter().map(|other| time(text).order(time(other)));
                assert!(orders.eq((0..times.len()).map(|other| Some(index.cmp(&other)))), "{text}");
            }
        }
    }
}
