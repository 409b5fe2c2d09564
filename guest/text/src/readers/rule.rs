//! What the cells of a column become: numbers only when no digit is lost.

use std::fmt;
use std::ops::Range;

use lro_json::masks::digits;
use lro_json::{LANE, Lane};

/// Most significant digits of a number: 15, as many as every double-precision number keeps. One with a point has more if it is
/// what programs print of a double-precision number, such as `0.30000000000000004`.
pub const DIGITS_MAX: usize = 15;

/// Longest number, in bytes: 24. Longer ones have so many zeros that they could leave the range of double precision.
pub(crate) const NUMBER_BYTES_MAX: usize = 24;

/// The rule of a column. It is decided from the first rows, up to [`SAMPLE_BYTES_MAX`](crate::SAMPLE_BYTES_MAX), and
/// holds for all: a later cell that does not fit stays a string.
///
/// [`Rule::to_string`](fmt::Display) gives the reason in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every cell is a string, just as it is written.
    Text,
    /// Cells like `12`, `-3.25` are numbers, empty ones and `NULL` or `null` null. Not numbers: `007`, `+1`, `1e5`, `1.50`, `-0`,
    /// and whatever has more than [`DIGITS_MAX`] digits.
    Number,
    /// The same, but all have a point, and whole ones end in `.0`, as Python writes them: `2.0`, `3.25`.
    Float,
    /// Cells with exactly this many digits after the point, like `9.50`, are numbers.
    Fixed {
        /// Digits after the point, at least 2.
        places: u8,
    },
    /// `true` and `false` are booleans.
    Boolean,
}

impl fmt::Display for Rule {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text => formatter.write_str("strings as written"),
            Self::Number => formatter.write_str("numbers, since no digit of the first rows is lost"),
            Self::Float => {
                formatter.write_str("numbers, since all have a point and no digit of the first rows is lost")
            }
            Self::Fixed { places } => write!(formatter, "numbers, since all have {places} digits after the point"),
            Self::Boolean => formatter.write_str("true and false"),
        }
    }
}

/// A number as it is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spelled {
    /// Digits after the point.
    places: u8,
    /// Whether the last of them is 0.
    trailing_zero: bool,
}

impl Rule {
    /// The rule that all cells follow; null ones follow every rule.
    pub(crate) fn of<'a>(cells: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let mut filled = cells.filter(|cell| !is_null(cell));
        let Some(first) = filled.clone().next() else { return Self::Text };
        let whole = |cell: &'a [u8]| spelled(cell, 0..cell.len());
        let rule = match whole(first) {
            None => Self::Boolean,
            Some(_) => {
                let mut trailing = filled.clone().filter_map(whole).filter(|number| number.trailing_zero);
                match trailing.clone().find(|number| number.places > 1).or_else(|| trailing.next()) {
                    Some(Spelled { places: 1, .. }) => Self::Float,
                    Some(Spelled { places, .. }) => Self::Fixed { places },
                    None => Self::Number,
                }
            }
        };
        if filled.all(|cell| rule.fits(cell, 0..cell.len())) { rule } else { Self::Text }
    }

    /// Whether a cell, a range of a text, is a number or a boolean by this rule.
    #[inline(always)]
    pub(crate) fn fits(self, text: &[u8], cell: Range<usize>) -> bool {
        let number = || spelled(text, cell.clone());
        match self {
            Self::Text => false,
            Self::Number => number().is_some_and(|number| !number.trailing_zero),
            Self::Float => {
                number().is_some_and(|number| number.places == 1 || number.places > 1 && !number.trailing_zero)
            }
            Self::Fixed { places } => number().is_some_and(|number| number.places == places),
            Self::Boolean => matches!(text.get(cell), Some(b"true" | b"false")),
        }
    }
}

/// Whether a cell of numbers or booleans is null: empty, or as clients of databases print it.
pub(crate) fn is_null(cell: &[u8]) -> bool {
    matches!(cell, b"" | b"NULL" | b"null")
}

/// Reads a number, a range of a text: no leading zeros, no plus, no exponent, not minus zero, at most [`DIGITS_MAX`] significant
/// digits. It is fast where [`LANE`] bytes follow the sign in the text.
#[inline(always)]
fn spelled(text: &[u8], cell: Range<usize>) -> Option<Spelled> {
    let is_negative = text.get(cell.start) == Some(&b'-');
    let start = cell.start + usize::from(is_negative);
    let length = cell.end.checked_sub(start)?;
    let chunk = match text.get(start..).and_then(|rest| rest.first_chunk()) {
        Some(chunk) if length <= LANE => chunk,
        _ => return spelled_by_bytes(text.get(cell)?),
    };
    let digits = digits(chunk) & ((1 << length) - 1);
    let whole = digits.trailing_ones() as usize;
    let places = if whole == length { 0 } else { (digits >> (whole + 1)).trailing_ones() as usize };
    let is_fraction = chunk.get(whole) == Some(&b'.') && places > 0 && whole + 1 + places == length;
    let leading_zero = whole > 1 && chunk[0] == b'0';
    let minus_zero = is_negative && digits & !u32::from(Lane::load(chunk).equal(b'0').bits()) == 0;
    if whole == 0 || whole < length && !is_fraction || leading_zero || minus_zero || whole > DIGITS_MAX {
        return None;
    }
    Some(Spelled { places: places as u8, trailing_zero: places > 0 && chunk.get(length - 1) == Some(&b'0') })
}

