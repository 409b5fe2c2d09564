//! Arguments that a gateway adds to the tools of a server, and takes out of their calls.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use bytes::Bytes;
use lro_mcp::{ListedTool, Message, SchemaChange, ToolChange, has_argument, with_tools};
use proptest::prelude::*;
use serde_json::{Value, json};

const ADDED: (&str, &str) = ("ask", r#"{"type":"object"}"#);

/// The list of one tool with the added argument, as text.
fn with_argument(tool: &str) -> String {
    let list = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"tools":[{tool}]}}}}"#);
    let (schema, result_characters, argument) = (SchemaChange::Widen, Some(7), Some(ADDED));
    let change = |_: &ListedTool<'_>| ToolChange {
        schema,
        result_characters,
        argument,
        rules: Vec::new(),
        tasks: false,
        description: None,
        outputs: false,
    };
    let changed = with_tools(&Message::read(Bytes::from(list)), change, &[]);
    String::from_utf8(changed.to_vec()).unwrap()
}

#[test]
fn a_tool_gets_an_argument_beside_its_own() {
    let cases = [
        (r#"{"name":"a","inputSchema":{"type":"object"}}"#, json!({"ask": {"type": "object"}})),
        (r#"{"name":"a","inputSchema":{"properties":{ },"required":[]}}"#, json!({"ask": {"type": "object"}})),
        (
            r#"{"outputSchema":{"type":"object"},"inputSchema":{"properties":{"b":{"type":"string"}}},"name":"a"}"#,
            json!({"b": {"type": "string"}, "ask": {"type": "object"}}),
        ),
        // Its own argument of that name stays.
        (r#"{"name":"a","inputSchema":{"properties":{"ask":true}}}"#, json!({"ask": true})),
    ];
    for (tool, arguments) in cases {
        let list: Value = serde_json::from_str(&with_argument(tool)).unwrap();
        let changed = &list["result"]["tools"][0];
        assert_eq!(changed["inputSchema"]["properties"], arguments, "{tool}");
        assert_eq!(changed["_meta"]["anthropic/maxResultSizeChars"], 7, "{tool}");
    }
    for tool in
        [r#"{"name":"a"}"#, r#"{"name":"a","inputSchema":[]}"#, r#"{"name":"a","inputSchema":{"properties":3}}"#]
    {
        assert!(!with_argument(tool).contains("ask"), "{tool}");
    }
}

#[test]
fn an_argument_is_found_by_its_decoded_name() {
    assert!(has_argument(br#" {"properties":{"\u0061sk":{}}}"#.trim_ascii(), "ask"));
    for schema in [r#"{"ask":{}}"#, r#"{"properties":{"asks":{}}}"#, r#"{"properties":["ask"]}"#, "[]", "", "{"] {
        assert!(!has_argument(schema.as_bytes(), "ask"), "{schema}");
    }
}

#[test]
fn a_message_without_a_member_keeps_all_other_bytes() {
    let without = |message: &str, path: &[&str]| {
        let message = Message::read(Bytes::copy_from_slice(message.as_bytes()));
        String::from_utf8(message.without(path).to_vec()).unwrap()
    };
    let call = |arguments: &str| format!(r#" {{"id" : 1.0,"method":"m","params":{{"arguments": {arguments} }} }}"#);
    let path = ["params", "arguments", "ask"];
    for (before, after) in [
        (r#"{"ask":{"a":[1,"}"]}}"#, "{}"),
        (r#"{ "ask" : 1 , "b" : 1e2 }"#, r#"{ "b" : 1e2 }"#),
        (r#"{ "b" : 1e2 , "ask" : 1 }"#, r#"{ "b" : 1e2 }"#),
        (r#"{"a":1,"\u0061sk":"x","c":3}"#, r#"{"a":1,"c":3}"#),
        // What readers may not agree on stays.
        (r#"{"ask":1,"ask":2}"#, r#"{"ask":1,"ask":2}"#),
        (r#"{"a":{"ask":1}}"#, r#"{"a":{"ask":1}}"#),
        (r#"["ask"]"#, r#"["ask"]"#),
    ] {
        assert_eq!(without(&call(before), &path), call(after));
    }
    assert_eq!(without(&call("{}"), &[]), call("{}"));
}

fn any_object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![any::<i64>().prop_map(Value::from), ".{0,4}".prop_map(Value::from), Just(Value::Null)];
    let value = leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c\"\\\\]{1,2}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    });
    prop::collection::btree_map("[a-c\"\\\\]{1,2}", value, 0..5).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn a_removed_member_is_all_that_is_missing(arguments in any_object(), name in "[a-c\"\\\\]{1,2}") {
        let mut call = json!({"id": 1, "method": "m", "params": {"arguments": arguments}});
        let message = Message::read(Bytes::from(call.to_string()));
        let removed = message.without(&["params", "arguments", &name]);
        call["params"]["arguments"].as_object_mut().unwrap().remove(&name);
        prop_assert_eq!(serde_json::from_slice::<Value>(&removed).unwrap(), call);
    }
}
