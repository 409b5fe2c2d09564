//! TLS of the listener: clients that trust the certificate are served, and those without TLS disturb nobody.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use lro_tests::{wait_until, workspace};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{Gate, faulty, new_mark};
use crate::http::{bytes_of, modern_call};
use crate::scripted::{descriptor, first_text};
use crate::support::{environment, lro, path_text};
use crate::wire::MODERN;

/// How long a client waits for bytes.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory with a certificate and its key.
struct Files(TempDir);

impl Files {
    fn new() -> (Self, CertificateDer<'static>) {
        let files = Self(TempDir::new().unwrap());
        let trusted = files.take("one");
        (files, trusted)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts one of the two certificates and its key in the place of those before.
    fn take(&self, name: &str) -> CertificateDer<'static> {
        fs::copy(made(&format!("{name}.key.pem")), self.path("key.pem")).unwrap();
        fs::copy(made(&format!("{name}.pem")), self.path("certificate.pem")).unwrap();
        certificate(name)
    }

    fn gateway(&self, flags: &[&str]) -> Gate {
        let mark = new_mark();
        let files = [path_text(&self.path("certificate.pem")), path_text(&self.path("key.pem"))];
        let flags = [&["--tls-certificate", &files[0], "--tls-key", &files[1]], flags].concat();
        Gate::listening_before(&flags, &faulty(&[&mark]), &mark, &environment(&[]))
    }
}

/// Certificates for 127.0.0.1 that sign themselves, valid for a century, and their keys.
fn made(file: &str) -> PathBuf {
    workspace().join("tests/gateway/certificates").join(file)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(made(&format!("{name}.pem"))).unwrap()
}

/// The address of a gateway with TLS.
fn address(url: &str) -> &str {
    url.strip_prefix("https://").unwrap().split('/').next().unwrap()
}

/// Calls a tool over a connection of its own, from a client that trusts this certificate alone.
fn call(url: &str, trusted: &CertificateDer<'static>, tool: &str, arguments: Value) -> Result<Value, String> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), "127.0.0.1".try_into().unwrap()).unwrap();
    let stream = TcpStream::connect(address(url)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    let headers = [
        ("MCP-Protocol-Version", MODERN),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", tool),
        ("Accept", "application/json, text/event-stream"),
        ("Connection", "close"),
    ];
    let message = modern_call(1, tool, arguments).to_string();
    let plain = url.replacen("https", "http", 1);
    stream.write_all(&bytes_of(&plain, "POST", &headers, message.as_bytes())).map_err(|error| error.to_string())?;
    let mut response = Vec::new();
    // An end without a farewell is an error.
    stream.read_to_end(&mut response).map_err(|error| error.to_string())?;
    let text = String::from_utf8(response).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").ok_or("no response")?;
    assert!(head.contains("transfer-encoding: chunked") && head.contains("application/json"), "{head}");
    let answer: Value = serde_json::from_str(&unchunked(body)).map_err(|error| error.to_string())?;
    Ok(answer["result"].clone())
}

/// A body without the sizes of its chunks.
fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let (chunk, more) = rest.split_at(usize::from_str_radix(size, 16).unwrap());
        whole += chunk;
        body = more.strip_prefix("\r\n").unwrap();
    }
    whole
}

#[test]
fn clients_connect_with_tls() {
    let (files, trusted) = Files::new();
    let gateway = files.gateway(&[]);
    let small = call(&gateway.url, &trusted, "echo", json!({"text": "over TLS"}));
    assert!(small.is_ok(), "{small:?}");
    let large = call(&gateway.url, &trusted, "huge", json!({"bytes": 3_000_000})).unwrap();
    assert!(descriptor(&large).is_some(), "{:.500}", large.to_string());
    let handle = descriptor(&large).unwrap()["handle"].clone();
    let page = call(&gateway.url, &trusted, "lro_read", json!({"handle": handle})).unwrap();
    assert!(!first_text(&page).is_empty());

    // Who trusts another certificate hears of no tool.
    let refused = call(&gateway.url, &certificate("two"), "echo", json!({"text": "x"})).unwrap_err();
    assert!(refused.contains("certificate"), "{refused}");
    assert!(call(&gateway.url, &trusted, "echo", json!({"text": "x"})).is_ok());
}

