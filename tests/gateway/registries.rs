//! Policies from OCI registries: Debian's `docker-registry`, and one that answers wrongly.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lro_tests::{component, free_port, signature, target, version, wait_until, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::policies::{Home, OPERATED, Operated, Signer, digest, signed, text_of};
use crate::support::path_text;

/// The user `ann` with the password `secret`, as `htpasswd -B` writes it.
const HTPASSWD: &str = "ann:$2y$05$6HLXINhCe9uK40o8/M6xmeau5XEgQdTld9hvD7MuW4OfqpjsyMYHC\n";

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.wasm.config.v0+json";

/// What the policy of tests needs to say who it is.
const SIGNING: &str = "mode = \"always\"\ncustom = \"sign\"\nfailure = \"closed\"\n";

/// Debian's registry with an empty storage.
struct Debian {
    child: Child,
    address: String,
    _files: TempDir,
}

impl Debian {
    fn start(with_users: bool) -> Self {
        let files = TempDir::new().unwrap();
        let port = free_port();
        let (storage, users) = (files.path().join("storage"), files.path().join("htpasswd"));
        fs::write(&users, HTPASSWD).unwrap();
        let auth = format!("auth:\n  htpasswd:\n    realm: tests\n    path: {}\n", users.display());
        let config = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: 127.0.0.1:{port}\n{}",
            storage.display(),
            if with_users { &auth } else { "" }
        );
        let path = files.path().join("config.yml");
        fs::write(&path, config).unwrap();
        let mut command = Command::new("docker-registry");
        let child = command.arg("serve").arg(path).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.unwrap_or_else(|error| panic!("docker-registry: {error}: run `make test-data`"));
        let registry = Self { child, address: format!("127.0.0.1:{port}"), _files: files };
        wait_until("the registry", || TcpStream::connect(&registry.address).is_ok());
        registry
    }

    fn reference(&self, name: &str) -> String {
        format!("oci://{}/{name}", self.address)
    }
}

impl Drop for Debian {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// One answer of a registry that is not Debian's. An empty status closes the connection without one.
#[derive(Clone, Default)]
struct Answer {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// Bytes that are announced beyond the body.
    missing: usize,
    /// Bytes of the body that are sent at once; then it waits for good.
    stops_at: Option<usize>,
}

impl Answer {
    fn ok(kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status: "200 OK",
            headers: vec![("Content-Type", kind.to_owned())],
            body: body.into(),
            ..Self::default()
        }
    }

    fn status(status: &'static str) -> Self {
        Self { status, ..Self::default() }
    }
}

/// A registry that answers as it is told, by path and authorization.
struct Scripted {
    address: String,
    asked: Arc<AtomicUsize>,
}

impl Scripted {
    fn start(answer: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (asked, answer) = (Arc::new(AtomicUsize::new(0)), Arc::new(answer));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, answer, count) = (stream.unwrap(), Arc::clone(&answer), Arc::clone(&count));
                std::thread::spawn(move || serve(stream, &*answer, &count));
            }
        });
        Self { address, asked }
    }

    /// One that has this manifest and this component.
    fn with(kind: &str, manifest: &Value, blob: &Answer) -> Self {
        let (manifest, blob) = (Answer::ok(kind, manifest.to_string()), blob.clone());
        Self::start(move |path, _| if path.contains("/manifests/") { manifest.clone() } else { blob.clone() })
    }

    fn reference(&self) -> String {
        format!("oci://{}/policy:1", self.address)
    }
}

/// Answers one request of a connection, and closes it.
fn serve(mut stream: TcpStream, answer: &dyn Fn(&str, &str) -> Answer, asked: &AtomicUsize) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    let Some(first) = lines.next() else { return };
    let headers: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
    let authorization = headers.iter().find_map(|line| line.strip_prefix("authorization: ")).unwrap_or_default();
    asked.fetch_add(1, Ordering::Relaxed);
    let Answer { status, headers, body, missing, stops_at } =
        answer(first.split(' ').nth(1).unwrap_or_default(), authorization);
    let mut head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len() + missing);
    headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    // The client may be gone by then.
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    let _ = stream.write_all(&body[..stops_at.unwrap_or(body.len())]);
    if stops_at.is_some() {
        let _ = stream.read(&mut [0]);
    }
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", digest(bytes))
}

