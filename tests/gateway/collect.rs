//! `collect`: the pages of a tool as one result, before a real server.

use std::path::Path;

use serde_json::{Value, json};

use crate::http::{Session, ask_modern};
use crate::scripted::{Script, descriptor, first_text, handle, structured};
use crate::servers::{Gateway, lists, lists_over_http};
use crate::support::{environment, path_text};
use crate::wire::{Wire, call, request, shake_hands};

/// Items of a page of the server.
const SIZE: usize = 50;

/// A gateway with these settings that collects the pages of these tools, each with its own.
fn collecting(settings: &str, tools: &[(&str, &str)]) -> Gateway {
    let mut gateway = Gateway::new(&[]);
    let tables = tools.iter().map(|(tool, settings)| format!("[tools.\"{tool}\".collect]\n{settings}\n"));
    let config = gateway.directory.path().join("lro.toml");
    std::fs::write(&config, format!("{settings}\n{}", tables.collect::<String>())).unwrap();
    gateway.more = environment(&[("MCP_LRO_CONFIG", &path_text(&config))]);
    gateway
}

/// A client of the gateway before the server on standard streams, which has listed the tools.
fn client(gateway: &Gateway) -> Wire {
    let mut wire = gateway.wire(&lists());
    shake_hands(&mut wire);
    wire.result(&request("list", "tools/list", json!({})));
    wire
}

fn ask(wire: &mut Wire, tool: &str, count: usize) -> Value {
    wire.result(&call(tool, &json!({"name": tool, "arguments": {"count": count}}), false))
}

/// The ids of the records of an offloaded result, in their order.
fn ids(gateway: &Gateway, found: &Value) -> Vec<u64> {
    let is_list = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.ends_with(".jsonl") && !name.starts_with("rest")
    };
    let files = gateway.files(&handle(found));
    let [file] = files.iter().filter(|path| is_list(path)).collect::<Vec<_>>()[..] else { panic!("{files:?}") };
    let text = std::fs::read_to_string(file).unwrap();
    let record = |line: &str| {
        let record: Value = serde_json::from_str(line).unwrap();
        let record = record.get("node").unwrap_or(&record).clone();
        assert_eq!(record["text"], "é \"quoted\" \\ \n", "{record}");
        record["id"].as_u64().unwrap()
    };
    text.lines().skip(1).map(record).collect()
}

fn all(count: usize) -> Vec<u64> {
    (0..count as u64).collect()
}

/// What the descriptor says of the pages.
fn collected(found: &Value) -> &Value {
    found.get("collected").unwrap_or_else(|| panic!("nothing collected: {found}"))
}

// Each style, found by itself or named, gives the whole list, each record once.
#[test]
fn the_pages_of_each_style_are_one_result() {
    let tools = [
        ("by_cursor", ""),
        ("by_page", ""),
        ("by_page_only", "style = \"page\""),
        ("by_offset", "style = \"offset\"\nargument = \"offset\"\nitems = \"/records\""),
        ("by_link", ""),
        ("by_header", ""),
        ("edges", "style = \"cursor\"\nnext = \"/data/rows/pageInfo/endCursor\"\ntotal = \"/data/rows/totalCount\""),
        ("in_text", ""),
        ("limited", ""),
    ];
    let gateway = collecting("", &tools);
    let mut wire = client(&gateway);
    for (tool, _) in tools {
        let result = ask(&mut wire, tool, 1_010);
        let found = descriptor(&result).unwrap_or_else(|| panic!("{tool}: {result:.1000}"));
        assert_eq!(ids(&gateway, &found), all(1_010), "{tool}");
        assert_eq!(*collected(&found), json!({"pages": 21, "records": 1_010, "complete": true}), "{tool}");
        assert!(found.get("paging").is_none(), "{tool}: {found}");
    }
}

// Over HTTP on either side, and for both generations of clients.
#[test]
fn pages_are_collected_over_http() {
    let tools = [("by_cursor", ""), ("edges", ""), ("fails", "")];
    let check = |gateway: &Gateway, result: &Value, count: usize| {
        let found = descriptor(result).unwrap_or_else(|| panic!("{result:.1000}"));
        assert_eq!(ids(gateway, &found), all(count), "{found}");
    };
    let upstream = lists_over_http();
    let gateway = collecting("mode = \"always\"", &tools);
    let listening = gateway.listen(&lists());
    let session = Session::begin(&listening.url);
    check(&gateway, &session.call(1, "by_cursor", json!({"count": 510}))["result"], 510);
    check(&gateway, &session.call(2, "fails", json!({"count": 510}))["result"], 300);
    check(&gateway, &ask_modern(&listening.url, 3, "by_cursor", json!({"count": 510}))["result"], 510);
    let listening = gateway.listen_before_url(&upstream.url);
    check(&gateway, &ask_modern(&listening.url, 4, "by_cursor", json!({"count": 510}))["result"], 510);
    check(&gateway, &ask_modern(&listening.url, 5, "fails", json!({"count": 510}))["result"], 300);
}

