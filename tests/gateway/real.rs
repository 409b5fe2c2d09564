//! Large results of real servers, as real clients get them.

use std::path::{Path, PathBuf};
use std::process::Command;

use lro_tests::{read, read_data, test_data};
use serde_json::{Value, json};

use crate::clients::{Client, Connection, Way};
use crate::servers::{
    COMMITS, ENTITIES, Gateway, ROWS, Server, entity_type, everything, everything_over_http, fetch, filesystem, git,
    memory, of_repository, paged, paged_over_http, serve_text, sqlite, time,
};
use crate::support::{path_text, python};
use crate::wire::{call, shake_hands};

/// The default threshold.
const THRESHOLD: usize = 50_000;

/// What the TypeScript clients read of one line on standard streams.
const TYPESCRIPT_BYTES_MAX: usize = 10 << 20;

/// A text of the data sets with many lines, none of them empty.
const LINES: &str = "npm/vega-datasets/data/sp500-2000.csv";

/// Which tool of a server gives much and which little, and how to prove that the data is there.
struct Case {
    server: Server,
    large: Value,
    small: Value,
    proof: Proof,
}

/// How a client gets at the data of a large result without seeing it.
enum Proof {
    /// A question to `lro_extract`: its arguments, and the `results` that were worked out from the data here.
    Answer(Value, Value),
    /// A page of `lro_read`: this many lines from this one on.
    Lines { from: usize, count: usize },
    /// Two pages of a text that is a single line.
    Parts,
}

/// A call of a tool.
fn tool(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

/// The text of the first block of a result.
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// What stands for a large result: the same in the text and in the structured content, where the tool has that.
fn descriptor(client: Client, result: &Value, structured: bool) -> Value {
    let size = result.to_string().len();
    assert!(size < THRESHOLD / 2, "the reply has {size} bytes");
    let descriptor: Value = serde_json::from_str(text(result)).unwrap_or_else(|_| panic!("no descriptor: {result}"));
    assert_eq!(descriptor["offloaded"], true, "{result}");
    let half = if structured { without_fractions(&descriptor) } else { Value::Null };
    assert_eq!(without_fractions(&result["structuredContent"]), half, "both halves say the same");
    assert!(result["isError"] != true, "{result}");
    // Only a client known to take links gets some.
    let links = &result["content"].as_array().unwrap()[1..];
    let own = format!("lro://{}/", handle(&descriptor));
    let is_own = |link: &Value| link["type"] == "resource_link" && link["uri"].as_str().unwrap().starts_with(&own);
    assert!(links.iter().all(is_own) && links.is_empty() != (client == Client::Inspector), "{client:?}: {result}");
    descriptor
}

/// The same value with 1 for 1.0: a client in JavaScript knows no difference.
fn without_fractions(value: &Value) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(whole) if whole.fract() == 0.0 && whole.abs() < 1e15 => (whole as i64).into(),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(without_fractions).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, value)| (key.clone(), without_fractions(value))).collect())
        }
        _ => value.clone(),
    }
}

fn handle(descriptor: &Value) -> &str {
    descriptor["handle"].as_str().unwrap_or_else(|| panic!("no handle: {descriptor}"))
}

/// What two results have in common whatever a client adds to what it got.
fn essence(result: &Value) -> Value {
    json!({"content": result["content"], "structured": result["structuredContent"], "error": result["isError"] == true})
}

/// The results of a large and of a small call, without the gateway and without a client of others.
fn direct(case: &Case) -> (Value, Value) {
    let mut wire = case.server.wire();
    if !case.server.modern {
        shake_hands(&mut wire);
    }
    let large = wire.result(&call(1, &case.large, case.server.modern));
    let small = wire.result(&call(2, &case.small, case.server.modern));
    let size = large.to_string().chars().count();
    assert!(size > THRESHOLD, "{} gives {size} characters: {large}", case.server.name);
    assert!(small.to_string().chars().count() < THRESHOLD);
    (large, small)
}

