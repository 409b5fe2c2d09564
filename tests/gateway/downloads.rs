//! Files by signed addresses, as the proposal SEP-2631 says: `seps/2631-file-objects-and-transfer.md` of 2026-06-16.

use std::process::{Command, Output, Stdio};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use lro_host::store::Digest;
use lro_tests::{target, wait_until};
use serde_json::{Value, json};

use crate::faults::{FaultyHttp, Gate};
use crate::http::{Exchange, Headers, Reply, bytes_of, connect, post};
use crate::scripted::{Script, Scripted, Setup, descriptor, handle, records, structured, text};
use crate::support::Environment;
use crate::wire::{MODERN, initialize, modern_meta, request};

const TOKENS: &str = "[gateway.tokens]\nann = \"env:ANN\"\nbob = \"env:BOB\"\n";
const VARIABLES: [(&str, &str); 2] = [("ANN", "token-of-ann"), ("BOB", "token-of-bob")];
const ON: [&str; 2] = ["--file-transfer", "true"];
const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// A client of 2026-07-28 that declares what it can do with files.
struct Client<'a> {
    url: &'a str,
    token: &'a str,
    files: Value,
}

impl<'a> Client<'a> {
    fn new(url: &'a str, token: &'a str) -> Self {
        Self { url, token, files: json!({"download": true, "transports": ["https"]}) }
    }

    fn ask(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = modern_meta();
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"files": self.files});
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let token = if self.token.is_empty() { String::new() } else { format!("Bearer {}", self.token) };
        let headers =
            [("MCP-Protocol-Version", MODERN), ("Mcp-Method", method), ("Mcp-Name", &name), ("Authorization", &token)];
        post(self.url, &headers, &request(1, method, params)).answer()
    }

    /// The files in the result of a call.
    fn files(&self, tool: &str, arguments: Value) -> (Value, Vec<Value>) {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let result = answer["result"].clone();
        let blocks = result["content"].as_array().unwrap_or_else(|| panic!("{answer:.1000}"));
        let files = blocks.iter().filter(|block| block["type"] == "file").map(|block| block["file"].clone()).collect();
        (result, files)
    }

    fn authorize(&self, uri: &Value) -> Value {
        self.ask("files/authorizeDownload", json!({ "uri": uri }))
    }

    /// The address of a file.
    fn address(&self, uri: &Value) -> String {
        let answer = self.authorize(uri);
        let url = answer["result"]["download"]["url"].as_str();
        url.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}

fn get(url: &str, headers: Headers<'_>) -> Reply {
    Exchange::open(url, "GET", headers, b"").finish()
}

fn items(count: usize) -> Script {
    Script::new().call("large", structured(&json!({ "items": records(count) })))
}

fn with_tokens(script: &Script, flags: &[&str]) -> Scripted {
    let flags = [&LISTEN, &ON, flags].concat();
    script.silent(&Setup { flags: &flags, toml: TOKENS, variables: &VARIABLES, ..Setup::default() })
}

/// A gateway with one file, its value and its address.
fn one_file(flags: &[&str]) -> (Scripted, String, Value, String) {
    let mut gateway = with_tokens(&items(2_000), flags);
    let url = gateway.url();
    let client = Client::new(&url, "token-of-ann");
    let (_, files) = client.files("large", json!({}));
    let address = client.address(&files[0]["uri"]);
    (gateway, url, files[0].clone(), address)
}

/// The SHA-256 of bytes as the proposal spells it.
fn digest(bytes: &[u8]) -> Value {
    json!({"algorithm": "sha-256", "value": URL_SAFE_NO_PAD.encode(Digest::of(bytes).0)})
}

