//! Runs one query on a JSON Lines file and prints the answer and the time taken:
//!
//! `extract FILE [where FIELD OP JSON]… [select FIELD]… [group FIELD]… [sort FIELD | desc FIELD]… [sample N] [count]
//! [distinct] [limit N]` or `extract FILE jq PROGRAM`, `extract FILE slurp PROGRAM`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use lro_answer::bindings::lro::filter::types::{Condition, Group, Operator, Query, Selection, SortKey, Test};
use lro_answer::{Budget, FileKind, Jq, Question, Source, extract};

fn main() {
    let mut words = std::env::args().skip(1);
    let Some(name) = words.next() else {
        eprintln!("extract FILE …: see the beginning of the source");
        std::process::exit(2);
    };
    if let Err(error) = run(&name, words) {
        eprintln!("{name}: {error}");
        std::process::exit(1);
    }
}

fn run(name: &str, words: impl Iterator<Item = String>) -> Result<(), String> {
    let question = question(words)?;
    let file = File::open(name).map_err(|error| error.to_string())?;
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    let (name, section) = (name.to_owned(), String::new());
    let source = Source { name, directory: 0, section, kind: FileKind::Records, start: 0, bytes, records: 0 };
    let begin = Instant::now();
    let mut slice = Vec::new();
    let answer = extract(&[source], &question, Budget { bytes: 1 << 16, tokens: 1 << 14 }, &mut |_, offset, length| {
        slice.resize(length as usize, 0);
        let read = file.read_at(&mut slice, offset).map_err(|error| error.to_string())?;
        slice.truncate(read);
        Ok(std::mem::take(&mut slice))
    });
    let elapsed = begin.elapsed();
    match answer {
        Ok(answer) => {
            print!("{}", answer.lines);
            eprintln!("{} of {}, {} of {} records", answer.results, answer.total, answer.matched, answer.examined);
        }
        Err(error) => eprintln!("{error:?}"),
    }
    eprintln!("{:.1} ms, {:.0} MB/s", elapsed.as_secs_f64() * 1e3, bytes as f64 / 1e6 / elapsed.as_secs_f64());
    Ok(())
}

fn question(mut words: impl Iterator<Item = String>) -> Result<Question, String> {
    let mut query = Query {
        where_: Vec::new(),
        group: None,
        select: Vec::new(),
        distinct: false,
        sort: Vec::new(),
        sample: None,
        count: false,
        offset: 0,
        limit: None,
    };
    while let Some(word) = words.next() {
        let mut next = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "jq" | "slurp" => {
                return Ok(Question::Jq(Jq { filter: next()?, slurp: word == "slurp", arguments: Vec::new() }));
            }
            "where" => {
                let (field, operator) = (next()?, operator(&next()?)?);
                let value = if matches!(operator, Operator::Exists | Operator::IsNull) { None } else { Some(next()?) };
                let test = Test { field, operator, value, ignore_case: false, parameter: None };
                query.where_.push(Condition::Test(test));
            }
            "select" => query.select.push(Selection { field: next()?, name: None }),
            "group" => {
                let group = query.group.get_or_insert_with(|| Group { by: Vec::new(), aggregates: Vec::new() });
                group.by.push(Selection { field: next()?, name: None });
            }
            "sort" => query.sort.push(SortKey { field: next()?, descending: false }),
            "desc" => query.sort.push(SortKey { field: next()?, descending: true }),
            "sample" => query.sample = Some(next()?.parse().map_err(|_| "sample needs a number")?),
            "limit" => query.limit = Some(next()?.parse().map_err(|_| "limit needs a number")?),
            "distinct" => query.distinct = true,
            "count" => query.count = true,
            _ => return Err(format!("unknown clause: {word}")),
        }
    }
    if !query.where_.is_empty() {
        query.where_.push(Condition::All((0..query.where_.len() as u32).collect()));
    }
    Ok(Question::Query(query))
}

fn operator(word: &str) -> Result<Operator, String> {
    Ok(match word {
        "eq" => Operator::Eq,
        "ne" => Operator::Ne,
        "lt" => Operator::Lt,
        "le" => Operator::Le,
        "gt" => Operator::Gt,
        "ge" => Operator::Ge,
        "one-of" => Operator::OneOf,
        "contains" => Operator::Contains,
        "starts-with" => Operator::StartsWith,
        "matches" => Operator::Matches,
        "exists" => Operator::Exists,
        "is-null" => Operator::IsNull,
        _ => return Err(format!("unknown operator: {word}")),
    })
}