fn described(kind: &str, bytes: &[u8]) -> Value {
    json!({ "mediaType": kind, "digest": sha256(bytes), "size": bytes.len() })
}

/// The manifest of a component.
fn manifest(component: &[u8]) -> Value {
    json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described(CONFIG, b"{}"),
        "layers": [described("application/wasm", component)],
    })
}

/// What a command prints as JSON.
fn told(home: &Home, arguments: &[&str]) -> Value {
    let output = home.lro(arguments, &[]);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text_of(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What a command says when it fails.
fn refusal(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = home.lro(arguments, variables);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{arguments:?}");
    text_of(&output.stderr)
}

fn push(home: &Home, file: &str, reference: &str) -> Value {
    told(home, &["policy", "push", &path_text(&home.path(file)), reference, "--json"])
}

/// A component comes back as it went, by tag and by digest, with its signature; and it has one digest everywhere.
#[test]
fn a_component_goes_to_a_registry_and_back() {
    let (home, registry) = (Home::isolated(), Debian::start(false));
    home.write("one.wasm", version(1));
    home.write("one.wasm.minisig", Signer::new(1).sign(&version(1)));
    home.write("two.wasm", version(2));
    let tag = registry.reference("team/policy:1");
    let pushed = push(&home, "one.wasm", &tag);
    assert_eq!((&pushed["sha256"], &pushed["signed"]), (&json!(digest(&version(1))), &json!(true)));
    let pinned = pushed["reference"].as_str().unwrap();
    assert!(pinned.starts_with(&format!("{tag}@sha256:")), "{pinned}");
    assert_eq!(push(&home, "one.wasm", &tag), pushed, "the same again");
    let moved = push(&home, "two.wasm", &tag);
    assert_ne!(moved["reference"], pushed["reference"]);

    let out = home.path("out.wasm");
    let pull = |reference: &str| told(&home, &["policy", "pull", reference, "-o", &path_text(&out), "--json"]);
    assert_eq!(pull(pinned)["sha256"], json!(digest(&version(1))));
    assert_eq!(fs::read(&out).unwrap(), version(1));
    assert_eq!(fs::read(home.path("out.wasm.minisig")).unwrap(), Signer::new(1).sign(&version(1)).as_bytes());
    let message = refusal(&home, &["policy", "pull", &tag, "-o", &path_text(&out)], &[]);
    assert!(message.contains("has no signature: remove it first"), "{message}");
    fs::remove_file(home.path("out.wasm.minisig")).unwrap();
    assert_eq!(pull(&tag)["reference"], moved["reference"]);
    assert_eq!(fs::read(&out).unwrap(), version(2));

    // Wherever a policy is named.
    let checked = told(&home, &["policy", "check", pinned, "--json"]);
    assert_eq!(checked["sha256"], json!(digest(&version(1))));
    let key = Signer::new(1).public();
    let checked = told(&home, &["policy", "check", pinned, "--json", "--policy-keys", &key]);
    assert_eq!(checked["signed"], json!({ "tenant": null, "version": null, "expires": null }));
    let message = refusal(&home, &["policy", "check", &tag, "--policy-keys", &key], &[]);
    assert!(message.contains("policy is not signed"), "{message}");
    let result = home.write("result.json", r#"{"content":[{"type":"text","text":"a"}]}"#);
    let flags = ["--policy", pinned, "--mode", "always", "--custom", "sign"];
    let run = told(&home, &[&["policy", "run", &path_text(&result), "--json"], &flags[..]].concat());
    assert_eq!(run["verdict"], "offload", "{run}");

    let nothing = registry.reference(&format!("team/policy@sha256:{}", "0".repeat(64)));
    for (reference, reason) in [
        (nothing.as_str(), "has no such artifact"),
        (&registry.reference("team/other"), "has no such artifact"),
        (&registry.reference("team/policy:2"), "compare the name, the tag or the digest with what was pushed"),
    ] {
        let message = refusal(&home, &["policy", "pull", reference], &[]);
        assert!(message.contains(reason), "{message}");
    }
    home.write("module.wasm", b"\0asm\x01\0\0\0");
    let message = refusal(&home, &["policy", "push", &path_text(&home.path("module.wasm")), &tag], &[]);
    assert!(message.contains("only components are pushed, and this is none: it is a core module"), "{message}");
    let message = refusal(&home, &["policy", "push", &path_text(&home.path("one.wasm")), pinned], &[]);
    assert!(message.contains("a digest follows from what is pushed"), "{message}");
    assert_eq!(home.lro(&["policy", "pull", "https://example.com/policy"], &[]).status.code(), Some(2));
}

/// Credentials come from variables and from the files of docker and podman, and are for their registry alone.
#[test]
fn a_registry_with_users() {
    let (home, registry) = (Home::isolated(), Debian::start(true));
    home.write("one.wasm", version(1));
    let (tag, file) = (registry.reference("policy:1"), path_text(&home.path("one.wasm")));
    let variables = |host: &'static str, password| {
        [("LRO_REGISTRY_HOST", host), ("LRO_REGISTRY_USER", "ann"), ("LRO_REGISTRY_PASSWORD", password)]
    };
    let address: &'static str = registry.address.clone().leak();
    let denied = |variables: &[(&str, &str)]| refusal(&home, &["policy", "push", &file, &tag], variables);
    let message = denied(&[]);
    assert!(message.contains("refuses access (401) without credentials: set LRO_REGISTRY_HOST"), "{message}");
    assert!(denied(&variables("ghcr.io", "secret")).contains("(401) without credentials"), "for another registry");
    let message = denied(&variables(address, "wrong"));
    assert!(message.contains("(401) with the credentials there are for it"), "{message}");
    assert!(!message.contains("wrong"), "{message}");
    assert!(denied(&[("LRO_REGISTRY_USER", "ann")]).contains("belong together: set all of them, or none"));

    let output = home.lro(&["policy", "push", &file, &tag], &variables(address, "secret"));
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    let auth = STANDARD.encode("ann:secret");
    let auths = home.write("auth.json", json!({ "auths": { address: { "auth": auth } } }).to_string());
    let out = path_text(&home.path("out.wasm"));
    let pull = ["policy", "pull", &tag, "-o", &out];
    let output = home.lro(&pull, &[("REGISTRY_AUTH_FILE", &path_text(&auths))]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    assert_eq!(fs::read(&out).unwrap(), version(1));
    home.write("auth.json", r#"{"auths":[]}"#);
    assert!(
        refusal(&home, &pull, &[("REGISTRY_AUTH_FILE", &path_text(&auths))]).contains("cannot use the credentials")
    );
}

/// Tokens are asked for where the registry says, with the credentials for it, and never without TLS elsewhere.
#[test]
fn a_registry_with_tokens() {
    let home = Home::isolated();
    let own = version(1);
    let text = manifest(&own).to_string();
    let address = Arc::new(std::sync::OnceLock::<String>::new());
    let (known, users) = (Arc::clone(&address), format!("Basic {}", STANDARD.encode("ann:secret")));
    let registry = Scripted::start(move |path, authorization| match path.split_once('?') {
        Some(("/token", query)) if authorization == users => {
            assert_eq!(query, "service=tests&scope=repository%3Apolicy%3Apull");
            Answer::ok("application/json", r#"{"access_token":"t0k3n"}"#)
        }
        Some(("/token", _)) => Answer::status("401 Unauthorized"),
        _ if authorization != "Bearer t0k3n" => {
            let realm = if path.contains("elsewhere") { "192.0.2.1" } else { known.get().unwrap() };
            let scope = r#"service="tests",scope="repository:policy:pull""#;
            let challenge = format!(r#"Bearer realm="http://{realm}/token",{scope}"#);
            Answer { headers: vec![("WWW-Authenticate", challenge)], ..Answer::status("401 Unauthorized") }
        }
        _ if path.contains("/manifests/") => Answer::ok(MANIFEST, text.clone()),
        _ => Answer::ok("application/octet-stream", own.clone()),
    });
    address.set(registry.address.clone()).unwrap();
    let variables = |password| {
        [
            ("LRO_REGISTRY_HOST", registry.address.as_str()),
            ("LRO_REGISTRY_USER", "ann"),
            ("LRO_REGISTRY_PASSWORD", password),
        ]
    };
    let (reference, out) = (registry.reference(), path_text(&home.path("out.wasm")));
    let pull = ["policy", "pull", &reference, "-o", &out];
    let output = home.lro(&pull, &variables("secret"));
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    assert_eq!(fs::read(&out).unwrap(), version(1));
    assert!(refusal(&home, &pull, &variables("wrong")).contains("refuses access (401) with the credentials"));
    let elsewhere = format!("oci://{}/elsewhere:1", registry.address);
    let message = refusal(&home, &["policy", "pull", &elsewhere], &variables("secret"));
    assert!(message.contains("192.0.2.1 would be asked without TLS"), "{message}");
}

/// Without TLS, only registries are asked that are named, or whose address says that they are on this machine.
#[test]
fn a_registry_without_tls_has_to_be_named() {
    let home = Home::isolated();
    let blob = Answer::ok("application/octet-stream", version(1));
    let registry = Scripted::with(MANIFEST, &manifest(&version(1)), &blob);
    let name = registry.address.replace("127.0.0.1", "0.0.0.0");
    let (reference, out) = (format!("oci://{name}/policy:1"), path_text(&home.path("out.wasm")));
    let pull = ["policy", "pull", &reference, "-o", &out, "--loading-fetch-ms", "5000"];
    refusal(&home, &pull, &[]);
    let output = home.lro(&[&pull[..], &["--loading-plain-http", &name]].concat(), &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text_of(&output.stderr));
    assert_eq!(fs::read(&out).unwrap(), version(1));
}

/// Whatever a registry sends instead of a component is named, and nothing is written.
#[test]
fn what_is_not_the_component_is_refused() {
    let home = Home::isolated();
    let own = version(1);
    let blob = Answer::ok("application/octet-stream", own.clone());
    let with = |change: fn(&mut Value)| {
        let mut value = manifest(&version(1));
        change(&mut value);
        Scripted::with(MANIFEST, &value, &Answer::ok("application/octet-stream", version(1)))
    };
    let damaged = {
        let mut bytes = own.clone();
        bytes[1000] ^= 1;
        bytes
    };
    let body = |answer: Answer| Scripted::with(MANIFEST, &manifest(&version(1)), &answer);
    let status = |status| Scripted::start(move |_, _| Answer::status(status));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let redirect = |to: &'static str| {
        Scripted::start(move |_, _| Answer {
            headers: vec![("Location", to.to_owned())],
            ..Answer::status("307 Temporary Redirect")
        })
    };
    let cases = [
        (Scripted { address: closed, asked: Arc::default() }, "cannot be reached"),
        (status("403 Forbidden"), "refuses access (403) without credentials"),
        (status("500 Internal Server Error"), "answers 500 when asked for the manifest"),
        (status(""), "breaks off"),
        (redirect("http://192.0.2.1/"), "192.0.2.1 would be asked without TLS"),
        (
            with(|it| it["mediaType"] = json!("application/vnd.oci.image.index.v1+json")),
            "but `application/vnd.oci.image.index.v1+json`",
        ),
        (
            with(|it| it["config"]["mediaType"] = json!("application/vnd.oci.image.config.v1+json")),
            "the configuration `application/vnd.oci.image.config.v1+json`",
        ),
        (
            with(|it| it["layers"][0]["mediaType"] = json!("application/vnd.wasm.content.layer.v1+wasm")),
            "the layer `application/vnd.wasm.content.layer.v1+wasm`",
        ),
        (with(|it| it["layers"] = json!([it["layers"][0], it["layers"][0]])), "it has 2 layers; a component is one"),
        (with(|it| it["layers"] = json!([])), "it has 0 layers"),
        (with(|it| it["layers"][0]["digest"] = json!("sha512:00")), "the manifest is wrong: a digest is `sha256:`"),
        (with(|it| *it = json!([1])), "the manifest is not a JSON object"),
        (with(|it| it["annotations"] = json!({ "a": "b".repeat(1 << 20) })), "it has more than 1048576 bytes"),
        (
            with(|it| it["annotations"] = json!({ "io.github.lro-filter.minisig": "b".repeat(5000) })),
            "its signature has more than 4096 bytes",
        ),
        (with(|it| it["layers"][0]["size"] = json!(4_000_001)), "it has more than 4000000 bytes: 4000001"),
        (with(|it| it["layers"][0]["size"] = json!(1000)), "it sends more than the 1000 bytes of the manifest"),
        (Scripted::with("text/html", &json!({}), &blob), "but `text/html`"),
        (body(Answer::ok("text/plain", damaged)), "was asked for: the registry or the way to it is broken"),
        (body(Answer::ok("text/plain", &own[..1000])), "it has the digest sha256:"),
        (body(Answer { missing: 1000, ..Answer::ok("text/plain", &own[..own.len() - 1000]) }), "breaks off"),
        (
            body(Answer { stops_at: Some(1000), ..blob.clone() }),
            "the registry took longer than 1500 ms (loading.fetch-ms)",
        ),
        (body(Answer::status("404 Not Found")), "has no component sha256:"),
    ];
    let flags = ["--loading-fetch-ms", "1500", "--loading-component-bytes", "4000000"];
    for (registry, reason) in cases {
        let out = home.path("out.wasm");
        let reference = registry.reference();
        let message =
            refusal(&home, &[&["policy", "pull", &reference, "-o", &path_text(&out)], &flags[..]].concat(), &[]);
        assert!(
            message.starts_with("error: ") && message.contains(&reference) && message.contains(reason),
            "{reason}: {message}"
        );
        assert!(!out.exists(), "{reason}");
    }
    // Another manifest than the one with the digest.
    let registry = Scripted::with(MANIFEST, &manifest(&own), &blob);
    let pinned = format!("oci://{}/policy@sha256:{}", registry.address, "0".repeat(64));
    let message = refusal(&home, &["policy", "pull", &pinned], &[]);
    assert!(
        message.contains(&format!("it has the digest {}", sha256(manifest(&own).to_string().as_bytes()))),
        "{message}"
    );
}

/// The policy of all tenants is what a tag stands for.
fn tagged(home: &Home, reference: &str, more: &str) {
    home.write("lro.toml", format!("policy = {reference:?}\n{SIGNING}{more}{OPERATED}"));
}

fn served(gateway: &Operated) -> Option<String> {
    signed(&gateway.gate.url, "")
}

/// A tag that moves changes nothing until a load is asked for; then new calls run the new policy, and none fails.
#[test]
fn a_tag_that_moved_is_loaded_when_it_is_asked_for() {
    let (home, registry) = (Home::isolated(), Debian::start(false));
    for number in 1..=3 {
        home.write(&format!("{number}.wasm"), version(number));
    }
    let tag = registry.reference("policy:stable");
    push(&home, "1.wasm", &tag);
    tagged(&home, &tag, "");
    let gateway = home.gateway();
    assert_eq!(served(&gateway), Some(signature(1)));

    let (url, done) = (gateway.gate.url.as_str(), AtomicBool::new(false));
    let seen = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut seen = Vec::new();
                    while !done.load(Ordering::Relaxed) {
                        seen.push(signed(url, "").expect("a call that failed"));
                    }
                    seen
                })
            })
            .collect();
        push(&home, "2.wasm", &tag);
        for _ in 0..5 {
            assert_eq!(served(&gateway), Some(signature(1)), "nobody asked for the new one");
        }
        home.policies(&gateway, &["reload", "default"]);
        assert_eq!(served(&gateway), Some(signature(2)));
        push(&home, "3.wasm", &tag);
        gateway.hang_up();
        wait_until("the third version", || served(&gateway) == Some(signature(3)));
        done.store(true, Ordering::Relaxed);
        callers.into_iter().map(|caller| caller.join().unwrap()).collect::<Vec<_>>()
    });
    let known = [1, 2, 3].map(signature);
    for seen in seen {
        assert!(seen.is_sorted() && seen.iter().all(|by| known.contains(by)), "{seen:?}");
    }

    // By command, from the registry of the gateway; what is no policy changes nothing.
    let first = push(&home, "1.wasm", &registry.reference("other:1"));
    let loaded = home.policies(&gateway, &["load", "default", first["reference"].as_str().unwrap()]);
    assert!(loaded.contains(&digest(&version(1))), "{loaded}");
    home.write("answers.wasm", component("lro_extract.wasm"));
    push(&home, "answers.wasm", &registry.reference("answers"));
    let message = home.refused(&gateway, &["load", "default", &registry.reference("answers")], 1);
    assert!(message.contains("so it is not of the world `"), "{message}");
    let message = home.refused(&gateway, &["load", "default", &registry.reference("nothing")], 1);
    assert!(message.contains("cannot fetch policy `oci://") && message.contains("has no such artifact"), "{message}");
    assert_eq!(served(&gateway), Some(signature(1)));
}

