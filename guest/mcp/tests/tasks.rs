//! What a gateway adds to the answers of a server so that clients may ask for tasks.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use bytes::Bytes;
use lro_mcp::{
    ListedTool, Message, SchemaChange, TaskSupport, ToolChange, listed_tools, with_capabilities, with_items,
    with_result_type, with_tools,
};
use serde_json::{Value, json};

fn answer(result: &str) -> Message {
    Message::read(Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#)))
}

fn result(bytes: &Bytes) -> Value {
    serde_json::from_slice::<Value>(bytes).unwrap()["result"].take()
}

#[test]
fn a_tool_declares_tasks_unless_it_does() {
    let change = |_: &ListedTool<'_>| ToolChange {
        schema: SchemaChange::Remove,
        result_characters: Some(9),
        argument: None,
        rules: Vec::new(),
        tasks: true,
        description: None,
        outputs: false,
    };
    for (tool, execution, runs_tasks) in [
        (r#"{"name":"a","outputSchema":{}}"#, json!({"taskSupport": "optional"}), false),
        (r#"{"name":"a","execution":{ }}"#, json!({"taskSupport": "optional"}), false),
        (r#"{"execution":{"b":1},"name":"a"}"#, json!({"b": 1, "taskSupport": "optional"}), false),
        (r#"{"name":"a","execution":{"taskSupport":"forbidden"}}"#, json!({"taskSupport": "optional"}), false),
        (r#"{"name":"a","execution":{"taskSupport":"optional"}}"#, json!({"taskSupport": "optional"}), true),
        (r#"{"name":"a","execution":{"taskSupport":"required"}}"#, json!({"taskSupport": "required"}), true),
        (r#"{"name":"a","execution":[]}"#, json!([]), false),
    ] {
        let list = answer(&format!(r#"{{"tools":[{tool}]}}"#));
        assert_eq!(listed_tools(&list)[0].runs_tasks, runs_tasks, "{tool}");
        let changed = result(&with_tools(&list, change, &[]));
        assert_eq!(changed["tools"][0]["execution"], execution, "{tool}");
        assert_eq!(changed["tools"][0]["_meta"]["anthropic/maxResultSizeChars"], 9, "{tool}");
    }
}

#[test]
fn tasks_are_announced_in_both_forms() {
    let legacy = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    let modern = json!({"io.modelcontextprotocol/tasks": {}});
    for (before, tasks, extensions) in [
        (r"{}", &legacy, modern.clone()),
        (r#"{"capabilities":{}}"#, &legacy, modern.clone()),
        (r#"{"capabilities":{"extensions":{ }}}"#, &legacy, modern.clone()),
        (
            r#"{"capabilities":{"extensions":{"a":1},"tasks":{"list":{}}}}"#,
            &json!({"list": {}}),
            json!({"a": 1, "io.modelcontextprotocol/tasks": {}}),
        ),
        (
            r#"{"capabilities":{"extensions":{"io.modelcontextprotocol/tasks":{"b":1}}}}"#,
            &legacy,
            json!({
                "io.modelcontextprotocol/tasks": {"b": 1},
            }),
        ),
    ] {
        let with =
            |support| result(&with_capabilities(&answer(before), "guidance", false, support))["capabilities"].take();
        assert_eq!(with(Some(TaskSupport::Capability))["tasks"], *tasks, "{before}");
        assert_eq!(with(Some(TaskSupport::Extension))["extensions"], extensions, "{before}");
        let without: Value = serde_json::from_str(before).unwrap();
        let (plain, original) = (with(None), &without["capabilities"]);
        assert_eq!((&plain["tasks"], &plain["extensions"]), (&original["tasks"], &original["extensions"]), "{before}");
        assert_eq!((&plain["tools"], &plain["resources"]), (&json!({}), &json!({})), "{before}");
    }
}

#[test]
fn items_end_a_list() {
    for (before, after) in [("[]", json!([2, 3])), ("[ 1 ]", json!([1, 2, 3])), ("{}", json!({}))] {
        let answer = answer(&format!(r#"{{"tasks":{before},"nextCursor":"c"}}"#));
        let changed = result(&with_items(&answer, "tasks", &["2".to_owned(), "3".to_owned()]));
        assert_eq!((&changed["tasks"], &changed["nextCursor"]), (&after, &json!("c")), "{before}");
    }
}

#[test]
fn a_result_gets_its_type() {
    for (before, after) in
        [("{}", r#"{"resultType":"complete"}"#), (r#"{"a":1}"#, r#"{"resultType":"complete","a":1}"#)]
    {
        assert_eq!(with_result_type(before.to_owned(), true), after);
        assert_eq!(with_result_type(before.to_owned(), false), before);
    }
}
