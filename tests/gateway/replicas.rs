//! Gateways that share a bucket: what one has offloaded, another answers about.

use std::collections::HashSet;
use std::net::TcpListener;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::{env, thread};

use lro_tests::bucket::{Fate, Proxy, SERVICES, Seen, Service, keys, keys_with};
use lro_tests::wait_until;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{FaultyHttp, tool_call};
use crate::fleet::{Balancer, Caller, NGINX_FAILED_FOR, Nginx, Replica};
use crate::http::Session;
use crate::scripted::{Script, Scripted, Setup, descriptor, first_text, handle, records, structured};
use crate::support::{lro, path_text};
use crate::wire::request;

const RECORDS: usize = 20_000;

fn script() -> Script {
    Script::new().tool("large", "", structured(&json!({"items": records(RECORDS)})))
}

/// A gateway with a bucket of S3.
fn start(url: &str, toml: &str) -> Scripted {
    start_behind(Service::S3, Service::S3.port(), url, toml)
}

/// A gateway with a bucket behind this port.
fn start_behind(service: Service, port: u16, url: &str, toml: &str) -> Scripted {
    let variables = service.variables(port);
    let mut variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.push(("MCP_LRO_STORE", url));
    script().start_with(&Setup { toml, variables: &variables, ..Setup::default() })
}

fn first_id(page: &Value) -> u64 {
    page["structuredContent"]["records"][0]["id"].as_u64().unwrap_or_else(|| panic!("{page:.500}"))
}

#[test]
fn a_handle_and_a_cursor_of_one_gateway_are_answered_by_another() {
    for service in SERVICES {
        eprintln!("{service:?}");
        let start = |url| start_behind(service, service.port(), url, "");
        let url = service.new_bucket();
        let (mut one, mut two) = (start(&url), start(&url));
        let handle = handle(&one.descriptor("large"));
        let page = two.call("lro_read", json!({"handle": handle, "section": "items", "from": 19_000, "limit": 10}));
        assert_eq!(first_id(&page), 19_000);
        assert!(two.offloads().is_empty(), "a page needs no copy");
        let next = page["structuredContent"]["next"].as_str().unwrap().to_owned();
        let page = one.call("lro_read", json!({"handle": handle, "section": "items", "cursor": next}));
        assert_eq!(first_id(&page), 19_010, "{page:.500}");
        let asked =
            json!({"handle": handle, "section": "items", "where": [{"field": "id", "op": "ge", "value": 19_995}]});
        let answers = [one.call("lro_extract", asked.clone()), two.call("lro_extract", asked.clone())];
        assert_eq!(answers[0], answers[1]);
        assert!(first_text(&answers[0]).contains("record number 19999"), "{:.500}", answers[0]);
        // The machine of the first is gone, and so is its disk.
        drop(one);
        let mut three = start(&url);
        assert_eq!(three.call("lro_extract", asked), answers[1]);
        assert_eq!(keys(&url).iter().filter(|key| key.ends_with("/manifest.json")).count(), 1);
    }
}

#[test]
fn a_bucket_without_credentials_names_the_variables_that_have_them() {
    // Nobody listens on a port that was just closed: as on a machine that is in no cloud.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let metadata = [
        ("AWS_METADATA_ENDPOINT", format!("http://{nobody}")),
        ("GCE_METADATA_HOST", nobody.to_string()),
        ("GCE_METADATA_IP", nobody.to_string()),
        ("AZURE_MSI_ENDPOINT", format!("http://{nobody}/metadata/identity/oauth2/token")),
        ("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1".to_owned()),
    ];
    let home = TempDir::new().unwrap();
    let expected = ["AWS_ACCESS_KEY_ID", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_STORAGE_ACCOUNT_KEY"];
    for (service, variable) in SERVICES.into_iter().zip(expected) {
        let places = [("MCP_LRO_STORE", service.new_bucket()), ("MCP_LRO_DIR", path_text(home.path()))];
        let output = Command::new(lro())
            .args(["clean", "--dry-run"])
            .env_clear()
            .env("MCP_LRO_STORE_RETRY_MS", "0")
            .envs(metadata.iter().chain(&places).map(|(name, value)| (*name, value.as_str())))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains("no credentials: set") && said.contains(variable), "{said}");
        assert!(!said.contains("http"), "the request for them is not repeated: {said}");
    }
}

