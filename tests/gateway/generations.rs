//! Clients and servers of different generations of the protocol: those up to 2025-11-25 begin with a handshake, and from
//! 2026-07-28 on each request stands for itself.

use serde_json::{Value, json};

use crate::clients::{Client, Connection, Way};
use crate::scripted::{Script, Scripted, Setup, descriptor, first_text, handle, text};
use crate::servers::{Gateway, everything, everything_over_http, modern};
use crate::wire::{LEGACY, MODERN, modern_meta, request};

const ALWAYS: &str = "[gateway]\ntranslate = \"always\"\n";

/// The same tools, whatever the generation.
fn assert_reads_back(connection: &mut Connection, large: &Value) {
    let result = connection.call(large);
    let found = descriptor(&result).unwrap_or_else(|| panic!("{result:.500}"));
    let page = connection.call(&json!({"name": "lro_read", "arguments": {"handle": handle(&found)}}));
    assert!(page["isError"].is_null() && page["structuredContent"]["total"].as_u64() > Some(0), "{page:.500}");
}

#[test]
fn a_client_with_a_handshake_before_a_server_without_one() {
    let (gateway, server, off) = (Gateway::new(&[]), modern(), Gateway::new(&["--enabled", "off"]));
    let over_http = gateway.listen(&server);
    let upstream = off.listen(&server);
    let both_over_http = gateway.listen_before_url(&upstream.url);
    let ways = [
        ("stdio", gateway.before(&server)),
        ("HTTP", Way::Url(over_http.url.clone())),
        ("stdio before HTTP", gateway.before_url(&upstream.url)),
        ("HTTP before HTTP", Way::Url(both_over_http.url.clone())),
    ];
    for (name, way) in ways {
        let mut client = Connection::open(Client::Sdk1, &way);
        assert_eq!(client.about["server"]["name"], "modern", "{name}");
        assert!(client.about["instructions"].as_str().unwrap().starts_with("Only modern."), "{name}");
        assert_eq!(client.tools(), ["echo", "large", "ask", "steps", "lro_extract", "lro_read"], "{name}");
        assert_eq!(first_text(&client.call(&json!({"name": "echo", "arguments": {"text": "é"}}))), "é");
        assert_reads_back(&mut client, &json!({"name": "large", "arguments": {}}));
        // What the server asks for in a result, the client gets as requests.
        let answered = client.call(&json!({"name": "ask", "arguments": {}}));
        assert_eq!(first_text(&answered), r#"["decline",1,"none"]"#, "{name}");
        let steps = client.step(&json!({"call": {"name": "steps", "arguments": {}}, "progress": true})).unwrap();
        assert_eq!(steps["progress"][0], json!({"progress": 1, "total": 2}), "{name}: {steps}");
        assert_eq!(client.outcome("read", &json!({"uri": "test://note"}))["contents"][0]["text"], "a note");
        assert_eq!(client.outcome("prompts", &Value::Null)[0]["name"], "greet");
        client.outcome("ping", &Value::Null);
    }
    let never = Gateway::new(&["--translate", "never"]);
    let mut wire = never.wire(&server);
    let refused = wire.ask(&request("initialize", "initialize", crate::wire::initialize()).to_string());
    assert!(refused.contains("\"error\""), "{refused}");
}

#[test]
fn a_client_without_a_handshake_before_a_server_with_one() {
    let (gateway, server) = (Gateway::new(&["--translate", "always"]), everything());
    let over_http = gateway.listen(&server);
    let upstream = everything_over_http();
    let both_over_http = gateway.listen_before_url(&upstream.url);
    let ways = [
        ("stdio", gateway.before(&server)),
        ("HTTP", Way::Url(over_http.url.clone())),
        ("stdio before HTTP", gateway.before_url(&upstream.url)),
        ("HTTP before HTTP", Way::Url(both_over_http.url.clone())),
    ];
    for (name, way) in ways {
        let mut client = Connection::pinned(&way, MODERN);
        assert_eq!(client.about["revision"], MODERN, "{name}");
        let tools = client.tools();
        assert!(["echo", "lro_read"].iter().all(|tool| tools.contains(&(*tool).to_owned())), "{name}: {tools:?}");
        assert_eq!(first_text(&client.call(&json!({"name": "echo", "arguments": {"message": "é"}}))), "Echo: é");
        let lines = "a line of text\n".repeat(8_000);
        assert_reads_back(&mut client, &json!({"name": "echo", "arguments": {"message": lines}}));
        // What the server asks for by requests, the client gets as results.
        let elicited = client.call(&json!({"name": "trigger-elicitation-request", "arguments": {}}));
        assert!(first_text(&elicited).contains("User declined"), "{name}: {elicited}");
        let sampling = json!({"name": "trigger-sampling-request", "arguments": {"prompt": "x", "maxTokens": 5}});
        assert!(first_text(&client.call(&sampling)).contains("1 messages read"), "{name}");
        let long = json!({"name": "trigger-long-running-operation", "arguments": {"duration": 0.2, "steps": 2}});
        let steps = client.step(&json!({"call": long, "progress": true})).unwrap();
        // The client reports its own rounds, too.
        let progress = steps["progress"].as_array().unwrap();
        assert!(progress.iter().any(|one| one["total"] == 2), "{name}: {steps}");
        assert!(!client.outcome("resources", &Value::Null).as_array().unwrap().is_empty(), "{name}");
        assert!(!client.outcome("prompts", &Value::Null).as_array().unwrap().is_empty(), "{name}");
    }
    // A client that knows both begins with the handshake where it is not told otherwise.
    let mut both = Connection::open(Client::Client2, &Gateway::new(&[]).before(&server));
    assert_eq!(both.about["revision"], LEGACY);
    assert_eq!(first_text(&both.call(&json!({"name": "echo", "arguments": {"message": "é"}}))), "Echo: é");
}

/// A request of a client without a handshake.
fn modern_params(mut params: Value, capabilities: Value) -> Value {
    let own = params["_meta"].take();
    let mut meta = modern_meta();
    meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    meta.as_object_mut().unwrap().extend(own.as_object().cloned().unwrap_or_default());
    params["_meta"] = meta;
    params
}

fn refusal(code: i32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":@ID@,"error":{{"code":{code},"message":"refused"}}}}"#)
}

/// A server that has no handshake.
fn without_handshake(capabilities: &Value) -> Script {
    let discovered = json!({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": capabilities,
        "serverInfo": {"name": "new", "version": "1"}, "ttlMs": 0, "cacheScope": "private"});
    Script::new().line("initialize", refusal(-32_022)).result("server/discover", discovered)
}

/// A server with a handshake that refuses what comes without one.
fn with_handshake(capabilities: &Value) -> Script {
    let hello =
        json!({"protocolVersion": LEGACY, "capabilities": capabilities, "serverInfo": {"name": "old", "version": "1"}});
    Script::new().line("server/discover", refusal(-32_601)).result("initialize", hello)
}

fn next(gateway: &mut Scripted) -> Value {
    serde_json::from_str(&gateway.next()).unwrap()
}

#[test]
fn tasks_of_a_server_without_a_handshake() {
    let (created, ended) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z");
    let task = |status: &str| json!({"taskId": "t", "status": status, "createdAt": created, "lastUpdatedAt": ended, "ttlMs": 9_000});
    let mut made = task("working");
    made["resultType"] = "task".into();
    let mut done = task("completed");
    done["result"] = json!({"resultType": "complete", "content": text("done")["content"]});
    done["resultType"] = "complete".into();
    let mut working = task("working");
    working["pollIntervalMs"] = 1.into();
    let script = without_handshake(&json!({"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}}))
        .call("slow", made)
        .result("tasks/get t#1", working)
        .result("tasks/get t", done)
        .result("tasks/get u", json!({"resultType": "complete", "taskId": "u", "status": "cancelled", "ttlMs": 9_000}))
        .result("tasks/cancel u", r#"{"resultType":"complete"}"#);
    let mut gateway = script.start();
    assert!(gateway.hello["capabilities"]["tasks"]["requests"]["tools"]["call"].is_object(), "{}", gateway.hello);
    let created = gateway.result("tools/call", json!({"name": "slow", "arguments": {}, "task": {}}));
    assert_eq!(
        created["task"],
        json!({"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:01Z", "ttl": 9_000})
    );
    // The result is waited for: the first state has none.
    let result = gateway.result("tasks/result", json!({"taskId": "t"}));
    assert_eq!(first_text(&result), "done");
    assert_eq!(gateway.result("tasks/get", json!({"taskId": "t"}))["status"], "completed");
    assert_eq!(gateway.error("tasks/list", json!({}))["code"], -32_601);
    // The server only acknowledges it.
    let canceled = gateway.result("tasks/cancel", json!({"taskId": "u"}));
    assert_eq!(canceled, json!({"taskId": "u", "status": "cancelled", "ttl": 9_000}));
    assert_eq!(gateway.error("tasks/cancel", json!({"taskId": "unknown"}))["code"], -32_601);
    let seen = gateway.seen();
    let call = seen.iter().find(|line| line.contains("tools/call")).unwrap();
    assert!(call.contains("io.modelcontextprotocol/tasks") && !call.contains("\"task\":{}"), "{call}");
    assert!(seen.iter().all(|line| !line.contains("tasks/result") && !line.contains("initialized")), "{seen:?}");
}

#[test]
fn tasks_of_a_server_with_a_handshake() {
    let task = |status: &str| {
        json!({"taskId": "t", "status": status, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:01Z", "ttl": 9_000, "pollInterval": 5})
    };
    let capabilities = json!({"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
    let tool = json!({"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}});
    let script = with_handshake(&capabilities)
        .result("tools/list", json!({ "tools": [tool] }))
        .call("slow", json!({"task": task("working")}))
        .result("tasks/get t#1", task("working"))
        .result("tasks/get t", task("completed"))
        .result("tasks/result", text("done"))
        .result("tasks/cancel", task("cancelled"));
    let mut gateway = script.silent(&Setup { toml: ALWAYS, ..Setup::default() });
    let knows = || json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let offered = gateway.result("server/discover", modern_params(json!({}), knows()));
    assert!(offered["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object(), "{offered}");
    assert_eq!(offered["supportedVersions"], json!([MODERN]));
    let list = gateway.result("tools/list", modern_params(json!({}), knows()));
    assert_eq!((&list["resultType"], &list["cacheScope"]), (&"complete".into(), &"private".into()));
    let call = |capabilities| modern_params(json!({"name": "slow", "arguments": {}}), capabilities);
    let created = gateway.result("tools/call", call(knows()));
    assert_eq!(
        (&created["resultType"], &created["taskId"], &created["ttlMs"]),
        (&"task".into(), &"t".into(), &9_000.into())
    );
    let get = || modern_params(json!({"taskId": "t"}), knows());
    let working = gateway.result("tasks/get", get());
    assert_eq!((&working["status"], &working["pollIntervalMs"]), (&"working".into(), &5.into()));
    let done = gateway.result("tasks/get", get());
    assert_eq!((&done["status"], first_text(&done["result"])), (&"completed".into(), "done"));
    assert_eq!(done["result"]["resultType"], "complete");
    assert_eq!(gateway.result("tasks/cancel", get())["resultType"], "complete");
}

#[test]
fn subscriptions_of_both_generations() {
    // A server with a handshake.
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b"}}"#;
    let script = with_handshake(&json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}))
        .result("resources/subscribe", "{}")
        .result("resources/unsubscribe", "{}")
        .steps(
            "tools/call go",
            json!([changed, updated, format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{}}}"#, text("went"))]),
        );
    let mut gateway = script.silent(&Setup { toml: ALWAYS, ..Setup::default() });
    let wanted = json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["a://b"]});
    let listen = modern_params(json!({ "notifications": wanted }), json!({}));
    gateway.send(&request("listen", "subscriptions/listen", listen).to_string());
    let agreed = next(&mut gateway);
    assert_eq!(agreed["method"], "notifications/subscriptions/acknowledged", "{agreed}");
    let expected = json!({"toolsListChanged": true, "resourceSubscriptions": ["a://b"]});
    assert_eq!(agreed["params"]["notifications"], expected);
    gateway.result("tools/call", modern_params(json!({"name": "go", "arguments": {}}), json!({})));
    for method in ["notifications/tools/list_changed", "notifications/resources/updated"] {
        let told = next(&mut gateway);
        let subscription = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!((&told["method"], subscription), (&method.into(), &"listen".into()));
    }
    gateway.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"listen"}}"#);
    gateway.result("tools/call", modern_params(json!({"name": "go", "arguments": {}}), json!({})));
    let seen = gateway.result("scripted/seen", modern_params(json!({}), json!({})))["lines"].to_string();
    assert!(seen.contains("resources/unsubscribe") && !seen.contains("subscriptions/listen"), "{seen}");

    // A server without one.
    let told = |method: &str, more: &str| {
        let id = r#""_meta":{"io.modelcontextprotocol/subscriptionId":"x"}"#;
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{{more}{id}}}}}"#)
    };
    let notifications = [
        told("notifications/subscriptions/acknowledged", r#""notifications":{},"#),
        told("notifications/tools/list_changed", ""),
        told("notifications/resources/updated", r#""uri":"a://b","#),
    ];
    let answer = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{}}}"#, text("went"));
    let steps: Vec<String> = notifications.into_iter().chain([answer]).collect();
    let script = without_handshake(&json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}}))
        .steps("subscriptions/listen", json!([]))
        .steps("tools/call go", json!(steps));
    let mut gateway = script.start();
    assert_eq!(gateway.result("resources/subscribe", json!({"uri": "a://b"})), json!({}));
    gateway.call("go", json!({}));
    for method in ["notifications/tools/list_changed", "notifications/resources/updated"] {
        let told = next(&mut gateway);
        assert_eq!(
            (&told["method"], told["params"]["_meta"].as_object().map_or(0, |meta| meta.len())),
            (&method.into(), 0),
            "{told}"
        );
    }
    let seen = gateway.seen();
    let listens: Vec<&String> = seen.iter().filter(|line| line.contains("subscriptions/listen")).collect();
    assert_eq!(listens.len(), 2, "anew with each subscription: {listens:?}");
    assert!(!listens[0].contains("a://b") && listens[1].contains("a://b") && listens[1].contains("toolsListChanged"));
}

// The client gets the refusal, byte for byte, when the server is of neither generation, and messages that waited go on.
#[test]
fn a_server_that_refuses_both_is_left_as_it_is() {
    let script = Script::new().line("initialize", refusal(-32_000)).call("any", text("answered"));
    let mut gateway = script.silent(&Setup::default());
    let refused = gateway.ask("initialize", crate::wire::initialize());
    assert_eq!(refused, refusal(-32_000).replace("@ID@", "1"));
    assert_eq!(first_text(&gateway.call("any", json!({}))), "answered");
    let mut gateway = script.silent(&Setup { toml: ALWAYS, ..Setup::default() });
    let any = || modern_params(json!({"name": "any", "arguments": {}}), json!({}));
    assert_eq!(first_text(&gateway.result("tools/call", any())), "answered");
    assert!(
        gateway.error("server/discover", modern_params(json!({}), json!({})))["message"] == "refused"
            || gateway.seen().len() > 2
    );
}

// Without the setting a client without a handshake sees the server as it is.
#[test]
fn a_server_with_a_handshake_is_translated_only_by_setting() {
    let script = with_handshake(&json!({"tools": {}})).call("any", text("answered"));
    let mut gateway = script.silent(&Setup::default());
    let refused = gateway.ask("server/discover", modern_params(json!({}), json!({})));
    assert_eq!(refused, refusal(-32_601).replace("@ID@", "1"));
    let answered = gateway.result("tools/call", modern_params(json!({"name": "any", "arguments": {}}), json!({})));
    assert!(answered["resultType"].is_null(), "{answered}");
    let seen = gateway.seen();
    assert!(seen.iter().all(|line| !line.contains("initialize")), "{seen:?}");
}

/// Steps of a tool that asks once, and answers with what it got.
fn asks(id: &str) -> Value {
    let question = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create",
        "params": {"message": "Which?", "requestedSchema": {"type": "object", "properties": {}}}});
    let answer = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":@ANSWER@}]}}"#;
    json!([question.to_string(), {"await": id}, answer])
}

