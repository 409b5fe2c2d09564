//! Any query on any bytes has an answer of JSON lines or an error. Where the bytes are records, each of them is
//! examined, and a jq program on reduced records answers like one on whole records.
#![no_main]

use std::collections::HashSet;

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use lro_answer::bindings::lro::filter::types::{
    Aggregate, AggregateKind, Condition, Group, Operator, Query, Selection, SortKey, Test,
};
use lro_answer::{Answer, Argument, Budget, ExtractError, FileKind, Jq, Question, Source, extract};
use serde_json::value::RawValue;

const ROOMY: Budget = Budget { bytes: 1 << 24, tokens: 1 << 24 };

const FIELDS: [&str; 8] = ["a", "b", "a.b", "/a/0", "/b~1", "", "a.b.c", "\u{e9}"];
const VALUES: [&str; 12] = [
    "0",
    "1.0",
    "-1e400",
    "\"a\"",
    "\"\\u0061\"",
    "null",
    "true",
    "[1,\"a\"]",
    "{\"a\":[]}",
    "\"^a.*$\"",
    "9e99999999",
    "",
];
const OPERATORS: [Operator; 12] = [
    Operator::Eq,
    Operator::Ne,
    Operator::Lt,
    Operator::Le,
    Operator::Gt,
    Operator::Ge,
    Operator::OneOf,
    Operator::Contains,
    Operator::StartsWith,
    Operator::Matches,
    Operator::Exists,
    Operator::IsNull,
];
const AGGREGATES: [AggregateKind; 5] =
    [AggregateKind::Count, AggregateKind::Sum, AggregateKind::Min, AggregateKind::Max, AggregateKind::Avg];
/// Programs that terminate: nothing stops one here.
const PROGRAMS: [&str; 8] =
    [".", ".a", ".a.b?, .[0]?", "tojson | fromjson", "[.. | numbers] | add", "keys", "$x, length", "sort_by(.a)?"];

/// Keys and values of records.
const MEMBERS: [&str; 4] = ["\"c\"", "\"a\"", "\"b\"", "\"\u{e9}\""];
const JSON: [&str; 16] = [
    "0",
    "1.0",
    "1",
    "-2.5",
    "-0",
    "1e1000",
    "9007199254740993",
    "\"a\"",
    "\"\\u0061\"",
    "\"b\\\"}\"",
    "null",
    "true",
    "false",
    "[1,\"a\"]",
    "{\"c\":1,\"a\":{}}",
    "[]",
];

/// Comparisons and transformations for programs. Some of them fail.
const LITERALS: [&str; 10] = ["0", "1.0", "-2.5", "1e1000", "\"a\"", "\"\\u0061\"", "null", "true", "[1]", "$x"];
const COMPARISONS: [&str; 6] = ["==", "!=", "<", "<=", ">", ">="];
const RESULTS: [&str; 14] = [
    ".a",
    ".b.c",
    ".",
    "[.a, .b]",
    "{a, x: .b}",
    ".a, length",
    "keys",
    "del(.a)",
    ".a |= 1",
    "has(\"c\")",
    "\"\\(.a) \\(.[\"b\"])\"",
    ".a as {$b} | $b",
    ".a, error(.b)",
    "select(.b > .a) | .c?",
];

fn field(input: &mut Unstructured<'_>) -> Result<String> {
    Ok((*input.choose(&FIELDS)?).to_owned())
}

fn value(input: &mut Unstructured<'_>) -> Result<String> {
    if input.ratio(1, 4)? { input.arbitrary() } else { Ok((*input.choose(&VALUES)?).to_owned()) }
}

fn some<T>(input: &mut Unstructured<'_>, mut one: impl FnMut(&mut Unstructured<'_>) -> Result<T>) -> Result<Vec<T>> {
    let count = input.int_in_range(0..=3)?;
    (0..count).map(|_| one(input)).collect()
}

