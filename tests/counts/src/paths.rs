//! The paths. Each checks what came out, so that no wrong answer is counted.

use std::convert::Infallible;
use std::fmt::Write;

use bytes::Bytes;
use lro_answer::bindings::lro::filter::types::{Condition, Operator, Query, Test};
use lro_answer::{Budget, FileKind, Jq, Question, Source, extract};
use lro_jsonl::{FileReport, Options, Output, Section, Shape, Splitter, Stream, Target};
use lro_mcp::ToolResult;
use lro_redact::{Redactor, Rules};
use serde_json::Value;

use crate::synthetic;

/// Records of 207 bytes.
const RECORDS: usize = 5_000;

/// Bytes read at a time: 256 KiB, as a policy reads.
const SLICE_BYTES: usize = 256 * 1024;

/// Validates a document.
pub(crate) fn scan() -> Box<dyn FnMut()> {
    let document = synthetic::payload(RECORDS);
    Box::new(move || lro_json::validate(&document).expect("JSON"))
}

/// Takes a message apart whose text is serialized JSON, and whose structured content is the same.
pub(crate) fn take_apart() -> Box<dyn FnMut()> {
    let document = synthetic::payload(RECORDS);
    let text = serde_json::to_string(&document).expect("a string");
    let message = Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{document}}}}}"#
    ));
    Box::new(move || {
        let result = ToolResult::parse(message.clone()).expect("a tool result");
        assert_eq!(result.payload().size(), document.len() as u64, "the text is a copy");
    })
}

/// Unescapes a text that is serialized JSON.
pub(crate) fn unescape() -> Box<dyn FnMut()> {
    let document = synthetic::payload(RECORDS);
    let text = serde_json::to_string(&document).expect("a string");
    let mut output = vec![0; text.len()];
    Box::new(move || {
        let inside = &text.as_bytes()[1..text.len() - 1];
        assert_eq!(lro_json::decode_string(inside, &mut output), (inside.len(), document.len()));
    })
}

/// Writes the records of a section as lines.
pub(crate) fn sections() -> Box<dyn FnMut()> {
    split(synthetic::payload(RECORDS), false)
}

/// The same, with schema and summary of every record.
pub(crate) fn profile() -> Box<dyn FnMut()> {
    split(synthetic::payload(RECORDS), true)
}

/// The same of a document with a line for each member, as most servers write it.
pub(crate) fn indented() -> Box<dyn FnMut()> {
    let document: Value = serde_json::from_str(&synthetic::payload(RECORDS)).expect("JSON");
    split(serde_json::to_string_pretty(&document).expect("a document"), true)
}

fn split(document: String, profile: bool) -> Box<dyn FnMut()> {
    Box::new(move || {
        let section = Section { pointer: "/results".to_owned(), shape: Shape::Elements };
        let mut count = Count::default();
        let options =
            Options { inline_bytes: 512, inline_total: 320, profile, sections: vec![section], ..Options::default() };
        let mut splitter = Splitter::new(options, &mut count);
        slices(&document).for_each(|slice| splitter.push(slice).expect("JSON"));
        splitter.finish().expect("a whole document");
        assert_eq!(count.lines, RECORDS);
    })
}

/// Redacts records with an e-mail address each.
pub(crate) fn redaction() -> Box<dyn FnMut()> {
    let mut document = String::from("{\"people\":[");
    for id in 0..RECORDS {
        let (comma, note) = (if id > 0 { "," } else { "" }, "lorem ipsum dolor sit amet ".repeat(id % 4));
        let _ = write!(
            document,
            r#"{comma}{{"id":{id},"name":"Person {id}","score":0.{:06},"note":"{note}","tags":["red","p0"],"meta":{{"owner":"team-{}","mail":"person.{id}@example.com"}}}}"#,
            id * 7919 % 1_000_000,
            id % 12,
        );
    }
    document += "]}";
    let rules = Rules::default();
    Box::new(move || {
        let (mut redactor, mut out) = (Redactor::new(&rules, true), String::new());
        slices(&document).for_each(|slice| redactor.push(slice, &mut out));
        redactor.finish(&mut out);
        assert_eq!(out.matches("[redacted]").count(), RECORDS);
    })
}

/// Counts the records that fulfil two conditions.
pub(crate) fn question() -> Box<dyn FnMut()> {
    let test = |field: &str, operator, value: &str| {
        let (field, value) = (field.to_owned(), Some(value.to_owned()));
        Condition::Test(Test { field, operator, value, ignore_case: false, parameter: None })
    };
    let conditions = vec![
        test("category", Operator::Eq, "\"billing\""),
        test("score", Operator::Gt, "0.9"),
        Condition::All(vec![0, 1]),
    ];
    ask(Question::Query(Query {
        where_: conditions,
        group: None,
        select: Vec::new(),
        distinct: false,
        sort: Vec::new(),
        sample: None,
        count: true,
        offset: 0,
        limit: None,
    }))
}

/// Runs a jq program that needs a value for each record.
pub(crate) fn jq() -> Box<dyn FnMut()> {
    let filter = r#"select(.title | test("invoice.*7")) | .meta"#.to_owned();
    ask(Question::Jq(Jq { filter, slurp: false, arguments: Vec::new() }))
}

fn ask(question: Question) -> Box<dyn FnMut()> {
    let document = synthetic::payload(RECORDS);
    let records =
        lro_json::members(&document).expect("an object").into_iter().find(|member| member.key == "\"results\"");
    let records = lro_json::elements(records.expect("records").value).expect("an array");
    let lines: String = records.iter().flat_map(|record| [record, "\n"]).collect();
    let (name, section) = ("results.jsonl".to_owned(), "results".to_owned());
    let (bytes, records) = (lines.len() as u64, RECORDS as u64);
    let sources = [Source { name, directory: 0, section, kind: FileKind::Records, start: 0, bytes, records }];
    Box::new(move || {
        let budget = Budget { bytes: 1 << 20, tokens: 1 << 20 };
        let answer = extract(&sources, &question, budget, &mut |_, offset, length| {
            let rest = lines.as_bytes().get(offset as usize..).unwrap_or_default();
            Ok(rest.get(..rest.len().min(length as usize)).unwrap_or_default().to_vec())
        });
        assert!(answer.expect("an answer").results > 0);
    })
}

fn slices(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (slice, rest) = text.split_at(text.floor_char_boundary(SLICE_BYTES));
        text = rest;
        (!slice.is_empty()).then_some(slice)
    })
}

/// Counts the lines of what the splitter writes.
#[derive(Default)]
struct Count {
    lines: usize,
}

impl Output for Count {
    type Error = Infallible;

    fn begin(&mut self, _: Target<'_>) -> Result<(), Infallible> {
        Ok(())
    }

    fn write(&mut self, _: Stream, _: &[u8]) -> Result<(), Infallible> {
        Ok(())
    }

    fn end(&mut self, _: Stream, report: FileReport) -> Result<(), Infallible> {
        self.lines += usize::try_from(report.records).unwrap_or_default();
        Ok(())
    }
}
