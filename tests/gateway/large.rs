//! What is large besides the results of tools: resources, prompts, lists, errors, and requests of the server.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::lasting::all_ways;
use crate::scripted::{Script, Scripted, first_text, handle};
use crate::wire::request;

/// The series of a metric with all of these labels; 0 without it.
fn metric(address: &str, name: &str, labels: &[&str]) -> usize {
    let address = address.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut scraped = String::new();
    stream.read_to_string(&mut scraped).unwrap();
    let is_it = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
    let found: Vec<&str> = scraped.lines().filter(is_it).collect();
    assert!(found.len() <= 1, "{name} {labels:?}: {found:?}");
    found.first().map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
}

fn contents(text: &str) -> Value {
    json!({"contents": [{"uri": "a:b", "mimeType": "text/plain", "text": text}]})
}

fn read(gateway: &mut Scripted) -> String {
    gateway.ask("resources/read", json!({"uri": "a:b"}))
}

const MEASURED: &[&str] = &["--metrics-listen", "127.0.0.1:0"];

// Bytes are those on the wire; an error counts as one, whatever it answers.
#[test]
fn everything_besides_results_is_measured_by_method() {
    let sampling =
        r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#;
    let elicitation = r#"{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"a"}}"#;
    let error = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32000,"message":"it failed"}}"#;
    let prompt = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "b ".repeat(100)}}]});
    let answer = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{prompt}}}"#);
    let script = Script::new()
        .result("resources/read", contents(&"x ".repeat(50_000)))
        .steps("prompts/get", json!([sampling, elicitation, answer]))
        .result("prompts/list", r#"{"prompts":[]}"#)
        .result("resources/list", r#"{"resources":[]}"#)
        .line("tools/call wrong", error);
    for flags in [MEASURED, &[MEASURED, &["--audit", "true"]].concat()] {
        let mut gateway = script.with_flags(flags);
        let address = gateway.told("metrics on ");
        let size = |gateway: &mut Scripted, method: &str, params: Value| gateway.ask(method, params).len();
        let resources = read(&mut gateway).len() + read(&mut gateway).len();
        let prompt = size(&mut gateway, "prompts/get", json!({"name": "a"}));
        let prompts = size(&mut gateway, "prompts/list", json!({}));
        let list = size(&mut gateway, "resources/list", json!({}));
        let failed = size(&mut gateway, "tools/call", json!({"name": "wrong"}));
        assert_eq!([gateway.next(), gateway.next()], [sampling, elicitation]);
        let wanted = [
            ("resources/read", 2, resources),
            ("prompts/get", 1, prompt),
            ("prompts/list", 1, prompts),
            ("resources/list", 1, list),
            ("error", 1, failed),
            ("sampling/createMessage", 1, sampling.len()),
            ("elicitation/create", 1, elicitation.len()),
        ];
        for (method, messages, bytes) in wanted {
            let labels = [&format!(r#"method="{method}""#), r#"tenant="default""#];
            let value = |name| metric(&address, name, &labels);
            let sizes = (value("lro_method_messages_total"), value("lro_method_bytes_total"));
            assert_eq!(sizes, (messages, bytes), "{method}");
            let tokens = value("lro_method_tokens_total");
            assert!(tokens * 5 > bytes && tokens < bytes, "{method}: {tokens}");
        }
        assert_eq!(metric(&address, "lro_tool_results_total", &[]), 0);
        let ended = gateway.end();
        assert!(ended.status.success(), "{}", ended.errors);
    }
}

fn json_of(answer: &str) -> Value {
    serde_json::from_str(answer).unwrap()
}

/// The descriptor in the first content of a resource.
fn described(answer: &str) -> Value {
    let answer = json_of(answer);
    let content = &answer["result"]["contents"][0];
    assert_eq!((&content["uri"], &content["mimeType"]), (&json!("a:b"), &json!("application/json")), "{answer}");
    let descriptor: Value = serde_json::from_str(content["text"].as_str().unwrap()).unwrap();
    assert_eq!(descriptor["offloaded"], true, "{descriptor}");
    descriptor
}

const OFFLOAD: &str = "[resources]\nmode = \"offload\"\n";

#[test]
fn a_large_resource_is_offloaded_and_keeps_its_shape() {
    let log = "one line of the log\n".repeat(5_000);
    let mut result = contents(&log);
    let blob = json!({"uri": "a:c", "mimeType": "application/octet-stream", "blob": "QUJD".repeat(20_000)});
    result["contents"].as_array_mut().unwrap().push(blob);
    result["_meta"] = json!({"n": 1});
    let mut gateway = Script::new().result("resources/read", &result).with_toml(OFFLOAD);
    let answer = read(&mut gateway);
    let descriptor = described(&answer);
    let answer = json_of(&answer);
    assert_eq!(
        (answer["result"]["contents"].as_array().unwrap().len(), &answer["result"]["_meta"]),
        (1, &json!({"n": 1}))
    );
    assert!(gateway.holds(log.as_bytes()) && gateway.holds("ABC".repeat(20_000).as_bytes()));
    // The handle is read with the gateway's tool, and as a resource.
    let handle = handle(&descriptor);
    let shown = gateway.call("lro_read", json!({"handle": handle, "section": "b"}));
    assert!(first_text(&shown).contains("one line of the log"), "{shown}");
    let uri = format!("lro://{handle}/b");
    assert!(gateway.result("resources/read", json!({"uri": uri}))["contents"][0]["text"].is_string());
}

#[test]
fn resources_pass_byte_for_byte_unless_large_and_asked_otherwise() {
    let small = r#"{ "contents":[{"uri":"a:b","text":"\u0061"}] , "n": 1.0}"#;
    let large = format!(r#"{{ "contents":[{{"uri":"a:b","text":"{}"}}] , "n": 1.0}}"#, "\\u0061 ".repeat(40_000));
    let small = Script::new().result("resources/read", small);
    let large = Script::new().result("resources/read", large);
    let passes = |script: &Script, toml: &str| {
        let mut direct = script.with_toml("enabled = false");
        assert_eq!(read(&mut script.with_toml(toml)), read(&mut direct), "{toml}");
    };
    passes(&small, OFFLOAD);
    passes(&small, "[resources]\nmode = \"refuse\"");
    passes(&large, "threshold = 10");
    passes(&large, "[resources]\nmode = \"offload\"\n[resources.uris]\n\"a:*\" = \"pass\"");
    passes(&large, "[resources]\nmode = \"offload\"\n[gateway]\naudit = true");
    passes(&large, "[resources]\nmode = \"refuse\"\n[gateway]\naudit = true");
    passes(&large, "[resources]\nmode = \"offload\"\n[tools.\"resources/read\"]\nthreshold = 200000");
    // For one tenant alone: this one is another.
    passes(&large, "[tenants.x.resources]\nmode = \"offload\"");
    described(&read(&mut large.with_toml("[resources.uris]\n\"a:*\" = \"offload\"")));
    described(&read(&mut large.with_toml("[tenants.default.resources]\nmode = \"offload\"")));
}

#[test]
fn a_resource_that_is_refused_says_why() {
    let large = Script::new().result("resources/read", contents(&"x ".repeat(50_000)));
    for toml in ["[resources]\nmode = \"refuse\"", "action = \"reject\"\n[resources]\nmode = \"offload\""] {
        let error = large.with_toml(toml).error("resources/read", json!({"uri": "a:b"}));
        assert!(error["code"] == -32603 && error["message"].as_str().unwrap().contains("not shown"), "{error}");
    }
    let cut = large
        .with_toml("action = \"truncate\"\n[resources]\nmode = \"offload\"")
        .result("resources/read", json!({"uri": "a:b"}));
    let text = cut["contents"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("x x ") && text.len() < 60_000, "{:.200}", cut.to_string());
}

// What is neither contents nor an error is no way round a refusal; an error of the server stays its own.
#[test]
fn odd_answers_to_a_read_are_not_taken_apart() {
    let error = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32002,"message":"no such resource"}}"#;
    let script = Script::new().line("resources/read", error);
    assert_eq!(script.with_toml(OFFLOAD).error("resources/read", json!({"uri": "a:b"}))["code"], -32002);
    let long = "x".repeat(60_000);
    for odd in [json!({"contents": long}), json!({"contents": [], "more": long}), json!({"contents": [long]})] {
        let script = Script::new().result("resources/read", &odd);
        let answer = read(&mut script.with_toml(OFFLOAD));
        assert!(answer.len() < 60_000, "{answer:.200}");
    }
}

#[test]
fn a_large_prompt_is_whole_or_refused() {
    let prompt = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "b ".repeat(50_000)}}]});
    let script = Script::new().result("prompts/get", &prompt);
    let params = json!({"name": "a"});
    for toml in ["", "prompt-limit = 200000", "prompt-limit = 10\n[gateway]\naudit = true"] {
        assert_eq!(script.with_toml(toml).result("prompts/get", params.clone()), prompt, "{toml}");
    }
    for toml in ["prompt-limit = 50000", "unit = \"tokens\"\nprompt-limit = 1000"] {
        let error = script.with_toml(toml).error("prompts/get", params.clone());
        assert!(error["code"] == -32603 && error["message"].as_str().unwrap().contains("prompt-limit"), "{error}");
    }
}

