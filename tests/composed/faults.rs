//! Whether a failure is the fault of the policy: a component says of each what the host in Rust does.

use bytes::Bytes;
use lro_host::compose::Files;
use lro_host::filter::FilterError;
use lro_host::mcp::ToolResult;
use lro_tests::{always, component, filter_with, hostile_policy, request as host_request};
use serde_json::json;
use tempfile::TempDir;

use crate::support::{Composed, Instance, request};

/// What answers falsely, what refuses, and what does neither.
const BEHAVIOURS: [&str; 20] = [
    "inspect-plan:3",
    "lie-size",
    "lie-absent",
    "lie-unlisted",
    "lie-twice",
    "lie-name",
    "lie-not-json",
    "lie-not-object",
    "lie-nan",
    "lie-cycle",
    "lie-derived",
    "lie-schema",
    "lie-count:3",
    "big-descriptor:9000000",
    "rude-name",
    "rude-error:1",
    "no-such-behaviour",
    "many-files:9999",
    "overwrite:3",
    "honest",
];

#[test]
fn false_answers_are_told_from_other_failures() {
    let composed = Composed::new(&component("lro_test_policies.wasm"), Files::Memory);
    let result = r#"{"content":[{"type":"text","text":"one"}]}"#;
    let parsed = ToolResult::parse(Bytes::from(result)).unwrap();
    for behaviour in BEHAVIOURS {
        let mut settings = always();
        settings.custom = Some(behaviour.to_owned());
        // Another filter each time, as one parks a policy that fails repeatedly.
        let root = TempDir::new().unwrap();
        let filter = filter_with(hostile_policy(), root.path());
        let in_rust = filter.apply(&host_request(settings), parsed.payload()).failure;
        let expected = in_rust.as_ref().map(FilterError::is_fault_of_policy);
        let settings = json!({"mode": "always", "custom": behaviour}).to_string();
        let mut instance = composed.instance();
        let replies = [Instance::filter, Instance::filter_with_digests]
            .map(|filter| filter(&mut instance, &request(&settings), result));
        for reply in replies {
            let failure = reply.unwrap().failure;
            let found = failure.as_ref().map(|failure| failure.false_answer);
            assert_eq!(found, expected, "{behaviour}: {failure:?} and {in_rust:?}");
        }
    }
}
