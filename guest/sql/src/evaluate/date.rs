//! Functions of dates.

use std::fmt::Write;

use super::shown;
use crate::moment::{DAY, HOUR, MINUTE, Moment, SECOND, civil, days};
use crate::value::Number;
use crate::{Error, Value};

/// A unit or part of dates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Century,
    Decade,
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
    /// 0 is Sunday.
    DayOfWeek,
    /// 1 is Monday, 7 Sunday.
    IsoDayOfWeek,
    DayOfYear,
    /// Seconds since 1970.
    Epoch,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl Unit {
    /// The unit of a name, in singular or plural.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let name = name.to_lowercase();
        // The end of these is not that of a plural.
        let singular = name.strip_suffix('s').filter(|name| !matches!(*name, "" | "m" | "u"));
        Some(match singular.unwrap_or(&name) {
            "century" | "centurie" => Self::Century,
            "decade" => Self::Decade,
            "year" | "yr" | "y" => Self::Year,
            "quarter" => Self::Quarter,
            "month" | "mon" => Self::Month,
            "week" | "w" | "weekofyear" => Self::Week,
            "day" | "d" | "dayofmonth" => Self::Day,
            "hour" | "hr" | "h" => Self::Hour,
            "minute" | "min" | "m" => Self::Minute,
            "second" | "sec" | "s" => Self::Second,
            "millisecond" | "msec" | "ms" => Self::Millisecond,
            "microsecond" | "usec" | "us" => Self::Microsecond,
            "dow" | "dayofweek" | "weekday" => Self::DayOfWeek,
            "isodow" => Self::IsoDayOfWeek,
            "doy" | "dayofyear" => Self::DayOfYear,
            "epoch" => Self::Epoch,
            _ => return None,
        })
    }
}

impl Moment {
    fn of(value: &Value) -> Result<Self, Error> {
        value.moment().ok_or_else(|| {
            Error::Value(format!("{} is not a date such as 2024-05-31 or 2024-05-31T10:20:30", shown(value)))
        })
    }

    /// The number of the unit since some beginning that is the same for all.
    fn number(self, unit: Unit) -> i64 {
        let (year, month, _) = self.civil();
        match unit {
            Unit::Century => year.div_euclid(100),
            Unit::Decade => year.div_euclid(10),
            Unit::Year => year,
            Unit::Quarter => year * 4 + (month - 1) / 3,
            Unit::Month => year * 12 + month - 1,
            // 1970 began on a Thursday.
            Unit::Week => (self.day() + 3).div_euclid(7),
            Unit::Day | Unit::DayOfWeek | Unit::IsoDayOfWeek | Unit::DayOfYear => self.day(),
            Unit::Hour => self.micros.div_euclid(HOUR),
            Unit::Minute => self.micros.div_euclid(MINUTE),
            Unit::Second | Unit::Epoch => self.micros.div_euclid(SECOND),
            Unit::Millisecond => self.micros.div_euclid(1000),
            Unit::Microsecond => self.micros,
        }
    }
}

/// CAST AS DATE.
pub(super) fn to_date(value: &Value) -> Result<Value, Error> {
    Moment::of(value).map(|moment| Value::Time(Moment { micros: moment.day() * DAY, has_time: false }))
}

/// CAST AS TIMESTAMP.
pub(super) fn to_timestamp(value: &Value) -> Result<Value, Error> {
    Moment::of(value).map(|moment| Value::Time(Moment { has_time: true, ..moment }))
}

/// A part of a date.
pub(super) fn part(unit: Unit, value: &Value) -> Result<Value, Error> {
    let moment = Moment::of(value)?;
    let (year, month, day) = moment.civil();
    let of_minute = moment.of_day() % MINUTE;
    Ok(Value::Integer(i128::from(match unit {
        Unit::Century => (year - 1).div_euclid(100) + 1,
        Unit::Decade => year / 10,
        Unit::Year => year,
        Unit::Quarter => (month - 1) / 3 + 1,
        Unit::Month => month,
        Unit::Week => iso_week(moment),
        Unit::Day => day,
        Unit::Hour => moment.of_day() / HOUR,
        Unit::Minute => moment.of_day() / MINUTE % 60,
        Unit::Second => of_minute / SECOND,
        Unit::Millisecond => of_minute / 1000,
        Unit::Microsecond => of_minute,
        Unit::DayOfWeek => moment.weekday(),
        Unit::IsoDayOfWeek => (moment.weekday() + 6) % 7 + 1,
        Unit::DayOfYear => moment.day_of_year(),
        Unit::Epoch => return Ok(Value::double(moment.micros as f64 / SECOND as f64)),
    })))
}

/// The week of ISO 8601: the one with the first Thursday of the year is 1.
fn iso_week(moment: Moment) -> i64 {
    let day = moment.day();
    let thursday = day - (moment.weekday() + 6) % 7 + 3;
    (thursday - days(civil(thursday).0, 1, 1)) / 7 + 1
}

