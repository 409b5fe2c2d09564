//! Runs a typed query, over a whole file or over parts of it.

use serde::{Deserialize, Serialize};

use crate::bindings::lro::filter::types::Query;
use crate::condition::Where;
use crate::fields::{FieldId, Fields};
use crate::find::Record;
use crate::group::{Groups, Others, PartialGroup};
use crate::order::Kept;
use crate::results::Results;
use crate::{Answer, Budget, ExtractError, Read, Source, lines, near};

/// Answers a query about all records.
pub(crate) fn run(source: &Source, query: &Query, budget: Budget, read: &mut Read<'_>) -> Result<Answer, ExtractError> {
    let mut asked = Asked::new(query, budget)?;
    asked.scan(source, read)?;
    asked.answer(source, read)
}

/// What a query finds in a part of the records, as bytes.
pub(crate) fn run_part(source: &Source, query: &Query, read: &mut Read<'_>) -> Result<Vec<u8>, ExtractError> {
    let mut asked = Asked::of_parts(query, Budget { bytes: 0, tokens: 0 })?;
    asked.scan(source, read)?;
    let Asked { fields, grouped, results, matched, examined, .. } = asked;
    let numeric = results.numeric();
    let (total, kept) = results.into_part();
    let groups = grouped.as_ref().map_or_else(Vec::new, |grouped| grouped.groups.part());
    let others = grouped.as_ref().map_or_else(Vec::new, |grouped| grouped.groups.others());
    let part = Part { unseen: fields.unseen().to_vec(), matched, examined, total, kept, numeric, groups, others };
    postcard::to_allocvec(&part).map_err(|error| ExtractError::Io(format!("a part of the answer: {error}")))
}

/// Answers a query from what it found in all parts of the records, in their order.
pub(crate) fn merge(
    source: &Source,
    query: &Query,
    parts: &[Vec<u8>],
    budget: Budget,
    read: &mut Read<'_>,
) -> Result<Answer, ExtractError> {
    let mut asked = Asked::of_parts(query, budget)?;
    for bytes in parts {
        let part = postcard::from_bytes(bytes);
        asked.absorb(&part.map_err(|error| ExtractError::Invalid(format!("parts: {error}")))?)?;
    }
    asked.answer(source, read)
}

/// What a query has found in a part of the records. Numbers of records count from the beginning of the part.
#[derive(Debug, Serialize, Deserialize)]
struct Part<'a> {
    /// The fields that no record has.
    unseen: Vec<FieldId>,
    matched: u64,
    examined: u64,
    total: u64,
    kept: Vec<Kept>,
    /// Of each field to sort by, the texts that were sorted as numbers.
    numeric: Vec<u64>,
    #[serde(borrow)]
    groups: Vec<PartialGroup<'a>>,
    /// Of each aggregate of the groups.
    others: Vec<Others>,
}

/// A query that is being answered.
struct Asked {
    fields: Fields,
    condition: Option<Where>,
    grouped: Option<Grouped>,
    /// Of the groups, if there are any.
    results: Results,
    matched: u64,
    examined: u64,
}

struct Grouped {
    groups: Groups,
    fields: Fields,
}

impl Asked {
    fn new(query: &Query, budget: Budget) -> Result<Self, ExtractError> {
        let mut fields = Fields::default();
        let condition = Where::new(&query.where_, &mut fields)?;
        let (grouped, results) = match &query.group {
            None => (None, Results::new(query, budget, &mut fields)?),
            Some(group) => {
                let groups = Groups::new(group, &mut fields)?;
                let mut fields = Fields::of_groups(groups.names());
                let results = Results::new(query, budget, &mut fields)?;
                (Some(Grouped { groups, fields }), results)
            }
        };
        Ok(Self { fields, condition, grouped, results, matched: 0, examined: 0 })
    }

    /// A query about parts of the records. Groups are all in each part, and what follows from them is found at the end.
    fn of_parts(query: &Query, budget: Budget) -> Result<Self, ExtractError> {
        let asked = Self::new(query, budget)?;
        if query.group.is_some() {
            return Ok(asked);
        }
        if query.distinct || query.sample.is_some() {
            let message = "distinct results and a sample of records are not found in parts of them";
            return Err(ExtractError::Invalid(message.to_owned()));
        }
        Ok(Self { results: asked.results.of_parts()?, ..asked })
    }

    /// Looks at every record.
    fn scan(&mut self, source: &Source, read: &mut Read<'_>) -> Result<(), ExtractError> {
        let Self { fields, condition, grouped, results, matched, examined } = self;
        let condition = condition.as_mut();
        (*matched, *examined) = match grouped {
            None => scan(source, fields, condition, read, |fields, record| results.add(fields, record))?,
            Some(Grouped { groups, .. }) => {
                scan(source, fields, condition, read, |fields, record| groups.add(fields, record))?
            }
        };
        Ok(())
    }

    /// Adds what was found in the part of the records that follows.
    fn absorb(&mut self, part: &Part<'_>) -> Result<(), ExtractError> {
        self.fields.keep_unseen(&part.unseen);
        match &mut self.grouped {
            None => self.results.absorb(part.total, &part.kept, &part.numeric, self.examined)?,
            Some(Grouped { groups, .. }) => groups.absorb(&part.groups, &part.others)?,
        }
        self.matched += part.matched;
        self.examined += part.examined;
        Ok(())
    }

    fn answer(self, source: &Source, read: &mut Read<'_>) -> Result<Answer, ExtractError> {
        let Self { fields, grouped, mut results, matched, examined, .. } = self;
        // Other parts of the file may have the field.
        if let Some(field) = fields.first_unseen()
            && examined > 0
            && examined >= source.records
        {
            return Err(near::unknown_field(source, read, field));
        }
        let (notes, lines, total) = match grouped {
            None => {
                let notes = results.notes(&fields);
                let (lines, total) = results.finish(&fields, read)?;
                (notes, lines, total)
            }
            Some(Grouped { groups, fields: of_groups }) => {
                let mut notes = groups.notes(&fields);
                let groups = groups.into_lines()?;
                of_groups.finder().scan(0, &groups, |group| results.add(&of_groups, &group))?;
                notes.extend(results.notes(&of_groups));
                let (lines, total) = results.finish(&of_groups, &mut |offset, length| {
                    let rest = usize::try_from(offset).ok().and_then(|offset| groups.get(offset..)).unwrap_or_default();
                    Ok(rest.iter().take(length as usize).copied().collect())
                })?;
                (notes, lines, total)
            }
        };
        Ok(Answer { notes, ..lines.answer(total, matched, examined) })
    }
}

/// Calls `each` with every record that satisfies the condition; returns their number and that of all records.
fn scan(
    source: &Source,
    fields: &mut Fields,
    mut condition: Option<&mut Where>,
    read: &mut Read<'_>,
    mut each: impl FnMut(&Fields, &Record<'_>) -> Result<(), ExtractError>,
) -> Result<(u64, u64), ExtractError> {
    let (mut finder, mut matched) = (fields.finder(), 0);
    lines::each_run(source, read, |offset, run| {
        finder.scan(offset, run, |record| {
            let damaged = |_| ExtractError::Damaged(record.number);
            fields.note(&record).map_err(damaged)?;
            let counts = match &mut condition {
                Some(condition) => condition.matches(fields, &record).map_err(damaged)?,
                None => true,
            };
            if counts {
                matched += 1;
                each(fields, &record)?;
            }
            Ok(())
        })
    })?;
    Ok((matched, finder.examined))
}
