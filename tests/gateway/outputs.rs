//! Tool results by audience, as the proposal SEP-3279 says: `seps/3279-negotiated-tool-result-variants.md` of 2026-08-19.

use lro_tests::component;
use serde_json::{Value, json};

use crate::http::{Exchange, post};
use crate::scripted::{Script, Scripted, Setup, descriptor, handle, records, structured, text};
use crate::support::path_text;
use crate::wire::{LEGACY, MODERN, elements, member, modern_meta, request};

const ON: &str = "[gateway]\noutput-variants = true\n";

/// The revision of the proposal.
const REVISION: &str = "2026-12-01";

const SCHEMA: &str = r#"{"type":"object","properties":{"items":{"type":"array"}},"required":["items"]}"#;

const ASSISTANT: (&str, &str) = ("assistant", "content");
const ASSISTANT_STRUCTURED: (&str, &str) = ("assistant", "structured");
const USER: (&str, &str) = ("user", "content");
const USER_STRUCTURED: (&str, &str) = ("user", "structured");
const PROGRAM: (&str, &str) = ("programmatic", "structured");

fn meta() -> Value {
    let mut meta = modern_meta();
    meta["io.modelcontextprotocol/protocolVersion"] = json!(REVISION);
    meta
}

fn large() -> Value {
    structured(&json!({ "items": records(2_000) }))
}

fn script() -> Script {
    Script::new()
        .tool("large", SCHEMA, large())
        .tool("small", SCHEMA, structured(&json!({"items": [1]})))
        .tool("plain", "", text("words"))
        .tool("broken", SCHEMA, json!({"content": [{"type": "text", "text": "no such table"}], "isError": true}))
        .result("server/discover", json!({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {}}))
}

fn params(tool: &str, outputs: &[(&str, &str)]) -> Value {
    let named = outputs.iter().map(|(audience, format)| json!({"audience": audience, "format": format}));
    let mut params = json!({"name": tool, "arguments": {}, "_meta": meta()});
    if !outputs.is_empty() {
        params["requestedOutputs"] = named.collect();
    }
    params
}

fn start(toml: &str) -> Scripted {
    let mut gateway = script().with_toml(&format!("{toml}{ON}"));
    gateway.result("tools/list", json!({"_meta": meta()}));
    gateway
}

/// The outputs of a call. Each is there once, and nothing of the older form.
fn outputs(result: &Value, wanted: &[(&str, &str)]) -> Vec<Value> {
    assert!(result["content"].is_null() && result["structuredContent"].is_null(), "{result:.2000}");
    let outputs = result["outputs"].as_array().unwrap_or_else(|| panic!("no outputs: {result:.2000}")).clone();
    assert_eq!(outputs.len(), wanted.len(), "{result:.2000}");
    let find = |(audience, format): &(&str, &str)| {
        let is_it = |output: &&Value| output["audience"] == *audience && output["format"] == *format;
        let value = outputs.iter().find(is_it).unwrap_or_else(|| panic!("no {audience}/{format}: {result:.2000}"));
        value[if *format == "content" { "content" } else { "structuredContent" }].clone()
    };
    wanted.iter().map(find).collect()
}

fn ask(gateway: &mut Scripted, tool: &str, wanted: &[(&str, &str)]) -> Vec<Value> {
    outputs(&gateway.result("tools/call", params(tool, wanted)), wanted)
}

/// The descriptor in a list of content blocks.
fn described(content: &Value) -> Value {
    descriptor(&json!({ "content": content })).unwrap_or_else(|| panic!("no descriptor: {content:.2000}"))
}