/// As [`spelled`], byte by byte.
#[inline(never)]
fn spelled_by_bytes(text: &[u8]) -> Option<Spelled> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || text.len() > NUMBER_BYTES_MAX {
        return None;
    }
    let (mut point, mut significant) = (None, 0);
    for (index, &byte) in digits.iter().enumerate() {
        match byte {
            b'0'..=b'9' => significant += usize::from(significant > 0 || byte != b'0'),
            b'.' if point.is_none() => point = Some(index),
            _ => return None,
        }
    }
    let whole = point.unwrap_or(digits.len());
    let places = point.map_or(0, |point| digits.len() - point - 1);
    let leading_zero = whole > 1 && digits[0] == b'0';
    let minus_zero = significant == 0 && digits.len() < text.len();
    if whole == 0 || leading_zero || minus_zero || point.is_some() && places == 0 {
        return None;
    }
    if significant > DIGITS_MAX && !(point.is_some() && is_printed(text)) {
        return None;
    }
    Some(Spelled { places: places as u8, trailing_zero: places > 0 && digits.ends_with(b"0") })
}

/// Whether a number is the shortest decimal of a double-precision number, which is what programs print.
fn is_printed(number: &[u8]) -> bool {
    let text = std::str::from_utf8(number).ok();
    text.is_some_and(|text| text.parse::<f64>().is_ok_and(|amount| amount.to_string() == text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        /// What follows a number in a text does not matter.
        #[test]
        fn sixteen_bytes_at_once_read_what_single_bytes_do(cell in "-?[0.1-9x]{0,18}", after in "[-.,0-9]{0,20}") {
            let text = format!("-{cell}{after}");
            let range = 1..1 + cell.len();
            prop_assert_eq!(spelled(text.as_bytes(), range), spelled_by_bytes(cell.as_bytes()), "{} in {}", cell, text);
        }
    }

    fn is_number(text: &[u8]) -> bool {
        Rule::Number.fits(text, 0..text.len())
    }

    #[test]
    fn a_number_survives_double_precision() {
        let printed = ["0.30000000000000004", "-93.40188170143654", "5.000000000000001", "179.76931348623157"];
        let short = ["0", "7", "-12", "0.5", "-3.25", "999999999999999", "0.000012", "123456.789012345"];
        for yes in short.into_iter().chain(printed) {
            assert!(is_number(yes.as_bytes()), "{yes}");
        }
        let no =
            ["", "-", "+1", "007", "00", "1e5", "1.50", "1.", ".5", "-0", "-0.0", "1,5", "0x1", "1 ", "NaN", "1.2.3"];
        let long = ["1234567890123456", "12345678901234567890", "0.00000000000000000000001", "0.30000000000000005"];
        for no in no.into_iter().chain(long) {
            assert!(!is_number(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn a_column_agrees_or_stays_text() {
        let rule = |cells: &[&str]| Rule::of(cells.iter().map(|cell| cell.as_bytes()));
        assert_eq!(rule(&["1", "", "2.5"]), Rule::Number);
        assert_eq!(rule(&["1.50", "", "10.25"]), Rule::Fixed { places: 2 });
        assert_eq!(rule(&["1.9", "1.10"]), Rule::Text);
        assert_eq!(rule(&["2.0", "", "3.25"]), Rule::Float);
        assert_eq!(rule(&["2.0", "3"]), Rule::Text);
        assert_eq!(rule(&["2.0", "1.10"]), Rule::Text);
        assert_eq!(rule(&["7", "007"]), Rule::Text);
        assert_eq!(rule(&["15", "1e5"]), Rule::Text);
        assert_eq!(rule(&["1", "12345678901234567890"]), Rule::Text);
        assert_eq!(rule(&["true", "false", ""]), Rule::Boolean);
        assert_eq!(rule(&["true", "1"]), Rule::Text);
        assert_eq!(rule(&["1", "NULL", "2.5", "null"]), Rule::Number);
        assert_eq!(rule(&["a", "NULL"]), Rule::Text);
        assert_eq!(rule(&["NULL", ""]), Rule::Text);
        assert_eq!(rule(&["", ""]), Rule::Text);
    }
}
