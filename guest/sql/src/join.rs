//! Joins: the tables on the right are held, by their keys where these are equalities.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::evaluate::Row;
use crate::memory::Held;
use crate::plan::Joined;
use crate::run::{Flow, Run, Scan};
use crate::sort::size;
use crate::value::Rank;
use crate::{Error, Value};

/// Most pairs of rows that joins compare: 20 million, some seconds. Those whose keys have different classes are not compared.
pub const PAIRS_MAX: u64 = 20_000_000;

/// What a row of a table on the right takes beside its values, in bytes.
const BUILT_BYTES: usize = 96;

/// The rows of a table on the right of a join.
pub(crate) struct Built<'p> {
    joined: &'p Joined,
    rows: Vec<Box<[Value]>>,
    /// Numbers of the rows whose keys have these classes.
    index: HashMap<Box<[u8]>, Vec<usize>>,
    /// Of the values of each key.
    types: Vec<Types>,
    /// A row for rows on the left that have no other.
    nulls: Vec<Value>,
    held: Held<'p>,
}

/// Types of values and of their classes, as bits.
#[derive(Clone, Copy, Default)]
struct Types {
    own: u8,
    classes: u8,
}

impl Types {
    fn add(&mut self, value: &Value, class: &Value) {
        self.own |= value.rank().bit();
        self.classes |= class.rank().bit();
    }

    /// Whether none of the values can be compared with this one.
    fn are_others(self, value: &Value, class: &Value) -> bool {
        self.own != 0 && self.own & value.rank().bit() == 0 && self.classes & class.rank().bit() == 0
    }

    /// Whether those of the same class are equal to this value.
    fn are_equal(self, value: &Value, class: &Value) -> bool {
        let is_alone = value.rank() != Rank::Text && self.own == value.rank().bit();
        is_alone || class.rank() == Rank::Text
    }
}

/// The key of a row on the left of a join.
struct Key {
    bytes: Vec<u8>,
    /// Whether the keys of rows with the same classes are equal.
    is_exact: bool,
}

impl Run<'_> {
    /// Holds the rows of a table on the right of a join.
    pub(crate) fn build<'p>(
        &'p self,
        scan: &mut Scan<'_>,
        joined: &'p Joined,
        number: usize,
    ) -> Result<Built<'p>, Error> {
        let mut built = Built {
            joined,
            rows: Vec::new(),
            index: HashMap::new(),
            types: vec![Types::default(); joined.keys.len()],
            nulls: vec![Value::Null; joined.rows.width()],
            held: self.memory.hold(),
        };
        let empty: &[Value] = &[];
        self.rows(scan, &joined.rows, &mut |values| {
            let mut row = vec![empty; number];
            row.push(values);
            let mut key = Vec::new();
            for ((_, right), types) in joined.keys.iter().zip(&mut built.types) {
                let value = self.environment.value(right, &row)?;
                if value.is_null() {
                    return Ok(Flow::More);
                }
                let class = value.class();
                types.add(&value, &class);
                class.push_key(&mut key);
            }
            built.held.take(size(values) + key.len() + BUILT_BYTES)?;
            if !joined.keys.is_empty() {
                built.index.entry(key.into()).or_default().push(built.rows.len());
            }
            built.rows.push(values.into());
            Ok(Flow::More)
        })?;
        Ok(built)
    }

    /// Joins a row of the tables before with the rest.
    pub(crate) fn join(
        &self,
        built: &[Built<'_>],
        row: &Row<'_>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<Flow, Error>,
    ) -> Result<Flow, Error> {
        let Some((next, rest)) = built.split_first() else { return each(row) };
        let mut longer: Vec<&[Value]> = row.to_vec();
        longer.push(&[]);
        let mut is_matched = false;
        let mut pair = |values, is_exact: bool| {
            self.pairs.set(self.pairs.get() + 1);
            if self.pairs.get() > PAIRS_MAX {
                return Err(Error::Limit(format!(
                    "join-pairs: joins compare more than {PAIRS_MAX} pairs of rows: join ON a.x = b.y, or add conditions"
                )));
            }
            if let Some(last) = longer.last_mut() {
                *last = values;
            }
            if !is_exact && !self.has_equal_keys(next.joined, &longer)? {
                return Ok(Flow::More);
            }
            if let Some(condition) = &next.joined.condition
                && !self.environment.holds(condition, &longer)?
            {
                return Ok(Flow::More);
            }
            is_matched = true;
            self.join(rest, &longer, each)
        };
        if next.joined.keys.is_empty() {
            for values in &next.rows {
                if pair(values, true)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        } else if let Some(key) = self.key(next, row)? {
            for number in next.index.get(key.bytes.as_slice()).into_iter().flatten() {
                let values = next.rows.get(*number).map_or(next.nulls.as_slice(), |values| values);
                if pair(values, key.is_exact)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        }
        if !is_matched && next.joined.is_left {
            if let Some(last) = longer.last_mut() {
                *last = &next.nulls;
            }
            return self.join(rest, &longer, each);
        }
        Ok(Flow::More)
    }

    /// The key of a row on the left of a join; `None` when a value is null.
    fn key(&self, next: &Built<'_>, row: &Row<'_>) -> Result<Option<Key>, Error> {
        let mut key = Key { bytes: Vec::new(), is_exact: true };
        for ((left, _), types) in next.joined.keys.iter().zip(&next.types) {
            let value = self.environment.value(left, row)?;
            if value.is_null() {
                return Ok(None);
            }
            let class = value.class();
            if types.are_others(&value, &class) {
                self.environment.compared_types.set(true);
            }
            key.is_exact &= types.are_equal(&value, &class);
            class.push_key(&mut key.bytes);
        }
        Ok(Some(key))
    }

    fn has_equal_keys(&self, joined: &Joined, row: &Row<'_>) -> Result<bool, Error> {
        for (left, right) in &joined.keys {
            let (left, right) = (self.environment.value(left, row)?, self.environment.value(right, row)?);
            if left.compare(&right) != Some(Ordering::Equal) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