// What came is kept, with the reason and the way to go on.
#[test]
fn an_early_end_keeps_what_came() {
    let cases = [
        ("repeats", "", 200, "names a page again"),
        ("ignores", "", 50, "same items again"),
        ("shrinks", "", 150, "fewer items than the 1010"),
        ("fails", "", 300, "on holiday"),
        ("by_cursor", "pages-max = 4", 200, "collect.pages-max"),
        ("by_offset", "bytes-max = 16_000", 200, "collect.bytes-max"),
        ("slow", "milliseconds-max = 1_500", 50, "collect.milliseconds-max"),
    ];
    let tools: Vec<(&str, &str)> = cases.iter().map(|(tool, settings, ..)| (*tool, *settings)).collect();
    let gateway = collecting("mode = \"always\"", &tools);
    let mut wire = client(&gateway);
    for (tool, _, least, reason) in cases {
        let result = ask(&mut wire, tool, 1_010);
        let found = descriptor(&result).unwrap_or_else(|| panic!("{tool}: {result:.1000}"));
        let said = collected(&found);
        let records = ids(&gateway, &found);
        assert_eq!(records, all(records.len()), "{tool}");
        assert_eq!(
            (&said["complete"], said["records"].as_u64()),
            (&json!(false), Some(records.len() as u64)),
            "{tool}"
        );
        assert!(said["reason"].as_str().unwrap().contains(reason), "{tool}: {said}");
        if tool == "by_offset" {
            assert!((1..least / SIZE + 1).contains(&(records.len() / SIZE)), "{tool}: {said}");
        } else {
            assert_eq!(records.len(), least, "{tool}");
        }
        if tool == "fails" || tool == "by_cursor" {
            assert_eq!(said["next"], json!({"cursor": least.to_string()}), "{said}");
        }
    }
}

// A call goes on where it begins, and a result that is not a page of more is as the server sent it.
#[test]
fn what_is_no_page_of_more_passes() {
    let gateway = collecting("", &[("by_cursor", ""), ("fails", "")]);
    let mut wire = client(&gateway);
    let mut plain = lists_alone();
    let direct = plain.result(&call(1, &json!({"name": "by_cursor", "arguments": {"count": 20}}), false));
    assert_eq!(ask(&mut wire, "by_cursor", 20), direct);
    let rest = json!({"name": "by_cursor", "arguments": {"count": 1_010, "cursor": "950"}});
    let result = wire.result(&call(2, &rest, false));
    let items = result["structuredContent"]["items"].as_array().unwrap();
    assert_eq!(
        (items.len(), &items[0]["id"], &result["structuredContent"]["collected"]["pages"]),
        (60, &json!(950), &json!(2))
    );
    assert_eq!(serde_json::from_str::<Value>(first_text(&result)).unwrap(), result["structuredContent"], "the copy");
    let failing = json!({"name": "fails", "arguments": {"count": 1_010, "cursor": "300"}});
    let result = wire.result(&call(3, &failing, false));
    assert!(result["isError"] == true && first_text(&result).contains("on holiday"), "{result}");
}

fn lists_alone() -> Wire {
    let mut wire = lists().wire();
    shake_hands(&mut wire);
    wire
}

// Off, a page stays a page.
#[test]
fn pages_are_collected_only_where_that_is_set() {
    let gateway = collecting("mode = \"always\"", &[("other", "")]);
    let mut wire = client(&gateway);
    let result = ask(&mut wire, "by_cursor", 1_010);
    let found = descriptor(&result).unwrap();
    assert_eq!(found["paging"], json!({"records": 50, "of": 1_010, "next": {"cursor": "50"}}), "{found}");
}

