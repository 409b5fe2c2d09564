//! `lro serve`: what is offloaded, and files on disk, asked about by third-party clients without a server behind it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use lro_tests::workspace;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{Client, Connection, Way};
use crate::http::{Exchange, ask_modern};
use crate::scripted::first_text;
use crate::servers::{Gateway, Listening};
use crate::support::{Environment, Process, lro, path_text, words};
use crate::wire::{MODERN, Wire, call, request, shake_hands};

/// Rows of the table, lines of the log.
const ROWS: usize = 3_000;

/// A directory with files, and the directory of the store.
struct Served {
    files: TempDir,
    store: Gateway,
}

impl Served {
    fn new() -> Self {
        let files = TempDir::new().unwrap();
        let rows: String = (0..ROWS).map(|row| format!("{row},{}\n", row % 7)).collect();
        write(files.path(), "orders.csv", format!("id,amount\n{rows}"));
        let lines: String = (0..ROWS).map(|line| format!("{line} request served\n")).collect();
        write(files.path(), "logs/app.log", lines + "FATAL disk is full\n");
        write(files.path(), "small.json", r#"{"items":[{"name":"a"},{"name":"b"}]}"#);
        write(files.path(), "notes.md", "# Plan\n\nShip on Monday.\n");
        write(files.path(), ".env", "TOKEN=hunter2");
        write(files.path(), ".git/config", "TOKEN=hunter2");
        let document = workspace().join("guest/document/tests/files/chromium.pdf");
        fs::copy(document, files.path().join("invoice.pdf")).unwrap();
        Self { files, store: Gateway::new(&[]) }
    }

    fn command(&self, more: &[&str]) -> Vec<String> {
        let mut command = vec![lro(), "serve".to_owned()];
        command.extend(words(more));
        command
    }

    fn variables(&self) -> Environment {
        self.store.variables(&Environment::new())
    }

    /// On standard streams, with this path.
    fn way(&self) -> Way {
        Way::Command(self.command(&[&path_text(self.files.path())]), self.variables())
    }

    /// The same, for a client of bytes.
    fn wire(&self, more: &[&str]) -> Wire {
        let mut wire = Wire::start(&self.command(more), &self.variables());
        shake_hands(&mut wire);
        wire
    }

    fn listen(&self) -> Listening {
        let command = self.command(&["--listen", "127.0.0.1:0", &path_text(self.files.path())]);
        Gateway::ready(Process::start(&command, &self.variables()))
    }

    /// Number of offloads.
    fn offloads(&self) -> usize {
        let tenant = fs::read_dir(self.store.directory.path().join("default"));
        tenant.map_or(0, |entries| {
            entries.filter(|entry| !path_text(Path::new(&entry.as_ref().unwrap().file_name())).starts_with('.')).count()
        })
    }
}

fn write(directory: &Path, name: &str, text: impl AsRef<[u8]>) {
    let path = directory.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// The result of a call of a tool.
fn ask(wire: &mut Wire, tool: &str, arguments: Value) -> Value {
    wire.result(&call(1, &json!({"name": tool, "arguments": arguments}), false))
}

/// The reason why a call is refused.
fn refused(wire: &mut Wire, tool: &str, arguments: Value) -> String {
    let result = ask(wire, tool, arguments);
    assert_eq!(result["isError"], true, "{result}");
    first_text(&result).to_owned()
}

fn count(wire: &mut Wire, file: &str) -> Value {
    ask(wire, "lro_extract", json!({"file": file, "section": "records", "count": true}))["structuredContent"]["results"]
        [0]["count"]
        .take()
}

fn listed(result: &Value) -> Vec<&str> {
    result["structuredContent"]["files"].as_array().unwrap().iter().map(|file| file["file"].as_str().unwrap()).collect()
}

/// A file of each kind, in one call each.
fn assert_answers(client: &mut Connection) {
    let name = client.client;
    assert_eq!(client.tools(), ["lro_files", "lro_extract", "lro_read"], "{name:?}");
    let mut asked = |tool: &str, arguments: Value| {
        let result = client.call(&json!({"name": tool, "arguments": arguments}));
        assert!(result["isError"] != true, "{name:?}: {result}");
        result
    };
    let list = asked("lro_files", json!({}));
    assert_eq!(listed(&list), ["invoice.pdf", "notes.md", "orders.csv", "small.json", "logs/app.log"], "{name:?}");
    let sums = asked(
        "lro_extract",
        json!({"file": "orders.csv", "group": {"by": "amount", "aggregates": "count"}, "section": "records", "limit": 1}),
    );
    assert_eq!(sums["structuredContent"]["results"], json!([{"amount": 0, "count": 429}]), "{name:?}");
    let sql = asked("lro_extract", json!({"file": "orders.csv", "sql": "SELECT max(id) AS last FROM records"}));
    assert_eq!(sql["structuredContent"]["results"], json!([{"last": ROWS - 1}]), "{name:?}");
    for (file, text) in [("logs/app.log", "FATAL"), ("notes.md", "Monday"), ("invoice.pdf", "invoice number")] {
        let found = asked("lro_extract", json!({"file": file, "search": text}));
        assert_eq!(found["structuredContent"]["total"], 1, "{name:?}: {found}");
    }
    let page = asked("lro_read", json!({"file": "small.json", "section": "items"}));
    assert!(first_text(&page).contains(r#""name":"a""#), "{name:?}: {page}");
    let described = asked("lro_files", json!({"path": "orders.csv"}));
    assert_eq!(described["structuredContent"]["schemas"]["records"]["amount"], "integer", "{name:?}");
}

#[test]
fn clients_ask_about_files() {
    let served = Served::new();
    let listening = served.listen();
    let ways = [("stdio", served.way()), ("HTTP", Way::Url(listening.url.clone()))];
    for (name, way) in &ways {
        for client in [Client::Sdk1, Client::Client2, Client::FastMcp] {
            let mut client = Connection::open(client, way);
            assert_eq!(client.about["server"]["name"], "lro-filter", "{name}");
            assert!(client.about["instructions"].as_str().unwrap().contains("lro_files"), "{name}");
            assert_answers(&mut client);
        }
        let mut modern = Connection::pinned(way, MODERN);
        assert_eq!(modern.about["revision"], MODERN, "{name}");
        assert_answers(&mut modern);
    }
    // Eight clients and two processes: each file was written once.
    assert_eq!(served.offloads(), 5);
}

// What `lro offload`, a hook or a gateway has written, in the same store.
#[test]
fn without_paths_offloads_are_read() {
    let served = Served::new();
    let output = Command::new(lro())
        .args(["offload", "--handle", "--mode", "always", &path_text(&served.files.path().join("orders.csv"))])
        .envs(served.variables())
        .output()
        .unwrap();
    let handle = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let way = Way::Command(served.command(&[]), served.variables());
    for mut client in [Connection::open(Client::FastMcp, &way), Connection::pinned(&way, MODERN)] {
        assert_eq!(client.tools(), ["lro_extract", "lro_read"]);
        let question = json!({"handle": handle, "section": "records", "where": "amount = 6", "count": true});
        let answer = client.call(&json!({"name": "lro_extract", "arguments": question}));
        assert_eq!(answer["structuredContent"]["results"][0]["count"], 428, "{answer}");
        let page = client.outcome("read", &json!({"uri": format!("lro://{handle}/records?limit=2")}));
        assert!(page["contents"][0]["text"].as_str().unwrap().lines().count() == 2, "{page}");
    }
    let mut wire = served.wire(&[]);
    assert!(refused(&mut wire, "lro_extract", json!({"handle": "orders.csv", "count": true})).contains("not a handle"));
    let unknown = wire.ask(&call(1, &json!({"name": "lro_files", "arguments": {}}), false).to_string());
    assert!(unknown.contains("-32602") && unknown.contains("unknown tool `lro_files`"), "{unknown}");
}

// What a server would say where there is none.
#[test]
fn what_is_not_there_or_no_message_is_an_error_of_its_kind() {
    let served = Served::new();
    let mut wire = served.wire(&[]);
    let error = |answer: String| serde_json::from_str::<Value>(&answer).unwrap()["error"]["code"].clone();
    let foreign = json!({"uri": "file:///etc/passwd"});
    assert_eq!(error(wire.ask(&request(2, "resources/read", foreign).to_string())), -32002);
    assert_eq!(error(wire.ask(&request(3, "no/such", json!({})).to_string())), -32601);
    for (line, code) in [
        (r#"{"jsonrpc":"2.0","id":4,"#, -32700),
        (r#"{"jsonrpc":"2.0","id":5,"id":6,"method":"ping"}"#, -32600),
        ("[]", -32600),
    ] {
        wire.send("");
        wire.send(line);
        let answer = wire.next();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &Value::Null), "{line}: {answer}");
    }
    let reply = Exchange::open(&served.listen().url, "POST", &[], b"{").finish();
    assert_eq!((reply.status, &reply.answer()["error"]["code"]), (400, &json!(-32700)), "{}", reply.text());
}

#[test]
fn nothing_else_on_the_disk_can_be_reached() {
    let served = Served::new();
    let (outside, root) = (TempDir::new().unwrap(), served.files.path());
    write(outside.path(), "secret.txt", "hunter2");
    symlink(outside.path().join("secret.txt"), root.join("link.txt")).unwrap();
    symlink(outside.path(), root.join("linked")).unwrap();
    symlink("logs/app.log", root.join("inside.log")).unwrap();
    let relative = format!("../{}/secret.txt", path_text(Path::new(outside.path().file_name().unwrap())));
    let mut wire = served.wire(&[&path_text(root)]);
    let absolute = path_text(&outside.path().join("secret.txt"));
    for path in ["link.txt", "linked/secret.txt", &relative, &format!("logs/../{relative}"), &absolute] {
        for (tool, argument) in [("lro_read", "file"), ("lro_extract", "file"), ("lro_files", "path")] {
            let reason = refused(&mut wire, tool, json!({ argument: path }));
            assert!(reason.contains("not beneath the directories"), "{path}: {reason}");
        }
    }
    for path in [".env", ".git/config", "logs/../.env", ".git"] {
        let reason = refused(&mut wire, "lro_read", json!({ "file": path }));
        assert!(reason.contains("--hidden"), "{path}: {reason}");
    }
    assert!(refused(&mut wire, "lro_files", json!({"path": ".git"})).contains("--hidden"));
    assert_eq!(served.offloads(), 0);
    let list = ask(&mut wire, "lro_files", json!({}));
    let names = listed(&list);
    assert!(
        names.contains(&"inside.log") && !names.iter().any(|name| name.contains("link") || name.starts_with('.')),
        "{names:?}"
    );
    // By an absolute path, and by a link that stays inside.
    for path in [path_text(&root.join("logs/app.log")), "inside.log".to_owned()] {
        assert_eq!(
            ask(&mut wire, "lro_extract", json!({"file": path, "search": "FATAL"}))["structuredContent"]["total"],
            1
        );
    }
    let mut hidden = served.wire(&["--hidden", &path_text(root)]);
    assert_eq!(
        first_text(&ask(&mut hidden, "lro_read", json!({"file": ".env"}))).lines().next(),
        Some("TOKEN=hunter2")
    );
}

// The offloads of other tenants lie in the store, whatever is served.
#[test]
fn the_store_cannot_be_reached() {
    let served = Served::new();
    let store = path_text(served.store.directory.path());
    let mut wire = served.wire(&["--hidden", &store]);
    ask(&mut wire, "lro_files", json!({}));
    let reason = refused(&mut wire, "lro_read", json!({"file": ".cursor-key"}));
    assert!(reason.contains("not beneath") || reason.contains("no file"), "{reason}");
    assert_eq!(listed(&ask(&mut wire, "lro_files", json!({}))), [""; 0]);
}

// A name that cannot be asked for, and a link that cannot be followed although it stays inside.
#[test]
fn files_that_cannot_be_asked_about_say_why() {
    let served = Served::new();
    let root = served.files.path();
    fs::write(root.join(OsStr::from_bytes(b"bad\xff.csv")), "a,b\n").unwrap();
    symlink(root.join("orders.csv"), root.join("inlink.csv")).unwrap();
    let mut wire = served.wire(&[&path_text(root)]);
    let list = ask(&mut wire, "lro_files", json!({}));
    assert!(!listed(&list).iter().any(|name| name.starts_with("bad")), "{list}");
    assert_eq!(list["structuredContent"]["left_out"]["files"], 1, "{list}");
    let reason = refused(&mut wire, "lro_read", json!({"file": "inlink.csv"}));
    assert!(reason.contains("absolute path") && reason.contains("name the file itself"), "{reason}");
}

#[test]
fn a_file_that_changes_is_read_again() {
    let served = Served::new();
    let path = path_text(served.files.path());
    let mut wire = served.wire(&[&path]);
    assert_eq!(count(&mut wire, "orders.csv"), ROWS);
    assert_eq!((count(&mut wire, "./orders.csv"), served.offloads()), (json!(ROWS), 1));
    let table = fs::read_to_string(served.files.path().join("orders.csv")).unwrap();
    write(served.files.path(), "orders.csv", format!("{table}9999,1\n"));
    assert_eq!((count(&mut wire, "orders.csv"), served.offloads()), (json!(ROWS + 1), 2));
    // The same size and time, but another file.
    let changed = fs::metadata(served.files.path().join("orders.csv")).unwrap().modified().unwrap();
    write(served.files.path(), "other", table.replacen("\n0,0\n", "\n0 0\n", 1) + "8888,1\n");
    File::options().write(true).open(served.files.path().join("other")).unwrap().set_modified(changed).unwrap();
    fs::rename(served.files.path().join("other"), served.files.path().join("orders.csv")).unwrap();
    let last = ask(&mut wire, "lro_extract", json!({"file": "orders.csv", "search": "8888"}));
    assert_eq!(last["structuredContent"]["total"].as_u64().map(|total| total > 0), Some(true), "{last}");
    // Another process finds what this one has written.
    let before = served.offloads();
    ask(&mut served.wire(&[&path]), "lro_extract", json!({"file": "orders.csv", "search": "8888"}));
    assert_eq!(served.offloads(), before);
    fs::remove_dir_all(served.store.directory.path().join("default")).unwrap();
    let again = ask(&mut wire, "lro_extract", json!({"file": "orders.csv", "search": "8888"}));
    assert_eq!(again["isError"], Value::Null, "{again}");
}

#[test]
fn several_paths_are_named_as_they_are_given() {
    let served = Served::new();
    let root = served.files.path();
    let (logs, table) = (path_text(&root.join("logs")), path_text(&root.join("orders.csv")));
    let mut wire = served.wire(&[&logs, &table]);
    assert_eq!(listed(&ask(&mut wire, "lro_files", json!({}))), [table.clone(), format!("{logs}/app.log")]);
    assert_eq!(listed(&ask(&mut wire, "lro_files", json!({"path": "."}))).len(), 2);
    assert_eq!(count(&mut wire, &table), ROWS);
    assert!(refused(&mut wire, "lro_read", json!({"file": path_text(&root.join("notes.md"))})).contains("not beneath"));
    let mut one = served.wire(&[&table]);
    assert_eq!(listed(&ask(&mut one, "lro_files", json!({}))), ["orders.csv"]);
    assert_eq!(count(&mut one, "orders.csv"), ROWS);
    let joined = json!({"sql": "SELECT count(*) AS n FROM a JOIN b ON a.id = b.amount", "from": [
        {"file": table, "section": "records", "as": "a"}, {"handle": table, "section": "records", "as": "b"}]});
    assert_eq!(ask(&mut wire, "lro_extract", joined)["structuredContent"]["results"], json!([{"n": ROWS}]));
}

#[test]
fn bounds_hold_and_errors_say_what_to_do() {
    let served = Served::new();
    let path = path_text(served.files.path());
    let mut wire = served.wire(&["--file-bytes", "1000", "--listed", "2", "--depth", "0", &path]);
    assert!(refused(&mut wire, "lro_read", json!({"file": "orders.csv"})).contains("--file-bytes"));
    let list = ask(&mut wire, "lro_files", json!({}));
    assert_eq!(listed(&list).len(), 2);
    assert!(list["structuredContent"]["more"].as_str().unwrap().contains("contains"), "{list}");
    assert_eq!(listed(&ask(&mut wire, "lro_files", json!({"contains": "APP"}))), [""; 0]);
    assert_eq!(listed(&ask(&mut wire, "lro_files", json!({"path": "logs"}))), ["logs/app.log"]);
    assert!(refused(&mut wire, "lro_read", json!({"file": "nothing.csv"})).contains("`lro_files` lists"));
    assert!(refused(&mut wire, "lro_read", json!({"file": "logs"})).contains("is a directory"));
    assert!(refused(&mut wire, "lro_read", json!({"file": "a", "handle": "b"})).contains("both"));
    assert!(refused(&mut wire, "lro_read", json!({"file": 1})).contains("not a text"));
    assert!(refused(&mut wire, "lro_read", json!({})).contains("`file` is missing"));
    assert!(refused(&mut wire, "lro_extract", json!({"files": "a"})).contains("did you mean `file`?"));
    assert!(refused(&mut wire, "lro_read", json!({"path": "nothing.csv"})).contains("no file `nothing.csv`"));
    assert!(refused(&mut wire, "lro_files", json!({"paths": "x"})).contains("unknown field"));
    for wrong in [vec!["/does/not/exist"], vec!["--listed", "many"]] {
        let mut command = Command::new(lro());
        let output = command.arg("serve").args(&wrong).envs(served.variables()).output().unwrap();
        assert!(matches!(output.status.code(), Some(1 | 2)), "{wrong:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(errors.contains(wrong.last().unwrap()), "{errors}");
    }
}

// Clients that share an HTTP server ask at the same time: one of them writes the file.
#[test]
fn clients_that_ask_at_once_share_an_offload() {
    let served = Served::new();
    let listening = served.listen();
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let question = || json!({"file": "orders.csv", "section": "records", "count": true});
        let ask = |id| {
            scope.spawn({
                let url = &listening.url;
                move || ask_modern(url, id, "lro_extract", question())
            })
        };
        let asked: Vec<_> = (0..8).map(ask).collect();
        asked.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for answer in answers {
        assert!(answer.to_string().contains(&format!("\"count\":{ROWS}")), "{answer}");
    }
    assert_eq!(served.offloads(), 1);
}