// The whole description is read with the call that the short one names.
#[test]
fn a_long_description_is_shortened_and_read_back() {
    let long: String = (0..200).map(|number| format!("Sentence number {number} is about é \"quoted\". ")).collect();
    let tool = |name: &str, description: &str| {
        let description = Value::from(description);
        format!(r#"{{"name":"{name}","x":1.0,"description":{description},"inputSchema":{{"type":"object" }}}}"#)
    };
    let list = |first: &str| {
        format!(r#"{{"tools":[{},{}],"y":[ 1]}}"#, tool("odd name/é", first), tool("short", "Short. As it is."))
    };
    let script = Script::new().result("tools/list", list(&long));
    for (name, mut way) in all_ways(&script, "description-limit = 500") {
        let tools = way.result("tools/list", json!({}))["tools"].take();
        let shown = tools[0]["description"].as_str().unwrap();
        assert!(shown.chars().count() <= 500 && shown.chars().count() > 200, "{name}: {shown}");
        assert_eq!(tools[1]["description"], "Short. As it is.", "{name}");
        assert_eq!(tools[0]["x"].to_string(), "1.0", "{name}");
        let (beginning, note) = shown.split_once(" [shortened; lro_read ").unwrap();
        assert!(long.starts_with(beginning) && beginning.ends_with('.'), "{name}: {beginning}");
        let (arguments, rest) = note.split_once('}').unwrap();
        assert_eq!(rest, format!(" gives all {} bytes]", long.len()), "{name}");
        let arguments: Value = serde_json::from_str(&format!("{arguments}}}")).unwrap();
        assert_eq!(first_text(&way.call("lro_read", arguments.clone())), long, "{name}");
        let read = way.result("resources/read", json!({"uri": arguments["handle"]}));
        assert_eq!(read["contents"][0]["text"], long.as_str(), "{name}");
        // Page by page.
        let (mut next, mut all) = (json!({"handle": arguments["handle"], "bytes": 300}), String::new());
        loop {
            let result = way.call("lro_read", next.clone());
            let Some((text, rest)) = first_text(&result).split_once("\n[bytes ") else {
                all.push_str(first_text(&result));
                break;
            };
            all.push_str(text);
            let call = rest.split_once("next: lro_read ").unwrap().1;
            next = serde_json::from_str(call.strip_suffix(']').unwrap()).unwrap();
        }
        assert_eq!(all, long, "{name}");
        let unknown = way.call("lro_read", json!({"handle": "lro://tools/short"}));
        assert!(unknown["isError"] == true && first_text(&unknown).contains("no description"), "{name}: {unknown}");
        assert!(way.answer("resources/read", json!({"uri": "lro://tools/none"}))["error"].is_object(), "{name}");
        let wrong = way.call("lro_read", json!({"handle": arguments["handle"], "cursor": "99999"}));
        assert!(wrong["isError"] == true && first_text(&wrong).contains("not a cursor"), "{name}: {wrong}");
    }
    // Nothing is shortened where it could not be read back, and nothing by default.
    for toml in
        ["", "description-limit = 500\ntools-deny = [\"lro_read\"]", "description-limit = 500\n[gateway]\naudit = true"]
    {
        let tools = script.with_toml(toml).tools();
        let first = tools.iter().find(|tool| tool["name"] == "odd name/é").unwrap();
        assert_eq!(first["description"], long.as_str(), "{toml}");
    }
}

// The server gets an error for a request that is too large, whatever the way, and the client nothing of it.
#[test]
fn a_large_request_for_input_is_refused() {
    let ask = |id: &str, method: &str, length: usize| {
        let params = json!({"message": "x".repeat(length), "messages": [], "maxTokens": 1, "requestedSchema": {"type": "object"}});
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let answer = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":@ANSWER@}]}}"#;
    let required = json!({"resultType": "input_required", "inputRequests":
        {"a": {"method": "elicitation/create", "params": {"message": "x".repeat(3_000)}}}});
    let script = Script::new()
        .steps("tools/call samples", json!([ask("s", "sampling/createMessage", 3_000), {"await": "s"}, answer]))
        .steps("tools/call elicits", json!([ask("e", "elicitation/create", 3_000), {"await": "e"}, answer]))
        .call("requires", required);
    for (name, mut way) in all_ways(&script, "input-limit = 2000") {
        for tool in ["samples", "elicits"] {
            let result = way.call(tool, json!({}));
            let refused: Value = serde_json::from_str(first_text(&result)).unwrap();
            let message = refused["error"]["message"].as_str().unwrap_or_default();
            assert!(message.contains("`input-limit`") && refused["error"]["code"] == -32603, "{name}: {result}");
        }
        let error = way.answer("tools/call", json!({"name": "requires", "arguments": {}}))["error"].take();
        assert!(error["message"].as_str().is_some_and(|text| text.contains("`input-limit`")), "{name}: {error}");
    }
    // What is not too large passes, and so does everything in an audit.
    let small = Script::new()
        .steps("tools/call samples", json!([ask("s", "sampling/createMessage", 1_000), {"await": "s"}, answer]));
    for (script, toml) in [(&small, "input-limit = 2000"), (&script, "input-limit = 2000\n[gateway]\naudit = true")] {
        let mut gateway = script.with_toml(toml);
        gateway.send(&request("c", "tools/call", json!({"name": "samples", "arguments": {}})).to_string());
        assert!(gateway.next().contains("sampling/createMessage"), "{toml}");
        gateway.send(r#"{"jsonrpc":"2.0","id":"s","result":{"given":true}}"#);
        assert!(gateway.next().contains("given"), "{toml}");
    }
}

/// A gateway whose tools fail: `wrong` with a JSON-RPC error with data, `failed` with a result.
fn failing(size: usize) -> Script {
    let said = format!("began: {}ended", "€ \\\\\\\"".repeat(size / 8));
    let error = format!(
        r#"{{"jsonrpc":"2.0","id":@ID@,"error":{{"code":-32001,"message":"{said}","data":{{"n":1.0,"more":"{said}"}}}}}}"#
    );
    let failed = json!({"isError": true, "content": [{"type": "text", "text": format!("began: {}ended", "no ".repeat(size / 3))}]});
    Script::new()
        .line("tools/call wrong", error.clone())
        .line("prompts/get", error.clone())
        .line("resources/read", error)
        .call("failed", failed)
}

#[test]
fn errors_pass_unless_they_are_bounded() {
    for toml in
        ["", "error-limit = 20000", "error-limit = 10\n[gateway]\naudit = true", "error-limit = 10\nenabled = false"]
    {
        let mut gateway = failing(4_000).with_toml(toml);
        let answer = gateway.answer("wrong");
        assert!(answer.contains(r#""data":{"n":1.0,"more":"began"#), "{toml}: {answer:.300}");
        let failed = gateway.call("failed", json!({}));
        assert!(first_text(&failed).len() > 4_000, "{toml}: {failed:.300}");
    }
}

// The beginning says what was done and the end mostly why it failed.
#[test]
fn errors_are_cut_to_their_beginning_and_end() {
    for (toml, limit) in [("error-limit = 1000", 1_000), ("unit = \"tokens\"\nerror-limit = 500", 2_500)] {
        let mut gateway = failing(40_000).with_toml(toml);
        for (method, params) in [
            ("tools/call", json!({"name": "wrong"})),
            ("prompts/get", json!({"name": "a"})),
            ("resources/read", json!({"uri": "a:b"})),
        ] {
            let error = gateway.error(method, params);
            let message = error["message"].as_str().unwrap();
            assert_eq!((&error["code"], &error["data"]), (&json!(-32001), &Value::Null), "{toml}");
            assert!(message.starts_with("began: € ") && message.ends_with("ended"), "{message}");
            assert!(message.contains("`error-limit`") && message.chars().count() <= limit, "{message}");
        }
        let failed = gateway.call("failed", json!({}));
        let text = first_text(&failed);
        assert_eq!(failed["isError"], true, "{failed}");
        assert!(
            text.starts_with("began: no ") && text.contains("ended") && text.chars().count() <= limit,
            "{toml}: {text}"
        );
    }
}

// Data that is large goes, and the text stays whole; a limit below any text leaves the reason.
#[test]
fn the_data_of_an_error_goes_first() {
    let error = json!({"code": -32001, "message": "it failed", "data": "x".repeat(5_000)});
    let script = Script::new().line("tools/call wrong", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"error":{error}}}"#));
    for (limit, beginning) in [(1_000, "it failed [the error has 5"), (10, "[the error has 5")] {
        let mut gateway = script.with_toml(&format!("error-limit = {limit}"));
        let error = gateway.error("tools/call", json!({"name": "wrong"}));
        assert!(error["message"].as_str().unwrap().starts_with(beginning), "{error}");
    }
}

#[test]
fn a_tool_that_is_exempt_fails_with_its_whole_text() {
    let toml = "error-limit = 1000\n[tools.failed]\nmode = \"never\"";
    let failed = failing(40_000).with_toml(toml).call("failed", json!({}));
    assert!(first_text(&failed).len() > 40_000, "{failed:.300}");
}
