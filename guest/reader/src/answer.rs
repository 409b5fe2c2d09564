//! Answers to questions.

use lro_answer::plain::question_error;
use lro_answer::{Answer as Found, ExtractError, Source, extract as answered, extract_jq, extract_sql, with_files};
use lro_contract::query::Query;
use lro_reading::tool::{self, Asked, ExtractArguments, Failure, answer_json, result_of};
use lro_reading::{Answer, Budget, Question, Sql, Table, asked_budget, files, fitted, sql_tables};

use crate::bindings::exports::lro::adapter::reading::Caller;
use crate::offload::Offload;

/// The call of `lro_extract` with these arguments.
pub(crate) fn extract(caller: &Caller, arguments: &str) -> Result<String, Failure> {
    let json = match tool::extract(arguments)? {
        ExtractArguments::Tables { sql, from } => {
            let offloads = from.iter().map(|table| Offload::find(caller, &table.handle));
            let offloads = offloads.collect::<Result<Vec<_>, _>>()?;
            let names = from.iter().map(|table| (table.section.as_deref(), table.name.as_deref()));
            about_tables(caller, &offloads, names, &sql)?
        }
        ExtractArguments::One { handle, section, asked } => {
            let offload = Offload::find(caller, &handle)?;
            let (section, question) = match asked {
                Asked::Question(question) => (section, question),
                Asked::Recipe(recipe) => recipe.question(&offload.record)?,
                Asked::Sql(sql) => {
                    let json = about_tables(caller, &[offload], [(section.as_deref(), None)], &sql)?;
                    return Ok(result_of(&json, &json));
                }
            };
            let answer = about(caller, &offload, section.as_deref(), &question)?;
            answer_json(&answer, &question, None)?
        }
    };
    Ok(result_of(&json, &json))
}

fn budget(caller: &Caller) -> Budget {
    Budget { bytes: caller.answer_bytes, tokens: caller.answer_tokens }
}

/// The answer to a question about one offload.
fn about(caller: &Caller, offload: &Offload, section: Option<&str>, question: &Question) -> Result<Answer, Failure> {
    let files = files(&offload.record, section, question)?;
    if let (Question::Query(query), [file]) = (question, files.as_slice())
        && query.counts_all()
    {
        return Ok(Answer::of_count(file.records));
    }
    let (fitted, notes) = fitted(question, &files);
    let asked = lro_answer::Question::from(&fitted);
    let budget = budget(caller);
    let mut sources = Vec::with_capacity(files.len());
    for file in files {
        offload.open(file)?.verify()?;
        sources.push(Source { directory: offload.directory, ..file.into() });
    }
    // A program over all records together has one answer, whatever the offset.
    if let (Question::Jq(jq), lro_answer::Question::Jq(program)) = (question, &asked)
        && !jq.slurp
    {
        jq.check_limit()?;
        let end = jq.offset.saturating_add(jq.limit.map_or(u64::MAX, u64::from));
        let budget = budget.capped();
        let found = with_files(&sources, |read| extract_jq(&sources, program, jq.offset..end, budget.into(), read));
        return Ok(checked(found, &asked)?.of_jq(jq, budget)?);
    }
    let of_component = asked_budget(question, budget)?;
    let found = with_files(&sources, |read| answered(&sources, &asked, of_component.into(), read));
    let mut answer = checked(found, &asked)?.of_question(question, of_component, budget)?;
    answer.notes.extend(notes);
    Ok(answer)
}

/// The answer to a query about sections of these offloads, as JSON; each has a section and the name of its table, or neither.
fn about_tables<'a>(
    caller: &Caller,
    offloads: &'a [Offload],
    names: impl IntoIterator<Item = (Option<&'a str>, Option<&'a str>)>,
    sql: &Sql,
) -> Result<String, Failure> {
    let sections = offloads.iter().zip(names).map(|(offload, (section, name))| (&offload.record, section, name));
    let (mut sources, mut tables) = (Vec::new(), Vec::new());
    for Table { offload, file, name } in sql_tables(sections, sql)? {
        let Some(offload) = offloads.get(offload) else { continue };
        offload.open(file)?.verify()?;
        sources.push(Source { directory: offload.directory, ..file.into() });
        tables.push(name);
    }
    let asked = lro_answer::Sql { query: sql.query.clone(), tables, offset: sql.offset, limit: sql.limit };
    let budget = budget(caller).capped();
    let found = with_files(&sources, |read| extract_sql(&sources, &asked, budget.into(), read));
    let answer = checked(found, &lro_answer::Question::Sql(asked))?.of_sql(sql, budget)?;
    // What is left is asked for as with a typed query.
    answer_json(&answer, &Question::Query(Query::default()), None)
}

fn checked(found: Result<Found, ExtractError>, asked: &lro_answer::Question) -> Result<Answer, Failure> {
    Ok(found.map_err(|error| question_error(error, asked))?.into())
}
