//! Tokens that an authorization server signs: who is let in, as which tenant, and what everyone else learns.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, thread};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use lro_tests::{wait_until, workspace};
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use ring::{digest, hmac};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{Gate, faulty, new_mark};
use crate::http::{Exchange, Reply, modern_call, open_modern};
use crate::scripted::{descriptor, handle};
use crate::support::{environment, lro, path_text};

const ISSUER: &str = "https://login.example.com";
const AUDIENCE: &str = "https://mcp.example.com/mcp";

/// An authorization server: its keys.
struct Issuer {
    rsa: RsaKeyPair,
    ecdsa: EcdsaKeyPair,
    ed25519: Ed25519KeyPair,
    /// At the end of the ids of its keys.
    name: &'static str,
}

impl Issuer {
    fn new(name: &'static str) -> Self {
        let random = SystemRandom::new();
        let ecdsa = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ed25519 = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
        let rsa = fs::read(workspace().join("tests/gateway/certificates/issuer.rsa.pk8")).unwrap();
        Self {
            rsa: RsaKeyPair::from_pkcs8(&rsa).unwrap(),
            ecdsa: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ecdsa.as_ref(), &random).unwrap(),
            ed25519: Ed25519KeyPair::from_pkcs8(ed25519.as_ref()).unwrap(),
            name,
        }
    }

    /// Its public keys, with one of a kind that nobody knows.
    fn key_set(&self) -> Value {
        let rsa = PublicKeyComponents::<Vec<u8>>::from(self.rsa.public());
        let (x, y) = self.ecdsa.public_key().as_ref()[1..].split_at(32);
        let id = |kind: &str| format!("{kind}-{}", self.name);
        json!({"keys": [
            {"kty": "new", "kid": "new"},
            {"kty": "RSA", "kid": id("RS256"), "use": "sig", "n": BASE64.encode(rsa.n), "e": BASE64.encode(rsa.e)},
            {"kty": "EC", "kid": id("ES256"), "crv": "P-256", "alg": "ES256", "x": BASE64.encode(x), "y": BASE64.encode(y)},
            {"kty": "OKP", "kid": id("EdDSA"), "crv": "Ed25519", "x": BASE64.encode(self.ed25519.public_key().as_ref())},
        ]})
    }

    /// A token with these claims.
    fn token(&self, algorithm: &str, claims: &Value) -> String {
        self.token_with(&json!({"alg": algorithm, "typ": "JWT", "kid": format!("{algorithm}-{}", self.name)}), claims)
    }

    fn token_with(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(claims.to_string()));
        let random = SystemRandom::new();
        let signature = match header["alg"].as_str() {
            Some("RS256") => {
                let mut signature = vec![0; self.rsa.public().modulus_len()];
                self.rsa.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
                signature
            }
            Some("ES256") => self.ecdsa.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
            Some("EdDSA") => self.ed25519.sign(signed.as_bytes()).as_ref().to_vec(),
            // With what everybody knows as the secret.
            Some("HS256") => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, self.ed25519.public_key().as_ref());
                hmac::sign(&key, signed.as_bytes()).as_ref().to_vec()
            }
            _ => Vec::new(),
        };
        format!("{signed}.{}", BASE64.encode(signature))
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Claims that hold for an hour.
fn claims(tenant: &str) -> Value {
    json!({"iss": ISSUER, "aud": AUDIENCE, "exp": now() + 3600, "iat": now(), "sub": "somebody", "tenant": tenant})
}

/// The claims with others in their places.
fn with(changes: Value) -> Value {
    let mut all = claims("ann");
    for (name, value) in changes.as_object().unwrap() {
        all[name] = value.clone();
    }
    all
}

/// A gateway that takes the tokens of the issuer whose keys are there.
fn gateway(keys: &str, flags: &[&str]) -> Gate {
    let mark = new_mark();
    let jwt = ["--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-keys", keys];
    Gate::listening_before(&[&jwt, flags].concat(), &faulty(&[&mark]), &mark, &environment(&[]))
}