// Section 8: a tool result has items of type `file`; a client verifies the byte count and the digest of the complete
// file. Section 4: an `AuthorizedFile` has the file and the descriptor in parallel.
#[test]
fn a_file_is_what_its_value_says() {
    let (_gateway, url, value, address) = one_file(&[]);
    let members: Vec<&String> = value.as_object().unwrap().keys().collect();
    assert_eq!(members, ["digest", "mimeType", "name", "size", "uri"], "{value}");
    assert!(value["uri"].as_str().unwrap().starts_with("mcp-file://lro-filter/"), "{value}");
    let authorized = Client::new(&url, "token-of-ann").authorize(&value["uri"])["result"].clone();
    assert_eq!((&authorized["file"], &authorized["resultType"]), (&value, &json!("complete")), "{authorized}");
    let download = &authorized["download"];
    assert_eq!((&download["transport"], &download["method"]), (&json!("https"), &json!("GET")), "{download}");
    let expires = download["expiresAt"].as_str().unwrap();
    assert!(expires.len() == 20 && expires.ends_with('Z'), "{expires}");

    let reply = get(&address, &[]);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(json!(reply.body.len()), value["size"]);
    assert_eq!(digest(&reply.body), value["digest"]);
    let lines: Vec<Value> = reply.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(json!(lines), records(2_000));
    let name = value["name"].as_str().unwrap();
    assert_eq!(reply.headers["content-disposition"], format!("attachment; filename=\"{name}\""));
    assert_eq!(json!(reply.headers["content-type"]), value["mimeType"]);
    assert_eq!(reply.headers["etag"], format!("\"{}\"", Digest::of(&reply.body)));
    assert_eq!(reply.headers["x-content-type-options"], "nosniff");

    let mut head = Exchange::open(&address, "HEAD", &[("Range", "bytes=0-9")], b"");
    let mut expected = reply.headers.clone();
    expected.insert("date".to_owned(), head.headers["date"].clone());
    assert_eq!((head.status, &head.headers), (200, &expected));
    assert!(head.piece().is_err(), "the response to HEAD has a body");
}

// Before a command and before a server over HTTP, for clients of both generations.
#[test]
fn only_clients_that_declare_files_get_them() {
    let upstream = FaultyHttp::start();
    let huge = || json!({"bytes": 200_000});
    for gate in [Gate::listening(&ON), Gate::proxy(&ON, &upstream.url, &Environment::new())] {
        let mut client = Client::new(&gate.url, "");
        let (_, files) = client.files("huge", huge());
        assert_eq!(files.len(), 1);
        assert_eq!(get(&client.address(&files[0]["uri"]), &[]).status, 200);
        for files in [json!({"download": true}), json!({"download": true, "transports": ["ftp", "https"]})] {
            client.files = files;
            assert_eq!(client.files("huge", huge()).1.len(), 1, "{}", client.files);
        }
        for files in [
            Value::Null,
            json!({}),
            json!({"upload": true, "transports": ["https"]}),
            json!({"download": true, "transports": ["ftp"]}),
            json!({"download": "true"}),
            json!([true]),
        ] {
            client.files = files;
            let (result, files) = client.files("huge", huge());
            assert!(files.is_empty() && descriptor(&result).is_some(), "{}: {result:.500}", client.files);
        }
        for (capabilities, count) in
            [(json!({"files": {"download": true, "transports": ["https"]}}), 1), (json!({}), 0)]
        {
            let mut hello = initialize();
            hello["capabilities"] = capabilities;
            let reply = post(&gate.url, &[], &request(1, "initialize", hello));
            let session = reply.headers["mcp-session-id"].clone();
            let ask = |id: u32, method: &str, params: Value| {
                post(&gate.url, &[("Mcp-Session-Id", &session)], &request(id, method, params)).answer()
            };
            let called = ask(2, "tools/call", json!({"name": "huge", "arguments": huge()}));
            let blocks = called["result"]["content"].as_array().unwrap().clone();
            let files: Vec<&Value> = blocks.iter().filter(|block| block["type"] == "file").collect();
            assert_eq!(files.len(), count, "{called:.500}");
            for file in files {
                let authorized = ask(3, "files/authorizeDownload", json!({"uri": file["file"]["uri"]}));
                assert_eq!(get(authorized["result"]["download"]["url"].as_str().unwrap(), &[]).status, 200);
            }
        }
    }
}