// A cancelled call ends, and the client and the server go on.
#[test]
fn a_client_cancels() {
    let gateway = collecting("", &[("slow", "")]);
    let mut wire = client(&gateway);
    wire.send(&call("slow", &json!({"name": "slow", "arguments": {"count": 1_010}}), false).to_string());
    wire.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}"#);
    let result = wire.result(&call(1, &json!({"name": "by_cursor", "arguments": {"count": 20}}), false));
    assert_eq!(result["structuredContent"]["items"].as_array().unwrap().len(), 20);
}

// Several pages at a time are the same list in the same order, never more than allowed, and end where one after the other
// would.
#[test]
fn pages_are_asked_for_at_the_same_time() {
    let style = "style = \"page\"\nconcurrency = 4\n";
    let tools = [
        ("numbered", style),
        ("uneven", "style = \"offset\"\nconcurrency = 4"),
        ("shrinks", "concurrency = 4"),
        ("by_cursor", "concurrency = 4"),
    ];
    let gateway = collecting("mode = \"always\"", &tools);
    let mut wire = client(&gateway);
    let mut ask = |tool: &str, arguments: Value| {
        let result = wire.result(&call(tool, &json!({"name": tool, "arguments": arguments}), false));
        let found = descriptor(&result).unwrap_or_else(|| panic!("{tool}: {result:.1000}"));
        let seen = wire.result(&call("seen", &json!({"name": "seen_calls", "arguments": {}}), false));
        (ids(&gateway, &found), collected(&found).clone(), seen["structuredContent"].clone())
    };
    let (records, said, seen) = ask("numbered", json!({"count": 510}));
    assert_eq!((records, &said["complete"], &said["pages"]), (all(510), &json!(true), &json!(11)), "{said}");
    let calls = seen["calls"].as_u64().unwrap();
    assert!((12..=16).contains(&calls) && (2..=4).contains(&seen["most"].as_u64().unwrap()), "{seen}");
    // With a total, nothing beyond the end is asked for.
    let (records, said, seen) = ask("numbered", json!({"count": 510, "total": true}));
    assert_eq!((records, &said["complete"], &seen["calls"]), (all(510), &json!(true), &json!(11)), "{said} {seen}");
    // What came before an error is whole, and what came after it is dropped.
    let (records, said, _) = ask("numbered", json!({"count": 510, "failing": 7}));
    assert_eq!((records, &said["next"]), (all(300), &json!({"page": 7})), "{said}");
    let (records, said, _) = ask("uneven", json!({"count": 510}));
    assert_eq!((records, &said["complete"]), (all(510), &json!(true)), "{said}");
    let (records, said, _) = ask("shrinks", json!({"count": 510}));
    assert_eq!((records, &said["complete"]), (all(150), &json!(false)), "{said}");
    let (records, said, _) = ask("by_cursor", json!({"count": 510}));
    assert_eq!((records, &said["complete"]), (all(510), &json!(true)), "{said}");
}

// No more pages are asked for than the bound allows.
#[test]
fn pages_ahead_keep_to_the_bounds() {
    let gateway = collecting("mode = \"always\"", &[("numbered", "style = \"page\"\nconcurrency = 4\npages-max = 6")]);
    let mut wire = client(&gateway);
    let found = descriptor(&ask(&mut wire, "numbered", 1_010)).unwrap();
    assert_eq!((ids(&gateway, &found), &collected(&found)["next"]), (all(300), &json!({"page": 7})), "{found}");
    let seen = wire.result(&call("seen", &json!({"name": "seen_calls", "arguments": {}}), false));
    assert_eq!(seen["structuredContent"]["calls"], 6, "{seen}");
}

/// The job of a call whose answer is its descriptor.
fn job(result: &Value) -> Value {
    let status: Value = serde_json::from_str(first_text(result)).unwrap_or_else(|_| panic!("no job: {result:.500}"));
    assert!(status["job"].is_string(), "{status}");
    json!({"handle": status["job"], "wait_ms": 5_000})
}

