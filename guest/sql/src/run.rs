//! A plan from beginning to end.

use crate::aggregate::Groups;
use crate::evaluate::{Answered, Environment, Row};
use crate::memory::{Held, Memory};
use crate::plan::{Body, Expression, Joined, Name, Query, Rows, Select, Set, Union};
use crate::sort::{Sorter, size};
use crate::{Error, Statement, Value};
use lro_json::path::Step;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// Most pairs of rows that joins without an equality compare: 20 million, about a second.
pub const PAIRS_MAX: u64 = 20_000_000;

/// Whether the receiver of rows wants more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// More rows.
    More,
    /// No more rows.
    Stop,
}

/// Receives the fields of a record: for each the text from its value on, or `None` when the record lacks it.
pub type Visit<'v> = dyn FnMut(&[Option<&[u8]>]) -> Result<Flow, Error> + 'v;

/// Scans the table with this number: calls the last argument with the fields at these paths of one record after another, until
/// it says [`Flow::Stop`]. The empty path is the whole record.
pub type Scan<'s> = dyn FnMut(usize, &[Vec<Step>], &mut Visit<'_>) -> Result<(), Error> + 's;

type Sink<'k> = dyn FnMut(&[Value]) -> Result<Flow, Error> + 'k;

impl Statement {
    /// Runs the query: calls `each` with one row after another, until it says [`Flow::Stop`]. Returns what the answer leaves
    /// open, one sentence each.
    ///
    /// # Errors
    /// [`Error::Value`], [`Error::Limit`], [`Error::Damaged`], and those of `scan` and `each`.
    pub fn run(
        &self,
        scan: &mut Scan<'_>,
        mut each: impl FnMut(&[Value]) -> Result<Flow, Error>,
    ) -> Result<Vec<String>, Error> {
        let memory = Memory::default();
        let mut held = memory.hold();
        let mut run = Run {
            environment: Environment::default(),
            memory: &memory,
            pairs: Cell::new(0),
            mixed_join: Cell::new(false),
        };
        // Those inside others come first.
        for (query, is_set) in &self.subqueries {
            let answered = run.subquery(scan, query, *is_set, &mut held)?;
            run.environment.subqueries.push(answered);
        }
        run.query(scan, &self.query, &mut each)?;
        Ok(run.notes())
    }
}

/// A running statement.
struct Run<'m> {
    environment: Environment,
    memory: &'m Memory,
    pairs: Cell<u64>,
    /// Whether the keys of a join have different types, so that none can be equal.
    mixed_join: Cell<bool>,
}