// RFC 9110, sections 13 and 14.
#[test]
fn ranges_and_conditions() {
    let (_gateway, _, _, address) = one_file(&[]);
    let whole = get(&address, &[]);
    let (bytes, etag) = (whole.body.len(), whole.headers["etag"].clone());
    let last = bytes - 1;
    for (range, expected) in [
        ("bytes=0-0", 0..1),
        ("bytes=5-9", 5..10),
        ("BYTES=5-9", 5..10),
        ("bytes=5-", 5..bytes),
        ("bytes=-7", bytes - 7..bytes),
        ("bytes=-99999999999999999999999", 0..bytes),
        ("bytes=3-99999999999999999999999", 3..bytes),
        (&format!("bytes={last}-"), last..bytes),
    ] {
        let part = get(&address, &[("Range", range)]);
        let shown = format!("bytes {}-{}/{bytes}", expected.start, expected.end - 1);
        assert_eq!((part.status, &part.headers["content-range"]), (206, &shown), "{range}");
        assert!(part.body == whole.body[expected] && part.headers["etag"] == etag, "{range}");
    }
    for range in [&format!("bytes={bytes}-"), "bytes=99999999999999999999999-", "bytes=-0"] {
        let part = get(&address, &[("Range", range)]);
        assert_eq!(
            (part.status, part.headers["content-range"].as_str()),
            (416, &*format!("bytes */{bytes}")),
            "{range}"
        );
    }
    // What is invalid, or several ranges, is ignored.
    for range in
        ["bytes=9-5", "bytes=0-1,5-6", "lines=0-1", "bytes=", "bytes=-", "bytes=a-b", "bytes=+1-2", "bytes=1--2", "5-9"]
    {
        let part = get(&address, &[("Range", range)]);
        assert_eq!((part.status, part.body.len()), (200, bytes), "{range}");
    }
    let twice = get(&address, &[("Range", "bytes=0-1"), ("Range", "bytes=5-6")]);
    assert_eq!((twice.status, twice.body.len()), (200, bytes));

    let old = format!("\"{}\"", Digest::of(b"old"));
    for (if_range, status) in
        [(etag.as_str(), 206), (old.as_str(), 200), (&format!("W/{etag}"), 200), ("Mon, 23 Nov 2026 10:00:00 GMT", 200)]
    {
        let part = get(&address, &[("Range", "bytes=5-9"), ("If-Range", if_range)]);
        assert_eq!(part.status, status, "{if_range}");
    }
    for (known, status) in
        [(etag.as_str(), 304), (&format!("{old}, W/{etag}"), 304), ("*", 304), (old.as_str(), 200), ("", 200)]
    {
        let reply = get(&address, &[("If-None-Match", known)]);
        assert_eq!((reply.status, &reply.headers["etag"]), (status, &etag), "{known}");
        assert_eq!(reply.body.len(), if status == 304 { 0 } else { bytes }, "{known}");
    }
}

#[test]
fn addresses_cannot_be_forged() {
    let (_gateway, url, value, address) = one_file(&[]);
    let (base, ticket) = address.split_at(address.find("/lro/files/").unwrap() + "/lro/files/".len());
    // Each character, as all of them are signed.
    for at in 0..ticket.len() {
        let other = if &ticket[at..=at] == "A" { "B" } else { "A" };
        let forged = format!("{base}{}{other}{}", &ticket[..at], &ticket[at + 1..]);
        // The last one has bits that mean nothing, and have to be zero.
        assert_eq!(get(&forged, &[]).status, 404, "{at}: {forged}");
    }
    let ann = Client::new(&url, "token-of-ann");
    let page = ann.ask("tools/call", json!({"name": "lro_read", "arguments": {"handle": uri_handle(&value)}}));
    let cursor = page["result"]["structuredContent"]["next"].as_str().unwrap().to_owned();
    let handle = uri_handle(&value);
    for path in [
        "",
        ".",
        "..",
        "../../mcp",
        "%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        &handle,
        &cursor,
        &format!("{handle}/{}", value["name"].as_str().unwrap()),
        &format!("{ticket}/"),
        &format!("{ticket}="),
        &format!("./{ticket}"),
        &format!("{ticket}%00"),
        &ticket.repeat(20),
    ] {
        let reply = get(&format!("{base}{path}"), &[("Authorization", "Bearer token-of-ann")]);
        assert_eq!(reply.status, 404, "{path}: {}", reply.text());
    }
    // A query says no more than a format.
    assert_eq!(get(&format!("{address}?file=1"), &[]).status, 200);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let reply = Exchange::open(&address, method, &[("Content-Length", "0")], b"").finish();
        assert_eq!((reply.status, reply.headers["allow"].as_str()), (405, "GET, HEAD"), "{method}");
    }
    assert_eq!(get(&address, &[("Host", "evil.example")]).status, 403);
    assert_eq!(get(&address, &[("Origin", "https://evil.example")]).status, 403);
}

