//! Pages of a tool: where the list is, what follows, and the whole that they make.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use bytes::Bytes;
use lro_mcp::{Following, Id, Message, PageForm, Paging, PagingStyle, ToolPage, page_request, with_arguments};
use proptest::prelude::*;
use serde_json::{Value, json};

fn answer(result: &Value) -> Message {
    Message::read(Bytes::from(json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string()))
}

fn page(document: &Value) -> ToolPage {
    ToolPage::of(&answer(&json!({"content": [], "structuredContent": document})), None).unwrap()
}

fn next(paging: &Paging, document: &Value, arguments: &str, schema: Option<&str>) -> Following {
    paging.following(&page(document), arguments, schema, 2)
}

fn ask(name: &str, value: &str) -> Following {
    Following::Page(vec![(name.to_owned(), value.to_owned())])
}

fn of_style(style: PagingStyle) -> Paging {
    Paging { style, ..Paging::default() }
}

#[test]
fn the_list_is_found_in_either_form() {
    let document = json!({"total": 9, "items": [1, {"a": [2]}], "tags": ["x"]});
    let found = page(&document);
    assert_eq!((found.pointer.as_str(), found.count, found.items()), ("/items", 2, r#"1,{"a":[2]}"#));
    let text = answer(&json!({"content": [{"type": "text", "text": document.to_string()}]}));
    let found = ToolPage::of(&text, None).unwrap();
    assert_eq!((found.form, found.items()), (PageForm::Text, r#"1,{"a":[2]}"#));
    for (document, pointer) in [
        (json!([1]), ""),
        (json!({"data": {"users": {"edges": [1], "pageInfo": {}}}}), "/data/users/edges"),
        (json!({"errors": [], "others": [1]}), "/others"),
        (json!({"a/b": [1]}), "/a~1b"),
    ] {
        let text = answer(&json!({"content": [{"type": "text", "text": document.to_string()}]}));
        assert_eq!(ToolPage::of(&text, None).unwrap().pointer, pointer);
    }
    for result in [
        json!({"content": [{"type": "text", "text": "[1]"}], "isError": true}),
        json!({"content": [{"type": "text", "text": "[1]"}, {"type": "text", "text": "[1]"}]}),
        json!({"content": [{"type": "text", "text": "no JSON"}]}),
        json!({"content": [], "structuredContent": {"a": [1], "b": [2]}}),
        json!({"content": [], "structuredContent": {"items": []}}),
    ] {
        assert!(ToolPage::of(&answer(&result), None).is_none(), "{result}");
    }
    let last = answer(&json!({"content": [], "structuredContent": {"items": null}}));
    assert_eq!(ToolPage::of(&last, Some("/items")).unwrap().count, 0);
}

#[test]
fn each_style_says_what_follows() {
    let auto = Paging::default();
    let cursor = json!({"items": [1, 2], "nextCursor": "b"});
    assert_eq!(next(&auto, &cursor, "{}", None), ask("cursor", "\"b\""));
    assert_eq!(next(&of_style(PagingStyle::Cursor), &cursor, "{}", None), ask("cursor", "\"b\""));
    let after = Some(r#"{"properties":{"after":{"type":"string"}}}"#);
    let edges = json!({"data": {"u": {"edges": [1, 2], "pageInfo": {"hasNextPage": true, "endCursor": "b"}}}});
    assert_eq!(next(&auto, &edges, "{}", after), ask("after", "\"b\""));
    let own = Paging { argument: Some("from".into()), next: Some("/more/at".into()), ..of_style(PagingStyle::Cursor) };
    assert_eq!(next(&own, &json!({"items": [1, 2], "more": {"at": 7}}), "{}", None), ask("from", "7"));
    assert_eq!(next(&own, &json!({"items": [1, 2], "more": {"at": null}}), "{}", None), Following::End);
    assert_eq!(next(&own, &json!({"items": [1, 2]}), "{}", None), Following::End);
    let plain = json!({"items": [1, 2]});
    assert_eq!(next(&of_style(PagingStyle::Page), &plain, "{}", None), ask("page", "2"));
    assert_eq!(next(&of_style(PagingStyle::Page), &plain, r#"{"page":7}"#, None), ask("page", "8"));
    assert_eq!(next(&of_style(PagingStyle::Offset), &plain, r#"{"offset":4}"#, None), ask("offset", "6"));
    let total = |total: u64| json!({"items": [1, 2], "total": total});
    assert_eq!(next(&of_style(PagingStyle::Offset), &total(2), "{}", None), Following::End);
    assert_eq!(
        next(&of_style(PagingStyle::Page), &json!({"items": [1, 2], "has_more": false}), "{}", None),
        Following::End
    );
    let pages = Some(r#"{"properties":{"page":{"type":"integer"}}}"#);
    assert_eq!(next(&auto, &total(5), "{}", pages), ask("page", "2"));
    assert_eq!(next(&auto, &total(5), "{}", None), Following::Unknown);
    assert_eq!(next(&auto, &plain, "{}", pages), Following::End);
    let link = json!({"items": [1, 2], "next": "https://a/b?limit=2&page=2&x=%20#c"});
    assert_eq!(next(&auto, &link, r#"{"limit":2}"#, pages), ask("page", "2"));
    assert_eq!(next(&of_style(PagingStyle::Link), &link, r#"{"limit":2,"page":"1"}"#, None), ask("page", "\"2\""));
    assert_eq!(next(&auto, &link, r#"{"limit":2}"#, None), Following::Unknown);
}

// The `Link` header of RFC 8288, in lines of text beside the list or before it, and in members.
#[test]
fn a_link_header_leads_to_the_next_page() {
    let pages = Some(r#"{"properties":{"page":{"type":"integer"}}}"#);
    let texts = |texts: &[&str]| {
        let blocks: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        ToolPage::of(&answer(&json!({ "content": blocks })), None)
    };
    let next = |page: &ToolPage| Paging::default().following(page, "{}", pages, 2);
    let header = r#"Link: <https://a/b?page=1>; rel="prev", </b?page=3>; title="a, b; c"; rel="last NEXT""#;
    for found in [
        texts(&["[1,2]", header]),
        texts(&["HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nlink: </b?page=3>;rel=next", "[1,2]"]),
        texts(&[&format!("Status: 200\n{header}\n\n[1,2]")]),
        Some(page(&json!({"items": [1, 2], "Link": "</b?page=3>; rel=next"}))),
        Some(page(
            &json!({"data": {"items": [1, 2]}, "headers": {"link": ["<x>; rel=first", "</b?page=3>; rel=next"]}}),
        )),
        ToolPage::of(
            &answer(&json!({"content": [{"type": "text", "text": header}], "structuredContent": {"items": [1, 2]}})),
            None,
        ),
    ] {
        let found = found.unwrap();
        assert_eq!(next(&found), ask("page", "3"), "{found:?}");
        assert_eq!(of_style(PagingStyle::Link).following(&found, "{}", pages, 2), ask("page", "3"));
    }
    let own = Paging { next: Some("/meta/next".into()), ..of_style(PagingStyle::Link) };
    let document = |link: &str| page(&json!({"items": [1, 2], "meta": {"next": link}}));
    assert_eq!(own.following(&document("</b?page=3>; rel=next"), "{}", pages, 2), ask("page", "3"));
    assert_eq!(own.following(&document("</b?page=1>; rel=prev"), "{}", pages, 2), Following::End);
    for last in
        ["Link: <https://a/b?page=1>; rel=\"prev\"", "Link: <a?page=3>; title=next", "Link: <a?page=3", "Link: next"]
    {
        let last = [last, "[1,2]"].map(|text| json!({"type": "text", "text": text}));
        let last = ToolPage::of(&answer(&json!({ "content": last })), Some("")).unwrap();
        assert_eq!(next(&last), Following::End, "{last:?}");
    }
    assert!(texts(&["Note: two of many", "[1,2]"]).is_none());
}

#[test]
fn numbered_pages_are_foretold() {
    let pages = Some(r#"{"properties":{"page":{"type":"integer"}}}"#);
    let found = page(&json!({"items": [1, 2, 3]}));
    let ahead = |paging: &Paging, name: &str, value: &str| {
        let changes = [(name.to_owned(), value.to_owned())];
        let pages = paging.ahead(&changes, &found, pages).take(3);
        pages
            .map(|changes| changes.into_iter().map(|(name, value)| format!("{name}={value}")).collect())
            .collect::<Vec<String>>()
    };
    assert_eq!(ahead(&of_style(PagingStyle::Page), "p", "2"), ["p=2", "p=3", "p=4"]);
    assert_eq!(ahead(&of_style(PagingStyle::Offset), "o", "3"), ["o=3", "o=6", "o=9"]);
    assert_eq!(ahead(&Paging::default(), "page", "2"), ["page=2", "page=3", "page=4"]);
    assert_eq!(ahead(&of_style(PagingStyle::Page), "p", &u64::MAX.to_string()), [format!("p={}", u64::MAX)]);
    for (style, name, value) in [
        (PagingStyle::Cursor, "cursor", "2"),
        (PagingStyle::Link, "page", "2"),
        (PagingStyle::Auto, "cursor", "2"),
        (PagingStyle::Page, "page", "\"2\""),
    ] {
        assert!(ahead(&of_style(style), name, value).is_empty(), "{style:?}");
    }
}

// A total says where the list ends only if it is known where the pages begin.
#[test]
fn what_comes_before_the_first_page_is_known_by_its_number() {
    let found = page(&json!({"items": [1, 2, 3]}));
    let before = |paging: &Paging, arguments: &str, next: &str| {
        let changes: Vec<_> = next.split(' ').map(|name| (name.to_owned(), "7".to_owned())).collect();
        paging.before(arguments, &changes, &found, None)
    };
    let (auto, of_page, of_offset) = (Paging::default(), of_style(PagingStyle::Page), of_style(PagingStyle::Offset));
    for (paging, next) in
        [(&auto, "cursor"), (&auto, "page"), (&of_page, "n"), (&of_offset, "n"), (&auto, "page limit")]
    {
        assert_eq!(before(paging, r#"{"q":1,"cursor":null}"#, next), Some(0), "{next}");
    }
    assert_eq!(before(&auto, r#"{"cursor":"b"}"#, "cursor"), None);
    assert_eq!(before(&auto, r#"{"page":4}"#, "page"), Some(9));
    assert_eq!(before(&auto, r#"{"page":4,"limit":3}"#, "page limit"), None);
    assert_eq!(before(&of_page, r#"{"n":"1"}"#, "n"), Some(0));
    assert_eq!(before(&of_offset, r#"{"n":60}"#, "n"), Some(60));
    assert_eq!(before(&of_page, &format!(r#"{{"n":{}}}"#, u64::MAX), "n"), None);
    assert_eq!(before(&of_page, r#"{"n":"x"}"#, "n"), None);
}

#[test]
fn a_request_for_a_page_is_the_call_with_other_arguments() {
    let call = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{"q":1.0,"page":1},"_meta":{"progressToken":3,"a":1}}}"#;
    let arguments =
        with_arguments(r#"{"q":1.0,"page":1}"#, &[("page".into(), "2".into()), ("n".into(), "\"x\"".into())]);
    assert_eq!(arguments, r#"{"q":1.0,"page":2,"n":"x"}"#);
    let request = page_request(&Message::read(Bytes::from(call)), &Id::own("own"), &arguments);
    let wanted = r#"{"jsonrpc":"2.0","id":"own","method":"tools/call","params":{"name":"t","arguments":{"q":1.0,"page":2,"n":"x"},"_meta":{"a":1}}}"#;
    assert_eq!(request, wanted);
    let bare = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t"}}"#;
    let request = page_request(&Message::read(Bytes::from(bare)), &Id::own("own"), r#"{"a":1}"#);
    let request: Value = serde_json::from_slice(&request).unwrap();
    assert_eq!(request["params"], json!({"name": "t", "arguments": {"a": 1}}));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The whole that pages make is the document of the last one, with the items of all.
    #[test]
    fn the_whole_is_the_last_page_with_all_items(
        pages in proptest::collection::vec(proptest::collection::vec(any::<Option<i32>>(), 1..5), 1..5),
        depth in 0..3_usize,
        is_pretty in any::<bool>(),
    ) {
        let document = |items: &Value| {
            let mut document = json!({"a": 1.0, "items": items, "z": "é\n"});
            for level in 0..depth {
                document = json!({"before": level, "inner": document, "x": {"items": [1]}});
            }
            document
        };
        let pointer = format!("{}/items", "/inner".repeat(depth));
        let read = |page: &Value| {
            let text = if is_pretty { serde_json::to_string_pretty(page).unwrap() } else { page.to_string() };
            ToolPage::of(&answer(&json!({"content": [{"type": "text", "text": text}]})), Some(&pointer)).unwrap()
        };
        let read: Vec<ToolPage> = pages.iter().map(|items| read(&document(&json!(items)))).collect();
        let items: Vec<&str> = read.iter().map(ToolPage::items).collect();
        let last = read.last().unwrap();
        let whole = format!("{}{}{}", last.opening(), items.join(","), last.closing("collected", "true"));
        let mut wanted = document(&json!(pages.concat()));
        wanted["collected"] = true.into();
        prop_assert_eq!(serde_json::from_str::<Value>(&whole).unwrap(), wanted);
    }
}
