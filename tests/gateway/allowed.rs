//! `tools-allow` and `tools-deny`: tools that clients neither see nor call.

use serde_json::{Value, json};

use crate::scripted::{Script, Scripted, text};

fn script() -> Script {
    ["read_a", "read_b", "write_a", "drop"]
        .into_iter()
        .fold(Script::new(), |script, name| script.tool(name, "", text(name)))
}

fn names(gateway: &mut Scripted) -> Vec<String> {
    gateway.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// The calls that the server got.
fn calls(gateway: &mut Scripted) -> usize {
    gateway.seen().iter().filter(|line| line.contains("tools/call")).count()
}

#[test]
fn tools_that_are_not_allowed_are_neither_listed_nor_called() {
    let own = ["lro_extract", "lro_read"];
    let cases: [(&str, &[&str]); 5] = [
        ("tools-allow = [\"read_*\"]", &["read_a", "read_b"]),
        ("tools-deny = [\"drop\", \"write_*\"]", &["read_a", "read_b"]),
        ("tools-allow = [\"*_a\"]\ntools-deny = [\"write_*\"]", &["read_a"]),
        ("tools-deny = [\"*\"]", &[]),
        ("[tenants.default]\ntools-allow = [\"drop\"]", &["drop"]),
    ];
    for (toml, allowed) in cases {
        let mut gateway = script().with_toml(toml);
        assert_eq!(names(&mut gateway), [allowed, &own].concat(), "{toml}");
        for tool in ["read_a", "read_b", "write_a", "drop"] {
            let answer: Value = serde_json::from_str(&gateway.answer(tool)).unwrap();
            if allowed.contains(&tool) {
                assert_eq!(answer["result"]["content"][0]["text"], tool, "{toml}");
            } else {
                let message = answer["error"]["message"].as_str().unwrap();
                assert_eq!(answer["error"]["code"], -32602, "{toml}");
                assert!(message.contains(&format!("`{tool}` is not allowed")), "{message}");
            }
        }
        assert_eq!(calls(&mut gateway), allowed.len(), "{toml}");
    }
}

// The gateway's own tools go only by their names, and the rest of the list stays as it is.
#[test]
fn own_tools_are_withheld_by_name() {
    let mut gateway = script().with_toml("tools-deny = [\"lro_extract\", \"drop\"]");
    assert_eq!(names(&mut gateway), ["read_a", "read_b", "write_a", "lro_read"]);
    let error = gateway.error("tools/call", json!({"name": "lro_extract", "arguments": {}}));
    assert!(error["message"].as_str().unwrap().contains("not allowed"), "{error}");
    let list = r#"{ "n":1.0, "tools":[ {"name":"\u0061", "inputSchema":{"type":"object"} } ] }"#;
    let script = Script::new().result("tools/list", list);
    let whole = script.start().ask("tools/list", json!({}));
    assert_eq!(script.with_toml("tools-deny = [\"b\"]").ask("tools/list", json!({})), whole);
}

// Batches, notifications, escapes, and what a lenient server may read in another way.
#[test]
fn no_spelling_of_a_call_gets_past() {
    let mut gateway = script().with_toml("tools-allow = [\"read_a\"]");
    let refused = [
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"dr\u006fp"}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools\/call","params":{"name":"drop"}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"read_a","name":"drop"}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"read_a","Name":"drop"}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"drop","cursor":1,"uri":1}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"tools/call"}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"ping","method":"tools/call","params":{"name":"drop"}}"#,
    ];
    for line in refused {
        let answer: Value = serde_json::from_str(&gateway.ask_line(line)).unwrap();
        assert!(answer["error"]["code"].as_i64().is_some_and(|code| [-32602, -32600].contains(&code)), "{answer}");
    }
    gateway.send(r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"drop"}}"#);
    gateway.send(
        r#"[{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"read_a"}},{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"drop"}}]"#,
    );
    let answers: Value = serde_json::from_str(&gateway.next()).unwrap();
    let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, ["a", "b"]);
    assert!(answers[0]["error"]["message"].as_str().unwrap().contains("`drop` is not allowed"), "{answers}");
    assert_eq!(calls(&mut gateway), 0);
    assert_eq!(gateway.call("read_a", json!({}))["content"][0]["text"], "read_a");
}

// A job is a call, too; an audit withholds nothing.
#[test]
fn a_job_is_refused_and_an_audit_refuses_nothing() {
    let mut gateway = script().with_toml("tools-deny = [\"drop\"]\n[tools.drop]\njob = \"always\"");
    let error = gateway.error("tools/call", json!({"name": "drop", "arguments": {}, "task": {}}));
    assert!(error["message"].as_str().unwrap().contains("not allowed"), "{error}");
    assert_eq!(calls(&mut gateway), 0);
    let mut gateway = script().with_toml("tools-deny = [\"drop\"]\n[gateway]\naudit = true");
    assert!(names(&mut gateway).contains(&"drop".to_owned()));
    assert_eq!(gateway.call("drop", json!({}))["content"][0]["text"], "drop");
}
