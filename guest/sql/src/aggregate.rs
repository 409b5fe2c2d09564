//! Groups of rows, and their aggregates.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use crate::evaluate::{Environment, Row, shown};
use crate::memory::{Held, Memory};
use crate::plan::{Aggregate, AggregateKind, Grouping};
use crate::run::Flow;
use crate::value::Number;
use crate::{Error, Value};

/// What a group takes beside its values, in bytes: its entry in the table, which doubles as it grows, and allocations.
const GROUP_BYTES: usize = 160;

/// All groups so far, in the order of their first rows.
pub(crate) struct Groups<'a> {
    grouping: &'a Grouping,
    numbers: HashMap<Box<[u8]>, usize>,
    groups: Vec<Group>,
    held: Held<'a>,
    key: Vec<u8>,
}

struct Group {
    keys: Box<[Value]>,
    accumulators: Box<[Accumulator]>,
}

/// One aggregate of one group.
#[derive(Default)]
struct Accumulator {
    /// Values that are not null, or rows.
    count: u64,
    integers: i128,
    doubles: f64,
    has_doubles: bool,
    /// The least, greatest or first value.
    value: Option<Value>,
    /// Keys of the values so far, for DISTINCT.
    seen: HashSet<Box<[u8]>>,
}

impl<'a> Groups<'a> {
    pub(crate) fn new(grouping: &'a Grouping, memory: &'a Memory) -> Result<Self, Error> {
        let mut groups =
            Self { grouping, numbers: HashMap::new(), groups: Vec::new(), held: memory.hold(), key: Vec::new() };
        if grouping.keys.is_empty() {
            // Without keys all rows are one group, also when there are none.
            groups.begin(Box::default())?;
        }
        Ok(groups)
    }

    fn begin(&mut self, keys: Box<[Value]>) -> Result<usize, Error> {
        let number = self.groups.len();
        let accumulators: Box<[_]> = self.grouping.aggregates.iter().map(|_| Accumulator::default()).collect();
        let values: usize = keys.iter().map(Value::size).sum();
        self.held.take(GROUP_BYTES + self.key.len() + values + size_of_val(&*accumulators))?;
        self.numbers.insert(self.key.as_slice().into(), number);
        self.groups.push(Group { keys, accumulators });
        Ok(number)
    }

    /// Adds a row to its group.
    pub(crate) fn add(&mut self, environment: &Environment, row: &Row<'_>) -> Result<(), Error> {
        self.key.clear();
        let mut keys = Vec::with_capacity(self.grouping.keys.len());
        for key in &self.grouping.keys {
            let value = environment.value(key, row)?;
            value.push_key(&mut self.key);
            keys.push(value);
        }
        let number = match self.numbers.get(self.key.as_slice()) {
            Some(number) => *number,
            None => self.begin(keys.into())?,
        };
        let Some(group) = self.groups.get_mut(number) else { return Ok(()) };
        for (aggregate, state) in self.grouping.aggregates.iter().zip(&mut group.accumulators) {
            let counts = match &aggregate.filter {
                Some(filter) => environment.holds(filter, row)?,
                None => true,
            };
            if !counts {
                continue;
            }
            match &aggregate.argument {
                Some(argument) => state.add(aggregate, environment.value(argument, row)?, &mut self.held)?,
                None => state.count += 1,
            }
        }
        Ok(())
    }

    /// Calls `each` with the keys and the aggregates of each group.
    pub(crate) fn finish(self, mut each: impl FnMut(&Row<'_>) -> Result<Flow, Error>) -> Result<Flow, Error> {
        for group in &self.groups {
            let states = self.grouping.aggregates.iter().zip(&group.accumulators);
            let aggregates: Vec<Value> = states.map(|(aggregate, state)| state.result(aggregate.kind)).collect();
            if each(&[&group.keys, &aggregates])? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::More)
    }
}

impl Accumulator {
    fn add(&mut self, aggregate: &Aggregate, value: Value, held: &mut Held<'_>) -> Result<(), Error> {
        if value.is_null() {
            return Ok(());
        }
        if aggregate.distinct {
            let mut key = Vec::new();
            value.push_key(&mut key);
            if self.seen.contains(key.as_slice()) {
                return Ok(());
            }
            held.take(GROUP_BYTES + key.len())?;
            self.seen.insert(key.into());
        }
        self.count += 1;
        let is_better = |order: Ordering| self.value.as_ref().is_none_or(|best| value.order(best) == order);
        match aggregate.kind {
            AggregateKind::Count => return Ok(()),
            AggregateKind::Sum | AggregateKind::Average => return self.sum(&value),
            AggregateKind::Least if !is_better(Ordering::Less) => return Ok(()),
            AggregateKind::Greatest if !is_better(Ordering::Greater) => return Ok(()),
            AggregateKind::Any if self.value.is_some() => return Ok(()),
            AggregateKind::Least | AggregateKind::Greatest | AggregateKind::Any => {}
        }
        held.give(self.value.as_ref().map_or(0, Value::size));
        held.take(value.size())?;
        self.value = Some(value);
        Ok(())
    }

    fn sum(&mut self, value: &Value) -> Result<(), Error> {
        let number = match value {
            Value::Text(_) | Value::Json(_) => None,
            value => value.number(),
        };
        let failure =
            || Error::Value(format!("sum and avg take numbers, not {}: use TRY_CAST(… AS DOUBLE)", shown(value)));
        match number.ok_or_else(failure)? {
            Number::Integer(integer) => match self.integers.checked_add(integer) {
                Some(sum) => self.integers = sum,
                None => (self.has_doubles, self.doubles) = (true, self.doubles + integer as f64),
            },
            Number::Double(double) => (self.has_doubles, self.doubles) = (true, self.doubles + double),
        }
        Ok(())
    }

    fn result(&self, kind: AggregateKind) -> Value {
        let sum = || self.integers as f64 + self.doubles;
        match kind {
            AggregateKind::Count => Value::Integer(i128::from(self.count)),
            _ if self.count == 0 => Value::Null,
            AggregateKind::Sum if self.has_doubles => Value::double(sum()),
            AggregateKind::Sum => Value::Integer(self.integers),
            AggregateKind::Average => Value::double(sum() / self.count as f64),
            AggregateKind::Least | AggregateKind::Greatest | AggregateKind::Any => {
                self.value.clone().unwrap_or(Value::Null)
            }
        }
    }
}
