//! Groups of records with equal values, and their aggregates.

use lro_json::path;
use lro_json::walk::{self, Damaged};
use lro_json::write::string;
use serde::{Deserialize, Serialize};

use crate::ExtractError;
use crate::bindings::lro::filter::types::{Aggregate, AggregateKind, Group};
use crate::fields::{FieldId, Fields};
use crate::find::Record;
use crate::json::checked;
use crate::key::{self, Case};
use crate::keys::Keys;
use crate::number::spelled;
use crate::results::{Output, outputs, write_selected};
use crate::sum::Sum;

/// Most memory of all groups, in bytes, once for their keys and once for their results: 16 MiB.
pub const GROUPS_BYTES_MAX: usize = 16 << 20;

/// All groups so far.
#[derive(Debug)]
pub(crate) struct Groups {
    by: Vec<Output>,
    aggregates: Vec<Computed>,
    keys: Keys,
    /// The first members of each group's result, one after another.
    text: Vec<u8>,
    /// End of each group's members in the text.
    ends: Vec<u32>,
    /// The accumulators of each group, one per aggregate.
    accumulators: Vec<Accumulator>,
    key: Vec<u8>,
}

#[derive(Debug)]
struct Computed {
    name: String,
    kind: AggregateKind,
    field: Option<FieldId>,
}

/// A group of a part of the records.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PartialGroup<'a> {
    key: &'a [u8],
    /// The first members of its result.
    text: &'a [u8],
    accumulators: Vec<Accumulator>,
}

/// The accumulator of one aggregate of one group.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Accumulator {
    Count(u64),
    /// Also for a mean.
    Sum {
        sum: Sum,
        count: u64,
    },
    /// For a least or greatest number.
    Extreme(Option<Extreme>),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Extreme {
    key: Box<[u8]>,
    spelled: Box<[u8]>,
}

impl Groups {
    pub(crate) fn new(group: &Group, fields: &mut Fields) -> Result<Self, ExtractError> {
        let by = outputs("group", &group.by, fields)?;
        let count = Aggregate { kind: AggregateKind::Count, field: None, name: None };
        let asked =
            if group.aggregates.is_empty() { std::slice::from_ref(&count) } else { group.aggregates.as_slice() };
        let aggregates = asked.iter().map(|asked| computed(asked, fields)).collect::<Result<_, _>>()?;
        let groups = Self {
            by,
            aggregates,
            keys: Keys::new("groups-bytes", GROUPS_BYTES_MAX),
            text: Vec::new(),
            ends: Vec::new(),
            accumulators: Vec::new(),
            key: Vec::new(),
        };
        let names = groups.names();
        match names.iter().enumerate().find(|(index, name)| names.iter().take(*index).any(|other| other == *name)) {
            Some((_, name)) => Err(ExtractError::Invalid(format!("group: two fields are named {name}"))),
            None => Ok(groups),
        }
    }

    /// Keys of the results.
    pub(crate) fn names(&self) -> Vec<String> {
        let by = self.by.iter().map(|output| output.name.clone());
        by.chain(self.aggregates.iter().map(|aggregate| aggregate.name.clone())).collect()
    }

    /// Adds a record to its group.
    #[inline(always)]
    pub(crate) fn add(&mut self, fields: &Fields, record: &Record<'_>) -> Result<(), ExtractError> {
        let damaged = |_| ExtractError::Damaged(record.number);
        self.key.clear();
        for output in &self.by {
            let value = fields.value(record, output.field).map_err(damaged)?;
            key::push(&mut self.key, value, Case::Sensitive).map_err(damaged)?;
        }
        let (index, is_new) = self.keys.index(&self.key)?;
        if is_new {
            self.begin(fields, record)?;
        }
        let count = self.aggregates.len();
        let accumulators = self.accumulators.iter_mut().skip(index * count);
        for (aggregate, state) in self.aggregates.iter().zip(accumulators) {
            let value = match aggregate.field {
                Some(field) => match fields.value(record, field).map_err(damaged)? {
                    Some(value) => Some(value),
                    None => continue,
                },
                None => None,
            };
            state.add(aggregate.kind, value, &mut self.key).map_err(damaged)?;
        }
        Ok(())
    }

    #[cold]
    fn begin(&mut self, fields: &Fields, record: &Record<'_>) -> Result<(), ExtractError> {
        let damaged = |_| ExtractError::Damaged(record.number);
        let start = self.text.len();
        write_selected(&mut self.text, &self.by, fields, record).map_err(damaged)?;
        checked(self.text.get(start..).unwrap_or_default()).map_err(damaged)?;
        self.begin_accumulators()
    }