impl Run<'_> {
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.environment.compared_types.get() {
            notes.push(
                "a text that is not a number, or an array or object, was compared with a number: such comparisons are null".to_owned(),
            );
        }
        if self.mixed_join.get() {
            notes.push("a join compares numbers with texts, which are never equal: use CAST on one side".to_owned());
        }
        notes
    }

    fn subquery(
        &self,
        scan: &mut Scan<'_>,
        query: &Query,
        is_set: bool,
        held: &mut Held<'_>,
    ) -> Result<Answered, Error> {
        let (mut set, mut value, mut rows) = (Set::default(), Value::Null, 0);
        self.query(scan, query, &mut |row| {
            rows += 1;
            let first = row.first().unwrap_or(&Value::Null);
            if is_set {
                held.take(Set::cost(first))?;
                set.insert(first);
            } else if rows > 1 {
                return Err(Error::invalid(
                    "a subquery in an expression has more than one row: add LIMIT 1, or use IN",
                ));
            } else {
                held.take(first.size())?;
                value = first.clone();
            }
            Ok(Flow::More)
        })?;
        Ok(if is_set { Answered::Set(set) } else { Answered::Value(value) })
    }

    fn query(&self, scan: &mut Scan<'_>, query: &Query, sink: &mut Sink<'_>) -> Result<Flow, Error> {
        let end = query.limit.map(|limit| query.offset.saturating_add(limit));
        if end == Some(query.offset) && query.limit == Some(0) {
            return Ok(Flow::More);
        }
        let mut number = 0;
        let mut cut = |row: &[Value]| {
            number += 1;
            if number > query.offset && sink(row)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
            Ok(if end.is_some_and(|end| number >= end) { Flow::Stop } else { Flow::More })
        };
        if query.order.is_empty() {
            self.body(scan, &query.body, &mut cut)?;
        } else {
            let mut sorter = Sorter::new(&query.order, end, self.memory);
            self.body(scan, &query.body, &mut |row| sorter.add(row).map(|()| Flow::More))?;
            sorter.finish(cut)?;
        }
        Ok(Flow::More)
    }

    fn body(&self, scan: &mut Scan<'_>, body: &Body, sink: &mut Sink<'_>) -> Result<Flow, Error> {
        match body {
            Body::Select(select) => self.select(scan, select, sink),
            Body::Union(union) => self.union(scan, union, sink),
        }
    }

    fn union(&self, scan: &mut Scan<'_>, union: &Union, sink: &mut Sink<'_>) -> Result<Flow, Error> {
        let mut distinct = Distinct::new(union.distinct, union.names.len(), self.memory);
        let mut flow = Flow::More;
        for (side, is_left) in [(&union.left, true), (&union.right, false)] {
            let mut stopped = false;
            self.query(scan, side, &mut |row| {
                let column = |(left, right): &(usize, usize)| {
                    row.get(if is_left { *left } else { *right }).cloned().unwrap_or(Value::Null)
                };
                let row: Vec<Value> = union.columns.iter().map(column).collect();
                let flow = if distinct.is_new(&row)? { sink(&row)? } else { Flow::More };
                stopped = flow == Flow::Stop;
                Ok(flow)
            })?;
            if stopped {
                flow = Flow::Stop;
                break;
            }
        }
        Ok(flow)
    }

    fn select(&self, scan: &mut Scan<'_>, select: &Select, sink: &mut Sink<'_>) -> Result<Flow, Error> {
        let mut distinct = Distinct::new(select.distinct, select.names.len(), self.memory);
        let mut outputs = Vec::with_capacity(select.outputs.len());
        let mut project = |row: &Row<'_>| {
            outputs.clear();
            for output in &select.outputs {
                outputs.push(self.environment.value(output, row)?);
            }
            if distinct.is_new(&outputs)? { sink(&outputs) } else { Ok(Flow::More) }
        };
        let Some(grouping) = &select.group else { return self.from(scan, select, &mut project) };
        let mut groups = Groups::new(grouping, self.memory)?;
        self.from(scan, select, &mut |row| groups.add(&self.environment, row).map(|()| Flow::More))?;
        groups.finish(|row| match &select.having {
            Some(having) if !self.environment.holds(having, row)? => Ok(Flow::More),
            _ => project(row),
        })
    }

    /// The rows of FROM that satisfy WHERE.
    fn from(
        &self,
        scan: &mut Scan<'_>,
        select: &Select,
        each: &mut dyn FnMut(&Row<'_>) -> Result<Flow, Error>,
    ) -> Result<Flow, Error> {
        let Some((first, others)) = select.from.split_first() else { return Ok(Flow::More) };
        let mut built = Vec::with_capacity(others.len());
        for (number, joined) in others.iter().enumerate() {
            built.push(self.build(scan, joined, number + 1)?);
        }
        let filter = select.filter.as_ref();
        if let (Rows::Table(table, fields), []) = (&first.rows, others) {
            return self.filtered_table(scan, *table, fields, filter, each);
        }
        let mut filtered = |row: &Row<'_>| match filter {
            Some(filter) if !self.environment.holds(filter, row)? => Ok(Flow::More),
            _ => each(row),
        };
        self.rows(scan, &first.rows, &mut |values| self.join(&built, &[values], &mut filtered))
    }

    /// The rows of a single table that satisfy a condition: of the others, only fields in the condition are read.
    fn filtered_table(
        &self,
        scan: &mut Scan<'_>,
        table: usize,
        fields: &[Vec<Step>],
        filter: Option<&Expression>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<Flow, Error>,
    ) -> Result<Flow, Error> {
        let mut is_tested = vec![filter.is_none(); fields.len()];
        if let Some(filter) = filter {
            filter.walk(&mut |part| {
                if let Expression::Column(_, column) = part
                    && let Some(is_tested) = is_tested.get_mut(*column)
                {
                    *is_tested = true;
                }
            });
        }
        let mut values = vec![Value::Null; fields.len()];
        let mut flow = Flow::More;
        scan(table, fields, &mut |texts| {
            read(&mut values, texts, &is_tested, true)?;
            if let Some(filter) = filter {
                if !self.environment.holds(filter, &[&values])? {
                    return Ok(Flow::More);
                }
                read(&mut values, texts, &is_tested, false)?;
            }
            flow = each(&[&values])?;
            Ok(flow)
        })?;
        Ok(flow)
    }

    fn rows(&self, scan: &mut Scan<'_>, rows: &Rows, each: &mut Sink<'_>) -> Result<Flow, Error> {
        match rows {
            Rows::Table(table, fields) => self.filtered_table(scan, *table, fields, None, &mut |row| match row {
                [values] => each(values),
                _ => Ok(Flow::More),
            }),
            Rows::Query(query) => self.query(scan, query, each),
            Rows::One => each(&[]),
        }
    }

    /// Holds the rows of a table on the right of a join.
    fn build<'p>(&'p self, scan: &mut Scan<'_>, joined: &'p Joined, number: usize) -> Result<Built<'p>, Error> {
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
                *ranks |= 1 << value.rank();
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
    fn join(
        &self,
        built: &[Built<'_>],
        row: &Row<'_>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<Flow, Error>,
    ) -> Result<Flow, Error> {
        let Some((next, rest)) = built.split_first() else { return each(row) };
        let mut longer: Vec<&[Value]> = row.to_vec();
        longer.push(&[]);
        let mut is_matched = false;
        let mut pair = |values: &[Value]| {
            let mut longer = longer.clone();
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
                self.pairs.set(self.pairs.get() + 1);
                if self.pairs.get() > PAIRS_MAX {
                    return Err(Error::Limit(format!(
                        "join-pairs: joins without an equality compare more than {PAIRS_MAX} pairs of rows: join ON a.x = b.y"
                    )));
                }
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
            if *ranks != 0 && *ranks & 1 << value.rank() == 0 {
                self.mixed_join.set(true);
            }
            value.push_key(&mut key);
        }
        Ok(Some(key))
    }
}

