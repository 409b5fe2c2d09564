//! Tests of the policy without a host: texts instead of a tool result, a map instead of a directory.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::bindings::exports::lro::filter::lro_filter::Descriptor;
use crate::bindings::lro::filter::types::{
    Abilities, DescriptorDialect, DescriptorLevel, FileKind, ImageMode, Origin, Reader, Settings,
};

/// Texts of parts, read a few characters at a time, so that slices end at every possible position.
struct Texts(Vec<String>);

impl Source for Texts {
    fn read(&self, part: u32, offset: u64) -> Result<String, PolicyError> {
        Ok(self.0[part as usize][offset as usize..].chars().take(3).collect())
    }
}

impl Texts {
    fn of(texts: &[&str]) -> Self {
        Self(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    fn parts(&self, kind: PartKind) -> Vec<Part> {
        let part = |text: &String| Part { kind, media_type: None, name: None, size: text.len() as u64, complete: true };
        self.0.iter().map(part).collect()
    }
}

/// Files by name, and the bytes left on the disk.
struct Files {
    files: BTreeMap<String, Vec<u8>>,
    last: String,
    room: usize,
}

impl Files {
    fn new(room: usize) -> Self {
        Self { files: BTreeMap::new(), last: String::new(), room }
    }
}

impl Directory for Files {
    fn create(&mut self, name: &str) -> Result<(), PolicyError> {
        assert!(self.files.insert(name.to_owned(), Vec::new()).is_none(), "{name} is there already");
        self.last = name.to_owned();
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], offset: u64) -> Result<(), PolicyError> {
        self.room = self.room.checked_sub(bytes.len()).ok_or(PolicyError::NoSpace)?;
        let file = self.files.get_mut(&self.last).unwrap();
        assert_eq!(file.len() as u64, offset);
        file.extend(bytes);
        Ok(())
    }
}

/// A call whose threshold is 10 characters, and where small parts do not stay.
fn call(custom: Option<&str>) -> Call {
    let size = |amount| Size { amount, unit: SizeUnit::Characters };
    Call {
        id: "01M7Z7003RS6EXNVP3H26M4WD4".to_owned(),
        time: "2026-11-20T09:30:00Z".to_owned(),
        tenant: "default".to_owned(),
        session: None,
        tool: "search".to_owned(),
        query: None,
        input_schema: None,
        is_error: false,
        shown_path: "/offloads/1".to_owned(),
        reader: Reader { abilities: Abilities::SHELL, limit: None },
        settings: Settings {
            mode: DecisionMode::BySize,
            threshold: size(10),
            action: Action::Offload,
            sections: Vec::new(),
            inline_keys: Vec::new(),
            inline_limit: 0,
            infer: true,
            header_type: "meta".to_owned(),
            session_key: None,
            level: DescriptorLevel::Standard,
            dialect: DescriptorDialect::Sections,
            descriptor_limit: 40_000,
            truncate_limit: size(10),
            truncate_suffix: "…".to_owned(),
            advice: String::new(),
            images: ImageMode::Keep,
            images_max: 20,
            images_bytes: 8 << 20,
            custom: custom.map(str::to_owned),
        },
    }
}

fn offload(call: &Call, texts: &Texts, kind: PartKind, files: &mut Files) -> Result<Descriptor, PolicyError> {
    let parts = texts.parts(kind);
    let plan = planned(call, &parts, texts);
    write(call, &parts, &plan, texts, files)
}

fn planned(call: &Call, parts: &[Part], texts: &Texts) -> Plan {
    match inspect(call, parts, texts).unwrap() {
        Verdict::Offload(plan) => plan,
        other => panic!("not offloaded: {other:?}"),
    }
}

/// The records of a file, below its header line.
fn records(file: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(file).unwrap();
    text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The texts in a file by the indices of their parts, cut out by its outline.
fn cut_out(text: &[u8], outline: &[u8]) -> BTreeMap<u64, String> {
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    let cut = |block: Value| {
        let number = |key: &str| block[key].as_u64().unwrap() as usize;
        let bytes = &text[number("offset")..][..number("bytes")];
        let of_lines = lines[number("line") - 1..][..number("lines")].concat();
        assert!(of_lines == bytes || of_lines == [bytes, b"\n"].concat(), "{block}");
        (number("block") as u64, String::from_utf8(bytes.to_vec()).unwrap())
    };
    records(outline).into_iter().map(cut).collect()
}

#[test]
fn a_result_of_exactly_the_threshold_passes_and_a_larger_one_does_not() {
    let is_offloaded = |texts: &[&str]| {
        let texts = Texts::of(texts);
        let verdict = inspect(&call(None), &texts.parts(PartKind::Text), &texts).unwrap();
        matches!(verdict, Verdict::Offload(_))
    };
    for (exact, larger) in [
        (["0123456789", ""], ["0123456789a", ""]),
        (["éééééééééé", ""], ["ééééé", "éééééé"]),
        (["01234", "56789"], ["01234", "56789a"]),
    ] {
        assert!(!is_offloaded(&exact), "{exact:?}");
        assert!(is_offloaded(&larger), "{larger:?}");
    }
    // Blocks count together, however small each of them is.
    assert!(!is_offloaded(&["a"; 10]) && is_offloaded(&["a"; 11]));
}

#[test]
fn tokens_are_estimated_by_the_rule_of_the_contract() {
    for (text, tokens) in [("word", 2), ("one two three", 3), ("жжжж", 3), ("漢字", 3), ("a1b2", 4)] {
        let (texts, mut call) = (Texts::of(&[text]), call(None));
        for (amount, is_large) in [(tokens, false), (tokens - 1, true)] {
            call.settings.threshold = Size { amount: amount.max(1), unit: SizeUnit::Tokens };
            let verdict = inspect(&call, &texts.parts(PartKind::Text), &texts).unwrap();
            assert_eq!(matches!(verdict, Verdict::Offload(_)), is_large && amount > 0, "{text} {amount}");
        }
    }
}

#[test]
fn errors_of_tools_and_what_is_neither_text_nor_structured_stay() {
    let texts = Texts::of(&["a text that is large enough"]);
    let failed = Call { is_error: true, ..call(None) };
    assert!(matches!(inspect(&failed, &texts.parts(PartKind::Text), &texts), Ok(Verdict::Pass)));
    for kind in [PartKind::Binary, PartKind::Block, PartKind::Meta] {
        assert!(matches!(inspect(&call(None), &texts.parts(kind), &texts), Ok(Verdict::Pass)));
    }
}

#[test]
fn a_text_is_written_unchanged_and_described() {
    let texts = Texts::of(&["first line\nsecond ← line\nthird"]);
    let mut files = Files::new(1000);
    let descriptor = offload(&call(Some("{\"head\": 2}")), &texts, PartKind::Text, &mut files).unwrap();
    assert_eq!(files.files, BTreeMap::from([("text.txt".to_owned(), texts.0[0].clone().into_bytes())]));
    let content: Value = serde_json::from_str(&descriptor.content).unwrap();
    assert_eq!(content["files"], json!({ "text": "/offloads/1/text.txt" }));
    let (bytes, head) = (texts.0[0].len(), "first line\nsecond ← line\n");
    assert_eq!(content["summary"], json!({ "text": { "lines": 3, "bytes": bytes, "head": head } }));
    let listed: Vec<_> = descriptor.files.iter().map(|file| (file.parts.clone(), file.records, file.bytes)).collect();
    assert_eq!(listed, [(vec![0], 3, bytes as u64)]);
}

#[test]
fn a_thousand_json_objects_are_the_records_of_one_section() {
    let object = |number: usize| match number % 3 {
        0 => format!("{{\"id\": {number}, \"big\": 12345678901234567890123}}"),
        1 => format!("\n{{\n  \"id\": {number},\r\n  \"text\": \"a\\nb\"\n}}\n"),
        _ => format!("{{\"id\":{number},\"list\":[1, {{}}]}}"),
    };
    let texts = Texts((0..1000).map(object).collect());
    let mut files = Files::new(1 << 20);
    let descriptor = offload(&call(None), &texts, PartKind::Text, &mut files).unwrap();
    let [file] = descriptor.files.as_slice() else { panic!("{:?}", descriptor.files) };
    assert_eq!((file.section.as_str(), file.kind, file.records), ("records", FileKind::Records, 1000));
    assert_eq!((file.pointer.as_deref(), file.shape), (Some(""), Some(SectionShape::Value)));
    assert_eq!(file.parts, (0..1000).collect::<Vec<u32>>());
    let text = String::from_utf8(files.files.remove("records.jsonl").unwrap()).unwrap();
    assert_eq!(file.bytes, text.len() as u64);
    let mut lines = text.lines();
    let header: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(header, json!({ "type": "meta", "operation": "search", "section": "records" }));
    let one_line: Vec<String> = texts.0.iter().map(|text| text.replace(['\n', '\r'], " ")).collect();
    assert_eq!(lines.collect::<Vec<_>>(), one_line);
    let content: Value = serde_json::from_str(&descriptor.content).unwrap();
    assert_eq!(content["summary"]["records"]["records"], 1000);
    assert_eq!(content["summary"]["records"]["head"], one_line[..3].join("\n") + "\n");
}

#[test]
fn a_thousand_texts_are_one_text_with_block_numbers() {
    let texts = Texts((0..1000).map(|number| format!("{number:0400}")).collect());
    let mut files = Files::new(1 << 20);
    let descriptor = offload(&call(None), &texts, PartKind::Text, &mut files).unwrap();
    let [text, outline] = descriptor.files.as_slice() else { panic!("{:?}", descriptor.files) };
    assert_eq!((text.section.as_str(), text.kind, text.records), ("text", FileKind::Text, 1000));
    assert_eq!((outline.section.as_str(), outline.kind, outline.records), ("blocks", FileKind::Records, 1000));
    assert_eq!((outline.origin, outline.derived_from.as_deref()), (Origin::Outline, Some("text.txt")));
    for file in [text, outline] {
        assert_eq!(file.parts, (0..1000).collect::<Vec<u32>>());
        assert_eq!(file.bytes, files.files[&file.name].len() as u64);
    }
    let blocks = records(&files.files["blocks.jsonl"]);
    assert_eq!(blocks[17], json!({ "block": 17, "line": 18, "lines": 1, "offset": 17 * 401, "bytes": 400 }));
    // 400 digits are 134 groups of three, and a line break follows all blocks but the last.
    assert_eq!(descriptor.offloaded_tokens, (1000_u64 * 134 * 114 + 999 * 110).div_ceil(100));
}

// Texts of every shape, records, structured content, and what stays.
#[test]
fn twenty_thousand_parts_are_four_files_and_nothing_is_lost() {
    let shapes =
        ["a\nb", "ends\n", "", "\n", "\r\n\n", "é漢🎉", "{not json", "[{}]", "42", "{\"a\": 1}", "{}", "image"];
    let mut texts = Texts((0..20_000).map(|number| shapes[number % shapes.len()].repeat(1 + number % 7)).collect());
    texts.0[19_000] = "{\"b\": [2]}".to_owned();
    let mut parts = texts.parts(PartKind::Text);
    for (part, text) in parts.iter_mut().zip(&texts.0).filter(|(_, text)| text.starts_with("image")) {
        part.kind = [PartKind::Binary, PartKind::Block, PartKind::Meta][text.len() % 3];
    }
    parts[19_000].kind = PartKind::Structured;
    let plan = planned(&call(None), &parts, &texts);
    let mut files = Files::new(1 << 24);
    let descriptor = write(&call(None), &parts, &plan, &texts, &mut files).unwrap();

    let names: Vec<&str> = descriptor.files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["text.txt", "blocks.jsonl", "records.jsonl", "structured.json"]);
    let mut found = cut_out(&files.files["text.txt"], &files.files["blocks.jsonl"]);
    assert_eq!(found.len(), descriptor.files[0].parts.len());
    let lines = std::str::from_utf8(&files.files["records.jsonl"]).unwrap().lines().skip(1).map(str::to_owned);
    found.extend(descriptor.files[2].parts.iter().map(|part| u64::from(*part)).zip(lines));
    found.insert(19_000, String::from_utf8(files.files["structured.json"].clone()).unwrap());
    for (((index, part), text), planned) in (0..).zip(&parts).zip(&texts.0).zip(&plan.parts) {
        let is_kept = matches!(planned, PlannedPart::Keep);
        assert_eq!(is_kept, !is_data(part), "{index}");
        assert_eq!(found.remove(&index).as_ref(), (!is_kept).then_some(text), "{index}");
    }
    assert!(found.is_empty());
    for file in descriptor.files.iter().filter(|file| file.kind == FileKind::Records) {
        assert_eq!(file.records, records(&files.files[&file.name]).len() as u64, "{}", file.name);
    }
}

#[test]
fn a_few_small_parts_stay_and_many_are_data() {
    let mut call = call(None);
    call.settings.inline_limit = 5;
    for (count, is_kept) in [(SMALL_MAX, true), (SMALL_MAX + 1, false)] {
        let texts = Texts(std::iter::repeat_n("small", count).chain(["larger"]).map(str::to_owned).collect());
        let plan = planned(&call, &texts.parts(PartKind::Text), &texts);
        let kept = plan.parts.iter().filter(|part| matches!(part, PlannedPart::Keep)).count();
        assert_eq!(kept, if is_kept { count } else { 0 });
    }
    // Three small ones are more than the threshold, and nothing else could be written.
    let texts = Texts::of(&["small"; 3]);
    let plan = planned(&call, &texts.parts(PartKind::Text), &texts);
    assert!(plan.parts.iter().all(|part| !matches!(part, PlannedPart::Keep)));
    call.settings.mode = DecisionMode::Always;
    let texts = Texts::of(&["small"]);
    assert!(matches!(planned(&call, &texts.parts(PartKind::Text), &texts).parts.as_slice(), [PlannedPart::Text]));
}

#[test]
fn a_long_object_or_one_with_a_name_is_a_text() {
    let long = format!("{{\"text\": \"{}\"}}", "x".repeat(RECORD_BYTES_MAX as usize));
    let texts = Texts(vec![long, "{\"id\": 1}".to_owned(), "{\"id\": 2}".to_owned()]);
    let mut parts = texts.parts(PartKind::Text);
    parts[1].name = Some("file:///1.json".to_owned());
    let plan = planned(&call(None), &parts, &texts);
    assert!(matches!(plan.parts.as_slice(), [PlannedPart::Text, PlannedPart::Joined(0), PlannedPart::Sections(_)]));
}

#[test]
fn structured_content_becomes_one_line() {
    let texts = Texts::of(&["{\n  \"a\": [1,\r\n 2.0],\n  \"text\": \"\\n\"\n}"]);
    let mut files = Files::new(1000);
    offload(&call(None), &texts, PartKind::Structured, &mut files).unwrap();
    let written = String::from_utf8(files.files.remove("structured.json").unwrap()).unwrap();
    assert!(!written.contains(['\n', '\r']), "{written}");
    let values = [&texts.0[0], &written].map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(values[0], values[1]);
}

#[test]
fn names_from_outside_are_data_and_no_paths() {
    for name in ["file:///etc/../passwd", "../..", "é\0\"\n"] {
        let texts = Texts::of(&["a text that is large enough"]);
        let (mut files, mut parts) = (Files::new(1000), texts.parts(PartKind::Text));
        parts[0].name = Some(name.to_owned());
        parts[0].media_type = Some("text/x-log".to_owned());
        let plan = planned(&call(None), &parts, &texts);
        write(&call(None), &parts, &plan, &texts, &mut files).unwrap();
        assert_eq!(files.files.keys().collect::<Vec<_>>(), ["blocks.jsonl", "text.txt"]);
        assert_eq!(files.files["text.txt"], texts.0[0].as_bytes());
        let block = &records(&files.files["blocks.jsonl"])[0];
        assert_eq!((block["name"].as_str(), block["media_type"].as_str()), (Some(name), Some("text/x-log")));
    }
}

#[test]
fn a_full_disk_is_told_apart() {
    let texts = Texts::of(&["a text that is large enough"]);
    assert!(matches!(offload(&call(None), &texts, PartKind::Text, &mut Files::new(20)), Err(PolicyError::NoSpace)));
}

#[test]
fn the_descriptor_keeps_to_its_limit() {
    let texts = Texts::of(&["a text\nthat is\nlarge enough"]);
    let mut call = call(None);
    let mut of_limit = |limit| {
        call.settings.descriptor_limit = limit;
        offload(&call, &texts, PartKind::Text, &mut Files::new(1000)).map(|descriptor| descriptor.content)
    };
    let whole = of_limit(40_000).unwrap();
    let length = whole.chars().count() as u32;
    assert_eq!(of_limit(length).unwrap(), whole);
    let shorter = of_limit(length - 1).unwrap();
    assert!(whole.contains("head\":") && !shorter.contains("head\":"), "{shorter}");
    assert!(matches!(of_limit(20), Err(PolicyError::Limit(_))));
}

#[test]
fn wrong_settings_and_plans_are_refused() {
    let texts = Texts::of(&["small"]);
    let parts = texts.parts(PartKind::Text);
    for custom in ["", "3", "{\"head\": -1}", "{\"head\": \"3\"}", "{\"haed\": 3}"] {
        let verdict = inspect(&call(Some(custom)), &parts, &texts);
        assert!(matches!(verdict, Err(PolicyError::Invalid(_))), "{custom}");
    }
    for parts_of_plan in [vec![], vec![PlannedPart::Bytes], vec![PlannedPart::Joined(0)], vec![PlannedPart::Joined(1)]]
    {
        let plan = Plan { parts: parts_of_plan };
        let written = write(&call(None), &parts, &plan, &texts, &mut Files::new(1000));
        assert!(matches!(written, Err(PolicyError::Invalid(_))));
    }
}
