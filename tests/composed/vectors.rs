//! The vectors in `tests/vectors/replies`: what hosts in every language make of a result, from its JSON to the reply and the files.
//!
//! Each is a JSON file with `result`, the text of a `CallToolResult` or of a response, and `cases`: the settings, the outcome,
//! the reply as text unless it passes, and size and SHA-256 of each file.

use std::collections::{BTreeMap, BTreeSet};

use lro_host::compose::Files;
use lro_host::policy::{DEFAULT_POLICY, Digest};
use lro_tests::workspace;
use serde_json::{Value, json};

use crate::replies::{cases, results};
use crate::support::{Composed, Outcome, Request, request};

/// Set to anything, the vectors are written instead of compared, for a review by `git diff`.
const WRITE: &str = "LRO_WRITE_VECTORS";

fn vector(composed: &Composed, result: &str) -> Value {
    let case = |settings: String| {
        let mut instance = composed.instance();
        let request = Request {
            session: Some("s 1".to_owned()),
            query: Some(r#"{"q":"x"}"#.to_owned()),
            tool: "list items".to_owned(),
            ..request(&settings)
        };
        let reply = instance.filter(&request, result).unwrap();
        let outcome = match reply.outcome {
            Outcome::Pass => "pass",
            Outcome::Offload => "offload",
            Outcome::Truncate => "truncate",
            Outcome::Reject => "reject",
            Outcome::Fail => "fail",
        };
        let file = |name: &str| {
            let bytes = instance.read(name).unwrap();
            (name.to_owned(), json!({"bytes": bytes.len(), "sha256": Digest::of(&bytes).to_string()}))
        };
        let files: BTreeMap<_, _> = reply.files.iter().map(|file| file.name.as_str()).map(file).collect();
        let settings: Value = serde_json::from_str(&settings).unwrap();
        json!({"settings": settings, "outcome": outcome, "reply": reply.tool_result, "files": files})
    };
    let cases: Vec<_> = cases().into_iter().map(|(_, settings)| case(settings)).collect();
    json!({"result": result, "cases": cases})
}

#[test]
fn the_vectors_of_replies_are_what_the_component_gives() {
    let composed = Composed::new(DEFAULT_POLICY, Files::Memory);
    let folder = workspace().join("tests/vectors/replies");
    let mut names = BTreeSet::new();
    for (name, result) in results() {
        let name = format!("{}.json", name.replace(' ', "-"));
        let text = format!("{:#}\n", vector(&composed, &result));
        let path = folder.join(&name);
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(expected == text, "{} differs; write it with {WRITE}=1, and review it", path.display());
        names.insert(name);
    }
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(entries.collect::<BTreeSet<_>>(), names, "a file of no vector");
}
