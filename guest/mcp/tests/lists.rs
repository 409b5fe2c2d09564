//! Pages of lists that a server answers whole.

use bytes::Bytes;
use lro_mcp::{Message, WholeList};
use proptest::prelude::*;
use serde_json::{Value, json};

fn list(answer: &str) -> Option<WholeList> {
    WholeList::of(&Message::read(Bytes::copy_from_slice(answer.as_bytes())), "tools")
}

#[test]
fn only_items_and_cursor_change() {
    let answer =
        r#"{ "id":1, "result":{ "ttlMs":1.0,"tools":[ {"a":"\u0041"} , {"b":1e2},{} ], "x":"y" },"jsonrpc":"2.0"}"#;
    let page = |items, next| String::from_utf8(list(answer).unwrap().page(items, next).to_vec()).unwrap();
    let first = r#"{ "id":1, "result":{ "ttlMs":1.0,"tools":[{"a":"\u0041"} , {"b":1e2}], "x":"y" ,"nextCursor":"n"},"jsonrpc":"2.0"}"#;
    assert_eq!(page(0..2, Some("n")), first);
    assert_eq!(page(2..3, None), r#"{ "id":1, "result":{ "ttlMs":1.0,"tools":[{}], "x":"y" },"jsonrpc":"2.0"}"#);
    for answer in
        [r#"{"result":{"nextCursor":null,"tools":[1,2]}}"#, r#"{"result":{"tools":[1,2],"nextCursor": null }}"#]
    {
        let page: Value = serde_json::from_slice(&list(answer).unwrap().page(0..1, Some("a\"b"))).unwrap();
        assert_eq!(page, json!({"result": {"tools": [1], "nextCursor": "a\"b"}}));
    }
}

#[test]
fn a_server_that_pages_is_left_alone() {
    for answer in [
        r#"{"result":{"tools":[1],"nextCursor":"b"}}"#,
        r#"{"result":{"nextCursor":"","tools":[1]}}"#,
        r#"{"result":{"nextCursor":null,"tools":[1],"nextCursor":"b"}}"#,
        r#"{"result":{"tools":{}}}"#,
        r#"{"result":{}}"#,
        r#"{"result":[]}"#,
        r#"{"error":{"code":1}}"#,
        "[]",
        "",
    ] {
        assert!(list(answer).is_none(), "{answer}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Pages of any size are the list, each item once and in order.
    #[test]
    fn pages_are_the_list(items in proptest::collection::vec(any::<Option<i32>>(), 0..30), size in 1..9_usize) {
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": items, "more": {"tools": [0]}}});
        let whole = list(&answer.to_string()).unwrap();
        prop_assert_eq!(whole.len(), items.len());
        let mut found = Vec::new();
        for start in (0..whole.len()).step_by(size) {
            let end = (start + size).min(whole.len());
            let page: Value = serde_json::from_slice(&whole.page(start..end, Some("c"))).unwrap();
            prop_assert_eq!((&page["result"]["nextCursor"], &page["result"]["more"]), (&json!("c"), &json!({"tools": [0]})));
            found.extend(page["result"]["tools"].as_array().unwrap().clone());
        }
        prop_assert_eq!(Value::from(found), json!(items));
    }
}