/// Without the registry, a gateway serves on, says what it cannot reach, and starts with what it last had.
#[test]
fn a_restart_without_the_registry() {
    let (home, registry) = (Home::isolated(), Debian::start(false));
    home.write("1.wasm", version(1));
    home.write("2.wasm", version(2));
    let tag = registry.reference("policy:stable");
    let pinned = push(&home, "1.wasm", &tag)["reference"].as_str().unwrap().to_owned();
    tagged(&home, &tag, "");
    let gateway = home.gateway();
    let address = registry.address.clone();
    drop(registry);
    let message = home.refused(&gateway, &["reload", "default"], 1);
    assert!(message.contains(&format!("the registry {address} cannot be reached")), "{message}");
    assert!(home.status(&gateway, "default")["refusal"].as_str().unwrap().contains(&tag));
    assert_eq!(served(&gateway), Some(signature(1)));
    drop(gateway);

    let gateway = home.gateway();
    assert_eq!(served(&gateway), Some(signature(1)));
    gateway.says("the last good policy serves");
    drop(gateway);

    // What has a digest needs no registry once it was pulled, and a pin of the component holds for it too.
    let scripted =
        Scripted::with(MANIFEST, &manifest(&version(2)), &Answer::ok("application/octet-stream", version(2)));
    let digest_of = sha256(manifest(&version(2)).to_string().as_bytes());
    let other = format!("oci://{}/policy@{digest_of}", scripted.address);
    tagged(&home, &other, &format!("policy-sha256 = {:?}\n", digest(&version(2))));
    for _ in 0..2 {
        assert_eq!(served(&home.gateway()), Some(signature(2)));
    }
    assert_eq!(scripted.asked.load(Ordering::Relaxed), 2, "a manifest and a component, once");
    tagged(&home, &other, &format!("policy-sha256 = {:?}\n", digest(&version(1))));
    let output = home.lro(&["gateway", "--check-config", "--", "true"], &[]);
    assert!(output.status.code() == Some(1) && text_of(&output.stderr).contains("is pinned"), "{output:?}");

    // Never pulled, and nowhere: the gateway does not start, and says why.
    tagged(&home, &pinned.replace("policy:stable", "unknown:1"), "");
    let output = home.lro(&["gateway", "--check-config", "--", "true"], &[]);
    let message = text_of(&output.stderr);
    assert!(output.status.code() == Some(1) && message.contains("cannot be reached"), "{message}");
    tagged(&home, "oci://127.0.0.1/", "");
    let output = home.lro(&["gateway", "--check-config", "--", "true"], &[]);
    let message = text_of(&output.stderr);
    assert!(output.status.code() == Some(2) && message.contains("is not a reference to an OCI artifact"), "{message}");
}