#[test]
fn a_tenant_finds_nothing_of_another_in_the_bucket() {
    let url = Service::S3.new_bucket();
    let mut one = start(&url, "[gateway]\ntenant = \"one\"");
    let mut two = start(&url, "[gateway]\ntenant = \"two\"");
    let handle = handle(&one.descriptor("large"));
    let read = json!({"handle": handle, "section": "items"});
    assert!(one.call("lro_read", read.clone())["isError"] != true);
    assert_eq!(two.call("lro_read", read)["isError"], true);
}

#[test]
fn a_gateway_lists_a_bucket_when_it_is_its_turn_alone() {
    let (url, proxies) = (Service::S3.new_bucket(), [Service::S3.proxy(), Service::S3.proxy()]);
    // They sweep as often.
    let start = |proxy: &Proxy| start_behind(Service::S3, proxy.port(), &url, "ttl-seconds = 2");
    let mut gateways = proxies.each_ref().map(start);
    gateways[0].descriptor("large");
    let is_turn = |seen: &&Seen| seen.target.contains("/.sweep");
    let mut seen: [Vec<Seen>; 2] = Default::default();
    wait_until("what has expired is gone, and both have looked whose turn it is", || {
        seen.iter_mut().zip(&proxies).for_each(|(seen, proxy)| seen.extend(proxy.seen()));
        let have_looked = seen.iter().all(|seen| seen.iter().any(|one| is_turn(&one)));
        have_looked && keys_with(&url, "/manifest.json").is_empty()
    });
    let of_all = |seen: &&Seen| seen.target.contains("list-type") && !seen.target.contains("/default");
    for seen in &seen {
        let lists = seen.iter().filter(of_all).count();
        let turns = seen.iter().filter(|one| one.method == "PUT" && is_turn(one)).count();
        assert!(lists <= turns, "{lists} lists and {turns} turns");
    }
    assert!(seen.iter().flatten().filter(of_all).count() > 0);
}

#[test]
fn a_bucket_that_does_not_answer_costs_an_answer_and_comes_back() {
    let (url, proxy) = (Service::S3.new_bucket(), Service::S3.proxy());
    let mut gateway = start_behind(Service::S3, proxy.port(), &url, "store-retry-ms = 0\nstore-timeout-ms = 20000");
    proxy.decide(|_| Fate::Reset);
    let cut = gateway.call("large", json!({}));
    let text = first_text(&cut);
    assert!(descriptor(&cut).is_none() && text.contains("an object of its bucket"), "{text:.500}");
    assert!(!text.contains("127.0.0.1"), "clients learn no addresses: {text:.500}");
    proxy.decide(|_| Fate::Answered);
    let handle = handle(&gateway.descriptor("large"));
    let page = gateway.call("lro_read", json!({"handle": handle, "section": "items", "limit": 2}));
    assert_eq!(first_id(&page), 0);
    assert!(gateway.end().errors.contains("cannot publish an offload"));
}

/// Whether a result repeats the call with this number.
fn repeats(result: &Value, number: usize) -> bool {
    let line: Value = serde_json::from_str(first_text(result)).unwrap_or_default();
    line["params"]["arguments"]["number"] == number
}

/// A server whose tool `slow` answers with the call, after so many seconds.
fn slow(seconds: f64) -> Script {
    let answer =
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":@LINE@}],"resultType":"complete"}}"#;
    Script::new().steps("tools/call slow", json!([{"sleep": seconds}, answer]))
}

