//! Random queries on random records give the same results as a naive evaluation on parsed values.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::cmp::Ordering;

use lro_answer::bindings::lro::filter::types::{AggregateKind, Condition, Operator, Query, Test};
use lro_answer::{Budget, ExtractError, Question};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;
use support::{ROOMY, aggregate, all, ask_cut, ask_in_parts};

/// A value with its spelling.
#[derive(Clone, Debug)]
enum Spelled {
    Plain(&'static str),
    Array(Vec<Self>),
    Object(Vec<(&'static str, Self)>),
}

/// Values in several spellings, so that they are often equal but not identical.
const PLAIN: [&str; 38] = [
    "null",
    "true",
    "false",
    "0",
    "-0.0",
    "1",
    "1.0",
    "10e-1",
    "2",
    "-1",
    "-1.50",
    "-1.5",
    "0.25",
    "100",
    "1e2",
    "1E+2",
    "9007199254740993",
    "9007199254740992",
    "123456789012345678901234567",
    "123456789012345678901234567.0",
    "0.000000001",
    "-12345678901234567890",
    "\"\"",
    "\"a\"",
    "\"\\u0061\"",
    "\"A\"",
    "\"ab\"",
    "\"a\\\"b\"",
    "\"a\\\\\"",
    "\"{[:,\\n\"",
    "\"é\"",
    "\"É\"",
    "\"\\u00e9\"",
    "\"東京 📦\"",
    "\"\\ud83d\\udce6\"",
    "\"1\"",
    "\"null\"",
    "\"abcdefghijklmnopqrstuvwxyz abcdefghijklmnopqrstuvwxyz\"",
];

const KEYS: [&str; 9] = ["a", "b", "\\u0061", "c d", "e.f", "g/h", "é", "long_key_name", "q\\\"\\\\"];

const FIELDS: [&str; 16] = [
    "a",
    "b",
    "/b",
    "a.b",
    "a.0",
    "/a/1/b",
    "c d",
    "/e.f",
    "/g~1h",
    "é",
    "long_key_name",
    "/q\"\\",
    "b.a",
    "",
    "nowhere",
    "a.b.a",
];

/// All of the keys but one.
const COMPLETE: &str = r#"{"a":{"b":{"a":1},"0":2,"1":{"b":3}},"b":{"a":4},"c d":5,"e.f":"x","g/h":null,"é":true,"long_key_name":[1],"q\"\\":{}}"#;

fn value() -> impl Strategy<Value = Spelled> {
    let plain = select(PLAIN.as_slice()).prop_map(Spelled::Plain);
    plain.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Spelled::Array),
            vec((select(KEYS.as_slice()), inner), 0..4).prop_map(Spelled::Object),
        ]
    })
}

fn record() -> impl Strategy<Value = Spelled> {
    prop_oneof![
        19 => vec((select(KEYS.as_slice()), value()), 0..7).prop_map(Spelled::Object),
        1 => value(),
    ]
}

/// The records as lines; `complete` with one that has every field, and the last line feed only if it `ends`.
fn document(records: &[Spelled], space: &str, complete: bool, ends: bool) -> String {
    let mut text = String::new();
    for record in records {
        write(&mut text, record, space);
        text.push('\n');
    }
    if complete {
        text.push_str(COMPLETE);
        text.push('\n');
    }
    if !ends {
        text.pop();
    }
    text
}

fn write(out: &mut String, value: &Spelled, space: &str) {
    match value {
        Spelled::Plain(text) => out.push_str(text),
        Spelled::Array(elements) => {
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(space);
                write(out, element, space);
            }
            out.push(']');
        }
        Spelled::Object(members) => {
            out.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                out.push_str(&format!("{space}\"{key}\"{space}:{space}"));
                write(out, value, space);
            }
            out.push('}');
        }
    }
}

fn operator() -> impl Strategy<Value = Operator> {
    select(vec![
        Operator::Eq,
        Operator::Ne,
        Operator::Lt,
        Operator::Le,
        Operator::Gt,
        Operator::Ge,
        Operator::OneOf,
        Operator::Contains,
        Operator::StartsWith,
        Operator::Exists,
        Operator::IsNull,
    ])
}

fn field() -> impl Strategy<Value = String> {
    select(FIELDS.as_slice()).prop_map(str::to_owned)
}

