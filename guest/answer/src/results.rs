//! Turns matching records or groups into the lines of the answer: selected, distinct, sorted, sampled, cut.

use lro_json::path::Step;
use lro_json::walk::{self, Damaged};
use lro_json::write::string;

use crate::answer::Lines;
use crate::bindings::lro::filter::types::{Query, Selection};
use crate::fields::{Elements, FieldId, Fields, any_element};
use crate::find::Record;
use crate::key::{self, Case};
use crate::keys::Keys;
use crate::numeric::{texts_were, with_number};
use crate::order::{Kept, Least};
use crate::{Budget, ExtractError, Read, lines};

/// Default number of results: 50.
pub const LIMIT_DEFAULT: u32 = 50;

/// Most results of a query or a sample: 100,000.
pub const LIMIT_MAX: u32 = 100_000;

/// Most results before and on the page of a query that is asked about parts of the records, as each may have all of them: 10,000.
pub const PART_RESULTS_MAX: u64 = 10_000;

/// Most memory for the keys of distinct results, in bytes: 16 MiB.
pub const DISTINCT_BYTES_MAX: usize = 16 << 20;

/// Processes the results.
#[derive(Debug)]
pub(crate) struct Results {
    select: Vec<Output>,
    distinct: Option<Keys>,
    sort: Vec<SortField>,
    least: Option<Least>,
    /// The number of results, without those equal to an earlier one.
    total: u64,
    count: bool,
    sample: Option<u64>,
    offset: u64,
    /// Number of the first result beyond the limit.
    end: u64,
    lines: Lines,
    key: Vec<u8>,
    line: Vec<u8>,
}

#[derive(Debug)]
struct SortField {
    field: FieldId,
    descending: bool,
    /// Texts that were sorted as numbers.
    numeric: u64,
}

/// A field and its key in a result: `"name":`.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) name: String,
    pub(crate) field: FieldId,
    /// Behind each `[]` of the field. With one, the result of a record has an array.
    pub(crate) elements: Elements,
}

impl Results {
    pub(crate) fn new(query: &Query, budget: Budget, fields: &mut Fields) -> Result<Self, ExtractError> {
        let limit = within_limit("limit", query.limit.unwrap_or(LIMIT_DEFAULT))?;
        let sample = query.sample.map(|sample| within_limit("sample", sample)).transpose()?;
        let end = query.offset.saturating_add(limit);
        let sort = query
            .sort
            .iter()
            .map(|key| Ok(SortField { field: fields.add(&key.field)?, descending: key.descending, numeric: 0 }))
            .collect::<Result<Vec<_>, ExtractError>>()?;
        let least = match sample {
            _ if query.count => None,
            Some(sample) => Some(Least::sample(sample)),
            None if sort.is_empty() => None,
            None => Some(Least::sorted(end)),
        };
        Ok(Self {
            select: outputs("select", &query.select, |field| fields.add_with_elements(field))?,
            distinct: query.distinct.then(|| Keys::new("distinct-bytes", DISTINCT_BYTES_MAX)),
            sort,
            least,
            total: 0,
            count: query.count,
            sample,
            offset: query.offset,
            end,
            lines: Lines::new(budget),
            key: Vec::new(),
            line: Vec::new(),
        })
    }

    /// Also keeps results in the order of the file by their location, as those of a part: which of them are wanted is known
    /// when those of all parts are together.
    pub(crate) fn of_parts(self) -> Result<Self, ExtractError> {
        if self.count {
            return Ok(self);
        }
        if self.end > PART_RESULTS_MAX {
            let message = format!("only the first {PART_RESULTS_MAX} results are found in parts of the records");
            return Err(ExtractError::Invalid(message));
        }
        Ok(Self { least: Some(Least::sorted(self.end)), ..self })
    }

    /// The number of results of a part, and those that may be wanted.
    pub(crate) fn into_part(self) -> (u64, Vec<Kept>) {
        (self.total, self.least.map_or_else(Vec::new, Least::into_kept))
    }