#[test]
fn a_large_result_passes_whole_over_tls() {
    let (files, trusted) = Files::new();
    let gateway = files.gateway(&["--mode", "never"]);
    let whole = call(&gateway.url, &trusted, "huge", json!({"bytes": 3_000_000})).unwrap();
    assert!(whole.to_string().len() > 2_000_000, "{}", whole.to_string().len());
    assert!(descriptor(&whole).is_none());
}

#[test]
fn clients_without_tls_end_and_disturb_nobody() {
    let (files, trusted) = Files::new();
    let gateway = files.gateway(&["--header-timeout-ms", "300", "--connections", "4"]);
    // More of them than there are connections.
    let silent: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(address(&gateway.url)).unwrap()).collect();
    assert!(call(&gateway.url, &trusted, "echo", json!({"text": "x"})).is_ok());
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.is_empty(), "{rest:?}");
    }
    let mut plain = TcpStream::connect(address(&gateway.url)).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut rest = Vec::new();
    let _ = plain.read_to_end(&mut rest);
    assert!(!rest.starts_with(b"HTTP/"), "{rest:?}");
    assert!(call(&gateway.url, &trusted, "echo", json!({"text": "x"})).is_ok());
}

#[test]
fn a_certificate_is_taken_when_its_files_change() {
    let (files, before) = Files::new();
    let gateway = files.gateway(&[]);
    let say = |trusted: &CertificateDer<'static>| call(&gateway.url, trusted, "echo", json!({"text": "x"}));
    assert!(say(&before).is_ok());
    let after = files.take("two");
    wait_until("the new certificate", || say(&after).is_ok());
    assert!(say(&before).is_err());
    fs::write(files.path("certificate.pem"), "not a certificate").unwrap();
    wait_until("a warning", || gateway.errors().contains("the certificate of the listener is used as it was"));
    assert!(say(&after).is_ok());
    fs::remove_file(files.path("key.pem")).unwrap();
    files.take("one");
    wait_until("the first certificate again", || say(&before).is_ok());
}

#[test]
fn what_tls_needs_is_checked_at_the_start() {
    let (files, _) = Files::new();
    let [certificate, key] = ["certificate.pem", "key.pem"].map(|name| path_text(&files.path(name)));
    let foreign = path_text(&made("two.key.pem"));
    let empty = path_text(&files.path("empty.pem"));
    fs::write(&empty, "").unwrap();
    let listen = ["--listen", "127.0.0.1:0"];
    let cases: [(&[&str], &str); 6] = [
        (&["--tls-certificate", &certificate], "set gateway.tls-key"),
        (&["--tls-key", &key], "set gateway.tls-certificate"),
        (
            &["--tls-certificate", &certificate, "--tls-key", &foreign],
            "do not fit (gateway.tls-certificate, gateway.tls-key)",
        ),
        (&["--tls-certificate", &empty, "--tls-key", &key], "has no certificate in PEM"),
        (&["--tls-certificate", &certificate, "--tls-key", &empty], "cannot read a private key from"),
        (&["--tls-certificate", "/nowhere", "--tls-key", &key], "cannot read certificates from `/nowhere`"),
    ];
    let run = |flags: &[&str]| {
        let mut command = Command::new(lro());
        command.env("MCP_LRO_DIR", files.path("out")).arg("gateway").args(flags).args(["--", "true"]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (flags, expected) in cases {
        let (code, message) = run(&[&listen, flags].concat());
        assert!(code == Some(1) || code == Some(2), "{code:?} {message}");
        assert!(message.contains(expected), "{expected}: {message}");
    }
    let (_, message) = run(&["--tls-certificate", &certificate, "--tls-key", &key]);
    assert!(message.contains("set gateway.listen"), "{message}");
}