/// What a row of a table on the right takes beside its values, in bytes.
const BUILT_BYTES: usize = 96;

/// The rows of a table on the right of a join.
struct Built<'p> {
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

/// The rows that were not there before.
struct Distinct<'m> {
    seen: Option<HashSet<Box<[u8]>>>,
    /// Number of visible columns.
    columns: usize,
    held: Held<'m>,
    key: Vec<u8>,
}

impl<'m> Distinct<'m> {
    fn new(is_wanted: bool, columns: usize, memory: &'m Memory) -> Self {
        Self { seen: is_wanted.then(HashSet::new), columns, held: memory.hold(), key: Vec::new() }
    }

    fn is_new(&mut self, row: &[Value]) -> Result<bool, Error> {
        let Some(seen) = &mut self.seen else { return Ok(true) };
        self.key.clear();
        row.iter().take(self.columns).for_each(|value| value.push_key(&mut self.key));
        if seen.contains(self.key.as_slice()) {
            return Ok(false);
        }
        self.held.take(self.key.len() + BUILT_BYTES)?;
        seen.insert(self.key.as_slice().into());
        Ok(true)
    }
}

/// Reads the values of the fields that are tested by a condition, or of the others.
fn read(values: &mut [Value], texts: &[Option<&[u8]>], is_tested: &[bool], tested: bool) -> Result<(), Error> {
    for ((value, text), is_tested) in values.iter_mut().zip(texts).zip(is_tested) {
        if *is_tested == tested {
            *value = match text {
                Some(text) => Value::read(text)?,
                None => Value::Null,
            };
        }
    }
    Ok(())
}

impl Name {
    /// Whether it is this name.
    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Plain(plain) if plain == name)
    }
}
