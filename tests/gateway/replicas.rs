//! Gateways that share a bucket: what one has offloaded, another answers about.

use lro_tests::bucket::{Fate, Proxy, keys, new_bucket, port, variables};
use serde_json::{Value, json};

use crate::scripted::{Script, Scripted, Setup, first_text, handle, records, structured};

const RECORDS: usize = 20_000;

fn script() -> Script {
    Script::new().tool("large", "", structured(&json!({"items": records(RECORDS)})))
}

/// A gateway with a bucket behind this port.
fn start(url: &str, port: u16, toml: &str) -> Scripted {
    let variables = variables(port);
    let mut variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.push(("MCP_LRO_STORE", url));
    script().start_with(&Setup { toml, variables: &variables, ..Setup::default() })
}

fn first_id(page: &Value) -> u64 {
    page["structuredContent"]["records"][0]["id"].as_u64().unwrap_or_else(|| panic!("{page:.500}"))
}

#[test]
fn a_handle_and_a_cursor_of_one_gateway_are_answered_by_another() {
    let url = new_bucket();
    let (mut one, mut two) = (start(&url, port(), ""), start(&url, port(), ""));
    let handle = handle(&one.descriptor("large"));
    let page = two.call("lro_read", json!({"handle": handle, "section": "items", "from": 19_000, "limit": 10}));
    assert_eq!(first_id(&page), 19_000);
    assert!(two.offloads().is_empty(), "a page needs no copy");
    let next = page["structuredContent"]["next"].as_str().unwrap().to_owned();
    let page = one.call("lro_read", json!({"handle": handle, "section": "items", "cursor": next}));
    assert_eq!(first_id(&page), 19_010, "{page:.500}");
    let asked = json!({"handle": handle, "section": "items", "where": [{"field": "id", "op": "ge", "value": 19_995}]});
    let answers = [one.call("lro_extract", asked.clone()), two.call("lro_extract", asked.clone())];
    assert_eq!(answers[0], answers[1]);
    assert!(first_text(&answers[0]).contains("record number 19999"), "{:.500}", answers[0]);
    // The machine of the first is gone, and so is its disk.
    drop(one);
    let mut three = start(&url, port(), "");
    assert_eq!(three.call("lro_extract", asked), answers[1]);
    assert_eq!(keys(&url).iter().filter(|key| key.ends_with("/manifest.json")).count(), 1);
}

#[test]
fn a_tenant_finds_nothing_of_another_in_the_bucket() {
    let url = new_bucket();
    let mut one = start(&url, port(), "[gateway]\ntenant = \"one\"");
    let mut two = start(&url, port(), "[gateway]\ntenant = \"two\"");
    let handle = handle(&one.descriptor("large"));
    let read = json!({"handle": handle, "section": "items"});
    assert!(one.call("lro_read", read.clone())["isError"] != true);
    assert_eq!(two.call("lro_read", read)["isError"], true);
}

#[test]
fn a_bucket_that_does_not_answer_costs_an_answer_and_comes_back() {
    let (url, proxy) = (new_bucket(), Proxy::start());
    let mut gateway = start(&url, proxy.port(), "store-retry-ms = 0\nstore-timeout-ms = 20000");
    proxy.decide(|_| Fate::Reset);
    let cut = gateway.call("large", json!({}));
    let text = first_text(&cut);
    assert!(crate::scripted::descriptor(&cut).is_none() && text.contains("an object of its bucket"), "{text:.500}");
    assert!(!text.contains("127.0.0.1"), "clients learn no addresses: {text:.500}");
    proxy.decide(|_| Fate::Answered);
    let handle = handle(&gateway.descriptor("large"));
    let page = gateway.call("lro_read", json!({"handle": handle, "section": "items", "limit": 2}));
    assert_eq!(first_id(&page), 0);
    assert!(gateway.end().errors.contains("cannot publish an offload"));
}