fn condition(input: &mut Unstructured<'_>) -> Result<Condition> {
    let steps = |input: &mut Unstructured<'_>| some(input, |input| input.int_in_range(0..=3));
    Ok(match input.int_in_range(0..=9)? {
        0 => Condition::All(steps(input)?),
        1 => Condition::Any(steps(input)?),
        2 => Condition::Negation(input.int_in_range(0..=3)?),
        _ => Condition::Test(Test {
            field: field(input)?,
            operator: *input.choose(&OPERATORS)?,
            value: if input.ratio(1, 8)? { None } else { Some(value(input)?) },
            ignore_case: input.arbitrary()?,
            parameter: None,
        }),
    })
}

fn selection(input: &mut Unstructured<'_>) -> Result<Selection> {
    Ok(Selection { field: field(input)?, name: if input.arbitrary()? { Some(input.arbitrary()?) } else { None } })
}

fn aggregate(input: &mut Unstructured<'_>) -> Result<Aggregate> {
    let kind = *input.choose(&AGGREGATES)?;
    Ok(Aggregate { kind, field: if input.arbitrary()? { Some(field(input)?) } else { None }, name: None })
}

fn query(input: &mut Unstructured<'_>) -> Result<Query> {
    let group = |input: &mut Unstructured<'_>| -> Result<Group> {
        Ok(Group { by: some(input, selection)?, aggregates: some(input, aggregate)? })
    };
    Ok(Query {
        where_: some(input, condition)?,
        group: if input.ratio(1, 3)? { Some(group(input)?) } else { None },
        select: some(input, selection)?,
        distinct: input.arbitrary()?,
        sort: some(input, |input| Ok(SortKey { field: field(input)?, descending: input.arbitrary()? }))?,
        sample: if input.ratio(1, 8)? { Some(input.int_in_range(0..=9)?) } else { None },
        count: input.arbitrary()?,
        offset: input.int_in_range(0..=4)?,
        limit: if input.arbitrary()? { Some(input.int_in_range(0..=9)?) } else { None },
    })
}

fn jq(input: &mut Unstructured<'_>) -> Result<Jq> {
    let arguments = vec![Argument { name: "x".to_owned(), value: value(input)? }];
    Ok(Jq { filter: (*input.choose(&PROGRAMS)?).to_owned(), slurp: input.arbitrary()?, arguments })
}

/// A program that reads few members of a record.
fn selecting(input: &mut Unstructured<'_>) -> Result<String> {
    let test = |input: &mut Unstructured<'_>| -> Result<String> {
        let key = if input.arbitrary()? { "a" } else { "b" };
        Ok(format!(".{key} {} {}", input.choose(&COMPARISONS)?, input.choose(&LITERALS)?))
    };
    let (tests, results) = (some(input, test)?, *input.choose(&RESULTS)?);
    Ok(if tests.is_empty() { results.to_owned() } else { format!("select({}) | {results}", tests.join(" and ")) })
}

fn question(input: &mut Unstructured<'_>) -> Result<Question> {
    Ok(if input.ratio(1, 4)? { Question::Jq(jq(input)?) } else { Question::Query(query(input)?) })
}

fn record(input: &mut Unstructured<'_>) -> Result<String> {
    let mut members = Vec::new();
    for key in MEMBERS {
        if input.ratio(3, 4)? {
            let space = if input.ratio(1, 8)? { " " } else { "" };
            members.push(format!("{space}{key}:{space}{}", input.choose(&JSON)?));
        }
    }
    Ok(format!("{{{}}}\n", members.join(",")))
}

/// Any bytes, or records.
fn file(mut input: Unstructured<'_>) -> Result<Vec<u8>> {
    if input.arbitrary()? {
        return Ok(input.take_rest().to_vec());
    }
    let count = input.int_in_range(1..=6)?;
    let records = (0..count).map(|_| record(&mut input)).collect::<Result<Vec<_>>>()?;
    Ok(records.concat().into_bytes())
}

