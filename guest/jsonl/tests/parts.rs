//! `survey`, `Measure`.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use lro_jsonl::{KEYED_MEMBERS_MIN, Measure, SECTION_BYTES_MIN, Section, Shape, Survey, Surveyed, survey, tokens};
use proptest::prelude::*;
use support::{dice, json, slices, white};

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The size of compact JSON, however it is formatted.
    #[test]
    fn json_is_measured_compact(json in json(), dice in dice(), cuts in dice()) {
        let compact = json.compact();
        let mut measure = Measure::json();
        slices(&json.render(&mut white(&dice)), &cuts).into_iter().for_each(|slice| measure.push(slice));
        prop_assert_eq!(measure.bytes(), compact.len() as u64);
        prop_assert_eq!(measure.characters(), compact.chars().count() as u64);
        prop_assert_eq!(measure.tokens(), tokens(&compact));
        let mut cheap = Measure::json().without_tokens();
        cheap.push(&json.render(&mut white(&dice)));
        prop_assert_eq!((cheap.bytes(), cheap.characters(), cheap.tokens()), (measure.bytes(), measure.characters(), 0));
    }

    /// However the text is cut into slices.
    #[test]
    fn texts_are_measured(text in "(\\PC|[a-zß€ж東📦 ]|[A-Z]{3}|[0-9]{4}|\n){0,400}", cuts in dice()) {
        let mut measure = Measure::text();
        slices(&text, &cuts).into_iter().for_each(|slice| measure.push(slice));
        prop_assert_eq!(measure.characters(), text.chars().count() as u64);
        prop_assert_eq!(measure.bytes(), text.len() as u64);
        prop_assert_eq!(measure.tokens(), tokens(&text));
    }
}

/// The sections, which do not depend on how the text is cut into slices.
fn found(text: &str, complete: bool) -> Vec<(String, Shape)> {
    let sections = survey(text, complete).expect("valid");
    for slice_bytes in [1, 7, 64, 1000] {
        let (mut survey, mut rest) = (Survey::new(), text);
        while !rest.is_empty() {
            let (slice, after) = rest.split_at(rest.ceil_char_boundary(slice_bytes.min(rest.len())));
            survey.push(slice).expect("valid");
            rest = after;
        }
        assert_eq!(survey.finish(complete).expect("valid"), sections, "slices of {slice_bytes} bytes");
    }
    sections.into_iter().map(|Section { pointer, shape }| (pointer, shape)).collect()
}

fn at(pointer: &str, shape: Shape) -> (String, Shape) {
    (pointer.into(), shape)
}

fn rows(count: usize) -> String {
    let rows = (0..count).map(|index| format!("{{\"id\":{index},\"name\":\"row number {index}\"}}"));
    format!("[{}]", rows.collect::<Vec<_>>().join(","))
}

/// Sections are found in the shapes that real tools return.
#[test]
fn sections_are_found() {
    use Shape::{Elements, Members};
    let (many, few) = (rows(400), rows(3));
    let keyed =
        (0..400).map(|index| format!("\"key {index}\":{{\"value\":{index},\"more\":\"text\"}}")).collect::<Vec<_>>();
    let keyed = format!("{{{}}}", keyed.join(","));
    let cases = [
        (many.clone(), vec![at("", Elements)]),
        (few.clone(), vec![at("", Elements)]),
        (format!("{{\"data\":{{\"items\":{many},\"next\":null}}}}"), vec![at("/data/items", Elements)]),
        (
            format!("{{\"packages\":{many},\"resolve\":{{\"nodes\":{many}}},\"small\":{few}}}"),
            vec![at("/packages", Elements), at("/resolve/nodes", Elements)],
        ),
        (
            format!("{{\"type\":\"FeatureCollection\",\"bbox\":[1,2,3,4],\"features\":{many}}}"),
            vec![at("/features", Elements)],
        ),
        (keyed.clone(), vec![at("", Members)]),
        (format!("{{\"table\":{keyed}}}"), vec![at("/table", Members)]),
        (format!("{{\"3166-1\":{many}}}"), vec![at("/3166-1", Elements)]),
        (format!("{{\"result\":[{{\"rows\":{many}}}]}}"), vec![at("/result/0/rows", Elements)]),
        (format!("{{\"a/b~\":{many}}}"), vec![at("/a~1b~0", Elements)]),
        (format!("{{\"a\\\"\\u00e9\" : {{\"é\":{many}}}}}"), vec![at("/a\"é/é", Elements)]),
        (String::from("{\"a\":1}"), vec![]),
        (String::from("\"text\""), vec![]),
        (String::from("[]"), vec![at("", Elements)]),
    ];
    for (text, expected) in cases {
        assert_eq!(found(&text, true), expected, "{text:.80}");
    }
}

/// A view that ends early finds sections that have begun.
#[test]
fn a_cut_view_is_enough() {
    let text = format!("{{\"meta\":{{\"page\":1}},\"data\":[{{\"rows\":{}", rows(4_000));
    for length in [200, 1_000, 20_000, 100_000] {
        assert_eq!(found(&text[..length], false), [at("/data/0/rows", Shape::Elements)], "{length}");
    }
    assert!(survey(&text, true).is_err());
    assert!(survey("{\"a\" 1}", false).is_err());
    assert_eq!(found("", false), []);
}