/// Calls a tool with a token.
fn call(url: &str, token: &str, tool: &str, arguments: Value) -> Reply {
    let token = format!("Bearer {token}");
    open_modern(url, &modern_call(1, tool, arguments), &[("Authorization", &token)]).finish()
}

fn status(url: &str, token: &str) -> u16 {
    call(url, token, "echo", json!({"text": "x"})).status
}

#[test]
fn a_token_of_the_authorization_server_names_the_tenant() {
    let (issuer, files) = (Issuer::new("1"), TempDir::new().unwrap());
    let keys = files.path().join("keys.json");
    fs::write(&keys, issuer.key_set().to_string()).unwrap();
    let gateway = gateway(&path_text(&keys), &[]);
    let url = &gateway.url;
    for algorithm in ["RS256", "ES256", "EdDSA"] {
        assert_eq!(status(url, &issuer.token(algorithm, &claims("ann"))), 200, "{algorithm}");
    }
    let without_id = issuer.token_with(&json!({"alg": "ES256"}), &claims("ann"));
    assert_eq!(status(url, &without_id), 200);
    let one_of_some = issuer.token("ES256", &with(json!({"aud": ["https://other.example.com", AUDIENCE]})));
    assert_eq!(status(url, &one_of_some), 200);

    let [ann, bob] = ["ann", "bob"].map(|tenant| issuer.token("EdDSA", &claims(tenant)));
    let large = call(url, &ann, "huge", json!({"bytes": 300_000})).answer();
    let handle = handle(&descriptor(&large["result"]).unwrap_or_else(|| panic!("{:.500}", large.to_string())));
    let read =
        |token: &str| call(url, token, "lro_read", json!({"handle": handle})).answer()["result"]["isError"].clone();
    assert_ne!(read(&ann), true);
    assert_eq!(read(&bob), true, "an offload is that of its tenant");
    // On the path of another tenant a token is worth nothing.
    assert_eq!((status(&format!("{url}/ann"), &ann), status(&format!("{url}/bob"), &ann)), (200, 404));
}

#[test]
fn static_tokens_are_taken_beside_those_of_the_authorization_server() {
    let (issuer, files) = (Issuer::new("1"), TempDir::new().unwrap());
    let [keys, settings] = ["keys.json", "lro.toml"].map(|name| files.path().join(name));
    fs::write(&keys, issuer.key_set().to_string()).unwrap();
    let fixed = BASE64.encode(digest::digest(&digest::SHA256, b"x").as_ref());
    fs::write(&settings, "[gateway.tokens]\ncarl = \"env:CARL\"\n").unwrap();
    let mark = new_mark();
    let keys = path_text(&keys);
    let flags = ["--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-keys", &keys, "--jwt-tenant-claim", "org"];
    let variables = environment(&[("MCP_LRO_CONFIG", &path_text(&settings)), ("CARL", &fixed)]);
    let gateway = Gate::listening_before(&flags, &faulty(&[&mark]), &mark, &variables);
    assert_eq!(status(&gateway.url, &fixed), 200);
    assert_eq!(status(&gateway.url, &issuer.token("ES256", &with(json!({"org": "acme"})))), 200);
    assert_eq!(status(&gateway.url, &issuer.token("ES256", &claims("ann"))), 401, "the tenant is in another claim");
}

