//! `list-page-size`: pages of the lists of a server that has none.

use serde_json::{Value, json};

use crate::scripted::{Script, Scripted, Setup, result_bytes};

/// The lists, and their members of the result.
const LISTS: [(&str, &str); 4] = [
    ("tools/list", "tools"),
    ("resources/list", "resources"),
    ("resources/templates/list", "resourceTemplates"),
    ("prompts/list", "prompts"),
];

/// The names of the tools that the gateway adds.
const OWN: [&str; 2] = ["lro_extract", "lro_read"];

/// A server with lists of so many items.
fn script(count: usize) -> Script {
    LISTS.iter().fold(Script::new(), |script, (method, member)| script.result(method, list(member, count)))
}

fn list(member: &str, count: usize) -> String {
    let item = |id: usize| {
        format!(
            r#"{{"name":"\u0061{id}","uri":"a:{id}","uriTemplate":"a:{{{id}}}","inputSchema":{{"type":"object"}},"n":1.0}}"#
        )
    };
    let items: Vec<String> = (0..count).map(item).collect();
    format!(r#"{{ "{member}":[{}] , "more": 1e2}}"#, items.join(" , "))
}

fn with(cursor: Option<&Value>) -> Value {
    cursor.map_or(json!({}), |cursor| json!({ "cursor": cursor }))
}

/// All items of a list, by pages of at most `size`.
fn walked(gateway: &mut Scripted, method: &str, member: &str, size: usize) -> (Vec<Value>, Vec<Value>) {
    let (mut items, mut cursors, mut next): (Vec<Value>, Vec<Value>, Option<Value>) = (Vec::new(), Vec::new(), None);
    loop {
        let page = gateway.result(method, with(next.as_ref()));
        let shown = page[member].as_array().unwrap();
        assert!(shown.len() <= size && page["more"] == json!(1e2), "{page}");
        items.extend(shown.clone());
        let Some(cursor) = page.get("nextCursor").cloned() else { return (items, cursors) };
        assert!(!shown.is_empty() && !cursors.contains(&cursor), "{page}");
        cursors.push(cursor.clone());
        next = Some(cursor);
    }
}

#[test]
fn pages_are_the_whole_list_each_item_once() {
    let mut whole = script(10).start();
    let mut gateway = script(10).with_flags(&["--list-page-size", "4"]);
    for (method, member) in LISTS {
        let wanted = whole.result(method, json!({}));
        assert!(wanted.get("nextCursor").is_none(), "{wanted}");
        let (items, cursors) = walked(&mut gateway, method, member, 4);
        assert_eq!(Value::from(items.clone()), wanted[member], "{method}");
        assert_eq!(cursors.len(), (items.len() - 1) / 4, "{method}");
        // The same cursors again.
        assert_eq!(walked(&mut gateway, method, member, 4), (items, cursors), "{method}");
    }
    let names: Vec<Value> =
        walked(&mut gateway, "tools/list", "tools", 4).0.iter().map(|tool| tool["name"].clone()).collect();
    for own in OWN {
        assert_eq!(names.iter().filter(|name| **name == own).count(), 1, "{names:?}");
    }
    assert!(!gateway.seen().iter().any(|line| line.contains("cursor")), "the server has no pages");
}

#[test]
fn a_list_that_fits_passes_byte_for_byte() {
    let mut gateway = script(4).with_flags(&["--list-page-size", "4"]);
    for (method, member) in [LISTS[1], LISTS[3]] {
        assert_eq!(result_bytes(&gateway.ask(method, json!({}))), list(member, 4), "{method}");
    }
}

#[test]
fn a_wrong_cursor_is_an_error() {
    let mut gateway = script(10).with_flags(&["--list-page-size", "4"]);
    let first: Vec<Value> =
        LISTS.iter().map(|(method, _)| gateway.result(method, json!({}))["nextCursor"].clone()).collect();
    let mut changed = first[0].as_str().unwrap().to_owned();
    changed.replace_range(0..1, if changed.starts_with('A') { "B" } else { "A" });
    for (index, (method, _)) in LISTS.iter().enumerate() {
        let others = first.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, cursor)| cursor.clone());
        for cursor in others.chain([json!(changed), json!(""), json!("x"), json!(7), json!({"a": 1})]) {
            let error = gateway.error(method, with(Some(&cursor)));
            assert_eq!(error["code"], -32602, "{method} {cursor}: {error}");
            assert!(error["message"].as_str().unwrap().contains("cursor"), "{error}");
        }
    }
}

// A page neither repeats nor skips an item: a list that has changed is to be read again.
#[test]
fn a_cursor_of_a_list_that_has_changed_is_an_error() {
    let script =
        Script::new().result("prompts/list#1", list("prompts", 10)).result("prompts/list", list("prompts", 11));
    let mut gateway = script.with_flags(&["--list-page-size", "4"]);
    let cursor = gateway.result("prompts/list", json!({}))["nextCursor"].clone();
    let error = gateway.error("prompts/list", with(Some(&cursor)));
    assert!(error["code"] == -32602 && error["message"].as_str().unwrap().contains("changed"), "{error}");
    assert_eq!(walked(&mut gateway, "prompts/list", "prompts", 4).0.len(), 11);
}

#[test]
fn a_server_that_pages_keeps_its_pages() {
    let page =
        |from: usize, next: &str| format!(r#"{{"prompts":[{{"name":"{from}"}},{{"name":"b"}},{{"name":"c"}}]{next}}}"#);
    let script = Script::new()
        .result("prompts/list", page(0, r#","nextCursor":"x""#))
        .result("prompts/list x", page(1, ""))
        .line("prompts/list bad", r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32602,"message":"of the server"}}"#);
    let mut gateway = script.with_flags(&["--list-page-size", "2"]);
    assert_eq!(result_bytes(&gateway.ask("prompts/list", json!({}))), page(0, r#","nextCursor":"x""#));
    assert_eq!(result_bytes(&gateway.ask("prompts/list", with(Some(&json!("x"))))), page(1, ""));
    assert_eq!(gateway.error("prompts/list", with(Some(&json!("bad"))))["message"], "of the server");
}

// Off and in an audit, lists pass whole.
#[test]
fn lists_are_paged_only_where_messages_may_change() {
    for flags in [&[][..], &["--list-page-size", "4", "--audit", "true"][..]] {
        let mut gateway = script(10).with_flags(flags);
        assert_eq!(result_bytes(&gateway.ask("prompts/list", json!({}))), list("prompts", 10), "{flags:?}");
    }
    let toml = "enabled = false\n[gateway]\nlist-page-size = 4\n";
    let mut gateway = script(10).start_with(&Setup { toml, ..Setup::default() });
    assert_eq!(result_bytes(&gateway.ask("prompts/list", json!({}))), list("prompts", 10));
}