    /// The groups of a part of the records, as they come.
    pub(crate) fn part(&self) -> Vec<PartialGroup<'_>> {
        let mut start = 0;
        let texts =
            self.ends.iter().map(|end| self.text.get(std::mem::replace(&mut start, *end as usize)..*end as usize));
        let groups = self.keys.iter().zip(texts).enumerate().map(|(index, (key, text))| {
            let count = self.aggregates.len();
            let accumulators = self.accumulators.get(index * count..(index + 1) * count).unwrap_or_default().to_vec();
            PartialGroup { key, text: text.unwrap_or_default(), accumulators }
        });
        groups.collect()
    }

    /// Adds the groups of a part of the records that follows.
    pub(crate) fn absorb(&mut self, part: &[PartialGroup<'_>]) -> Result<(), ExtractError> {
        for group in part {
            let (index, is_new) = self.keys.index(group.key)?;
            if is_new {
                self.text.extend_from_slice(group.text);
                self.begin_accumulators()?;
            }
            let states = self.accumulators.iter_mut().skip(index * self.aggregates.len());
            for ((aggregate, state), other) in self.aggregates.iter().zip(states).zip(&group.accumulators) {
                state.absorb(aggregate.kind, other).ok_or_else(|| {
                    let name = &aggregate.name;
                    ExtractError::Invalid(format!("group: {name} depends on the order of the records"))
                })?;
            }
        }
        Ok(())
    }

    /// Begins a group whose first members are the last in the text.
    fn begin_accumulators(&mut self) -> Result<(), ExtractError> {
        self.ends.push(self.text.len() as u32);
        self.accumulators.extend(self.aggregates.iter().map(|aggregate| Accumulator::new(aggregate.kind)));
        if self.text.len() + self.accumulators.len() * size_of::<Accumulator>() > GROUPS_BYTES_MAX {
            let message = format!("groups-bytes: all groups together need more than {GROUPS_BYTES_MAX} bytes");
            return Err(ExtractError::Limit(message));
        }
        Ok(())
    }

    /// The results as lines.
    pub(crate) fn into_lines(mut self) -> Result<Vec<u8>, ExtractError> {
        if self.by.is_empty() && self.ends.is_empty() {
            self.text.extend_from_slice(b"{}");
            self.begin_accumulators()?;
        }
        let mut lines = Vec::with_capacity(self.text.len() + self.accumulators.len() * 16);
        let (mut start, mut accumulators) = (0, self.accumulators.iter());
        for end in &self.ends {
            let members = self.text.get(start..*end as usize).unwrap_or_default();
            lines.extend_from_slice(members.strip_suffix(b"}").unwrap_or_default());
            for (index, (aggregate, state)) in self.aggregates.iter().zip(&mut accumulators).enumerate() {
                if index > 0 || members.len() > 2 {
                    lines.push(b',');
                }
                lines.extend_from_slice(string(&aggregate.name).as_bytes());
                lines.push(b':');
                state.write(aggregate.kind, &mut lines);
            }
            lines.extend_from_slice(b"}\n");
            start = *end as usize;
        }
        Ok(lines)
    }
}

fn computed(asked: &Aggregate, fields: &mut Fields) -> Result<Computed, ExtractError> {
    let kind = match asked.kind {
        AggregateKind::Count => "count",
        AggregateKind::Sum => "sum",
        AggregateKind::Min => "min",
        AggregateKind::Max => "max",
        AggregateKind::Avg => "avg",
    };
    let name = match (&asked.name, &asked.field) {
        (Some(name), _) => name.clone(),
        (None, Some(field)) => format!("{kind}_{}", path::normal(field)),
        (None, None) => kind.to_owned(),
    };
    if asked.field.is_none() && asked.kind != AggregateKind::Count {
        return Err(ExtractError::Invalid(format!("group: {kind} needs a field")));
    }
    let field = asked.field.as_ref().map(|field| fields.add(field)).transpose()?;
    Ok(Computed { name, kind: asked.kind, field })
}

impl Accumulator {
    fn new(kind: AggregateKind) -> Self {
        match kind {
            AggregateKind::Count => Self::Count(0),
            AggregateKind::Sum | AggregateKind::Avg => Self::Sum { sum: Sum::default(), count: 0 },
            AggregateKind::Min | AggregateKind::Max => Self::Extreme(None),
        }
    }

    #[inline(always)]
    fn add(&mut self, kind: AggregateKind, value: Option<&[u8]>, scratch: &mut Vec<u8>) -> Result<(), Damaged> {
        let number = value.filter(|value| matches!(value.first(), Some(b'-' | b'0'..=b'9')));
        match (self, number) {
            (Self::Count(count), _) => *count += 1,
            (Self::Sum { sum, count }, Some(number)) => {
                *count += 1;
                sum.add(number)?;
            }
            (Self::Extreme(extreme), Some(number)) => {
                scratch.clear();
                key::push(scratch, Some(number), Case::Sensitive)?;
                if extreme.as_ref().is_none_or(|extreme| extreme.is_behind(kind, scratch)) {
                    let number = checked(walk::value(number)?)?;
                    *extreme = Some(Extreme { key: scratch.as_slice().into(), spelled: number.as_bytes().into() });
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds what an accumulator of the same aggregate has of later records; `None` if their order matters.
    fn absorb(&mut self, kind: AggregateKind, later: &Self) -> Option<()> {
        match (self, later) {
            (Self::Count(count), Self::Count(later)) => *count += later,
            (Self::Sum { sum, count }, Self::Sum { sum: later, count: later_count }) => {
                *count += later_count;
                sum.absorb(later)?;
            }
            (Self::Extreme(extreme), Self::Extreme(Some(later)))
                if extreme.as_ref().is_none_or(|extreme| extreme.is_behind(kind, &later.key)) =>
            {
                *extreme = Some(later.clone());
            }
            _ => {}
        }
        Some(())
    }

    fn write(&self, kind: AggregateKind, line: &mut Vec<u8>) {
        let text = match self {
            Self::Count(count) => count.to_string(),
            Self::Sum { sum, .. } if kind == AggregateKind::Sum => sum.to_string(),
            Self::Sum { count: 0, .. } => "null".to_owned(),
            Self::Sum { sum, count } => spelled(sum.amount() / *count as f64),
            Self::Extreme(None) => "null".to_owned(),
            Self::Extreme(Some(extreme)) => return line.extend_from_slice(&extreme.spelled),
        };
        line.extend_from_slice(text.as_bytes());
    }
}

impl Extreme {
    /// Whether another number, by its key, is to stand in its place.
    fn is_behind(&self, kind: AggregateKind, other: &[u8]) -> bool {
        match kind {
            AggregateKind::Min => other < self.key.as_ref(),
            _ => other > self.key.as_ref(),
        }
    }
}