#[test]
fn what_was_not_signed_for_this_gateway_is_refused() {
    let (issuer, other, files) = (Issuer::new("1"), Issuer::new("1"), TempDir::new().unwrap());
    let keys = files.path().join("keys.json");
    fs::write(&keys, issuer.key_set().to_string()).unwrap();
    let keys = path_text(&keys);
    let good = issuer.token("ES256", &claims("ann"));
    let (head, tail) = good.rsplit_once('.').unwrap();
    let foreign = BASE64.encode(claims("bob").to_string());
    let changed = format!("{}.{foreign}.{tail}", head.split_once('.').unwrap().0);
    let mut without = claims("ann");
    without.as_object_mut().unwrap().remove("aud");
    let mut endless = claims("ann");
    endless.as_object_mut().unwrap().remove("exp");
    let cases = [
        ("it has expired", issuer.token("ES256", &with(json!({"exp": now() - 3600})))),
        ("it does not expire", issuer.token("ES256", &endless)),
        ("its end is no number", issuer.token("ES256", &with(json!({"exp": "99999999999"})))),
        ("it is for later", issuer.token("ES256", &with(json!({"nbf": now() + 3600})))),
        ("its beginning is no number", issuer.token("ES256", &with(json!({"nbf": "99999999999"})))),
        ("it is of another issuer", issuer.token("ES256", &with(json!({"iss": "https://evil.example.com"})))),
        ("it is for others", issuer.token("ES256", &with(json!({"aud": "https://other.example.com"})))),
        ("it is for nobody", issuer.token("ES256", &without)),
        ("another key signed it", other.token("ES256", &claims("ann"))),
        ("the key has another kind", issuer.token_with(&json!({"alg": "EdDSA", "kid": "ES256-1"}), &claims("ann"))),
        ("its key is not known", issuer.token_with(&json!({"alg": "ES256", "kid": "x"}), &claims("ann"))),
        ("its claims were changed", changed),
        ("nobody signed it", issuer.token_with(&json!({"alg": "none"}), &claims("ann"))),
        ("a public key is its secret", issuer.token_with(&json!({"alg": "HS256", "kid": "EdDSA-1"}), &claims("ann"))),
        ("it names no tenant", issuer.token("ES256", &with(json!({"tenant": null})))),
        ("it names the empty tenant", issuer.token("ES256", &with(json!({"tenant": ""})))),
        ("it names a number as tenant", issuer.token("ES256", &with(json!({"tenant": 7})))),
        ("its tenant has no bound", issuer.token("ES256", &with(json!({"tenant": "x".repeat(300)})))),
        ("it is long", issuer.token("ES256", &with(json!({"more": "x".repeat(20_000)})))),
        ("it is two tokens", format!("{good}.{good}")),
        ("it has no signature", head.to_owned()),
        ("it is no token", "x".to_owned()),
    ];
    for (what, token) in cases {
        // A gateway of its own for each: wrong tokens are counted by address.
        let gateway = gateway(&keys, &[]);
        let refused = call(&gateway.url, &token, "echo", json!({"text": "x"}));
        assert_eq!(refused.status, 401, "{what}: {}", refused.text());
        let demand = &refused.headers["www-authenticate"];
        assert!(demand.contains("resource_metadata=") && demand.contains("invalid_token"), "{what}: {demand}");
        assert_eq!(status(&gateway.url, &good), 200, "{what}");
    }
}

#[test]
fn clients_learn_where_to_get_a_token() {
    let (issuer, files) = (Issuer::new("1"), TempDir::new().unwrap());
    let keys = files.path().join("keys.json");
    fs::write(&keys, issuer.key_set().to_string()).unwrap();
    let gateway = gateway(&path_text(&keys), &[]);
    let demanded = open_modern(&gateway.url, &modern_call(1, "echo", json!({})), &[]).finish();
    assert_eq!(demanded.status, 401);
    let demand = &demanded.headers["www-authenticate"];
    assert!(!demand.contains("error="), "{demand}");
    let address = demand.split('"').nth(1).unwrap();
    let base = gateway.url.strip_suffix("/mcp").unwrap();
    assert_eq!(address, format!("{base}/.well-known/oauth-protected-resource/mcp"));
    for address in [address, &format!("{base}/.well-known/oauth-protected-resource")] {
        let metadata = Exchange::open(address, "GET", &[], b"").finish();
        assert_eq!((metadata.status, &*metadata.headers["content-type"]), (200, "application/json"));
        let metadata: Value = serde_json::from_slice(&metadata.body).unwrap();
        assert_eq!(
            (&metadata["resource"], &metadata["authorization_servers"]),
            (&json!(gateway.url), &json!([ISSUER]))
        );
    }
    assert_eq!(Exchange::open(address, "POST", &[], b"{}").finish().status, 401);
}

/// Serves a key set, which can change, and counts the requests.
fn serve(set: Arc<Mutex<String>>) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            counted.fetch_add(1, Ordering::Relaxed);
            let body = set.lock().unwrap().clone();
            let status = if body.is_empty() { "500 Broken" } else { "200 OK" };
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    (url, count)
}