/// Queries bytes that are read at most `cut` at a time.
fn ask(bytes: &[u8], cut: usize, question: &Question, budget: Budget) -> std::result::Result<Answer, ExtractError> {
    let (name, section, length) = ("fuzz".to_owned(), "fuzz".to_owned(), bytes.len() as u64);
    let source = Source { name, directory: 0, section, kind: FileKind::Records, start: 0, bytes: length, records: 0 };
    extract(&[source], question, budget, &mut |_, offset, length| {
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        Ok(rest[..cut.min(length as usize).min(rest.len())].to_vec().into())
    })
}

fn check(answer: &Answer, budget: Budget) {
    assert!(answer.lines.len() <= budget.bytes as usize);
    assert!(answer.lines.is_empty() || answer.lines.ends_with('\n'));
    assert_eq!(answer.lines.lines().count() as u64, answer.results);
    for line in answer.lines.lines() {
        serde_json::from_str::<&RawValue>(line).expect("a line is JSON");
    }
    assert!(answer.results <= answer.total && answer.matched <= answer.examined, "{answer:?}");
}

/// Whether each line is a JSON object with distinct keys.
fn is_records(text: &str) -> bool {
    text.lines().all(|line| {
        let Ok(members) = lro_json::members(line) else { return false };
        let keys: HashSet<&str> = members.iter().map(|member| member.key).collect();
        serde_json::from_str::<&RawValue>(line).is_ok() && keys.len() == members.len()
    })
}

fn all() -> Question {
    Question::Query(Query {
        where_: Vec::new(),
        group: None,
        select: Vec::new(),
        distinct: false,
        sort: Vec::new(),
        sample: None,
        count: false,
        offset: 0,
        limit: Some(1000),
    })
}

/// A program gives the same results on each record as on the elements of an array, where it gets whole records.
fn check_jq(bytes: &[u8], filter: String, value: String) {
    let answer = |filter: String, slurp| {
        let arguments = vec![Argument { name: "x".to_owned(), value: value.clone() }];
        ask(bytes, usize::MAX, &Question::Jq(Jq { filter, slurp, arguments }), ROOMY)
    };
    let whole = answer(format!(".[] | try ({filter}) catch empty"), true);
    if let (Ok(each), Ok(whole)) = (answer(filter.clone(), false), whole) {
        assert_eq!(each.lines, whole.lines, "{filter}");
        assert_eq!(each.total, whole.total, "{filter}");
    }
}

fn run(mut input: Unstructured<'_>) -> Result<()> {
    let (question, cut) = (question(&mut input)?, input.int_in_range(1..=200)?);
    let budget = Budget { bytes: input.int_in_range(0..=4000)?, tokens: input.int_in_range(0..=1000)? };
    let (filter, value) = (selecting(&mut input)?, value(&mut input)?);
    let file = file(input)?;
    let bytes = file.as_slice();
    let answer = ask(bytes, cut, &question, budget);
    if let Ok(answer) = &answer {
        check(answer, budget);
    }
    // The boundaries of reads only affect which of several damaged records is found first.
    let again = ask(bytes, usize::MAX, &question, budget);
    if !matches!((&answer, &again), (Err(ExtractError::Damaged(_)), Err(ExtractError::Damaged(_)))) {
        assert_eq!(format!("{answer:?}"), format!("{again:?}"), "{question:?}");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
    if text.lines().count() < 1000 && !text.contains('\r') && is_records(text) {
        assert!(!matches!(answer, Err(ExtractError::Damaged(_))), "{answer:?}");
        check_jq(bytes, filter, value);
        let answer = ask(bytes, cut, &all(), ROOMY).expect("records");
        assert!(answer.lines.lines().eq(text.lines()), "{answer:?}");
        assert_eq!(answer.examined, text.lines().count() as u64);
    }
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    // An input that is too short for a query is skipped.
    let _ = run(Unstructured::new(data));
});
