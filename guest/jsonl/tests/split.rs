//! The splitter loses nothing and changes nothing, wherever the slices are cut.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use lro_jsonl::{LARGE_MAX, Options, Section, Shape};
use proptest::prelude::*;
use support::{Json, Pieces, Written, dice, json, records, slices, split, token, white};

const POINTERS: &[&str] =
    &["", "/a", "/b", "/c", "/a/b", "/a/id", "/0", "/0/a", "/1/b", "/a~1b~0c", "/", "/é", "/\"q\"/a"];

fn options() -> impl Strategy<Value = Options> {
    let pointer = || proptest::sample::select(POINTERS).prop_map(String::from);
    let section = (pointer(), any::<bool>()).prop_map(|(pointer, members)| Section {
        pointer,
        shape: if members { Shape::Members } else { Shape::Elements },
    });
    let sizes = || proptest::sample::select(&[0_usize, 1, 10, 60, 1000][..]);
    (
        proptest::collection::vec(section, 0..3),
        proptest::collection::vec(pointer(), 0..2),
        (sizes(), sizes(), sizes()),
        (0..3_usize, any::<bool>()),
        proptest::collection::vec(proptest::sample::select(&["a", "id"][..]).prop_map(String::from), 0..2),
    )
        .prop_map(
            |(sections, keep, (keep_bytes, inline_bytes, inline_total), (large_max, profile), inline_exclude)| {
                let note = inline_exclude.clone();
                Options {
                    sections,
                    keep,
                    keep_bytes,
                    inline_bytes,
                    inline_total,
                    inline_exclude,
                    note,
                    large_max,
                    profile,
                }
            },
        )
}

/// Whether a container is split although it is not a section, as the documentation of `Options` says.
fn is_skeleton(json: &Json, pointer: &str, options: &Options) -> bool {
    let above = |other: &str| other.strip_prefix(pointer).is_some_and(|rest| rest.starts_with('/'));
    let empty = match json {
        Json::Scalar(_) => true,
        Json::Array(elements) => elements.is_empty(),
        Json::Object(members) => members.is_empty(),
    };
    let section = options.sections.iter().any(|section| section.pointer == pointer);
    let above_section = options.sections.iter().any(|section| above(&section.pointer));
    let kept = options.keep.iter().any(|keep| keep == pointer);
    let above_kept = options.keep.iter().any(|keep| above(keep));
    let root = pointer.is_empty() && matches!(json, Json::Object(_));
    !empty && !section && (above_section || !kept && (above_kept || root))
}