/// All clients get a descriptor for a large result, the data when they ask for it, and a small result as it is.
fn prove(case: &Case) {
    let (large, small) = direct(case);
    std::thread::scope(|scope| {
        for client in Client::ALL {
            let (large, small) = (&large, &small);
            scope.spawn(move || {
                let gateway = Gateway::new(&[]);
                let mut connection = Connection::open(client, &gateway.before(&case.server));
                prove_with(case, &gateway, &mut connection, large, small);
            });
        }
    });
}

fn prove_with(case: &Case, gateway: &Gateway, connection: &mut Connection, large: &Value, small: &Value) {
    let result = connection.call(&case.large);
    let descriptor = descriptor(connection.client, &result, !large["structuredContent"].is_null());
    prove_data(case, gateway, connection, &descriptor, large);
    assert_eq!(essence(&connection.call(&case.small)), essence(small));
}

fn prove_data(case: &Case, gateway: &Gateway, connection: &mut Connection, descriptor: &Value, large: &Value) {
    let handle = handle(descriptor);
    match &case.proof {
        Proof::Answer(question, results) => {
            let mut arguments = question.clone();
            arguments["handle"] = handle.into();
            let answer = connection.call(&tool("lro_extract", arguments));
            assert_eq!(&answer["structuredContent"]["results"], results, "{answer}");
        }
        Proof::Lines { from, count } => {
            let lines: Vec<&str> = text(large).lines().collect();
            let arguments = json!({"handle": handle, "from": from, "limit": count});
            let page = connection.call(&tool("lro_read", arguments))["structuredContent"].take();
            assert_eq!(page["records"], json!(lines[*from..from + count]), "{page}");
            assert_eq!(page["total"], lines.len(), "{page}");
            assert_nothing_lost(gateway, handle, text(large));
            // The records of a table are counted; a text that has none is searched instead.
            let counted = connection.call(&tool("lro_extract", json!({"handle": handle, "count": true})));
            if descriptor["files"]["records"].is_null() {
                assert!(counted["isError"] == true && text(&counted).contains("search it"), "{counted}");
            } else {
                assert_eq!(counted["structuredContent"]["results"], json!([{"count": lines.len() - 1}]), "{counted}");
            }
            let wanted = lines.iter().find(|line| line.len() > 20).unwrap().trim_ascii();
            let matching: Vec<_> = (1..).zip(&lines).filter(|(_, line)| line.contains(wanted)).collect();
            let arguments = json!({"handle": handle, "search": wanted});
            let found = connection.call(&tool("lro_extract", arguments))["structuredContent"].take();
            assert_eq!(
                (&found["total"], &found["results"][0]["line"]),
                (&json!(matching.len()), &json!(matching[0].0))
            );
        }
        Proof::Parts => {
            let whole = text(large);
            let read = |arguments: Value, connection: &mut Connection| {
                connection.call(&tool("lro_read", arguments))["structuredContent"].take()
            };
            let first = read(json!({"handle": handle, "bytes": 1000}), connection);
            let second = read(json!({"handle": handle, "bytes": 1000, "cursor": first["next"]}), connection);
            let both = format!("{}{}", first["text"].as_str().unwrap(), second["text"].as_str().unwrap());
            assert!(both.len() > 1000 && whole.starts_with(&both), "{first} {second}");
            assert_eq!(first["record_bytes"], whole.len());
            assert_nothing_lost(gateway, handle, whole);
        }
    }
}

/// One of the files holds the text, byte for byte.
fn assert_nothing_lost(gateway: &Gateway, handle: &str, text: &str) {
    let files = gateway.files(handle);
    assert!(
        files.iter().any(|file| std::fs::read(file).unwrap() == text.as_bytes()),
        "the text is in none of {files:?}"
    );
}

fn flights() -> PathBuf {
    test_data("npm/vega-datasets/data/flights-200k.json")
}

