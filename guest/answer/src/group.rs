//! Groups of records with equal values, and their aggregates.

use std::rc::Rc;

use lro_json::path::{self, Step};
use lro_json::walk::{self, Damaged};
use lro_json::write::string;
use serde::{Deserialize, Serialize};

use crate::ExtractError;
use crate::bindings::lro::filter::types::{Aggregate, AggregateKind, Group};
use crate::fields::{Elements, FieldId, Fields, any_element};
use crate::find::Record;
use crate::json::checked;
use crate::key::{self, Case};
use crate::keys::Keys;
use crate::number::spelled;
use crate::numeric::{texts_were, with_number};
use crate::results::{Output, outputs, write_member};
use crate::sum::Sum;

/// Most memory of all groups, in bytes, once for their keys and once for their results: 16 MiB.
pub const GROUPS_BYTES_MAX: usize = 16 << 20;

/// Most notes of an answer.
const NOTES_MAX: usize = 8;

/// All groups so far.
#[derive(Debug)]
pub(crate) struct Groups {
    by: Vec<Output>,
    aggregates: Vec<Computed>,
    array: Option<Rc<Array>>,
    keys: Keys,
    /// The first members of each group's result, one after another.
    text: Vec<u8>,
    /// End of each group's members in the text.
    ends: Vec<u32>,
    /// The accumulators of each group, one per aggregate.
    accumulators: Vec<Accumulator>,
    scratch: Scratch,
}

/// The array of each record whose elements count one by one.
#[derive(Debug)]
struct Array {
    /// Its path.
    name: String,
    /// A field of its elements.
    field: FieldId,
    /// What leads from the value of that field to the elements.
    elements: Elements,
}

#[derive(Debug, Default)]
struct Scratch {
    key: Vec<u8>,
    /// Bytes of all extremes.
    extreme_bytes: usize,
}

#[derive(Debug)]
struct Computed {
    name: String,
    kind: AggregateKind,
    field: Option<FieldId>,
    /// Behind each `[]` of the field.
    elements: Elements,
    others: Others,
}

