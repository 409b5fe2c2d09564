//! Results that would pass without a secret do not pass with one.

use std::sync::Arc;

use lro_host::filter::{Outcome, Request};
use lro_host::mcp::{self, ToolResult};
use lro_host::sandbox::{Part, PartKind, Payload};
use lro_host::settings::{Action, DecisionMode, PolicySettings};
use lro_tests::{assert_memory_of_the_start, offloaded, request, settings, structured, text};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{REPLACEMENT, SECRETS, assert_clean, component, redacting, with_custom};

/// The reply to a result.
pub(crate) fn reply(settings: PolicySettings, result: &Value) -> Value {
    let root = TempDir::new().unwrap();
    let result = ToolResult::parse(result.to_string().into()).unwrap();
    let request = Request { is_error: result.is_error(), ..request(settings) };
    let decision = redacting(root.path()).apply(&request, result.payload());
    assert!(decision.failure.is_none(), "{:?}", decision.failure);
    if matches!(decision.outcome, Outcome::Offload(_)) {
        assert_clean(&decision, root.path());
    }
    serde_json::from_slice(&mcp::answer(&result, &decision.outcome)).unwrap()
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// The descriptor in the first block of a reply.
fn descriptor(reply: &Value) -> Value {
    serde_json::from_str(reply["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn without_a_secret_they_pass() {
    let result = json!({
        "content": [text_block("all is well at 10.0.0.1"), text_block("{\"a\": [1, \"x@y\"]}")],
        "structuredContent": {"tokens": 4111, "id": 41111111111111111u64},
        "_meta": {"a": null},
    });
    for mode in [DecisionMode::BySize, DecisionMode::Never] {
        assert_eq!(reply(PolicySettings { mode, ..settings() }, &result), result);
    }
}

#[test]
fn they_take_no_memory_beyond_that_of_the_start() {
    let root = TempDir::new().unwrap();
    assert_memory_of_the_start(&redacting(root.path()), &std::fs::read(component()).unwrap());
}

#[test]
fn a_secret_leaves_the_rest_in_the_descriptor() {
    let (mail, card) = (SECRETS[0], SECRETS[1]);
    let value = json!({"user": mail, "cards": [card, 4111111111111111u64], "password": {"s3cret": 1}, "big": 12345678901234567890u64});
    let safe = json!({"user": REPLACEMENT, "cards": [REPLACEMENT, REPLACEMENT], "password": REPLACEMENT, "big": 12345678901234567890u64});
    // The text, a copy of the structured content, is replaced with it; the other block stays.
    let result = json!({
        "content": [text_block(&value.to_string()), text_block("stays")], "structuredContent": value, "isError": false,
    });
    for mode in [DecisionMode::BySize, DecisionMode::Never] {
        let reply = reply(PolicySettings { mode, ..settings() }, &result);
        let descriptor = descriptor(&reply);
        assert_eq!(descriptor["redacted"], json!([safe]));
        assert_eq!((&descriptor["offloaded"], &descriptor["files"]), (&json!(true), &json!({})));
        assert_eq!(reply["structuredContent"], descriptor);
        assert_eq!(reply["content"][1], text_block("stays"));
        assert_eq!(reply["isError"], false);
    }
}

#[test]
fn errors_texts_blocks_and_metadata_are_looked_at() {
    let mail = SECRETS[0];
    let link = json!({ "type": "resource_link", "uri": format!("mailto:{mail}"), "name": "x" });
    let embedded = json!({ "type": "resource", "resource": { "uri": format!("file:///{mail}"), "text": "harmless" } });
    let result = json!({
        "content": [text_block(&format!("cannot reach {mail}\nor {mail}")), link, embedded],
        "_meta": { "io.example/contact": mail },
        "isError": true,
    });
    let reply = reply(settings(), &result);
    let redacted = json!([
        format!("cannot reach {REPLACEMENT}\nor {REPLACEMENT}"),
        { "type": "resource_link", "uri": format!("mailto:{REPLACEMENT}"), "name": "x" },
        "harmless",
        { "io.example/contact": REPLACEMENT },
    ]);
    assert_eq!(descriptor(&reply)["redacted"], redacted);
    assert_eq!((&reply["isError"], reply["content"].as_array().unwrap().len()), (&json!(true), 1));
    assert!(!reply.to_string().contains("s3cret"), "{reply}");
}

// What a host cuts it cuts from the result as it came.
#[test]
fn what_has_a_secret_is_not_cut() {
    let long = |text: &str| format!("{text} {}", "word ".repeat(20_000));
    for (action, is_error) in [(Action::Truncate, false), (Action::Offload, true)] {
        let settings = PolicySettings { action, ..settings() };
        let of = |text: &str| json!({ "content": [text_block(text)], "isError": is_error });
        let cut = reply(settings.clone(), &of(&long("harmless"))).to_string();
        assert!(cut.contains("harmless word") && cut.len() < 60_000, "{cut:.200}");
        let described = descriptor(&reply(settings, &of(&long(SECRETS[3]))));
        assert!(described["summary"]["text"]["head"].as_str().unwrap().starts_with("[redacted] word"), "{described}");
    }
    let settings = PolicySettings { action: Action::Reject, ..settings() };
    let refused = reply(settings, &json!({ "content": [text_block(&long(SECRETS[3]))] }));
    assert_eq!(refused["isError"], true);
    assert!(!refused.to_string().contains("s3cret"));
}

#[test]
fn binary_parts_are_dropped_unless_they_are_to_be_kept() {
    let image = || Part::binary(b"s3cret".as_slice().into()).with_media_type("image/png");
    let payload = |words: usize| {
        let text = Part::text(PartKind::Text, "word ".repeat(words).into()).unwrap();
        Arc::new(Payload::new(vec![text, image()]))
    };
    for (words, kept) in [(1, vec![true, false]), (20_000, vec![false, false])] {
        let root = TempDir::new().unwrap();
        let decision = redacting(root.path()).apply(&request(settings()), &payload(words));
        assert_clean(&decision, root.path());
        let offloaded = offloaded(decision);
        assert_eq!(offloaded.kept, kept);
        assert_eq!(offloaded.notes, ["dropped a binary part, which cannot be redacted: image/png, 6 bytes"]);
        let descriptor: Value = serde_json::from_str(&offloaded.descriptor).unwrap();
        assert_eq!(descriptor["dropped"], json!(["image/png, 6 bytes"]));
    }
    let root = TempDir::new().unwrap();
    let request = request(with_custom(settings(), r#"{"binary":"keep"}"#));
    let decision = redacting(root.path()).apply(&request, &payload(1));
    assert!(matches!(decision.outcome, Outcome::Pass), "{:?}", decision.outcome);
}

#[test]
fn settings_say_what_is_secret() {
    let custom = r#"{"fields":["/people/*/born"],"patterns":["card"],"replacement":"***"}"#;
    let document =
        json!({"people": [{"born": 1, "password": "a@b.com"}], "born": 2, "card": 4111111111111111u64}).to_string();
    let root = TempDir::new().unwrap();
    let decision = redacting(root.path()).apply(&request(with_custom(settings(), custom)), &structured(document));
    let descriptor: Value = serde_json::from_str(&offloaded(decision).descriptor).unwrap();
    let safe = json!({"people": [{"born": "***", "password": "a@b.com"}], "born": 2, "card": "***"});
    assert_eq!(descriptor["redacted"], json!([safe]));
}

#[test]
fn what_does_not_fit_a_descriptor_goes_to_files() {
    let root = TempDir::new().unwrap();
    // Below the threshold, and beyond the descriptor limit with its escapes.
    let long = format!("{}{}", SECRETS[0], "\n".repeat(30_000));
    let decision = redacting(root.path()).apply(&request(settings()), &text(long));
    assert_clean(&decision, root.path());
    assert_eq!(offloaded(decision).offload.record().files.len(), 1);
}