#[test]
fn input_belongs_to_the_call_that_asked() {
    let script = with_handshake(&json!({"tools": {}}))
        .steps("tools/call asks", asks("q1"))
        .steps("tools/call waits", json!([{"await": "test/never"}]));
    let mut gateway = script.silent(&Setup { toml: ALWAYS, ..Setup::default() });
    let asks = |more: Value| {
        let mut params = json!({"name": "asks", "arguments": {}});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        modern_params(params, json!({"elicitation": {"form": {}}}))
    };
    let asked = gateway.result("tools/call", asks(json!({})));
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!((&question["method"], &question["params"]["message"]), (&"elicitation/create".into(), &"Which?".into()));
    let state = &asked["requestState"];
    let other = asks(json!({"requestState": "other", "inputResponses": {key: {"action": "accept"}}}));
    let error = gateway.error("tools/call", other);
    assert!(error["code"] == -32_602 && error["message"].as_str().unwrap().contains("requestState"), "{error}");
    // What is not answered is asked again.
    let again = gateway.result("tools/call", asks(json!({"requestState": state, "inputResponses": {"other": {}}})));
    let (key, asked_again) = again["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!((asked_again, &again["resultType"]), (question, &"input_required".into()));
    let state = &again["requestState"];
    let given =
        asks(json!({"requestState": state, "inputResponses": {key: {"action": "accept", "content": {"a": 1}}}}));
    let result = gateway.result("tools/call", given.clone());
    let answer: Value = serde_json::from_str(first_text(&result)).unwrap();
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": "q1", "result": {"action": "accept", "content": {"a": 1}}}));
    assert_eq!(result["resultType"], "complete");
    assert_eq!(gateway.error("tools/call", given)["code"], -32_602, "once");
    // A client that cannot be asked, and a question that could belong to two calls.
    let result = gateway.result("tools/call", modern_params(json!({"name": "asks", "arguments": {}}), json!({})));
    assert!(first_text(&result).contains("does not support elicitation"), "{result}");
}

// A question that could belong to two calls is refused: the client could not tell which it is about.
#[test]
fn a_question_among_several_calls_is_refused() {
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"message": "?"}});
    let answer = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":@ANSWER@}]}}"#;
    let script = with_handshake(&json!({"tools": {}}))
        .steps("tools/call first", json!([{"await": "tools/call"}, question.to_string(), {"await": "q"}, answer]))
        .call("second", text("second"));
    let mut gateway = script.silent(&Setup { toml: ALWAYS, ..Setup::default() });
    let call = |name: &str| modern_params(json!({"name": name, "arguments": {}}), json!({"elicitation": {}}));
    gateway.send(&request("first", "tools/call", call("first")).to_string());
    gateway.send(&request("second", "tools/call", call("second")).to_string());
    let first = next(&mut gateway);
    assert!(first["id"] == "first" && first_text(&first["result"]).contains("several calls are pending"), "{first}");
}

