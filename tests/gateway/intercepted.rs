//! The policy as an interceptor, as the proposal SEP-2624 says: `seps/2624-interceptors-for-model-context-protocol.md` of
//! 2026-07-17.

use serde_json::{Value, json};

use crate::http::open_modern;
use crate::scripted::{Script, Scripted, Setup, descriptor, handle, records, structured, text};
use crate::support::path_text;
use crate::wire::{modern_meta, request};

const ON: &str = "[gateway]\ninterceptor = true\n";

fn invocation(payload: &Value) -> Value {
    json!({"name": "lro-filter", "event": "tools/call", "phase": "response", "payload": payload})
}

fn large() -> Value {
    structured(&json!({ "items": records(2_000) }))
}

fn with(toml: &str) -> Scripted {
    Script::new().call("small", text("small")).with_toml(&format!("{toml}{ON}"))
}

// "Interceptor Discovery", the interface `Interceptor`, and "Interceptor Server Capabilities".
#[test]
fn the_policy_is_listed_as_a_mutator() {
    let modes = [
        ("", "active", true),
        ("failure = \"closed\"\n", "active", false),
        ("failure = \"truncate\"\n", "active", true),
    ];
    for (toml, mode, fails_open) in modes {
        let mut gateway = with(toml);
        let supported = &gateway.hello["capabilities"]["extensions"]["io.modelcontextprotocol/interceptors"];
        assert_eq!(supported, &json!({"supportedEvents": ["tools/call"]}), "{}", gateway.hello);
        let listed = gateway.result("interceptors/list", json!({}))["interceptors"].clone();
        let only = &listed[0];
        assert_eq!(listed.as_array().unwrap().len(), 1);
        assert_eq!((&only["name"], &only["type"]), (&json!("lro-filter"), &json!("mutation")));
        assert_eq!(only["hooks"], json!([{"events": ["tools/call"], "phase": "response"}]));
        assert_eq!((&only["mode"], &only["failOpen"]), (&json!(mode), &json!(fails_open)), "{toml}");
        assert_eq!(gateway.result("interceptors/list", json!({"event": "tools/call"}))["interceptors"], listed);
        assert_eq!(gateway.result("interceptors/list", json!({"event": "prompts/get"}))["interceptors"], json!([]));
    }
    let mut audit = Script::new().with_toml("[gateway]\ninterceptor = true\naudit = true\n");
    assert_eq!(audit.result("interceptors/list", json!({}))["interceptors"][0]["mode"], "audit");
    // Off, the methods are the server's.
    let mut off = Script::new().result("interceptors/list", json!({"interceptors": ["its own"]})).start();
    assert_eq!(off.result("interceptors/list", json!({}))["interceptors"], json!(["its own"]));
    assert!(off.hello["capabilities"]["extensions"].is_null(), "{}", off.hello);
}

