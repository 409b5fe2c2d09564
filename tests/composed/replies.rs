//! The same bytes as the host in Rust: replies, files, manifests and indexes.

use std::collections::{BTreeMap, BTreeSet};

use lro_host::compose::Files;
use lro_host::filter::Request as HostRequest;
use lro_host::policy::{DEFAULT_POLICY, Policy};
use lro_host::settings::{Action, DecisionMode, DescriptorLevel, ImageMode, PolicySettings, Size, SizeUnit};
use lro_tests::{TENANT, component, imports, patient, sandbox, settings, workspace};
use serde_json::json;

use crate::support::{Composed, Error, Instance, Outcome, Reply, SizeUnit as Unit, in_rust, request};

const BOTH: [Files; 2] = [Files::Memory, Files::Directory];

fn frozen() -> Vec<u8> {
    std::fs::read(workspace().join("tests/frozen/policy-0.1.0.wasm")).unwrap()
}

/// Records with what re-serializing would lose: large integers, `1.0`, `1e2`, escapes, the order of keys, one key twice.
fn rows(count: u32) -> String {
    let row = |index: u32| {
        format!(
            r#"{{"z":{index},"id":9007199254740993,"price":1.0,"rate":1e2,"name":"Zürich \u00e9 \"{index}\"","note":null,"z":"{}"}}"#,
            ["open", "closed"][index as usize % 2]
        )
    };
    (0..count).map(row).collect::<Vec<_>>().join(",")
}

fn text_result(text: &str) -> String {
    json!({"content": [{"type": "text", "text": text}]}).to_string()
}