/// The file server on the data sets, and a question about 200,000 flights.
fn flights_case() -> Case {
    let flights = flights().canonicalize().unwrap();
    let records: Vec<Value> = serde_json::from_str(&read(&flights)).unwrap();
    let late = |record: &&Value| record["delay"].as_i64().unwrap() > 120 && record["distance"].as_i64().unwrap() < 300;
    let count = records.iter().filter(late).count();
    assert!(count > 100);
    let question = json!({
        "section": "records",
        "where": [{"field": "delay", "op": "gt", "value": 120}, {"field": "distance", "op": "lt", "value": 300}],
        "count": true,
    });
    Case {
        server: filesystem(flights.parent().unwrap()),
        large: tool("read_text_file", json!({"path": path_text(&flights)})),
        small: tool("read_text_file", json!({"path": path_text(&flights.with_file_name("cars.json")), "head": 3})),
        proof: Proof::Answer(question, json!([{ "count": count }])),
    }
}

#[test]
fn files() {
    prove(&flights_case());
}

// Without the gateway the same call ends the connection of a TypeScript client.
#[test]
fn ten_megabytes_without_the_gateway() {
    let case = flights_case();
    let (large, _) = direct(&case);
    assert!(large.to_string().len() > TYPESCRIPT_BYTES_MAX);
    let mut connection = Connection::open(Client::Sdk1, &case.server.way());
    let error = connection.step(&json!({ "call": case.large })).unwrap_err();
    assert!(error.contains("Connection closed"), "{error}");
}

// Two lists in one result.
#[test]
fn graph() {
    let places = (0..ENTITIES).filter(|number| entity_type(*number) == "place").count();
    let question = json!({"section": "entities", "group": {"by": ["entityType"]}, "where": [{"field": "entityType", "op": "eq", "value": "place"}]});
    prove(&Case {
        server: memory(),
        large: tool("read_graph", json!({})),
        small: tool("search_nodes", json!({"query": "saw 17"})),
        proof: Proof::Answer(question, json!([{"entityType": "place", "count": places}])),
    });
}

// A list that FastMCP wraps into an object, and a number that it wraps.
#[test]
fn wrapped_lists() {
    let sum: u64 = (0..3000).filter(|number| number % 2 == 0).map(|number| number * number).sum();
    let question = json!({
        "where": [{"field": "even", "op": "eq", "value": true}],
        "group": {"by": [], "aggregates": [{"kind": "sum", "field": "square", "as": "sum"}]},
    });
    prove(&Case {
        server: paged(),
        large: tool("rows", json!({"count": 3000})),
        small: tool("number_3", json!({})),
        proof: Proof::Answer(question, json!([{ "sum": sum }])),
    });
}

#[test]
fn history() {
    let server = git();
    let large = of_repository(&server, "git_log", json!({"max_count": COMMITS}));
    let small = of_repository(&server, "git_status", json!({}));
    prove(&Case { server, large, small, proof: Proof::Lines { from: 1000, count: 12 } });
}

#[test]
fn page() {
    let text = read_data(LINES);
    let url = serve_text(text.clone());
    let nothing = serve_text("nothing to see".to_owned());
    prove(&Case {
        server: fetch(),
        large: tool("fetch", json!({"url": url, "max_length": text.len() + 1000, "raw": true})),
        small: tool("fetch", json!({"url": nothing, "raw": true})),
        proof: Proof::Lines { from: 5000, count: 7 },
    });
}

// Rows as Python writes them, in one line.
#[test]
fn database() {
    let query = |query: String| tool("read_query", json!({ "query": query }));
    prove(&Case {
        server: sqlite(),
        large: query("select * from numbers".to_owned()),
        small: query(format!("select name from numbers where id = {}", ROWS - 1)),
        proof: Proof::Parts,
    });
}

/// A large text that still fits into an argument of a command.
fn message() -> String {
    read_data(LINES).chars().take(2 * THRESHOLD).collect()
}

#[test]
fn echo() {
    let message = message();
    prove(&Case {
        server: everything(),
        large: tool("echo", json!({ "message": message })),
        small: tool("get-structured-content", json!({"location": "Chicago"})),
        proof: Proof::Lines { from: 3, count: 40 },
    });
}

