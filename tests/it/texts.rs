//! Texts: their records, their outlines, and the original beside both.

use std::fmt::Write as _;
use std::sync::Arc;

use lro_host::extract::{
    Aggregate, AggregateKind, Budget, ExtractError, Group, Query, Question, QuestionError, Selection,
};
use lro_host::filter::{Filter, Offloaded};
use lro_host::policy::{DEFAULT_POLICY, Policy};
use lro_host::sandbox::types::Abilities;
use lro_host::sandbox::{Limits, Part, Payload, Sandbox};
use lro_host::settings::{DescriptorLevel, PolicySettings};
use lro_host::store::{FileKind, FileRecord, Form, Origin};
use lro_tests::{
    always, extractor, filter, filter_with, offloaded, patient, request, structured, text, with_directory,
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Most memory of the default policy, whatever the size of the result.
const MEMORY_BYTES_MAX: usize = 8 << 20;

/// Rows of the tables.
const ROWS: usize = 600;

/// One text in files, kept as long as this lives.
struct Published {
    offloaded: Offloaded,
    descriptor: Value,
    _root: TempDir,
}

impl Published {
    fn files(&self) -> &[FileRecord] {
        &self.offloaded.offload.record().files
    }

    fn file(&self, section: &str) -> &FileRecord {
        let found = self.files().iter().find(|file| file.section == section);
        found.unwrap_or_else(|| panic!("no section `{section}`: {}", self.descriptor))
    }

    fn bytes(&self, section: &str) -> Vec<u8> {
        std::fs::read(self.offloaded.offload.path().join(&self.file(section).name)).unwrap()
    }

    fn records(&self, section: &str) -> Vec<Value> {
        let text = String::from_utf8(self.bytes(section)).unwrap();
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn publish_with(settings: PolicySettings, content: &str) -> Published {
    let root = TempDir::new().unwrap();
    let decision = filter(root.path()).apply(&request(settings), &text(content.to_owned()));
    for cost in [decision.inspect, decision.write].into_iter().flatten() {
        assert!(cost.memory_bytes < MEMORY_BYTES_MAX, "{} bytes of memory", cost.memory_bytes);
    }
    let offloaded = offloaded(decision);
    let descriptor = serde_json::from_str(&offloaded.descriptor).unwrap();
    let published = Published { offloaded, descriptor, _root: root };
    assert_eq!(published.bytes("text"), content.as_bytes(), "the text is kept byte for byte");
    let original = published.file("text");
    assert_eq!((original.kind, original.origin), (FileKind::Text, Origin::Content));
    for file in published.files() {
        published.offloaded.offload.open(&file.name).unwrap().verify().unwrap();
    }
    published
}

fn publish(content: &str) -> Published {
    publish_with(always(), content)
}

/// City `number` of the tables.
fn city(number: usize) -> (usize, String, usize) {
    (number, format!("city {number} é漢"), number % 7)
}

fn cities(row: impl Fn(usize, &str, usize) -> String) -> String {
    let rows = (0..ROWS).map(city).map(|(id, name, zone)| row(id, &name, zone));
    rows.collect()
}

fn city_records() -> Vec<Value> {
    (0..ROWS).map(city).map(|(id, name, zone)| json!({"id": id, "name": name, "zone": zone})).collect()
}

/// The same rows in every form, with their names in the manifest and in words.
fn forms() -> Vec<(String, Form, &'static str)> {
    let csv = |delimiter: char| Form::Delimited { delimiter, header: true };
    let line = |id: usize, name: &str, zone: usize| format!(r#"{{"id":{id},"name":"{name}","zone":{zone}}}"#);
    let values = |between: &str| (0..ROWS).map(city).map(|(a, b, c)| line(a, &b, c)).collect::<Vec<_>>().join(between);
    let python = cities(|id, name, zone| format!("{{'id': {id}, 'name': '{name}', 'zone': {zone}}}, "));
    let psql = cities(|id, name, zone| format!(" {id:>4} | {name:<20} | {zone:>4}\n"));
    vec![
        (format!("id,name,zone\n{}", cities(|a, b, c| format!("{a},\"{b}\",{c}\r\n"))), csv(','), "CSV with header"),
        (format!("id\tname\tzone\n{}", cities(|a, b, c| format!("{a}\t{b}\t{c}\n"))), csv('\t'), "TSV with header"),
        (format!("id, name, zone\n{}", cities(|a, b, c| format!("{a},  \"{b}\", {c}\n"))), csv(','), "CSV with header"),
        (
            format!("sep=;\r\nid;name;zone\r\n{}", cities(|a, b, c| format!("{a};{b};{c}\r\n"))),
            csv(';'),
            "cells with `;` between them with header",
        ),
        (values("\n"), Form::JsonLines, "JSON Lines"),
        (values(""), Form::JsonSequence, "JSON values one after another"),
        (format!("Found {ROWS} cities:\n\n[{}]\n", values(", ")), Form::JsonWithin, "JSON inside text"),
        (
            format!("| id | name | zone |\n|---|---|---|\n{}", cities(|a, b, c| format!("| {a} | {b} | {c} |\n"))),
            Form::MarkdownTable,
            "Markdown table",
        ),
        (
            format!("  id  | name                 | zone\n------+----------------------+------\n{psql}({ROWS} rows)\n"),
            Form::AlignedTable,
            "aligned table",
        ),
        (format!("[{}]", python.trim_end_matches(", ")), Form::PythonLiteral, "Python literal"),
        (cities(|a, b, c| format!("- id: {a}\n  name: {b}\n  zone: {c}\n")), Form::Yaml, "YAML list"),
        (cities(|a, b, c| format!("id: {a}\nname: {b}\nzone: {c}\n\n")), Form::KeyedBlocks, "blocks of named values"),
        (
            format!(r#"{{"columns":["id","name","zone"],"rows":[{}],"of":9}}"#, json_rows()),
            Form::JsonColumns,
            "JSON table",
        ),
        (
            format!(
                r#"{{"schema":{{"fields":[{{"name":"id"}},{{"name":"name"}},{{"name":"zone"}}]}},"data":[{}]}}"#,
                json_rows()
            ),
            Form::JsonColumns,
            "JSON table",
        ),
        (format!(r#"[["id","name","zone"],{}]"#, json_rows()), Form::JsonColumns, "JSON table"),
        (format!(r#"{{"result":[["id","name","zone"],{}]}}"#, json_rows()), Form::JsonColumns, "JSON table"),
        (
            json!({
                "id": (0..ROWS).collect::<Vec<_>>(),
                "name": (0..ROWS).map(|id| city(id).1).collect::<Vec<_>>(),
                "zone": (0..ROWS).map(|id| city(id).2).collect::<Vec<_>>(),
            })
            .to_string(),
            Form::JsonColumns,
            "JSON table",
        ),
    ]
}

/// The rows of the tables as JSON arrays with commas between them.
fn json_rows() -> String {
    let rows = (0..ROWS).map(city).map(|(id, name, zone)| json!([id, name, zone]).to_string());
    rows.collect::<Vec<_>>().join(", ")
}

#[test]
fn records_in_a_text_are_a_section_beside_it() {
    for (content, form, words) in forms() {
        let published = publish(&content);
        let sections: Vec<&str> = published.files().iter().map(|file| file.section.as_str()).collect();
        assert_eq!(sections, ["text", "records"], "{words}: {:?} {:.200}", published.offloaded.notes, content);
        let records = published.file("records");
        assert_eq!((records.form, records.origin), (Some(form), Origin::RecordsOfText), "{words}");
        assert_eq!(records.derived_from.as_deref(), Some(published.file("text").name.as_str()));
        assert_eq!(published.records("records"), city_records(), "{words}");
        let summary = &published.descriptor["summary"]["records"];
        assert_eq!((&summary["count"], &summary["form"]), (&ROWS.into(), &words.into()), "{summary}");
        assert_eq!(summary["zone"]["max"], 6, "{words}: {summary}");
        assert_eq!(published.descriptor["schemas"]["records"]["name"], "string", "{words}");
    }
}

// As `kubectl get` prints it.
#[test]
fn aligned_columns_are_records() {
    let rows = cities(|id, name, zone| format!("{id:<8}{name:<24}{zone}\n"));
    let published = publish(&format!("ID      NAME                    ZONE\n{rows}"));
    assert_eq!(published.file("records").form, Some(Form::AlignedTable));
    assert_eq!(published.records("records")[9], json!({"ID": 9, "NAME": "city 9 é漢", "ZONE": 2}));
}

// The text has the tokens of the result; its records add nothing.
#[test]
fn records_of_a_text_do_not_count_twice() {
    let (csv, ..) = forms().swap_remove(0);
    let published = publish(&csv);
    assert_eq!(published.offloaded.offloaded_tokens, lro_jsonl::tokens(&csv));
}

#[test]
fn a_question_without_a_section_is_about_the_records() {
    for (content, _, words) in forms() {
        let published = publish(&content);
        let by = Selection { field: "zone".to_owned(), name: None };
        let sum = Aggregate { kind: AggregateKind::Sum, field: Some("id".to_owned()), name: None };
        let group = Some(Group { by: vec![by], aggregates: vec![sum] });
        let query = Question::Query(Query { group, limit: Some(1), ..Query::default() });
        let answer = extractor().ask(&published.offloaded.offload, None, &query, Budget::default()).unwrap();
        let sum: usize = (0..ROWS).filter(|id| id % 7 == 0).sum();
        assert_eq!(answer.lines, format!("{{\"zone\":0,\"sum_id\":{sum}}}\n"), "{words}");
    }
}

// Longer than the head that is looked at, and than the slice in which an array shows to be one of records.
#[test]
fn json_with_a_remark_behind_it_is_a_text_with_records() {
    for count in [2_000, 20_000] {
        let rows: Vec<String> =
            (0..count).map(|id| json!({"id": id, "name": format!("city {id}")}).to_string()).collect();
        let rows = rows.join(",\n  ");
        for document in [format!("[{rows}]"), format!(r#"{{"cities":[{rows}]}}"#)] {
            let content = format!("{document}\n\nPage 1 of 7. Call it again with a cursor.\n");
            let published = publish(&content);
            assert_eq!(published.bytes("text"), content.as_bytes());
            let records = published.file("records");
            assert_eq!((records.form, records.records), (Some(Form::JsonWithin), count as u64), "{count}");
            assert_eq!((records.name.as_str(), records.origin), ("records.jsonl", Origin::RecordsOfText));
            assert_eq!(published.records("records")[7], json!({"id": 7, "name": "city 7"}));
        }
    }
}

// Longer than what is searched for sections: what is behind it shows only when it is written.
#[test]
fn a_long_document_with_a_remark_behind_it_keeps_the_names_of_its_sections() {
    let rows = |count: usize| {
        let rows: Vec<String> =
            (0..count).map(|id| json!({"id": id, "name": format!("{id:>60}")}).to_string()).collect();
        rows.join(",")
    };
    let content = format!("{{\"cities\":[{}],\"users\":[{}]}}\nPage 1 of 7.\n", rows(50_000), rows(1_000));
    let published = publish(&content);
    let names: Vec<_> = published.files().iter().map(|file| (file.section.as_str(), file.name.as_str())).collect();
    assert_eq!(names, [("text", "text.txt"), ("cities", "cities.jsonl"), ("users", "users.jsonl")]);
    assert_eq!((published.bytes("text"), published.file("users").records), (content.into_bytes(), 1_000));
}

// What the head promised is not kept: the text stays, nothing that was read stays, and the log says why.
#[test]
fn a_text_that_breaks_its_form_is_a_text() {
    let breaks = [
        ("id,name\n", "7,\"Ada\"\n", "8,\"Grace\" and more\n"),
        ("id,name\n", "7,\"Ada\"\n", "8,\"an open quote\n"),
        ("{\"ids\":[", "7,\n", "8"),
    ];
    for (head, row, broken) in breaks {
        // Beyond the head that is looked at.
        let content = format!("{head}{}{broken}{}", row.repeat(40_000), if broken.ends_with('\n') { row } else { "" });
        let published = publish(&content);
        assert!(published.files().iter().all(|file| file.origin != Origin::RecordsOfText), "{broken}");
        assert!(
            published.offloaded.notes.iter().any(|note| note.contains("has no records: after")),
            "{:?}",
            published.offloaded.notes
        );
        let entries = std::fs::read_dir(published.offloaded.offload.path()).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().starts_with("records")), "{names:?}");
        assert!(published.descriptor["summary"]["text"]["kind"].is_string(), "{}", published.descriptor);
    }
}

// A log that is being written ends within a line, and Python writes NaN: the other lines are records, and it is said.
#[test]
fn lines_that_are_not_json_do_not_take_the_records_of_the_others() {
    const LINES: usize = 40_000;
    for broken in ["{\"id\":NaN}\n", "{\"id\":"] {
        let published = publish(&format!("{}{broken}", "{\"id\":7}\n".repeat(LINES)));
        let records = published.files().iter().find(|file| file.origin == Origin::RecordsOfText).unwrap();
        assert_eq!(records.records, LINES as u64, "{broken}");
        let remark = format!("1 of {} lines, the first is line {}", LINES + 1, LINES + 1);
        assert!(published.descriptor["summary"].to_string().contains(&remark), "{}", published.descriptor);
    }
    let broken = publish(&format!("[{}8", "7,\n".repeat(LINES)));
    let remark = broken.descriptor["summary"]["text"]["remark"].as_str().unwrap_or_default();
    assert!(remark.contains(&format!("line {}", LINES + 1)), "{}", broken.descriptor);
}

// A server has cut its answer, or written NaN: the elements before that are records, and it is said.
#[test]
fn elements_before_the_place_where_json_breaks_are_records() {
    let place = |id| format!("{{\"id\":{id},\"tags\":[{{}},{{}}]}}");
    for count in [600, 40_000] {
        let places: String = (0..count).map(|id| place(id) + ",\n").collect();
        for broken in [
            format!("[{places}{{\"id\":"),
            format!("{{\"total\":9,\"kinds\":[1,2],\"places\":[{places}{{\"id\":[{{}},{{}},{{"),
            format!("{{\"pages\":[{{\"places\":[{places}{{\"id\":NaN}}]}}]}}"),
            format!("\u{feff}[{places}<error>cut after 50,000 characters: call again with start_index=50000</error>"),
        ] {
            let published = publish(&broken);
            let records = published.files().iter().find(|file| file.origin == Origin::RecordsOfText).unwrap();
            assert_eq!((records.records, records.form), (count, Some(Form::JsonWithin)), "{broken:.99}");
            let records = published.bytes("records");
            assert!(records.ends_with(format!("{}\n", place(count - 1)).as_bytes()), "{broken:.99}");
            let remark = published.descriptor["summary"]["records"]["remark"].as_str().unwrap_or_default();
            assert!(remark.contains(&format!("before line {}", count + 1)), "{}", published.descriptor);
        }
    }
}

// However a text of blank lines and brackets begins, it is looked at once.
#[test]
fn blank_lines_take_no_time_to_recognize() {
    let counting = Sandbox::with_fuel().unwrap();
    let policy = Policy::from_bytes(&counting, DEFAULT_POLICY, &patient()).unwrap();
    let root = TempDir::new().unwrap();
    let limits = Limits { fuel: Some(300_000_000), ..Limits::default() };
    let filter = Filter { limits, ..filter_with(policy, root.path()) };
    for blank in ["\n", "\r\n", " \n", "\n  \n", "[\n", "{ \n"] {
        let content = blank.repeat(60_000 / blank.len());
        let decision = filter.apply(&request(always()), &text(content));
        assert!(decision.failure.is_none(), "{blank:?}: {:?}", decision.failure);
    }
}

// Structured content too; what the settings name of a document stays in the descriptor.
#[test]
fn a_table_of_structured_content_is_records() {
    let document = format!(r#"{{"columns":["id","name","zone"],"rows":[{}],"total":600}}"#, json_rows());
    let root = TempDir::new().unwrap();
    let apply = |settings| offloaded(filter(root.path()).apply(&request(settings), &structured(document.clone())));
    let found = apply(always());
    let files = &found.offload.record().files;
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["structured.json", "records.jsonl"]);
    assert_eq!((files[0].media_type.as_str(), files[1].records), ("application/json", ROWS as u64));
    assert_eq!(std::fs::read(found.offload.path().join(names[0])).unwrap(), document.as_bytes());

    let found = apply(PolicySettings { inline_keys: vec!["total".to_owned()], ..always() });
    let descriptor: Value = serde_json::from_str(&found.descriptor).unwrap();
    assert_eq!((&descriptor["total"], found.offload.record().files.len()), (&600.into(), 1), "{descriptor}");
}

// A row that does not fit makes it a document again; a second large member is not hidden behind a table.
#[test]
fn a_document_that_is_no_table_to_its_end_has_its_sections() {
    let rows = "[7,\"Ada\"],".repeat(20_000);
    let more = (0..2_000).map(|id| json!({"id": id}).to_string()).collect::<Vec<_>>().join(",");
    for document in [
        format!(r#"{{"columns":["id","name"],"rows":[{rows}[8]]}}"#),
        format!(r#"[["id","name"],{rows}{{}}]"#),
        format!(r#"{{"columns":["id","name"],"rows":[{rows}[8,"x"]],"users":[{more}]}}"#),
    ] {
        let root = TempDir::new().unwrap();
        let found = offloaded(filter(root.path()).apply(&request(always()), &text(document.clone())));
        let files = &found.offload.record().files;
        assert!(
            files.iter().all(|file| file.origin == Origin::Content && file.form.is_none()),
            "{:.99}",
            found.descriptor
        );
        assert!(files.iter().any(|file| file.records > 20_000), "{:.99}", found.descriptor);
        let listed = std::fs::read_dir(found.offload.path()).unwrap().filter_map(Result::ok);
        let listed = listed.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count();
        assert_eq!(listed, files.len() + 1, "and the manifest: {:.99}", found.descriptor);
    }
}

// Arrays side by side are held in memory, as many as fit in it.
#[test]
fn large_arrays_side_by_side_stay_in_the_memory_of_a_policy() {
    // Two arrays are in the beginning that is looked at.
    let numbers = vec!["1"; 15_000].join(",");
    for (characters, is_table) in [(130, true), (200, false)] {
        let texts = vec![format!("\"{}\"", "x".repeat(characters)); 15_000].join(",");
        let root = TempDir::new().unwrap();
        let payload = text(format!(r#"{{"a":[{numbers}],"b":[{numbers}],"c":[{texts}]}}"#));
        let decision = filter(root.path()).apply(&request(always()), &payload);
        for cost in [decision.inspect, decision.write].into_iter().flatten() {
            assert!(cost.memory_bytes < MEMORY_BYTES_MAX, "{} bytes of memory", cost.memory_bytes);
        }
        let found = offloaded(decision);
        let has_table = found.offload.record().files.iter().any(|file| file.form == Some(Form::JsonColumns));
        assert_eq!(has_table, is_table, "{characters}");
    }
}

// A type that the result does not say is that of the bytes.
#[test]
fn bytes_are_named_from_what_they_begin_with() {
    let archive = |names: &[&str]| -> Vec<u8> {
        let member = |name: &&str| {
            let mut bytes = b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0\x05\0\0\0".to_vec();
            bytes.extend([name.len() as u8, 0, 0, 0]);
            bytes.extend(name.bytes());
            bytes.extend(b"hello");
            bytes
        };
        names.iter().flat_map(member).collect()
    };
    let office = |name: &str| format!("application/vnd.openxmlformats-officedocument.{name}");
    let cases = [
        (b"%PDF-1.7\n%".to_vec(), "application/pdf".to_owned(), "pdf"),
        (b"\x89PNG\r\n\x1a\n\0".to_vec(), "image/png".to_owned(), "png"),
        (
            archive(&["[Content_Types].xml", "_rels/.rels", "word/document.xml"]),
            office("wordprocessingml.document"),
            "docx",
        ),
        (archive(&["[Content_Types].xml", "xl/workbook.xml"]), office("spreadsheetml.sheet"), "xlsx"),
        (archive(&["a.txt", "words/b.txt"]), "application/zip".to_owned(), "zip"),
        (b"PK\x03\x04".to_vec(), "application/zip".to_owned(), "zip"),
        (b"\x7fELF".to_vec(), "application/octet-stream".to_owned(), "bin"),
    ];
    for (bytes, wanted, extension) in cases {
        for said in [None, Some("application/octet-stream"), Some("application/x-own")] {
            let mut part = Part::binary(bytes.clone().into());
            part.media_type = said.map(str::to_owned);
            let root = TempDir::new().unwrap();
            let payload = Arc::new(Payload::new(vec![part]));
            let found = offloaded(filter(root.path()).apply(&request(always()), &payload));
            let file = &found.offload.record().files[0];
            assert_eq!(std::fs::read(found.offload.path().join(&file.name)).unwrap(), bytes);
            if said == Some("application/x-own") {
                assert_eq!(file.media_type, "application/x-own");
            } else {
                assert_eq!((&file.media_type, file.name.as_str()), (&wanted, format!("binary.{extension}").as_str()));
            }
        }
    }
}

// A document in a text has its sections, and its small members stay in the descriptor.
#[test]
fn the_sections_of_a_document_in_a_text() {
    let rows = |name: &str| {
        let rows = (0..ROWS).map(|id| format!(r#"{{"id":{id},"kind":"{name}"}}"#));
        rows.collect::<Vec<_>>().join(",")
    };
    let one = publish(&format!("Here it is:\n{{\"total\":600,\"movies\":[{}]}}\n", rows("movie")));
    assert_eq!(one.file("records").records, ROWS as u64, "{}", one.descriptor);
    assert_eq!(one.descriptor["total"], 600);

    let two = publish(&format!("Here:\n{{\"movies\":[{}],\"actors\":[{}]}}\n", rows("movie"), rows("actor")));
    let sections: Vec<&str> = two.files().iter().map(|file| file.section.as_str()).collect();
    assert_eq!(sections, ["text", "movies", "actors"], "{}", two.descriptor);
    assert_eq!(two.records("actors")[7], json!({"id": 7, "kind": "actor"}));
}

fn markdown() -> String {
    let mut text = String::from("# Guide\n\nWords.\n\n");
    for chapter in 1..=14 {
        let _ = write!(text, "## Chapter {chapter}\n\n{}\n", "A line of the chapter.\n".repeat(chapter * 5));
    }
    text
}

fn log() -> String {
    let line = |number: usize| {
        let (level, message) = [("INFO", "request"), ("INFO", "answer"), ("ERROR", "timeout of")][number % 3];
        format!("2026-11-20T09:{:02}:{:02}Z {level} {message} {number}\n", number / 60 % 60, number % 60)
    };
    (0..2_000).map(line).collect()
}

#[test]
fn a_text_without_records_has_an_outline() {
    for (content, kind, entry, title) in
        [(markdown(), "Markdown with 15 headings", 3, "Chapter 3"), (log(), "log of 2,000 lines", 0, "ERROR")]
    {
        let published = publish(&content);
        let outline = published.file("outline");
        assert_eq!((outline.origin, outline.kind), (Origin::Outline, FileKind::Records));
        assert_eq!(outline.derived_from.as_deref(), Some(published.file("text").name.as_str()));
        let entries = published.records("outline");
        assert!(entries[entry]["title"].as_str().unwrap().contains(title), "{entries:?}");
        let summary = &published.descriptor["summary"]["text"];
        assert!(summary["kind"].as_str().unwrap().starts_with(kind), "{summary}");
        assert_eq!(summary["lines"], content.lines().count());
        let best = summary["outline"].as_array().unwrap();
        assert!((2..=10).contains(&best.len()), "{best:?}");
        // The line of an entry is where it says.
        let line = entries[entry]["line"].as_u64().unwrap() as usize;
        assert!(content.lines().nth(line - 1).unwrap().contains(title), "{entries:?}");
        // The only records are those of the outline, which is asked about by its name.
        let count = Question::Query(Query { count: true, ..Query::default() });
        let ask = |section| extractor().ask(&published.offloaded.offload, section, &count, Budget::default());
        assert!(
            matches!(ask(None), Err(ExtractError::Question(QuestionError::OnlyOutline(name))) if name == "outline")
        );
        let answer = ask(Some("outline")).unwrap();
        assert_eq!(answer.lines, format!("{{\"count\":{}}}\n", entries.len()));
    }
}

#[test]
fn descriptors_of_texts_keep_to_their_budgets() {
    let titles: String = (0..400).map(|n| format!("# {n} {}\n\ntext\n\n", "a long title ".repeat(20))).collect();
    let mut contents: Vec<String> = forms().into_iter().map(|(content, ..)| content).collect();
    contents.extend([markdown(), log(), titles, "words and words\n\n".repeat(3_000), "w".repeat(100_000)]);
    for content in contents {
        for (level, most) in [(DescriptorLevel::Standard, 600), (DescriptorLevel::Pointer, 150)] {
            for abilities in [Abilities::SHELL, Abilities::EXTRACT_TOOL | Abilities::READ_TOOL] {
                let settings = PolicySettings { level, ..always() };
                let request =
                    lro_host::filter::Request { abilities, settings: Arc::new(settings), ..request(always()) };
                let root = TempDir::new().unwrap();
                let found = offloaded(filter(root.path()).apply(&request, &text(content.clone())));
                let shown = with_directory(&found, "");
                let shown = shown.split(",\"integrity\":").next().unwrap();
                assert!(lro_jsonl::tokens(shown) < most, "{} tokens: {shown}", lro_jsonl::tokens(shown));
            }
        }
    }
}