// "Tool declaration".
#[test]
fn tools_declare_what_each_audience_gets() {
    let mut gateway = start("");
    let tools = gateway.result("tools/list", json!({"_meta": meta()}))["tools"].clone();
    let variants = |tool: &Value| -> Vec<(String, Value)> {
        assert!(tool["outputSchema"].is_null(), "{tool}");
        let named = |variant: &Value| {
            let of = |member: &str| variant[member].as_str().unwrap().to_owned();
            (format!("{}/{}", of("audience"), of("format")), variant["schema"].clone())
        };
        tool["outputVariants"].as_array().unwrap().iter().map(named).collect()
    };
    let of = |name: &str| variants(tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap());
    let (schema, none): (Value, Value) = (serde_json::from_str(SCHEMA).unwrap(), Value::Null);
    let large = of("large");
    let found: Vec<&str> = large.iter().map(|(name, _)| name.as_str()).collect();
    let all =
        ["assistant/content", "assistant/structured", "user/content", "user/structured", "programmatic/structured"];
    assert_eq!(found, all);
    assert_eq!([&large[0].1, &large[2].1], [&none, &none]);
    assert_eq!([&large[3].1, &large[4].1], [&schema, &schema], "the whole result has the schema of the server");
    assert_eq!(large[1].1["anyOf"][0]["required"], json!(["items"]));
    assert_eq!(large[1].1["anyOf"][1]["required"], json!(["offloaded"]), "a model may get a descriptor");
    for name in ["plain", "lro_extract", "lro_read"] {
        let content = vec![("assistant/content".to_owned(), none.clone()), ("user/content".to_owned(), none.clone())];
        assert_eq!(of(name), content, "{name}");
    }

    // Clients of other revisions see the older form.
    let older = gateway.result("tools/list", json!({"_meta": modern_meta()}))["tools"].clone();
    assert!(!older.to_string().contains("outputVariants"), "{older:.2000}");
    assert_eq!(older[0]["outputSchema"]["anyOf"][0]["required"], json!(["items"]));
    let discovered = gateway.result("server/discover", json!({"_meta": meta()}));
    assert_eq!(discovered["supportedVersions"], json!([MODERN, REVISION]));
}

// "Servers handling older requests": a variant in an older revision says nothing.
#[test]
fn variants_of_an_older_server_do_not_count() {
    let tool = json!({"name": "odd", "outputVariants": [{"audience": "x"}], "inputSchema": {"type": "object"}, "outputSchema": {}});
    let mut gateway = Script::new().result("tools/list", json!({"tools": [tool]})).with_toml(ON);
    let listed = gateway.result("tools/list", json!({"_meta": meta()}))["tools"][0].clone();
    assert_eq!(listed["outputVariants"].as_array().unwrap().len(), 5, "{listed}");
    assert!(listed["outputSchema"].is_null() && listed["inputSchema"] == json!({"type": "object"}), "{listed}");
}

// "Request-time selection" and "Tool call result".
#[test]
fn each_audience_gets_its_own_output() {
    let mut gateway = start("");
    let (whole, items) = (large(), json!({ "items": records(2_000) }));
    let unasked = described(&ask_nothing(&mut gateway, "large"));
    assert_eq!(gateway.offloads().len(), 1);
    let page = gateway.result("tools/call", with_arguments("lro_read", json!({"handle": handle(&unasked)})));
    assert!(page["outputs"][0]["content"].to_string().contains("record number 0"), "{page:.1000}");

    assert_eq!(ask(&mut gateway, "large", &[PROGRAM])[0], items);
    assert_eq!(ask(&mut gateway, "large", &[USER]), [whole["content"].clone()]);
    assert_eq!(ask(&mut gateway, "large", &[USER_STRUCTURED, USER]), [items.clone(), whole["content"].clone()]);
    assert_eq!(gateway.offloads().len(), 1, "nothing is written for those who get all");

    let [shown] = ask(&mut gateway, "large", &[ASSISTANT_STRUCTURED]).try_into().unwrap();
    assert_eq!(shown["offloaded"], true);
    let [program, model] = ask(&mut gateway, "large", &[PROGRAM, ASSISTANT]).try_into().unwrap();
    assert_eq!((program, described(&model)["offloaded"].clone()), (items, json!(true)));
    assert_eq!(gateway.offloads().len(), 3);

    assert_eq!(ask(&mut gateway, "small", &[ASSISTANT, PROGRAM])[1], json!({"items": [1]}));
    assert_eq!(ask_nothing(&mut gateway, "plain"), text("words")["content"]);
    let seen: Vec<String> = gateway.seen().into_iter().filter(|line| line.contains("tools/call")).collect();
    assert_eq!(seen.len(), 8);
    for line in seen {
        assert!(!line.contains("requestedOutputs") && !line.contains(REVISION) && line.contains(MODERN), "{line}");
    }
}

