//! A plan from beginning to end.

use std::cell::Cell;
use std::collections::HashSet;

use lro_json::path::Step;

use crate::aggregate::Groups;
use crate::evaluate::{Answered, Environment, Row};
use crate::memory::{Held, Memory};
use crate::plan::{Body, Expression, Query, Rows, Select, Union};
use crate::set::Set;
use crate::sort::Sorter;
use crate::{Error, Statement, Value};

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

/// Receives rows.
pub(crate) type Sink<'k> = dyn FnMut(&[Value]) -> Result<Flow, Error> + 'k;

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
        let mut run = Run { environment: Environment::default(), memory: &memory, pairs: Cell::new(0) };
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
pub(crate) struct Run<'m> {
    pub(crate) environment: Environment,
    pub(crate) memory: &'m Memory,
    /// Pairs of rows compared so far.
    pub(crate) pairs: Cell<u64>,
}

impl Run<'_> {
    fn notes(&self) -> Vec<String> {
        let note = "values of different types were compared, such as a text that is not a number with a number, or a text that \
            is not a date with a date: such comparisons are null";
        self.environment.compared_types.get().then(|| note.to_owned()).into_iter().collect()
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

    pub(crate) fn rows(&self, scan: &mut Scan<'_>, rows: &Rows, each: &mut Sink<'_>) -> Result<Flow, Error> {
        match rows {
            Rows::Table(table, fields) => self.filtered_table(scan, *table, fields, None, &mut |row| match row {
                [values] => each(values),
                _ => Ok(Flow::More),
            }),
            Rows::Query(query) => self.query(scan, query, each),
            Rows::One => each(&[]),
        }
    }
}

/// What a distinct row takes beside its key, in bytes.
const DISTINCT_BYTES: usize = 96;

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
        self.held.take(self.key.len() + DISTINCT_BYTES)?;
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