fn test() -> impl Strategy<Value = Condition> {
    (field(), operator(), vec(value(), 1..4), select(PLAIN.as_slice()), any::<bool>()).prop_map(
        |(field, operator, values, plain, ignore_case)| {
            let mut text = String::new();
            match operator {
                Operator::OneOf => write(&mut text, &Spelled::Array(values), ""),
                Operator::Lt | Operator::Le | Operator::Gt | Operator::Ge if !"ntf".contains(&plain[..1]) => {
                    text.push_str(plain);
                }
                Operator::Lt | Operator::Le | Operator::Gt | Operator::Ge => text.push('1'),
                Operator::StartsWith => text.push_str(if plain.starts_with('"') { plain } else { "\"a\"" }),
                Operator::Exists | Operator::IsNull => {}
                _ => write(&mut text, &values[0], ""),
            }
            let value = (!text.is_empty()).then_some(text);
            Condition::Test(Test { field, operator, value, ignore_case, parameter: None })
        },
    )
}

fn condition() -> impl Strategy<Value = Vec<Condition>> {
    (vec(test(), 0..4), any::<bool>(), any::<bool>()).prop_map(|(mut steps, any, negated)| {
        let tests = steps.len() as u32;
        if tests > 0 {
            let all = (0..tests).collect();
            steps.push(if any { Condition::Any(all) } else { Condition::All(all) });
            if negated {
                steps.push(Condition::Negation(tests));
            }
        }
        steps
    })
}

fn query() -> impl Strategy<Value = Query> {
    let groups = option::weighted(0.3, vec(field(), 0..3));
    let shape = (vec(field(), 0..3), vec((field(), any::<bool>()), 0..3));
    (condition(), groups, shape, any::<bool>(), any::<bool>(), 0..3_u64, 1..8_u32).prop_map(
        |(where_, by, (mut select, sort), distinct, count, offset, limit)| {
            select.dedup();
            let names: Vec<&str> = select.iter().map(String::as_str).collect();
            let mut query =
                Query { where_, select: support::select(&names), distinct, offset, limit: Some(limit), ..all() };
            query.count = count && offset == 0;
            for (field, descending) in sort {
                query.sort.extend(support::sort(&field, descending));
            }
            if let Some(mut by) = by {
                by.dedup();
                let names: Vec<&str> = by.iter().map(String::as_str).collect();
                let kinds = [AggregateKind::Sum, AggregateKind::Min, AggregateKind::Max, AggregateKind::Avg];
                let mut aggregates: Vec<_> = kinds.into_iter().map(|kind| aggregate(kind, "a")).collect();
                aggregates.push(aggregate(AggregateKind::Count, "b"));
                aggregates.push(aggregate(AggregateKind::Count, ""));
                query.group = support::group(&names, aggregates);
                query.select.clear();
                query.sort.retain(|key| by.contains(&key.field));
            }
            query
        },
    )
}

fn steps(field: &str) -> Vec<String> {
    match field.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect(),
        None if field.is_empty() => Vec::new(),
        None => field.split('.').map(str::to_owned).collect(),
    }
}

fn find<'a>(record: &'a Value, field: &str) -> Option<&'a Value> {
    steps(field).iter().try_fold(record, |value, step| match value {
        Value::Object(members) => members.get(step),
        Value::Array(elements) => elements.get(step.parse::<usize>().ok()?),
        _ => None,
    })
}

/// A number in units of 10⁻⁹.
fn amount(number: &str) -> i128 {
    let (digits, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let power = 9 + power.parse::<i32>().unwrap() - fraction.len() as i32;
    let mantissa: i128 = format!("{whole}{fraction}").parse().unwrap();
    if power < 0 { mantissa / 10_i128.pow(-power as u32) } else { mantissa * 10_i128.pow(power as u32) }
}

fn rank(value: Option<&Value>) -> u8 {
    match value {
        None => 0,
        Some(Value::Null) => 1,
        Some(Value::Bool(false)) => 2,
        Some(Value::Bool(true)) => 3,
        Some(Value::Number(_)) => 4,
        Some(Value::String(_)) => 5,
        Some(Value::Array(_)) => 6,
        Some(Value::Object(_)) => 7,
    }
}

fn compare(left: Option<&Value>, right: Option<&Value>) -> Ordering {
    match (left, right) {
        (Some(Value::Number(left)), Some(Value::Number(right))) => {
            amount(&left.to_string()).cmp(&amount(&right.to_string()))
        }
        (Some(Value::String(left)), Some(Value::String(right))) => left.cmp(right),
        (Some(Value::Array(left)), Some(Value::Array(right))) => {
            let unequal = left.iter().zip(right).map(|(left, right)| compare(Some(left), Some(right)));
            unequal.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Some(Value::Object(left)), Some(Value::Object(right))) => {
            let sorted = |members: &serde_json::Map<String, Value>| {
                let mut members: Vec<_> = members.clone().into_iter().collect();
                members.sort_by(|left, right| left.0.cmp(&right.0));
                members
            };
            let (left, right) = (sorted(left), sorted(right));
            let keys = left.iter().map(|member| &member.0).cmp(right.iter().map(|member| &member.0));
            keys.then_with(|| {
                let orders = left.iter().zip(&right).map(|(left, right)| compare(Some(&left.1), Some(&right.1)));
                orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            })
        }
        _ => rank(left).cmp(&rank(right)),
    }
}

fn fold(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(text.to_lowercase()),
        Value::Array(elements) => elements.iter().map(fold).collect(),
        Value::Object(members) => members.iter().map(|(key, value)| (key.clone(), fold(value))).collect(),
        other => other.clone(),
    }
}

