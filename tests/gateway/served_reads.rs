//! The gateway that is a component, with a directory: clients read what it keeps, it expires, and there is a bound.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use lro_host::compose::Files;
use lro_host::policy::DEFAULT_POLICY;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{Gate, tool_call};
use crate::http::open_modern;
use crate::served::{MANY, Served, ask, descriptor, records, said, server, with_files};
use crate::support::{environment, path_text};
use crate::wire::{modern_meta, request};

/// Starts the component with a directory.
fn kept(offloads: &Path, variables: &[(&str, &str)]) -> Served {
    let component = with_files(DEFAULT_POLICY, Files::Directory, &server());
    let preopened = format!("{}::/", path_text(offloads));
    // What reads is large, and how fast it runs does not matter.
    Served::with(&component, variables, &["-O", "opt-level=0", "-S", "cli", "--dir", &preopened])
}

/// Offloads a result, and returns its handle.
fn offloaded(gate: &Served, id: u64) -> String {
    let descriptor = descriptor(&ask(&gate.url, &records(id, MANY, false)).answer()["result"]);
    descriptor["handle"].as_str().unwrap_or_else(|| panic!("no handle: {descriptor}")).to_owned()
}

/// The text of the answer to a question.
fn count(gate: &Served, handle: &str) -> String {
    let answer = ask(&gate.url, &tool_call(1, "lro_extract", json!({"handle": handle, "count": true}))).answer();
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}")).to_owned()
}

/// The names in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| path_text(Path::new(&entry.unwrap().file_name()))).collect();
    names.sort();
    names
}

/// The same request in the revision that names itself.
fn modern(message: &Value) -> Value {
    let mut message = message.clone();
    message["params"]["_meta"] = modern_meta();
    message
}

// Lists, instructions, answers, pages, resources and errors are those of the gateway in Rust, which reads the same offload.
#[test]
fn a_component_reads_back_as_the_gateway_does() {
    let offloads = TempDir::new().unwrap();
    let key = offloads.path().join(".cursor-key");
    fs::write(&key, [7; 32]).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let (alone, gate) = (Served::start(&server(), &[]), kept(offloads.path(), &[]));
    let gateway = Gate::proxy(&[], &alone.url, &environment(&[("MCP_LRO_DIR", &path_text(offloads.path()))]));
    let handle = offloaded(&gate, 1);
    let extract = |arguments: Value| tool_call(2, "lro_extract", arguments);
    let read = |arguments: Value| tool_call(3, "lro_read", arguments);
    let resource = |uri: &str| request(4, "resources/read", json!({"uri": uri}));
    let page = ask(&gate.url, &read(json!({"handle": handle, "limit": 5}))).answer();
    let cursor = &page["result"]["structuredContent"]["next"];
    assert!(cursor.is_string(), "{page}");
    let messages = [
        request(1, "initialize", json!({"protocolVersion": "2025-11-25"})),
        request(1, "tools/list", json!({})),
        request(1, "tools/list", json!({"cursor": "2"})),
        request(1, "resources/templates/list", json!({})),
        extract(json!({"handle": handle, "count": true})),
        extract(json!({"handle": handle, "where": [{"field": "state", "op": "eq", "value": "open"}], "limit": 3})),
        extract(json!({"handle": handle, "sql": "select state, count(*) as n from items group by state"})),
        extract(json!({"handle": handle, "where": [{"field": "", "op": "no"}]})),
        extract(json!({"handle": "../default", "count": true})),
        extract(json!({})),
        read(json!({"handle": handle, "limit": 5})),
        read(json!({"handle": handle, "cursor": cursor})),
        read(json!({"handle": handle, "cursor": "forged"})),
        resource(&format!("lro://{handle}/items?offset=3&limit=2")),
        resource(&format!("lro://{handle}/nothing")),
        resource("lro://../items"),
    ];
    for message in &messages {
        assert_eq!(said(&ask(&gate.url, message)), said(&ask(&gateway.url, message)), "{message}");
    }
    let discover = request(1, "server/discover", json!({}));
    for message in [&discover, &messages[1], &messages[4], &messages[8], &messages[10], &messages[12]].map(modern) {
        let answer = |url: &str| open_modern(url, &message, &[]).finish();
        assert_eq!(said(&answer(&gate.url)), said(&answer(&gateway.url)), "{message}");
    }
}

