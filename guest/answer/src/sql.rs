//! Runs a SQL query over one or several files of records.

use lro_json::path::{self, Step};
use lro_sql::{Error, Flow, Statement, Table, Visit, write_row};

use crate::answer::Lines;
use crate::fields::Fields;
use crate::results::LIMIT_MAX;
use crate::{Answer, Budget, ExtractError, FileKind, ReadSource, Source, Sql, check, lines, near};

/// Most tables of a query: 16.
pub const TABLES_MAX: usize = 16;

/// Names of a single table beside its own.
const ONLY_NAMES: [&str; 3] = ["records", "data", "t"];

/// Answers a query in SQL about the sources that `read` returns.
///
/// # Errors
/// [`ExtractError`], as described in the WIT.
pub fn extract_sql(
    sources: &[Source],
    sql: &Sql,
    budget: Budget,
    read: &mut ReadSource<'_>,
) -> Result<Answer, ExtractError> {
    check(sources)?;
    let invalid = |text: String| Err(ExtractError::Invalid(text));
    if sources.is_empty() || sources.len() > TABLES_MAX || sources.len() != sql.tables.len() {
        return invalid(format!("sources: SQL takes 1 to {TABLES_MAX} with a name each, not {}", sources.len()));
    }
    if let Some(source) = sources.iter().find(|source| source.kind != FileKind::Records) {
        return invalid(format!("source: {} has no records to query; search it", source.name));
    }
    if sql.limit.is_some_and(|limit| limit == 0 || limit > LIMIT_MAX) {
        return invalid(format!("limit: must be between 1 and {LIMIT_MAX}"));
    }
    let tables: Vec<Table> = (0..sources.len()).map(|number| table(sources, number, sql, read)).collect();
    let statement = Statement::read(&sql.query, &tables).map_err(|error| explained(error, None))?;
    let end = sql.limit.map_or(u64::MAX, |limit| sql.offset.saturating_add(u64::from(limit)));
    let (mut answer, mut total, mut line) = (Lines::new(budget), 0, String::new());
    let mut scan = Scan { sources, read, examined: 0, failure: None };
    let run = statement.run(&mut |table, fields, each| scan.table(table, fields, each), |row| {
        if total >= sql.offset && total < end && !answer.is_full() {
            line.clear();
            write_row(&statement, row, &mut line)?;
            answer.push(&line);
        }
        total += 1;
        Ok(Flow::More)
    });
    let notes = run.map_err(|error| explained(error, scan.failure))?;
    Ok(Answer { notes, ..answer.answer(total, total, scan.examined) })
}

fn table(sources: &[Source], number: usize, sql: &Sql, read: &mut ReadSource<'_>) -> Table {
    let Some(source) = sources.get(number) else { return Table::default() };
    let mut names: Vec<String> = sql.tables.get(number).cloned().into_iter().collect();
    if sources.len() == 1 {
        names.extend(ONLY_NAMES.map(str::to_owned));
    }
    let (fields, is_scalar) = near::keys(source, &mut |offset, length| read(number, offset, length));
    Table { names, fields, is_scalar }
}

/// The error of a query, or what made its scan fail.
fn explained(error: Error, failure: Option<ExtractError>) -> ExtractError {
    match (error, failure) {
        (_, Some(failure)) => failure,
        (Error::Limit(text), _) => ExtractError::Limit(text),
        (Error::UnknownColumn { name, columns }, _) => near::ranked(&name, columns),
        (error, _) => ExtractError::Invalid(error.to_string()),
    }
}

/// Scans of the files.
struct Scan<'a, 'r> {
    sources: &'a [Source],
    read: &'a mut ReadSource<'r>,
    /// Records so far.
    examined: u64,
    /// What made a scan fail.
    failure: Option<ExtractError>,
}

/// Why the records of a scan ended before the last one.
enum End {
    /// Whoever asks needs no more.
    Enough,
    Query(Error),
}

impl Scan<'_, '_> {
    /// Calls `each` with the fields of all records of a file. A field that no record has is an error, also when not all records
    /// are needed.
    fn table(&mut self, number: usize, fields: &[Vec<Step>], each: &mut Visit<'_>) -> Result<(), Error> {
        let Some(source) = self.sources.get(number) else { return Err(Error::Scan) };
        let mut all = Fields::default();
        let ids: Vec<_> = fields.iter().map(|steps| all.add_steps(spelled(steps), steps.clone())).collect();
        let (mut finder, mut is_enough, mut end) = (all.finder(), false, None);
        let read = &mut |offset, length| (self.read)(number, offset, length);
        // The error of a closure that ends the scan is replaced by `end`.
        let ended = || ExtractError::Invalid(String::new());
        let scanned = lines::each_run(source, read, |offset, run| {
            finder.scan(offset, run, |record| {
                let damaged = |_| ExtractError::Damaged(record.number);
                all.note(&record).map_err(damaged)?;
                if !is_enough {
                    let values = ids.iter().map(|id| all.value(&record, *id)).collect::<Result<Vec<_>, _>>();
                    match each(&values.map_err(damaged)?) {
                        Ok(Flow::More) => {}
                        Ok(Flow::Stop) => is_enough = true,
                        Err(Error::Damaged) => return Err(ExtractError::Damaged(record.number)),
                        Err(error) => {
                            end = Some(End::Query(error));
                            return Err(ended());
                        }
                    }
                }
                if is_enough && all.first_unseen().is_none() {
                    end = Some(End::Enough);
                    return Err(ended());
                }
                Ok(())
            })
        });
        self.examined += finder.examined;
        let failure = match (end, scanned) {
            (Some(End::Query(error)), _) => return Err(error),
            (Some(End::Enough), _) => return Ok(()),
            (None, Err(failure)) => failure,
            (None, Ok(())) => match all.first_unseen() {
                Some(field) if finder.examined > 0 => near::unknown_column(source, read, field),
                _ => return Ok(()),
            },
        };
        self.failure = Some(failure);
        Err(Error::Scan)
    }
}

fn spelled(steps: &[Step]) -> String {
    let keys: Vec<String> = steps.iter().map(|step| String::from_utf8_lossy(&step.key).into_owned()).collect();
    path::spelled(&keys)
}
