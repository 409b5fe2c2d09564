//! Ceilings: whatever kind an answer to a call is, it is no larger on the wire, and nothing that was offloaded is lost.

use std::process::Command;

use lro_host::mcp::wire_size;
use lro_host::settings::SizeUnit;
use lro_tests::{target, workspace};
use serde_json::{Value, json};

use crate::scripted::{Script, Scripted, Setup, descriptor, handle, records, structured, text};
use crate::support::{node, piped};

/// In estimated tokens.
const CEILING: u64 = 2_000;

fn start(script: &Script, toml: &str, client: &str) -> Scripted {
    let mut gateway = script.silent(&Setup { toml, ..Setup::default() });
    gateway.shake_hands(client);
    gateway
}

fn size(answer: &str) -> u64 {
    wire_size(answer, SizeUnit::Tokens)
}

/// Tokens of each message, the larger count of two tokenizers.
pub(crate) fn counted(messages: &[String]) -> Vec<u64> {
    counted_by(&[], messages)
}

/// Tokens of each message by an encoding, such as `o200k_base`.
pub(crate) fn counted_by(encoding: &[&str], messages: &[String]) -> Vec<u64> {
    let script = workspace().join("tests/tools/tokens/count.mjs");
    let mut count = Command::new(node());
    let output = piped(count.arg(script).arg(target().join("test-data")).args(encoding), messages);
    serde_json::from_slice(&output).unwrap()
}

/// Data of many kinds, each more than the ceiling and less than the threshold.
fn kinds() -> Vec<(&'static str, String)> {
    let lines = |line: &dyn Fn(usize) -> String| (0..400).map(line).collect::<Vec<_>>().join("\n");
    vec![
        ("records", records(300).to_string()),
        ("log", lines(&|n| format!("2026-11-20T09:30:{:02}Z ERROR worker-{n}: connection {n} timed out", n % 60))),
        ("csv", lines(&|n| format!("{n},name {n},{}.5,2026-11-20", n * 7))),
        ("prose", "A sentence of plain words, one after another. ".repeat(300)),
        ("identifiers", lines(&|n| format!("{:032x}", (n as u128 + 1) * 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))),
        ("Chinese", "漢字とかな".repeat(1_500)),
        ("signs", "{[(<>)]};:,.".repeat(900)),
        ("escapes", "\"\\\n".repeat(4_000)),
        ("emoji", "📦🎉".repeat(1_500)),
        ("letters", "qzxkvj".repeat(3_000)),
    ]
}