// Nothing of this server is large, and a validating client gets all of it as it is.
#[test]
fn times() {
    let server = time();
    let convert =
        tool("convert_time", json!({"source_timezone": "Asia/Tokyo", "time": "12:00", "target_timezone": "UTC"}));
    std::thread::scope(|scope| {
        for client in Client::ALL {
            let (server, convert) = (&server, &convert);
            scope.spawn(move || {
                let gateway = Gateway::new(&[]);
                let result = Connection::open(client, &gateway.before(server)).call(convert);
                assert_eq!(result["structuredContent"]["time_difference"], "-9.0h", "{client:?}: {result}");
                let text: Value = serde_json::from_str(text(&result)).unwrap();
                assert_eq!(text, result["structuredContent"]);
            });
        }
    });
}

// What the client hears of the gateway, besides what the server says.
#[test]
fn guidance() {
    let server = everything();
    let gateway = Gateway::new(&[]);
    let mut direct = Connection::open(Client::Sdk1, &server.way());
    let mut connection = Connection::open(Client::Sdk1, &gateway.before(&server));
    let of_server = direct.about["instructions"].as_str().unwrap();
    let instructions = connection.about["instructions"].as_str().unwrap();
    let added = instructions.strip_prefix(of_server).unwrap_or_else(|| panic!("{instructions}"));
    assert!(added.contains("lro_extract") && added.contains("lro_read"), "{added}");
    assert_eq!(connection.about["server"], direct.about["server"]);
    assert_eq!(connection.about["capabilities"], direct.about["capabilities"]);
    let mut tools = direct.tools();
    tools.extend(["lro_extract".to_owned(), "lro_read".to_owned()]);
    assert_eq!(connection.tools(), tools);
}

// Progress, and questions of the server to the client.
#[test]
fn conversations() {
    let server = everything();
    let steps = [
        json!({"call": {"name": "trigger-long-running-operation", "arguments": {"duration": 0.3, "steps": 3}}, "progress": true}),
        json!({"call": {"name": "trigger-sampling-request", "arguments": {"prompt": "How many?"}}}),
        json!({"call": {"name": "get-roots-list", "arguments": {}}}),
        json!({"read": {"uri": "demo://resource/static/document/features.md"}}),
        json!({"prompt": {"name": "args-prompt", "arguments": {"city": "Bern"}}}),
        json!({"ping": null}),
    ];
    for client in [Client::Sdk1, Client::Client2, Client::FastMcp] {
        let gateway = Gateway::new(&[]);
        let mut direct = Connection::open(client, &server.way());
        let mut connection = Connection::open(client, &gateway.before(&server));
        for step in &steps {
            let (mut expected, mut answer) = (direct.step(step).unwrap(), connection.step(step).unwrap());
            for told in [expected["progress"].take(), answer["progress"].take()] {
                // A client that has the result may be done before it looks at the last of them.
                assert!(step["progress"] != true || told[1]["progress"].as_f64() == Some(2.0), "{client:?}: {told}");
            }
            assert_eq!(answer, expected, "{client:?}: {step}");
        }
    }
}

// An error stays one and can be read, however long it is.
#[test]
fn errors() {
    let file = path_text(&flights());
    let server = filesystem(flights().parent().unwrap());
    let (short, long) = (format!("{file}.lost"), format!("{file}/{}", "x".repeat(2 * THRESHOLD)));
    std::thread::scope(|scope| {
        for client in Client::ALL {
            let (server, short, long) = (&server, &short, &long);
            scope.spawn(move || {
                let gateway = Gateway::new(&[]);
                let mut connection = Connection::open(client, &gateway.before(server));
                for path in [short, long] {
                    let result = connection.call(&tool("read_text_file", json!({ "path": path })));
                    assert_eq!(result["isError"], true, "{client:?}: {result}");
                    let text = result["content"][0]["text"].as_str().unwrap();
                    assert!(
                        ["ENOENT", "ENAMETOOLONG", "ENOTDIR", "denied"].iter().any(|word| text.contains(word)),
                        "{client:?}: {text}"
                    );
                }
            });
        }
    });
}