/// Results of every kind, by name.
pub(crate) fn results() -> Vec<(&'static str, String)> {
    let rows = rows(520);
    let object = format!(r#"{{"items":[{rows}],"next":"more","total":520}}"#);
    let quoted = serde_json::to_string(&object).unwrap();
    let csv: String = (0..2000).map(|index| format!("{index},city {index},\"a, b\",{}\n", index * 7)).collect();
    let log: String =
        (0..1500).map(|index| format!("2026-11-20T09:30:{:02}Z INFO line {index}\n", index % 60)).collect();
    let png = format!("iVBORw0KGgo{}", "AAAA".repeat(400));
    let blob = "AAEC".repeat(30_000);
    vec![
        ("small", text_result("three words only")),
        ("records in a text", text_result(&format!("[{rows}]"))),
        ("structured", format!(r#"{{"content":[],"structuredContent":{object}}}"#)),
        (
            "structured and its copy",
            format!(
                r#"{{ "content" : [{{"type":"text","text":{quoted}}}], "structuredContent": {object}, "_meta":{{"k":1}} }}"#
            ),
        ),
        ("csv", text_result(&format!("id,name,note,value\n{csv}"))),
        ("log", text_result(&log)),
        (
            "kinds",
            format!(
                r#"{{"content":[{{"type":"text","text":{quoted},"annotations":{{"priority":1}}}},{{"type":"image","data":"{png}","mimeType":"image/png"}},{{"type":"resource","resource":{{"uri":"file:///a.bin","mimeType":"application/octet-stream","blob":"{blob}"}}}},{{"type":"resource_link","uri":"file:///b","name":"b"}}],"_meta":{{"trace":"x"}},"extra":[1,2]}}"#
            ),
        ),
        ("error", format!(r#"{{"isError":true,"content":[{{"type":"text","text":{quoted}}}]}}"#)),
        (
            "response",
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":[{{"type":"text","text":{quoted}}}]}}}}"#),
        ),
        ("task", r#"{"resultType":"task","task":{"taskId":"1","status":"working"}}"#.to_owned()),
    ]
}

/// Settings of the host in Rust, and the same as JSON.
pub(crate) fn cases() -> Vec<(PolicySettings, String)> {
    let size = |amount, unit| Size { amount, unit };
    let characters = |amount| size(amount, SizeUnit::Characters);
    let tokens = size(1_600, SizeUnit::Tokens);
    let defaults = settings();
    vec![
        (defaults.clone(), "{}".to_owned()),
        (
            PolicySettings { mode: DecisionMode::Always, level: DescriptorLevel::Full, ..defaults.clone() },
            r#"{"mode":"always","level":"full"}"#.to_owned(),
        ),
        (
            PolicySettings {
                threshold: tokens,
                truncate_limit: tokens,
                images: ImageMode::Offload,
                inline_keys: vec!["next".to_owned()],
                ..defaults.clone()
            },
            r#"{"preset":"1600-tokens","images":"offload","inline-keys":["next"]}"#.to_owned(),
        ),
        (
            PolicySettings {
                action: Action::Truncate,
                threshold: characters(4_000),
                truncate_limit: characters(3_000),
                truncate_suffix: "… cut".to_owned(),
                ..defaults.clone()
            },
            r#"{"action":"truncate","threshold":4000,"truncate-limit":3000,"truncate-suffix":"… cut"}"#.to_owned(),
        ),
        (
            PolicySettings {
                action: Action::Reject,
                threshold: size(2_000, SizeUnit::Bytes),
                truncate_limit: size(2_000, SizeUnit::Bytes),
                ..defaults
            },
            r#"{"action":"reject","threshold":2000,"unit":"bytes"}"#.to_owned(),
        ),
    ]
}

/// Compares all results with all settings; returns how many were offloaded.
fn compare(policy: &[u8]) -> usize {
    let composed = BOTH.map(|files| Composed::new(policy, files));
    let policy = Policy::from_bytes(sandbox(), policy, &patient()).unwrap();
    let mut offloads = 0;
    for (of_host, json) in cases() {
        for (name, result) in results() {
            let host = HostRequest {
                session: Some("s 1".to_owned()),
                query: Some(r#"{"q":"x"}"#.to_owned()),
                settings: of_host.clone().into(),
                ..HostRequest::new(TENANT, "list items")
            };
            let (expected, request) = in_rust(&policy, &json, host, &result);
            offloads += usize::from(!expected.files.is_empty());
            for composed in &composed {
                let mut with_digests = composed.instance();
                let completed = with_digests.filter_with_digests(&request, &result).unwrap();
                let found =
                    [composed.instance().outcomes(&request, &result), with_digests.outcomes_of(completed, &result)];
                for found in found {
                    assert_eq!(found.reply, expected.reply, "{name}, {json}");
                    let names = |files: &BTreeMap<String, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
                    assert_eq!(names(&found.files), names(&expected.files), "{name}, {json}");
                    for (file, bytes) in &expected.files {
                        assert!(found.files[file] == *bytes, "{name}, {json}: `{file}` differs");
                    }
                }
            }
        }
    }
    offloads
}

#[test]
fn the_default_policy_gives_the_bytes_of_the_host_in_rust() {
    assert_eq!(compare(DEFAULT_POLICY), 22);
}

#[test]
fn the_redacting_policy_gives_the_bytes_of_the_host_in_rust() {
    assert_eq!(compare(&component("lro_redact.wasm")), 23);
}

#[test]
fn a_policy_frozen_at_0_1_0_gives_the_bytes_of_the_host_in_rust() {
    assert_eq!(compare(&frozen()), 22);
}

#[test]
fn digests_of_the_host_complete_one_offload_once() {
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let mut instance = composed.instance();
    let wrong = |found: Result<Reply, Error>| matches!(found, Err(Error::Digests(_)));
    let large = text_result(&format!("[{}]", rows(1000)));
    assert!(wrong(instance.digested(&[])), "before a call");
    for digests in [vec![], vec![vec![0; 31]], vec![vec![0; 32]; 9]] {
        let message = instance.message_of(0, large.as_bytes().chunks(1 << 20));
        let number = instance.number(message);
        let reply = instance.filter_undigested(&request("{}"), number).unwrap();
        assert_eq!((reply.outcome, &reply.tool_result, reply.files.len()), (Outcome::Offload, &None, 1));
        assert!(wrong(instance.digested(&digests)), "{digests:?}");
        instance.release(message);
    }
    let completed = instance.filter_with_digests(&request("{}"), &large).unwrap();
    assert_eq!(completed.files.last().unwrap().name, "manifest.json");
    assert!(wrong(instance.digested(&[vec![0; 32]])), "a second time");
    // A call that ends in another way leaves nothing to complete.
    let message = instance.message_of(0, large.as_bytes().chunks(1 << 20));
    let number = instance.number(message);
    instance.filter_undigested(&request("{}"), number).unwrap();
    instance.filter(&request("{}"), &text_result("small")).unwrap();
    assert!(wrong(instance.digested(&[vec![0; 32]])), "after another call");
}

#[test]
fn the_limits_of_the_reader_reach_the_policy() {
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let policy = Policy::from_bytes(sandbox(), DEFAULT_POLICY, &patient()).unwrap();
    let limits =
        [Some(Size { amount: 900, unit: SizeUnit::Bytes }), Some(Size { amount: 700, unit: SizeUnit::Tokens }), None];
    let mut replies = BTreeSet::new();
    for reader_limit in limits {
        for descriptor_room in [Some(800), Some(2_000), None] {
            let result = text_result(&format!("[{}]", rows(520)));
            let host = HostRequest { reader_limit, descriptor_room, ..HostRequest::new(TENANT, "list items") };
            let (expected, request) = in_rust(&policy, "{}", host, &result);
            let found = composed.instance().outcomes(&request, &result);
            assert_eq!(found.reply, expected.reply, "{reader_limit:?}, {descriptor_room:?}");
            assert!(found == expected, "{reader_limit:?}, {descriptor_room:?}: the files differ");
            replies.insert(found.reply.replace(&request.id, ""));
        }
    }
    assert!(replies.len() > 2, "the limits change nothing: {replies:?}");
}

#[test]
fn a_message_comes_in_pieces_of_any_length() {
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let result = text_result(&format!("[{}]", rows(520)));
    let expected = composed.instance().outcomes(&request("{}"), &result);
    for length in [1, 7, 4_093, 1 << 20] {
        for size in [0, result.len() as u64, 3] {
            let mut instance = composed.instance();
            let message = instance.message_of(size, result.as_bytes().chunks(length));
            assert!(instance.read_message(message) == result.as_bytes(), "{length}, {size}");
            let reply = instance.filter_message(&request("{}"), message).unwrap();
            assert_eq!(reply.tool_result.as_ref(), Some(&expected.reply), "{length}, {size}");
        }
    }
    let mut instance = composed.instance();
    let cut = instance.message_of(0, [&b"{\"content\":[\xc3"[..]].into_iter());
    assert!(matches!(instance.filter_message(&request("{}"), cut), Err(Error::ToolResult(_))));
}

#[test]
fn messages_are_held_beside_each_other() {
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let mut instance = composed.instance();
    let (large, small) = (text_result(&format!("[{}]", rows(520))), text_result("three words only"));
    let first = instance.message_of(0, large.as_bytes().chunks(9));
    let second = instance.message_of(0, small.as_bytes().chunks(9));
    assert_eq!(instance.filter_message(&request("{}"), second).unwrap().outcome, Outcome::Pass);
    assert_eq!(instance.filter_message(&request("{}"), first).unwrap().outcome, Outcome::Offload);
    let gone = instance.number(second);
    instance.release(second);
    assert!(matches!(instance.filter_number(&request("{}"), gone), Err(Error::ToolResult(_))));
    let again = instance.failed_message(&request("{}"), first, "the disk is full", true);
    assert_eq!(again.outcome, Outcome::Truncate);
}

#[test]
fn in_memory_nothing_is_imported() {
    for policy in [DEFAULT_POLICY.to_vec(), component("lro_redact.wasm"), frozen()] {
        let composed = lro_host::compose::compose(&policy, Files::Memory).unwrap();
        assert_eq!(imports(&composed).into_iter().collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn one_instance_answers_one_call_after_the_other() {
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let mut instance = composed.instance();
    let large = text_result(&format!("[{}]", rows(1000)));
    let first = instance.filter(&request("{}"), &large).unwrap();
    let files: Vec<_> = first.files.iter().map(|file| file.name.clone()).collect();
    assert_eq!(first.outcome, Outcome::Offload);
    assert_eq!(files.last().unwrap(), "manifest.json");
    let before = instance.read(&files[0]).unwrap();

    let small = instance.filter(&request("{}"), &text_result("small")).unwrap();
    assert_eq!((small.outcome, small.tool_result, small.files.len()), (Outcome::Pass, None, 0));
    assert!(instance.read(&files[0]).is_none(), "a file of the call before");

    instance.filter(&request("{}"), &large).unwrap();
    assert!(instance.read(&files[0]).unwrap() == before, "another file than the first time");
}

#[test]
fn sizes_are_those_of_thresholds() {
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let mut instance = composed.instance();
    let text = "Zürich, 漢字 and 1234567 words";
    let size = |instance: &mut Instance, unit| instance.size(text, unit);
    assert_eq!(size(&mut instance, Unit::Bytes), text.len() as u64);
    assert_eq!(size(&mut instance, Unit::Characters), text.chars().count() as u64);
    assert_eq!(size(&mut instance, Unit::Tokens), lro_host::mcp::wire_size(text, SizeUnit::Tokens));
}

#[test]
fn truncation_and_lists_of_tools() {
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let mut instance = composed.instance();
    let large = text_result(&format!("[{}]", rows(1000)));
    let cut = instance.truncate(r#"{"threshold":2000}"#, &large, "too large, says a test").unwrap();
    assert!(cut.chars().count() <= 2000 && cut.contains("too large, says a test"), "{cut}");

    let list = r#"{"tools":[{"name":"a","outputSchema":{"type":"object","properties":{"n":{"type":"integer"}}}},{"name":"b"}],"nextCursor":"c"}"#;
    let own = r#"{"name":"lro_read","inputSchema":{"type":"object"}}"#.to_owned();
    let widened = instance.tools_list("{}", list, std::slice::from_ref(&own)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&widened).unwrap();
    assert_eq!(value["tools"][0]["outputSchema"]["anyOf"].as_array().unwrap().len(), 2, "{widened}");
    assert_eq!(value["tools"][2]["name"], "lro_read");
    assert_eq!(value["nextCursor"], "c");
    let stripped = instance.tools_list(r#"{"schema":"strip"}"#, list, &[]).unwrap();
    assert_eq!(stripped, r#"{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"c"}"#);
    let wrong = instance.tools_list("{}", r#"{"content":[]}"#, &[]).unwrap_err();
    assert_eq!(
        format!("{wrong:?}"),
        r#"Error::ToolResult("not a result of `tools/list`: an object with the list `tools`")"#
    );
}