#[test]
fn limits_of_the_translation_are_settings() {
    let setup = |toml: &'static str| Setup { toml, ..Setup::default() };
    let call = |name: &str, capabilities: Value| modern_params(json!({"name": name, "arguments": {}}), capabilities);
    // A server that never answers what it does not know.
    let silent =
        || with_handshake(&json!({"tools": {}})).steps("server/discover", json!([])).call("any", text("answered"));
    let mut gateway = silent().silent(&setup("[gateway]\ntranslate = \"always\"\ntranslate-timeout-ms = 100\n"));
    assert_eq!(first_text(&gateway.result("tools/call", call("any", json!({})))), "answered");
    let toml = "[gateway]\ntranslate = \"always\"\ntranslate-timeout-ms = 600000\ntranslate-held = 1\n";
    let mut gateway = silent().silent(&setup(toml));
    for id in ["held", "dropped"] {
        gateway.send(&request(id, "tools/call", call("any", json!({}))).to_string());
    }
    let refused = next(&mut gateway);
    assert_eq!(refused["id"], "dropped");
    assert!(refused["error"]["message"].as_str().unwrap().contains("gateway.translate-held"), "{refused}");
    gateway.told("dropped a message of a client: too many messages wait for the handshake");
    // The client has not answered the first question when the second comes.
    let told = r#"{"jsonrpc":"2.0","method":"notifications/told","params":{"data":"asked"}}"#;
    let ask = |id: &str| {
        json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": id}}).to_string()
    };
    let answer = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":@ANSWER@}]}}"#;
    let script = with_handshake(&json!({"tools": {}}))
        .steps("tools/call asks", json!([ask("q1"), ask("q2"), told, {"await": "q2"}, answer]));
    let mut gateway = script.silent(&setup("[gateway]\ntranslate = \"always\"\ntranslate-waiting = 1\n"));
    let asks = call("asks", json!({"elicitation": {}}));
    let asked = gateway.result("tools/call", asks.clone());
    assert_eq!(next(&mut gateway)["params"]["data"], "asked");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut again = asks;
    again["requestState"] = asked["requestState"].clone();
    again["inputResponses"] = json!({key: {"action": "decline"}});
    let answered = gateway.result("tools/call", again);
    assert!(first_text(&answered).contains("gateway.translate-waiting"), "{answered}");
    // A server without a handshake that asks more often than it may.
    let asks = r#"{"resultType":"input_required","requestState":"s"}"#;
    let script = without_handshake(&json!({"tools": {}})).call("asks", asks);
    let mut gateway = script.with_toml("[gateway]\ninput-rounds = 3\n");
    let error = gateway.error("tools/call", json!({"name": "asks", "arguments": {}}));
    assert!(error["message"].as_str().unwrap().contains("more than 3 times"), "{error}");
    assert_eq!(gateway.seen().iter().filter(|line| line.contains("tools/call")).count(), 4);
}

