//! Tenants with policies and settings of their own, and how both change while a gateway runs.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lro_tests::{component, rounds, signature, version, wait_until};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{Gate, faulty, new_mark, signal, text, tool_call};
use crate::http::{Exchange, Headers, Reply, Session, modern_call, open_modern};
use crate::scripted::{descriptor, first_text, handle};
use crate::support::{environment, lro, path_text};
use crate::wire::{call, request};

/// A secret that the redacting policy knows.
const SECRET: &str = "nobody.s3cret@example.com";

/// The token of who may change policies.
pub(crate) const ADMIN: &str = "token-of-the-operator";

/// Time after which a file that changed has surely been read: the watcher waits for 200 ms of quiet.
const SETTLED: Duration = Duration::from_millis(600);

/// Metrics and changes of policies.
pub(crate) const OPERATED: &str = "[gateway]\nmetrics-listen = \"127.0.0.1:0\"\nadmin-token = \"env:ADMIN\"\n";

/// Two tenants that have tokens.
const TOKENS: &str = "[gateway.tokens]\nann = \"env:ANN\"\nbob = \"env:BOB\"\n";

/// Configuration and policies, and what a gateway with them remembers.
pub(crate) struct Home {
    directory: TempDir,
    /// Variables beside its own.
    more: crate::support::Environment,
}

/// A gateway that is operated.
pub(crate) struct Operated {
    pub(crate) gate: Gate,
    /// Where its metrics are.
    pub(crate) admin: String,
}

impl Home {
    pub(crate) fn new(toml: &str) -> Self {
        let home = Self { directory: TempDir::new().unwrap(), more: environment(&[]) };
        home.write("lro.toml", toml);
        home
    }

    /// Operated, with a place for earlier policies.
    pub(crate) fn keeping() -> Self {
        let home = Self::new("");
        home.write("lro.toml", format!("policy-keep = {:?}\n{OPERATED}", path_text(&home.path("kept"))));
        home
    }

    /// With caches and credentials of its own.
    pub(crate) fn isolated() -> Self {
        let mut home = Self::new("");
        let root = path_text(home.directory.path());
        home.more = environment(&[("HOME", &root), ("XDG_CACHE_HOME", &root), ("REGISTRY_AUTH_FILE", "")]);
        home
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Puts a file in its place by a rename.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let (unfinished, path) = (self.path("unfinished"), self.path(name));
        fs::write(&unfinished, bytes).unwrap();
        fs::rename(&unfinished, &path).unwrap();
        path
    }

    /// A line of the configuration that names a policy here.
    fn policy(&self, name: &str) -> String {
        format!("policy = {:?}\n", path_text(&self.path(name)))
    }

    fn variables(&self) -> crate::support::Environment {
        let config = path_text(&self.path("lro.toml"));
        let tokens = [("ANN", "token-of-ann"), ("BOB", "token-of-bob"), ("CAT", "token-of-cat"), ("ADMIN", ADMIN)];
        let mut all = environment(&[&tokens[..], &[("MCP_LRO_CONFIG", &config), ("MCP_LRO_FSYNC", "never")]].concat());
        all.extend(self.more.clone());
        all
    }

    /// The gateway over HTTP.
    pub(crate) fn gateway(&self) -> Operated {
        self.gateway_with(&[])
    }

    /// The gateway over HTTP, before a server with further arguments.
    pub(crate) fn gateway_with(&self, arguments: &[&str]) -> Operated {
        let mark = new_mark();
        let server = faulty(&[&[&*mark], arguments].concat());
        Operated::of(Gate::listening_before(&[], &server, &mark, &self.variables()))
    }

    /// The gateway on standard streams, with the handshake behind it.
    fn stdio(&self, flags: &[&str]) -> Operated {
        let mark = new_mark();
        let mut gate = Gate::start(flags, &faulty(&[&mark]), &mark, &self.variables());
        gate.shake_hands();
        Operated::of(gate)
    }

    /// Runs a command with the configuration of the gateway.
    pub(crate) fn lro(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        let mut command = Command::new(lro());
        command.args(arguments).envs(self.variables()).env("LRO_ADMIN_TOKEN", ADMIN);
        command.envs(variables.iter().copied()).output().unwrap()
    }

    /// What `lro policy` says, which has to succeed.
    pub(crate) fn policies(&self, gateway: &Operated, arguments: &[&str]) -> String {
        let arguments = [&["policy"], arguments, &["--gateway", &gateway.admin]].concat();
        let output = self.lro(&arguments, &[]);
        assert_eq!((output.status.code(), text_of(&output.stderr).as_str()), (Some(0), ""), "{arguments:?}");
        text_of(&output.stdout)
    }

    /// What `lro policy` says when it fails with this status.
    pub(crate) fn refused(&self, gateway: &Operated, arguments: &[&str], status: i32) -> String {
        let output = self.lro(&[&["policy"], arguments, &["--gateway", &gateway.admin]].concat(), &[]);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(status), &b""[..]), "{arguments:?}");
        text_of(&output.stderr)
    }

    /// What `lro policy list` tells of a tenant.
    pub(crate) fn status(&self, gateway: &Operated, tenant: &str) -> Value {
        let all: Value = serde_json::from_str(&self.policies(gateway, &["list", "--json"])).unwrap();
        let found = all.as_array().unwrap().iter().find(|status| status["tenant"] == tenant);
        found.unwrap_or_else(|| panic!("no {tenant}: {all}")).clone()
    }
}

impl Operated {
    fn of(gate: Gate) -> Self {
        let errors = gate.errors();
        let line = errors.lines().find_map(|line| line.split_once("metrics on ")).map(|(_, url)| url);
        // The line may be JSON.
        let admin = line.and_then(|url| url.split_once("/metrics")).map_or("", |(url, _)| url).to_owned();
        Self { gate, admin }
    }

    /// The URL of a tenant.
    fn url(&self, tenant: &str) -> String {
        format!("{}/{tenant}", self.gate.url)
    }

    pub(crate) fn hang_up(&self) {
        signal("-HUP", self.gate.pid());
    }

    /// Waits until the log says something.
    pub(crate) fn says(&self, text: &str) {
        wait_until(text, || self.gate.errors().contains(text));
    }

    fn metrics(&self) -> String {
        Exchange::open(&format!("{}/metrics", self.admin), "GET", &[], b"").finish().text()
    }

    fn health(&self) -> (u16, String) {
        let reply = Exchange::open(&format!("{}/healthz", self.admin), "GET", &[], b"").finish();
        (reply.status, reply.text())
    }

    /// Asks for a change without the command.
    fn change(&self, method: &str, path: &str, headers: Headers<'_>) -> Reply {
        Exchange::open(&format!("{}/policies{path}", self.admin), method, headers, b"").finish()
    }
}

pub(crate) fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn redacting() -> Vec<u8> {
    component("lro_redact.wasm")
}

/// The SHA-256 of bytes as text.
pub(crate) fn digest(bytes: &[u8]) -> String {
    lro_host::policy::Digest::of(bytes).to_string()
}

/// Asks as a tenant, by token unless that is empty.
fn ask(url: &str, token: &str, message: &Value) -> Reply {
    let token = if token.is_empty() { String::new() } else { format!("Bearer token-of-{token}") };
    open_modern(url, message, &[("Authorization", &token)]).finish()
}

