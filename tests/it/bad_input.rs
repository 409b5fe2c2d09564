//! Bad input, and no directory to write to: a clear error or a file of text, and nothing lost.

use std::path::Path;
use std::sync::Arc;

use lro_host::filter::{Decision, Offloaded, Outcome, Request};
use lro_host::mcp::ToolResult;
use lro_host::sandbox::{Part, Payload};
use lro_host::settings::{PolicySettings, SectionRule};
use lro_host::store::{FileKind, Origin};
use lro_tests::{TENANT, always, check_on_unix, filter, offloaded, request, settings, structured, text};
use tempfile::TempDir;

/// Most memory of the default policy, whatever the size of the result.
const MEMORY_BYTES_MAX: usize = 8 << 20;

fn apply(root: &Path, payload: &Arc<Payload>) -> Decision {
    let decision = filter(root).apply(&request(always()), payload);
    for cost in [decision.inspect, decision.write].into_iter().flatten() {
        assert!(cost.memory_bytes < MEMORY_BYTES_MAX, "{} bytes of memory", cost.memory_bytes);
    }
    decision
}

fn only_file(offloaded: &Offloaded) -> Vec<u8> {
    let files = &offloaded.offload.record().files;
    assert_eq!(files.len(), 1, "{files:?}");
    std::fs::read(offloaded.offload.path().join(&files[0].name)).unwrap()
}

