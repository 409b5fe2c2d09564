//! Any SQL on any bytes has an answer of JSON objects or an error. The input is the query, an empty line, and the records.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lro_answer::{Budget, FileKind, Source, Sql, extract_sql};
use serde_json::value::RawValue;

const BUDGET: Budget = Budget { bytes: 1 << 16, tokens: 1 << 16 };

fuzz_target!(|input: &[u8]| {
    let end = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
    let (query, records) = input.split_at(end);
    let Ok(query) = str::from_utf8(query) else { return };
    let records = records.get(2..).unwrap_or_default();
    let (name, section, length) = ("fuzz".to_owned(), "t".to_owned(), records.len() as u64);
    let source = Source { name, directory: 0, section, kind: FileKind::Records, start: 0, bytes: length, records: 0 };
    let sql = Sql { query: query.to_owned(), tables: vec!["t".to_owned()], offset: 0, limit: None };
    let answer = extract_sql(&[source], &sql, BUDGET, &mut |_, offset, length| {
        let rest = records.get(offset as usize..).unwrap_or_default();
        Ok(rest[..(length as usize).min(rest.len())].to_vec())
    });
    let Ok(answer) = answer else { return };
    assert!(answer.lines.len() <= BUDGET.bytes as usize && answer.results <= answer.total);
    assert_eq!(answer.lines.lines().count() as u64, answer.results);
    for line in answer.lines.lines() {
        assert!(line.starts_with('{'), "{line}");
        serde_json::from_str::<&RawValue>(line).expect("a line is JSON");
    }
});
