//! Arguments that the gateway fills in and caps.

use lro_tests::wait_until;
use serde_json::{Value, json};

use crate::lasting::{Face, all_ways};
use crate::scripted::{Script, Scripted, Setup, descriptor, handle, records, structured, text};
use crate::wire::member;

const TOML: &str =
    "[tools.\"list*\".arguments]\ndefault = { limit = 50, order = \"asc\" }\nmax = { limit = 200, depth = 3 }\n";

/// Metadata key of what the server got in place of arguments.
const NOTE: &str = "io.github.lro-filter/arguments";

/// The result in a line.
fn result(line: &str) -> Value {
    serde_json::from_str::<Value>(line).unwrap()["result"].take()
}

/// The last call that the server has received.
fn last(gateway: &mut Scripted) -> String {
    gateway.seen().into_iter().rfind(|line| line.contains("tools/call")).unwrap()
}

// What is not changed goes to the server byte for byte, white space and odd spellings included.
#[test]
fn arguments_are_filled_in_and_capped_and_nothing_else_changes() {
    let mut gateway = Script::new().call("list", text("x")).call("other", text("x")).with_toml(TOML);
    let all = r#"{"limit":50,"order":"asc"}"#;
    let cases = [
        // What the client sends, what the server gets, what the answer says.
        (r#"{"name":"list"}"#, r#"{"name":"list","arguments":{"limit":50,"order":"asc"}}"#, all),
        (
            r#"{"name":"list","arguments": { } , "x":1.0}"#,
            r#"{"name":"list","arguments": { "limit":50,"order":"asc"} , "x":1.0}"#,
            all,
        ),
        (r#"{"name":"list","arguments":null}"#, r#"{"name":"list","arguments":{"limit":50,"order":"asc"}}"#, all),
        (
            r#"{ "arguments" : {"order" :"desc", "limit":1e3 ,"q":"\u00e9 lro"}, "name":"list"}"#,
            r#"{ "arguments" : {"order" :"desc", "limit":200 ,"q":"\u00e9 lro"}, "name":"list"}"#,
            r#"{"limit":200}"#,
        ),
        (
            r#"{"name":"list","arguments":{"\u006cimit":201,"order":null,"nested":{"limit":999}}}"#,
            r#"{"name":"list","arguments":{"\u006cimit":200,"order":"asc","nested":{"limit":999}}}"#,
            r#"{"limit":200,"order":"asc"}"#,
        ),
        (
            r#"{"name":"list","arguments":{"limit":"1000","order":1,"depth":1e999}}"#,
            r#"{"name":"list","arguments":{"limit":"200","order":1,"depth":3}}"#,
            r#"{"limit":"200","depth":3}"#,
        ),
        // Some servers take the first of two, some the last.
        (
            r#"{"name":"list","arguments":{"limit":900,"limit":1,"limit":901,"order":""}}"#,
            r#"{"name":"list","arguments":{"limit":200,"limit":1,"limit":200,"order":""}}"#,
            r#"{"limit":200}"#,
        ),
    ];
    let same = [
        r#"{"name":"list","arguments":{"limit":200.0,"order":"x"} }"#,
        r#"{"name":"list","arguments":{"limit":-1,"order":false,"depth":[9]}}"#,
        r#"{"name":"list","arguments":{"limit":"many","order":"x","depth":true}}"#,
        r#"{"name":"list","arguments":[1]}"#,
        r#"{"name":"other","arguments":{"limit":900}}"#,
    ];
    let same = same.map(|params| (params, params, ""));
    for (id, (sent, wanted, note)) in cases.into_iter().chain(same).enumerate() {
        let line =
            |params: &str| format!(r#"{{"jsonrpc": "2.0","id":"c{id}", "method":"tools/call","params":{params} }}"#);
        let answer = gateway.ask_line(&line(sent));
        assert_eq!(last(&mut gateway), line(wanted), "{sent}");
        let told = member(&answer, &["result"]).and_then(|result| member(result, &["_meta"])).unwrap_or("{}");
        assert_eq!(member(told, &[NOTE]).unwrap_or_default(), note, "{sent}: {answer}");
    }
    // In a batch, beside messages that stay as they are.
    let batch = r#"[{"jsonrpc":"2.0","id":"b1","method":"tools/call","params":{"name":"list"}}, {"jsonrpc":"2.0","method":"notifications/x"} ]"#;
    gateway.send(batch);
    let seen = gateway.seen().into_iter().rfind(|line| line.contains("b1")).unwrap();
    let wanted: Value = serde_json::from_str(
        r#"[{"jsonrpc":"2.0","id":"b1","method":"tools/call","params":{"name":"list","arguments":{"limit":50,"order":"asc"}}},{"jsonrpc":"2.0","method":"notifications/x"}]"#,
    )
    .unwrap();
    assert_eq!(serde_json::from_str::<Value>(&seen).unwrap(), wanted);
}

/// A list of a tool with these properties.
fn listed(name: &str, properties: &str) -> String {
    format!(r#"{{"tools":[{{"name":"{name}","inputSchema":{{"type":"object","properties":{{{properties}}}}}}}]}}"#)
}

// The schema tells, and keeps what is stricter.
#[test]
fn the_schema_tells_of_defaults_and_maximums() {
    let cases = [
        (
            r#""limit":{"type":"integer"},"order":{"type":"string"},"depth":{}"#,
            r#""limit":{"type":"integer","default":50,"maximum":200},"order":{"type":"string","default":"asc"},"depth":{"maximum":3}"#,
        ),
        (
            r#""limit": {"maximum":1000, "default": 10 },"order":{"enum":["asc"]},"depth":{"type":["integer","null"],"maximum":2}"#,
            r#""limit": {"maximum":200, "default": 50 },"order":{"enum":["asc"],"default":"asc"},"depth":{"type":["integer","null"],"maximum":2}"#,
        ),
        // The text of a number has no maximum in JSON Schema.
        (r#""limit":{"type":"string"}"#, r#""limit":{"type":"string"}"#),
        (r#""depth":{"type":"string"}"#, r#""depth":{"type":"string"}"#),
    ];
    for (own, wanted) in cases {
        let script = Script::new().result("tools/list", listed("list", own));
        let mut gateway = script.with_toml(TOML);
        let tools = gateway.ask("tools/list", json!({}));
        assert!(tools.contains(&format!("\"properties\":{{{wanted}}}")), "{tools:.600}");
        let mut plain = script.with_toml("");
        assert!(plain.ask("tools/list", json!({})).contains(&format!("\"properties\":{{{own}}}")));
    }
}

// What does not fit the tool is said in the log, and left out.
#[test]
fn rules_that_do_not_fit_are_left_out() {
    let properties =
        r#""limit":{"type":"string"},"depth":{"type":"boolean"},"page":{"type":"integer","x-mcp-header":"Page"}"#;
    let toml = "[tools.list.arguments]\ndefault = { limit = 50, order = \"asc\", page = 1 }\nmax = { depth = 3 }\n";
    let script = Script::new().result("tools/list", listed("list", properties)).call("list", text("x"));
    let mut gateway = script.silent(&Setup { toml, ..Setup::default() });
    gateway.shake_hands("somebody");
    // Nothing is known yet.
    gateway.call("list", json!({}));
    assert!(last(&mut gateway).contains(r#""limit":50"#));
    gateway.tools();
    gateway.tools();
    let answer = gateway.call("list", json!({"depth": 9}));
    assert!(last(&mut gateway).contains(r#""arguments":{"depth":9}"#), "{}", last(&mut gateway));
    assert_eq!(answer["_meta"], Value::Null);
    let log = gateway.end().errors;
    for (argument, cause) in [
        ("limit", "the default is not of type string"),
        ("order", "the tool has no such argument"),
        ("page", "x-mcp-header"),
        ("depth", "an argument of type boolean has no maximum"),
    ] {
        let lines: Vec<&str> = log.lines().filter(|line| line.contains(&format!("argument=\"{argument}\""))).collect();
        assert!(
            lines.len() == 1 && lines[0].contains(cause) && lines[0].contains("tool=\"list\""),
            "{argument}: {log}"
        );
    }
}

// Whatever way a client comes and whatever becomes of the call.
#[test]
fn every_call_has_its_arguments() {
    let large = structured(&json!({ "items": records(2_000) }));
    let tools = ["list plain", "list reused", "list job", "list collected", "list handles", "list never"];
    let script = tools.iter().fold(Script::new(), |script, tool| script.call(tool, &large));
    let rules = "arguments.default = { limit = 50 }\narguments.max = { limit = 200 }\n";
    let more =
        ["", "reuse-seconds = 600\n", "job = \"always\"\n", "collect = {}\n", "handles = true\n", "mode = \"never\"\n"];
    let toml: String =
        tools.iter().zip(more).map(|(tool, more)| format!("[tools.\"{tool}\"]\n{rules}{more}")).collect();
    for (name, mut way) in all_ways(&script, &toml) {
        let note = |way: &mut crate::lasting::Way, tool: &str, arguments: Value| {
            let result = way.call(tool, arguments);
            (result["_meta"][NOTE].clone(), result)
        };
        for tool in tools {
            let (said, answer) = note(&mut way, tool, json!({}));
            if tool != "list job" {
                assert_eq!(said, json!({"limit": 50}), "{name}, {tool}: {answer:.300}");
            }
            // A job answers before the server has its call, which over HTTP the next call may overtake.
            wait_until("the first call", || way.seen(tool).len() == 1);
            note(&mut way, tool, json!({"limit": 900, "q": 1}));
            wait_until("the second call", || way.seen(tool).len() == 2);
            let seen = way.seen(tool);
            let [first, second] = &seen[..] else { panic!("{name}, {tool}: {seen:?}") };
            assert!(first.contains(r#""limit":50"#), "{name}, {tool}: {first}");
            assert!(second.contains(r#""limit":200"#) && second.contains(r#""q":1"#), "{name}, {tool}: {second}");
        }
        // What the server gets is the same, so the reply is reused, and each answer says what was changed of its own call.
        for (arguments, wanted) in [
            (json!({"limit": 50}), Value::Null),
            (json!({"limit": 777, "q": 1}), json!({"limit": 200})),
            (json!({"limit": 200, "q": 1}), Value::Null),
            (json!({"limit": null}), json!({"limit": 50})),
        ] {
            let (said, answer) = note(&mut way, "list reused", arguments.clone());
            assert!(descriptor(&answer).is_some());
            assert_eq!(said, wanted, "{name}, {arguments}");
        }
        if !(way.face == Face::Modern && name.contains("HTTP")) {
            assert_eq!(way.seen("list reused").len(), 2, "{name}");
        }
        // Data in the place of a reference, beside a default.
        let (_, answer) = note(&mut way, "list plain", json!({}));
        let reference = format!("lro://{}/items", handle(&descriptor(&answer).unwrap()));
        note(&mut way, "list handles", json!({ "rows": reference }));
        let line = way.seen("list handles").pop().unwrap();
        assert!(line.contains("record number 1999") && line.contains(r#""limit":50"#), "{name}: {line:.200}");
    }
}

// The gateway's own tools, audits and a gateway that is off are not concerned.
#[test]
fn what_is_not_concerned() {
    let toml = "[tools.\"*\".arguments]\ndefault = { limit = 1 }\nmax = { limit = 2 }\n";
    let script = Script::new().call("large", structured(&json!({ "items": records(2_000) })));
    let mut gateway = script.with_toml(toml);
    let found = gateway.descriptor("large");
    let page = gateway.call("lro_read", json!({"handle": handle(&found), "limit": 5}));
    assert_eq!(page["structuredContent"]["records"], records(5));
    for flags in [["--audit", "on"], ["--enabled", "off"]] {
        let mut gateway = script.start_with(&Setup { toml, flags: &flags, ..Setup::default() });
        let answer = gateway.answer("large");
        assert!(last(&mut gateway).contains(r#""arguments":{}"#));
        assert_eq!(result(&answer)["_meta"], Value::Null);
    }
}