// A batch with requests about offloads is refused as a whole, with an error for each request; any other goes to the server.
#[test]
fn a_component_refuses_its_own_tools_in_a_batch() {
    let offloads = TempDir::new().unwrap();
    let (alone, gate) = (Served::start(&server(), &[]), kept(offloads.path(), &[]));
    let handle = offloaded(&gate, 1);
    let own = [
        tool_call(2, "lro_read", json!({"handle": handle})),
        request(2, "resources/read", json!({"uri": format!("lro://{handle}/items")})),
    ];
    for own in own {
        let batch =
            json!([request(1, "ping", json!({})), own, {"jsonrpc": "2.0", "method": "notifications/initialized"}]);
        let answer = ask(&gate.url, &batch).answer();
        let errors = answer.as_array().unwrap();
        let of = |error: &Value| (error["id"].clone(), error["error"]["code"].clone());
        assert_eq!(errors.iter().map(of).collect::<Vec<_>>(), [(json!(1), json!(-32600)), (json!(2), json!(-32600))]);
        assert!(answer.to_string().contains("takes each of them alone"), "{answer}");
    }
    let batch = json!([request(1, "ping", json!({})), records(2, 1, false)]);
    assert_eq!(said(&ask(&gate.url, &batch)), said(&ask(&alone.url, &batch)));
}

// The offloads of a tenant are not found by another one that uses the same directory.
#[test]
fn a_component_reads_no_offload_of_another_tenant() {
    let offloads = TempDir::new().unwrap();
    let (gate, other) = (kept(offloads.path(), &[]), kept(offloads.path(), &[("LRO_TENANT", "other")]));
    let handle = offloaded(&gate, 1);
    assert!(count(&gate, &handle).contains(&MANY.to_string()));
    let refused = count(&other, &handle);
    assert!(refused.starts_with("there is no offload "), "{refused}");
    let uri = json!({"uri": format!("lro://{handle}/items")});
    assert!(ask(&other.url, &request(1, "resources/read", uri)).answer()["error"]["code"].is_number());
}

// What has expired is not read any more, and the next offload removes it, with what calls that were ended left behind.
#[test]
fn a_component_removes_what_has_expired() {
    let offloads = TempDir::new().unwrap();
    let gate = kept(offloads.path(), &[("LRO_TTL_SECONDS", "2")]);
    let handle = offloaded(&gate, 1);
    while !count(&gate, &handle).contains("has expired") {
        std::thread::yield_now();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (old, young) = (".staging-1000000000-00ff".to_owned(), format!(".staging-{now}-00ff"));
    for name in [&old, &young] {
        fs::create_dir(offloads.path().join(name)).unwrap();
        fs::write(offloads.path().join(name).join("items.jsonl"), "{}").unwrap();
    }
    let next = offloaded(&gate, 2);
    assert_eq!(names(&offloads.path().join("default")), [next]);
    let left = names(offloads.path());
    assert!(left.contains(&young) && !left.contains(&old), "{left:?}");
}

// The oldest offloads make room for new ones, and one that has none is an error of the host.
#[test]
fn a_component_keeps_no_more_than_its_bounds() {
    let offloads = TempDir::new().unwrap();
    let gate = kept(offloads.path(), &[("LRO_STORE_OFFLOADS", "2")]);
    let mut handles: Vec<String> = (1..5).map(|id| offloaded(&gate, id)).collect();
    assert_eq!(names(&offloads.path().join("default")), handles.split_off(2));

    let offloads = TempDir::new().unwrap();
    let settings = [("LRO_STORE_BYTES", "300000"), ("LRO_SETTINGS", r#"{"failure":"closed"}"#)];
    let gate = kept(offloads.path(), &settings);
    let handles: Vec<String> = (1..5).map(|id| offloaded(&gate, id)).collect();
    let left = names(&offloads.path().join("default"));
    assert!(left.len() < handles.len() && left.last() == handles.last(), "{left:?} of {handles:?}");
    let answer = ask(&gate.url, &records(5, 20 * MANY, false)).answer();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(answer.to_string().contains("the store holds 300000"), "{answer}");
    assert!(!names(offloads.path()).iter().any(|name| name.starts_with(".staging-")));
}