// The interface `MutationResult`: the whole payload, transformed, or the original one.
#[test]
fn a_result_is_returned_as_the_gateway_forwards_it() {
    let mut gateway = with("");
    let found = gateway.result("interceptor/invoke", invocation(&large()));
    assert_eq!((&found["modified"], &found["type"]), (&json!(true), &json!("mutation")), "{found}");
    assert_eq!((&found["interceptor"], &found["phase"]), (&json!("lro-filter"), &json!("response")));
    let offloaded = descriptor(&found["payload"]).unwrap_or_else(|| panic!("{found}"));
    assert_eq!(found["info"], json!({"handle": handle(&offloaded)}));
    let page = gateway.call("lro_read", json!({"handle": handle(&offloaded)}));
    assert!(page["structuredContent"].to_string().contains("record number 0"), "{page:.500}");
    assert_eq!(gateway.call("small", json!({})), text("small"), "other requests go to the server");

    let odd = r#"{"content":[{"type":"text","text":"a"}],  "big":12345678901234567890,"1.0":1.0}"#;
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":"odd","method":"interceptor/invoke","params":{{"name":"lro-filter","event":"tools/call","phase":"response","payload":{odd}}}}}"#
    );
    let answer = gateway.ask_line(&line);
    assert!(answer.contains(&format!(r#""modified":false,"payload":{odd}}}"#)), "{answer}");

    let before: usize = gateway.offloads().len();
    let mut audit = Script::new().with_toml("[gateway]\ninterceptor = true\naudit = true\n");
    let shadow = audit.result("interceptor/invoke", invocation(&large()));
    assert_eq!((&shadow["modified"], &shadow["payload"]), (&json!(false), &large()));
    assert_eq!((audit.offloads().len(), before), (0, 1));
}

#[test]
fn the_settings_of_the_tool_apply() {
    let mut gateway =
        with("[tools.kept]\nmode = \"never\"\n[tools.refused]\naction = \"reject\"\nadvice = \"ask for less\"\n");
    let mut of_tool = |tool: &str| {
        let mut params = invocation(&large());
        params["config"] = json!({"tool": tool, "arguments": {"a": 1}});
        gateway.result("interceptor/invoke", params)
    };
    assert_eq!(of_tool("kept")["modified"], false);
    assert!(descriptor(&of_tool("other")["payload"]).is_some());
    let refused = of_tool("refused");
    assert!(refused["modified"] == true && refused["payload"]["isError"] == true, "{refused}");
    assert!(refused["payload"].to_string().contains("ask for less"), "{refused}");
}

// "Error Handling", and "Timeout and Cancellation".
#[test]
fn invocations_that_fail() {
    let mut gateway = with("");
    for (change, reason) in [
        (json!({"name": "other"}), "lro-filter"),
        (json!({"event": "prompts/get"}), "tools/call"),
        (json!({"phase": "request"}), "response"),
        (json!({"payload": [1]}), "object"),
        (json!({"payload": "text"}), "object"),
        (json!({"config": {"nonsense": 1}}), "nonsense"),
        (json!({"config": {"tool": 1}}), "string"),
        (json!({"timeoutMs": -1}), "invalid"),
        (json!({"name": null}), "null"),
    ] {
        let mut params = invocation(&large());
        params.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let error = gateway.error("interceptor/invoke", params);
        assert!(error["code"] == -32602 && error["message"].as_str().unwrap().contains(reason), "{change}: {error}");
    }
    assert_eq!(gateway.error("interceptor/invoke", json!({}))["code"], -32602);
    let twice = r#"{"jsonrpc":"2.0","id":"twice","method":"interceptor/invoke","params":{"name":"lro-filter","event":"tools/call","phase":"response","payload":{"content":[],"content":[]}}}"#;
    assert!(gateway.ask_line(twice).contains("-32602"));
    let mut params = invocation(&large());
    params["timeoutMs"] = json!(0);
    let late = gateway.error("interceptor/invoke", params);
    let data = json!({"interceptor": "lro-filter", "timeoutMs": 0, "phase": "response"});
    assert_eq!((&late["code"], &late["data"]), (&json!(-32000), &data), "{late}");
    assert!(gateway.offloads().is_empty());

    for (failure, is_blocked) in [("closed", true), ("open", false), ("truncate", false)] {
        let mut gateway = with(&format!("failure = \"{failure}\"\nquota-file = 1\n"));
        let params = invocation(&large());
        if is_blocked {
            let error = gateway.error("interceptor/invoke", params);
            assert!(error["code"] == -32603 && error["data"]["interceptor"] == "lro-filter", "{error}");
            let root = path_text(&gateway.directory());
            assert!(error["data"]["reason"].is_string() && !error.to_string().contains(&root), "{error}");
        } else {
            assert!(gateway.result("interceptor/invoke", params)["payload"]["content"].is_array(), "{failure}");
        }
    }
}

#[test]
fn a_modern_client_invokes_it_over_http() {
    let mut gateway =
        Script::new().silent(&Setup { flags: &["--listen", "127.0.0.1:0"], toml: ON, ..Setup::default() });
    let url = gateway.url();
    let ask = |method: &str, mut params: Value| {
        params["_meta"] = modern_meta();
        open_modern(&url, &request(1, method, params), &[]).finish().answer()["result"].clone()
    };
    assert_eq!(ask("interceptors/list", json!({}))["resultType"], "complete");
    let found = ask("interceptor/invoke", invocation(&large()));
    assert!(found["modified"] == true && descriptor(&found["payload"]).is_some(), "{found:.500}");
}