// What is not text becomes a file.
#[test]
fn binary() {
    let server = everything();
    // Digits of a generator of numbers, which gzip cannot make much smaller than half.
    let digits: String =
        std::iter::successors(Some(1_u64), |seed| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)))
            .take(20_000)
            .map(|seed| format!("{:08x}", seed >> 32))
            .collect();
    let arguments = json!({"name": "digits.gz", "outputType": "resource", "data": format!("data:text/plain,{digits}")});
    let gzip = tool("gzip-file-as-resource", arguments);
    let mut wire = server.wire();
    shake_hands(&mut wire);
    let result = wire.result(&call(1, &gzip, false));
    let blob = result["content"][0]["resource"]["blob"].as_str().unwrap();
    assert!(blob.len() > THRESHOLD);
    for client in [Client::Sdk1, Client::Client2, Client::FastMcp] {
        let gateway = Gateway::new(&[]);
        let mut connection = Connection::open(client, &gateway.before(&server));
        let descriptor = descriptor(client, &connection.call(&gzip), false);
        let handle = handle(&descriptor);
        let page =
            connection.call(&tool("lro_read", json!({"handle": handle, "bytes": 3000})))["structuredContent"].take();
        let part = page["base64"].as_str().unwrap();
        assert!(part.len() > 1000 && blob.starts_with(part.trim_end_matches('=')), "{page}");
        let bytes = blob.len() / 4 * 3 - blob.matches('=').count();
        assert_eq!(page["record_bytes"], bytes, "{page}");
        let unpacked = gateway.files(handle).iter().filter_map(|file| gunzip(file)).next();
        assert!(unpacked.is_some_and(|text| text == digits), "{:?}", gateway.files(handle));
    }
}

