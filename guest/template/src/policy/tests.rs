//! Tests of the policy without a host: texts instead of a tool result, a map instead of a directory.

use std::collections::BTreeMap;

use super::*;
use crate::bindings::lro::filter::types::{DescriptorDialect, DescriptorLevel, ImageMode, Reader, Settings};

/// Texts of parts, read a few characters at a time, so that slices end at every possible position.
struct Texts(Vec<&'static str>);

impl Source for Texts {
    fn read(&self, part: u32, offset: u64) -> Result<String, PolicyError> {
        Ok(self.0[part as usize][offset as usize..].chars().take(3).collect())
    }
}

impl Texts {
    fn parts(&self, kind: PartKind) -> Vec<Part> {
        let part = |text: &&str| Part { kind, media_type: None, name: None, size: text.len() as u64, complete: true };
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

/// A call whose threshold is 10 characters.
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
            inline_limit: 512,
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
    let Verdict::Offload(plan) = inspect(call, &parts, texts)? else { panic!("not offloaded") };
    write(call, &parts, &plan, texts, files)
}

#[test]
fn a_text_of_exactly_the_threshold_passes_and_a_larger_one_does_not() {
    for (text, is_large) in [("0123456789", false), ("0123456789a", true), ("éééééééééé", false), ("ééééééééééé", true)]
    {
        let texts = Texts(vec![text]);
        let verdict = inspect(&call(None), &texts.parts(PartKind::Text), &texts).unwrap();
        assert_eq!(matches!(verdict, Verdict::Offload(_)), is_large, "{text}");
    }
}

#[test]
fn tokens_are_a_quarter_a_half_or_one_each() {
    for (text, tokens) in [("aaaa", 1), ("aaaaa", 2), ("жжжж", 2), ("漢字", 2)] {
        let (texts, mut call) = (Texts(vec![text]), call(None));
        for (amount, is_large) in [(tokens, false), (tokens - 1, true)] {
            call.settings.threshold = Size { amount: amount.max(1), unit: SizeUnit::Tokens };
            let verdict = inspect(&call, &texts.parts(PartKind::Text), &texts).unwrap();
            assert_eq!(matches!(verdict, Verdict::Offload(_)), is_large && amount > 0, "{text} {amount}");
        }
    }
}

#[test]
fn errors_of_tools_and_what_is_neither_text_nor_structured_stay() {
    let texts = Texts(vec!["a text that is large enough"]);
    let failed = Call { is_error: true, ..call(None) };
    assert!(matches!(inspect(&failed, &texts.parts(PartKind::Text), &texts), Ok(Verdict::Pass)));
    for kind in [PartKind::Binary, PartKind::Block, PartKind::Meta] {
        assert!(matches!(inspect(&call(None), &texts.parts(kind), &texts), Ok(Verdict::Pass)));
    }
}

#[test]
fn texts_are_written_unchanged_and_described() {
    let texts = Texts(vec!["small", "first line\nsecond ← line\nthird", "another\nlarge text\n"]);
    let mut files = Files::new(1000);
    let descriptor = offload(&call(Some("{\"head\": 2}")), &texts, PartKind::Text, &mut files).unwrap();
    assert_eq!(files.files.keys().collect::<Vec<_>>(), ["text-2.txt", "text.txt"]);
    assert_eq!(files.files["text.txt"], texts.0[1].as_bytes());
    assert_eq!(files.files["text-2.txt"], texts.0[2].as_bytes());
    let content: Value = serde_json::from_str(&descriptor.content).unwrap();
    assert_eq!(content["files"], json!({ "text": "/offloads/1/text.txt", "text-2": "/offloads/1/text-2.txt" }));
    assert_eq!(
        content["summary"]["text"],
        json!({ "lines": 3, "bytes": texts.0[1].len(), "head": "first line\nsecond ← line\n" })
    );
    assert_eq!(content["summary"]["text-2"]["lines"], 2);
    let listed: Vec<_> = descriptor.files.iter().map(|file| (file.parts.clone(), file.records, file.bytes)).collect();
    assert_eq!(listed, [(vec![1], 3, texts.0[1].len() as u64), (vec![2], 2, texts.0[2].len() as u64)]);
}

#[test]
fn structured_content_becomes_one_line() {
    let texts = Texts(vec!["{\n  \"a\": [1,\r\n 2.0],\n  \"text\": \"\\n\"\n}"]);
    let mut files = Files::new(1000);
    offload(&call(None), &texts, PartKind::Structured, &mut files).unwrap();
    let written = String::from_utf8(files.files.remove("structured.json").unwrap()).unwrap();
    assert!(!written.contains(['\n', '\r']), "{written}");
    let values = [texts.0[0], &written].map(|text| serde_json::from_str::<Value>(text).unwrap());
    assert_eq!(values[0], values[1]);
}

#[test]
fn a_name_from_outside_is_no_path() {
    let texts = Texts(vec!["a text that is large enough"]);
    for (name, file) in [("file:///etc/../passwd", "passwd.txt"), ("../..", "__.txt"), ("é\0", "__.txt")] {
        let (mut files, mut parts) = (Files::new(1000), texts.parts(PartKind::Text));
        parts[0].name = Some(name.to_owned());
        let plan = Plan { parts: vec![PlannedPart::Text] };
        write(&call(None), &parts, &plan, &texts, &mut files).unwrap();
        assert_eq!(files.files.keys().collect::<Vec<_>>(), [file]);
    }
}

#[test]
fn a_full_disk_is_told_apart() {
    let texts = Texts(vec!["a text that is large enough"]);
    assert!(matches!(offload(&call(None), &texts, PartKind::Text, &mut Files::new(20)), Err(PolicyError::NoSpace)));
}

#[test]
fn the_descriptor_keeps_to_its_limit() {
    let texts = Texts(vec!["a text\nthat is\nlarge enough"]);
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
    let texts = Texts(vec!["small"]);
    let parts = texts.parts(PartKind::Text);
    for custom in ["", "3", "{\"head\": -1}", "{\"head\": \"3\"}", "{\"haed\": 3}"] {
        let verdict = inspect(&call(Some(custom)), &parts, &texts);
        assert!(matches!(verdict, Err(PolicyError::Invalid(_))), "{custom}");
    }
    for parts_of_plan in [vec![], vec![PlannedPart::Bytes]] {
        let plan = Plan { parts: parts_of_plan };
        let written = write(&call(None), &parts, &plan, &texts, &mut Files::new(1000));
        assert!(matches!(written, Err(PolicyError::Invalid(_))));
    }
}
