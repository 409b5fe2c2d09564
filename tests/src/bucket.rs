//! A server of the S3 API as another process, and a proxy before it that does what networks and servers do on bad days.

#![expect(clippy::unwrap_used, reason = "every caller is a test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use lro_host::store::BucketConfig;

use crate::{target, workspace};

/// Headers of requests of the tests themselves. The server does not check the signature, but wants one.
const HEADERS: &str = "Host: s3\r\nAuthorization: AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, \
                       SignedHeaders=host, Signature=0\r\n";

/// The server, which ends with this process.
struct Server {
    port: u16,
    _process: Child,
    _input: ChildStdin,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is answered.
    Answered,
    /// It is answered after a pause.
    Late,
    /// The connection ends before the server sees it.
    Reset,
    /// The server is busy: status 503.
    Busy,
    /// The server has failed: status 500.
    Failed,
    /// The server does what it says, and the connection ends without an answer.
    AnswerLost,
    /// The connection ends in the middle of the answer.
    AnswerCut,
    /// The answer comes in small pieces.
    AnswerSlow,
    /// A byte of the body of the answer is another.
    AnswerDamaged,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// The range that it asks for.
    pub range: Option<String>,
}

/// A proxy before the server.
pub struct Proxy {
    port: u16,
    state: Arc<ProxyState>,
}

type Decide = Box<dyn FnMut(&Seen) -> Fate + Send>;

#[derive(Default)]
struct ProxyState {
    seen: Mutex<Vec<Seen>>,
    decide: Mutex<Option<Decide>>,
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let python = target().join("test-data/venv-bucket/bin/python");
        assert!(python.exists(), "{} is not there: run `make test-data`", python.display());
        let mut process = Command::new(python)
            .arg(workspace().join("tests/tools/servers/bucket.py"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap();
        let input = process.stdin.take().unwrap();
        Server { port, _process: process, _input: input }
    })
}

/// The address of a new, empty bucket, with a prefix in it.
pub fn new_bucket() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let bucket = format!("bucket-{}", COUNT.fetch_add(1, Ordering::Relaxed));
    let answer = ask(server().port, &format!("PUT /{bucket} HTTP/1.1\r\n{HEADERS}Content-Length: 0\r\n\r\n"));
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
    format!("s3://{bucket}/some/offloads")
}

/// The keys in a bucket below its prefix, sorted.
pub fn keys(url: &str) -> Vec<String> {
    let (bucket, prefix) = url.strip_prefix("s3://").unwrap().split_once('/').unwrap();
    let list = format!("GET /{bucket}?list-type=2&prefix={prefix}/ HTTP/1.1\r\n{HEADERS}\r\n");
    let answer = String::from_utf8(ask(server().port, &list)).unwrap();
    let keys = answer.split("<Key>").skip(1).map(|rest| rest.split_once("</Key>").unwrap().0);
    let mut keys: Vec<String> = keys.map(|key| key.strip_prefix(prefix).unwrap()[1..].to_owned()).collect();
    keys.sort();
    keys
}

/// Variables of the environment for the server, or a proxy before it.
pub fn variables(port: u16) -> [(&'static str, String); 5] {
    [
        ("AWS_ENDPOINT", format!("http://127.0.0.1:{port}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "key".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
    ]
}

/// The port of the server.
pub fn port() -> u16 {
    server().port
}

/// Settings for a bucket, behind this port.
pub fn config(url: &str, port: u16) -> BucketConfig {
    let options = variables(port).map(|(name, value)| (name.to_lowercase(), value));
    BucketConfig { options: BTreeMap::from(options), ..BucketConfig::new(url) }
}

impl Proxy {
    /// A proxy that answers all requests.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, state) = (listener.local_addr().unwrap().port(), Arc::<ProxyState>::default());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || state.serve(client));
            }
        });
        Self { port, state }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Decides from now on.
    pub fn decide(&self, decide: impl FnMut(&Seen) -> Fate + Send + 'static) {
        *self.state.decide.lock().unwrap() = Some(Box::new(decide));
    }

    /// The requests since the last call of this.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.state.seen.lock().unwrap())
    }
}

impl ProxyState {
    /// Serves one request. Errors are those of a connection that somebody has closed.
    fn serve(&self, client: TcpStream) {
        let mut reader = BufReader::new(client.try_clone().unwrap());
        let Some((head, body)) = message(&mut reader) else { return };
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let range = header(&head, "range").map(str::to_owned);
        let seen = Seen { method: method.to_owned(), target: target.to_owned(), range };
        let fate = self.decide.lock().unwrap().as_mut().map_or(Fate::Answered, |decide| decide(&seen));
        self.seen.lock().unwrap().push(seen);
        let _ = answer(fate, client, &head, &body);
    }
}

fn answer(fate: Fate, mut client: TcpStream, head: &str, body: &[u8]) -> std::io::Result<()> {
    match fate {
        Fate::Reset => return client.shutdown(Shutdown::Both),
        Fate::Busy => return refuse(&mut client, "503 Slow Down"),
        Fate::Failed => return refuse(&mut client, "500 Internal Server Error"),
        Fate::Late => thread::sleep(Duration::from_millis(300)),
        _ => {}
    }
    let request = [head.as_bytes(), b"Connection: close\r\n\r\n", body].concat();
    let mut answer = ask_bytes(server().port, &request);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    match fate {
        Fate::AnswerLost => return client.shutdown(Shutdown::Both),
        Fate::AnswerCut => answer.truncate((answer.len() + end) / 2),
        Fate::AnswerDamaged if end < answer.len() => {
            let at = (answer.len() + end) / 2;
            answer[at] ^= 1;
        }
        _ => {}
    }
    let pieces = if fate == Fate::AnswerSlow { answer.len().div_ceil(8).max(1) } else { answer.len().max(1) };
    for piece in answer.chunks(pieces) {
        client.write_all(piece)?;
        if fate == Fate::AnswerSlow {
            thread::sleep(Duration::from_millis(20));
        }
    }
    client.shutdown(Shutdown::Both)
}

fn refuse(client: &mut TcpStream, status: &str) -> std::io::Result<()> {
    write!(client, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    client.shutdown(Shutdown::Both)
}

/// The head of a message without the empty line, and its body.
fn message(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    head.truncate(head.len() - 2);
    let length = header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((head, body))
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

/// Sends a request on a connection of its own, and returns the whole answer.
fn ask(port: u16, request: &str) -> Vec<u8> {
    ask_bytes(port, request.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1).as_bytes())
}

fn ask_bytes(port: u16, request: &[u8]) -> Vec<u8> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    server.write_all(request).unwrap();
    let mut answer = Vec::new();
    // A server that ends the connection early has answered.
    let _ = server.read_to_end(&mut answer);
    answer
}

/// The content of an object below the prefix of a bucket.
pub fn get(url: &str, key: &str) -> Vec<u8> {
    let head = format!("GET /{}/{key} HTTP/1.1\r\n{HEADERS}\r\n", url.strip_prefix("s3://").unwrap());
    let answer = ask(server().port, &head);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer[..end]));
    answer[end..].to_vec()
}

/// Writes an object below the prefix of a bucket, as nobody does who knows the format.
pub fn put(url: &str, key: &str, content: &[u8]) {
    let head = format!("PUT /{}/{key} HTTP/1.1\r\n{HEADERS}", url.strip_prefix("s3://").unwrap());
    let head = format!("{head}Content-Length: {}\r\nConnection: close\r\n\r\n", content.len());
    let answer = ask_bytes(server().port, &[head.as_bytes(), content].concat());
    assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}