/// The result of a call of `echo`.
fn echo(url: &str, token: &str, text: &str) -> Value {
    tool(url, token, "echo", json!({ "text": text }))
}

fn tool(url: &str, token: &str, name: &str, arguments: Value) -> Value {
    let answer = ask(url, token, &modern_call(1, name, arguments)).answer();
    assert!(answer["error"].is_null(), "{token}: {answer}");
    answer["result"].clone()
}

/// Who signed the result of a call; none when nobody did.
pub(crate) fn signed(url: &str, token: &str) -> Option<String> {
    signed_by(first_text(&echo(url, token, "a result")))
}

/// Who signed an answer of the test policy.
fn signed_by(text: &str) -> Option<String> {
    serde_json::from_str::<Value>(text).ok()?["signed"].as_str().map(str::to_owned)
}

fn is_error(result: &Value) -> bool {
    result["isError"] == true
}

/// Files of the offloads of a tenant.
fn files(gateway: &Operated, tenant: &str) -> Vec<String> {
    let offloads = fs::read_dir(gateway.gate.directory().join(tenant)).unwrap().map(|entry| entry.unwrap().path());
    let files = offloads.filter(|path| path.is_dir()).flat_map(|path| fs::read_dir(path).unwrap());
    files.map(|file| text_of(&fs::read(file.unwrap().path()).unwrap())).collect()
}