// A server with a handshake checks nothing of what each request of the other generation has to say.
#[test]
fn what_each_request_says_is_checked() {
    let missing =
        r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32002,"message":"no such resource","data":{"uri":"a://b"}}}"#;
    let script = with_handshake(&json!({"tools": {}, "resources": {}}))
        .call("any", text("answered"))
        .line("resources/read", missing);
    let mut gateway = script.silent(&Setup { toml: ALWAYS, ..Setup::default() });
    let params = || modern_params(json!({"name": "any", "arguments": {}}), json!({}));
    assert_eq!(first_text(&gateway.result("tools/call", params())), "answered");
    for key in ["protocolVersion", "clientCapabilities"] {
        let mut params = params();
        params["_meta"].as_object_mut().unwrap().remove(&format!("io.modelcontextprotocol/{key}")).unwrap();
        let error = gateway.error("tools/call", params);
        assert!(error["code"] == -32_602 && error["message"].as_str().unwrap().contains(key), "{error}");
    }
    let error = gateway.error("tools/call", json!({"name": "any", "arguments": {}}));
    assert_eq!(error["code"], -32_602);
    let mut later = params();
    later["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2030-01-01");
    let error = gateway.error("tools/call", later);
    assert_eq!(
        (&error["code"], &error["data"]),
        (&json!(-32_022), &json!({"supported": [MODERN], "requested": "2030-01-01"}))
    );
    for removed in ["ping", "logging/setLevel", "resources/subscribe", "tasks/result"] {
        assert_eq!(gateway.error(removed, modern_params(json!({}), json!({})))["code"], -32_601, "{removed}");
    }
    let error = gateway.error("resources/read", modern_params(json!({"uri": "a://b"}), json!({})));
    assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(-32_602), &json!("a://b")));
    let seen = gateway.result("scripted/seen", params())["lines"].to_string();
    assert_eq!(seen.matches("tools/call").count(), 1, "{seen}");
}

