//! The component that reads offloads, beside the tools of the host in Rust: the same bytes.

use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use lro_host::extract::Budget;
use lro_host::mcp::{EXTRACT_TOOL, ProtocolError, READ_TOOL, TEMPLATE, Tools, definitions, guidance};
use lro_host::sandbox::{Part, PartKind, Payload};
use lro_host::store::{Store, StoreConfig, Ulid};
use lro_tests::{TENANT, always, component, extractor, filter, offloaded, request};
use serde_json::{Value, json};
use tempfile::TempDir;
use wasmtime::Store as Instances;
use wasmtime::component::{Component, Linker};
use wasmtime_wasi::WasiCtxBuilder;
use wasmtime_wasi::filesystem::FsPerms;

use crate::support::{ENGINE, State};

mod bindings {
    wasmtime::component::bindgen!({
        path: ["../wit", "../wit/0.1.0", "../wit/adapter"],
        inline: "
            package test:reading;
            world reading {
                export lro:adapter/reading@0.1.0;
            }
        ",
        world: "test:reading/reading",
    });
}

use bindings::exports::lro::adapter::reading::{self, Caller};

const RECORDS: usize = 4_000;

/// Compiled once for all tests.
static READER: LazyLock<Component> = LazyLock::new(|| Component::new(&ENGINE, component("lro_reader.wasm")).unwrap());

/// Offloads of every kind, the tools of the host over them, and the component.
struct Desk {
    root: TempDir,
    store: Store,
    tools: Tools,
    /// Handles of records in two sections, of a text and of bytes.
    handles: [String; 3],
}

impl Desk {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let team = |id: usize| ["red", "blue", "green"][id % 3];
        let record = |id: usize| {
            let note = if id.is_multiple_of(7) { Value::Null } else { format!("note “{id}” \\ \n é").into() };
            json!({"id": id, "team": team(id), "owner": {"name": format!("n{}", id % 90)}, "note": note})
        };
        let people: Vec<Value> = (0..RECORDS).map(record).collect();
        let teams = json!([{"team": "red", "floor": 1}, {"team": "blue", "floor": 2}, {"team": "green", "floor": 3}]);
        let teams: Vec<Value> = teams.as_array().unwrap().iter().cycle().take(300).cloned().collect();
        let document = json!({"people": people, "teams": teams}).to_string();
        let lines: Vec<String> =
            (0..RECORDS).map(|n| format!("2026-11-24T10:00:{:02} line {n} é timeout", n % 60)).collect();
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        let parts = [
            Part::text(PartKind::Structured, document.into()).unwrap(),
            Part::text(PartKind::Text, lines.join("\n").into()).unwrap(),
            Part::binary(bytes.into()),
        ];
        let handles = parts.map(|part| {
            let payload = Arc::new(Payload::new(vec![part]));
            offloaded(filter(root.path()).apply(&request(always()), &payload)).offload.id().to_string()
        });
        let store = Store::open(StoreConfig::new(root.path())).unwrap();
        let tools = Tools::new(store.clone(), extractor(), Budget::default());
        Self { root, store, tools, handles }
    }

    /// An instance that sees the directories of these handles.
    fn with<T>(&self, handles: &[String], ask: impl FnOnce(&mut Instances<State>, &reading::Guest) -> T) -> T {
        let mut linker = Linker::new(&ENGINE);
        wasmtime_wasi::p2::add_to_linker_sync(&mut linker).unwrap();
        let mut wasi = WasiCtxBuilder::new();
        for handle in handles {
            let path = self.root.path().join(TENANT).join(handle);
            wasi.preopened_dir(path, handle, FsPerms::ReadOnly).unwrap();
        }
        let mut instances = Instances::new(&ENGINE, State::new(&mut wasi));
        let instance = bindings::Reading::instantiate(&mut instances, &READER, &linker).unwrap();
        ask(&mut instances, instance.lro_adapter_reading())
    }

    fn caller(&self, handles: &[String]) -> Caller {
        let expires = |handle: &String| {
            let offload = self.store.find(TENANT, handle.parse::<Ulid>().unwrap()).unwrap();
            milliseconds(offload.expires())
        };
        let offload =
            |handle: &String| reading::Offload { handle: handle.clone(), expires: expires(handle), intact: false };
        Caller {
            tenant: TENANT.to_owned(),
            offloads: handles.iter().map(offload).collect(),
            now: milliseconds(SystemTime::now()),
            cursor_key: self.store.cursor_key().unwrap().to_vec(),
            answer_bytes: Budget::default().bytes,
            answer_tokens: Budget::default().tokens,
            page_bytes: 1 << 20,
        }
    }

    fn answer(&self, tool: &str, arguments: &str) -> Result<String, (i32, String)> {
        let handles = self.with(&[], |store, reading| reading.call_handles(store, tool, arguments).unwrap());
        let caller = self.caller(&handles);
        let answer = self.with(&handles, |store, reading| reading.call_call(store, &caller, tool, arguments).unwrap());
        answer.map_err(|error| (error.code, error.message))
    }

    fn resource(&self, uri: &str, modern: bool) -> Result<String, (i32, String)> {
        let handle = self.with(&[], |store, reading| reading.call_resource_handle(store, uri).unwrap());
        let handles: Vec<String> = handle.into_iter().collect();
        let caller = self.caller(&handles);
        let ask = |store: &mut Instances<State>, reading: &reading::Guest| {
            reading.call_read_resource(store, &caller, uri, modern).unwrap()
        };
        self.with(&handles, ask).map_err(|error| (error.code, error.message))
    }

    /// The answer of both, which is the same.
    fn ask(&self, tool: &str, arguments: &Value) -> Value {
        let arguments = arguments.to_string();
        let answer = self.tools.call(TENANT, tool, &arguments).map_err(pair);
        assert_eq!(self.answer(tool, &arguments), answer, "{tool} {arguments}");
        serde_json::from_str(&answer.unwrap()).unwrap()
    }
}

