//! Typed queries as JSON, as models write them and manifests store them.
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
//! `wit/types.wit` documents each member. Unknown members are an error.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::value::RawValue;

use crate::sandbox::types;

/// A typed query. The default selects the first 50 records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a query such as {\"where\": […], \"select\": […]}")]
pub struct Query {
    /// Conditions that a record must all satisfy. A single one may be given without brackets.
    #[serde(rename = "where", deserialize_with = "one_or_more", skip_serializing_if = "Vec::is_empty")]
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

/// Maximum number of steps in a stored condition. A condition can be as deep as it has steps, and walking or dropping
/// it recurses.
const STEPS_MAX: usize = 256;

/// A condition on a record.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "AnyCondition")]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "`operator` in wit/types.wit documents each")]
pub enum Operator {
    #[serde(alias = "=", alias = "==")]
    Eq,
    #[serde(alias = "!=", alias = "<>")]
    Ne,
    #[serde(alias = "<")]
    Lt,
    #[serde(alias = "<=")]
    Le,
    #[serde(alias = ">")]
    Gt,
    #[serde(alias = ">=")]
    Ge,
    In,
    Contains,
    #[serde(alias = "starts-with")]
    StartsWith,
    Matches,
    Exists,
    #[serde(alias = "is-null")]
    IsNull,
}

/// A field of a result: its name, or `{"field": …, "as": …}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "AnySelection")]
pub struct Selection {
    /// The field.
    pub field: String,
    /// Its key in the result.
    pub name: Option<String>,
}

/// A sort order: a field, or `{"field": …, "descending": true}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "AnySortKey")]
pub struct SortKey {
    /// The field.
    pub field: String,
    /// Whether to sort in descending order.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub descending: bool,
}

/// Groups of records with equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Group {
    /// Fields to group by.
    pub by: Vec<Selection>,
    /// Aggregates to compute. If empty, the number of records.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aggregates: Vec<Aggregate>,
}

/// An aggregate value of each group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// Function to compute.
    pub kind: AggregateKind,
    /// Field to compute it over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Its key in the result.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Aggregate function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "`aggregate-kind` in wit/types.wit documents each")]
pub enum AggregateKind {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

/// The union of all forms of a condition, for better error messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a condition such as {\"field\": …, \"op\": …, \"value\": …}")]
struct AnyCondition {
    field: Option<String>,
    op: Option<Operator>,
    /// `null` counts as a value.
    #[serde(default, deserialize_with = "present")]
    value: Option<Box<RawValue>>,
    #[serde(default)]
    ignore_case: bool,
    parameter: Option<String>,
    all: Option<Vec<Condition>>,
    any: Option<Vec<Condition>>,
    not: Option<Box<Condition>>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a field such as \"owner.name\", or {\"field\": …, \"as\": …}")]
enum AnySelection {
    Field(String),
    Named {
        field: String,
        #[serde(rename = "as")]
        name: Option<String>,
    },
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a field such as \"owner.name\", or {\"field\": …, \"descending\": true}")]
enum AnySortKey {
    Field(String),
    Directed {
        field: String,
        #[serde(default)]
        descending: bool,
    },
}

impl TryFrom<AnyCondition> for Condition {
    type Error = &'static str;