/// Replaces two replicas one after the other under four clients. Returns how many sessions the clients have had.
fn rolling_restart(start: &dyn Fn() -> Replica, client: fn(&str) -> Caller) -> usize {
    let balancer = Balancer::start();
    let mut replicas = vec![start(), start()];
    replicas.iter().for_each(|replica| balancer.add(replica));
    let (answered, sessions, is_over) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
    let calling = |first: usize| {
        let mut caller = client(&balancer.url);
        let mut number = first;
        while !is_over.load(Ordering::Relaxed) {
            let result = caller.call("slow", &json!({ "number": number })).unwrap_or_else(|error| panic!("{error}"));
            assert!(repeats(&result, number), "{result}");
            answered.fetch_add(1, Ordering::Relaxed);
            number += 1;
        }
        sessions.fetch_add(caller.sessions(), Ordering::Relaxed);
    };
    let some_more = || {
        let before = answered.load(Ordering::Relaxed);
        wait_until("clients get answers", || answered.load(Ordering::Relaxed) > before + 20);
    };
    thread::scope(|scope| {
        for first in 0..4 {
            scope.spawn(move || calling(first * 1_000_000));
        }
        for _ in 0..2 {
            some_more();
            let old = replicas.remove(0);
            assert_eq!(old.readiness(), Some(200));
            old.signal("-TERM");
            // It goes on to answer, and says that it will not for long.
            wait_until("the probe fails", || old.readiness() == Some(503));
            let mut late = Caller::modern(&old.url());
            assert!(repeats(&late.call("slow", &json!({"number": 7})).unwrap(), 7));
            let (is_good, log) = old.end();
            assert!(is_good, "{log}");
            let new = start();
            balancer.add(&new);
            replicas.push(new);
            some_more();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    println!("{} calls, no error", answered.load(Ordering::Relaxed));
    sessions.into_inner()
}

#[test]
fn a_rolling_restart_costs_clients_without_sessions_nothing() {
    let start = || Replica::start(&slow(0.02), "gateway.drain-ms = 5000", &[]);
    assert_eq!(rolling_restart(&start, Caller::modern), 0);
}

#[test]
fn a_rolling_restart_on_a_bucket_costs_clients_no_session() {
    let url = Service::S3.new_bucket();
    let start = || replica(&slow(0.02), &url, "gateway.drain-ms = 5000");
    assert_eq!(rolling_restart(&start, Caller::legacy), 4, "each began one");
}

/// A replica over HTTP with this bucket.
fn replica(script: &Script, url: &str, toml: &str) -> Replica {
    replica_before("", Service::S3.port(), script, url, toml)
}

/// A replica over HTTP with a bucket behind this port, before the server at an address or a script.
fn replica_before(upstream: &str, port: u16, script: &Script, url: &str, toml: &str) -> Replica {
    replica_at("127.0.0.1:0", upstream, port, script, url, toml)
}

/// As [`replica_before`], at an address.
fn replica_at(address: &str, upstream: &str, port: u16, script: &Script, url: &str, toml: &str) -> Replica {
    let variables = Service::S3.variables(port);
    let mut variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    variables.extend([("MCP_LRO_STORE", url), ("ALICE_TOKEN", "alice-secret"), ("BOB_TOKEN", "bob-secret")]);
    Replica::start_at(address, script, &Setup { upstream, toml, variables: &variables, ..Setup::default() })
}

/// What `lro_job` says of a job: its state, or its result.
fn job(caller: &mut Caller, handle: &str) -> Result<(String, Value), String> {
    let result = caller.call("lro_job", &json!({"handle": handle, "wait_ms": 1000}))?;
    let status: Value = serde_json::from_str(first_text(&result)).unwrap_or_default();
    // A result is that of the tool.
    let state = status["state"].as_str().unwrap_or("done").to_owned();
    Ok((state, result))
}

/// Waits for the end of a job.
fn end_of(caller: &mut Caller, handle: &str) -> (String, Value) {
    let mut found = (String::new(), Value::Null);
    wait_until("the job ends", || {
        found = job(caller, handle).unwrap();
        found.0 != "running"
    });
    found
}

/// A call that becomes a job, and its handle.
fn begin_job(caller: &mut Caller, number: usize) -> Result<String, String> {
    let begun = caller.call("slow", &json!({ "number": number }))?;
    let status: Value = serde_json::from_str(first_text(&begun)).unwrap();
    Ok(status["job"].as_str().unwrap_or_else(|| panic!("no job: {begun}")).to_owned())
}

#[test]
fn a_job_is_fetched_at_another_replica_and_lost_with_its_own() {
    let url = Service::S3.new_bucket();
    let toml = "store-lease-seconds = 5\n[tools.slow]\njob = \"always\"";
    let (one, two) = (replica(&slow(2.0), &url, toml), replica(&slow(2.0), &url, toml));
    let (mut at_one, mut at_two) = (Caller::modern(&one.url()), Caller::modern(&two.url()));
    let done = begin_job(&mut at_one, 1).unwrap();
    let (state, result) = end_of(&mut at_two, &done);
    assert!(state == "done" && repeats(&result, 1), "{result}");
    // The server takes one after the other, so the last of these do not end for a while.
    let jobs: Vec<String> = (2..10).map(|number| begin_job(&mut at_one, number).unwrap()).collect();
    let last = jobs.last().unwrap();
    assert_eq!(job(&mut at_two, last).unwrap().0, "running");
    one.signal("-9");
    let (state, result) = end_of(&mut at_two, last);
    assert!(state == "lost" && result["isError"] == true, "{result}");
    let status: Value = serde_json::from_str(first_text(&result)).unwrap();
    assert!(status["reason"].as_str().unwrap().contains("the gateway ended"), "{status}");
    assert_eq!(status["call"], r#"slow {"number":9}"#);
    for (number, handle) in (2..).zip(&jobs) {
        let (state, result) = end_of(&mut at_two, handle);
        assert!(state == "lost" || repeats(&result, number), "{result}");
    }
    let (state, result) = end_of(&mut at_two, &done);
    assert!(state == "done" && repeats(&result, 1), "{result}");
    // A replica that starts later reads the same.
    let three = replica(&slow(2.0), &url, toml);
    assert_eq!(end_of(&mut Caller::modern(&three.url()), last).0, "lost");
}

#[test]
fn a_session_is_unknown_at_another_replica_and_begins_anew() {
    let script = slow(0.0);
    let start = || Replica::start(&script, "", &[]);
    let (one, two) = (start(), start());
    let session = Session::begin(&one.url());
    let elsewhere = at(&session, &two);
    let reply = elsewhere.open(&tool_call(1, "slow", json!({"number": 1}))).finish();
    // From this status on, a client has to begin a session, as the protocol says.
    assert_eq!(reply.status, 404, "{}", reply.text());
    assert!(reply.text().contains("initialize"), "{}", reply.text());
    assert_eq!((elsewhere.request("GET").status, elsewhere.request("DELETE").status), (404, 404));
    assert!(repeats(&session.call(2, "slow", json!({"number": 2}))["result"], 2));
    let balancer = Balancer::start();
    balancer.add(&one);
    let mut caller = Caller::legacy(&balancer.url);
    assert!(repeats(&caller.call("slow", &json!({"number": 3})).unwrap(), 3));
    balancer.remove(&one);
    balancer.add(&two);
    one.signal("-9");
    one.end();
    // The end of its connection is all that it sees of the replica's.
    let answer = caller.call("slow", &json!({"number": 4})).or_else(|_| caller.call("slow", &json!({"number": 4})));
    assert!(repeats(&answer.unwrap(), 4));
}

/// The same session at another replica.
fn at(session: &Session, replica: &Replica) -> Session {
    Session { url: replica.url(), ..session.clone() }
}

/// The status of a call of `slow` in a session.
fn status(session: &Session) -> u16 {
    session.open(&tool_call(1, "slow", json!({"number": 1}))).finish().status
}

/// How often the server of a session has received a method.
fn received(session: &Session, method: &str) -> usize {
    let seen = session.open(&request(2, "scripted/seen", json!({}))).finish().answer();
    let lines = seen["result"]["lines"].as_array().unwrap_or_else(|| panic!("{seen}"));
    lines.iter().filter(|line| line.as_str().unwrap().contains(&format!("\"{method}\""))).count()
}

#[test]
fn a_session_goes_on_at_another_replica_once_its_own_is_gone() {
    let url = Service::S3.new_bucket();
    let toml = "store-lease-seconds = 5";
    let [one, two, three] = [(); 3].map(|()| replica(&slow(0.0), &url, toml));
    let session = Session::begin(&one.url());
    let (at_two, at_three) = (at(&session, &two), at(&session, &three));
    // Its server has a state that no other has.
    assert_eq!((status(&session), status(&at_two)), (200, 404));
    one.signal("-TERM");
    let (is_good, log) = one.end();
    assert!(is_good, "{log}");
    // Of all that ask at the same time, none is refused, and one makes the handshake.
    let statuses: Vec<u16> = thread::scope(|scope| {
        let asking: Vec<_> = (0..8).map(|_| scope.spawn(|| status(&at_two))).collect();
        asking.into_iter().map(|asking| asking.join().unwrap()).collect()
    });
    assert_eq!(statuses, [200; 8]);
    assert_eq!((received(&at_two, "initialize"), received(&at_two, "notifications/initialized")), (1, 1));
    assert_eq!(status(&at_three), 404, "another has it now");
    two.signal("-9");
    two.end();
    wait_until("the lease is over", || status(&at_three) == 200);
    assert_eq!(received(&at_three, "initialize"), 1);
    assert_eq!((at_three.request("DELETE").status, status(&at_three)), (204, 404));
    // What nobody began is asked for in vain.
    let unknown = Session { id: "0123456789abcdef0123456789abcdef".to_owned(), ..at_three };
    assert_eq!((status(&unknown), unknown.request("GET").status, unknown.request("DELETE").status), (404, 404, 404));
    assert_eq!(keys_with(&url, "/.sessions/"), Vec::<String>::new());
}

#[test]
fn a_session_of_a_server_over_http_goes_on_at_every_replica_for_its_tenant() {
    let script = script();
    let server = Replica::start(&script, "enabled = false", &[]);
    let url = Service::S3.new_bucket();
    let toml = "clients.known.result-limit = 4000\nmode = \"never\"\n\
                [gateway.tokens]\nalice = \"env:ALICE_TOKEN\"\nbob = \"env:BOB_TOKEN\"";
    let start = || replica_before(&server.url(), Service::S3.port(), &script, &url, toml);
    let (one, two) = (start(), start());
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "known", "version": "1"}});
    let session = Session::begin_with(&one.url(), "alice-secret", params);
    // What the client said of itself at one replica counts at the other.
    for session in [&session, &at(&session, &two)] {
        let answer = session.call(3, "large", json!({}));
        assert!(first_text(&answer["result"]).contains("more than this client accepts"), "{answer:.500}");
    }
    let of_another = Session { token: "Bearer bob-secret".to_owned(), ..at(&session, &two) };
    assert_eq!(of_another.open(&tool_call(4, "large", json!({}))).finish().status, 404);
    assert_eq!(at(&session, &two).request("DELETE").status, 204);
    assert_eq!(keys_with(&url, "/.sessions/"), Vec::<String>::new());
}

#[test]
fn a_translated_session_goes_on_at_every_replica() {
    let server = FaultyHttp::with(&["--only", "modern"]);
    let url = Service::S3.new_bucket();
    let start = || replica_before(&server.url, Service::S3.port(), &script(), &url, "");
    let (one, two) = (start(), start());
    let session = Session::begin(&one.url());
    for session in [&at(&session, &two), &session, &at(&session, &two)] {
        session.works();
    }
    one.signal("-9");
    one.end();
    at(&session, &two).works();
}

#[test]
fn a_session_begins_without_the_bucket() {
    let (url, proxy) = (Service::S3.new_bucket(), Service::S3.proxy());
    proxy.decide(|_| Fate::Reset);
    let gateway = replica_before("", proxy.port(), &slow(0.0), &url, "store-retry-ms = 0");
    assert_eq!(status(&Session::begin(&gateway.url())), 200);
    gateway.signal("-TERM");
    let (is_good, log) = gateway.end();
    assert!(is_good && log.contains("cannot keep a session in the bucket"), "{log}");
}

/// Replicas that are killed, where `LRO_REPLICA_KILLS` does not say.
const KILLS: usize = 3;

/// Half of them of each generation.
const CLIENTS: usize = 16;

/// What clients know of.
#[derive(Default)]
struct Known {
    /// Handles of published offloads.
    handles: Mutex<Vec<String>>,
    /// Jobs, with the number of the call.
    jobs: Mutex<Vec<(String, usize)>>,
    /// Addresses of the replicas that were killed.
    killed: Mutex<HashSet<String>>,
    answered: AtomicUsize,
    failed: AtomicUsize,
}

/// Whether an offload answers a question as it should.
fn answers(caller: &mut Caller, handle: &str) -> Result<(), String> {
    let last = json!({"handle": handle, "section": "items", "where": [{"field": "id", "op": "eq", "value": 1999}]});
    let answer = caller.call("lro_extract", &last)?;
    assert!(first_text(&answer).contains("record number 1999"), "{handle}: {answer:.500}");
    Ok(())
}

/// One thing after the other that a client does.
fn step(caller: &mut Caller, known: &Known, number: usize) -> Result<(), String> {
    match number % 4 {
        0 => {
            let large = caller.call("large", &json!({}))?;
            let offload = descriptor(&large).unwrap_or_else(|| panic!("{large:.500}"));
            known.handles.lock().unwrap().push(handle(&offload));
        }
        1 => {
            let begun = begin_job(caller, number)?;
            known.jobs.lock().unwrap().push((begun, number));
        }
        2 => {
            let handle = known.handles.lock().unwrap().last().cloned();
            handle.map_or(Ok(()), |handle| answers(caller, &handle))?;
        }
        _ => {
            let some = known.jobs.lock().unwrap().last().cloned();
            let Some((handle, begun)) = some else { return Ok(()) };
            let (state, result) = job(caller, &handle)?;
            match state.as_str() {
                "done" => assert!(repeats(&result, begun), "{result}"),
                "running" | "lost" => {}
                other => panic!("{other}: {result}"),
            }
        }
    }
    Ok(())
}

#[test]
fn replicas_killed_under_load_give_no_wrong_answer_and_lose_no_offload() {
    let url = Service::S3.new_bucket();
    let mut large = structured(&json!({"items": records(2000)}));
    large["resultType"] = json!("complete");
    let script = slow(0.02).tool("large", "", large);
    let start = |address: &str| {
        let toml = "gateway.jobs-kept = 100_000\nstore-lease-seconds = 10\n[tools.slow]\njob = \"always\"";
        replica_at(address, "", Service::S3.port(), &script, &url, toml)
    };
    let anywhere = "127.0.0.1:0";
    let balancer = Balancer::start();
    let mut replicas: Vec<Replica> = (0..3).map(|_| start(anywhere)).collect();
    replicas.iter().for_each(|replica| balancer.add(replica));
    let nginx = env::var("LRO_TEST_NGINX").ok().map(|program| Nginx::start(&program, &replicas));
    let front = nginx.as_ref().map_or(&balancer.url, |nginx| &nginx.url);
    let (known, is_over) = (Known::default(), AtomicBool::new(false));
    let client = |index: usize| {
        let mut number = index * 1_000_000 + index;
        let mut caller = if index.is_multiple_of(2) { Caller::modern(front) } else { Caller::legacy(front) };
        while !is_over.load(Ordering::Relaxed) {
            match step(&mut caller, &known, number) {
                Ok(()) => known.answered.fetch_add(1, Ordering::Relaxed),
                Err(error) => {
                    let behind = balancer.behind(&caller).unwrap_or_else(|| panic!("no replica: {error}"));
                    assert!(known.killed.lock().unwrap().contains(&behind), "an error of one that runs: {error}");
                    known.failed.fetch_add(1, Ordering::Relaxed)
                }
            };
            number += 1;
        }
    };
    let some_more = || {
        let before = known.answered.load(Ordering::Relaxed);
        wait_until("clients get answers", || known.answered.load(Ordering::Relaxed) > before + 3 * CLIENTS);
    };
    let kills: usize = env::var("LRO_REPLICA_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    thread::scope(|scope| {
        for index in 0..CLIENTS {
            scope.spawn(move || client(index));
        }
        for _ in 0..kills {
            some_more();
            let victim = replicas.remove(0);
            let address = victim.address().to_owned();
            let mut killed = known.killed.lock().unwrap();
            if nginx.is_some() {
                // They run again.
                killed.clear();
            }
            killed.insert(address.clone());
            drop(killed);
            victim.signal("-9");
            balancer.remove(&victim);
            victim.end();
            let new = start(if nginx.is_some() { &address } else { anywhere });
            if nginx.is_some() {
                // For so long it takes a gateway for failed, and when all have, it answers itself.
                thread::sleep(NGINX_FAILED_FOR);
            }
            balancer.add(&new);
            replicas.push(new);
        }
        some_more();
        is_over.store(true, Ordering::Relaxed);
    });
    let (handles, jobs) = (known.handles.into_inner().unwrap(), known.jobs.into_inner().unwrap());
    let mut states = [0, 0];
    for replica in &replicas {
        let mut caller = Caller::modern(&replica.url());
        for handle in &handles {
            answers(&mut caller, handle).unwrap_or_else(|error| panic!("{handle}: {error}"));
        }
        for (handle, number) in &jobs {
            let (state, result) = end_of(&mut caller, handle);
            assert!(state == "lost" || (state == "done" && repeats(&result, *number)), "{state}: {result}");
            states[usize::from(state == "lost")] += 1;
        }
    }
    let [done, lost] = states.map(|count| count / replicas.len());
    println!(
        "{kills} kills: {} answers, {} calls cut, {} offloads all answered, {done} jobs done, {lost} lost",
        known.answered.load(Ordering::Relaxed),
        known.failed.load(Ordering::Relaxed),
        handles.len(),
    );
}
