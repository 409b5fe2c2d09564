//! Typed queries as the contract has them, and back.

use serde_json::value::RawValue;

use super::query::{Aggregate, AggregateKind, Condition, Group, Operator, Query, Selection, SortKey, Test};
use crate::sandbox::types;

/// Maximum number of steps in a stored condition. A condition can be as deep as it has steps, and walking or dropping
/// it recurses.
const STEPS_MAX: usize = 256;

impl Condition {
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