    fn try_from(condition: AnyCondition) -> Result<Self, Self::Error> {
        let AnyCondition { field, op, value, ignore_case, parameter, all, any, not } = condition;
        match (field, op, all, any, not) {
            (Some(field), Some(op), None, None, None) => {
                Ok(Self::Test(Test { field, op, value, ignore_case, parameter }))
            }
            (None, None, Some(conditions), None, None) => Ok(Self::All(conditions)),
            (None, None, None, Some(conditions), None) => Ok(Self::Any(conditions)),
            (None, None, None, None, Some(condition)) => Ok(Self::Not(condition)),
            _ => Err("a condition is {\"field\", \"op\", \"value\"}, {\"all\": […]}, {\"any\": […]} or {\"not\": …}"),
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

impl From<AnySelection> for Selection {
    fn from(selection: AnySelection) -> Self {
        match selection {
            AnySelection::Field(field) => Self { field, name: None },
            AnySelection::Named { field, name } => Self { field, name },
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

impl From<AnySortKey> for SortKey {
    fn from(key: AnySortKey) -> Self {
        match key {
            AnySortKey::Field(field) => Self { field, descending: false },
            AnySortKey::Directed { field, descending } => Self { field, descending },
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Reads a list of conditions or a single one. Parses the raw text, so that numbers keep their digits and errors their
/// position.
fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let text = Box::<RawValue>::deserialize(deserializer)?;
    let conditions = if text.get().starts_with('[') {
        serde_json::from_str(text.get())
    } else {
        serde_json::from_str(text.get()).map(|condition| vec![condition])
    };
    conditions.map_err(D::Error::custom)
}

impl Query {
    /// Whether it only counts all records.
    pub(super) fn counts_all(&self) -> bool {
        let Self { conditions, group, select: _, distinct, sort, sample, count, offset: _, limit: _ } = self;
        *count && conditions.is_empty() && group.is_none() && !distinct && sort.is_empty() && sample.is_none()
    }

    /// Overrides the values of tests by parameter name.
    ///
    /// # Errors
    /// The existing parameter names, when a given name is not one of them.
    pub(super) fn set(&mut self, values: &BTreeMap<String, Box<RawValue>>) -> Result<(), Vec<String>> {
        let mut tests = Vec::new();
        self.conditions.iter_mut().for_each(|condition| condition.tests(&mut tests));
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
}

impl Condition {
    fn tests<'a>(&'a mut self, tests: &mut Vec<&'a mut Test>) {
        match self {
            Self::Test(test) => tests.push(test),
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter_mut().for_each(|condition| condition.tests(tests));
            }
            Self::Not(condition) => condition.tests(tests),
        }
    }

    /// Appends the condition as steps of the contract. Returns the index of the last step.
    fn add_steps(&self, steps: &mut Vec<types::Condition>) -> u32 {
        let mut all = |conditions: &[Self]| conditions.iter().map(|one| one.add_steps(steps)).collect::<Vec<_>>();
        let step = match self {
            Self::Test(test) => types::Condition::Test(test.into()),
            Self::All(conditions) => types::Condition::All(all(conditions)),
            Self::Any(conditions) => types::Condition::Any(all(conditions)),
            Self::Not(condition) => types::Condition::Negation(condition.add_steps(steps)),
        };
        steps.push(step);
        u32::try_from(steps.len() - 1).unwrap_or(u32::MAX)
    }

    /// Builds the condition of the last step. Returns `None` if a step refers to a later step, is used twice, or if
    /// there are more than [`STEPS_MAX`] steps.
    fn of_steps(steps: &[types::Condition]) -> Option<Self> {
        if steps.len() > STEPS_MAX {
            return None;
        }
        let mut conditions: Vec<Option<Self>> = Vec::with_capacity(steps.len());
        for step in steps {
            let mut take = |index: &u32| conditions.get_mut(*index as usize)?.take();
            let condition = match step {
                types::Condition::Test(test) => Self::Test(Test::of(test)?),
                types::Condition::All(indices) => Self::All(indices.iter().map(&mut take).collect::<Option<_>>()?),
                types::Condition::Any(indices) => Self::Any(indices.iter().map(&mut take).collect::<Option<_>>()?),
                types::Condition::Negation(index) => Self::Not(Box::new(take(index)?)),
            };
            conditions.push(Some(condition));
        }
        conditions.pop()?
    }
}

impl Test {
    fn of(test: &types::Test) -> Option<Self> {
        let types::Test { field, operator, value, ignore_case, parameter } = test.clone();
        let value = value.map(RawValue::from_string).transpose().ok()?;
        Some(Self { field, op: operator.into(), value, ignore_case, parameter })
    }
}

impl From<&Test> for types::Test {
    fn from(test: &Test) -> Self {
        Self {
            field: test.field.clone(),
            operator: test.op.into(),
            value: test.value.as_ref().map(|value| value.get().to_owned()),
            ignore_case: test.ignore_case,
            parameter: test.parameter.clone(),
        }
    }
}

/// Implements both directions of a conversion between two enums.
macro_rules! convert_enum {
    ($plain:ty, $contract:ty, $($here:ident = $there:ident),+) => {
        impl From<$plain> for $contract {
            fn from(value: $plain) -> Self {
                match value { $(<$plain>::$here => Self::$there),+ }
            }
        }
        impl From<$contract> for $plain {
            fn from(value: $contract) -> Self {
                match value { $(<$contract>::$there => Self::$here),+ }
            }
        }
    };
}

convert_enum!(
    Operator,
    types::Operator,
    Eq = Eq,
    Ne = Ne,
    Lt = Lt,
    Le = Le,
    Gt = Gt,
    Ge = Ge,
    In = OneOf,
    Contains = Contains,
    StartsWith = StartsWith,
    Matches = Matches,
    Exists = Exists,
    IsNull = IsNull
);
convert_enum!(AggregateKind, types::AggregateKind, Count = Count, Sum = Sum, Min = Min, Max = Max, Avg = Avg);

impl From<&Query> for types::Query {
    fn from(query: &Query) -> Self {
        let mut where_ = Vec::new();
        match query.conditions.as_slice() {
            [] => {}
            [one] => _ = one.add_steps(&mut where_),
            several => _ = Condition::All(several.to_vec()).add_steps(&mut where_),
        }
        Self {
            where_,
            group: query.group.as_ref().map(Into::into),
            select: query.select.iter().map(Into::into).collect(),
            distinct: query.distinct,
            sort: query.sort.iter().map(Into::into).collect(),
            sample: query.sample,
            count: query.count,
            offset: query.offset,
            limit: query.limit,
        }
    }
}

impl TryFrom<&types::Query> for Query {
    type Error = ();

    /// Fails when the steps of the condition do not form a tree, or a value is not JSON.
    fn try_from(query: &types::Query) -> Result<Self, ()> {
        let conditions = match query.where_.as_slice() {
            [] => Vec::new(),
            steps => vec![Condition::of_steps(steps).ok_or(())?],
        };
        Ok(Self {
            conditions,
            group: query.group.as_ref().map(Into::into),
            select: query.select.iter().map(Into::into).collect(),
            distinct: query.distinct,
            sort: query.sort.iter().map(Into::into).collect(),
            sample: query.sample,
            count: query.count,
            offset: query.offset,
            limit: query.limit,
        })
    }
}

/// Implements both directions of a conversion between two structs.
macro_rules! convert_struct {
    ($plain:ty, $contract:ty, |$value:ident| { $($field:ident: $convert:expr),+ }) => {
        impl From<&$plain> for $contract {
            fn from($value: &$plain) -> Self {
                Self { $($field: $convert),+ }
            }
        }
        impl From<&$contract> for $plain {
            fn from($value: &$contract) -> Self {
                Self { $($field: $convert),+ }
            }
        }
    };
}

convert_struct!(Selection, types::Selection, |value| { field: value.field.clone(), name: value.name.clone() });
convert_struct!(SortKey, types::SortKey, |value| { field: value.field.clone(), descending: value.descending });
convert_struct!(Aggregate, types::Aggregate, |value| {
    kind: value.kind.into(), field: value.field.clone(), name: value.name.clone()
});
convert_struct!(Group, types::Group, |value| {
    by: value.by.iter().map(Into::into).collect(), aggregates: value.aggregates.iter().map(Into::into).collect()
});
