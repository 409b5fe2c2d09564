//! Values: read from JSON, compared, written.

use std::cmp::Ordering;
use std::fmt::Write;
use std::rc::Rc;

use lro_json::walk::{self, Damaged};
use lro_json::write::push_string;

use crate::moment::{self, Moment};

/// A value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Null, and the value of a field that a record lacks.
    Null,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer of up to 38 digits.
    Integer(i128),
    /// Any other number. Never infinite, never NaN.
    Double(f64),
    /// A date or timestamp that a CAST or function made. Those in records are texts.
    Time(Moment),
    /// A text.
    Text(Rc<str>),
    /// An array or object, as its JSON.
    Json(Rc<str>),
}

/// The type of a value, in the order of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    Boolean,
    Number,
    Time,
    Text,
    Json,
    Null,
}

impl Rank {
    /// The types that values of others are read as when they are compared.
    pub(crate) const READ: [Self; 3] = [Self::Boolean, Self::Number, Self::Time];

    /// The bit of the type in a set of types.
    pub(crate) fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A number, of a value that is or can be read as one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Integer(i128),
    Double(f64),
}

impl Number {
    pub(crate) fn double(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Double(double) => double,
        }
    }

    fn compare(self, other: Self) -> Ordering {
        match (self, other) {
            (Self::Integer(left), Self::Integer(right)) => left.cmp(&right),
            (Self::Double(left), Self::Double(right)) => left.partial_cmp(&right).unwrap_or(Ordering::Equal),
            (Self::Integer(left), Self::Double(right)) => mixed(left, right),
            (Self::Double(left), Self::Integer(right)) => mixed(right, left).reverse(),
        }
    }
}

/// Compares exactly: an integer beyond 2^53 may round to the floating point number.
fn mixed(integer: i128, double: f64) -> Ordering {
    match (integer as f64).partial_cmp(&double) {
        Some(Ordering::Equal) | None => integer.cmp(&(double as i128)),
        Some(order) => order,
    }
}

impl Value {
    pub(crate) fn text(text: impl Into<Rc<str>>) -> Self {
        Self::Text(text.into())
    }

    /// A floating point number; null when it is infinite or NaN, which JSON cannot represent.
    pub(crate) fn double(double: f64) -> Self {
        if double.is_finite() { Self::Double(double) } else { Self::Null }
    }

