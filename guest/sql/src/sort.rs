//! Rows in an order, of which only the first ones are kept when there is a limit.

use std::cmp::Ordering;

use crate::memory::{Held, Memory};
use crate::plan::Order;
use crate::run::Flow;
use crate::{Error, Value};

/// Rows that are kept at least before those beyond the limit are dropped.
const KEPT_MIN: usize = 1024;

/// Bytes of a row beside its values.
const ROW_BYTES: usize = 64;

/// Rows so far.
pub(crate) struct Sorter<'a> {
    order: &'a [Order],
    /// Rows that are wanted.
    limit: usize,
    rows: Vec<Kept>,
    /// Rows so far; equal ones keep the order in which they came.
    number: u64,
    /// The last of the wanted rows when rows were dropped.
    last: Option<Box<[Value]>>,
    held: Held<'a>,
}

struct Kept {
    number: u64,
    values: Box<[Value]>,
}

impl<'a> Sorter<'a> {
    pub(crate) fn new(order: &'a [Order], limit: Option<u64>, memory: &'a Memory) -> Self {
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
        Self { order, limit, rows: Vec::new(), number: 0, last: None, held: memory.hold() }
    }

    /// Adds a row.
    pub(crate) fn add(&mut self, values: &[Value]) -> Result<(), Error> {
        self.number += 1;
        if self.last.as_ref().is_some_and(|last| compare(self.order, values, last).is_ge()) {
            return Ok(());
        }
        if self.rows.len() >= self.limit.saturating_mul(2).max(KEPT_MIN) {
            self.drop_last();
        }
        self.held.take(size(values))?;
        self.rows.push(Kept { number: self.number, values: values.into() });
        Ok(())
    }

    fn drop_last(&mut self) {
        let order = self.order;
        if let Some(last) = self.limit.checked_sub(1) {
            self.rows.select_nth_unstable_by(last, |left, right| left.compare(right, order));
            self.last = self.rows.get(last).map(|row| row.values.clone());
        }
        for dropped in self.rows.drain(self.limit.min(self.rows.len())..) {
            self.held.give(size(&dropped.values));
        }
    }

    /// Calls `each` with the rows in their order.
    pub(crate) fn finish(mut self, mut each: impl FnMut(&[Value]) -> Result<Flow, Error>) -> Result<Flow, Error> {
        let order = self.order;
        self.rows.sort_unstable_by(|left, right| left.compare(right, order));
        for row in self.rows.iter().take(self.limit) {
            if each(&row.values)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::More)
    }
}

impl Kept {
    fn compare(&self, other: &Self, order: &[Order]) -> Ordering {
        compare(order, &self.values, &other.values).then(self.number.cmp(&other.number))
    }
}

/// Bytes that holding a row takes.
pub(crate) fn size(values: &[Value]) -> usize {
    ROW_BYTES + values.iter().map(Value::size).sum::<usize>()
}

fn compare(order: &[Order], left: &[Value], right: &[Value]) -> Ordering {
    for Order { column, descending, nulls_first } in order {
        let (Some(left), Some(right)) = (left.get(*column), right.get(*column)) else { continue };
        let by_value = match (left.is_null(), right.is_null()) {
            (false, false) if *descending => right.order(left),
            (false, false) => left.order(right),
            (left, right) if *nulls_first => right.cmp(&left),
            (left, right) => left.cmp(&right),
        };
        if by_value.is_ne() {
            return by_value;
        }
    }
    Ordering::Equal
}
