//! As `lro-counts`, for paths of the host: `counts-host PATH ROUNDS`. Without arguments it prints each path and its rounds.
//!
//! Code of components is compiled in the process that counts, as its processor may lack what this one has.

#![expect(clippy::expect_used, clippy::panic, reason = "a program that may stop at the first surprise")]

use bytes::Bytes;
use lro_gateway::settings::Config;
use lro_gateway::{Rehearsal, parts};
use lro_host::policy::{DEFAULT_POLICY, LoadOptions, Policy};
use lro_host::read::{PageContent, PageRequest, Pages, Start};
use lro_host::store::Fsync;
use lro_tests::synthetic;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A path: its name, how often to run it, and a job that prepares its input and returns one round.
type Path = (&'static str, u32, fn(&TempDir) -> Box<dyn FnMut()>);

const PATHS: [Path; 2] = [("page", 20, page), ("small-result", 100, small_result)];

/// Records of a section, and the first one of a page in it.
const RECORDS: usize = 5_000;
const FROM: u64 = 4_000;

/// Records of a result that passes, about 1.3 KB.
const SMALL_RECORDS: usize = 5;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, rounds] = &arguments[..] else {
        return PATHS.iter().for_each(|(name, rounds, _)| println!("{name} {rounds}"));
    };
    let (_, _, prepare) = PATHS.iter().find(|(path, ..)| path == name).expect("the name of a path");
    let directory = TempDir::new().expect("a directory");
    let mut round = prepare(&directory);
    (0..rounds.parse().expect("a number of rounds")).for_each(|_: u32| round());
}

/// Reads a page of a section.
fn page(directory: &TempDir) -> Box<dyn FnMut()> {
    let options = LoadOptions { cache: parts::compile_cache(&Config::default()), ..lro_tests::patient() };
    let policy = Policy::from_bytes(lro_tests::sandbox(), DEFAULT_POLICY, &options).expect("the default policy");
    let filter = lro_tests::filter_with(policy, directory.path());
    let payload = lro_tests::text(synthetic::payload(RECORDS));
    let offload = lro_tests::offloaded(filter.apply(&lro_tests::request(lro_tests::settings()), &payload)).offload;
    let pages = Pages::new(filter.store.expect("a store")).expect("a key");
    let section = offload.record().files[0].section.clone();
    let request =
        PageRequest { start: Start::Record(FROM), ..PageRequest::new(lro_tests::TENANT, offload.id(), section) };
    Box::new(move || {
        let PageContent::Records(records) = pages.page(&request).expect("a page").content else { panic!("no records") };
        let first: Value = serde_json::from_str(&records[0]).expect("JSON");
        assert_eq!(first["id"], synthetic::id(FROM as usize));
    })
}

/// Passes a call and its small result through a session of the gateway: the policy decides in a fresh instance.
fn small_result(directory: &TempDir) -> Box<dyn FnMut()> {
    let mut config = Config::default();
    config.dir = directory.path().to_owned();
    config.fsync = Fsync::Never;
    let session = Rehearsal::new(&config, None).expect("a gateway");
    let mut id = 0;
    let mut exchange = move |method: &str, params: &Value, result: &str| {
        id += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let shown = session.exchange(Bytes::from(request), Bytes::from(answer.clone()));
        (answer, shown.expect("an answer"))
    };
    let client = json!({"name": "counts", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    let server = json!({"name": "server", "version": "1"});
    let welcome = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": server});
    exchange("initialize", &hello, &welcome.to_string());
    exchange(
        "tools/list",
        &json!({}),
        &json!({"tools": [{"name": "records", "inputSchema": {"type": "object"}}]}).to_string(),
    );
    let result = |records: usize| {
        let text = json!(synthetic::payload(records));
        format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":false}}"#)
    };
    let call = json!({"name": "records", "arguments": {}});
    // Another thread loads what answers questions. The first one waits for it, so that it is not counted with the rounds.
    let (_, offloaded) = exchange("tools/call", &call, &result(RECORDS));
    let offloaded: Value = serde_json::from_slice(&offloaded).expect("JSON");
    let descriptor = offloaded["result"]["content"][0]["text"].as_str().expect("a descriptor");
    let handle = serde_json::from_str::<Value>(descriptor).expect("JSON")["handle"].take();
    let question = json!({"name": "lro_extract", "arguments": {"handle": handle, "jq": ".id", "limit": 1}});
    let (_, answered) = exchange("tools/call", &question, "null");
    let answered: Value = serde_json::from_slice(&answered).expect("JSON");
    assert!(answered["result"]["isError"] != true, "{answered}");
    let small = result(SMALL_RECORDS);
    Box::new(move || {
        let (answer, shown) = exchange("tools/call", &call, &small);
        assert_eq!(shown, answer, "it passes as it is");
    })
}
