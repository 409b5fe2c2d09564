//! Checks what a server started by a gateway can see: its own variables and none of the gateway's files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use lro_tests::{wait_until, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{Gate, error, new_mark, text};
use crate::http::{Session, post};
use crate::support::{Environment, Process, environment, lro, mcp_package, node, path_text, words};
use crate::wire::{Wire, call, initialize, request, shake_hands};

/// The user that owns nothing, and its group.
const NOBODY: u32 = 65534;

/// Settings of the gateway in these tests; `@` stands for the directory of its files.
const SETTINGS: &str = "policy-dir = \"@/policies\"\npolicy-keep = \"@/keep\"\n\
    [gateway]\nadmin-token = \"env:THE_ADMIN\"\n[gateway.tokens]\nacme = \"env:ACME_SECRET\"\nbeta = \"file:@/beta.token\"\n";

/// Variables of the gateway: its secrets, and others.
const VARIABLES: [(&str, &str); 8] = [
    ("THE_ADMIN", "the-admin-token"),
    ("ACME_SECRET", "the-token-of-acme"),
    ("LRO_LOG", "warn"),
    ("MCP_LRO_THRESHOLD", "60000"),
    ("GITHUB_TOKEN", "of-the-server"),
    ("DATABASE_URL", "of-somebody"),
    ("LC_TIME", "C"),
    ("NODE_EXTRA_CA_CERTS", "/none"),
];

/// The files of a gateway, which its server must not see.
struct Files(TempDir);

