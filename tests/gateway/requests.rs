//! What offloads in a bucket cost in requests: the numbers that `host-example/docs/explanation/scale.md` begins with.

use std::collections::BTreeMap;
use std::process::Command;

use lro_tests::bucket::{Proxy, Seen, Service};
use lro_tests::{wait_until, workspace};
use serde_json::json;

use crate::scripted::{Script, Scripted, Setup, handle, records, structured};
use crate::support::{environment, lro, path_text};

/// Records of the result: a file above 64 KiB, so that it has an index.
const RECORDS: usize = 20_000;

const PAGE: &str = "host-example/docs/explanation/scale.md";

fn start(url: &str, proxy: &Proxy) -> Scripted {
    let variables = Service::S3.variables(proxy.port());
    let mut variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.push(("MCP_LRO_STORE", url));
    let script = Script::new().tool("large", "", structured(&json!({"items": records(RECORDS)})));
    script.start_with(&Setup { variables: &variables, ..Setup::default() })
}

/// The part of the keys of ledgers that others do not have.
const LEDGER: &str = "/.ledger";

/// Requests by what they do. Of the key for cursors, which is asked for once in the life of a process, nothing is counted.
fn counted(seen: &[&Seen]) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for one in seen.iter().filter(|one| !one.target.contains("cursor-key")) {
        let kind = match one.method.as_str() {
            "GET" if one.target.contains("list-type") => "list",
            "GET" | "HEAD" => "get",
            "PUT" => "put",
            "POST" if one.target.contains("?delete") => "delete",
            "POST" => "put",
            _ => "delete",
        };
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

/// A line of the table: what is done, and its requests that write or list, that read, and that delete. Those of ledgers depend on the
/// time, where they are not part of a sweep.
fn line(what: &str, seen: &[Seen]) -> String {
    line_of_all(what, &seen.iter().filter(|one| !one.target.contains(LEDGER)).collect::<Vec<_>>())
}

fn line_of_all(what: &str, seen: &[&Seen]) -> String {
    let counts = counted(seen);
    let of = |kind: &str| counts.get(kind).copied().unwrap_or(0);
    format!("| {what} | {} | {} | {} | {} |", of("put"), of("list"), of("get"), of("delete"))
}

#[test]
fn the_requests_of_the_page_about_scale_are_those_that_are_made() {
    let (url, proxy, other) = (Service::S3.new_bucket(), Service::S3.proxy(), Service::S3.proxy());
    let (mut one, mut two) = (start(&url, &proxy), start(&url, &other));
    let mut lines = Vec::new();
    // Without a ledger, the first counts what the tenant has.
    one.descriptor("large");
    proxy.seen();
    let handle = handle(&one.descriptor("large"));
    let mut seen = proxy.seen();
    lines.push(line("an offload of one file", &seen));
    other.seen();
    let read = |from: usize| json!({"handle": handle, "section": "items", "from": from, "limit": 10});
    two.call("lro_read", read(19_000));
    lines.push(line("its first page at another gateway", &other.seen()));
    two.call("lro_read", read(100));
    lines.push(line("a further page there", &other.seen()));
    let asked = json!({"handle": handle, "section": "items", "where": [{"field": "id", "op": "ge", "value": 19_995}]});
    two.call("lro_extract", asked.clone());
    lines.push(line("the first question there, of up to 8 MiB", &other.seen()));
    two.call("lro_extract", asked);
    lines.push(line("a further question there", &other.seen()));
    one.call("lro_read", read(100));
    seen.extend(proxy.seen());
    one.call("lro_read", read(19_000));
    let of_page = proxy.seen();
    lines.push(line("a page at the gateway that wrote it", &of_page));
    seen.extend(of_page);
    // A ledger that is written between two requests of a sweep costs it two more.
    wait_until("the ledger is written", || {
        seen.extend(proxy.seen());
        seen.iter().any(|one| one.method == "PUT" && one.target.contains(LEDGER))
    });
    let clean = |more: &[&str]| {
        let mut variables = environment(&[
            ("MCP_LRO_STORE", url.as_str()),
            ("MCP_LRO_DIR", &path_text(&one.home.path().join("other"))),
        ]);
        let of_bucket = Service::S3.variables(other.port());
        variables.extend(of_bucket.into_iter().map(|(name, value)| (name.to_owned(), value)));
        let output = Command::new(lro()).arg("clean").args(more).envs(&variables).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        other.seen()
    };
    other.seen();
    for (what, more) in [
        ("a sweep of up to 1,000 objects of a tenant, nothing of them expired", &[][..]),
        ("a sweep that removes both offloads of a tenant", &["--all"]),
    ] {
        lines.push(line_of_all(what, &clean(more).iter().collect::<Vec<_>>()));
    }
    let page = lro_tests::read(&workspace().join(PAGE));
    let missing: Vec<&String> = lines.iter().filter(|line| !page.contains(line.as_str())).collect();
    assert!(missing.is_empty(), "{PAGE} does not say:\n{}", lines.join("\n"));
}
