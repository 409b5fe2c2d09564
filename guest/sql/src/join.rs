//! Joins: the tables on the right are held, by their keys where these are equalities.

use std::collections::HashMap;

use crate::evaluate::Row;
use crate::memory::Held;
use crate::plan::Joined;
use crate::run::{Flow, Run, Scan};
use crate::sort::size;
use crate::{Error, Value};

/// Most pairs of rows that joins compare: 20 million, some seconds. Those whose keys differ are not compared.
pub const PAIRS_MAX: u64 = 20_000_000;

/// What a row of a table on the right takes beside its values, in bytes.
const BUILT_BYTES: usize = 96;

/// The rows of a table on the right of a join.
pub(crate) struct Built<'p> {
    joined: &'p Joined,
    rows: Vec<Box<[Value]>>,
    /// Numbers of the rows with these keys.
    index: HashMap<Box<[u8]>, Vec<usize>>,
    /// For each key the types of its values, as bits.
    ranks: Vec<u8>,
    /// A row for rows on the left that have no other.
    nulls: Vec<Value>,
    held: Held<'p>,
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
            ranks: vec![0; joined.keys.len()],
            nulls: vec![Value::Null; joined.rows.width()],
            held: self.memory.hold(),
        };
        let empty: &[Value] = &[];
        self.rows(scan, &joined.rows, &mut |values| {
            let mut row = vec![empty; number];
            row.push(values);
            let mut key = Vec::new();
            for ((_, right), ranks) in joined.keys.iter().zip(&mut built.ranks) {
                let value = self.environment.value(right, &row)?;
                if value.is_null() {
                    return Ok(Flow::More);
                }
                *ranks |= value.rank().bit();
                value.push_key(&mut key);
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
        let mut pair = |values| {
            self.pairs.set(self.pairs.get() + 1);
            if self.pairs.get() > PAIRS_MAX {
                return Err(Error::Limit(format!(
                    "join-pairs: joins compare more than {PAIRS_MAX} pairs of rows: join ON a.x = b.y, or add conditions"
                )));
            }
            if let Some(last) = longer.last_mut() {
                *last = values;
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
                if pair(values)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
        } else if let Some(key) = self.key(next, row)? {
            for number in next.index.get(key.as_slice()).into_iter().flatten() {
                let values = next.rows.get(*number).map_or(next.nulls.as_slice(), |values| values);
                if pair(values)? == Flow::Stop {
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
    fn key(&self, next: &Built<'_>, row: &Row<'_>) -> Result<Option<Vec<u8>>, Error> {
        let mut key = Vec::new();
        for ((left, _), ranks) in next.joined.keys.iter().zip(&next.ranks) {
            let value = self.environment.value(left, row)?;
            if value.is_null() {
                return Ok(None);
            }
            if *ranks != 0 && *ranks & value.rank().bit() == 0 {
                self.mixed_join.set(true);
            }
            value.push_key(&mut key);
        }
        Ok(Some(key))
    }
}
