//! A typed query as JSON, the form in which a model writes it and a manifest keeps it.
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
//! What each member means is told in `wit/types.wit`. A member that is not known is an error.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use serde_json::value::RawValue;

use crate::sandbox::types;

/// A typed query. The default counts as "the first 50 records".
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "a query such as {\"where\": […], \"select\": […]}")]
pub struct Query {
    /// Conditions, all of which a record must satisfy; one alone may stand without brackets.
    #[serde(rename = "where", deserialize_with = "one_or_more", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Groups instead of records.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
    /// Fields of each result; none, all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub select: Vec<Selection>,
    /// Whether results equal to one before are dropped.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub distinct: bool,
    /// Order of the results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sort: Vec<SortKey>,
    /// Size of a sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<u32>,
    /// Whether only the number of results is wanted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub count: bool,
    /// Results to skip.
    #[serde(skip_serializing_if = "is_zero")]
    pub offset: u64,
    /// Most results.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Most steps of a condition that a policy stores with a file. A condition can be as deep as it has steps, and whoever walks
/// or drops it needs the stack for that.
const STEPS_MAX: usize = 256;

/// A condition on a record.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "AnyCondition")]
pub enum Condition {
    /// One test.
    Test(Test),
    /// All of these.
    All(Vec<Self>),
    /// One of these.
    Any(Vec<Self>),
    /// Not this.
    Not(Box<Self>),
}

/// A test of one field.
#[derive(Clone, Debug, Serialize)]
pub struct Test {
    /// `owner.name`, or a JSON Pointer.
    pub field: String,
    /// How it is compared.
    pub op: Operator,
    /// With what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Box<RawValue>>,
    /// Whether upper and lower case are the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_case: bool,
    /// Name under which a caller of a stored query gives another value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "`operator` of wit/types.wit tells what each means")]
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
    /// From the greatest to the least.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub descending: bool,
}

/// Groups of records with equal values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Group {
    /// Fields that make a group.
    pub by: Vec<Selection>,
    /// What is computed; the number of records when there is nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub aggregates: Vec<Aggregate>,
}

/// One value of each group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// What is computed.
    pub kind: AggregateKind,
    /// Over which field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// Its key in the result.
    #[serde(default, rename = "as", skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What is computed over a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "`aggregate-kind` of wit/types.wit tells what each means")]
pub enum AggregateKind {
    Count,
    Sum,
    Min,
    Max,
    Avg,
}

/// Everything a condition may look like, so that an error can say what is missing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a condition such as {\"field\": …, \"op\": …, \"value\": …}")]
struct AnyCondition {
    field: Option<String>,
    op: Option<Operator>,
    /// `null` is a value.
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

/// A list of conditions, or one alone. Read from its text, so that numbers keep their digits and errors their place.
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
    /// Whether it asks for nothing but the number of all records.
    pub(super) fn counts_all(&self) -> bool {
        let Self { conditions, group, select: _, distinct, sort, sample, count, offset: _, limit: _ } = self;
        *count && conditions.is_empty() && group.is_none() && !distinct && sort.is_empty() && sample.is_none()
    }

    /// Puts values in the place of those that tests with these parameters have.
    ///
    /// # Errors
    /// With the names there are, when there is none of a given name.
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

    /// Appends the steps of the contract; gives the index of the last one.
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

    /// The condition of the last step. A step that is not below its own, or is used twice, makes none; nor do more than
    /// [`STEPS_MAX`].
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

/// Both directions of a mapping between two enums.
macro_rules! same {
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

same!(
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
same!(AggregateKind, types::AggregateKind, Count = Count, Sum = Sum, Min = Min, Max = Max, Avg = Avg);

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

    /// Fails when the steps of the condition make no tree, or a value is not JSON.
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

/// Both directions of a mapping between two records.
macro_rules! alike {
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

alike!(Selection, types::Selection, |value| { field: value.field.clone(), name: value.name.clone() });
alike!(SortKey, types::SortKey, |value| { field: value.field.clone(), descending: value.descending });
alike!(Aggregate, types::Aggregate, |value| {
    kind: value.kind.into(), field: value.field.clone(), name: value.name.clone()
});
alike!(Group, types::Group, |value| {
    by: value.by.iter().map(Into::into).collect(), aggregates: value.aggregates.iter().map(Into::into).collect()
});
