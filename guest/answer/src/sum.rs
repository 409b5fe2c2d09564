//! Sums that do not depend on the order of their numbers.

use std::fmt;

use lro_json::walk::{self, Damaged};
use serde::{Deserialize, Serialize};

use crate::number::{self, Decimal, spelled};

/// Fractions are counted in units of 2^-80: doubles from 4e-9 on are multiples of it, and sums up to 1e14 have room.
const UNIT_BITS: u32 = 80;
const UNITS: f64 = (1_u128 << UNIT_BITS) as f64;

/// Sums below this, 7e13, can be written in units.
const WHOLE_MAX: u128 = 1 << 46;

/// Most units of one number.
const UNITS_MAX: f64 = (1_u128 << 126) as f64;

/// A sum of numbers: integers up to 38 digits and most fractions exactly.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sum {
    integers: i128,
    /// Units of numbers that are not written as integers.
    fractions: i128,
    /// The other numbers, rounded after each.
    rest: f64,
    has: Has,
}

/// What numbers a sum is of; also those before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Has {
    #[default]
    Integers,
    Fractions,
    Rest,
}

impl Sum {
    /// Adds the number at the beginning of a text.
    #[inline(always)]
    pub(crate) fn add(&mut self, number: &[u8]) -> Result<(), Damaged> {
        match integer(number)? {
            Some(integer) => match self.integers.checked_add(integer) {
                Some(sum) => self.integers = sum,
                None => self.add_rest(integer as f64),
            },
            None => self.add_fraction(text(number)?.parse().map_err(|_| Damaged)?),
        }
        Ok(())
    }

    fn add_fraction(&mut self, amount: f64) {
        match units(amount).and_then(|units| self.fractions.checked_add(units)) {
            Some(sum) => (self.fractions, self.has) = (sum, self.has.max(Has::Fractions)),
            None => self.add_rest(amount),
        }
    }

    fn add_rest(&mut self, amount: f64) {
        self.rest += amount;
        self.has = Has::Rest;
    }

    /// Adds the sum of later numbers; `None` if their order matters.
    pub(crate) fn absorb(&mut self, later: &Self) -> Option<()> {
        if self.is_empty() {
            *self = later.clone();
        } else if !later.is_empty() {
            let has = self.has.max(later.has);
            if has == Has::Rest {
                return None;
            }
            self.integers = self.integers.checked_add(later.integers)?;
            self.fractions = self.fractions.checked_add(later.fractions)?;
            self.has = has;
        }
        Some(())
    }

    /// Whether nothing changes if other numbers come before its own, or behind.
    fn is_empty(&self) -> bool {
        self.integers == 0 && self.has == Has::Integers
    }

    /// The sum, rounded once if it is less than [`WHOLE_MAX`] and has no rest.
    pub(crate) fn amount(&self) -> f64 {
        let sum = match self.integers.checked_add(self.fractions >> UNIT_BITS) {
            Some(whole) if whole.unsigned_abs() < WHOLE_MAX => {
                let part = self.fractions & ((1 << UNIT_BITS) - 1);
                ((whole << UNIT_BITS) + part) as f64 / UNITS
            }
            _ => self.integers as f64 + self.fractions as f64 / UNITS,
        };
        sum + self.rest
    }
}

/// As JSON: an integer if all numbers are.
impl fmt::Display for Sum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.has {
            Has::Integers => self.integers.fmt(formatter),
            _ => formatter.write_str(&spelled(self.amount())),
        }
    }
}

/// The units of a number, if it is a multiple of one.
fn units(amount: f64) -> Option<i128> {
    let units = amount * UNITS;
    (units.abs() < UNITS_MAX && units.trunc() == units).then_some(units as i128)
}

/// The number, if it is written as an integer and not too large.
#[inline(always)]
fn integer(number: &[u8]) -> Result<Option<i128>, Damaged> {
    match number::short(number) {
        Some(short) => Ok((short.scale == 0).then_some(i128::from(short.mantissa))),
        None if Decimal::read(number, 0)?.is_integer => Ok(text(number)?.parse().ok()),
        None => Ok(None),
    }
}

fn text(number: &[u8]) -> Result<&str, Damaged> {
    std::str::from_utf8(walk::value(number)?).map_err(|_| Damaged)
}