#[test]
fn keys_are_fetched_when_they_change_and_not_for_every_token() {
    let (first, second) = (Issuer::new("1"), Issuer::new("2"));
    let set = Arc::new(Mutex::new(first.key_set().to_string()));
    let (keys, count) = serve(Arc::clone(&set));
    let gateway = gateway(&keys, &["--jwt-keys-seconds", "1"]);
    let start = Instant::now();
    let [known, new] = [&first, &second].map(|issuer| issuer.token("ES256", &claims("ann")));
    for _ in 0..20 {
        assert_eq!(status(&gateway.url, &known), 200);
    }
    // A server that fails takes nobody's access.
    set.lock().unwrap().clear();
    wait_until("a warning", || {
        assert_eq!(status(&gateway.url, &known), 200);
        gateway.errors().contains("the keys of the authorization server are used as they were")
    });
    *set.lock().unwrap() = second.key_set().to_string();
    wait_until("the new keys", || {
        thread::sleep(Duration::from_millis(500));
        status(&gateway.url, &new) == 200
    });
    let most = 1 + start.elapsed().as_secs() / 10;
    assert!(count.load(Ordering::Relaxed) as u64 <= most + 1, "{count:?} in {:?}", start.elapsed());
    assert_eq!(status(&gateway.url, &known), 401, "the keys before are gone");
}

// Only the request that fetches waits for a server that says nothing.
#[test]
fn a_key_server_that_hangs_holds_up_one_request() {
    let issuer = Issuer::new("1");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let keys = format!("http://{}/keys", listener.local_addr().unwrap());
    let body = issuer.key_set().to_string();
    let (asked, is_asked) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut held = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            if held.is_empty() {
                let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
            held.push(stream);
            let _ = asked.send(());
        }
    });
    let gateway = gateway(&keys, &["--jwt-keys-seconds", "11"]);
    let token = issuer.token("ES256", &claims("ann"));
    assert_eq!(status(&gateway.url, &token), 200);
    is_asked.recv().unwrap();
    thread::sleep(Duration::from_secs(12));
    thread::scope(|scope| {
        let fetching = scope.spawn(|| status(&gateway.url, &token));
        is_asked.recv().unwrap();
        for _ in 0..20 {
            assert_eq!(status(&gateway.url, &token), 200);
        }
        assert_eq!(fetching.join().unwrap(), 200);
    });
    // Who waits for the first fetch finds it too old, and fetches again.
    assert!(is_asked.try_recv().is_err(), "no other request fetches");
}

#[test]
fn what_tokens_need_is_checked_at_the_start() {
    let files = TempDir::new().unwrap();
    let [broken, keys] = ["broken.json", "keys.json"].map(|name| path_text(&files.path().join(name)));
    fs::write(&broken, "{").unwrap();
    fs::write(&keys, r#"{"keys": []}"#).unwrap();
    let listen = ["--listen", "127.0.0.1:0"];
    let all = ["--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-keys"];
    let cases = [
        (listen.to_vec(), vec!["--jwt-issuer", ISSUER], "gateway.jwt-keys"),
        (listen.to_vec(), vec!["--jwt-keys", &keys], "gateway.jwt-issuer"),
        (listen.to_vec(), vec!["--jwt-issuer", ISSUER, "--jwt-keys", &keys], "gateway.jwt-audience"),
        (listen.to_vec(), [&all[..], &["/nowhere"]].concat(), "cannot read `/nowhere` (gateway.jwt-keys)"),
        (listen.to_vec(), [&all[..], &[&broken]].concat(), "is not a JSON Web Key Set"),
        (Vec::new(), [&all[..], &[&keys]].concat(), "set gateway.listen"),
    ];
    for (place, flags, expected) in cases {
        let mut command = std::process::Command::new(lro());
        command
            .env("MCP_LRO_DIR", files.path().join("out"))
            .arg("gateway")
            .args(place)
            .args(flags)
            .args(["--", "true"]);
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && message.contains(expected), "{expected}: {message}");
    }
}