fn uri_handle(value: &Value) -> String {
    value["uri"].as_str().unwrap().split('/').nth(3).unwrap().to_owned()
}

// An address is good for who has it; only the tenant of the file gets one.
#[test]
fn a_file_is_its_tenants_alone() {
    let (gateway, url, value, address) = one_file(&[]);
    let bob = Client::new(&url, "token-of-bob");
    let refused = bob.authorize(&value["uri"]);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(!refused.to_string().contains(&gateway.directory().display().to_string()), "{refused}");
    let (_, others) = bob.files("large", json!({}));
    let mixed = others[0]["uri"].as_str().unwrap().replace(&uri_handle(&others[0]), &uri_handle(&value));
    assert_eq!(bob.authorize(&json!(mixed))["error"]["code"], -32602);
    assert_eq!(Client::new(&url, "wrong").authorize(&value["uri"])["error"]["code"], -32600);
    // No token, or another's, makes no difference to a signed address.
    for token in ["", "Bearer token-of-bob", "Bearer wrong"] {
        assert_eq!(get(&address, &[("Authorization", token)]).status, 200, "{token}");
    }
}

#[test]
fn uris_that_are_none_of_these_files() {
    let (_gateway, url, value, _) = one_file(&[]);
    let ann = Client::new(&url, "token-of-ann");
    let handle = uri_handle(&value);
    for rest in [
        "",
        "x",
        "x/y",
        &handle,
        &format!("{handle}/"),
        &format!("{handle}/manifest.json"),
        &format!("{handle}/../x"),
        &format!("{handle}/..%2f..%2fx"),
        &format!("{handle}/{}/x", value["name"].as_str().unwrap()),
        "01ARZ3NDEKTSV4RRFFQ69G5FAV/items.jsonl",
    ] {
        let refused = ann.authorize(&json!(format!("mcp-file://lro-filter/{rest}")));
        assert_eq!(refused["error"]["code"], -32602, "{rest}: {refused}");
    }
    // Files of others are the server's to answer for.
    for uri in ["mcp-file://server/file_01HXYZ", "lro://x/y"] {
        let answer = ann.authorize(&json!(uri));
        assert!(!answer.to_string().contains("mcp-file://lro-filter"), "{uri}: {answer}");
    }
}

#[test]
fn files_and_addresses_expire() {
    let (gateway, _, _, address) = one_file(&["--download-seconds", "1"]);
    wait_until("the address has expired", || get(&address, &[]).status == 410);
    assert!(get(&address, &[]).text().contains("files/authorizeDownload"));
    drop(gateway);

    let (gateway, url, value, address) = one_file(&[]);
    std::fs::remove_dir_all(&gateway.offloads()[0]).unwrap();
    let gone = get(&address, &[]);
    assert!(gone.status == 410 && gone.text().contains("call the tool again"), "{}", gone.text());
    let refused = Client::new(&url, "token-of-ann").authorize(&value["uri"]);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
}

