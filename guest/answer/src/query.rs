//! Runs a typed query.

use crate::bindings::lro::filter::types::Query;
use crate::condition::Where;
use crate::fields::Fields;
use crate::find::Record;
use crate::group::Groups;
use crate::results::Results;
use crate::{Answer, Budget, ExtractError, Read, Source, lines, near};

pub(crate) fn run(source: &Source, query: &Query, budget: Budget, read: &mut Read<'_>) -> Result<Answer, ExtractError> {
    let mut fields = Fields::default();
    let condition = Where::new(&query.where_, &mut fields)?;
    let Some(group) = &query.group else {
        let mut results = Results::new(query, budget, &mut fields)?;
        let (matched, examined) =
            scan(source, &mut fields, condition, read, |fields, record| results.add(fields, record))?;
        let (lines, total) = results.finish(&fields, read)?;
        return Ok(lines.answer(total, matched, examined));
    };
    let mut groups = Groups::new(group, &mut fields)?;
    let mut group_fields = Fields::of_groups(groups.names());
    let mut results = Results::new(query, budget, &mut group_fields)?;
    let (matched, examined) = scan(source, &mut fields, condition, read, |fields, record| groups.add(fields, record))?;
    let groups = groups.into_lines()?;
    group_fields.finder().scan(0, &groups, |group| results.add(&group_fields, &group))?;
    let (lines, total) = results.finish(&group_fields, &mut |offset, length| {
        let rest = usize::try_from(offset).ok().and_then(|offset| groups.get(offset..)).unwrap_or_default();
        Ok(rest.iter().take(length as usize).copied().collect())
    })?;
    Ok(lines.answer(total, matched, examined))
}

/// Calls `each` with every record that satisfies the condition; returns their number and that of all records.
fn scan(
    source: &Source,
    fields: &mut Fields,
    mut condition: Option<Where>,
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
    match fields.first_unseen() {
        // Other parts of the file may have the field.
        Some(field) if finder.examined > 0 && finder.examined >= source.records => {
            Err(near::unknown_field(source, read, field))
        }
        _ => Ok((matched, finder.examined)),
    }
}