// A collection that takes long is a job like any other call, on each way to the server, also when its client is gone.
#[test]
fn a_collection_becomes_a_job() {
    let upstream = lists_over_http();
    let gateway = collecting("[tools.steady]\njob = \"auto\"\nwait-ms = 1\n", &[("steady", "")]);
    let count = json!({"count": 510});
    let check = |gateway: &Gateway, ask: &mut dyn FnMut(&str, Value) -> Value| {
        let job = job(&ask("steady", count.clone()));
        let mut ended = ask("lro_job", job.clone());
        while ended["_meta"]["io.github.lro-filter/job"]["state"].is_null() {
            assert!(first_text(&ended).contains("running"), "{ended:.500}");
            ended = ask("lro_job", job.clone());
        }
        let items = ended["structuredContent"]["items"]
            .as_array()
            .map_or_else(|| ids(gateway, &descriptor(&ended).unwrap()).len(), Vec::len);
        assert_eq!(items, 510, "{ended:.500}");
    };
    let mut wire = client(&gateway);
    check(&gateway, &mut |tool, arguments| {
        wire.result(&call(tool, &json!({"name": tool, "arguments": arguments}), false))
    });
    drop(wire);
    let mut id = 0;
    let mut next = || {
        id += 1;
        id
    };
    let listening = gateway.listen(&lists());
    let session = Session::begin(&listening.url);
    check(&gateway, &mut |tool, arguments| session.call(next(), tool, arguments)["result"].clone());
    check(&gateway, &mut |tool, arguments| ask_modern(&listening.url, next(), tool, arguments)["result"].clone());
    let listening = gateway.listen_before_url(&upstream.url);
    check(&gateway, &mut |tool, arguments| ask_modern(&listening.url, next(), tool, arguments)["result"].clone());
}

// Whoever waits for a page, the first or another, takes no thread.
#[test]
fn a_collection_that_waits_takes_no_thread() {
    const CALLS: usize = 100;
    let page = structured(&json!({"items": [1, 2], "nextCursor": "more"}));
    let first = json!([format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{page}}}"#)]);
    for (steps, asked) in [(json!([]), CALLS), (json!([first[0]]), CALLS)] {
        let mut gateway =
            Script::new().steps("tools/call slow", steps).with_toml("[tools.slow.collect]\npause-ms = 600_000\n");
        let slow = |id: usize| call(format!("slow {id}"), &json!({"name": "slow", "arguments": {}}), false);
        (0..CALLS).for_each(|id| gateway.send(&slow(id).to_string()));
        while gateway.result("scripted/seen", json!({}))["lines"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|line| line.to_string().contains("slow"))
            .count()
            < asked
        {}
        let threads = std::fs::read_dir(format!("/proc/{}/task", gateway.pid())).unwrap().count();
        assert!(threads < CALLS / 2, "{threads} threads for {CALLS} calls");
    }
}

// A job says how far it is, and a canceled one asks for no more pages.
#[test]
fn the_job_of_a_collection_says_how_far_it_is() {
    let gateway = collecting("[tools.slow]\njob = \"always\"\n", &[("slow", "")]);
    let mut wire = client(&gateway);
    let mut ask =
        |tool: &str, arguments: Value| wire.result(&call(tool, &json!({"name": tool, "arguments": arguments}), false));
    let job = job(&ask("slow", json!({"count": 1_010})));
    let said = loop {
        let said = ask("lro_job", json!({"handle": job["handle"], "wait_ms": 50}))["structuredContent"].clone();
        if !said["progress"].is_null() && !said["partial"].is_null() {
            break said;
        }
    };
    let progress = &said["progress"];
    assert_eq!((&progress["message"], &progress["progress"]), (&json!("page 1, 50 records"), &json!(50.0)), "{said}");
    assert_eq!((&progress["total"], &said["partial"]["records"]), (&json!(1_010.0), &json!(50)), "{said}");
    // What is there so far can be read.
    let page = ask("lro_read", json!({"handle": job["handle"], "from": 49}))["structuredContent"].clone();
    assert_eq!((&page["records"][0]["id"], &page["total"]), (&json!(49), &json!(50)), "{page}");
    assert_eq!((&page["complete"], &page["state"]), (&json!(false), &json!("running")), "{page}");
    let ended = ask("lro_job", json!({"handle": job["handle"], "wait_ms": 5_000, "cancel": true}));
    assert_eq!(ended["structuredContent"]["state"], "cancelled", "{ended}");
    assert_eq!(ended["structuredContent"]["partial"]["records"], 50, "{ended}");
}

// A server that ends in the middle leaves what came.
#[test]
fn a_server_that_ends_leaves_what_came() {
    let gateway = collecting("", &[("exits", "")]);
    let mut wire = client(&gateway);
    let result = ask(&mut wire, "exits", 1_010);
    let value = &result["structuredContent"];
    assert_eq!(
        (value["items"].as_array().unwrap().len(), &value["collected"]["complete"]),
        (100, &json!(false)),
        "{result:.1000}"
    );
}