    /// Reads the JSON value at the beginning of a text.
    pub(crate) fn read(text: &[u8]) -> Result<Self, Damaged> {
        match text.first() {
            Some(b'"') => {
                let raw = walk::string(text, 0)?.unescaped();
                std::str::from_utf8(&raw).map(Self::text).map_err(|_| Damaged)
            }
            Some(b'{' | b'[') => utf8(walk::value(text)?).map(|json| Self::Json(json.into())),
            Some(b't') => Ok(Self::Boolean(true)),
            Some(b'f') => Ok(Self::Boolean(false)),
            Some(b'n') => Ok(Self::Null),
            _ => number(utf8(walk::value(text)?)?).ok_or(Damaged),
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        *self == Self::Null
    }

    /// Bytes that holding it takes.
    pub(crate) fn size(&self) -> usize {
        // A shared text has two counters, and the allocator adds to it.
        const SHARED_BYTES: usize = 32;
        match self {
            Self::Text(text) | Self::Json(text) => size_of::<Self>() + SHARED_BYTES + text.len(),
            _ => size_of::<Self>(),
        }
    }

    /// The number that it is, or that its text is.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Self::Boolean(boolean) => Some(Number::Integer(i128::from(*boolean))),
            Self::Integer(integer) => Some(Number::Integer(*integer)),
            Self::Double(double) => Some(Number::Double(*double)),
            Self::Text(text) => match number(text.trim())? {
                Self::Integer(integer) => Some(Number::Integer(integer)),
                Self::Double(double) => Some(Number::Double(double)),
                _ => None,
            },
            Self::Null | Self::Time(_) | Self::Json(_) => None,
        }
    }

    /// The point in time that it is, or that its text is.
    pub(crate) fn moment(&self) -> Option<Moment> {
        match self {
            Self::Time(moment) => Some(*moment),
            Self::Text(text) => Moment::parse(text),
            _ => None,
        }
    }

    /// Its text, as CAST gives it; `None` for null.
    pub(crate) fn to_text(&self) -> Option<Rc<str>> {
        match self {
            Self::Null => None,
            Self::Text(text) | Self::Json(text) => Some(Rc::clone(text)),
            Self::Time(moment) => Some(moment.to_string().into()),
            other => {
                let mut text = String::new();
                other.write(&mut text);
                Some(text.into())
            }
        }
    }

    /// What it is read as beside a value of another type; `None` if it is nothing of that type.
    pub(crate) fn read_as(&self, rank: Rank) -> Option<Self> {
        match (self, rank) {
            (Self::Boolean(boolean), Rank::Number) => Some(Self::Integer(i128::from(*boolean))),
            (Self::Text(text), Rank::Boolean) => boolean(text).map(Self::Boolean),
            (Self::Text(text), Rank::Number) => number(text.trim()),
            (Self::Text(text), Rank::Time) => Moment::parse(text).map(Self::Time),
            _ => None,
        }
    }

    /// What is the same for values that are equal, of whatever types: the number or point in time that it is read as, if any.
    /// Values that are not equal may share one, such as the texts `7` and `7.0`, which are the number 7 both.
    pub(crate) fn class(&self) -> Self {
        match Rank::READ.iter().find_map(|rank| self.read_as(*rank)) {
            Some(reading) => reading.class(),
            None => match self {
                Self::Json(json) => Self::Text(Rc::clone(json)),
                value => value.clone(),
            },
        }
    }

    /// Compares as `=` and `<` do: values of different types as one of them is read beside the other, such as a text as a
    /// number. `None` for null, and for values that cannot be compared.
    pub(crate) fn compare(&self, other: &Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Null, _) | (_, Self::Null) => None,
            (Self::Text(left) | Self::Json(left), Self::Text(right) | Self::Json(right)) => {
                Some(compare_texts(left, right))
            }
            (Self::Boolean(left), Self::Boolean(right)) => Some(left.cmp(right)),
            (Self::Time(left), Self::Time(right)) => Some(left.micros.cmp(&right.micros)),
            (Self::Integer(_) | Self::Double(_), Self::Integer(_) | Self::Double(_)) => {
                Some(self.number()?.compare(other.number()?))
            }
            _ => match self.read_as(other.rank()) {
                Some(read) => read.compare(other),
                None => self.compare(&other.read_as(self.rank())?),
            },
        }
    }

    /// Compares any two values: by type, then as [`Value::compare`]. Null comes last.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let by_type = self.rank().cmp(&other.rank());
        by_type.then_with(|| self.compare(other).unwrap_or(Ordering::Equal))
    }

    pub(crate) fn rank(&self) -> Rank {
        match self {
            Self::Boolean(_) => Rank::Boolean,
            Self::Integer(_) | Self::Double(_) => Rank::Number,
            Self::Time(_) => Rank::Time,
            Self::Text(_) => Rank::Text,
            Self::Json(_) => Rank::Json,
            Self::Null => Rank::Null,
        }
    }

    /// Appends bytes that are the same for values of a group: equal ones of a type, and nulls.
    pub(crate) fn push_key(&self, key: &mut Vec<u8>) {
        const FRACTION: u8 = u8::MAX;
        match (self, self.rank()) {
            (Self::Double(double), _) if integral(*double).is_none() => key.push(FRACTION),
            (_, rank) => key.push(rank as u8),
        }
        match self {
            Self::Null => {}
            Self::Boolean(boolean) => key.push(u8::from(*boolean)),
            Self::Integer(integer) => key.extend_from_slice(&integer.to_le_bytes()),
            Self::Double(double) => match integral(*double) {
                Some(integer) => key.extend_from_slice(&integer.to_le_bytes()),
                None => key.extend_from_slice(&double.to_le_bytes()),
            },
            Self::Time(moment) => key.extend_from_slice(&moment.micros.to_le_bytes()),
            Self::Text(text) | Self::Json(text) => {
                let (date, time) = moment::date_and_time(text).unwrap_or((text, ""));
                for part in [date, time] {
                    key.extend_from_slice(&(part.len() as u64).to_le_bytes());
                    key.extend_from_slice(part.as_bytes());
                }
            }
        }
    }

    /// Appends it as JSON.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Boolean(boolean) => out.push_str(if *boolean { "true" } else { "false" }),
            Self::Integer(integer) => out.push_str(&integer.to_string()),
            Self::Double(double) => out.push_str(&spelled(*double)),
            // A date has no characters to escape.
            Self::Time(moment) => {
                let _ = write!(out, "\"{moment}\"");
            }
            Self::Text(text) => push_string(out, text),
            Self::Json(text) => out.push_str(text),
        }
    }
}

/// Compares texts by their bytes, and timestamps by the time, however they are spelled.
fn compare_texts(left: &str, right: &str) -> Ordering {
    match (moment::date_and_time(left), moment::date_and_time(right)) {
        (None, None) => left.cmp(right),
        (Some(left), Some(right)) => left.cmp(&right),
        // Beside other texts a timestamp is a text with a space in it, so that the order is one of all texts.
        (Some((date, time)), None) => spaced(date, time).cmp(right.bytes()),
        (None, Some((date, time))) => left.bytes().cmp(spaced(date, time)),
    }
}

fn spaced<'t>(date: &'t str, time: &'t str) -> impl Iterator<Item = u8> + 't {
    date.bytes().chain([b' ']).chain(time.bytes())
}

fn utf8(text: &[u8]) -> Result<&str, Damaged> {
    std::str::from_utf8(text).map_err(|_| Damaged)
}

/// A number as JSON and SQL write it; `None` for other texts. Beyond the range of a floating point number it is the largest.
pub(crate) fn number(text: &str) -> Option<Value> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return None;
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(integer) = text.parse()
    {
        return Some(Value::Integer(integer));
    }
    let double: f64 = text.parse().ok()?;
    Some(Value::Double(double.clamp(-f64::MAX, f64::MAX)))
}

/// The truth value that a text says.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match () {
        () if is(&["true", "t", "yes", "y", "1"]) => Some(true),
        () if is(&["false", "f", "no", "n", "0"]) => Some(false),
        () => None,
    }
}

/// The integer that a floating point number is equal to.
fn integral(double: f64) -> Option<i128> {
    // Powers of two, so exact.
    let is_small = (-1.7e38..1.7e38).contains(&double);
    (is_small && double.fract() == 0.0).then_some(double as i128)
}

/// A floating point number with a fraction or an exponent, in the shortest form that reads back the same.
fn spelled(double: f64) -> String {
    let magnitude = double.abs();
    if magnitude != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{double:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    if double.fract() == 0.0 { format!("{double:.1}") } else { format!("{double}") }
}