impl Files {
    /// They belong to this user.
    fn of(user: u32) -> Self {
        let files = Self(TempDir::new().unwrap());
        let root = files.0.path();
        fs::create_dir(root.join("policies")).unwrap();
        fs::write(root.join("policies/acme.wasm"), lro_host::policy::DEFAULT_POLICY).unwrap();
        fs::write(root.join("beta.token"), "the-token-of-beta").unwrap();
        fs::write(root.join("lro.toml"), SETTINGS.replace('@', &path_text(root))).unwrap();
        if user != own_user() {
            run(&["chown", "-R", &format!("{user}:{user}"), &path_text(root)]);
        }
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The secret paths, none of them empty.
    fn secret(&self) -> Vec<String> {
        let names = ["out", "cache/lro-filter-compiled", "policies", "keep", "beta.token", "lro.toml"];
        names.iter().map(|name| path_text(&self.path(name))).collect()
    }

    fn variables(&self, more: &[(&str, &str)]) -> Environment {
        let (out, cache, config) =
            (path_text(&self.path("out")), path_text(&self.path("cache")), path_text(&self.path("lro.toml")));
        let mut all = environment(&VARIABLES);
        all.extend(environment(&[("MCP_LRO_DIR", &out), ("XDG_CACHE_HOME", &cache), ("MCP_LRO_CONFIG", &config)]));
        all.extend(environment(more));
        all
    }
}

/// Runs a command. Panics when it fails.
fn run(command: &[&str]) {
    assert!(Command::new(command[0]).args(&command[1..]).status().unwrap().success(), "{command:?}");
}

/// The user that runs the tests.
fn own_user() -> u32 {
    fs::metadata("/proc/self").unwrap().uid()
}

fn is_root() -> bool {
    own_user() == 0
}

/// The words before a command that run it as this user.
fn as_user(user: u32) -> Vec<String> {
    match user {
        user if user == own_user() => Vec::new(),
        user => words(&["setpriv", &format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]),
    }
}

/// The nosy server.
fn nosy(arguments: &[&str]) -> Vec<String> {
    let script = path_text(&workspace().join("tests/tools/servers/nosy.py"));
    // A directory that every user can reach.
    let python = ["/usr/bin/python3", "/usr/local/bin/python3"].into_iter().find(|path| Path::new(path).exists());
    let mut command = words(&[python.unwrap_or("python3"), "-I", "-S", &script]);
    command.extend(words(arguments));
    command
}

/// A gateway on standard streams before a server, run by a command.
fn command(before: Vec<String>, flags: &[&str], server: &[String]) -> Vec<String> {
    let mut command = before;
    command.extend([lro(), "gateway".to_owned()]);
    command.extend(words(flags));
    command.push("--".to_owned());
    command.extend(server.iter().cloned());
    command
}

/// The answer of a tool of the nosy server.
fn ask(wire: &mut Wire, id: u32, tool: &str, arguments: &Value) -> Value {
    let result = wire.result(&call(id, &json!({"name": tool, "arguments": arguments}), false));
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

/// Whether this user may create mounts here, which containers often deny.
fn has_namespaces(user: u32) -> bool {
    let mut command = as_user(user);
    command.extend(words(if user == 0 { &["unshare", "-m", "true"] } else { &["unshare", "-Urm", "true"] }));
    Command::new(&command[0]).args(&command[1..]).status().is_ok_and(|status| status.success())
}

/// The secrets that a server sees, and whether it is isolated.
fn looked(user: u32, flags: &[&str], files: &Files) -> (Value, String) {
    let command = command(as_user(user), flags, &nosy(&[]));
    let mut wire = Wire::start(&command, &files.variables(&[]));
    shake_hands(&mut wire);
    let pid = wire.pid();
    let seen = ask(&mut wire, 1, "look", &json!({"paths": files.secret(), "pid": pid}));
    let none: Vec<String> =
        files.secret().into_iter().filter(|path| !fs::metadata(path).is_ok_and(|file| file.len() > 0)).collect();
    assert_eq!(none, [""; 0], "nothing is there to be hidden");
    let forged = files.path("policies/acme.wasm");
    let refused = ask(&mut wire, 2, "write", &json!({"path": forged}));
    assert_eq!(fs::read(forged).unwrap() == b"forged", refused.is_null());
    (json!({"seen": seen, "refused": refused}), wire.end().errors)
}

fn is_isolated(user: u32) {
    let files = Files::of(user);
    let (looked, errors) = looked(user, &[], &files);
    if !has_namespaces(user) {
        println!("not tested for user {user}: it may not have mounts of its own here");
        assert!(errors.contains("the server is not isolated"), "{errors}");
        return;
    }
    let seen = &looked["seen"];
    assert!(!errors.contains("not isolated") && !errors.contains("not hidden"), "{errors}");
    assert_eq!((&seen["uid"], &seen["direct"], &seen["process"]), (&json!(user), &json!([]), &json!([])));
    assert_eq!(seen["trace"], "Operation not permitted");
    for way in ["unmounted", "namespaces", "root"] {
        assert_eq!(seen[way]["found"], json!([]), "{way}: {}", seen[way]);
        assert!(
            seen[way]["errors"].as_array().unwrap().iter().skip(usize::from(way != "unmounted")).all(Value::is_string)
        );
    }
    assert!(seen["joined"].as_str().unwrap().contains("Permission denied"), "{}", seen["joined"]);
    assert!(looked["refused"].is_string(), "a policy was replaced");
    assert!(seen["status"].as_array().unwrap().contains(&json!("NoNewPrivs:\t1")), "{}", seen["status"]);
}

// As the user that runs the tests.
#[test]
fn a_server_sees_no_file_of_the_gateway() {
    is_isolated(own_user());
}

// By root alone can be tried what any other user sees.
#[test]
fn a_server_of_another_user_sees_no_file_of_the_gateway() {
    if !is_root() {
        return println!("not tested: only root can become another user");
    }
    is_isolated(NOBODY);
}

// A gateway of root runs its server as somebody else.
#[test]
fn a_server_runs_as_another_user() {
    let files = Files::of(own_user());
    let run = |user: &str| {
        let command = command(Vec::new(), &["--user", user], &nosy(&[]));
        (Command::new(&command[0]).args(&command[1..]).envs(files.variables(&[])).output().unwrap(), command)
    };
    let (refused, _) = run("nobody-of-this-name");
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && errors.contains("there is no user `nobody-of-this-name`"), "{errors}");
    if !is_root() {
        let errors = String::from_utf8_lossy(&run("65534:65534").0.stderr).into_owned();
        return assert!(errors.contains("run as another user, which requires root"), "{errors}");
    }
    for isolate in ["true", "false"] {
        let (looked, _) = looked(0, &["--user", "65534:65534", "--isolate", isolate], &files);
        let seen = &looked["seen"];
        assert_eq!((&seen["uid"], &seen["process"]), (&json!(NOBODY), &json!([])), "isolate = {isolate}");
        let reached = seen["direct"].as_array().unwrap();
        // Only modes protect what is not hidden, and the directory of the policies was made for all to read.
        assert!(reached.iter().all(|path| isolate == "false" && !path.to_string().contains("/out")), "{reached:?}");
        assert!(looked["refused"].is_string());
        let status = seen["status"].as_array().unwrap();
        assert!(status.contains(&json!("CapEff:\t0000000000000000")), "{status:?}");
        assert_eq!(seen["root"]["errors"][0], "Operation not permitted");
    }
}

// Off by a setting, and said where it cannot be.
#[test]
fn a_server_is_not_isolated_where_that_is_off_or_impossible() {
    // Root without bounds could read and trace everything.
    let user = if is_root() { NOBODY } else { own_user() };
    let (looked, errors) = looked(user, &["--isolate", "false"], &Files::of(user));
    assert!(!looked["seen"]["direct"].as_array().unwrap().is_empty(), "{looked}");
    assert_eq!(looked["seen"]["process"], json!([]), "the gateway itself stays closed");
    assert_eq!(looked["seen"]["trace"], "Operation not permitted");
    assert!(!errors.contains("isolated"), "{errors}");
    if !has_namespaces(NOBODY) || !is_root() {
        return println!("not tested: where mounts cannot be had");
    }
    // In a separate user namespace that may not mount.
    let script = "echo 0 > /proc/sys/user/max_mnt_namespaces && exec \"$0\" \"$@\"";
    let before = words(&["unshare", "-Ur", "sh", "-c", script]);
    let files = Files::of(0);
    let mut wire = Wire::start(&command(before, &[], &nosy(&[])), &files.variables(&[]));
    shake_hands(&mut wire);
    let errors = wire.end().errors;
    assert_eq!(errors.matches("the server is not isolated").count(), 1, "{errors}");
    assert!(errors.contains("cannot create a mount namespace"), "{errors}");
}

// A server that works in the directory of the offloads goes on working.
#[test]
fn what_a_server_needs_is_not_hidden() {
    if !has_namespaces(own_user()) {
        return println!("not tested: this user may not have mounts of its own here");
    }
    let files = Files::of(own_user());
    let data = files.path("out/served.txt");
    fs::create_dir(files.path("out")).unwrap();
    fs::set_permissions(files.path("out"), Permissions::from_mode(0o700)).unwrap();
    fs::write(&data, "served").unwrap();
    let mut wire = Wire::start(&command(Vec::new(), &[], &nosy(&[&path_text(&data)])), &files.variables(&[]));
    shake_hands(&mut wire);
    let pid = wire.pid();
    let seen = ask(&mut wire, 1, "look", &json!({"paths": files.secret(), "pid": pid}));
    let found: Vec<&str> = seen["direct"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(found.iter().all(|path| path.contains("/out/")) && found.len() > 1, "{found:?}");
    let errors = wire.end().errors;
    assert!(errors.contains("not hidden from the server") && errors.matches("not hidden").count() == 1, "{errors}");
}

// No token of the gateway, whoever asks.
#[test]
fn a_server_gets_no_secret() {
    let files = Files::of(own_user());
    let mut wire = Wire::start(&command(Vec::new(), &[], &nosy(&[])), &files.variables(&[]));
    shake_hands(&mut wire);
    let pid = wire.pid();
    let seen = ask(&mut wire, 1, "look", &json!({"paths": [], "pid": pid}));
    let got = |seen: &Value, name: &str| seen["environment"].get(name).is_some();
    let has = |seen: &Value| VARIABLES.map(|(name, _)| got(seen, name));
    // On stdio, clients put the variables of the server there.
    assert_eq!(has(&seen), [false, false, false, false, true, true, true, true], "{seen}");
    assert!(!got(&seen, "MCP_LRO_DIR") && got(&seen, "PATH") && got(&seen, "XDG_CACHE_HOME"));
    wire.end();
    for (flags, github, database) in [
        (&[][..], false, false),
        (&["--env", "GITHUB_*,ACME_SECRET,LRO_LOG"], true, false),
        (&["--env-all", "true"], true, true),
    ] {
        let gate = listening(&files, flags, &nosy(&[]));
        let client = Session::begin_as(&gate.url, "the-token-of-acme");
        let seen: Value =
            serde_json::from_str(&text(&client.call(1, "look", json!({"paths": [], "pid": gate.pid()})))).unwrap();
        assert_eq!(has(&seen), [false, false, false, false, github, database, true, true], "{flags:?}: {seen}");
        assert!(got(&seen, "PATH") && !seen.to_string().contains("the-token-of-"), "{flags:?}: {seen}");
    }
}

/// A gateway over HTTP. The mark finds its server, and no other process.
fn listening(files: &Files, flags: &[&str], server: &[String]) -> Gate {
    let mark = new_mark();
    let server = [server, std::slice::from_ref(&mark)].concat();
    Gate::listening_before(flags, &server, &mark, &files.variables(&[]))
}

// What a server that does not start was not given is said, without values.
#[test]
fn a_server_that_needs_a_variable_says_which_were_kept() {
    let files = Files::of(own_user());
    let gate = listening(&files, &[], &nosy(&["--needs", "DATABASE_URL"]));
    let message = request(1, "initialize", initialize());
    let headers = [("authorization", "Bearer the-token-of-acme")];
    let answer = post(&gate.url, &headers, &message).answer();
    let told = error(&answer);
    assert!(told.contains("exited with status 3") && told.contains("DATABASE_URL"), "{told}");
    for other in ["THE_ADMIN", "ACME_SECRET", "LRO_LOG", "of-somebody"] {
        assert!(!told.contains(other), "{other}: {told}");
    }
    wait_until("the log", || gate.errors().contains("it did not get the variables"));
    assert!(gate.errors().contains("something is missing"), "{}", gate.errors());
    let gate = listening(&files, &["--env", "DATABASE_*"], &nosy(&["--needs", "DATABASE_URL"]));
    Session::begin_as(&gate.url, "the-token-of-acme");
}

// The log grows no faster than its bound allows, and says what is missing.
#[test]
fn what_a_server_complains_of_is_bounded() {
    let files = Files::of(own_user());
    let complaints = |flags: &[&str], text: &str, times: u32| {
        let mut wire = Wire::start(&command(Vec::new(), flags, &nosy(&[])), &files.variables(&[]));
        shake_hands(&mut wire);
        ask(&mut wire, 1, "complain", &json!({"text": text, "times": times}));
        wire.end().errors
    };
    let errors = complaints(&[], &"x\n".repeat(1 << 14), 32);
    assert!((20_000..200_000).contains(&errors.len()), "{} bytes of log", errors.len());
    assert_eq!(errors.matches("of the server's standard error were left out").count(), 1);
    let errors = complaints(&["--server-log-bytes", "1000"], "a line\n", 100);
    assert!((1..12).contains(&errors.matches("a line").count()), "{errors}");
    let errors = complaints(&[], "\u{1b}[31mred\r\u{202e}\n", 1);
    assert!(errors.contains("red\\u{d}\\u{202e}") && !errors.contains("\u{1b}[31m"), "{errors:?}");
    let errors = complaints(&[], &"y".repeat(1 << 20), 1);
    assert!(errors.len() < 10_000 && errors.contains("cut="), "{} bytes of log", errors.len());
}

// Nor by what a server writes among its messages: 1 MB of short lines was 53 MB of log.
#[test]
fn what_is_no_message_is_bounded_in_the_log() {
    let files = Files::of(own_user());
    let gate = listening(&files, &[], &nosy(&[]));
    let client = Session::begin_as(&gate.url, "the-token-of-acme");
    let lines = json!({"text": "x\n".repeat(1 << 14), "times": 32, "stream": 1});
    assert_eq!(text(&client.call(1, "complain", lines)), r#""complained""#);
    wait_until("the last of them in the log", || gate.errors().contains("lines=524288"));
    let errors = gate.errors();
    assert!(
        errors.matches("dropped server output that is not a message").count() < 40,
        "{} bytes of log",
        errors.len()
    );
}

// A program that is not there is named, isolated or not.
#[test]
fn a_server_that_cannot_be_started_is_named() {
    let files = Files::of(own_user());
    let script = files.path("no-program");
    fs::write(&script, "neither a program nor a script").unwrap();
    fs::set_permissions(&script, Permissions::from_mode(0o644)).unwrap();
    for isolate in ["true", "false"] {
        for (program, reason) in
            [("no-such-program-anywhere", "No such file"), (&path_text(&script), "Permission denied")]
        {
            let command = command(Vec::new(), &["--isolate", isolate], &words(&[program]));
            let output = Command::new(&command[0]).args(&command[1..]).envs(files.variables(&[])).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            let is_named =
                errors.contains(&format!("the server `{program}` cannot be started")) && errors.contains(reason);
            assert!(!output.status.success() && is_named, "isolate = {isolate}: {errors}");
        }
    }
}

// A process that is killed leaves its server nothing to hold on to.
#[test]
fn an_isolated_server_ends_with_its_gateway() {
    let files = Files::of(own_user());
    let mut wire = Process::start(&command(Vec::new(), &[], &nosy(&["mark-of-the-end"])), &files.variables(&[]));
    wire.send(&request(1, "initialize", initialize()).to_string());
    wire.line();
    wire.end();
    wait_until("its end", || crate::faults::processes("mark-of-the-end").is_empty());
}

// Servers as people use them work where they cannot see the gateway's files, as another user than root too.
#[test]
fn servers_of_others_work_isolated() {
    for user in if is_root() { vec![0, NOBODY] } else { vec![own_user()] } {
        let files = Files::of(user);
        let data = path_text(files.0.path());
        let of_node = |package: &str, more: &[&str]| [words(&[&node(), &mcp_package(package)]), words(more)].concat();
        for (server, tool, expected) in [
            (
                of_node("server-filesystem/dist/index.js", &[&data]),
                json!({"name": "list_directory", "arguments": {"path": data}}),
                "keep",
            ),
            (
                of_node("server-everything/dist/index.js", &[]),
                json!({"name": "echo", "arguments": {"message": "it works"}}),
                "it works",
            ),
        ] {
            let home = files.variables(&[("HOME", &data)]);
            let mut wire = Wire::start(&command(as_user(user), &[], &server), &home);
            shake_hands(&mut wire);
            let result = wire.result(&call(1, &tool, false)).to_string();
            assert!(result.contains(expected), "{server:?} as user {user}: {result}");
            let errors = wire.end().errors;
            assert_eq!(errors.contains("not isolated"), !has_namespaces(user), "{errors}");
        }
    }
}