// Each tenant has its own policy, settings and files; handle, cursor and resource are good for it alone.
// Whoever writes a policy sees where it panicked, and what the model would see.
#[test]
fn a_policy_is_tried_by_hand() {
    let home = Home::new("custom = \"inspect-trap\"\n");
    let (failing, redacting) = (home.write("failing.wasm", component("lro_test_policies.wasm")), redacting());
    let result = json!({"content": [{"type": "text", "text": format!("write to {SECRET}")}]});
    let result = path_text(&home.write("result.json", result.to_string()));
    let tried = ["policy", "run", &result, "--failure", "closed", "--policy", &path_text(&failing), "--log", "debug"];
    let failed = home.lro(&tried, &[]);
    let said = text_of(&failed.stderr);
    assert_eq!((failed.status.code(), failed.stdout.as_slice()), (Some(1), &b""[..]), "{said}");
    for part in ["error: the policy failed: in `inspect-result`: ", "a panic", "frames=", "hint: --log debug"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    home.write("lro.toml", "");
    let tried = ["policy", "run", &result, "--policy", &path_text(&home.write("redacting.wasm", redacting))];
    let printed = text_of(&home.lro(&tried, &[]).stdout);
    let (report, reply) = printed.split_once("\n\n").unwrap();
    assert!(report.starts_with("verdict  offload\n"), "{report}");
    let json = home.lro(&[&tried[..], &["--json"]].concat(), &[]).stdout;
    let json: Value = serde_json::from_slice(&json).unwrap();
    for reply in [reply, json["reply"].as_str().unwrap()] {
        assert!(reply.contains("[redacted]") && !reply.contains(SECRET), "{reply}");
        assert!(serde_json::from_str::<Value>(reply).unwrap()["content"].is_array(), "{reply}");
    }
}

#[test]
fn tenants_by_token_have_policies_and_settings_of_their_own() {
    let home = Home::new("");
    home.write("redact.wasm", redacting());
    home.write("signing.wasm", version(1));
    let ann = format!("[tenants.ann]\n{}threshold = 100\nfailure = \"closed\"\n", home.policy("redact.wasm"));
    let bob = format!("[tenants.bob]\n{}mode = \"always\"\ncustom = \"sign\"\n", home.policy("signing.wasm"));
    let tokens = TOKENS.replace("bob", "cat = \"env:CAT\"\nbob");
    home.write("lro.toml", format!("{tokens}{ann}{bob}"));
    let gateway = home.gateway();
    let url = gateway.gate.url.as_str();

    let long = format!("{SECRET} wrote: {}", "all is well. ".repeat(200));
    let of_ann = echo(url, "ann", &long);
    assert!(!of_ann.to_string().contains(SECRET), "{of_ann}");
    let handle = handle(&descriptor(&of_ann).unwrap());
    assert_eq!(signed(url, "bob"), Some(signature(1)));
    assert_eq!(echo(url, "cat", &long)["content"][0]["text"], long.as_str(), "below the threshold of all others");
    let (of_ann, of_bob) = (files(&gateway, "ann").concat(), files(&gateway, "bob").concat());
    assert!(of_ann.contains("all is well") && of_ann.contains("[redacted]") && !of_ann.contains(SECRET), "{of_ann}");
    assert!(of_bob.contains(&signature(1)) && !of_bob.contains("all is well"), "{of_bob}");
    assert!(!gateway.gate.directory().join("cat").exists());

    let page = tool(url, "ann", "lro_read", json!({"handle": handle, "bytes": 100}));
    let next = page.to_string().split("next").nth(1).unwrap().split('"').find(|it| it.len() > 20).unwrap().to_owned();
    let next = next.trim_end_matches('\\');
    assert!(!is_error(&tool(url, "ann", "lro_read", json!({"handle": handle, "cursor": next}))), "{page}");
    let read = |token| {
        let message = call(1, &json!({"uri": format!("lro://{handle}/text")}), true);
        let message = request(1, "resources/read", message["params"].clone());
        let name = message["params"]["uri"].as_str().unwrap().to_owned();
        let token = format!("Bearer token-of-{token}");
        open_modern(url, &message, &[("Authorization", &token), ("Mcp-Name", &name)]).finish().answer()
    };
    assert!(read("ann")["result"]["contents"].is_array(), "{}", read("ann"));
    for other in ["bob", "cat"] {
        assert!(is_error(&tool(url, other, "lro_read", json!({ "handle": handle }))));
        let refusal = ask(url, other, &modern_call(1, "lro_read", json!({"handle": handle, "cursor": next}))).answer();
        assert!(is_error(&refusal["result"]) || refusal["error"].is_object(), "{refusal}");
        assert_eq!(read(other)["error"]["code"], -32602);
    }

    let status = |url: &str, token| ask(url, token, &modern_call(1, "echo", json!({"text": "a"}))).status;
    assert_eq!((status(url, "nobody"), status(url, "")), (401, 401));
    assert_eq!((status(&gateway.url("ann"), "ann"), status(&gateway.url("bob"), "ann")), (200, 404));
    assert_eq!((status(&gateway.url("nobody"), "ann"), status(&gateway.url("ann"), "")), (404, 401));
    let session = Session::begin_as(url, "token-of-ann");
    let thief = Session { token: "Bearer token-of-bob".to_owned(), ..session.clone() };
    assert_eq!(thief.open(&tool_call(1, "echo", json!({"text": "a"}))).status, 404);
    session.works();
}

// Without tokens the path names the tenant, and nothing names one that is not there.
#[test]
fn tenants_by_path() {
    let home = Home::new("");
    home.write("signing.wasm", version(1));
    let ann = format!("[tenants.ann]\n{}mode = \"always\"\ncustom = \"sign\"\n", home.policy("signing.wasm"));
    home.write("lro.toml", ann);
    let gateway = home.gateway();
    assert_eq!(signed(&gateway.url("ann"), ""), Some(signature(1)));
    assert_eq!(echo(&gateway.gate.url, "", "a")["content"][0]["text"], "a");
    assert!(files(&gateway, "ann").concat().contains(&signature(1)));
    for other in ["bob", "", "ann/", "ANN", "ann/ann", "../ann"] {
        let reply = ask(&gateway.url(other), "", &modern_call(1, "echo", json!({"text": "a"})));
        assert_eq!(reply.status, 404, "{other}: {}", reply.text());
    }
    let session = Session::begin(&gateway.url("ann"));
    assert_eq!(signed_by(&text(&session.call(1, "echo", json!({"text": "a"})))), Some(signature(1)));
    let elsewhere = Session { url: gateway.gate.url.clone(), ..session };
    assert_eq!(elsewhere.open(&tool_call(2, "echo", json!({"text": "a"}))).status, 404, "a session is its tenant's");
}

// The tenant of a gateway on stdio; SIGHUP loads its file again, and no message is lost.
#[test]
fn the_tenant_of_stdio_and_its_policy() {
    let home = Home::new("");
    home.write("signing.wasm", version(1));
    let other = home.write("other.wasm", version(2));
    let ann = format!("[tenants.ann]\n{}mode = \"always\"\ncustom = \"sign\"\n", home.policy("signing.wasm"));
    home.write("lro.toml", [OPERATED, &ann].concat());
    let mut gateway = home.stdio(&["--tenant", "ann"]);
    let signed = |gateway: &mut Operated, id: u32| {
        signed_by(&text(&gateway.gate.call(id, "echo", json!({"text": "a"})))).unwrap()
    };
    assert_eq!(signed(&mut gateway, 1), signature(1));
    home.policies(&gateway, &["load", "ann", &path_text(&other)]);
    assert_eq!(signed(&mut gateway, 2), signature(2));
    assert!(files(&gateway, "ann").concat().contains(&signature(2)));

    for id in 100..300 {
        gateway.gate.send(&tool_call(id, "echo", json!({"text": "a"})));
        if id % 50 == 0 {
            gateway.hang_up();
        }
    }
    for id in 100..300 {
        let answer = text(&gateway.gate.answer(&id.into()));
        assert!(answer.contains(&signature(1)) != answer.contains(&signature(2)), "{answer}");
    }
    wait_until("the policy of the file", || home.status(&gateway, "ann")["sha256"] == digest(&version(1)));
    assert_eq!(signed(&mut gateway, 3), signature(1));
    assert!(gateway.gate.end().success());
}

// A file that is replaced while calls run fails none of them; a cut one is refused, and a good one taken.
#[test]
fn a_file_that_changes() {
    let home = Home::new("");
    home.write("signing.wasm", version(1));
    let all = format!("{}mode = \"always\"\ncustom = \"sign\"\nfailure = \"closed\"\n", home.policy("signing.wasm"));
    home.write("lro.toml", [&all, OPERATED].concat());
    let gateway = home.gateway();
    let url = gateway.gate.url.as_str();
    let taken = |number: u32| wait_until("a version", || signed(url, "") == Some(signature(number)));
    let done = AtomicBool::new(false);
    let mut seen = vec![signed(url, "").unwrap()];
    let seen = std::thread::scope(|scope| {
        let caller = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                seen.push(signed(url, "").unwrap());
            }
            seen
        });
        home.write("signing.wasm", version(2));
        taken(2);
        home.write("signing.wasm", &version(3)[..5000]);
        gateway.says("policy refused");
        taken(2);
        done.store(true, Ordering::Relaxed);
        caller.join().unwrap()
    });
    assert!(seen.is_sorted() && seen.first() == Some(&signature(1)), "{seen:?}");
    let status = home.status(&gateway, "default");
    assert_eq!((&status["version"], &status["refusals"]), (&2.into(), &1.into()), "{status}");
    let reason = "policy is not a WebAssembly component";
    assert!(status["refusal"].as_str().unwrap().contains(reason), "{status}");
    let list = home.policies(&gateway, &["list"]);
    let expected = format!("default  version 2  {}  since ", &digest(&version(2))[..12]);
    assert!(list.starts_with(&expected) && list.contains(&format!("last refusal: {reason}")), "{list}");
    home.write("signing.wasm", version(3));
    taken(3);
    assert_eq!(home.status(&gateway, "default")["refusal"], Value::Null);
    assert!(gateway.metrics().contains(r#"lro_policy_loads_total{result="refused"} 1"#), "{}", gateway.metrics());
}

// A file that comes into the directory of policies makes a tenant, or changes one.
#[test]
fn a_directory_of_policies() {
    let home = Home::new("");
    fs::create_dir(home.path("policies")).unwrap();
    home.write("policies/ann.wasm", version(1));
    let directory = format!("policy-dir = {:?}\n", path_text(&home.path("policies")));
    let all = "mode = \"always\"\ncustom = \"sign\"\n[tenants.bob]\nlevel = \"full\"\n";
    home.write("lro.toml", [&directory, all, OPERATED].concat());
    let gateway = home.gateway();
    let is_signed = |tenant: &str, number: u32| {
        let what = format!("version {number} of {tenant}");
        wait_until(&what, || signed(&gateway.url(tenant), "") == Some(signature(number)));
    };
    assert_eq!(signed(&gateway.url("ann"), ""), Some(signature(1)));
    assert_eq!(signed(&gateway.url("bob"), ""), None, "the built-in policy signs nothing");
    let status = |tenant: &str| ask(&gateway.url(tenant), "", &modern_call(1, "echo", json!({"text": "a"}))).status;
    assert_eq!(status("cat"), 404);
    home.write("policies/cat.wasm", version(2));
    wait_until("the tenant", || status("cat") == 200);
    is_signed("cat", 2);
    home.write("policies/bob.wasm", version(2));
    is_signed("bob", 2);
    home.write("policies/ann.wasm", version(2));
    is_signed("ann", 2);
    // Read again, each keeps its own: none falls back to the policy of the others in between.
    let versions = |tenant: &str| home.status(&gateway, tenant)["swaps"].clone();
    let before = ["ann", "bob", "cat"].map(versions);
    home.write("lro.toml", [&directory, all, OPERATED, "[tenants.dan]\n"].concat());
    gateway.hang_up();
    wait_until("the new tenant", || status("dan") == 200);
    std::thread::sleep(SETTLED);
    assert_eq!(["ann", "bob", "cat"].map(versions), before);
    for tenant in ["ann", "bob", "cat"] {
        assert_eq!(signed(&gateway.url(tenant), ""), Some(signature(2)));
    }
    // A file that goes away leaves what serves.
    fs::remove_file(home.path("policies/cat.wasm")).unwrap();
    std::thread::sleep(SETTLED);
    assert_eq!(signed(&gateway.url("cat"), ""), Some(signature(2)));
}

// Tenants and settings change without a restart, and what cannot be read changes nothing.
#[test]
fn a_configuration_that_is_read_again() {
    let home = Home::new("");
    home.write("signing.wasm", version(1));
    let sign = format!("{}mode = \"always\"\ncustom = \"sign\"\n", home.policy("signing.wasm"));
    home.write("lro.toml", [OPERATED, TOKENS].concat());
    let gateway = home.gateway();
    let url = gateway.gate.url.as_str();
    let status = |token| ask(url, token, &modern_call(1, "echo", json!({"text": "a"}))).status;
    assert_eq!((status("ann"), status("bob"), status("cat")), (200, 200, 401));
    let (of_ann, of_bob) = (Session::begin_as(url, "token-of-ann"), Session::begin_as(url, "token-of-bob"));
    of_ann.works();
    of_bob.works();
    let servers = gateway.gate.servers().len();

    for broken in [
        "[gateway.tokens]\nann = \"env:NOWHERE\"",
        "[",
        "[tenants.ann]\ntreshold = 1",
        "[tenants.ann.limits]\nfuel = 1000000",
        "[tenants.ann]\npolicy-keys = [\"a\"]",
        "[tenants.ann]\ndir = \"/\"",
    ] {
        let before = gateway.gate.errors().matches("the configuration is not taken").count();
        home.write("lro.toml", [OPERATED, "\n", broken].concat());
        gateway.hang_up();
        wait_until(broken, || gateway.gate.errors().matches("the configuration is not taken").count() > before);
        assert_eq!((status("ann"), status("bob"), status("cat")), (200, 200, 401), "{broken}");
    }
    assert!(gateway.gate.errors().contains("unknown field `treshold`"), "{}", gateway.gate.errors());

    let tokens = TOKENS.replace("bob = \"env:BOB\"", "cat = \"env:CAT\"");
    home.write("lro.toml", format!("{OPERATED}{tokens}[tenants.ann]\n{sign}[tenants.cat]\nthreshold = 5000\n"));
    gateway.hang_up();
    wait_until("the new tenant", || status("cat") == 200);
    wait_until("the end of the old tenant", || status("bob") == 401);
    assert!(descriptor(&echo(url, "cat", &"a result ".repeat(1_000))).is_some(), "its threshold counts");
    assert_eq!(signed(url, "ann"), Some(signature(1)), "so do the policy and the settings of another one");
    // Of a tenant that is gone nothing goes on; the session of the other one goes on as it began.
    let thief = Session { token: "Bearer token-of-ann".to_owned(), ..of_bob };
    assert_eq!(thief.open(&tool_call(1, "echo", json!({"text": "a"}))).status, 404);
    // Gone are two servers, of the session and of the modern requests; new is one.
    wait_until("the end of its servers", || gateway.gate.servers().len() == servers - 1);
    of_ann.works();
    let later = Session::begin_as(url, "token-of-ann").call(1, "echo", json!({"text": "a"}));
    assert_eq!(signed_by(&text(&later)), Some(signature(1)), "a new session has the new settings");
    let names = home.policies(&gateway, &["list"]);
    let names: Vec<&str> = names.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(names, ["ann", "cat", "default"]);

    // What needs a restart is told.
    home.write("lro.toml", format!("{OPERATED}audit = true\n{tokens}[tenants.ann]\n{sign}"));
    gateway.hang_up();
    gateway.says("changes of gateway.audit need a restart");
    assert_eq!(signed(url, "ann"), Some(signature(1)));
    home.write("lro.toml", OPERATED);
    gateway.hang_up();
    gateway.says("there are no [gateway.tokens] any more");
    assert_eq!(status(""), 401, "a file that was cut opens nothing");
    assert_eq!(signed(url, "ann"), Some(signature(1)));
}

/// Keys that sign policies.
pub(crate) struct Signer(Ed25519KeyPair);

impl Signer {
    pub(crate) fn new(number: u8) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap())
    }

    fn id(&self) -> &[u8] {
        &self.0.public_key().as_ref()[..8]
    }

    /// The key as in a configuration.
    pub(crate) fn public(&self) -> String {
        STANDARD.encode([b"Ed", self.id(), self.0.public_key().as_ref()].concat())
    }

    /// The text of a signature file.
    pub(crate) fn sign(&self, bytes: &[u8]) -> String {
        self.sign_with(bytes, "made by a test")
    }

    /// The same with this trusted comment.
    pub(crate) fn sign_with(&self, bytes: &[u8], comment: &str) -> String {
        let signature = self.0.sign(blake2b_simd::blake2b(bytes).as_bytes());
        let global = self.0.sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let first = STANDARD.encode([b"ED", self.id(), signature.as_ref()].concat());
        format!("untrusted comment: a\n{first}\ntrusted comment: {comment}\n{}\n", STANDARD.encode(global.as_ref()))
    }
}