fn ask_nothing(gateway: &mut Scripted, tool: &str) -> Value {
    outputs(&gateway.result("tools/call", params(tool, &[])), &[ASSISTANT])[0].clone()
}

fn with_arguments(tool: &str, arguments: Value) -> Value {
    let mut params = params(tool, &[]);
    params["arguments"] = arguments;
    params
}

#[test]
fn the_whole_result_keeps_its_bytes() {
    let odd = r#"{"a":1.0,  "b":12345678901234567890,"c":1e2,"a":"\u00e9"}"#;
    let result = format!(
        r#"{{"content":[{{"type":"text","text":"x"}}],"structuredContent":{odd},"_meta":{{"k":1.50}},"isError":false}}"#
    );
    let mut gateway = Script::new().tool("odd", "{}", result).with_toml(ON);
    let answer = gateway.ask("tools/call", params("odd", &[PROGRAM, USER]));
    let result = member(&answer, &["result"]).unwrap();
    let outputs = elements(member(result, &["outputs"]).unwrap());
    assert_eq!(member(outputs[0], &["structuredContent"]), Some(odd));
    assert_eq!(member(outputs[1], &["content"]), Some(r#"[{"type":"text","text":"x"}]"#));
    assert_eq!((member(result, &["_meta"]), member(result, &["isError"])), (Some(r#"{"k":1.50}"#), Some("false")));
}

// "If the client requests an undeclared or unnegotiated variant, the server MUST reject the request as invalid parameters."
#[test]
fn what_cannot_be_had_is_refused_before_the_server_sees_it() {
    let mut gateway = start("");
    let view = ("io.modelcontextprotocol/ui", "structured");
    for (tool, wanted, reason) in [
        ("plain", vec![PROGRAM], "`plain` does not declare the output programmatic/structured"),
        ("plain", vec![ASSISTANT, ASSISTANT_STRUCTURED], "assistant/structured"),
        ("lro_read", vec![PROGRAM], "lro_read"),
        ("large", vec![view], "io.modelcontextprotocol/ui/structured"),
        ("large", vec![("programmatic", "content")], "programmatic/content"),
        ("large", vec![PROGRAM, ASSISTANT, PROGRAM], "more than once"),
    ] {
        let error = gateway.error("tools/call", params(tool, &wanted));
        assert!(error["code"] == -32602 && error["message"].as_str().unwrap().contains(reason), "{error}");
    }
    for wrong in [json!([]), json!("assistant"), json!([{"audience": "user"}]), json!(null), json!([1])] {
        let mut params = params("large", &[]);
        params["requestedOutputs"] = wrong.clone();
        let error = gateway.error("tools/call", params);
        assert!(error["code"] == -32602, "{wrong}: {error}");
        assert!(error["message"].as_str().unwrap().contains("requestedOutputs"), "{wrong}: {error}");
    }
    assert!(!gateway.seen().iter().any(|line| line.contains("tools/call")));
}

// "Errors": those that can be given are, and without any the response is an error of the protocol.
#[test]
fn errors_of_tools_reach_every_audience() {
    let mut gateway = start("");
    let result = gateway.result("tools/call", params("broken", &[]));
    assert_eq!(
        (outputs(&result, &[ASSISTANT])[0][0]["text"].clone(), &result["isError"]),
        (json!("no such table"), &json!(true))
    );
    let result = gateway.result("tools/call", params("broken", &[PROGRAM, USER]));
    assert_eq!(
        (outputs(&result, &[USER])[0][0]["text"].clone(), &result["isError"]),
        (json!("no such table"), &json!(true))
    );
    let error = gateway.error("tools/call", params("broken", &[PROGRAM]));
    assert_eq!((&error["code"], &error["message"]), (&json!(-32603), &json!("no such table")));

    // A server that does not give what it declares.
    let mut gateway = Script::new().tool("lacks", SCHEMA, text("only words")).with_toml(ON);
    let error = gateway.error("tools/call", params("lacks", &[PROGRAM]));
    assert!(error["message"].as_str().unwrap().contains("no structured content"), "{error}");
    let result = gateway.result("tools/call", params("lacks", &[PROGRAM, ASSISTANT]));
    let content = outputs(&result, &[ASSISTANT])[0].clone();
    assert_eq!((&content[0]["text"], &result["isError"]), (&json!("only words"), &json!(true)));
    assert!(content[1]["text"].as_str().unwrap().contains("no output programmatic/structured"), "{content}");
}

// The policy has the last word: no output goes past it.
#[test]
fn what_the_policy_withholds_stays_withheld() {
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let home = tempfile::TempDir::new().unwrap();
    let policy = home.path().join("redact.wasm");
    std::fs::write(&policy, component("lro_redact.wasm")).unwrap();
    let value = json!({"items": [{"token": secret}]});
    let script = Script::new().tool("secrets", SCHEMA, structured(&value)).tool("large", SCHEMA, large());
    let mut gateway = script.with_toml(&format!("policy = {:?}\n{ON}", path_text(&policy)));
    for wanted in [vec![PROGRAM], vec![USER], vec![PROGRAM, ASSISTANT], vec![USER, USER_STRUCTURED], vec![ASSISTANT]] {
        let answer = gateway.ask("tools/call", params("secrets", &wanted));
        assert!(!answer.contains(&secret), "{wanted:?}: {answer}");
    }

    let mut rejecting =
        script.with_toml(&format!("[tools.large]\naction = \"reject\"\nadvice = \"ask for less\"\n{ON}"));
    let result = rejecting.result("tools/call", params("large", &[ASSISTANT]));
    assert!(outputs(&result, &[ASSISTANT])[0].to_string().contains("ask for less"), "{result}");
}

#[test]
fn what_is_too_large_for_the_client_is_named_with_its_handle() {
    let mut gateway = start("[clients.lro-tests-wire]\nceiling = 20000\n");
    let error = gateway.error("tools/call", params("large", &[PROGRAM]));
    let [offload] = &gateway.offloads()[..] else { panic!("{error}") };
    let handle = offload.file_name().unwrap().to_str().unwrap();
    assert!(error["message"].as_str().unwrap().contains(handle), "{error}");
    let result = gateway.result("tools/call", params("large", &[PROGRAM, ASSISTANT]));
    let content = outputs(&result, &[ASSISTANT])[0].clone();
    assert!(described(&content)["offloaded"] == true && result["isError"] == true, "{result}");
    assert!(result.to_string().len() < 20_000);
}

// "It MUST NOT assume an old client understands `outputs`", and "A client MUST NOT send `requestedOutputs`" there.
#[test]
fn other_revisions_are_as_before() {
    let mut gateway = start("");
    let older = json!({"name": "large", "arguments": {}, "_meta": modern_meta(), "requestedOutputs": [1]});
    let result = gateway.result("tools/call", older);
    assert!(descriptor(&result).is_some() && result["outputs"].is_null(), "{result:.2000}");
    assert!(gateway.call("large", json!({}))["outputs"].is_null(), "{LEGACY}");
    assert!(gateway.seen().iter().any(|line| line.contains("requestedOutputs")), "it is the server's to refuse");

    for toml in [
        "",
        "[gateway]\noutput-variants = true\naudit = true\n",
        "enabled = false\n[gateway]\noutput-variants = true\n",
    ] {
        let mut off = script().with_toml(toml);
        off.result("tools/call", params("plain", &[ASSISTANT]));
        let seen = off.seen();
        assert!(seen.iter().any(|line| line.contains(REVISION) && line.contains("requestedOutputs")), "{toml}");
    }
}

#[test]
fn what_is_not_a_result_passes() {
    let question = json!({"resultType": "input_required", "inputRequests": {}, "requestState": "s"});
    let mut gateway = Script::new().tool("asks", SCHEMA, question.clone()).with_toml(ON);
    assert_eq!(gateway.result("tools/call", params("asks", &[PROGRAM])), question);
    let mut again = params("asks", &[PROGRAM]);
    again["requestState"] = json!("s");
    again["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    gateway.result("tools/call", again);
    let seen = gateway.seen();
    assert!(seen.iter().any(|line| line.contains("requestState")));
    assert!(!seen.iter().any(|line| line.contains("io.modelcontextprotocol/tasks")), "a task has no outputs");
}

#[test]
fn jobs_answer_in_the_form_of_their_client() {
    let mut gateway = start("[tools.large]\njob = \"always\"\n");
    let begun = serde_json::from_str::<Value>(ask_nothing(&mut gateway, "large")[0]["text"].as_str().unwrap()).unwrap();
    let job = begun["job"].as_str().unwrap_or_else(|| panic!("{begun}"));
    let fetched = gateway.result("tools/call", with_arguments("lro_job", json!({"handle": job})));
    assert!(described(&outputs(&fetched, &[ASSISTANT])[0])["offloaded"] == true, "{fetched:.2000}");
    // A program waits for its data.
    assert_eq!(ask(&mut gateway, "large", &[PROGRAM]), [json!({ "items": records(2_000) })]);

    let mut reusing = start("[tools.large]\nreuse-seconds = 60\n");
    let first = handle(&described(&ask_nothing(&mut reusing, "large")));
    assert_eq!(handle(&described(&ask_nothing(&mut reusing, "large"))), first);
    assert_eq!(ask(&mut reusing, "large", &[PROGRAM]), [json!({ "items": records(2_000) })]);
    assert_eq!(reusing.seen().iter().filter(|line| line.contains("tools/call")).count(), 2);
}

// Over HTTP the revision stands in a header as well.
#[test]
fn every_way_over_http() {
    let listen = ["--listen", "127.0.0.1:0"];
    let whole = "[tools.large]\nmode = \"never\"\n";
    let mut inner = script().silent(&Setup { flags: &listen, toml: whole, ..Setup::default() });
    let inner_url = inner.url();
    let before_http = Setup { flags: &listen, toml: ON, upstream: &inner_url, ..Setup::default() };
    let before_command = Setup { flags: &listen, toml: ON, ..Setup::default() };
    for setup in [before_command, before_http] {
        let mut gateway = script().silent(&setup);
        let url = gateway.url();
        let ask = |method: &str, params: Value| {
            let name = params["name"].as_str().unwrap_or_default().to_owned();
            let headers = [("MCP-Protocol-Version", REVISION), ("Mcp-Method", method), ("Mcp-Name", &name)];
            let message = request(1, method, params).to_string();
            Exchange::open(&url, "POST", &headers, message.as_bytes()).finish()
        };
        let listed = ask("tools/list", json!({"_meta": meta()})).answer();
        assert_eq!(listed["result"]["tools"][0]["outputVariants"].as_array().unwrap().len(), 5, "{listed:.2000}");
        let wanted = [PROGRAM, ASSISTANT];
        let answer = ask("tools/call", params("large", &wanted)).answer();
        let [program, model] = outputs(&answer["result"], &wanted).try_into().unwrap();
        assert!(program == json!({ "items": records(2_000) }), "{program:.1000}");
        assert!(described(&model)["handle"].is_string());
        let refused = ask("tools/call", params("large", &[("programmatic", "content")])).answer();
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
        // The header has to say what the body says.
        let other = post(&url, &[("MCP-Protocol-Version", MODERN)], &request(1, "tools/call", params("large", &[])));
        assert_eq!(other.status, 400, "{}", other.text());
    }
}
