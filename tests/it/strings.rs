//! Texts and bytes in strings of JSON: in files as if each were a part of the result.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lro_host::extract::{Budget, Query, Question};
use lro_host::filter::Offloaded;
use lro_host::sandbox::Payload;
use lro_host::store::{FileKind, FileRecord, Form, Origin};
use lro_jsonl::Measure;
use lro_tests::{always, check_on_unix, extractor, filter, offloaded, request, structured, text};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Most memory of the default policy, whatever the size of the result.
const MEMORY_BYTES_MAX: usize = 8 << 20;

/// A published result, kept as long as this lives.
struct Published {
    offloaded: Offloaded,
    descriptor: Value,
    _root: TempDir,
}

impl Published {
    fn sections(&self) -> Vec<&str> {
        self.offloaded.offload.record().files.iter().map(|file| file.section.as_str()).collect()
    }

    fn file(&self, section: &str) -> &FileRecord {
        let mut files = self.offloaded.offload.record().files.iter();
        files.find(|file| file.section == section).unwrap_or_else(|| panic!("no `{section}`: {}", self.descriptor))
    }

    fn bytes(&self, section: &str) -> Vec<u8> {
        std::fs::read(self.offloaded.offload.path().join(&self.file(section).name)).unwrap()
    }

    fn records(&self, section: &str) -> Vec<Value> {
        let text = String::from_utf8(self.bytes(section)).unwrap();
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Publishes a document as structured content and as a text, which give the same files, and checks that nothing is lost.
fn publish(document: &str) -> Published {
    let payloads: [Arc<Payload>; 2] = [structured(document.to_owned()), text(document.to_owned())];
    let [one, other] = payloads.map(|payload| {
        let root = TempDir::new().unwrap();
        let input = root.path().join("input");
        std::fs::write(&input, document).unwrap();
        let decision = filter(&root.path().join("store")).apply(&request(always()), &payload);
        for cost in [decision.inspect, decision.write].into_iter().flatten() {
            assert!(cost.memory_bytes < MEMORY_BYTES_MAX, "{} bytes of memory", cost.memory_bytes);
        }
        let offloaded = offloaded(decision);
        check_on_unix(&[&"lossless", &offloaded.offload.path(), &input]);
        check_on_unix(&[&"summary", &offloaded.offload.path()]);
        let descriptor = serde_json::from_str(&offloaded.descriptor).unwrap();
        Published { offloaded, descriptor, _root: root }
    });
    assert_eq!(one.sections(), other.sections());
    one
}

fn rows(count: usize) -> Vec<Value> {
    (0..count).map(|id| json!({"id": id, "name": format!("row {id} \"é\"")})).collect()
}

fn log() -> String {
    let line = |number: usize| format!("2026-11-20 09:00:{:02} INFO shop: \"order\" {number}\t\\ é\n", number % 60);
    (0..3_000).map(line).collect()
}

#[test]
fn json_in_a_string_is_records() {
    let document = json!({"items": rows(600), "total": 600}).to_string();
    for (value, section, pointer, content) in [
        (json!({"result": json!(rows(600)).to_string()}), "result", "/result", json!(rows(600)).to_string()),
        (json!({"status": 200, "body": document}), "body", "/body", document.clone()),
        (json!([{"type": "text", "text": document}]), "text", "/0/text", document.clone()),
        (json!({"content": [{"type": "text", "text": document}]}), "text", "/content/0/text", document.clone()),
    ] {
        let published = publish(&value.to_string());
        let original = published.file(&format!("{section}_original"));
        assert_eq!((original.kind, original.origin), (FileKind::Text, Origin::Content));
        assert_eq!((original.pointer.as_deref(), original.media_type.as_str()), (Some(pointer), "application/json"));
        assert_eq!(published.bytes(&original.section), content.as_bytes(), "the string is kept byte for byte");
        let records = published.file(section);
        assert_eq!((records.origin, records.form), (Origin::RecordsOfText, Some(Form::JsonWithin)));
        assert_eq!(records.derived_from.as_ref(), Some(&original.name));
        assert_eq!(published.records(section), rows(600));
        // A question that names no section is about the records.
        let count = Question::Query(Query { count: true, ..Query::default() });
        let answer = extractor().ask(&published.offloaded.offload, None, &count, Budget::default()).unwrap();
        assert_eq!(answer.lines, "{\"count\":600}\n");
    }
    let published = publish(&json!({"status": 200, "body": document}).to_string());
    assert_eq!((&published.descriptor["status"], &published.descriptor["total"]), (&200.into(), &600.into()));
    let two = json!({"body": json!({"items": rows(400), "users": rows(300)}).to_string()});
    assert_eq!(publish(&two.to_string()).sections(), ["body_original", "items", "users"]);
}

// Servers that pass on what an API answers as JSON make a text such a string.
#[test]
fn a_text_that_is_a_string_is_read_without_its_escapes() {
    let json = json!({"items": rows(600), "total": 600}).to_string();
    let csv: String = (0..3_000).map(|id| format!("{id};\"a; b\";é\r\n")).collect();
    let csv = format!("id;name;letter\r\n{csv}");
    for (content, sections, records) in [
        (json.clone(), vec!["text_original", "text"], Some(600)),
        (csv.clone(), vec!["text_original", "text"], Some(3_000)),
        (log(), vec!["text", "outline"], None),
        (nested(&json, 2), vec!["text_original", "s1_original", "s2_original", "s2"], Some(600)),
    ] {
        let published = publish(&format!(" {} \n", Value::from(content.clone())));
        assert_eq!(published.sections(), sections);
        let original = published.file(sections[0]);
        assert_eq!((original.origin, original.pointer.as_deref()), (Origin::Content, Some("")));
        assert_eq!(published.bytes(sections[0]), content.as_bytes());
        let count = Question::Query(Query { count: true, ..Query::default() });
        let answer = extractor().ask(&published.offloaded.offload, None, &count, Budget::default());
        assert_eq!(answer.ok().map(|answer| answer.lines), records.map(|count| format!("{{\"count\":{count}}}\n")));
    }
    let bytes: Vec<u8> = (0..90_000_u32).flat_map(u32::to_le_bytes).collect();
    let published = publish(&Value::from(STANDARD.encode(&bytes)).to_string());
    assert_eq!((published.sections(), published.bytes("text")), (vec!["text"], bytes));
    // Quotation marks around the first cell, and two strings.
    for text_part in [format!("\"id\"{}", &csv[2..]), "\"a b\" \"c\"\n".repeat(900)] {
        let root = TempDir::new().unwrap();
        let offloaded = offloaded(filter(root.path()).apply(&request(always()), &text(text_part.clone())));
        let record = offloaded.offload.record();
        let file = record.files.iter().find(|file| file.section == "text").unwrap();
        assert_eq!(std::fs::read_to_string(offloaded.offload.path().join(&file.name)).unwrap(), text_part);
    }
}

/// JSON in a string of JSON, so many times.
fn nested(content: &str, times: usize) -> String {
    (1..=times)
        .rev()
        .fold(content.to_owned(), |inner, level| json!({"level": level, format!("s{level}"): inner}).to_string())
}

#[test]
fn json_in_strings_in_strings_is_records_to_a_depth_of_four() {
    let items = json!({"items": rows(600), "total": 600}).to_string();
    let published = publish(&nested(&items, 3));
    assert_eq!(published.sections(), ["s1_original", "s2_original", "s3_original", "s3"]);
    let outermost = published.file("s1_original").name.clone();
    for (section, pointer) in [("s2_original", "/s1/s2"), ("s3_original", "/s1/s2/s3")] {
        let file = published.file(section);
        let expected = (FileKind::Text, Origin::RecordsOfText, Some(Form::JsonWithin));
        assert_eq!((file.kind, file.origin, file.form), expected);
        assert_eq!((file.pointer.as_deref(), file.derived_from.as_ref()), (Some(pointer), Some(&outermost)));
    }
    assert_eq!(published.bytes("s3_original"), items.as_bytes());
    assert_eq!(published.records("s3"), rows(600));
    assert_eq!((&published.descriptor["level"], &published.descriptor["total"]), (&1.into(), &600.into()));
    let mut once = Measure::text();
    once.push(&String::from_utf8(published.bytes("s1_original")).unwrap());
    assert_eq!(published.offloaded.offloaded_tokens, once.tokens(), "the data counts once");

    let deep = publish(&nested(&items, 6));
    assert_eq!(deep.sections(), ["s1_original", "s2_original", "s3_original", "s4_original", "s5"]);
    assert_eq!(deep.file("s5").kind, FileKind::Value);
    let kept: Value = serde_json::from_slice(&deep.bytes("s4_original")).unwrap();
    assert_eq!(kept["s5"].as_str().unwrap(), json!({"level": 6, "s6": items}).to_string(), "nothing is lost below");
}

// Six of the result, and six inside of them, the longest first.
#[test]
fn many_strings_in_strings_are_a_few_files() {
    let inner =
        |outer: usize, number: usize| json!({"n": number, "of": outer, "text": "x".repeat(9_000 + number)}).to_string();
    let members =
        |outer: usize| (0..10).map(|number| (format!("m{outer}_{number}"), inner(outer, number).into())).collect();
    let outer = |outer: usize| (format!("o{outer}"), Value::String(Value::Object(members(outer)).to_string()));
    let published = publish(&Value::Object((0..9).map(outer).collect()).to_string());
    let texts = published.sections().into_iter().filter(|section| section.ends_with("_original")).count();
    assert_eq!(texts, 12, "{:?}", published.sections());
    assert!(published.sections().len() < 100, "{:?}", published.sections());
}

#[test]
fn a_log_in_a_string_in_a_string_has_an_outline_and_bytes_are_bytes() {
    let png = [b"\x89PNG\r\n\x1a\n".to_vec(), vec![7; 30_000]].concat();
    let body = json!({"stdout": log(), "image": STANDARD.encode(&png)}).to_string();
    let published = publish(&json!({"status": 200, "body": body}).to_string());
    assert_eq!(published.sections(), ["body_original", "stdout", "outline", "image"]);
    assert_eq!((published.bytes("stdout"), published.bytes("image")), (log().into_bytes(), png));
    let content = Some(&published.file("body_original").name);
    for section in ["stdout", "outline", "image"] {
        assert_eq!(published.file(section).derived_from.as_ref(), content, "{section}");
    }
}

#[test]
fn a_table_in_a_string_is_records() {
    let csv: String =
        std::iter::once("id,name\n".to_owned()).chain((0..900).map(|id| format!("{id},n{id}\n"))).collect();
    let columns = json!({"columns": ["id", "name"], "rows": (0..900).map(|id| json!([id, format!("n{id}")])).collect::<Vec<_>>()});
    for (content, form) in
        [(csv, Form::Delimited { delimiter: ',', header: true }), (columns.to_string(), Form::JsonColumns)]
    {
        let published = publish(&json!({"ok": true, "data": content}).to_string());
        assert_eq!(published.bytes("data_original"), content.as_bytes());
        assert_eq!(published.file("data").form, Some(form));
        assert_eq!(published.records("data")[7], json!({"id": 7, "name": "n7"}));
        assert_eq!(published.descriptor["ok"], true);
    }
    // A row that does not fit makes the table a document again.
    let rows = (0..9_000).map(|id| json!([id, "x"])).chain([json!([1])]).collect::<Vec<_>>();
    let published = publish(&json!({"data": json!({"columns": ["id", "n"], "rows": rows}).to_string()}).to_string());
    assert_eq!((published.file("data").form, published.file("data").records), (Some(Form::JsonWithin), 9_001));
}

#[test]
fn a_text_in_a_string_has_an_outline() {
    let published = publish(&json!({"stdout": log(), "stderr": "", "exit_code": 0}).to_string());
    assert_eq!(published.sections(), ["stdout", "outline"]);
    assert_eq!(published.bytes("stdout"), log().as_bytes());
    let (text, outline) = (published.file("stdout"), published.file("outline"));
    assert_eq!((text.kind, text.records, text.media_type.as_str()), (FileKind::Text, 3_000, "text/plain"));
    assert_eq!((outline.origin, outline.derived_from.as_ref()), (Origin::Outline, Some(&text.name)));
    let descriptor = &published.descriptor;
    assert!(
        descriptor["summary"]["stdout"]["kind"].as_str().unwrap().starts_with("log of 3,000 lines"),
        "{descriptor}"
    );
    assert_eq!((&descriptor["stderr"], &descriptor["exit_code"]), (&"".into(), &0.into()));
    // Beside records.
    let published = publish(&json!({"items": rows(600), "log": log()}).to_string());
    assert_eq!(published.sections(), ["items", "log", "outline"]);
}

#[test]
fn base64_in_a_string_is_bytes() {
    let png: Vec<u8> = b"\x89PNG\r\n\x1a\n"
        .iter()
        .copied()
        .chain((0..20_000).map(|index: u32| ((index * index) >> 5) as u8))
        .collect();
    let base64 = STANDARD.encode(&png);
    for (prefix, shown) in [("", None), ("data:image/png;base64,", Some("data:image/png;base64,…"))] {
        let published = publish(&json!({"url": "http://x", "shot": format!("{prefix}{base64}")}).to_string());
        let file = published.file("shot");
        assert_eq!(
            (file.kind, file.name.as_str(), file.media_type.as_str()),
            (FileKind::Bytes, "shot.png", "image/png")
        );
        assert_eq!((file.pointer.as_deref(), published.bytes("shot")), (Some("/shot"), png.clone()));
        assert_eq!(published.descriptor["summary"]["shot"]["bytes"], png.len());
        assert_eq!(published.descriptor["shot"].as_str(), shown);
    }
    // What its bytes would not be written as is a text.
    for broken in [base64.trim_end_matches('=').to_owned() + "A", base64.replace('+', "-"), format!("{base64}\n")] {
        let published = publish(&json!({"shot": broken}).to_string());
        assert_eq!((published.file("shot").kind, published.bytes("shot")), (FileKind::Text, broken.into_bytes()));
    }
    // In records it stays, and the summary says so.
    let images: Vec<Value> = (0..20).map(|id| json!({"id": id, "file": {"data": base64[..8_000]}})).collect();
    let published = publish(&json!({"images": images}).to_string());
    assert_eq!(published.descriptor["summary"]["images"]["base64"], json!({"file.data": "image/png"}));
}

// Of two values of a key the first; not half of a surrogate pair; not the strings of records.
#[test]
fn strings_that_are_no_texts_stay_values() {
    let long = "x y ".repeat(4_000);
    let published = publish(&format!(r#"{{"a":"{long}","a":"second {long}","n":1}}"#));
    assert_eq!((published.bytes("a"), published.sections().len()), (long.clone().into_bytes(), 2));
    let published = publish(&format!(r#"{{"a":"{long}\ud800","n":1}}"#));
    assert_eq!((published.file("a").kind, published.sections().len()), (FileKind::Value, 1));
    let records: Vec<Value> = (0..8).map(|id| json!({"id": id, "html": long})).collect();
    assert_eq!(publish(&json!({"pages": records}).to_string()).sections(), ["pages"]);
}