// Policies are changed by command; what is refused changes nothing, and says why.
#[test]
fn policies_are_changed_by_command() {
    let home = Home::new("");
    let one = home.write("one.wasm", version(1));
    let two = path_text(&home.write("two.wasm", version(2)));
    let three = path_text(&home.write("three.wasm", version(3)));
    let signer = Signer::new(1);
    home.write("one.wasm.minisig", signer.sign(&version(1)));
    home.write("two.wasm.minisig", signer.sign(&version(2)));
    let bounds = format!(
        "policy-keep = {:?}\nmode = \"always\"\ncustom = \"sign\"\n[loading]\ncomponent-bytes = 4000000\n",
        path_text(&home.path("kept"))
    );
    let ann = format!("[tenants.ann]\n{}policy-keys = [{:?}]\n", home.policy("one.wasm"), signer.public());
    let pinned = format!("[tenants.bob]\n{}policy-sha256 = {:?}\n", home.policy("one.wasm"), digest(&version(1)));
    home.write("lro.toml", [&bounds, OPERATED, &ann, &pinned, "[tenants.policies]\n"].concat());
    let gateway = home.gateway();
    let served = |tenant: &str| signed(&gateway.url(tenant), "").unwrap_or_default();
    assert_eq!((served("ann"), served("bob")), (signature(1), signature(1)));

    assert_eq!(
        home.policies(&gateway, &["load", "ann", &two]),
        format!("swapped, version 2: {}\n", digest(&version(2)))
    );
    assert_eq!(served("ann"), signature(2));
    let again = home.policies(&gateway, &["load", "ann", &two, "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again, json!({"outcome": "unchanged", "sha256": digest(&version(2)), "version": 2}));
    home.policies(&gateway, &["rollback", "ann"]);
    assert_eq!(served("ann"), signature(1));
    home.policies(&gateway, &["swap", "ann", &digest(&version(2))]);
    assert_eq!(served("ann"), signature(2));
    home.policies(&gateway, &["swap", "ann", &digest(&version(1))[..12]]);
    assert_eq!(served("ann"), signature(1), "the digits that the list shows are enough");
    home.policies(&gateway, &["swap", "ann", &digest(&version(2))]);
    home.policies(&gateway, &["reload", "ann"]);
    assert_eq!(served("ann"), signature(1));
    home.policies(&gateway, &["load", "policies", &two]);
    assert_eq!(served("policies"), signature(2), "whatever its name");

    let small = |name: &str, bytes: &[u8]| path_text(&home.write(name, bytes));
    let cut = small("cut.wasm", &version(2)[..5000]);
    let module = small("module.wasm", b"\0asm\x01\0\0\0");
    let world = small("world.wasm", b"\0asm\x0d\0\x01\0");
    let large = small("large.wasm", &vec![0; 4_000_001]);
    for (tenant, file, reason) in [
        ("policies", &cut, "is not a WebAssembly component"),
        ("policies", &module, "is a core module"),
        ("policies", &world, "so it is not of the world `"),
        ("policies", &large, "the component is larger than 4000000 bytes (loading.component-bytes)"),
        ("bob", &two, "is pinned"),
        ("ann", &three, "is not signed"),
    ] {
        let before = served(tenant);
        let message = home.refused(&gateway, &["load", tenant, file], 1);
        assert!(message.starts_with("error: ") && message.contains(reason), "{reason}: {message}");
        assert_eq!(served(tenant), before, "{reason}");
    }
    home.write("three.wasm.minisig", Signer::new(2).sign(&version(3)));
    let message = home.refused(&gateway, &["load", "ann", &three], 1);
    assert!(message.contains("a signature that is not accepted"), "{message}");
    home.write("three.wasm.minisig", signer.sign(&version(2)));
    assert!(home.refused(&gateway, &["load", "ann", &three], 1).contains("a signature that is not accepted"));
    home.write("three.wasm.minisig", signer.sign(&version(3)));
    home.policies(&gateway, &["load", "ann", &three]);
    assert_eq!(served("ann"), signature(3));

    let unknown = "0".repeat(64);
    assert!(home.refused(&gateway, &["swap", "ann", &unknown], 1).contains("is known here: load it"));
    assert!(home.refused(&gateway, &["reload", "nobody"], 1).contains("there is no tenant `nobody`"));
    assert!(home.refused(&gateway, &["rollback", "bob"], 1).contains("tenant `bob` has no earlier policy"));
    home.refused(&gateway, &["swap", "ann", "12"], 2);
    let missing = path_text(&home.path("missing.wasm"));
    assert!(home.refused(&gateway, &["load", "ann", &missing], 1).contains("cannot read `"));
    assert_eq!(fs::read(one).unwrap(), version(1), "no file was touched");

    let ann = home.status(&gateway, "ann");
    let keys: Vec<&str> = ann.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["loaded", "parked_ms", "refusal", "refusals", "sha256", "swaps", "tenant", "trial", "version"];
    assert_eq!(keys, expected);
    assert_eq!((&ann["version"], &ann["swaps"], &ann["refusals"]), (&8.into(), &8.into(), &3.into()), "{ann}");
    assert!(ann["loaded"].as_str().unwrap().ends_with('Z'), "{ann}");
}

// What the operator sends is refused by name, counted and logged like any other policy.
#[test]
fn what_is_refused_is_counted() {
    let home = Home::new("");
    home.write("signing.wasm", version(1));
    let all = format!("{}mode = \"always\"\ncustom = \"sign\"\n", home.policy("signing.wasm"));
    home.write("lro.toml", [&all, OPERATED].concat());
    let gateway = home.gateway();
    let later = of_contract("lro:filter/lro-filter@0.3.0");
    let later = path_text(&home.write("later.wasm", later));
    let message = home.refused(&gateway, &["load", "default", &later], 1);
    assert!(message.contains("is built for lro:filter@0.3.0"), "{message}");
    let token = format!("Bearer {ADMIN}");
    let pin = format!("/default?sha256={}", "0".repeat(64));
    let reply = gateway.change("POST", &pin, &[("Authorization", &token)]);
    assert_eq!(reply.status, 409);
    assert!(reply.answer()["error"].as_str().unwrap().contains("is pinned"), "{}", reply.text());
    let metrics = gateway.metrics();
    assert!(metrics.contains(r#"lro_policy_loads_total{result="refused"} 2"#), "{metrics}");
    let status = home.status(&gateway, "default");
    assert_eq!((&status["refusals"], &status["version"]), (&2.into(), &1.into()), "{status}");
    assert!(status["refusal"].as_str().unwrap().contains("is pinned"), "{status}");
    assert_eq!(gateway.gate.errors().matches("policy refused").count(), 2, "{}", gateway.gate.errors());
    assert_eq!(signed(&gateway.gate.url, ""), Some(signature(1)));
    assert!(home.refused(&gateway, &["rollback", "default"], 1).contains("set policy-keep"), "no policies are kept");
}

/// The test policy, exporting the interface of another version of the contract.
fn of_contract(interface: &str) -> Vec<u8> {
    let (mut bytes, own) = (version(2), b"lro:filter/lro-filter@0.2.0");
    for at in 0..bytes.len() - own.len() {
        if bytes[at..].starts_with(own) {
            bytes[at..at + own.len()].copy_from_slice(interface.as_bytes());
        }
    }
    bytes
}

/// The lines about requests that change policies: the message, who asked for what, and the policy before and after.
fn changes(gateway: &Operated) -> Vec<Value> {
    let errors = gateway.gate.errors();
    let lines = errors.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines
        .filter(|line| {
            line["message"].as_str().is_some_and(|text| text.contains("policy change") || text.contains("admin token"))
        })
        .collect()
}

// The log says who changed which policy, and what was refused.
#[test]
fn every_change_of_a_policy_has_a_line() {
    let mut home = Home::keeping();
    home.more = environment(&[("LRO_LOG_FORMAT", "json"), ("LRO_LOG", "warn,admin=info")]);
    let gateway = home.gateway();
    let token = format!("Bearer {ADMIN}");
    let own: Headers<'_> = &[("Authorization", &token)];
    let before = home.status(&gateway, "default")["sha256"].clone();
    assert_eq!(changes(&gateway), Vec::<Value>::new(), "who reads changes nothing");
    let policy = path_text(&home.write("next.wasm", version(2)));
    home.policies(&gateway, &["load", "default", &policy]);
    let after = home.status(&gateway, "default")["sha256"].clone();
    let other = path_text(&home.write("other.wasm", version(1)));
    home.policies(&gateway, &["load", "default", &other]);
    let last = home.status(&gateway, "default")["sha256"].clone();
    home.policies(&gateway, &["rollback", "default"]);
    assert_eq!(gateway.change("POST", &format!("/default/swap?sha256={}", "0".repeat(64)), own).status, 404);
    assert_eq!(gateway.change("POST", "/nobody/reload", own).status, 404);
    assert_eq!(gateway.change("POST", "/default/reload", &[("Authorization", "Bearer x")]).status, 401);
    wait_until("six lines", || changes(&gateway).len() == 6);
    let found = changes(&gateway);
    let row = |line: &Value| {
        ["message", "address", "action", "tenant"].map(|key| line[key].as_str().unwrap_or_default().to_owned())
    };
    let change = |action: &str| ["policy change", "127.0.0.1", action, "default"].map(str::to_owned);
    let expected = [change("load"), change("load"), change("rollback")];
    assert_eq!([row(&found[0]), row(&found[1]), row(&found[2])], expected);
    assert_eq!((&found[0]["before"], &found[0]["after"]), (&before, &after));
    assert_eq!((&found[1]["before"], &found[1]["after"]), (&after, &last));
    assert_eq!((&found[2]["before"], &found[2]["after"]), (&last, &after));
    let refused =
        |action: &str, tenant: &str| ["policy change refused", "127.0.0.1", action, tenant].map(str::to_owned);
    assert_eq!((row(&found[3]), row(&found[4])), (refused("swap", "default"), refused("reload", "nobody")));
    assert_eq!((&found[3]["status"], &found[3]["before"]), (&json!(404), &after));
    assert!(found[4]["error"].as_str().unwrap().contains("nobody"), "{}", found[4]);
    assert_eq!(found[5]["message"], "request without the admin token");
    assert!(!gateway.gate.errors().contains(ADMIN), "the log never has a token");
}

// Without its token nobody changes a policy, and a browser not even with it.
#[test]
fn policies_are_changed_by_the_operator_alone() {
    let home = Home::new(OPERATED);
    let gateway = home.gateway();
    let token = format!("Bearer {ADMIN}");
    let own: Headers<'_> = &[("Authorization", &token)];
    assert_eq!(gateway.change("GET", "", own).status, 200);
    for wrong in ["", "Bearer x", "Bearer token-of-ann", ADMIN] {
        for (method, path) in [("GET", ""), ("POST", "/default/reload"), ("POST", "/default"), ("GET", "/nothing")] {
            let reply = gateway.change(method, path, &[("Authorization", wrong)]);
            assert_eq!(reply.status, 401, "{wrong} {path}");
            assert!(reply.answer()["error"].as_str().unwrap().contains("gateway.admin-token"));
        }
    }
    let status = |method: &str, path: &str| {
        let reply = gateway.change(method, path, own);
        assert!(reply.answer()["error"].is_string(), "{reply:?}");
        reply.status
    };
    assert_eq!((status("POST", "/nobody/reload"), status("POST", "/nobody")), (404, 404));
    assert_eq!((status("POST", "/default/swap"), status("POST", "/default/swap?sha256=12")), (400, 400));
    assert_eq!(status("POST", &format!("/default/swap?sha256={}", "0".repeat(64))), 404);
    assert_eq!(
        (status("POST", "/default"), status("POST", &format!("/default?sha256={}", "0".repeat(64)))),
        (409, 409)
    );
    assert_eq!((status("GET", "/default"), status("DELETE", "/default"), status("POST", "")), (404, 404, 404));
    assert_eq!((status("POST", "/default/reload/now"), status("GET", "other")), (404, 404));
    let forged = [own, &[("lro-signature", "%")]].concat();
    assert_eq!(gateway.change("POST", "/default", &forged).status, 400);
    for foreign in [("Host", "evil.example"), ("Origin", "https://evil.example")] {
        assert_eq!(gateway.change("POST", "/default/reload", &[own, &[foreign]].concat()).status, 403);
    }
    assert_eq!(gateway.change("POST", "/default/reload", own).answer()["outcome"], "unchanged");

    // What a command says that cannot ask.
    let list = ["policy", "list", "--gateway", &gateway.admin];
    let says = |arguments: &[&str], variables: &[(&str, &str)], text: &str| {
        let output = home.lro(arguments, variables);
        let message = text_of(&output.stderr);
        assert!(output.status.code() == Some(1) && message.contains(text), "{text}: {message}");
    };
    says(&list, &[("LRO_ADMIN_TOKEN", "x")], "the token is another one than the admin token");
    says(&list, &[("LRO_GATEWAY", ""), ("LRO_ADMIN_TOKEN", "")], "the admin token is needed");
    says(&["policy", "list", "--token-file", "/nowhere", "--gateway", &gateway.admin], &[], "cannot read `/nowhere`");
    let other = "cannot reach 127.0.0.1:1 (--gateway URL, LRO_GATEWAY or gateway.metrics-listen): ";
    says(&["policy", "list", "--gateway", "127.0.0.1:1"], &[], other);
    says(&["policy", "list", "--gateway", "http://127.0.0.1:1"], &[], "cannot reach http://127.0.0.1:1 ");
    let file = path_text(&home.write("token", format!("{ADMIN}\n")));
    let output = home.lro(
        &[&list[..], &["--token-file", &file]].concat(),
        &[("LRO_ADMIN_TOKEN", "x"), ("http_proxy", "http://127.0.0.1:1")],
    );
    assert!(output.status.success(), "{}", text_of(&output.stderr));
    let empty = Home::new("");
    let output = empty.lro(&["policy", "list"], &[]);
    let message = text_of(&output.stderr);
    assert!(
        message.contains("no gateway given: use --gateway URL, LRO_GATEWAY or gateway.metrics-listen"),
        "{message}"
    );

    // Without a token of the operator there is nothing to ask.
    let closed = Home::new("[gateway]\nmetrics-listen = \"127.0.0.1:0\"\n");
    let gateway = closed.gateway();
    assert_eq!(gateway.change("GET", "", own).status, 404);
    let output = closed.lro(&["policy", "list", "--gateway", &gateway.admin], &[]);
    assert!(text_of(&output.stderr).contains("is gateway.admin-token set there?"), "{}", text_of(&output.stderr));
}

// One command asks all replicas and says where they differ; a change that one of them did not make is a failure.
#[test]
fn a_change_goes_to_every_replica() {
    let (home, other) = (Home::keeping(), Home::keeping());
    let replicas = [home.gateway(), other.gateway()];
    let both = format!("{},{}", replicas[0].admin, replicas[1].admin);
    let said = |arguments: &[&str]| {
        let output = home.lro(&[&["policy"], arguments].concat(), &[]);
        (output.status.code(), text_of(&output.stdout), text_of(&output.stderr))
    };
    let one = path_text(&home.write("one.wasm", version(1)));
    let digits = &digest(&version(1))[..12];

    let (status, list, _) = said(&["list", "--gateway", &both]);
    let lines: Vec<&str> = list.lines().collect();
    assert_eq!((status, lines.len()), (Some(0), 2), "{list}");
    for (line, replica) in lines.iter().zip(&replicas) {
        assert!(line.starts_with(&format!("{}  default  version 1  ", replica.admin)), "{line}");
    }

    home.policies(&replicas[0], &["load", "default", &one]);
    let (status, list, message) = said(&["list", "--gateway", &both]);
    assert_eq!((status, list.lines().count(), list.matches(digits).count()), (Some(1), 2, 1), "{list}");
    assert_eq!(message, "error: the gateways have different policies of default\n");

    let (status, changes, _) = said(&["load", "default", &one, "--gateway", &both]);
    assert_eq!((status, changes.matches(&digest(&version(1))).count()), (Some(0), 2), "{changes}");
    let (status, list, message) = said(&["list", "--gateway", &both, "--json"]);
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!((status, message.as_str()), (Some(0), ""));
    for (answered, replica) in list.as_array().unwrap().iter().zip(&replicas) {
        assert_eq!((&answered["gateway"], &answered["error"]), (&json!(replica.admin), &Value::Null));
        assert_eq!(answered["answer"][0]["sha256"], digest(&version(1)), "{answered}");
    }

    let gone = format!("{},http://127.0.0.1:1", replicas[0].admin);
    let (status, changes, message) = said(&["rollback", "default", "--gateway", &gone]);
    assert_eq!((status, changes.lines().count()), (Some(1), 2), "{changes}");
    assert!(changes.contains("http://127.0.0.1:1  cannot reach http://127.0.0.1:1"), "{changes}");
    assert_eq!(message, "error: 1 of 2 gateways did not do it: see above; the others did\n");

    // A name stands for all of its addresses, which may be more than the one that the gateway listens on.
    let name = replicas[1].admin.replace("127.0.0.1", "localhost");
    let (_, list, _) = said(&["list", "--all", "--gateway", &name]);
    let expected = format!("{}  default  version 2  {digits}", replicas[1].admin);
    assert!(list.lines().any(|line| line.starts_with(&expected)), "{list}");
    let (status, _, message) = said(&["list", "--all", "--gateway", "http://replicas.invalid:9808"]);
    assert!(
        status == Some(1) && message.contains("cannot resolve http://replicas.invalid:9808 (--gateway URL)"),
        "{message}"
    );
}

// A tenant without a good policy has its failure mode, which health tells; the others are served.
#[test]
fn a_start_with_a_bad_policy() {
    let home = Home::new("");
    home.write("bad.wasm", b"\0asm\x01\0\0\0");
    home.write("signing.wasm", version(1));
    let bad = home.policy("bad.wasm");
    let ann = format!("[tenants.ann]\n{bad}failure = \"closed\"\n[tenants.bob]\n{bad}failure = \"open\"\n");
    let all = "mode = \"always\"\ncustom = \"sign\"\n";
    home.write("lro.toml", [all, OPERATED, &ann, "[tenants.cat]\n", &home.policy("signing.wasm")].concat());
    let gateway = home.gateway();
    let closed = echo(&gateway.url("ann"), "", SECRET);
    assert!(is_error(&closed) && closed.to_string().contains("is a core module"), "{closed}");
    assert!(!closed.to_string().contains(SECRET), "{closed}");
    assert_eq!(echo(&gateway.url("bob"), "", "a")["content"][0]["text"], "a");
    assert_eq!(signed(&gateway.url("cat"), ""), Some(signature(1)));
    assert_eq!(gateway.health(), (503, "degraded: no policy for ann, bob\n".to_owned()));
    let metrics = gateway.metrics();
    assert!(metrics.contains(r#"lro_failures_total{kind="absent"} 2"#), "{metrics}");
    assert!(home.policies(&gateway, &["list"]).contains("ann  no policy  last refusal: policy is a core module"));
    home.write("bad.wasm", version(2));
    wait_until("health", || gateway.health().0 == 200);
    assert_eq!(signed(&gateway.url("ann"), ""), Some(signature(2)));

    // Without a policy for everybody there is no gateway.
    let bad = path_text(&home.write("bad.wasm", b"\0asm\x01\0\0\0"));
    home.write("lro.toml", OPERATED);
    for arguments in
        [&["gateway", "--policy", &bad, "--", "cat"][..], &["gateway", "--policy", "/nowhere", "--", "cat"]]
    {
        let output = home.lro(arguments, &[]);
        let message = text_of(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let cause = message.contains("is a core module") || message.contains("cannot read policy `/nowhere`");
        assert!(message.lines().any(|line| line.starts_with("error: ")) && cause, "{message}");
    }
}

// After a crash, and with what it finds corrupt, a gateway serves the last good policies.
#[test]
fn a_crash_keeps_the_last_good_policies() {
    let home = Home::new("");
    home.write("signing.wasm", version(1));
    let two = path_text(&home.write("two.wasm", version(2)));
    let all = format!(
        "{}policy-keep = {:?}\nmode = \"always\"\ncustom = \"sign\"\n",
        home.policy("signing.wasm"),
        path_text(&home.path("kept"))
    );
    home.write("lro.toml", [&all, OPERATED, "[tenants.ann]\n"].concat());
    let gateway = home.gateway();
    home.policies(&gateway, &["load", "ann", &two]);
    assert_eq!(signed(&gateway.url("ann"), ""), Some(signature(2)));
    signal("-9", gateway.gate.pid());
    drop(gateway);

    home.write("signing.wasm", &version(3)[..5000]);
    let gateway = home.gateway();
    assert_eq!(signed(&gateway.url("ann"), ""), Some(signature(2)));
    assert_eq!(signed(&gateway.gate.url, ""), Some(signature(1)));
    assert_eq!(gateway.health().0, 200);
    assert!(home.status(&gateway, "ann")["refusal"].as_str().is_none_or(|text| text.contains("not a WebAssembly")));
    assert!(gateway.gate.errors().contains("the last good policy serves"), "{}", gateway.gate.errors());
    home.write("signing.wasm", version(3));
    wait_until("the good file", || signed(&gateway.gate.url, "") == Some(signature(3)));
}

// A policy that fails each time is parked, which only its tenant notices, and another one heals at once.
#[test]
fn a_policy_that_traps_is_parked() {
    let home = Home::new("");
    home.write("trapping.wasm", version(1));
    let good = path_text(&home.write("good.wasm", component("lro_policy.wasm")));
    let breaker = "mode = \"always\"\n[breaker]\nfailures = 3\npause-ms = 60000\n";
    let ann =
        format!("[tenants.ann]\n{}custom = \"inspect-trap\"\nfailure = \"closed\"\n", home.policy("trapping.wasm"));
    home.write(
        "lro.toml",
        [breaker, OPERATED, &ann, "[tenants.bob]\ncustom = \"sign\"\n", &home.policy("trapping.wasm")].concat(),
    );
    let gateway = home.gateway();
    let (ann, bob) = (gateway.url("ann"), gateway.url("bob"));
    let value =
        |metrics: &str, name: &str| metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    for _ in 0..3 {
        let result = echo(&ann, "", "a");
        assert!(is_error(&result) && !result.to_string().contains("parked"), "{result}");
    }
    assert!(home.status(&gateway, "ann")["parked_ms"].as_u64().is_some_and(|left| left > 30_000));
    for _ in 0..4 {
        let result = echo(&ann, "", "a");
        assert!(is_error(&result) && result.to_string().contains("parked"), "{result}");
        assert_eq!(signed(&bob, ""), Some(signature(1)), "the other tenant");
    }
    let metrics = gateway.metrics();
    assert_eq!(value(&metrics, "lro_policies_parked"), Some(1));
    assert_eq!(value(&metrics, r#"lro_failures_total{kind="parked"}"#), Some(4), "{metrics}");
    assert_eq!(value(&metrics, r#"lro_failures_total{kind="trap"}"#), Some(3));
    assert!(home.policies(&gateway, &["list"]).contains("  parked for "));
    assert!(gateway.gate.errors().contains("the policy is parked after repeated failures"));
    home.policies(&gateway, &["load", "ann", &good]);
    assert!(!is_error(&echo(&ann, "", "a")));
    assert_eq!(home.status(&gateway, "ann")["parked_ms"], Value::Null);
    assert_eq!(value(&gateway.metrics(), "lro_policies_parked"), Some(0));
}

// A new version is compared with the one that serves, and takes over when both decide alike.
#[test]
fn a_new_version_is_tried_first() {
    let home = Home::new("");
    home.write("signing.wasm", version(1));
    let other = path_text(&home.write("other.wasm", version(2)));
    // A section of its own makes another component that does the same.
    let same = path_text(&home.write("same.wasm", [&version(1)[..], &[0, 6, 4], b"note!"].concat()));
    let trial = "mode = \"always\"\ncustom = \"sign\"\n[trial]\ncalls = 3\npromote = true\n";
    home.write("lro.toml", [&home.policy("signing.wasm"), trial, OPERATED].concat());
    let gateway = home.gateway();
    let try_it = |file: &str, sha256: &str| {
        let begun = home.policies(&gateway, &["load", "default", file]);
        assert_eq!(begun, format!("on-trial: {sha256}\n"));
        let trial = || home.status(&gateway, "default")["trial"].clone();
        assert_eq!((&trial()["state"], &trial()["sha256"]), (&"running".into(), &sha256.into()));
        for compared in 1..=3 {
            assert_eq!(signed(&gateway.gate.url, ""), Some(signature(1)), "until then the old one answers");
            wait_until("a comparison", || {
                let trial = trial();
                trial["same"].as_u64().unwrap() + trial["different"].as_u64().unwrap() >= compared
            });
        }
        wait_until("the end of the trial", || trial()["state"] != "running");
        trial()
    };
    let found = try_it(&other, &digest(&version(2)));
    assert_eq!((&found["state"], &found["different"], &found["same"]), (&"dropped".into(), &3.into(), &0.into()));
    assert_eq!(found["examples"][0][0], "echo", "{found}");
    let list = home.policies(&gateway, &["list"]);
    assert!(list.contains("trial dropped: 0 the same, 3 different, 0 failed"), "{list}");
    assert_eq!(signed(&gateway.gate.url, ""), Some(signature(1)));

    let sha256 = digest(&fs::read(&same).unwrap());
    let found = try_it(&same, &sha256);
    assert_eq!((&found["state"], &found["same"]), (&"promoted".into(), &3.into()), "{found}");
    let status = home.status(&gateway, "default");
    assert_eq!((&status["sha256"], &status["version"]), (&sha256.into(), &2.into()));
    assert_eq!(signed(&gateway.gate.url, ""), Some(signature(1)));
}

// A tenant that asks for too much at once is refused by its failure mode, and the other one is not.
#[test]
fn calls_of_one_tenant_are_bounded() {
    let home = Home::new("");
    home.write("slow.wasm", version(1));
    let bounds = "[admission]\ncalls = 1\nwaiting = 1\nwait-ms = 50\n[limits]\nwall-time-ms = 4000\n";
    let ann = format!("[tenants.ann]\n{}custom = \"inspect-loop\"\nfailure = \"closed\"\n", home.policy("slow.wasm"));
    let bob = format!("[tenants.bob]\n{}custom = \"sign\"\n", home.policy("slow.wasm"));
    home.write("lro.toml", ["mode = \"always\"\n", bounds, OPERATED, &ann, &bob].concat());
    let gateway = home.gateway();
    let (ann, bob) = (gateway.url("ann"), gateway.url("bob"));
    // Small results of one server are decided upon one after the other.
    let large = "a".repeat(100_000);
    let answers: Vec<Value> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..6).map(|_| scope.spawn(|| echo(&ann, "", &large))).collect();
        for _ in 0..3 {
            assert_eq!(signed(&bob, ""), Some(signature(1)));
        }
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    });
    assert!(answers.iter().all(is_error), "{answers:?}");
    let busy =
        answers.iter().filter(|answer| answer.to_string().contains("calls of this tenant are already running")).count();
    assert!((3..6).contains(&busy), "{answers:?}");
}

// A tenant whose policy never ends takes its own threads only, and none of the other's.
#[test]
fn a_hostile_tenant_does_not_hold_up_the_other() {
    let home = Home::new("");
    home.write("slow.wasm", version(1));
    let limits = "[limits]\nwall-time-ms = 6000\n[breaker]\nfailures = 1000\n";
    let ann = format!("[tenants.ann]\n{}custom = \"inspect-loop\"\nfailure = \"closed\"\n", home.policy("slow.wasm"));
    let bob = format!("[tenants.bob]\n{}custom = \"sign\"\n", home.policy("slow.wasm"));
    home.write("lro.toml", ["mode = \"always\"\n", limits, OPERATED, &ann, &bob].concat());
    let gateway = home.gateway();
    let (ann, bob) = (gateway.url("ann"), gateway.url("bob"));
    let large = "a".repeat(100_000);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..6).map(|_| scope.spawn(|| echo(&ann, "", &large))).collect();
        std::thread::sleep(Duration::from_millis(300));
        let answer = echo(&bob, "", &large);
        assert!(!callers.iter().any(|caller| caller.is_finished()), "it waited for the end of a loop");
        assert_eq!(signed_by(first_text(&answer)), Some(signature(1)), "{answer:.300}");
        assert!(callers.into_iter().all(|caller| is_error(&caller.join().unwrap())));
    });
}

// What its signature states is older is loaded on request alone.
#[test]
fn an_older_policy_is_loaded_on_request() {
    let home = Home::new("");
    let signer = Signer::new(1);
    home.write("one.wasm", version(1));
    home.write("one.wasm.minisig", signer.sign(&version(1)));
    let two = path_text(&home.write("two.wasm", version(2)));
    let three = path_text(&home.write("three.wasm", version(3)));
    home.write("two.wasm.minisig", signer.sign_with(&version(2), "version=1.2"));
    home.write("three.wasm.minisig", signer.sign_with(&version(3), "tenant=ann version=1.10"));
    let signed_by_one = format!("{}policy-keys = [{:?}]\n", home.policy("one.wasm"), signer.public());
    let tenants = format!("[tenants.ann]\n{signed_by_one}[tenants.bob]\n{signed_by_one}");
    home.write("lro.toml", ["mode = \"always\"\ncustom = \"sign\"\n", OPERATED, &tenants].concat());
    let gateway = home.gateway();
    let served = |tenant: &str| signed(&gateway.url(tenant), "").unwrap_or_default();

    home.policies(&gateway, &["load", "ann", &three]);
    let message = home.refused(&gateway, &["load", "bob", &three], 1);
    assert!(message.contains("policy is signed for the tenant `ann`, not for `bob`"), "{message}");
    let message = home.refused(&gateway, &["load", "ann", &two], 1);
    assert!(message.contains("policy has the version 1.2, and the tenant's has 1.10:"), "{message}");
    assert!(home.refused(&gateway, &["reload", "ann"], 1).contains("the version none, and the tenant's has 1.10"));
    assert_eq!((served("ann"), served("bob")), (signature(3), signature(1)));
    home.policies(&gateway, &["load", "ann", &two, "--allow-older"]);
    assert_eq!(served("ann"), signature(2));
    home.policies(&gateway, &["load", "ann", &three]);
    home.policies(&gateway, &["reload", "ann", "--allow-older"]);
    assert_eq!(served("ann"), signature(1));
    let older = Some("allow-older: expected `true` or `false`");
    let reply = gateway.change("POST", "/ann/reload?allow-older=1", &[("Authorization", &format!("Bearer {ADMIN}"))]);
    assert_eq!((reply.status, reply.answer()["error"].as_str()), (400, older));
}

// Killed in the middle of a load, a gateway leaves a version that serves, whatever it finds then.
#[test]
fn a_gateway_that_is_killed_while_it_loads() {
    let home = Home::new("");
    let kept = path_text(&home.path("kept"));
    let all = format!("{}policy-keep = {kept:?}\nmode = \"always\"\ncustom = \"sign\"\n", home.policy("signing.wasm"));
    home.write("lro.toml", [&all, OPERATED].concat());
    let mut served = Vec::new();
    for kill in 0..u32::try_from(rounds("LRO_KILLS", 4)).unwrap() {
        home.write("signing.wasm", version(1));
        let gateway = home.gateway();
        // Never seen before, so it has to be compiled.
        let next = path_text(&home.write("next.wasm", version(100 + kill)));
        std::thread::scope(|scope| {
            scope.spawn(|| home.lro(&["policy", "load", "default", &next, "--gateway", &gateway.admin], &[]));
            std::thread::sleep(Duration::from_millis(u64::from(20 + 130 * kill % 700)));
            signal("-9", gateway.gate.pid());
        });
        drop(gateway);
        home.write("signing.wasm", &version(3)[..5000]);
        let gateway = home.gateway();
        let by = signed(&gateway.gate.url, "").unwrap_or_default();
        assert!([signature(1), signature(100 + kill)].contains(&by), "{by}: {}", gateway.gate.errors());
        assert!(gateway.gate.errors().contains("the last good policy serves"), "{}", gateway.gate.errors());
        served.push(by);
    }
    println!("served after the kills: {served:?}");
}
