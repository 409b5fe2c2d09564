//! Plans for JSON with texts in its strings.

#![expect(clippy::panic, reason = "a test fails by panicking")]

use lro_offload::bindings::lro::filter::types::{
    Abilities, Action, DecisionMode, DescriptorDialect, DescriptorLevel, ImageMode, PlannedSection, Reader,
    SectionRule, SectionShape, Settings, Size, SizeUnit,
};
use lro_offload::{Call, Part, PartKind, PlannedPart, PolicyError, Source, plan};

/// Texts as parts, read in slices that cut them anywhere.
struct Texts(Vec<String>);

impl Source for Texts {
    fn parts(&self) -> Vec<Part> {
        let part = |text: &String| Part {
            kind: PartKind::Text,
            media_type: None,
            name: None,
            size: text.len() as u64,
            complete: true,
        };
        self.0.iter().map(part).collect()
    }

    fn read_text(&self, part: u32, each: &mut dyn FnMut(&str) -> Result<bool, PolicyError>) -> Result<(), PolicyError> {
        let mut rest = self.0[part as usize].as_str();
        while !rest.is_empty() {
            let (slice, after) = rest.split_at(rest.floor_char_boundary(5_000));
            if !each(slice)? {
                break;
            }
            rest = after;
        }
        Ok(())
    }

    fn read_bytes(&self, _: u32, _: u64) -> Result<Vec<u8>, PolicyError> {
        panic!("no part is binary")
    }
}

fn settings() -> Settings {
    let size = |amount| Size { amount, unit: SizeUnit::Characters };
    Settings {
        mode: DecisionMode::BySize,
        threshold: size(1_000),
        action: Action::Offload,
        sections: Vec::new(),
        inline_keys: Vec::new(),
        inline_limit: 512,
        infer: true,
        header_type: "mcp_lro".to_owned(),
        session_key: None,
        level: DescriptorLevel::Standard,
        dialect: DescriptorDialect::Sections,
        descriptor_limit: 8_000,
        truncate_limit: size(1_000),
        truncate_suffix: String::new(),
        advice: String::new(),
        images: ImageMode::Keep,
        images_max: 8,
        images_bytes: 1 << 20,
        custom: None,
    }
}

/// The planned sections of each text: pointer, shape and name.
fn planned_with(settings: Settings, texts: &[String]) -> Vec<Vec<(String, SectionShape, String)>> {
    let call = Call {
        id: "01M80Z99Y86XT5TXS8952BNT88".to_owned(),
        time: "2026-11-20T09:30:00Z".to_owned(),
        tenant: "tests".to_owned(),
        session: None,
        tool: "fetch".to_owned(),
        query: None,
        input_schema: None,
        is_error: false,
        shown_path: "/offloads".to_owned(),
        reader: Reader { abilities: Abilities::empty(), limit: None },
        settings,
    };
    let source = Texts(texts.to_vec());
    let plan = plan(&call, &source, &source.parts(), &[]).unwrap_or_else(|error| panic!("{error:?}"));
    let sections = |part: PlannedPart| match part {
        PlannedPart::Sections(sections) => {
            let plain = |PlannedSection { pointer, shape, name }| (pointer, shape, name);
            sections.into_iter().map(plain).collect()
        }
        other => panic!("{other:?}"),
    };
    plan.parts.into_iter().map(sections).collect()
}

fn planned(text: String) -> Vec<(String, SectionShape, String)> {
    planned_with(settings(), &[text]).remove(0)
}

fn string(pointer: &str, name: &str) -> (String, SectionShape, String) {
    (pointer.to_owned(), SectionShape::Value, name.to_owned())
}

fn elements(pointer: &str, name: &str) -> (String, SectionShape, String) {
    (pointer.to_owned(), SectionShape::Elements, name.to_owned())
}

fn lines(count: usize) -> String {
    "a line of the log\\n".repeat(count)
}

fn rows(count: usize) -> String {
    let rows: Vec<String> = (0..count).map(|id| format!(r#"{{"id":{id},"name":"row {id}"}}"#)).collect();
    format!("[{}]", rows.join(","))
}

#[test]
fn strings_that_are_texts_are_planned_under_their_keys() {
    let (log, rows) = (lines(30_000), rows(900));
    assert_eq!(planned(format!(r#"{{"stdout":"{log}","stderr":"","exit_code":0}}"#)), [string("/stdout", "stdout")]);
    assert_eq!(
        planned(format!(r#"{{"ok":true,"content":[{{"type":"text","text":"{log}"}}]}}"#)),
        [string("/content/0/text", "text")]
    );
    assert_eq!(planned(format!(r#"[{{"type":"text","text":"{log}"}}]"#)), [string("/0/text", "text")]);
    assert_eq!(planned(format!(r#"["{log}"]"#)), [string("/0", "text")]);
    assert_eq!(
        planned(format!(r#"{{"items":{rows},"log":"{log}"}}"#)),
        [elements("/items", "items"), string("/log", "log")]
    );
    // Half of a small result.
    assert_eq!(planned(format!(r#"{{"status":200,"body":"{}"}}"#, lines(80))), [string("/body", "body")]);
}

#[test]
fn a_byte_order_mark_is_no_part_of_json() {
    let rows = rows(900);
    assert_eq!(planned(format!("\u{feff}{rows}")), [elements("", "records")]);
    assert_eq!(planned(format!("\u{feff}{{\"items\":{rows}}}")), [elements("/items", "items")]);
}

#[test]
fn other_strings_stay_where_they_are() {
    let (log, rows) = (lines(2_000), rows(900));
    let record = format!(r#"{{"id":1,"log":"{log}"}}"#);
    assert_eq!(planned(format!("[{record},{record},{record},{record}]")), [elements("", "records")]);
    // Neither long nor most of the result.
    assert_eq!(planned(format!(r#"{{"items":{rows},"note":"{}"}}"#, lines(100))), [elements("/items", "items")]);
    // What the settings name stays in the descriptor, or decides alone.
    let document = format!(r#"{{"page":{{"note":"{log}"}},"items":{rows}}}"#);
    for key in ["page", "/page/note"] {
        let settings = Settings { inline_keys: vec![key.to_owned()], ..settings() };
        assert_eq!(planned_with(settings, std::slice::from_ref(&document)), [[elements("/items", "items")]], "{key}");
    }
    let rule = SectionRule {
        key: "items".to_owned(),
        filename_prefix: None,
        schema: None,
        summaries: Vec::new(),
        recipes: Vec::new(),
    };
    let settings = Settings { sections: vec![rule], ..settings() };
    assert_eq!(planned_with(settings, &[document]), [[elements("/items", "items")]]);
}

/// More would be more files than a host allows: the longest are texts.
#[test]
fn a_result_has_a_few_texts() {
    let document = |key: &str| {
        let members: Vec<String> =
            (0..15).map(|number| format!(r#""{key}{number}":"{}""#, lines(600 + number))).collect();
        format!("{{{},\"n\":1}}", members.join(","))
    };
    let found = planned_with(settings(), &[document("a"), document("b")]);
    let names = |sections: &[(String, SectionShape, String)]| -> Vec<String> {
        sections.iter().map(|(_, _, name)| name.clone()).collect()
    };
    assert_eq!(names(&found[0]), ["a14", "a13", "a12", "a11", "a10", "a9"]);
    assert_eq!(names(&found[1]), Vec::<String>::new());
}
