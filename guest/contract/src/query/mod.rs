//! Typed queries, as models write them in JSON and manifests store them.
//!
//! ```json
//! {
//!   "where": [
//!     {"field": "status", "op": "eq", "value": "failed", "ignore_case": true},
//!     {"any": [{"field": "amount", "op": "ge", "value": 100}, {"not": {"field": "note", "op": "exists"}}]}
//!   ],
//!   "select": ["id", {"field": "owner.name", "as": "owner"}],
//!   "sort": ["id", {"field": "amount", "descending": true}],
//!   "limit": 20
//! }
//! ```
//!
//! `wit/types.wit` documents each member. Other spellings are read where they have one meaning; see `how-to/queries.md`
//! of the documentation. Unknown members are an error.

pub mod document;
mod expression;
pub mod operator;
pub mod read;

use std::collections::BTreeMap;

pub use document::QueryError;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

/// Maximum number of steps in a stored condition. A condition can be as deep as it has steps, and walking or dropping
/// it recurses.
pub const STEPS_MAX: usize = 256;

/// A typed query. The default selects the first 50 records.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Query {
    /// Conditions that a record must all satisfy.
    #[serde(rename = "where", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Return groups instead of records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// Fields of each result. If empty, all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub select: Vec<Selection>,
    /// Whether to drop duplicate results.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub distinct: bool,
    /// Order of the results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<SortKey>,
    /// Size of a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// Whether to return only the number of results.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub count: bool,
    /// Results to skip.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Maximum number of results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// A condition on a record.
#[derive(Clone, Debug)]
pub enum Condition {
    /// One test.
    Test(Test),
    /// All of these hold.
    All(Vec<Self>),
    /// At least one of these holds.
    Any(Vec<Self>),
    /// This does not hold.
    Not(Box<Self>),
}

/// A test of one field.
#[derive(Clone, Debug, Serialize)]
pub struct Test {
    /// Field: `owner.name`, or a JSON Pointer.
    pub field: String,
    /// Comparison operator.
    pub op: Operator,
    /// Value to compare with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<RawValue>>,
    /// Whether to ignore case.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// Name of the parameter that overrides `value` in a stored query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

/// Comparison operator of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "`operator` in wit/types.wit documents each")]
pub enum Operator {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    In,
    Contains,
    StartsWith,
    Matches,
    Exists,
    IsNull,
}

/// A field of a result: its name, or `{"field": …, "as": …}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The field.
    pub field: String,
    /// Its key in the result.
    pub name: Option<String>,
}

/// A sort order: a field, or `{"field": …, "descending": true}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SortKey {
    /// The field.
    pub field: String,
    /// Whether to sort in descending order.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub descending: bool,
}

/// Groups of records with equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Fields to group by.
    pub by: Vec<Selection>,
    /// Aggregates to compute. If empty, the number of records.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aggregates: Vec<Aggregate>,
}

/// An aggregate value of each group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Aggregate {
    /// Function to compute.
    pub kind: AggregateKind,
    /// Field to compute it over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Its key in the result.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Aggregate function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "`aggregate-kind` in wit/types.wit documents each")]
pub enum AggregateKind {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

impl AggregateKind {
    const ALL: [Self; 5] = [Self::Count, Self::Sum, Self::Min, Self::Max, Self::Avg];

    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Test(test) => test.serialize(serializer),
            Self::All(conditions) => serializer.collect_map([("all", conditions)]),
            Self::Any(conditions) => serializer.collect_map([("any", conditions)]),
            Self::Not(condition) => serializer.collect_map([("not", condition)]),
        }
    }
}

impl Serialize for Selection {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.name {
            None => serializer.serialize_str(&self.field),
            Some(name) => serializer.collect_map([("field", &self.field), ("as", name)]),
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Query {
    /// Whether it only counts all records.
    pub fn counts_all(&self) -> bool {
        let Self { conditions, group, select: _, distinct, sort, sample, count, offset: _, limit: _ } = self;
        *count && conditions.is_empty() && group.is_none() && !distinct && sort.is_empty() && sample.is_none()
    }

    /// Whether the results of a part of the records do not depend on the other records.
    pub fn is_plain(&self) -> bool {
        let Self { conditions: _, group, select: _, distinct, sort, sample, count, offset: _, limit: _ } = self;
        !count && group.is_none() && !distinct && sort.is_empty() && sample.is_none()
    }

    /// Overrides the values of tests by parameter name.
    ///
    /// # Errors
    /// The existing parameter names, when a given name is not one of them.
    pub fn set(&mut self, values: &BTreeMap<String, Box<RawValue>>) -> Result<(), Vec<String>> {
        let tests = self.tests();
        let names = tests.iter().filter_map(|test| test.parameter.clone()).collect::<Vec<_>>();
        if values.keys().any(|name| !names.contains(name)) {
            return Err(names);
        }
        for test in tests {
            if let Some(value) = test.parameter.as_ref().and_then(|name| values.get(name)) {
                test.value = Some(value.clone());
            }
        }
        Ok(())
    }

    /// All tests of its conditions.
    pub fn tests(&mut self) -> Vec<&mut Test> {
        let mut tests = Vec::new();
        self.conditions.iter_mut().for_each(|condition| condition.tests(&mut tests));
        tests
    }
}

impl Condition {
    /// One condition as it is, several joined.
    fn joined(mut conditions: Vec<Self>, join: fn(Vec<Self>) -> Self) -> Self {
        match conditions.pop() {
            Some(only) if conditions.is_empty() => only,
            last => {
                conditions.extend(last);
                join(conditions)
            }
        }
    }

    fn tests<'a>(&'a mut self, tests: &mut Vec<&'a mut Test>) {
        match self {
            Self::Test(test) => tests.push(test),
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter_mut().for_each(|condition| condition.tests(tests));
            }
            Self::Not(condition) => condition.tests(tests),
        }
    }
}
