//! Queries, as they are run.
//!
//! A row of FROM is one slice of values for each of its tables, a row of groups one for the keys and one for the aggregates,
//! and a row of results one slice. Columns are found by these two numbers.

use std::rc::Rc;

use lro_json::path::Step;

use crate::Value;
use crate::evaluate::Function;

/// Rows of a body, ordered and cut.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub(crate) body: Body,
    pub(crate) order: Vec<Order>,
    pub(crate) offset: u64,
    pub(crate) limit: Option<u64>,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Select(Box<Select>),
    Union(Box<Union>),
}

/// The rows of one query, then those of another.
#[derive(Clone, Debug)]
pub(crate) struct Union {
    pub(crate) left: Query,
    pub(crate) right: Query,
    /// Whether to leave out duplicates.
    pub(crate) distinct: bool,
    /// Names of the columns, those of the left side.
    pub(crate) names: Vec<Name>,
    /// For each column its number on the left and on the right; first the visible ones.
    pub(crate) columns: Vec<(usize, usize)>,
}

/// A column to order by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order {
    pub(crate) column: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Select {
    /// The first one has no condition.
    pub(crate) from: Vec<Joined>,
    pub(crate) filter: Option<Expression>,
    pub(crate) group: Option<Grouping>,
    /// Over rows of groups.
    pub(crate) having: Option<Expression>,
    /// Over rows of FROM, or of groups. First the visible ones.
    pub(crate) outputs: Vec<Expression>,
    /// Names of the visible outputs.
    pub(crate) names: Vec<Name>,
    pub(crate) distinct: bool,
}

/// The name of a column of results.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Name {
    Plain(String),
    /// The column is a whole record, whose members except these are columns.
    Members(Vec<String>),
}

impl Name {
    /// Whether it is this name.
    pub(crate) fn is(&self, name: &str) -> bool {
        matches!(self, Self::Plain(plain) if plain == name)
    }
}

/// A table of FROM.
#[derive(Clone, Debug)]
pub(crate) struct Joined {
    pub(crate) name: Option<String>,
    pub(crate) rows: Rows,
    pub(crate) is_left: bool,
    /// Equal values: over the tables before, and over this one.
    pub(crate) keys: Vec<(Expression, Expression)>,
    /// Further conditions, over the tables up to this one.
    pub(crate) condition: Option<Expression>,
}

#[derive(Clone, Debug)]
pub(crate) enum Rows {
    /// Fields of the records of a table, by its number; the empty path is the whole record.
    Table(usize, Vec<Vec<Step>>),
    Query(Box<Query>),
    /// One row without columns, for a SELECT without FROM.
    One,
}

#[derive(Clone, Debug)]
pub(crate) struct Grouping {
    pub(crate) keys: Vec<Expression>,
    pub(crate) aggregates: Vec<Aggregate>,
}

/// An aggregate over the rows of a group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) kind: AggregateKind,
    pub(crate) distinct: bool,
    /// `None` for `count(*)`.
    pub(crate) argument: Option<Expression>,
    pub(crate) filter: Option<Expression>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    Count,
    Sum,
    Average,
    Least,
    Greatest,
    /// The first value that is not null.
    Any,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expression {
    Value(Value),
    /// A column of the table with this number.
    Column(usize, usize),
    /// An aggregate of the group, before groups are formed.
    Aggregate(usize),
    /// The only value of a subquery.
    Subquery(usize),
    Call(Function, Vec<Self>),
}

impl Query {
    /// Names of the visible columns.
    pub(crate) fn names(&self) -> &[Name] {
        match &self.body {
            Body::Select(select) => &select.names,
            Body::Union(union) => &union.names,
        }
    }

    /// Number of columns, the hidden ones included.
    pub(crate) fn width(&self) -> usize {
        match &self.body {
            Body::Select(select) => select.outputs.len(),
            Body::Union(union) => union.columns.len(),
        }
    }
}

impl Rows {
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Table(_, fields) => fields.len(),
            Self::Query(query) => query.width(),
            Self::One => 0,
        }
    }
}

impl Expression {
    /// Calls `each` with it and everything in it.
    pub(crate) fn walk(&self, each: &mut impl FnMut(&Self)) {
        each(self);
        if let Self::Call(_, arguments) = self {
            arguments.iter().for_each(|argument| argument.walk(each));
        }
    }

    /// A value inside this one.
    pub(crate) fn at(self, steps: &[String]) -> Self {
        if steps.is_empty() {
            return self;
        }
        let steps: Rc<[Step]> = steps.iter().cloned().map(Step::new).collect();
        Self::Call(Function::Path(steps), vec![self])
    }
}