// The same values by another reader, in both formats.
#[test]
fn records_become_tables() {
    let (_gateway, _, _, address) = one_file(&[]);
    let folder = tempfile::TempDir::new().unwrap();
    let mut tags = Vec::new();
    for (format, media_type) in [("csv", "text/csv; charset=utf-8"), ("parquet", "application/vnd.apache.parquet")] {
        let table = format!("{address}?format={format}");
        let reply = get(&table, &[("Range", "bytes=0-9")]);
        assert!(reply.status == 200 && reply.whole, "{format}: {} {}", reply.status, reply.text());
        assert_eq!(reply.headers["content-type"], media_type);
        assert_eq!(reply.headers["content-disposition"], format!("attachment; filename=\"items.{format}\""));
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
        assert_eq!(reply.headers.get("content-length"), None);
        let etag = reply.headers["etag"].clone();
        assert_eq!(get(&table, &[("If-None-Match", &etag)]).status, 304);
        let head = Exchange::open(&table, "HEAD", &[], b"");
        assert_eq!((head.status, &head.headers["etag"]), (200, &etag));
        tags.push(etag);
        let path = folder.path().join(format!("items.{format}"));
        std::fs::write(&path, &reply.body).unwrap();
        let query = format!("SELECT * FROM '{}' ORDER BY id", path.display());
        assert_eq!(read_by_duckdb(&query), records(2_000), "{format}");
    }
    tags.push(get(&address, &[]).headers["etag"].clone());
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
    for query in ["format=xlsx", "format=", "format=CSV"] {
        let refused = get(&format!("{address}?{query}"), &[]);
        assert!(refused.status == 400 && refused.text().contains("`csv`"), "{query}: {}", refused.text());
    }
}