fn milliseconds(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

fn pair(error: ProtocolError) -> (i32, String) {
    (error.code, error.message)
}

#[test]
fn the_component_offers_the_tools_of_the_host() {
    let desk = Desk::new();
    desk.with(&[], |store, reading| {
        let tools: Vec<String> = definitions().iter().map(ToString::to_string).collect();
        assert_eq!(reading.call_tools(&mut *store).unwrap(), tools);
        assert_eq!(reading.call_guidance(&mut *store).unwrap(), guidance());
        assert_eq!(reading.call_template(&mut *store).unwrap(), TEMPLATE);
    });
}

#[test]
fn questions_have_the_answers_of_the_host() {
    let desk = Desk::new();
    let [records, text, bytes] = &desk.handles;
    let about_people = [
        json!({"where": "team == 'red' and id < 40", "select": "id, owner.name", "sort": "-id"}),
        json!({"where": "id > '20'", "limit": 3, "offset": 2}),
        json!({"group": "team"}),
        json!({"count": true}),
        json!({"where": "note is null", "count": true}),
        json!({"jq": "select(.id > $n) | .owner", "args": {"n": 3000}, "offset": 7, "limit": 4}),
        json!({"jq": "map(.id) | add", "slurp": true}),
        json!({"jq": ".id | error"}),
        json!({"jq": ".["}),
        json!({"where": "missing == 1"}),
        json!({"select": "id", "limit": 100_001}),
        json!({"search": "note “12", "limit": 3}),
        json!({"lines": [-3, -1]}),
        json!({"sql": "SELECT team, count(*) AS n FROM records GROUP BY team ORDER BY n DESC, team"}),
        json!({"recipe": "no such recipe"}),
        json!({"params": {}, "jq": 7}),
    ];
    for mut arguments in about_people {
        arguments["handle"] = json!(records);
        desk.ask(EXTRACT_TOOL, &arguments);
        arguments["section"] = json!("people");
        desk.ask(EXTRACT_TOOL, &arguments);
    }
    for mut arguments in [
        json!({"search": "line 39", "context": 1, "limit": 5}),
        json!({"search": "line 3[0-9]{3} ", "regex": true, "count": true}),
        json!({"search": "what timed out in line 77", "rank": true, "limit": 3}),
        json!({"lines": [10, 12]}),
        json!({"lines": [9000, 9001]}),
        json!({"where": "a == 1"}),
        json!({"sql": "SELECT 1 FROM records"}),
    ] {
        arguments["handle"] = json!(text);
        desk.ask(EXTRACT_TOOL, &arguments);
    }
    desk.ask(EXTRACT_TOOL, &json!({"handle": bytes, "search": "x"}));
    let join = "SELECT p.id, t.floor FROM p JOIN t ON p.team = t.team WHERE p.id < 3 ORDER BY p.id, t.floor LIMIT 5";
    let tables = json!([{"handle": records, "section": "people", "as": "p"}, {"handle": records, "section": "teams", "as": "t"}]);
    let joined = desk.ask(EXTRACT_TOOL, &json!({"sql": join, "from": tables}));
    assert_eq!(joined["structuredContent"]["results"].as_array().unwrap().len(), 5, "{joined}");
    desk.ask(EXTRACT_TOOL, &json!({"sql": join, "from": [{"handle": records, "section": "people"}, {"handle": records, "section": "people"}]}));
}

// 8 MB of results stand before the offset, twice what one answer may have.
#[test]
fn results_of_jq_before_an_offset_take_no_room() {
    let desk = Desk::new();
    let ask = |more: Value| {
        let mut arguments =
            json!({"handle": desk.handles[0], "section": "people", "jq": r#"{id, text: ("x" * 2000)}"#});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        desk.ask(EXTRACT_TOOL, &arguments)["structuredContent"].clone()
    };
    let ids = |answer: &Value| -> Vec<u64> {
        answer["results"].as_array().unwrap().iter().map(|result| result["id"].as_u64().unwrap()).collect()
    };
    let last = RECORDS as u64 - 2;
    assert_eq!(ids(&ask(json!({"offset": last}))), [last, last + 1]);
    let limited = ask(json!({"offset": 3_000, "limit": 2}));
    assert_eq!((ids(&limited), limited["cut"].as_str()), (vec![3_000, 3_001], Some("limit")));
    let budgeted = ask(json!({"offset": 3_000}));
    assert_eq!(budgeted["cut"], "budget", "{budgeted}");
    assert_eq!(ask(json!({"offset": RECORDS}))["left"], 0);
}

#[test]
fn pages_and_cursors_are_those_of_the_host() {
    let desk = Desk::new();
    let [records, text, bytes] = &desk.handles;
    for mut arguments in [
        json!({"handle": records, "section": "people", "bytes": 50_000}),
        json!({"handle": text, "from": 2_000}),
        json!({"handle": bytes, "bytes": 30_000}),
    ] {
        let mut pages = 0;
        loop {
            let page = desk.ask(READ_TOOL, &arguments);
            assert_ne!(page["isError"], true, "{page}");
            pages += 1;
            let next = page["structuredContent"]["next"].clone();
            if next.is_null() {
                break;
            }
            let section = arguments["section"].clone();
            arguments = json!({"handle": arguments["handle"], "cursor": next});
            if !section.is_null() {
                arguments["section"] = section;
            }
        }
        assert!(pages > 2, "{arguments}: {pages}");
    }
    for arguments in [
        json!({"handle": records}),
        json!({"handle": records, "section": "no such section"}),
        json!({"handle": records, "section": "people", "from": 9_999}),
        json!({"handle": records, "section": "people", "cursor": "no cursor"}),
        json!({"handle": text, "from": -3}),
        json!({"handle": text, "limit": 0}),
        json!({"handle": "no handle"}),
        json!({}),
    ] {
        desk.ask(READ_TOOL, &arguments);
    }
    let unknown = desk.tools.call(TENANT, "lro_other", "{}").map_err(pair);
    assert_eq!(desk.answer("lro_other", "{}"), unknown);
    for handle in [records, text, bytes] {
        let offload = desk.store.find(TENANT, handle.parse().unwrap()).unwrap();
        for file in &offload.record().files {
            for (query, modern) in [("", false), ("?offset=2&limit=3", true), ("?offset=99999", false)] {
                let uri = format!("lro://{handle}/{}{query}", file.name);
                let expected = desk.tools.resource(TENANT, &uri, modern).map_err(pair);
                assert_eq!(desk.resource(&uri, modern), expected, "{uri}");
            }
        }
    }
    let uri = "lro://nothing";
    assert_eq!(desk.resource(uri, true), desk.tools.resource(TENANT, uri, true).map_err(pair));
}

#[test]
fn nothing_is_answered_about_what_changed_expired_or_is_of_others() {
    let desk = Desk::new();
    let [records, text, _] = &desk.handles;
    let question = json!({"handle": records, "section": "people", "where": "id == 1"}).to_string();
    let ask = |change: &dyn Fn(&mut Caller)| {
        let mut caller = desk.caller(std::slice::from_ref(records));
        change(&mut caller);
        let ask = |store: &mut Instances<State>, reading: &reading::Guest| {
            reading.call_call(store, &caller, EXTRACT_TOOL, &question).unwrap()
        };
        desk.with(std::slice::from_ref(records), ask).unwrap()
    };
    assert!(ask(&|_| ()).contains("\"id\":1"));
    for (change, expected) in [
        (&(|caller: &mut Caller| caller.offloads[0].expires = caller.now) as &dyn Fn(&mut Caller), "has expired"),
        (&|caller: &mut Caller| caller.tenant = "another".to_owned(), "there is no offload"),
        (&|caller: &mut Caller| caller.offloads.clear(), "there is no offload"),
    ] {
        let answer = ask(change);
        assert!(answer.contains(r#""isError":true"#) && answer.contains(expected), "{answer}");
    }
    // One byte of each file.
    for (handle, name) in [(records, "people"), (text, "text")] {
        let directory = desk.root.path().join(TENANT).join(handle);
        let offload = desk.store.find(TENANT, handle.parse().unwrap()).unwrap();
        let file = offload.record().files.iter().find(|file| file.name.starts_with(name)).unwrap();
        let path = directory.join(&file.name);
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 20;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).unwrap();
        for (tool, arguments) in [
            (EXTRACT_TOOL, json!({"handle": handle, "section": file.section, "search": "x"})),
            (READ_TOOL, json!({"handle": handle, "section": file.section})),
        ] {
            let answer = desk.answer(tool, &arguments.to_string()).unwrap();
            assert!(answer.contains(r#""isError":true"#) && answer.contains("has changed"), "{answer}");
        }
    }
}