/// A cache that others may write to is not used.
#[test]
fn a_cache_that_others_can_write_to() {
    use std::os::unix::fs::PermissionsExt;
    let (home, registry) = (Home::isolated(), Debian::start(false));
    home.write("1.wasm", version(1));
    let tag = registry.reference("policy:1");
    push(&home, "1.wasm", &tag);
    let cache = TempDir::new().unwrap();
    let components = cache.path().join("lro-filter-components");
    let variables = [("XDG_CACHE_HOME", path_text(cache.path()))];
    let variables: Vec<(&str, &str)> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let check = || home.lro(&["policy", "check", &tag], &variables);
    assert_eq!(check().status.code(), Some(0));
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&components), 0o700);
    let files: Vec<_> = fs::read_dir(&components).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files.iter().all(|file| mode(file) == 0o600), "{files:?}");
    // What was changed there is pulled again.
    let name = components.join(format!("{}.wasm", digest(&version(1))));
    fs::write(&name, version(2)).unwrap();
    assert!(text_of(&check().stdout).contains(&digest(&version(1))));
    assert_eq!(fs::read(&name).unwrap(), version(1));
    fs::set_permissions(&components, fs::Permissions::from_mode(0o770)).unwrap();
    drop(registry);
    let output = check();
    assert!(text_of(&output.stderr).contains("cannot be reached"), "{output:?}");
}