// What is not JSON becomes lines of text, byte for byte.
#[test]
fn what_is_not_json_is_text() {
    let root = TempDir::new().unwrap();
    let records = vec![r#"{"id":1,"text":"some text"}"#; 2000].join(",");
    let broken = [
        format!(r#"{{"rows":[{records}"#),
        format!(r#"{{"rows":[{records}]}} and more"#),
        format!(r#"{{"rows":[{records},]}}"#),
        format!(r#"{{"rows":[{records}],"bad":01}}"#),
        format!("{{\"rows\":[{records}],\"bad\":\"a\nb\"}}"),
        format!("{{\"rows\":[{records}],\"nul\":\0}}"),
        format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)),
        format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000)),
        "not JSON at all".to_owned(),
        "{".to_owned(),
        "NaN".to_owned(),
        "a\0b\0c\r\n\u{feff}\u{1f600}".to_owned(),
    ];
    for content in broken {
        let beginning: String = content.chars().take(20).collect();
        let found = offloaded(apply(root.path(), &text(content.clone())));
        // Python reads a list with a comma at its end: the text may have records beside it.
        let file = &found.offload.record().files[0];
        assert_eq!((file.kind, file.origin), (FileKind::Text, Origin::Content), "{beginning}");
        let written = std::fs::read(found.offload.path().join(&file.name)).unwrap();
        assert_eq!(written, content.as_bytes(), "{beginning}");
    }
}

// Structured content that no JSON reader of ours accepts is not let through at any size.
#[test]
fn too_deep_structured_content_does_not_pass_unseen() {
    let root = TempDir::new().unwrap();
    let deep = format!("{}{}", "[".repeat(40_000), "]".repeat(40_000));
    let decision = filter(root.path()).apply(&request(settings()), &structured(deep.clone()));
    match decision.outcome {
        Outcome::Offload(found) => assert_eq!(only_file(&found), deep.as_bytes()),
        Outcome::Truncate { warning: Some(_), .. } | Outcome::Fail(_) => {}
        other => panic!("{other:?}, because of {:?}", decision.failure),
    }
}

// Cut anywhere, a small document is never taken for a whole one and never lost.
#[test]
fn a_cut_document_is_kept_whole() {
    let root = TempDir::new().unwrap();
    let filter = filter(root.path());
    let whole = r#"{"a":[1,-2.5e3,"x\u00e9\ud83d\ude00"],"b":{"c":true,"d":null},"e":"é"}"#;
    for end in (1..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        let decision = filter.apply(&request(always()), &text(whole[..end].to_owned()));
        assert_eq!(only_file(&offloaded(decision)), &whole.as_bytes()[..end], "cut at {end}");
    }
}

#[test]
fn strange_but_legal_documents_are_kept() {
    let root = TempDir::new().unwrap();
    let input = root.path().join("input");
    let rows = vec![r#"{"id":1}"#; 2000].join(",");
    let documents = [
        r#"[]"#.to_owned(),
        r#"{}"#.to_owned(),
        r#"{"rows":[]}"#.to_owned(),
        r#"[1,"a",null,[2],{"b":3}]"#.to_owned(),
        r#""only a string""#.to_owned(),
        "-0.0e-10".to_owned(),
        format!(r#"{{"rows":[{rows},"\ud800","\udc00\ud800",{{"\ud800":1}}]}}"#),
        format!(r#"{{"rows":[{rows}],"rows":[{rows}],"":{{"":1}},"a/b~c":{{"x":1}},"rows":7}}"#),
        format!(r#"{{"deep":{}{rows}{}}}"#, r#"{"a":["#, "]}"),
        format!(r#"{{"value":{}}}"#, "1".repeat(100_000)),
        format!("{{\r\n\t\"rows\" : [ {rows} ] ,\n \"x\" : 1.0 }}\n"),
        format!("{}{}", "[".repeat(1000), "]".repeat(1000)),
        format!(r#"{{"{}":[{rows}]}}"#, "k".repeat(5000)),
        format!(r#"{{"offloaded":1,"files":[{rows}],"summary":2,"guidance":{{"a":1}},"inline":3,"handle":4}}"#),
    ];
    for document in documents {
        std::fs::write(&input, &document).unwrap();
        let beginning: String = document.chars().take(60).collect();
        let decision = apply(&root.path().join("store"), &structured(document));
        assert!(matches!(decision.outcome, Outcome::Offload(_)), "{beginning}: {:?}", decision.failure);
        let found = offloaded(decision);
        check_on_unix(&[&"lossless", &found.offload.path(), &input]);
    }
}

#[test]
fn empty_and_invalid_texts() {
    let root = TempDir::new().unwrap();
    let decision = filter(root.path()).apply(&request(settings()), &text(""));
    assert!(matches!(decision.outcome, Outcome::Pass), "{:?}", decision.outcome);
    let invalid = b"abc\xff\xfe".to_vec();
    let refused = Part::text(lro_host::sandbox::PartKind::Text, invalid.clone().into()).unwrap_err();
    assert!(refused.to_string().to_lowercase().contains("utf-8"), "{refused}");
    let found = offloaded(apply(root.path(), &Arc::new(Payload::new(vec![Part::binary(invalid.clone().into())]))));
    assert_eq!(only_file(&found), invalid);
}

// A message that is not a tool result is refused with the reason and its place.
#[test]
fn a_malformed_message_names_the_place() {
    let cases: [(&[u8], &str); 6] = [
        (b"", "expected"),
        (b"{\"content\":[", "12"),
        (b"{\"content\":[{\"type\":\"text\",\"text\":\"\xff\"}]}", "byte 35"),
        (b"{\"content\":7}", "not an array"),
        (b"[1,2]", "object"),
        (b"{\"content\":[],\"content\":[]}", "two members `content`"),
    ];
    for (message, reason) in cases {
        let error = ToolResult::parse(bytes::Bytes::from_static(message)).unwrap_err();
        assert!(error.to_string().contains(reason), "{}: {error}", String::from_utf8_lossy(message));
    }
}

// 200 MB in one string.
#[test]
fn a_giant_string_streams() {
    let root = TempDir::new().unwrap();
    let string = "0123456789abcdef".repeat(200_000_000 / 16);
    let found = offloaded(apply(root.path(), &structured(format!(r#"{{"a":1,"text":"{string}"}}"#))));
    assert!(only_file(&found) == string.as_bytes());
}

// 1,000,000 keys, alike (a table) or not (small members).
#[test]
fn a_million_keys_are_records() {
    let root = TempDir::new().unwrap();
    for second in ["1", r#""one""#] {
        let members: Vec<String> =
            (0..500_000).map(|index| format!(r#""key {index}":1,"other {index}":{second}"#)).collect();
        let found = offloaded(apply(root.path(), &structured(format!("{{{}}}", members.join(",")))));
        let record = found.offload.record();
        let records: u64 = record.files.iter().map(|file| file.records).sum();
        let descriptor = found.descriptor.chars().count();
        assert!((999_900..=1_000_000).contains(&records) && record.files.len() <= 2, "{records} records");
        assert!(descriptor < 5000, "{descriptor} characters");
    }
}

// A configured section that is no list is one record; one that is not there is no error.
#[test]
fn a_section_key_that_is_no_list() {
    let root = TempDir::new().unwrap();
    let input = root.path().join("input");
    let document =
        format!(r#"{{"scalar":7,"object":{{"a":1,"b":2}},"rows":[{}]}}"#, vec![r#"{"id":1}"#; 500].join(","));
    std::fs::write(&input, &document).unwrap();
    let rule = |key: &str| SectionRule {
        key: key.to_owned(),
        filename_prefix: None,
        schema: None,
        summaries: Vec::new(),
        recipes: Vec::new(),
    };
    let settings = PolicySettings { sections: ["scalar", "object", "absent"].map(rule).into(), ..always() };
    let found = offloaded(filter(&root.path().join("store")).apply(&request(settings), &structured(document)));
    let records: Vec<_> =
        found.offload.record().files.iter().map(|file| (file.section.as_str(), file.records)).collect();
    assert_eq!(records, [("scalar", 1), ("object", 1), ("rows", 500)]);
    check_on_unix(&[&"lossless", &found.offload.path(), &input]);
}

pub(crate) fn large() -> Arc<Payload> {
    structured(format!(
        r#"{{"rows":[{}]}}"#,
        vec![r#"{"id":1,"text":"0123456789012345678901234567890123456789"}"#; 400_000].join(",")
    ))
}

/// The call succeeds with a warning, and nothing of the failed offload is left.
pub(crate) fn falls_back(decision: Decision, root: &Path) {
    let Outcome::Truncate { warning: Some(warning), .. } = &decision.outcome else {
        panic!("{:?}, because of {:?}", decision.outcome, decision.failure)
    };
    println!("{warning}");
    let tenant = root.join(TENANT);
    if tenant.is_dir() {
        assert_eq!(std::fs::read_dir(tenant).unwrap().count(), 0, "something is left");
    }
}

pub(crate) fn plain() -> Request {
    request(always())
}

// Works for root too, whom modes do not stop.
#[test]
fn a_directory_that_cannot_be_made_is_no_failure_of_the_call() {
    let root = TempDir::new().unwrap();
    let filter = filter(root.path());
    std::fs::write(root.path().join(TENANT), "in the way").unwrap();
    falls_back(filter.apply(&plain(), &large()), root.path());
    // It recovers when the fault clears.
    std::fs::remove_file(root.path().join(TENANT)).unwrap();
    offloaded(filter.apply(&plain(), &large()));
}