/// Never more than the limit.
#[test]
fn sections_are_limited() {
    let long = rows(300);
    let members =
        (0..50).map(|index| if index % 2 == 0 { format!("\"k{index}\":{long}") } else { format!("\"k{index}\":1") });
    let text = format!(
        "{{{}}}",
        members.chain((0..50).map(|index| format!("\"l{index}\":{long}"))).collect::<Vec<_>>().join(",")
    );
    assert_eq!(found(&text, true).len(), lro_jsonl::SECTIONS_MAX);
}

/// Each limit to the byte, the member and the element.
#[test]
fn limits_of_sections_are_exact() {
    use Shape::{Elements, Members};
    let list = |bytes: usize| format!("[0,\"{}\"]", "x".repeat(bytes - 6));
    let inside = |value: String| format!("{{\"a\":{value},\"b\":0}}");
    assert_eq!(found(&inside(list(SECTION_BYTES_MIN)), true), [at("/a", Elements)]);
    assert_eq!(found(&inside(list(SECTION_BYTES_MIN - 1)), true), []);
    // One that is not closed is as long as it may be.
    assert_eq!(found("{\"a\":[1,2,", false), [at("/a", Elements)]);
    // An element counts when something follows it.
    assert_eq!(found("{\"a\":[1,2", false), []);
    assert_eq!(found(&format!("[[{0}],1]", list(SECTION_BYTES_MIN)), true), [at("", Elements)]);
    assert_eq!(found(&inside(format!("[{}]", list(SECTION_BYTES_MIN))), true), [at("/a/0", Elements)]);
    assert_eq!(found(&inside(format!("[{0},{0}]", list(SECTION_BYTES_MIN))), true), [at("/a", Elements)]);

    let keyed = |values: &[&str]| {
        let members: Vec<String> =
            values.iter().enumerate().map(|(index, value)| format!("\"k{index}\":{value}")).collect();
        inside(format!("{{{}}}", members.join(",")))
    };
    let text = format!("\"{}\"", "x".repeat(SECTION_BYTES_MIN));
    let with_text = |count: usize, value| [&[text.as_str()][..], &vec![value; count - 1]].concat();
    assert_eq!(found(&keyed(&with_text(KEYED_MEMBERS_MIN, "\"\"")), true), [at("/a", Members)]);
    assert_eq!(found(&keyed(&with_text(KEYED_MEMBERS_MIN - 1, "\"\"")), true), []);
    assert_eq!(found(&keyed(&with_text(KEYED_MEMBERS_MIN, "1")), true), []);
    for (one, other, is_table) in [
        ("1", "-1.5", true),
        ("true", "false", true),
        ("null", "1", false),
        ("{}", "[]", false),
        ("true", "null", false),
    ] {
        let values: Vec<&str> = [one, other].into_iter().cycle().take(2_000).collect();
        assert_eq!(found(&keyed(&values), true).len(), usize::from(is_table), "{one} and {other}");
    }
}

/// A few elements may only wrap a text, more are records.
#[test]
fn an_array_of_records_at_the_root_is_settled() {
    for (text, is_settled) in
        [("[1,2,3,4,", true), ("[1,2,3,4", false), ("[[1],[2],[3],[4]", true), ("{\"a\":[1,2,3,4,", false)]
    {
        let mut survey = Survey::new();
        survey.push(text).expect("valid");
        assert_eq!(survey.is_settled(), is_settled, "{text}");
    }
}

/// Other scripts weigh more than Latin.
#[test]
fn chinese_weighs_more() {
    assert_eq!(tokens("abcdefgh"), 2);
    assert_eq!(tokens("привет жу"), 5);
    assert_eq!(tokens("東京都庁前駅にて"), 9);
    assert_eq!(tokens(""), 0);
}

// Strings full of brackets and quotes, cut at every byte.
#[test]
fn what_follows_records_is_found_wherever_a_slice_ends() {
    let record = r#"{"a":"]}\"[","b":["\\",{"c":"[["}],"d":-1.5e3}"#;
    let (records, text) = (vec![record; 250].join(", "), "text ".repeat(2_000));
    let document =
        format!(r#"{{"first":[{records}],"text":"{text}","second":[[1,2],{records}],"last":{{"x":[true]}}}}"#);
    let found = |cut: usize| {
        let (one, other) = document.split_at(cut);
        let mut survey = Survey::new();
        survey.push(one).and_then(|()| survey.push(other)).expect("JSON");
        survey.finish_with_texts(true).expect("a whole document")
    };
    for cut in 0..document.len() {
        let Surveyed { sections, texts } = found(cut);
        let pointers: Vec<&str> = sections.iter().map(|section| section.pointer.as_str()).collect();
        assert_eq!(
            (pointers, texts[0].pointer.as_str(), texts.len()),
            (vec!["/first", "/second"], "/text", 1),
            "{cut}"
        );
    }
}