// A request without a level gets no log messages, and one with a level those that are as severe.
#[test]
fn log_messages_are_for_requests_that_want_them() {
    let log = |level: &str| {
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": level, "data": level}})
            .to_string()
    };
    let answer = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{}}}"#, text("done"));
    let script = with_handshake(&json!({"tools": {}, "logging": {}}))
        .result("logging/setLevel", "{}")
        .steps("tools/call logs", json!([log("debug"), log("warning"), log("critical"), answer]));
    let mut gateway = script.silent(&Setup { toml: ALWAYS, ..Setup::default() });
    for (level, expected) in [(None, vec![]), (Some("warning"), vec!["warning", "critical"]), (Some("loud"), vec![])] {
        let mut params = modern_params(json!({"name": "logs", "arguments": {}}), json!({}));
        if let Some(level) = level {
            params["_meta"]["io.modelcontextprotocol/logLevel"] = json!(level);
        }
        gateway.send(&request("logs", "tools/call", params).to_string());
        for level in expected {
            assert_eq!(next(&mut gateway)["params"]["data"], level);
        }
        assert_eq!(next(&mut gateway)["id"], "logs", "{level:?}");
    }
    let seen = gateway.result("scripted/seen", modern_params(json!({}), json!({})))["lines"].to_string();
    assert_eq!(seen.matches("logging/setLevel").count(), 1, "{seen}");
}