/// The beginning of the unit: a date of a date, else a date and time.
pub(super) fn truncate(unit: Unit, value: &Value) -> Result<Value, Error> {
    let moment = Moment::of(value)?;
    let (year, month, _) = moment.civil();
    let floor = |unit: i64| moment.micros.div_euclid(unit) * unit;
    let micros = match unit {
        Unit::Century => days(year / 100 * 100, 1, 1) * DAY,
        Unit::Decade => days(year / 10 * 10, 1, 1) * DAY,
        Unit::Year => days(year, 1, 1) * DAY,
        Unit::Quarter => days(year, (month - 1) / 3 * 3 + 1, 1) * DAY,
        Unit::Month => days(year, month, 1) * DAY,
        Unit::Week => floor(DAY) - (moment.weekday() + 6) % 7 * DAY,
        Unit::Day | Unit::DayOfWeek | Unit::IsoDayOfWeek | Unit::DayOfYear => floor(DAY),
        Unit::Hour => floor(HOUR),
        Unit::Minute => floor(MINUTE),
        Unit::Second | Unit::Epoch => floor(SECOND),
        Unit::Millisecond => floor(1000),
        Unit::Microsecond => moment.micros,
    };
    Ok(Value::Time(Moment { micros, ..moment }))
}

/// How many boundaries of the unit lie between two dates; of weeks, how many times seven days.
pub(super) fn difference(unit: Unit, from: &Value, to: &Value) -> Result<Value, Error> {
    let (from, to) = (Moment::of(from)?, Moment::of(to)?);
    if unit == Unit::Week {
        let days = to.number(Unit::Day) - from.number(Unit::Day);
        return Ok(Value::Integer(i128::from(days / 7)));
    }
    Ok(Value::Integer(i128::from(to.number(unit) - from.number(unit))))
}

/// A date as a text in a format of `strftime`.
pub(super) fn formatted(value: &Value, format: &Value) -> Result<Value, Error> {
    // The order of the arguments is free, as in DuckDB and SQLite.
    let (moment, format) = match (Moment::of(value), Moment::of(format)) {
        (Err(_), Ok(moment)) => (moment, value),
        (moment, _) => (moment?, format),
    };
    let format = format.to_text().unwrap_or_else(|| "".into());
    let (year, month, day) = moment.civil();
    let of_day = moment.of_day();
    let (hour, minute, second) = (of_day / HOUR, of_day / MINUTE % 60, of_day / SECOND % 60);
    let name = |names: &[&str], number: i64, length: usize| {
        let name = usize::try_from(number).ok().and_then(|number| names.get(number)).copied().unwrap_or_default();
        name.get(..length).unwrap_or(name).to_owned()
    };
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let specifier = characters.next();
        let written = match specifier {
            Some('Y') => write!(text, "{year:04}"),
            Some('y') => write!(text, "{:02}", year % 100),
            Some('m') => write!(text, "{month:02}"),
            Some('d') => write!(text, "{day:02}"),
            Some('H') => write!(text, "{hour:02}"),
            Some('I') => write!(text, "{:02}", (hour + 11) % 12 + 1),
            Some('M') => write!(text, "{minute:02}"),
            Some('S') => write!(text, "{second:02}"),
            Some('f') => write!(text, "{:06}", of_day % SECOND),
            Some('p') => write!(text, "{}", if hour < 12 { "AM" } else { "PM" }),
            Some('j') => write!(text, "{:03}", moment.day_of_year()),
            Some('a') => write!(text, "{}", name(&WEEKDAYS, moment.weekday(), 3)),
            Some('A') => write!(text, "{}", name(&WEEKDAYS, moment.weekday(), usize::MAX)),
            Some('b') => write!(text, "{}", name(&MONTHS, month - 1, 3)),
            Some('B') => write!(text, "{}", name(&MONTHS, month - 1, usize::MAX)),
            Some('w') => write!(text, "{}", moment.weekday()),
            Some('V') => write!(text, "{:02}", iso_week(moment)),
            Some('s') => write!(text, "{}", moment.micros.div_euclid(SECOND)),
            Some('F') => write!(text, "{year:04}-{month:02}-{day:02}"),
            Some('T') => write!(text, "{hour:02}:{minute:02}:{second:02}"),
            Some('%') => write!(text, "%"),
            other => {
                let other = other.map_or(String::new(), String::from);
                let message = format!(
                    "strftime: `%{other}` is not one of %Y %y %m %d %H %I %M %S %f %p %j %a %A %b %B %w %V %s %F %T %%"
                );
                return Err(Error::Value(message));
            }
        };
        // Writing to a `String` does not fail.
        let _ = written;
    }
    Ok(Value::text(text))
}

/// The date and time of a number of units since 1970.
pub(super) fn from_epoch(value: &Value, per_second: i64) -> Result<Value, Error> {
    let number = value.number().map(Number::double);
    let seconds = number.map(|number| number / per_second as f64);
    // Years 0 to 9999.
    match seconds.filter(|seconds| (-62_167_219_200.0..253_402_300_800.0).contains(seconds)) {
        Some(seconds) => {
            let micros = (seconds * SECOND as f64).round() as i64;
            Ok(Value::Time(Moment { micros, has_time: true }))
        }
        None => Err(Error::Value(format!("{} is not a time since 1970", shown(value)))),
    }
}