/// Rows as objects.
fn read_by_duckdb(query: &str) -> Value {
    let program = "import duckdb, json, sys\n\
                   rows = duckdb.sql(sys.argv[1])\n\
                   print(json.dumps([dict(zip(rows.columns, row)) for row in rows.fetchall()], default=str))";
    let python = target().join("test-data/venv/bin/python");
    let output = Command::new(python).args(["-c", program, query]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

// Too many columns, and text: errors before the first byte. A client that leaves does not hold the gateway.
#[test]
fn what_becomes_no_table_says_why() {
    let wide: Vec<Value> = (0..40)
        .map(|row| {
            Value::Object((0..40).map(|field| (format!("field_{row}_{field}"), json!("x".repeat(40)))).collect())
        })
        .collect();
    let many: Vec<Value> = (0..200_000).map(|id| json!({"id": id, "name": format!("name {id}")})).collect();
    let script = Script::new()
        .call("wide", structured(&json!({ "items": wide })))
        .call("text", text(&"many words ".repeat(10_000)))
        .call("many", structured(&json!({ "items": many })));
    let mut gateway = with_tokens(&script, &["--requests", "1"]);
    let url = gateway.url();
    let ann = Client::new(&url, "token-of-ann");
    for (tool, reason) in [("wide", "more than 1000 fields"), ("text", "only files of records")] {
        let (_, files) = ann.files(tool, json!({}));
        for format in ["csv", "parquet"] {
            let refused = get(&format!("{}?format={format}", ann.address(&files[0]["uri"])), &[]);
            assert!(refused.status == 400 && refused.text().contains(reason), "{tool}, {format}: {}", refused.text());
        }
    }
    let (_, files) = ann.files("many", json!({}));
    let address = format!("{}?format=csv", ann.address(&files[0]["uri"]));
    let mut left = connect(&address);
    std::io::Write::write_all(&mut left, &bytes_of(&address, "GET", &[], b"")).unwrap();
    assert!(left.peek(&mut [0]).is_ok_and(|bytes| bytes > 0));
    drop(left);
    wait_until("its place is free", || get(&address, &[]).status == 200);
    assert_eq!(get(&address, &[]).text().lines().count(), 200_001);
}

#[test]
fn a_changed_file_is_not_handed_out() {
    let (gateway, _, value, address) = one_file(&[]);
    let path = gateway.offloads()[0].join(value["name"].as_str().unwrap());
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 3;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let root = gateway.directory().display().to_string();
    for address in [address.clone(), format!("{address}?format=csv")] {
        let reply = get(&address, &[]);
        assert!(reply.status == 500 && !reply.text().contains(&root), "{}: {}", reply.status, reply.text());
    }
}

#[test]
fn a_client_that_does_not_read_loses_its_download() {
    let script = Script::new().call("large", text(&"many words ".repeat(3 << 20))).call("small", text("next"));
    let mut gateway = with_tokens(&script, &["--write-timeout-ms", "500", "--requests", "1"]);
    let url = gateway.url();
    let ann = Client::new(&url, "token-of-ann");
    let (_, files) = ann.files("large", json!({}));
    let address = ann.address(&files[0]["uri"]);
    let mut stream = connect(&address);
    std::io::Write::write_all(&mut stream, &bytes_of(&address, "GET", &[], b"")).unwrap();
    assert!(stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0));
    // It has the only place, until it is closed.
    wait_until("its place is free", || ann.ask("tools/call", json!({"name": "small"}))["result"].is_object());
    assert!(!Exchange::read(stream).finish().whole, "all of it arrived");
    let whole = get(&address, &[]);
    assert!(whole.whole && whole.status == 200);
    assert_eq!(json!(whole.headers["content-length"].parse::<u64>().unwrap()), files[0]["size"]);
}

// A descriptor names all files anyway.
#[test]
fn file_values_give_way_to_the_limit_of_a_reply() {
    let many: serde_json::Map<String, Value> = (0..12).map(|key| (format!("k{key}"), records(600))).collect();
    let script = Script::new().call("large", structured(&Value::Object(many)));
    for (toml, has_files) in [("", true), ("[clients.lro-tests-wire]\nresult-limit = 3_000\n", false)] {
        let toml = format!("level = \"pointer\"\n{TOKENS}{toml}");
        let mut gateway = script.silent(&Setup {
            flags: &[LISTEN, ON].concat(),
            toml: &toml,
            variables: &VARIABLES,
            ..Setup::default()
        });
        let url = gateway.url();
        let (result, files) = Client::new(&url, "token-of-ann").files("large", json!({}));
        assert_eq!(files.len() >= 12, has_files, "{toml}: {}", result);
        assert_eq!(handle(&descriptor(&result).unwrap()).len(), 26);
    }
}

#[test]
fn where_addresses_lead() {
    let ended = |flags: &[&str]| {
        let home = tempfile::TempDir::new().unwrap();
        let (command, variables) =
            items(1).command(&Setup { flags: &[&ON, flags].concat(), ..Setup::default() }, &home);
        Command::new(&command[0]).args(&command[1..]).envs(variables).stdin(Stdio::null()).output().unwrap()
    };
    for (flags, reason) in [
        (&[][..], "gateway.listen"),
        (&["--listen", "0.0.0.0:0"], "https://"),
        (&["--listen", "127.0.0.1:0", "--public-url", "http://gateway.example"], "https://"),
        (&["--listen", "127.0.0.1:0", "--public-url", "https://gateway.example?a"], "without `?`"),
        (&["--listen", "127.0.0.1:0", "--path", "/lro/files/mcp"], "gateway.path"),
    ] {
        let Output { status, stderr, .. } = ended(flags);
        let errors = String::from_utf8(stderr).unwrap();
        assert!(!status.success() && errors.contains(reason), "{flags:?}: {errors}");
    }
    // Off, the path is any other, and the method is the server's.
    let off = Setup { flags: &LISTEN, toml: TOKENS, variables: &VARIABLES, ..Setup::default() };
    let mut gateway = items(2_000).silent(&off);
    let url = gateway.url();
    let client = Client::new(&url, "token-of-ann");
    assert!(client.files("large", json!({})).1.is_empty());
    assert_eq!(get(&url.replace("/mcp", "/lro/files/x"), &[]).status, 401);

    let flags = ["--public-url", "https://gateway.example:8443/tools/"];
    let (_gateway, url, _, address) = one_file(&flags);
    let ticket = address.strip_prefix("https://gateway.example:8443/tools/lro/files/").unwrap();
    // The proxy takes its own path off.
    let behind = url.replace("/mcp", &format!("/lro/files/{ticket}"));
    assert_eq!(get(&behind, &[("Host", "gateway.example:8443")]).status, 200);
}