// The list of tools says which of them run as tasks; a later list replaces it as a whole.
#[test]
fn a_tool_that_no_longer_needs_a_task_gets_none() {
    let capabilities = json!({"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
    let tool = |name: &str, support: &str| json!({"name": name, "inputSchema": {"type": "object"}, "execution": {"taskSupport": support}});
    let page = |tool: Value| json!({"tools": [tool], "nextCursor": "next"});
    let script = with_handshake(&capabilities)
        .result("tools/list#1", page(tool("slow", "required")))
        .result("tools/list", page(tool("slow", "forbidden")))
        .result("tools/list next", json!({"tools": [tool("other", "required")]}))
        .call("slow", text("done"))
        .call("other", text("done"));
    let mut gateway = script.silent(&Setup { toml: ALWAYS, ..Setup::default() });
    let knows = || json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let asked = |gateway: &mut Scripted, tool: &str| {
        gateway.result("tools/call", modern_params(json!({"name": tool, "arguments": {}}), knows()));
        let seen = gateway.result("scripted/seen", modern_params(json!({}), knows()))["lines"].take();
        let calls: Vec<String> = serde_json::from_value(seen).unwrap();
        calls.iter().rfind(|line| line.contains("tools/call")).unwrap().contains("\"task\":{}")
    };
    let list =
        |gateway: &mut Scripted, params: Value| drop(gateway.result("tools/list", modern_params(params, knows())));
    let next = || json!({"cursor": "next"});
    list(&mut gateway, json!({}));
    assert!(asked(&mut gateway, "slow"));
    list(&mut gateway, next());
    assert!(asked(&mut gateway, "slow") && asked(&mut gateway, "other"));
    list(&mut gateway, json!({}));
    assert!(asked(&mut gateway, "other"), "the rest of the list is to come");
    list(&mut gateway, next());
    assert!(!asked(&mut gateway, "slow") && asked(&mut gateway, "other"));
}

// The client of a server that has ended gets an error for what it listens to, and listens again.
#[test]
fn subscriptions_begin_again_after_a_restart() {
    let updated = r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a://b"}}"#;
    let answer = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{}}}"#, text("went"));
    let script = with_handshake(&json!({"tools": {}, "resources": {"subscribe": true}}))
        .result("resources/subscribe", "{}")
        .steps("tools/call go", json!([updated, answer]))
        .steps("tools/call dies", json!([{"bytes": null}]));
    let mut gateway = script.silent(&Setup { toml: ALWAYS, ..Setup::default() });
    let listen = |gateway: &mut Scripted, id: &str| {
        let params = modern_params(json!({"notifications": {"resourceSubscriptions": ["a://b"]}}), json!({}));
        gateway.send(&request(id, "subscriptions/listen", params).to_string());
        let agreed = next(gateway);
        assert_eq!(agreed["params"]["notifications"], json!({"resourceSubscriptions": ["a://b"]}), "{agreed}");
    };
    let call = |name: &str| modern_params(json!({"name": name, "arguments": {}}), json!({}));
    listen(&mut gateway, "first");
    gateway.error("tools/call", call("dies"));
    let ended = next(&mut gateway);
    assert!(ended["id"] == "first" && ended["error"].is_object(), "{ended}");
    listen(&mut gateway, "second");
    gateway.result("tools/call", call("go"));
    let told = next(&mut gateway);
    let subscription = &told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"];
    assert_eq!(
        (&told["method"], subscription),
        (&"notifications/resources/updated".into(), &"second".into()),
        "{told}"
    );
    let seen = gateway.result("scripted/seen", modern_params(json!({}), json!({})))["lines"].to_string();
    let count = |method: &str| seen.matches(&format!("\\\"{method}\\\"")).count();
    assert_eq!((count("initialize"), count("resources/subscribe")), (1, 1), "{seen}");
}