    /// Of each field to sort by, the texts that were sorted as numbers.
    pub(crate) fn numeric(&self) -> Vec<u64> {
        self.sort.iter().map(|sort| sort.numeric).collect()
    }

    /// What texts were taken for.
    pub(crate) fn notes(&self, fields: &Fields) -> Vec<String> {
        let numeric = self.sort.iter().filter(|sort| sort.numeric > 0);
        let note = |sort: &SortField| {
            format!("`{}`: {} sorted as numbers", fields.shown(sort.field), texts_were(sort.numeric))
        };
        numeric.map(note).collect()
    }

    /// Adds the results of a part of the records, before which there are so many others; `numeric` as [`Results::numeric`].
    pub(crate) fn absorb(
        &mut self,
        total: u64,
        kept: &[Kept],
        numeric: &[u64],
        before: u64,
    ) -> Result<(), ExtractError> {
        self.total += total;
        self.sort.iter_mut().zip(numeric).for_each(|(sort, numeric)| sort.numeric += numeric);
        let Some(least) = &mut self.least else { return Ok(()) };
        kept.iter().try_for_each(|kept| least.absorb(kept, before))
    }

    /// Adds a record or group.
    #[inline(always)]
    pub(crate) fn add(&mut self, fields: &Fields, record: &Record<'_>) -> Result<(), ExtractError> {
        let damaged = |_| ExtractError::Damaged(record.number);
        if let Some(distinct) = &mut self.distinct {
            self.key.clear();
            identify(&mut self.key, &self.select, fields, record).map_err(damaged)?;
            if !distinct.index(&self.key)?.1 {
                return Ok(());
            }
        }
        let index = self.total;
        self.total += 1;
        if let Some(least) = &mut self.least {
            self.key.clear();
            rank(&mut self.key, &mut self.sort, fields, record).map_err(damaged)?;
            return least.offer(&self.key, record);
        }
        if self.count || index < self.offset || index >= self.end { Ok(()) } else { self.emit(fields, record) }
    }

    /// Adds a result to the answer.
    fn emit(&mut self, fields: &Fields, record: &Record<'_>) -> Result<(), ExtractError> {
        if self.lines.is_full() {
            return Ok(());
        }
        let damaged = |_| ExtractError::Damaged(record.number);
        let line = if self.select.is_empty() {
            record.line
        } else {
            self.line.clear();
            write_selected(&mut self.line, &self.select, fields, record).map_err(damaged)?;
            &self.line
        };
        self.lines.push_copied(line).map_err(damaged)
    }

    /// The answer. Results that were kept by their location are read again.
    pub(crate) fn finish(mut self, fields: &Fields, read: &mut Read<'_>) -> Result<(Lines, u64), ExtractError> {
        let total = self.sample.map_or(self.total, |sample| sample.min(self.total));
        if self.count {
            self.lines.push(&format!("{{\"count\":{total}}}"));
            return Ok((self.lines, 1));
        }
        let Some(least) = self.least.take() else { return Ok((self.lines, total)) };
        self.key = Vec::new();
        let wanted = (self.end - self.offset) as usize;
        let skipped = usize::try_from(self.offset).unwrap_or(usize::MAX);
        for location in least.into_locations().skip(skipped).take(wanted) {
            if self.lines.is_full() {
                break;
            }
            let line = lines::read_line(read, location.offset, location.length)?;
            let mut finder = fields.finder();
            finder.examined = location.number;
            finder.scan(location.offset, &line, |record| self.emit(fields, &record))?;
        }
        Ok((self.lines, total))
    }
}

fn within_limit(name: &str, amount: u32) -> Result<u64, ExtractError> {
    match amount {
        0 => Err(ExtractError::Invalid(format!("{name}: must be at least 1"))),
        1..=LIMIT_MAX => Ok(u64::from(amount)),
        _ => Err(ExtractError::Invalid(format!("{name}: must be at most {LIMIT_MAX}"))),
    }
}