/// The forms of a result: text, structured content, both.
fn forms(data: &str) -> [(&'static str, Value); 4] {
    let value = serde_json::from_str(data).unwrap_or_else(|_| json!({ "text": data }));
    let object = if value.is_array() { json!({ "items": value }) } else { value };
    let error = json!({"content": [{"type": "text", "text": data}], "isError": true});
    let only = json!({"content": [], "structuredContent": object});
    [("text", text(data)), ("structured", only), ("both", structured(&object)), ("error", error)]
}

// Every kind of data in every form of a result, under every action.
#[test]
fn no_kind_of_answer_passes_the_ceiling() {
    let mut script = Script::new();
    let mut tools = Vec::new();
    for (kind, data) in kinds() {
        for (form, result) in forms(&data) {
            let tool = format!("{kind} {form}");
            script = script.call(&tool, result);
            tools.push(tool);
        }
    }
    script = script.line(
        "tools/call protocol error",
        json!({"jsonrpc": "2.0", "id": "@ID@", "error": {"code": -32000, "message": "why it failed ".repeat(3_000)}})
            .to_string()
            .replace("\"@ID@\"", "@ID@"),
    );
    tools.push("protocol error".to_owned());
    for (tokenizer, encoding) in [("estimate", &[][..]), ("o200k", &["o200k_base"]), ("cl100k", &["cl100k_base"])] {
        let (mut places, mut answers) = (Vec::new(), Vec::new());
        for action in ["offload", "truncate", "reject"] {
            let advice = "ask for less ".repeat(2_000);
            let toml = format!(
                "ceiling = {CEILING}\nthreshold = 10000\naction = \"{action}\"\nadvice = \"{advice}\"\n\
                 tokenizer = \"{tokenizer}\"\n"
            );
            let mut gateway = start(&script, &toml, "any");
            for tool in &tools {
                let answer = gateway.answer(tool);
                assert!(serde_json::from_str::<Value>(&answer).is_ok(), "{tool}: {answer:.500}");
                places.push(format!("{action}, {tool}"));
                answers.push(answer);
            }
        }
        let found = places.iter().zip(counted_by(encoding, &answers)).zip(&answers);
        let past: Vec<String> = found
            .filter(|((_, tokens), _)| *tokens > CEILING)
            .map(|((place, tokens), answer)| {
                format!("{place}: {tokens} tokens, {} estimated: {answer:.200}", size(answer))
            })
            .collect();
        assert!(past.is_empty(), "past the ceiling, {tokenizer}:\n{}", past.join("\n"));
        assert!(counted_by(encoding, &["word ".repeat(3_000)])[0] > CEILING, "the count counts");
    }
}

// To the token, whatever the estimate says: the text of a result, and by the table of its model.
#[test]
fn a_tokenizer_counts_thresholds() {
    let texts: Vec<(&str, String)> = kinds().into_iter().chain([("Thai", "ข้อมูลการทดสอบ ".repeat(400))]).collect();
    let script = texts.iter().fold(Script::new(), |script, (kind, data)| script.call(kind, text(data)));
    let data: Vec<String> = texts.iter().map(|(_, data)| data.clone()).collect();
    for (tokenizer, encoding) in [("o200k", "o200k_base"), ("cl100k", "cl100k_base")] {
        let mut differ = 0;
        for ((kind, data), tokens) in texts.iter().zip(counted_by(&[encoding], &data)) {
            differ += usize::from(lro_jsonl::tokens(data).abs_diff(tokens) > tokens / 5);
            for (threshold, passes) in [(tokens, true), (tokens - 1, false)] {
                let toml = format!(
                    "unit = \"tokens\"\nthreshold = {threshold}\n[models.\"*\"]\ntokenizer = \"{tokenizer}\"\n"
                );
                let result = start(&script, &toml, "any").call(kind, json!({}));
                assert_eq!(descriptor(&result).is_none(), passes, "{tokenizer}, {kind}, {tokens}: {result:.300}");
            }
        }
        assert!(differ >= 2, "{tokenizer}: the estimate would do, but for {differ} kinds");
    }
}

// What does not fit is found by one call with the handle.
#[test]
fn what_does_not_fit_is_read_back_in_smaller_pages() {
    let rows = records(2_000);
    let script = Script::new().call("large", structured(&json!({ "items": rows })));
    for (ceiling, unit) in [(800, "tokens"), (2_000, "tokens"), (3_000, "bytes")] {
        let toml = format!("ceiling = {ceiling}\nceiling-unit = \"{unit}\"\n");
        let mut gateway = start(&script, &toml, "any");
        let measured = |answer: &str| match unit {
            "bytes" => answer.len() as u64,
            _ => size(answer),
        };
        let handle = handle(&gateway.descriptor("large"));
        let read = json!({"name": "lro_read", "arguments": {"handle": handle, "section": "items", "bytes": 100_000}});
        let answer = gateway.ask("tools/call", read);
        assert!(measured(&answer) <= ceiling, "{} {unit}: {answer:.300}", measured(&answer));
        let page: Value = serde_json::from_str(&answer).unwrap();
        let mut page = page["result"]["structuredContent"].clone();
        let mut found: Vec<Value> = Vec::new();
        for _ in 0..3 {
            let lines = page["records"].as_array().unwrap_or_else(|| panic!("{page:.300}"));
            assert!(!lines.is_empty(), "{page:.300}");
            found.extend(lines.iter().cloned());
            let next = json!({"name": "lro_read", "arguments": {"handle": handle, "section": "items", "cursor": page["next"]}});
            let answer = gateway.ask("tools/call", next);
            assert!(measured(&answer) <= ceiling, "{} {unit}", measured(&answer));
            page = serde_json::from_str::<Value>(&answer).unwrap()["result"]["structuredContent"].clone();
        }
        assert_eq!(found, rows.as_array().unwrap()[..found.len()], "{ceiling} {unit}");
        let extract =
            json!({"name": "lro_extract", "arguments": {"handle": handle, "section": "items", "limit": 1000}});
        let answer = gateway.ask("tools/call", extract);
        let answered: Value = serde_json::from_str(&answer).unwrap();
        assert!(measured(&answer) <= ceiling, "{} {unit}", measured(&answer));
        let results = answered["result"]["structuredContent"]["results"].as_array();
        assert!(results.is_some_and(|results| !results.is_empty()), "{answer}");
        let resource = gateway.ask("resources/read", json!({ "uri": format!("lro://{handle}/items") }));
        assert!(
            measured(&resource) <= ceiling && resource.contains("contents"),
            "{} {unit}: {resource:.300}",
            measured(&resource)
        );
    }
}

// The ceilings of a tool and of a client hold beside the general one: the smallest counts.
#[test]
fn the_smallest_of_several_ceilings_counts() {
    let toml = "ceiling = 20000\n[tools.small]\nceiling = 3000\n[tools.bytes]\nceiling = 4000\nceiling-unit = \"bytes\"\n\
        [clients.tight]\nceiling = 1500\n";
    let data = records(700).to_string();
    let script = ["any", "small", "bytes"].iter().fold(Script::new(), |script, tool| script.call(tool, text(&data)));
    for (client, tool, most) in [("wide", "any", 20_000), ("wide", "small", 3_000), ("tight", "any", 1_500)] {
        let mut gateway = start(&script, toml, client);
        let answer = gateway.answer(tool);
        assert!(size(&answer) <= most, "{client}, {tool}: {}", size(&answer));
    }
    let mut gateway = start(&script, toml, "wide");
    let answer = gateway.answer("bytes");
    assert!(answer.len() <= 4_000, "{} bytes", answer.len());
    assert!(descriptor(&gateway.call("small", json!({}))).is_some());
}

// Images and small texts that would stay beside a descriptor go to files where the ceiling leaves no room for them.
#[test]
fn what_would_stay_beside_a_descriptor_is_written() {
    let note = "a note of some length ".repeat(20);
    let image = json!({"type": "image", "data": "QUJD".repeat(3_000), "mimeType": "image/png"});
    let blocks = json!([{"type": "text", "text": note}, image, {"type": "text", "text": records(700).to_string()}]);
    let script = Script::new().call("mixed", json!({ "content": blocks }));
    let mut gateway = start(&script, &format!("ceiling = {CEILING}\ninline-limit = 4000\n"), "any");
    let answer = gateway.answer("mixed");
    assert!(size(&answer) <= CEILING, "{} tokens: {answer:.300}", size(&answer));
    assert!(answer.contains("\\\"offloaded\\\":true"), "{answer:.300}");
    assert!(answer.contains(&note) || gateway.holds(note.as_bytes()), "the note is lost");
    assert!(answer.contains("QUJDQUJD") || gateway.holds(&b"ABC".repeat(3_000)), "the image is lost");
}