// A server that is started again gets the handshake again, and its client notices nothing.
#[test]
fn a_server_that_is_started_again() {
    let answer = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{}}}"#, text("answered"));
    let script = with_handshake(&json!({"tools": {}}))
        .steps("tools/call any", json!([answer]))
        .steps("tools/call dies", json!([{"bytes": null}]));
    let mut gateway = script.silent(&Setup { toml: ALWAYS, ..Setup::default() });
    let call = |name: &str| modern_params(json!({"name": name, "arguments": {}}), json!({}));
    assert_eq!(first_text(&gateway.result("tools/call", call("any"))), "answered");
    let error = gateway.error("tools/call", call("dies"));
    assert!(error["message"].as_str().unwrap().contains("the server"), "{error}");
    let again = gateway.result("tools/call", call("any"));
    assert_eq!((first_text(&again), &again["resultType"]), ("answered", &"complete".into()));
    let seen = gateway.result("scripted/seen", modern_params(json!({}), json!({})))["lines"].to_string();
    let count = |method: &str| seen.matches(&format!("\\\"{method}\\\"")).count();
    assert_eq!((count("initialize"), count("notifications/initialized")), (1, 1), "{seen}");

    let script = without_handshake(&json!({"tools": {}}))
        .call("any", text("answered"))
        .steps("tools/call dies", json!([{"bytes": null}]));
    let mut gateway = script.start();
    gateway.error("tools/call", json!({"name": "dies", "arguments": {}}));
    assert_eq!(first_text(&gateway.call("any", json!({}))), "answered");
    let seen = gateway.seen();
    assert!(seen.iter().all(|line| !line.contains("initialize")), "{seen:?}");
}