fn gunzip(file: &Path) -> Option<String> {
    let program = "import gzip, sys; sys.stdout.write(gzip.open(sys.argv[1], 'rt').read())";
    let output = Command::new(python()).args(["-c", program]).arg(file).output().unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

// The large result of a task.
#[test]
fn tasks() {
    let gateway = Gateway::new(&[]);
    let (result, mut connection) = task_result(&gateway, &"x".repeat(THRESHOLD));
    let handle = handle(&descriptor(Client::Sdk1, &result, false)).to_owned();
    let page = connection.call(&tool("lro_read", json!({"handle": handle, "limit": 1})))["structuredContent"].take();
    assert!(page["text"].as_str().is_some_and(|text| text.starts_with("# Research Report: xxx")), "{page}");
}

// The state of a task is no result, however small results have to be.
#[test]
fn states_of_tasks() {
    task_result(&Gateway::new(&["--threshold", "100"]), "x");
}

/// Runs the task of the reference server, which takes four seconds.
fn task_result(gateway: &Gateway, topic: &str) -> (Value, Connection) {
    let mut connection = Connection::open(Client::Sdk1, &gateway.before(&everything()));
    // This client has to know that the tool needs a task.
    connection.tools();
    let messages = connection.outcome("task", &tool("simulate-research-query", json!({ "topic": topic })));
    let messages = messages.as_array().unwrap();
    let (first, last) = (messages.first().unwrap(), messages.last().unwrap());
    assert!(first["type"] == "taskCreated" && last["type"] == "result", "{messages:?}");
    (last["result"].clone(), connection)
}

// Lists in pages.
#[test]
fn lists() {
    let server = paged();
    for client in [Client::Sdk1, Client::Client2, Client::FastMcp] {
        let gateway = Gateway::new(&[]);
        let mut direct = Connection::open(client, &server.way());
        let mut connection = Connection::open(client, &gateway.before(&server));
        for step in ["resources", "prompts"] {
            let expected = direct.outcome(step, &Value::Null);
            assert_eq!(expected.as_array().unwrap().len(), 5);
            assert_eq!(connection.outcome(step, &Value::Null), expected, "{client:?}");
        }
        // What the gateway adds ends the first page of three.
        let mut tools = direct.tools();
        assert_eq!(tools.len(), 8);
        tools.splice(3..3, ["lro_extract".to_owned(), "lro_read".to_owned()]);
        assert_eq!(connection.tools(), tools, "{client:?}");
        let templates = connection.outcome("templates", &Value::Null);
        let mut own = templates.as_array().unwrap().clone();
        assert!(own.remove(3)["uriTemplate"].as_str().unwrap().starts_with("lro://"), "{templates}");
        assert_eq!(Value::from(own), direct.outcome("templates", &Value::Null), "{client:?}");
    }
}

// A server over HTTP, both generations of the protocol, behind the gateway on standard streams.
#[test]
fn proxy() {
    let (legacy, modern) = (everything_over_http(), paged_over_http());
    let message = message();
    let lines: Vec<&str> = message.lines().collect();
    std::thread::scope(|scope| {
        for client in Client::ALL {
            let (legacy, modern, message, lines) = (&legacy.url, &modern.url, &message, &lines);
            scope.spawn(move || {
                let gateway = Gateway::new(&[]);
                let mut connection = Connection::open(client, &gateway.before_url(legacy));
                let descriptor =
                    descriptor(client, &connection.call(&tool("echo", json!({ "message": message }))), false);
                let arguments = json!({"handle": handle(&descriptor), "from": 9, "limit": 2});
                let page = connection.call(&tool("lro_read", arguments));
                assert_eq!(page["structuredContent"]["records"], json!(lines[9..11]), "{client:?}: {page}");
                let small = connection.call(&tool("get-structured-content", json!({"location": "Chicago"})));
                assert_eq!(small["structuredContent"]["humidity"], 82, "{client:?}: {small}");
                count_rows(client, &gateway.before_url(modern));
            });
        }
    });
}

/// Asks the FastMCP server for a table, and the gateway how many of its rows are even.
fn count_rows(client: Client, way: &Way) -> Value {
    let mut connection = Connection::open(client, way);
    let descriptor = descriptor(client, &connection.call(&tool("table", json!({"count": 3001}))), true);
    let question =
        json!({"handle": handle(&descriptor), "where": [{"field": "even", "op": "eq", "value": true}], "count": true});
    let answer = connection.call(&tool("lro_extract", question));
    assert_eq!(answer["structuredContent"]["results"], json!([{"count": 1501}]), "{client:?}: {answer}");
    let small = connection.call(&tool("table", json!({"count": 1})));
    assert_eq!(small["structuredContent"], json!({"rows": [{"number": 0, "square": 0, "even": true}], "count": 1}));
    descriptor
}

// The gateway over HTTP. Its clients may be anywhere: no paths, no shell, and all the data by the handle.
#[test]
fn listening() {
    let case = flights_case();
    let (large, small) = direct(&case);
    let gateway = Gateway::new(&[]);
    let before_child = gateway.listen(&case.server);
    let upstream = paged_over_http();
    let before_url = gateway.listen_before_url(&upstream.url);
    let directory = path_text(gateway.directory.path());
    std::thread::scope(|scope| {
        for client in Client::ALL {
            let (case, gateway, large, small) = (&case, &gateway, &large, &small);
            let (child, url) = (Way::Url(before_child.url.clone()), Way::Url(before_url.url.clone()));
            let directory = directory.as_str();
            scope.spawn(move || {
                let mut connection = Connection::open(client, &child);
                prove_with(case, gateway, &mut connection, large, small);
                let descriptor = descriptor(client, &connection.call(&case.large), true);
                assert_shell_less(&descriptor, directory);
                let uri = format!("lro://{}/records?offset=2&limit=1", handle(&descriptor));
                let resource = connection.outcome("read", &json!({ "uri": uri }));
                let record: Value = serde_json::from_str(resource["contents"][0]["text"].as_str().unwrap()).unwrap();
                assert_eq!(record, json!({"delay": 177, "distance": 491, "time": 0.0}), "{client:?}: {resource}");
                assert_shell_less(&count_rows(client, &url), directory);
            });
        }
    });
    assert_eq!(before_child.process.errors().matches("panicked").count(), 0);
}

/// A reader of this descriptor needs neither the disk nor a shell.
fn assert_shell_less(descriptor: &Value, directory: &str) {
    let text = descriptor.to_string();
    for word in [directory, "jq ", "sed ", "tail "] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(descriptor["guidance"].as_str().unwrap().contains("lro_extract"), "{text}");
}