/// Where `wkg` looks for them, each version of the contract is a WIT package, and each component a component.
#[test]
fn the_contract_and_the_components_are_published() {
    let (home, registry) = (Home::isolated(), Debian::start(false));
    let script = workspace().join("tests/tools/publish.sh");
    let mut command = Command::new("sh");
    command
        .args([script.as_path(), &target(), registry.address.as_ref()])
        .env("HOME", home.path(""))
        .env("XDG_CACHE_HOME", home.path(""));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text_of(&output.stderr));
    let pushed: Vec<Value> = text_of(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(pushed.len(), 8, "{pushed:?}");
    let out = path_text(&home.path("out.wasm"));
    for (name, worlds) in [("lro/filter:0.1.0", 2), ("lro/filter:0.2.0", 2), ("lro/document:0.1.0", 1)] {
        told(&home, &["policy", "pull", &registry.reference(name), "-o", &out, "--json"]);
        let decoded = wit_component::decode(&fs::read(&out).unwrap()).unwrap();
        let wit_component::DecodedWasm::WitPackage(resolve, package) = decoded else { panic!("{name}") };
        let package = &resolve.packages[package];
        assert_eq!(
            (package.name.to_string(), package.worlds.len()),
            (name.replace('/', ":").replacen(":0", "@0", 1), worlds)
        );
    }
    let checked = told(&home, &["policy", "check", &registry.reference("lro/redact:0.1.0"), "--json"]);
    assert_eq!(checked["sha256"], json!(digest(&component("lro_redact.wasm"))));
    let message = refusal(&home, &["policy", "check", &registry.reference("lro/filter:0.2.0")], &[]);
    assert!(message.contains("so it is not of the world `"), "{message}");
}