/// The value of a piece: compact JSON, or the lines of a file.
fn assemble(json: &Json, piece: &str) -> String {
    match json {
        Json::Array(_) if piece.is_empty() => "[]".into(),
        Json::Object(_) if piece.is_empty() => "{}".into(),
        _ if !piece.ends_with('\n') => piece.into(),
        Json::Array(_) => format!("[{}]", piece.lines().collect::<Vec<_>>().join(",")),
        Json::Object(_) if piece.starts_with("{\"key\":") => {
            let members = piece.lines().map(|line| {
                let parts = lro_json::members(line).expect("a line");
                assert_eq!((parts[0].key, parts[1].key), ("\"key\"", "\"value\""));
                format!("{}:{}", parts[0].value, parts[1].value)
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        _ => piece.trim_end().into(),
    }
}

/// Reassembles the document from the pieces.
fn rebuild(json: &Json, pointer: &str, options: &Options, pieces: &mut Pieces) -> String {
    if !is_skeleton(json, pointer, options) {
        let compact = json.compact();
        let found = pieces.take(pointer, |piece| assemble(json, piece) == compact);
        return if found { compact } else { format!("missing {pointer:?}: {compact}") };
    }
    match json {
        Json::Scalar(scalar) => scalar.clone(),
        Json::Array(elements) => {
            let elements = elements.iter().enumerate();
            let parts =
                elements.map(|(index, element)| rebuild(element, &format!("{pointer}/{index}"), options, pieces));
            format!("[{}]", parts.collect::<Vec<_>>().join(","))
        }
        Json::Object(members) => {
            let parts = members.iter().map(|(key, value)| {
                format!("{key}:{}", rebuild(value, &format!("{pointer}{}", token(key)), options, pieces))
            });
            format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// The outputs together are the document, byte for byte without white space.
    #[test]
    fn nothing_is_lost(json in prop_oneof![3 => json(), 1 => records()], dice in dice(), cuts in dice(), options in options()) {
        let text = json.render(&mut white(&dice));
        let (document, output) = split(&slices(&text, &cuts), &options).expect("valid");
        prop_assert_eq!(document.bytes, json.compact().len() as u64);
        for (_, value) in &document.kept {
            prop_assert!(value.len() <= options.keep_bytes);
        }
        let inline: usize = document.inline.iter().map(|(pointer, value)| pointer.len() + value.len()).sum();
        prop_assert!(inline <= options.inline_total);
        prop_assert!(output.files.iter().filter(|file| file.section.is_none()).count() <= options.large_max);
        prop_assert!(document.inline.iter().all(|(_, value)| value.len() <= options.inline_bytes));
        for name in &options.inline_exclude {
            let is_own = |pointer: &str| pointer.ends_with(&format!("/{name}"));
            prop_assert!(document.inline.iter().all(|(pointer, value)| value == "null" || !is_own(pointer)));
            let mut named = document.kept.iter().chain(&document.inline).filter(|(pointer, _)| is_own(pointer));
            prop_assert!(named.all(|member| member.1.len() > options.inline_bytes || document.noted.contains(member)));
            prop_assert!(document.noted.iter().all(|(_, value)| value.len() <= options.inline_bytes));
        }
        let mut pieces = Pieces::new(&document, &output);
        prop_assert_eq!(rebuild(&json, "", &options, &mut pieces), json.compact());
        prop_assert!(pieces.is_empty());
    }

    /// One line per element or member, in order, equal to the text of that element alone.
    #[test]
    fn records_are_lines(json in prop_oneof![3 => json(), 1 => records()], dice in dice(), cuts in dice(), members in any::<bool>(), profile in any::<bool>()) {
        let shape = if members { Shape::Members } else { Shape::Elements };
        let sections = vec![Section { pointer: "/rows".into(), shape }];
        let options = Options { sections, profile, inline_bytes: 9, inline_total: 9, ..Options::default() };
        let other = Json::Scalar("1".into());
        let document = Json::Object(vec![
            ("\"first\"".into(), other.clone()),
            ("\"rows\"".into(), json.clone()),
            ("\"last\"".into(), other.clone()),
            ("\"rows\"".into(), json.clone()),
        ]);
        let text = document.render(&mut white(&dice));
        let (document, output) = split(&slices(&text, &cuts), &options).expect("valid");
        prop_assert_eq!(document.inline, vec![(String::from("/first"), String::from("1"))]);
        prop_assert_eq!(output.rest.map(|rest| rest.text), Some("{\"pointer\":\"/last\",\"value\":1}\n".into()));
        prop_assert_eq!(output.files.len(), 2);
        for file in &output.files {
            prop_assert_eq!(file.lines(), json.lines(shape));
            prop_assert_eq!(file.section, Some(0));
        }
    }
}

fn section(pointer: &str, shape: Shape) -> Section {
    Section { pointer: pointer.into(), shape }
}

/// Two sections in one document become two files; other members go by size.
#[test]
fn each_value_goes_where_it_belongs() {
    let text = r#"{"a": [1, 2.0], "n": 5, "k2": {"x": [ ]}, "big": {"p": [1], "q": "0123456789"}, "t":
        {"x": {"id": 1e2}, "y": {}}, "k1": "v", "m": 6, "list": [ [1], [22222222222] ], "s": "0123456789 123456789"}"#;
    let options = Options {
        sections: vec![section("/a", Shape::Elements), section("/t", Shape::Members)],
        keep: vec!["/k1".into(), "/k2".into(), "/missing".into()],
        keep_bytes: 10,
        inline_bytes: 16,
        inline_total: 4,
        ..Options::default()
    };
    let (document, output) = split(&[text], &options).expect("valid");
    let pair = |pointer: &str, json: &str| (pointer.into(), json.into());
    assert_eq!(document.kept, [pair("/k1", "\"v\""), pair("/k2", "{\"x\":[]}")]);
    assert_eq!(document.inline, [pair("/n", "5")]);
    let files: Vec<_> = output.files.iter().map(|file| (file.pointer.as_str(), file.text.as_str())).collect();
    assert_eq!(
        files,
        [
            ("/a", "1\n2.0\n"),
            ("/big", "{\"key\":\"p\",\"value\":[1]}\n{\"key\":\"q\",\"value\":\"0123456789\"}\n"),
            ("/t", "{\"key\":\"x\",\"value\":{\"id\":1e2}}\n{\"key\":\"y\",\"value\":{}}\n"),
            ("/list", "[1]\n[22222222222]\n"),
            ("/s", "\"0123456789 123456789\"\n"),
        ]
    );
    assert_eq!(output.rest.map(|rest| rest.text), Some("{\"pointer\":\"/m\",\"value\":6}\n".into()));
}

/// Members with excluded names, and values that contain one, go to the rest, unless null or kept.
#[test]
fn members_are_set_aside_by_name() {
    let text = concat!(
        r#"{"next": "x", "a": {"next": null}, "b": {"c": [{"n": 1, "next": 2}]}, "#,
        r#""text": "\"next\":", "k": {"next": 3}, "cursor": [null]}"#
    );
    let options = Options {
        keep: vec!["/k".into()],
        keep_bytes: 100,
        inline_bytes: 100,
        inline_total: 100,
        inline_exclude: vec!["next".into(), "cursor".into()],
        note: vec!["next".into(), "k".into(), "cursor".into(), "b".into()],
        ..Options::default()
    };
    let (document, output) = split(&[text], &options).expect("valid");
    let pair = |pointer: &str, json: &str| (pointer.into(), json.into());
    assert_eq!(document.kept, [pair("/k", r#"{"next":3}"#)]);
    assert_eq!(document.inline, [pair("/a", r#"{"next":null}"#), pair("/text", r#""\"next\":""#)]);
    let noted = [
        pair("/next", r#""x""#),
        pair("/b", r#"{"c":[{"n":1,"next":2}]}"#),
        pair("/k", r#"{"next":3}"#),
        pair("/cursor", "[null]"),
    ];
    assert_eq!(document.noted, noted);
    let rest = concat!(
        r#"{"pointer":"/next","value":"x"}"#,
        "\n",
        r#"{"pointer":"/b","value":{"c":[{"n":1,"next":2}]}}"#,
        "\n",
        r#"{"pointer":"/cursor","value":[null]}"#,
        "\n"
    );
    assert_eq!((output.rest.map(|rest| rest.text).as_deref(), document.has_excluded), (Some(rest), true));
}

/// Beyond the limit of files, large members become lines of the rest, whatever their type and size.
#[test]
fn large_members_are_limited() {
    let long = "0123456789".repeat(60_000);
    let member = |index: usize| match index % 4 {
        0 => format!("[{index}, \"a\\nb\", [{}1]]", "12345678, ".repeat(if index == 96 { 60_000 } else { 20 })),
        1 => format!("{{\"k\": {index}, \"{}\": {{\"x\": []}}, \"k\": null}}", "y".repeat(100)),
        2 => format!("\"{index}{}\"", if index == 98 { long.as_str() } else { &long[..200] }),
        _ => format!("{}{index}", "98765432".repeat(20)),
    };
    let members: Vec<_> = (0..100).map(|index| format!("\"m{index}\" : {}", member(index))).collect();
    let text = format!("{{{}, \"small\": 1}}", members.join(","));
    for large_max in [0, 1, LARGE_MAX, 100, usize::MAX] {
        let options = Options { inline_bytes: 100, inline_total: 100, large_max, profile: true, ..Options::default() };
        let slices: Vec<_> =
            text.as_bytes().chunks(100_000).map(|slice| str::from_utf8(slice).expect("ASCII")).collect();
        let (document, output) = split(&slices, &options).expect("valid");
        assert_eq!(document.inline, [("/small".into(), "1".into())]);
        assert_eq!(output.files.len(), large_max.min(100));
        let lines = output.rest.as_ref().map_or(Vec::new(), Written::lines);
        assert_eq!(lines.len(), 100 - output.files.len());
        for (index, line) in (output.files.len()..).zip(&lines) {
            let value = member(index).replace(", ", ",").replace(": ", ":");
            assert_eq!(*line, format!("{{\"pointer\":\"/m{index}\",\"value\":{value}}}"));
        }
        for (index, file) in output.files.iter().enumerate() {
            assert_eq!(file.pointer, format!("/m{index}"));
            assert!(file.report.profile.is_some());
        }
    }
    assert_eq!(Options::default().large_max, LARGE_MAX);
}

/// Sections on values of other shapes, at the root, through arrays, and missing.
#[test]
fn sections_take_what_they_find() {
    let lines = |text: &str, pointer: &str, shape| {
        let options = Options { sections: vec![section(pointer, shape)], ..Options::default() };
        let (_, output) = split(&[text], &options).expect("valid");
        output.files.into_iter().find(|file| file.section.is_some()).map(|file| file.text)
    };
    let found = |text: &str| Some(String::from(text));
    assert_eq!(lines("[1, [2]]", "", Shape::Elements), found("1\n[2]\n"));
    assert_eq!(lines("[1, [2]]", "", Shape::Members), found("1\n[2]\n"));
    assert_eq!(lines("{\"a\": 1}", "", Shape::Elements), found("{\"a\":1}\n"));
    assert_eq!(lines("{\"a\": 1}", "", Shape::Members), found("{\"key\":\"a\",\"value\":1}\n"));
    assert_eq!(lines(" \"x y\" ", "", Shape::Members), found("\"x y\"\n"));
    assert_eq!(lines(" 12 ", "", Shape::Elements), found("12\n"));
    assert_eq!(lines("[]", "", Shape::Elements), found(""));
    assert_eq!(lines("{\"a\":{ }}", "/a", Shape::Members), found(""));
    assert_eq!(lines("{\"a\":{ }}", "/a", Shape::Elements), found("{}\n"));
    assert_eq!(lines("[0,{\"rows\":[1,2]}]", "/1/rows", Shape::Elements), found("1\n2\n"));
    assert_eq!(lines("{\"a\":{\"b\":{\"c\":[3]}}}", "/a/b/c", Shape::Elements), found("3\n"));
    assert_eq!(lines("{\"a\":1}", "/b", Shape::Elements), None);
    assert_eq!(lines("{\"a\":1}", "/a/b", Shape::Elements), None);
}

/// A section inside another is ignored, of two with one pointer the first counts.
#[test]
fn sections_do_not_nest() {
    let sections =
        vec![section("/a/b", Shape::Elements), section("/a", Shape::Members), section("/a", Shape::Elements)];
    let (_, output) = split(&["{\"a\":{\"b\":[1,2]}}"], &Options { sections, ..Options::default() }).expect("valid");
    let files: Vec<_> = output.files.iter().map(|file| (file.section, file.text.as_str())).collect();
    assert_eq!(files, [(Some(1), "{\"key\":\"b\",\"value\":[1,2]}\n")]);
}

/// Keys are compared unescaped; pointers come out escaped.
#[test]
fn keys_are_compared_unescaped() {
    let sections = vec![section("/a~1b~0c/\u{1F600}", Shape::Elements)];
    let options = Options { sections, inline_bytes: 9, inline_total: 99, ..Options::default() };
    let (document, output) = split(&[r#"{"a\/b\u007ec":{"\ud83d\ude00":[1],"\ud83d":2}}"#], &options).expect("valid");
    assert_eq!(output.files.len(), 1);
    assert_eq!(document.inline, [("/a~1b~0c/\\ud83d".into(), "2".into())]);
}