/// How many values of a field are no numbers, null apart.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Others {
    /// Texts that were read as numbers.
    numeric: u64,
    /// Other texts.
    texts: u64,
    /// Neither numbers nor texts.
    rest: u64,
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
    /// For a least or greatest value: that of the numbers, and that of the texts, which counts if the field has no numbers.
    Extreme {
        number: Option<Extreme>,
        text: Option<Extreme>,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Extreme {
    key: Box<[u8]>,
    spelled: Box<[u8]>,
}

impl Groups {
    pub(crate) fn new(group: &Group, fields: &mut Fields) -> Result<Self, ExtractError> {
        let by = outputs("group", &group.by, |field| fields.add_with_elements(field))?;
        let count = Aggregate { kind: AggregateKind::Count, field: None, name: None };
        let asked =
            if group.aggregates.is_empty() { std::slice::from_ref(&count) } else { group.aggregates.as_slice() };
        let aggregates: Vec<_> = asked.iter().map(|asked| computed(asked, fields)).collect::<Result<_, _>>()?;
        let groups = Self {
            array: array(fields, &by, &aggregates)?.map(Rc::new),
            by,
            aggregates,
            keys: Keys::new("groups-bytes", GROUPS_BYTES_MAX),
            text: Vec::new(),
            ends: Vec::new(),
            accumulators: Vec::new(),
            scratch: Scratch::default(),
        };
        let names = groups.names();
        match names.iter().enumerate().find(|(index, name)| names.iter().take(*index).any(|other| other == *name)) {
            Some((_, name)) => Err(ExtractError::Invalid(format!(
                "group: two fields are named {name}: give one of them another name, as in {{\"field\": \"{name}\", \"as\": \"other\"}}; \
                 `{name}=other` on the command line"
            ))),
            None => Ok(groups),
        }
    }

    /// Keys of the results.
    pub(crate) fn names(&self) -> Vec<String> {
        let by = self.by.iter().map(|output| output.name.clone());
        by.chain(self.aggregates.iter().map(|aggregate| aggregate.name.clone())).collect()
    }

    /// Adds a record to its group, or each element of its array to one.
    #[inline(always)]
    pub(crate) fn add(&mut self, fields: &Fields, record: &Record<'_>) -> Result<(), ExtractError> {
        match &self.array {
            None => self.add_row(&Row { fields, record, element: None }),
            Some(_) => self.add_elements(fields, record),
        }
    }

    #[cold]
    fn add_elements(&mut self, fields: &Fields, record: &Record<'_>) -> Result<(), ExtractError> {
        let Some(array) = self.array.clone() else { return Ok(()) };
        let damaged = |_| ExtractError::Damaged(record.number);
        let Some(value) = fields.value(record, array.field).map_err(damaged)? else { return Ok(()) };
        let mut added = Ok(());
        let mut add = |element: &[u8]| {
            added = self.add_row(&Row { fields, record, element: Some(element) });
            Ok(added.is_err())
        };
        any_element(value, &array.elements, &mut add).map_err(damaged)?;
        added
    }

    #[inline(always)]
    fn add_row(&mut self, row: &Row<'_>) -> Result<(), ExtractError> {
        let damaged = |_| ExtractError::Damaged(row.record.number);
        let key = &mut self.scratch.key;
        key.clear();
        for output in &self.by {
            let value = row.value(output.field, &output.elements).map_err(damaged)?;
            key::push(key, value, Case::Sensitive).map_err(damaged)?;
        }
        let (index, is_new) = self.keys.index(key)?;
        if is_new {
            self.begin(row)?;
        }
        let count = self.aggregates.len();
        let accumulators = self.accumulators.iter_mut().skip(index * count);
        for (aggregate, state) in self.aggregates.iter_mut().zip(accumulators) {
            let value = match aggregate.field {
                Some(field) => match row.value(field, &aggregate.elements).map_err(damaged)? {
                    Some(value) => Some(value),
                    None => continue,
                },
                None => None,
            };
            state.add(aggregate.kind, value, &mut aggregate.others, &mut self.scratch).map_err(damaged)?;
        }
        self.check_size()
    }

    #[cold]
    fn begin(&mut self, row: &Row<'_>) -> Result<(), ExtractError> {
        let damaged = |_| ExtractError::Damaged(row.record.number);
        let start = self.text.len();
        self.text.push(b'{');
        for output in &self.by {
            if let Some(value) = row.value(output.field, &output.elements).map_err(damaged)? {
                write_member(&mut self.text, &output.name);
                self.text.extend_from_slice(walk::value(value).map_err(damaged)?);
            }
        }
        self.text.push(b'}');
        checked(self.text.get(start..).unwrap_or_default()).map_err(damaged)?;
        self.begin_accumulators()
    }

    /// What values of each aggregate are no numbers.
    pub(crate) fn others(&self) -> Vec<Others> {
        self.aggregates.iter().map(|aggregate| aggregate.others).collect()
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
    pub(crate) fn absorb(&mut self, part: &[PartialGroup<'_>], others: &[Others]) -> Result<(), ExtractError> {
        self.aggregates.iter_mut().zip(others).for_each(|(aggregate, others)| aggregate.others.add(others));
        for group in part {
            let (index, is_new) = self.keys.index(group.key)?;
            if is_new {
                self.text.extend_from_slice(group.text);
                self.begin_accumulators()?;
            }
            let states = self.accumulators.iter_mut().skip(index * self.aggregates.len());
            for ((aggregate, state), other) in self.aggregates.iter().zip(states).zip(&group.accumulators) {
                state.absorb(aggregate.kind, other, &mut self.scratch).ok_or_else(|| {
                    let name = &aggregate.name;
                    ExtractError::Invalid(format!("group: {name} depends on the order of the records"))
                })?;
            }
            self.check_size()?;
        }
        Ok(())
    }

    /// Begins a group whose first members are the last in the text.
    fn begin_accumulators(&mut self) -> Result<(), ExtractError> {
        self.ends.push(self.text.len() as u32);
        self.accumulators.extend(self.aggregates.iter().map(|aggregate| Accumulator::new(aggregate.kind)));
        self.check_size()
    }

    #[inline(always)]
    fn check_size(&self) -> Result<(), ExtractError> {
        let accumulators = self.accumulators.len() * size_of::<Accumulator>();
        if self.text.len() + accumulators + self.scratch.extreme_bytes > GROUPS_BYTES_MAX {
            let message = format!("groups-bytes: all groups together need more than {GROUPS_BYTES_MAX} bytes");
            return Err(ExtractError::Limit(message));
        }
        Ok(())
    }

    /// For each aggregate, whether it has found a number in any group.
    fn with_numbers(&self) -> Vec<bool> {
        let count = self.aggregates.len();
        let has_number = |index| self.accumulators.iter().skip(index).step_by(count).any(Accumulator::has_number);
        (0..count).map(has_number).collect()
    }

    /// What the values that are no numbers were taken for.
    pub(crate) fn notes(&self, fields: &Fields) -> Vec<String> {
        let counted = |array: &Array| format!("each element of `{}` counts, not each record", array.name);
        let mut notes: Vec<String> = self.array.as_deref().map(counted).into_iter().collect();
        for (aggregate, has_numbers) in self.aggregates.iter().zip(self.with_numbers()) {
            let Some(field) = aggregate.field else { continue };
            for note in aggregate.others.notes(aggregate.kind, has_numbers) {
                let note = format!("`{}`: {note}", fields.shown(field));
                if notes.len() < NOTES_MAX && !notes.contains(&note) {
                    notes.push(note);
                }
            }
        }
        notes
    }

    /// The results as lines.
    pub(crate) fn into_lines(mut self) -> Result<Vec<u8>, ExtractError> {
        if self.by.is_empty() && self.ends.is_empty() {
            self.text.extend_from_slice(b"{}");
            self.begin_accumulators()?;
        }
        let with_numbers = self.with_numbers();
        let mut lines = Vec::with_capacity(self.text.len() + self.accumulators.len() * 16);
        let (mut start, mut accumulators) = (0, self.accumulators.iter());
        for end in &self.ends {
            let members = self.text.get(start..*end as usize).unwrap_or_default();
            lines.extend_from_slice(members.strip_suffix(b"}").unwrap_or_default());
            let aggregates = self.aggregates.iter().zip(&with_numbers);
            for (index, ((aggregate, has_numbers), state)) in aggregates.zip(&mut accumulators).enumerate() {
                if index > 0 || members.len() > 2 {
                    lines.push(b',');
                }
                lines.extend_from_slice(string(&aggregate.name).as_bytes());
                lines.push(b':');
                state.write(aggregate.kind, *has_numbers, &mut lines);
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
    if asked.field.is_none() && asked.kind != AggregateKind::Count {
        return Err(ExtractError::Invalid(format!("group: {kind} needs a field")));
    }
    let (field, elements) = match &asked.field {
        Some(field) => fields.add_with_elements(field).map(|(field, elements)| (Some(field), elements))?,
        None => (None, Elements::new()),
    };
    let name = match (&asked.name, &asked.field) {
        (Some(name), _) => name.clone(),
        (None, Some(field)) if elements.is_empty() => format!("{kind}_{}", path::normal(field)),
        (None, Some(field)) => format!("{kind}_{field}"),
        (None, None) => kind.to_owned(),
    };
    Ok(Computed { name, kind: asked.kind, field, elements, others: Others::default() })
}

/// The one array whose elements have the fields with `[]` in the group.
fn array(fields: &Fields, by: &[Output], aggregates: &[Computed]) -> Result<Option<Array>, ExtractError> {
    let of_group = by.iter().map(|output| (output.field, &output.elements));
    let of_aggregates = aggregates.iter().filter_map(|aggregate| Some((aggregate.field?, &aggregate.elements)));
    let mut arrays = of_group.chain(of_aggregates).filter_map(|(field, elements)| {
        let (_, between) = elements.split_last()?;
        let name = fields.spelled(field).rsplit_once("[]")?.0.to_owned();
        Some(Array { name, field, elements: [between, &[Vec::new()]].concat() })
    });
    let Some(array) = arrays.next() else { return Ok(None) };
    match arrays.find(|other| other.name != array.name) {
        Some(other) => Err(ExtractError::Invalid(format!(
            "group: the elements of `{}` are counted, or those of `{}`, not both: ask twice, or use a jq program",
            array.name, other.name
        ))),
        None => Ok(Some(array)),
    }
}

/// What is added to a group: a record, or an element of its array with the fields of the record.
struct Row<'a> {
    fields: &'a Fields,
    record: &'a Record<'a>,
    element: Option<&'a [u8]>,
}

impl<'a> Row<'a> {
    /// The text from the value of a field on; `elements` is what is behind each `[]` of the field.
    #[inline(always)]
    fn value(&self, field: FieldId, elements: &[Vec<Step>]) -> Result<Option<&'a [u8]>, Damaged> {
        match (self.element, elements.last()) {
            (Some(element), Some(steps)) => Ok(path::find(element, 0, steps)?.and_then(|at| element.get(at..))),
            _ => self.fields.value(self.record, field),
        }
    }
}

impl Others {
    fn add(&mut self, others: &Self) {
        self.numeric += others.numeric;
        self.texts += others.texts;
        self.rest += others.rest;
    }

    /// Notes about an aggregate of these values and, unless there are none, numbers.
    fn notes(&self, kind: AggregateKind, has_numbers: bool) -> impl Iterator<Item = String> {
        let is_extreme = matches!(kind, AggregateKind::Min | AggregateKind::Max);
        let compares_texts = is_extreme && !has_numbers && self.texts > 0;
        let left_out = if compares_texts { self.rest } else { self.texts + self.rest };
        let read = (self.numeric > 0).then(|| format!("{} read as numbers", texts_were(self.numeric)));
        let no_numbers = match compares_texts {
            _ if has_numbers || self.texts + self.rest == 0 => None,
            true => Some("it has no numbers, so its texts are compared, character by character".to_owned()),
            false => Some("it has no numbers".to_owned()),
        };
        let kept = if compares_texts { "text" } else { "number" };
        let left_out = (left_out > 0).then(|| match left_out {
            1 => format!("1 record in which it is not a {kept} was left out"),
            left_out => format!("{left_out} records in which it is not a {kept} were left out"),
        });
        [read, no_numbers, left_out].into_iter().flatten()
    }
}

impl Accumulator {
    fn new(kind: AggregateKind) -> Self {
        match kind {
            AggregateKind::Count => Self::Count(0),
            AggregateKind::Sum | AggregateKind::Avg => Self::Sum { sum: Sum::default(), count: 0 },
            AggregateKind::Min | AggregateKind::Max => Self::Extreme { number: None, text: None },
        }
    }

    #[inline(always)]
    fn add(
        &mut self,
        kind: AggregateKind,
        value: Option<&[u8]>,
        others: &mut Others,
        scratch: &mut Scratch,
    ) -> Result<(), Damaged> {
        match (self, value.and_then(|value| value.first())) {
            (Self::Count(count), _) => {
                *count += 1;
                Ok(())
            }
            (state, Some(b'-' | b'0'..=b'9')) => state.add_number(kind, value.unwrap_or_default(), scratch),
            (state, _) => state.add_other(kind, value.unwrap_or_default(), others, scratch),
        }
    }

    #[inline(always)]
    fn add_number(&mut self, kind: AggregateKind, value: &[u8], scratch: &mut Scratch) -> Result<(), Damaged> {
        match self {
            Self::Count(_) => Ok(()),
            Self::Sum { sum, count } => {
                *count += 1;
                sum.add(value)
            }
            Self::Extreme { number, .. } => Extreme::offer(number, kind, value, scratch),
        }
    }

    /// Adds a value that is not written as a number.
    fn add_other(
        &mut self,
        kind: AggregateKind,
        value: &[u8],
        others: &mut Others,
        scratch: &mut Scratch,
    ) -> Result<(), Damaged> {
        match value.first() {
            Some(b'"') => {
                let is_number = with_number(value, |number| {
                    number.map(|number| self.add_number(kind, number, scratch)).transpose().map(|added| added.is_some())
                })??;
                if is_number {
                    others.numeric += 1;
                    return Ok(());
                }
                others.texts += 1;
                match self {
                    Self::Extreme { text, .. } => Extreme::offer(text, kind, value, scratch),
                    _ => Ok(()),
                }
            }
            Some(b'n') | None => Ok(()),
            _ => {
                others.rest += 1;
                Ok(())
            }
        }
    }

    fn has_number(&self) -> bool {
        match self {
            Self::Count(_) => false,
            Self::Sum { count, .. } => *count > 0,
            Self::Extreme { number, .. } => number.is_some(),
        }
    }

    /// Adds what an accumulator of the same aggregate has of later records; `None` if their order matters.
    fn absorb(&mut self, kind: AggregateKind, later: &Self, scratch: &mut Scratch) -> Option<()> {
        match (self, later) {
            (Self::Count(count), Self::Count(later)) => *count += later,
            (Self::Sum { sum, count }, Self::Sum { sum: later, count: later_count }) => {
                *count += later_count;
                sum.absorb(later)?;
            }
            (Self::Extreme { number, text }, Self::Extreme { number: later_number, text: later_text }) => {
                Extreme::absorb(number, kind, later_number.as_ref(), scratch);
                Extreme::absorb(text, kind, later_text.as_ref(), scratch);
            }
            _ => {}
        }
        Some(())
    }

    /// Writes the result; `has_numbers` says whether its field has some in any group.
    fn write(&self, kind: AggregateKind, has_numbers: bool, line: &mut Vec<u8>) {
        let text = match self {
            Self::Count(count) => count.to_string(),
            Self::Sum { sum, .. } if kind == AggregateKind::Sum => sum.to_string(),
            Self::Sum { count: 0, .. } => "null".to_owned(),
            Self::Sum { sum, count } => spelled(sum.amount() / *count as f64),
            Self::Extreme { number, text } => match if has_numbers { number } else { text } {
                Some(extreme) => return line.extend_from_slice(&extreme.spelled),
                None => "null".to_owned(),
            },
        };
        line.extend_from_slice(text.as_bytes());
    }
}

impl Extreme {
    /// Keeps the value at the beginning of a text instead, if it is further out.
    #[inline(always)]
    fn offer(kept: &mut Option<Self>, kind: AggregateKind, value: &[u8], scratch: &mut Scratch) -> Result<(), Damaged> {
        let key = &mut scratch.key;
        key.clear();
        key::push(key, Some(value), Case::Sensitive)?;
        if kept.as_ref().is_none_or(|kept| kept.is_behind(kind, key)) {
            let spelled = checked(walk::value(value)?)?.as_bytes().into();
            let key = key.as_slice().into();
            Self { key, spelled }.replace(kept, scratch);
        }
        Ok(())
    }

    fn absorb(kept: &mut Option<Self>, kind: AggregateKind, later: Option<&Self>, scratch: &mut Scratch) {
        if let Some(later) = later
            && kept.as_ref().is_none_or(|kept| kept.is_behind(kind, &later.key))
        {
            later.clone().replace(kept, scratch);
        }
    }

    fn replace(self, kept: &mut Option<Self>, scratch: &mut Scratch) {
        scratch.extreme_bytes += self.bytes();
        scratch.extreme_bytes -= kept.replace(self).map_or(0, |last| last.bytes());
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.spelled.len()
    }

    /// Whether another value, by its key, is to stand in its place.
    fn is_behind(&self, kind: AggregateKind, other: &[u8]) -> bool {
        match kind {
            AggregateKind::Min => other < self.key.as_ref(),
            _ => other > self.key.as_ref(),
        }
    }
}
