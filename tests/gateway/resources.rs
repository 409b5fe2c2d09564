//! Reading back through the gateway: own tools, own resources, references in arguments; and lists in pages.

use serde_json::{Value, json};

use crate::scripted::{Script, Scripted, first_text, handle, records, result_bytes, structured, text};
use crate::wire::{member, modern_meta};

const COUNT: usize = 2_000;

fn large() -> Value {
    structured(&json!({ "items": records(COUNT) }))
}

/// A gateway with one offload, and its handle.
fn offloaded(script: Script) -> (Scripted, String) {
    let mut gateway = script.call("large", large()).start();
    let handle = handle(&gateway.descriptor("large"));
    (gateway, handle)
}

// Guidance after the server's own instructions, or alone.
#[test]
fn instructions_are_appended() {
    let initialize = |more: &str| {
        format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{{"logging":{{}},"x":1.0}},"serverInfo":{{"name":"a","version":"1"}}{more}}}"#
        )
    };
    for (more, kept) in
        [("", ""), (r#","instructions":"Be \u0041 kind.\n""#, "Be A kind.\n\n\n"), (r#","instructions":"""#, "")]
    {
        let gateway = Script::new().result("initialize", initialize(more)).start();
        let instructions = gateway.hello["instructions"].as_str().unwrap();
        let guidance = instructions.strip_prefix(kept).unwrap_or_else(|| panic!("{instructions}"));
        assert!(
            guidance.starts_with("Tool results") && guidance.contains("lro_extract") && guidance.contains("lro_read")
        );
        let capabilities = &gateway.hello["capabilities"];
        assert_eq!(capabilities, &json!({"logging": {}, "x": 1.0, "tools": {}, "resources": {}}));
    }
}

// The same for a modern client, which asks with `server/discover`.
#[test]
fn discovery_tells_the_same() {
    let answer = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"a":1}},"instructions":"Mine.","ttlMs":1e3,"cacheScope":"public"}"#;
    let mut gateway = Script::new().result("server/discover", answer).silent(&crate::scripted::Setup::default());
    let found = gateway.result("server/discover", json!({"_meta": modern_meta()}));
    assert!(found["instructions"].as_str().unwrap().starts_with("Mine.\n\nTool results"), "{found}");
    assert_eq!(found["capabilities"], json!({"tools": {"a": 1}, "resources": {}}));
    let bytes = gateway.ask("server/discover", json!({"_meta": modern_meta()}));
    assert!(bytes.contains(r#""ttlMs":1e3,"cacheScope":"public""#), "{bytes}");
}

// Pages pass through with their cursors; the own tools are on the first page alone.
#[test]
fn pages_of_tools_pass_through() {
    let page = |name: &str, next: &str| {
        format!(r#"{{"tools":[{{"name":"{name}","inputSchema":{{"type":"object"}}}}]{next}}}"#)
    };
    let script = Script::new()
        .result("tools/list", page("a", r#","nextCursor":"\u0062""#))
        .result("tools/list b", page("b", r#","nextCursor":"b""#))
        .result("tools/list ", page("c", ""))
        .line("tools/list bad", r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32602,"message":"Invalid cursor"}}"#);
    let mut gateway = script.start();
    let mut names = |cursor: Option<&str>| {
        let params = cursor.map_or(json!({}), |cursor| json!({ "cursor": cursor }));
        let result = gateway.result("tools/list", params);
        let names: Vec<String> =
            result["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        (names.join(" "), result["nextCursor"].clone())
    };
    assert_eq!(names(None), ("a lro_extract lro_read".to_owned(), "b".into()));
    // A cursor that repeats is the server's affair: the gateway asks for nothing itself and goes round no circles.
    assert_eq!(names(Some("b")), ("b".to_owned(), "b".into()));
    assert_eq!(names(Some("")), ("c".to_owned(), Value::Null));
    assert_eq!(gateway.error("tools/list", json!({"cursor": "bad"}))["code"], -32602);
    let lists = gateway.seen().iter().filter(|line| line.contains("tools/list")).count();
    assert_eq!(lists, 4, "one question upstream for one of the client");
}

// Other lists keep every byte; the template is on the first page alone.
#[test]
fn other_lists_pass_byte_for_byte() {
    let lists = [
        ("resources/list", r#"{ "resources":[{"uri":"a:b","name":"\u0041","size":1.0}],"nextCursor":"x" }"#),
        ("prompts/list", r#"{ "prompts":[{"name":"p"}],"nextCursor":"x" }"#),
        ("resources/read", r#"{ "contents":[{"uri":"a:b","text":"t"}] }"#),
        ("completion/complete", r#"{ "completion":{"values":["v"],"total":1e1} }"#),
        ("future/method", r#"{ "anything":[1.0,1e2] }"#),
    ];
    let templates = r#"{ "resourceTemplates":[{"uriTemplate":"a:{b}","name":"n"}],"nextCursor":"x"}"#;
    let script = lists.iter().fold(Script::new(), |script, (method, list)| script.result(method, list));
    let mut gateway = script.result("resources/templates/list", templates).start();
    for (method, list) in lists {
        for params in [json!({}), json!({"cursor": "x"}), json!({"uri": "a:b"})] {
            assert_eq!(result_bytes(&gateway.ask(method, params)), list, "{method}");
        }
    }
    let first = gateway.ask("resources/templates/list", json!({}));
    assert!(first.contains(r#"{"uriTemplate":"a:{b}","name":"n"},{"uriTemplate":"lro://"#), "{first}");
    assert_eq!(result_bytes(&gateway.ask("resources/templates/list", json!({"cursor": "x"}))), templates);
}

// A server that knows neither tools nor resources still gets both.
#[test]
fn a_server_without_lists_gets_the_own_ones() {
    let script = Script::new().result(
        "initialize",
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "a", "version": "1"}}),
    );
    let mut gateway = script.start();
    let names: Vec<Value> = gateway.tools().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["lro_extract", "lro_read"]);
    assert_eq!(gateway.result("resources/list", json!({})), json!({"resources": []}));
    let templates = gateway.result("resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 1);
    assert_eq!(gateway.error("prompts/list", json!({}))["code"], -32601);
}

// A section is a resource, whole and in ranges, without a shared disk; no list changes.
#[test]
fn sections_are_resources() {
    let list = r#"{"resources":[]}"#;
    let (mut gateway, handle) = offloaded(Script::new().result("resources/list", list));
    assert_eq!(result_bytes(&gateway.ask("resources/list", json!({}))), list);
    let records = records(COUNT);
    let wanted = |from: usize, to: usize| {
        let lines: Vec<Value> = records.as_array().unwrap()[from..to].to_vec();
        lines
    };
    for (query, from, to) in [
        ("", 0, COUNT),
        ("?offset=0", 0, COUNT),
        ("?limit=3", 0, 3),
        ("?offset=1990", 1990, COUNT),
        ("?offset=5&limit=2", 5, 7),
        ("?limit=2&offset=5", 5, 7),
        ("?offset=1999&limit=9", 1999, COUNT),
    ] {
        let uri = format!("lro://{handle}/items{query}");
        let result = gateway.result("resources/read", json!({ "uri": uri }));
        let content = &result["contents"][0];
        assert_eq!(content["uri"], uri);
        let lines: Vec<Value> =
            content["text"].as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines, wanted(from, to), "{query}");
        let next = &result["_meta"]["io.github.lro-filter/next-offset"];
        assert_eq!(next, &if to < COUNT { json!(to) } else { Value::Null }, "{query}");
    }
    assert!(gateway.seen().iter().all(|line| !line.contains("lro://")), "the server is asked for what is not its own");
}

// What is not there is an error with the code of the revision, never an empty answer.
#[test]
fn resources_that_are_not_there() {
    let (mut gateway, handle) = offloaded(Script::new());
    let uris = [
        format!("lro://{handle}/other"),
        format!("lro://{handle}"),
        format!("lro://{handle}/items?offset=-1"),
        format!("lro://{handle}/items?limit=x"),
        format!("lro://{handle}/items?limit=0"),
        format!("lro://{handle}/items?page=1"),
        "lro://01ARZ3NDEKTSV4RRFFQ69G5FAV/items".to_owned(),
        "lro://../items".to_owned(),
        format!("lro://{handle}/..%2F..%2Fowner"),
        format!("lro://{handle}/%zz"),
        "lro://".to_owned(),
    ];
    for uri in uris {
        assert_eq!(gateway.error("resources/read", json!({ "uri": uri }))["code"], -32002, "{uri}");
        let modern = gateway.error("resources/read", json!({"uri": uri, "_meta": modern_meta()}));
        assert_eq!(modern["code"], -32602, "{uri}");
    }
    let modern = gateway
        .result("resources/read", json!({"uri": format!("lro://{handle}/items?limit=1"), "_meta": modern_meta()}));
    assert_eq!((&modern["resultType"], &modern["cacheScope"]), (&"complete".into(), &"private".into()));
    assert!(modern["ttlMs"].is_u64(), "{modern}");
}

// A resource ends at 1 MiB, and says where to go on.
#[test]
fn resources_end_at_a_mebibyte() {
    let count = 40_000;
    let mut gateway = Script::new().call("large", structured(&json!({ "items": records(count) }))).start();
    let handle = handle(&gateway.descriptor("large"));
    let (mut found, mut next, mut reads) = (Vec::new(), json!(0), 0);
    while !next.is_null() {
        let uri = format!("lro://{handle}/items?offset={next}");
        let result = gateway.result("resources/read", json!({ "uri": uri }));
        let text = result["contents"][0]["text"].as_str().unwrap();
        assert!(text.len() <= 1 << 20, "{}", text.len());
        found.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        next = result["_meta"]["io.github.lro-filter/next-offset"].clone();
        assert!(next.is_null() || text.len() > 1_000_000, "{}", text.len());
        reads += 1;
    }
    assert_eq!((Value::Array(found), reads), (records(count), 3));
}

// What is missing of a value that is longer.
#[test]
fn long_values_tell_what_is_left() {
    let size = 3 << 20;
    let mut gateway = Script::new().call("text", text(&"x".repeat(size))).start();
    let found = gateway.descriptor("text");
    let section = found["files"].as_object().unwrap().keys().next().unwrap();
    let uri = format!("lro://{}/{section}", handle(&found));
    let result = gateway.result("resources/read", json!({ "uri": uri }));
    let shown = result["contents"][0]["text"].as_str().unwrap().len();
    assert_eq!(result["_meta"], json!({"io.github.lro-filter/bytes-left": size - shown}));
}

// Texts and binary sections, too.
#[test]
fn texts_and_bytes_are_resources() {
    let line = "A line of a text, \u{e9}\u{4e2d}.\n";
    let image = json!({"content": [{"type": "image", "data": "QUJD".repeat(30_000), "mimeType": "image/png"}]});
    let script = Script::new().call("text", text(&line.repeat(5_000))).call("image", image);
    let mut gateway = script.with_toml("images = \"offload\"\n");
    let mut read = |tool: &str| {
        let found = gateway.descriptor(tool);
        let section = found["files"].as_object().unwrap().keys().next().unwrap().clone();
        let uri = format!("lro://{}/{section}", handle(&found));
        gateway.result("resources/read", json!({ "uri": uri }))["contents"][0].take()
    };
    let content = read("text");
    assert_eq!(content["text"].as_str().unwrap().trim_end(), line.repeat(5_000).trim_end());
    let content = read("image");
    assert_eq!(
        (content["blob"].as_str().unwrap(), &content["mimeType"]),
        ("QUJD".repeat(30_000).as_str(), &"image/png".into())
    );
}

// Own tools have a default page, a hard cap, and a selection of fields.
#[test]
fn own_tools_keep_to_what_is_advised_to_authors() {
    let (mut gateway, handle) = offloaded(Script::new());
    let mut page = |arguments: Value| {
        let mut arguments = arguments;
        arguments["handle"] = handle.as_str().into();
        gateway.call("lro_read", arguments)["structuredContent"].take()
    };
    let count = |page: &Value| page["records"].as_array().unwrap().len();
    let first = page(json!({}));
    assert_eq!(first["total"], COUNT);
    let bytes = |page: &Value| page["records"].to_string().len();
    assert!(count(&first) > 50 && (15_000..25_000).contains(&bytes(&first)), "as many as fit: {}", bytes(&first));
    assert_eq!(count(&page(json!({"limit": 50_000, "bytes": 1 << 20}))), COUNT);
    assert_eq!(page(json!({"from": -3}))["records"][0]["id"], COUNT - 3);
    let few = page(json!({"limit": 1_000, "bytes": 1_000}));
    assert!(few["records"].to_string().len() < 1_500 && few["next"].is_string(), "{few}");
    let selected = gateway.call("lro_extract", json!({"handle": handle, "select": ["id"], "limit": 3}));
    assert_eq!(selected["structuredContent"]["results"], json!([{"id": 0}, {"id": 1}, {"id": 2}]));
    let all = gateway.call("lro_extract", json!({"handle": handle, "limit": 100_000}));
    assert!(all["structuredContent"]["results"].to_string().len() <= 20_000, "an answer has a budget");
    assert!(first_text(&all).contains("more did not fit"), "{:.300}", first_text(&all));
}

// A text that no query can ask about is searched in one call, and each hit says where it stands.
#[test]
fn a_text_is_searched() {
    let log = |number: usize| {
        format!("2026-11-22T10:{:02}:00Z {} job {number}\n", number % 60, ["INFO", "ERROR"][number / 2_999])
    };
    let mut gateway = Script::new().call("log", text(&(0..3_000).map(log).collect::<String>())).start();
    let handle = handle(&gateway.descriptor("log"));
    let found =
        gateway.call("lro_extract", json!({"handle": handle, "search": "error", "ignore_case": true, "before": 1}));
    let hit = &found["structuredContent"]["results"][0];
    assert_eq!((&hit["line"], &found["structuredContent"]["total"]), (&json!(3_000), &json!(1)));
    assert!(hit["before"][0].as_str().unwrap().ends_with("INFO job 2998"), "{hit}");
    let place = hit["where"].to_string();
    assert!(place.contains("2026-11-22T10:59:00Z") && place.contains("ERROR"), "{place}");
}

// All pages by their cursors; a wrong cursor is an error that says what to do, never a restart.
#[test]
fn pages_by_cursor_end_and_refuse_wrong_ones() {
    let (mut gateway, handle) = offloaded(Script::new());
    let (mut found, mut cursor, mut pages) = (Vec::new(), Value::Null, 0);
    loop {
        let mut arguments = json!({"handle": handle, "limit": 300, "bytes": 100_000});
        if !cursor.is_null() {
            arguments["cursor"] = cursor;
        }
        let mut page = gateway.call("lro_read", arguments)["structuredContent"].take();
        found.extend(page["records"].as_array().unwrap().iter().cloned());
        pages += 1;
        cursor = page["next"].take();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!((Value::Array(found), pages), (records(COUNT), 7));
    let cursor =
        gateway.call("lro_read", json!({"handle": handle}))["structuredContent"]["next"].as_str().unwrap().to_owned();
    let flipped = if cursor.ends_with('A') { "B" } else { "A" };
    let other = crate::scripted::handle(&gateway.descriptor("large"));
    for arguments in [
        json!({"handle": handle, "cursor": "no cursor"}),
        json!({"handle": handle, "cursor": ""}),
        json!({"handle": handle, "cursor": format!("{}{flipped}", &cursor[..cursor.len() - 1])}),
        json!({"handle": other, "cursor": cursor}),
        json!({"handle": handle, "cursor": cursor, "limit": 7}),
    ] {
        let refused = gateway.call("lro_read", arguments);
        assert_eq!(refused["isError"], true, "{refused}");
        assert!(first_text(&refused).contains("cursor") && first_text(&refused).contains("begin again"), "{refused}");
    }
}

// A page has at least one record; a page of none is a mistake that is named.
#[test]
fn a_page_of_no_records_is_refused() {
    let (mut gateway, handle) = offloaded(Script::new());
    let answer = gateway.call("lro_read", json!({"handle": handle, "limit": 0}));
    assert!(answer["isError"] == true && first_text(&answer).contains("`limit` must be at least 1"), "{answer}");
    let page = gateway.call("lro_read", json!({"handle": handle, "limit": 1}));
    assert_eq!(page["structuredContent"]["records"].as_array().unwrap().len(), 1, "{page}");
}

// A handle that is not there is an error of the tool that says what to do.
#[test]
fn wrong_handles_are_errors_of_the_tool() {
    let mut gateway = offloaded(Script::new()).0;
    for (tool, handle) in
        [("lro_read", "01ARZ3NDEKTSV4RRFFQ69G5FAV"), ("lro_extract", "../../etc"), ("lro_extract", "")]
    {
        let result = gateway.call(tool, json!({ "handle": handle }));
        assert_eq!(result["isError"], true, "{result}");
        let result = gateway
            .result("tools/call", json!({"name": tool, "arguments": {"handle": handle}, "_meta": modern_meta()}));
        assert_eq!((&result["isError"], &result["resultType"]), (&true.into(), &"complete".into()));
    }
}

// However long what was given is, its error is short and says what to do.
#[test]
fn an_error_does_not_repeat_a_long_argument() {
    let (mut gateway, handle) = offloaded(Script::new());
    let long = "x y ".repeat(50_000);
    for (tool, arguments) in [
        ("lro_read", json!({"handle": long})),
        ("lro_extract", json!({"handle": long})),
        ("lro_extract", json!({"handle": handle, "section": long})),
        ("lro_extract", json!({"handle": handle, "select": [long]})),
        ("lro_extract", json!({"handle": handle, "recipe": long})),
    ] {
        let result = gateway.call(tool, arguments);
        let text = first_text(&result);
        assert!(result["isError"] == true && text.chars().count() < 5_000, "{tool}: {} characters", text.len());
    }
}

/// The arguments that reach the server when the client sends these.
fn arguments_upstream(gateway: &mut Scripted, tool: &str, arguments: &str) -> Value {
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":"x{tool}","method":"tools/call","params":{{"arguments":{arguments},"name":"{tool}","z":1.0}}}}"#
    );
    let answer: Value = serde_json::from_str(&gateway.ask_line(&call)).unwrap();
    if answer["result"]["isError"] == true {
        return answer["result"].clone();
    }
    let got = first_text(&answer["result"]);
    assert!(got.ends_with(&format!(r#","name":"{tool}","z":1.0}}}}"#)), "the rest is changed: {got:.300}");
    serde_json::from_str(member(got, &["params", "arguments"]).unwrap()).unwrap()
}

fn with_echoes() -> Script {
    let echo = json!([r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":@LINE@}]}}"#]);
    let png = json!({"type": "image", "data": "QUJD".repeat(30_000), "mimeType": "image/png"});
    Script::new()
        .call("large", structured(&json!({"items": records(COUNT), "other": {"a\u{e9}": "x".repeat(9_000)}})))
        .call("text", text(&"A \"line\"\n".repeat(9_000)))
        .call("image", json!({"content": [png]}))
        .steps("tools/call takes", echo.clone())
        .steps("tools/call plain", echo)
}

// A reference in an argument arrives as the data, past the model; only where it is switched on.
#[test]
fn references_arrive_as_data() {
    let mut gateway = with_echoes().with_toml(
        "images = \"offload\"\n[tools.takes]\nhandles = true\nmode = \"never\"\n[tools.plain]\nmode = \"never\"\n",
    );
    let large = handle(&gateway.descriptor("large"));
    let found = gateway.descriptor("text");
    let (text_handle, text_section) =
        (handle(&found), found["files"].as_object().unwrap().keys().next().unwrap().clone());
    let found = gateway.descriptor("image");
    let (image, image_section) = (handle(&found), found["files"].as_object().unwrap().keys().next().unwrap().clone());
    let sent = format!(
        r#"{{"rows":"lro://{large}/items","deep":[{{"rows":"lro:\/\/{large}\/items"}}],"text":"lro://{text_handle}/{text_section}","image":"lro://{image}/{image_section}","see":"as in lro://{large}/items","n":1.0}}"#
    );
    let got = arguments_upstream(&mut gateway, "takes", &sent);
    assert_eq!(got["rows"], records(COUNT));
    assert_eq!(got["deep"][0]["rows"], records(COUNT));
    assert_eq!(got["text"], "A \"line\"\n".repeat(9_000));
    assert_eq!(got["image"], "QUJD".repeat(30_000));
    assert_eq!(got["see"], format!("as in lro://{large}/items"), "a text that mentions a reference stays");
    // Off by default.
    let got = arguments_upstream(&mut gateway, "plain", &sent);
    assert_eq!(got, serde_json::from_str::<Value>(&sent).unwrap());
}

// A reference to nothing is an error of the tool, and the server is not called.
#[test]
fn references_to_nothing_are_errors_of_the_tool() {
    let mut gateway = with_echoes().with_toml("images = \"offload\"\n[tools.takes]\nhandles = true\n");
    let large = handle(&gateway.descriptor("large"));
    let references = [
        "lro://01ARZ3NDEKTSV4RRFFQ69G5FAV/items".to_owned(),
        format!("lro://{large}/none"),
        format!("lro://{large}"),
        format!("lro://{large}/../x"),
        "lro://x/y".to_owned(),
        "lro://".to_owned(),
        format!("lro://{large}/items?limit=1"),
    ];
    for reference in references {
        let got = arguments_upstream(&mut gateway, "takes", &json!({ "a": reference }).to_string());
        assert_eq!(got["isError"], true, "{reference}: {got}");
        assert!(first_text(&got).contains(&reference), "{got}");
    }
    assert!(gateway.seen().iter().all(|line| !line.contains("takes")), "the server was called all the same");
}