fn passes(record: &Value, test: &Test) -> bool {
    let Some(value) = find(record, &test.field) else { return false };
    let wanted: Value = test.value.as_deref().map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
    let (value, wanted) = if test.ignore_case { (fold(value), fold(&wanted)) } else { (value.clone(), wanted) };
    let equal = |left: &Value, right: &Value| {
        let left = if right.is_number() { numeric(left) } else { left.clone() };
        compare(Some(&left), Some(right)).is_eq()
    };
    let value = if wanted.is_number() && test.operator != Operator::Contains { numeric(&value) } else { value };
    let comparable = rank(Some(&value)) == rank(Some(&wanted)) && matches!(value, Value::Number(_) | Value::String(_));
    let order = compare(Some(&value), Some(&wanted));
    match test.operator {
        Operator::Eq => equal(&value, &wanted),
        Operator::Ne => !equal(&value, &wanted),
        Operator::Lt => comparable && order.is_lt(),
        Operator::Le => comparable && order.is_le(),
        Operator::Gt => comparable && order.is_gt(),
        Operator::Ge => comparable && order.is_ge(),
        Operator::OneOf => wanted.as_array().unwrap().iter().any(|wanted| equal(&value, wanted)),
        Operator::Contains => match (&value, &wanted) {
            (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
            (Value::Array(elements), wanted) => elements.iter().any(|element| match (element, wanted) {
                (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
                _ => equal(element, wanted),
            }),
            _ => false,
        },
        Operator::StartsWith => match (&value, &wanted) {
            (Value::String(text), Value::String(part)) => text.starts_with(part.as_str()),
            _ => false,
        },
        Operator::Exists => true,
        Operator::IsNull => value.is_null(),
        Operator::Matches => false,
    }
}

fn holds(record: &Value, steps: &[Condition], index: usize) -> bool {
    match &steps[index] {
        Condition::Test(test) => passes(record, test),
        Condition::All(all) => all.iter().all(|step| holds(record, steps, *step as usize)),
        Condition::Any(any) => any.iter().any(|step| holds(record, steps, *step as usize)),
        Condition::Negation(step) => !holds(record, steps, *step as usize),
    }
}

fn object(record: &Value, fields: &[lro_answer::bindings::lro::filter::types::Selection]) -> Value {
    let members =
        fields.iter().filter_map(|selection| Some((selection.field.clone(), find(record, &selection.field)?.clone())));
    Value::Object(members.collect())
}

/// All fields of the query, in the order in which a missing one is reported.
fn named(query: &Query) -> Vec<&str> {
    let tests = query.where_.iter().filter_map(|step| match step {
        Condition::Test(test) => Some(test.field.as_str()),
        _ => None,
    });
    let sort = query.sort.iter().filter(|_| query.group.is_none()).map(|key| key.field.as_str());
    let select = query.select.iter().map(|selection| selection.field.as_str());
    let group = query.group.iter().flat_map(|group| {
        let by = group.by.iter().map(|selection| selection.field.as_str());
        by.chain(group.aggregates.iter().filter_map(|aggregate| aggregate.field.as_deref()))
    });
    tests.chain(sort).chain(select).chain(group).collect()
}

/// A floating point number as JSON.
fn spelled(amount: f64) -> String {
    let magnitude = amount.abs();
    if magnitude == 0.0 || (1e-5..1e17).contains(&magnitude) { amount.to_string() } else { format!("{amount:e}") }
}

/// A text that is a number as that number.
fn numeric(value: &Value) -> Value {
    let number = value.as_str().and_then(|text| serde_json::from_str::<serde_json::Number>(text.trim()).ok());
    number.map_or_else(|| value.clone(), Value::Number)
}

fn grouped(records: &[&Value], group: &lro_answer::bindings::lro::filter::types::Group) -> Vec<Value> {
    let mut groups: Vec<(Vec<Option<Value>>, Vec<&Value>)> = Vec::new();
    if group.by.is_empty() {
        groups.push((Vec::new(), Vec::new()));
    }
    for record in records {
        let key: Vec<Option<Value>> = group.by.iter().map(|by| find(record, &by.field).cloned()).collect();
        let same = |other: &Vec<Option<Value>>| {
            other.iter().zip(&key).all(|(left, right)| compare(left.as_ref(), right.as_ref()).is_eq())
        };
        match groups.iter_mut().find(|(other, _)| same(other)) {
            Some((_, members)) => members.push(record),
            None => groups.push((key, vec![record])),
        }
    }
    let has_numbers = records.iter().any(|record| find(record, "a").is_some_and(|value| numeric(value).is_number()));
    let is_compared = if has_numbers { Value::is_number } else { Value::is_string };
    groups
        .into_iter()
        .map(|(key, members)| {
            let mut result = serde_json::Map::new();
            for (by, value) in group.by.iter().zip(key) {
                if let Some(value) = value {
                    result.insert(by.field.clone(), value);
                }
            }
            let values: Vec<Value> = members.iter().filter_map(|record| find(record, "a")).map(numeric).collect();
            let numbers: Vec<&Value> = values.iter().filter(|value| value.is_number()).collect();
            let compared: Vec<&Value> = values.iter().filter(|value| is_compared(value)).collect();
            let mut ordered = compared.clone();
            ordered.sort_by(|left, right| compare(Some(left), Some(right)));
            let (mut integers, mut units, mut rest, mut exact) = (0_i128, 0_i128, 0.0, true);
            for number in &numbers {
                match number.to_string().parse::<i128>() {
                    Ok(integer) => integers += integer,
                    Err(_) => {
                        let amount = number.to_string().parse::<f64>().unwrap();
                        match amount * 2_f64.powi(80) {
                            exact if exact.abs() < 2_f64.powi(126) && exact.fract() == 0.0 => units += exact as i128,
                            _ => rest += amount,
                        }
                        exact = false;
                    }
                }
            }
            let sum = integers as f64 + (units as f64 / 2_f64.powi(80) + rest);
            let float = |amount: f64| serde_json::from_str(&spelled(amount)).unwrap();
            let exact_sum = serde_json::from_str(&integers.to_string()).unwrap();
            result.insert("sum_a".to_owned(), if exact { exact_sum } else { float(sum) });
            result.insert("min_a".to_owned(), ordered.first().map_or(Value::Null, |value| (*value).clone()));
            // The first of equal ones.
            let max = ordered
                .last()
                .and_then(|last| compared.iter().find(|number| compare(Some(number), Some(last)).is_eq()).copied());
            result.insert("max_a".to_owned(), max.cloned().unwrap_or(Value::Null));
            let avg = if numbers.is_empty() { Value::Null } else { float(sum / numbers.len() as f64) };
            result.insert("avg_a".to_owned(), avg);
            result.insert(
                "count_b".to_owned(),
                members.iter().filter(|record| find(record, "b").is_some()).count().into(),
            );
            result.insert("count".to_owned(), members.len().into());
            Value::Object(result)
        })
        .collect()
}

/// The results, their number and that of the matching records; or the first field that no record has.
fn naive<'q>(records: &[Value], query: &'q Query) -> Result<(Vec<Value>, u64, u64), &'q str> {
    if !records.is_empty()
        && let Some(field) =
            named(query).into_iter().find(|field| records.iter().all(|record| find(record, field).is_none()))
    {
        return Err(field);
    }
    let counts = |record: &&Value| query.where_.is_empty() || holds(record, &query.where_, query.where_.len() - 1);
    let matching: Vec<&Value> = records.iter().filter(counts).collect();
    let groups = query.group.as_ref().map(|group| grouped(&matching, group));
    let sources: Vec<&Value> = groups.as_ref().map_or_else(|| matching.clone(), |groups| groups.iter().collect());
    // Names of group fields are plain keys, whatever characters they contain.
    let by_name = |value: &'_ Value, field: &str| match groups {
        Some(_) => value.as_object().and_then(|members| members.get(field)).cloned(),
        None => find(value, field).cloned(),
    };
    let mut results: Vec<(&Value, Value)> = Vec::new();
    for source in sources {
        let result = if query.select.is_empty() { source.clone() } else { object(source, &query.select) };
        if !query.distinct || !results.iter().any(|(_, other)| compare(Some(other), Some(&result)).is_eq()) {
            results.push((source, result));
        }
    }
    let ranked = |value: &Value, field: &str| by_name(value, field).as_ref().map(numeric);
    results.sort_by(|left, right| {
        let orders = query.sort.iter().map(|key| {
            let order = compare(ranked(left.0, &key.field).as_ref(), ranked(right.0, &key.field).as_ref());
            if key.descending { order.reverse() } else { order }
        });
        orders.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let total = results.len() as u64;
    if query.count {
        return Ok((vec![serde_json::json!({ "count": total })], 1, matching.len() as u64));
    }
    let wanted = results.into_iter().map(|(_, result)| result).skip(query.offset as usize);
    Ok((wanted.take(query.limit.unwrap() as usize).collect(), total, matching.len() as u64))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn queries_give_what_a_naive_evaluation_gives(
        records in vec(record(), 0..12),
        query in query(),
        cut in prop_oneof![1..9_usize, 50..200_usize],
        space in select(vec!["", "", " ", " \t"]),
        (complete, ends) in (prop::bool::weighted(0.8), any::<bool>()),
    ) {
        let text = document(&records, space, complete, ends);
        let parsed: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let answer = ask_cut(text.as_bytes(), cut, &Question::Query(query.clone()), ROOMY);
        match (naive(&parsed, &query), answer) {
            (Ok((results, total, matched)), Ok(answer)) => {
                let lines: Vec<Value> = answer.lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                prop_assert_eq!(lines, results);
                prop_assert_eq!(
                    (answer.total, answer.matched, answer.examined),
                    (total, matched, parsed.len() as u64)
                );
            }
            (Err(field), Err(ExtractError::UnknownField(unknown))) => prop_assert_eq!(unknown.field, field),
            (naive, answer) => prop_assert!(false, "{naive:?} but {answer:?}"),
        }
    }

    #[test]
    fn parts_of_the_records_merge_to_the_answer_about_all(
        records in vec(record(), 0..24),
        query in query(),
        bytes in prop_oneof![1 => Just(1 << 20), 1 => 0..400_u32],
        (complete, ends) in (prop::bool::weighted(0.8), any::<bool>()),
    ) {
        let text = document(&records, "", complete, ends);
        let budget = Budget { bytes, ..ROOMY };
        let whole = ask_cut(text.as_bytes(), usize::MAX, &Question::Query(query.clone()), budget);
        for most in [1, 2, 3, 7] {
            match ask_in_parts(text.as_bytes(), most, &query, budget) {
                Err(ExtractError::Invalid(why)) if query.group.is_some() => {
                    prop_assert!(most > 1 && why.contains("the order of the records"), "{why}");
                }
                Err(ExtractError::Invalid(_)) => prop_assert!(query.distinct),
                merged => prop_assert_eq!(format!("{merged:?}"), format!("{whole:?}"), "{} parts", most),
            }
        }
    }

    #[test]
    fn damaged_files_end_in_an_error_or_an_answer(
        bytes in vec(prop_oneof![
            10 => select(b"{}[]\":,\\\n a1e.-".as_slice()),
            1 => any::<u8>(),
        ], 0..200),
        query in query(),
        cut in 1..300_usize,
    ) {
        if let Ok(answer) = ask_cut(&bytes, cut, &Question::Query(query.clone()), ROOMY) {
            prop_assert!(answer.lines.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()));
        }
        if let Ok(merged) = ask_in_parts(&bytes, 3, &query, ROOMY) {
            let whole = ask_cut(&bytes, usize::MAX, &Question::Query(query.clone()), ROOMY).unwrap();
            prop_assert_eq!(format!("{merged:?}"), format!("{whole:?}"));
        }
        let program = support::jq("[.[]?] | length");
        if let Ok(answer) = ask_cut(&bytes, cut, &program, ROOMY) {
            prop_assert!(bytes.is_empty() || answer.examined > 0);
        }
    }
}