/// The selected fields under distinct names; `add` adds a field.
pub(crate) fn outputs(
    part: &str,
    selections: &[Selection],
    mut add: impl FnMut(&str) -> Result<(FieldId, Elements), ExtractError>,
) -> Result<Vec<Output>, ExtractError> {
    let mut outputs: Vec<Output> = Vec::with_capacity(selections.len());
    for selection in selections {
        let name = selection.name.as_deref().unwrap_or(&selection.field);
        if outputs.iter().any(|output| output.name == name) {
            return Err(ExtractError::Invalid(format!("{part}: two fields are named {name}")));
        }
        let (field, elements) = add(&selection.field)?;
        outputs.push(Output { name: name.to_owned(), field, elements });
    }
    Ok(outputs)
}

/// Appends a key that is equal for equal results.
fn identify(key: &mut Vec<u8>, select: &[Output], fields: &Fields, record: &Record<'_>) -> Result<(), Damaged> {
    if select.is_empty() {
        let at = walk::skip_white(record.line, 0);
        return key::push(key, record.line.get(at..), Case::Sensitive);
    }
    for output in select {
        match output.value(fields, record)? {
            Some(value) if !output.elements.is_empty() => {
                let mut array = Vec::new();
                write_elements(&mut array, value, &output.elements)?;
                key::push(key, Some(&array), Case::Sensitive)?;
            }
            value => key::push(key, value, Case::Sensitive)?,
        }
    }
    Ok(())
}

/// Appends a key that orders like the results.
fn rank(key: &mut Vec<u8>, sort: &mut [SortField], fields: &Fields, record: &Record<'_>) -> Result<(), Damaged> {
    for SortField { field, descending, numeric } in sort {
        let start = key.len();
        let value = fields.value(record, *field)?;
        match value {
            Some(text) if text.first() == Some(&b'"') => *numeric += u64::from(rank_text(key, text)?),
            value => key::push(key, value, Case::Sensitive)?,
        }
        if *descending {
            key.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }
    Ok(())
}

/// Appends the key of a string, or of the number that it is; returns whether it is one.
fn rank_text(key: &mut Vec<u8>, text: &[u8]) -> Result<bool, Damaged> {
    with_number(text, |number| {
        key::push(key, Some(number.unwrap_or(text)), Case::Sensitive)?;
        Ok(number.is_some())
    })?
}

/// Appends an object of the selected fields.
fn write_selected(line: &mut Vec<u8>, select: &[Output], fields: &Fields, record: &Record<'_>) -> Result<(), Damaged> {
    line.push(b'{');
    for output in select {
        if let Some(value) = output.value(fields, record)? {
            write_member(line, &output.name);
            match output.elements.as_slice() {
                [] => line.extend_from_slice(walk::value(value)?),
                elements => write_elements(line, value, elements)?,
            }
        }
    }
    line.push(b'}');
    Ok(())
}

/// Appends a key to an object that has been begun.
pub(crate) fn write_member(line: &mut Vec<u8>, name: &str) {
    if line.last() != Some(&b'{') {
        line.push(b',');
    }
    line.extend_from_slice(string(name).as_bytes());
    line.push(b':');
}

impl Output {
    /// The text from its value on; from the array on, if the result has what its elements have.
    #[inline(always)]
    fn value<'a>(&self, fields: &Fields, record: &Record<'a>) -> Result<Option<&'a [u8]>, Damaged> {
        let value = fields.value(record, self.field)?;
        Ok(value.filter(|value| self.elements.is_empty() || value.first() == Some(&b'[')))
    }
}

/// Appends an array of the values that `elements` lead to.
fn write_elements(line: &mut Vec<u8>, array: &[u8], elements: &[Vec<Step>]) -> Result<(), Damaged> {
    line.push(b'[');
    let start = line.len();
    any_element(array, elements, &mut |value| {
        if line.len() > start {
            line.push(b',');
        }
        line.extend_from_slice(walk::value(value)?);
        Ok(false)
    })?;
    line.push(b']');
    Ok(())
}
