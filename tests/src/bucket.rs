//! Servers of the S3 API, Google Cloud Storage and Azure Blob Storage as other processes, and a proxy before one that does what
//! networks and servers do on bad days.

#![expect(clippy::unwrap_used, clippy::panic, reason = "every caller is a test")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use futures_util::TryStreamExt;
use lro_host::store::BucketConfig;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, parse_url_opts};
use tokio::runtime::Builder;

use crate::{target, workspace};

/// A service that has buckets, with a server for it that runs here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// moto, or the server that `LRO_TEST_S3_PORT` names.
    S3,
    /// fake-gcs-server, behind what it lacks: `tests/tools/servers/google.py`.
    Google,
    /// azurite.
    Azure,
}

/// All of them.
pub const SERVICES: [Service; 3] = [Service::S3, Service::Google, Service::Azure];

/// The bucket that each server has.
pub const BUCKET: &str = "lro-tests";

/// Names the port on this machine of another server of the S3 API than moto, such as MinIO or s3s-fs. It has the bucket
/// [`BUCKET`], the access key `key` and the secret key `secret`.
const S3_PORT: &str = "LRO_TEST_S3_PORT";

/// The key of azurite that everybody knows.
const AZURE_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// Bytes a second of a network of 1 Gbit/s.
const PACE: f64 = 125e6;

/// A server, which ends with this process.
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
    /// The server refuses the credentials: status 403.
    Refused,
    /// The server does what it says, and the connection ends without an answer.
    AnswerLost,
    /// The connection ends in the middle of the answer.
    AnswerCut,
    /// The answer comes in small pieces.
    AnswerSlow,
    /// The answer comes as over a network of 1 Gbit/s.
    AnswerPaced,
    /// A byte of the body of the answer is another.
    AnswerDamaged,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its method.
    pub method: String,
    /// Path and query, decoded.
    pub target: String,
    /// The range that it asks for.
    pub range: Option<String>,
}

/// A proxy before a server.
pub struct Proxy {
    port: u16,
    state: Arc<ProxyState>,
}

type Decide = Box<dyn FnMut(&Seen) -> Fate + Send>;

struct ProxyState {
    /// Port of the server.
    server: u16,
    seen: Mutex<Vec<Seen>>,
    decide: Mutex<Option<Decide>>,
}

impl Service {
    /// The port of its server.
    pub fn port(self) -> u16 {
        static SERVERS: [OnceLock<Server>; 3] = [const { OnceLock::new() }; 3];
        if self == Self::S3
            && let Ok(port) = std::env::var(S3_PORT)
        {
            return port.parse().unwrap_or_else(|_| panic!("{S3_PORT}={port} is not a port"));
        }
        SERVERS[self as usize].get_or_init(|| self.start()).port
    }

    fn start(self) -> Server {
        let (data, servers) = (target().join("test-data"), workspace().join("tests/tools/servers"));
        let (program, script) = match self {
            Self::S3 => (data.join("venv-bucket/bin/python"), "bucket.py"),
            Self::Google => (data.join("venv-google/bin/python"), "google.py"),
            Self::Azure => (node(), "azure.cjs"),
        };
        let mut process = Command::new(&program)
            .arg(servers.join(script))
            .arg(data.join("azure/node_modules"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}: run `make test-data`", program.display()));
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().parse().unwrap_or_else(|_| panic!("no {script}: run `make test-data`"));
        let input = process.stdin.take().unwrap();
        Server { port, _process: process, _input: input }
    }

    /// How addresses of its buckets begin.
    pub fn scheme(self) -> &'static str {
        ["s3", "gs", "az"][self as usize]
    }

    /// The address of a new, empty prefix of its bucket.
    pub fn new_bucket(self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        format!("{}://{BUCKET}/{process}-{number}/offloads", self.scheme())
    }

    /// The service of an address.
    fn of(url: &str) -> Self {
        SERVICES.into_iter().find(|service| url.split(':').next() == Some(service.scheme())).unwrap()
    }

    /// Variables of the environment for its server, or a proxy before it.
    pub fn variables(self, port: u16) -> Vec<(&'static str, String)> {
        let address = format!("http://127.0.0.1:{port}");
        match self {
            Self::S3 => vec![
                ("AWS_ENDPOINT", address),
                ("AWS_ALLOW_HTTP", "true".to_owned()),
                ("AWS_REGION", "us-east-1".to_owned()),
                ("AWS_ACCESS_KEY_ID", "key".to_owned()),
                ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ],
            Self::Google => {
                vec![("GOOGLE_BASE_URL", address), ("GOOGLE_BEARER_TOKEN", "token-of-tests".to_owned())]
            }
            Self::Azure => vec![
                ("AZURE_STORAGE_ENDPOINT", format!("{address}/devstoreaccount1")),
                ("AZURE_ALLOW_HTTP", "true".to_owned()),
                ("AZURE_STORAGE_ACCOUNT_NAME", "devstoreaccount1".to_owned()),
                ("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY.to_owned()),
            ],
        }
    }

    /// A proxy before its server that answers all requests.
    pub fn proxy(self) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let state = ProxyState { server: self.port(), seen: Mutex::default(), decide: Mutex::default() };
        let (port, state) = (listener.local_addr().unwrap().port(), Arc::new(state));
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || state.serve(client));
            }
        });
        Proxy { port, state }
    }
}

/// The node of the test data, or that of the machine.
fn node() -> PathBuf {
    let modules = std::fs::read_dir(target().join("test-data/mcp/node_modules")).into_iter().flatten().flatten();
    let packages = modules.filter(|entry| entry.file_name().to_string_lossy().starts_with("node-linux-"));
    packages.map(|entry| entry.path().join("bin/node")).next().unwrap_or_else(|| "node".into())
}

/// Settings for a bucket, behind this port.
pub fn config(url: &str, port: u16) -> BucketConfig {
    let variables = Service::of(url).variables(port);
    let options: BTreeMap<String, String> =
        variables.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    BucketConfig { options, ..BucketConfig::new(url) }
}

/// Runs a request of the tests themselves, to the server.
fn request<T>(url: &str, request: impl AsyncFnOnce(&dyn ObjectStore, &Key) -> object_store::Result<T>) -> T {
    // Fails only if the program has installed a provider already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = config(url, Service::of(url).port()).options;
    let (store, prefix) = parse_url_opts(&url.parse().unwrap(), options).unwrap();
    Builder::new_current_thread().enable_all().build().unwrap().block_on(request(&*store, &prefix)).unwrap()
}

/// The keys in a bucket below its prefix, sorted.
pub fn keys(url: &str) -> Vec<String> {
    let below = |key: &Key, prefix: &Key| key.prefix_match(prefix).unwrap().collect::<Key>().to_string();
    let mut keys: Vec<String> = request(url, async |store, prefix| {
        store.list(Some(prefix)).map_ok(|found| below(&found.location, prefix)).try_collect().await
    });
    keys.sort();
    keys
}

/// The keys in a bucket that have this part.
pub fn keys_with(url: &str, part: &str) -> Vec<String> {
    keys(url).into_iter().filter(|key| key.contains(part)).collect()
}

/// The content of an object below the prefix of a bucket.
pub fn get(url: &str, key: &str) -> Vec<u8> {
    request(url, async |store, prefix| store.get(&below(prefix, key)).await?.bytes().await).into()
}

/// Writes an object below the prefix of a bucket, as nobody does who knows the format.
pub fn put(url: &str, key: &str, content: &[u8]) {
    let content = content.to_vec();
    request(url, async |store, prefix| store.put(&below(prefix, key), content.into()).await);
}

fn below(prefix: &Key, key: &str) -> Key {
    prefix.parts().chain(Key::from(key).parts()).collect()
}

impl Proxy {
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
        let seen = Seen { method: method.to_owned(), target: decoded(target), range };
        let fate = self.decide.lock().unwrap().as_mut().map_or(Fate::Answered, |decide| decide(&seen));
        self.seen.lock().unwrap().push(seen);
        let _ = answer(fate, self.server, client, &head, &body);
    }
}

fn answer(fate: Fate, server: u16, mut client: TcpStream, head: &str, body: &[u8]) -> std::io::Result<()> {
    match fate {
        Fate::Reset => return client.shutdown(Shutdown::Both),
        Fate::Busy => return refuse(&mut client, "503 Slow Down"),
        Fate::Failed => return refuse(&mut client, "500 Internal Server Error"),
        Fate::Refused => return refuse(&mut client, "403 Forbidden"),
        Fate::Late => thread::sleep(Duration::from_millis(300)),
        _ => {}
    }
    let request = [head.as_bytes(), b"Connection: close\r\n\r\n", body].concat();
    let mut answer = ask(server, &request);
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
    let pieces = match fate {
        Fate::AnswerSlow => answer.len().div_ceil(8).max(1),
        Fate::AnswerPaced => 1 << 20,
        _ => answer.len().max(1),
    };
    let (begun, mut sent) = (Instant::now(), 0);
    for piece in answer.chunks(pieces) {
        client.write_all(piece)?;
        sent += piece.len();
        match fate {
            Fate::AnswerSlow => thread::sleep(Duration::from_millis(20)),
            Fate::AnswerPaced => {
                let due = Duration::from_secs_f64(sent as f64 / PACE);
                thread::sleep(due.saturating_sub(begun.elapsed()));
            }
            _ => {}
        }
    }
    client.shutdown(Shutdown::Both)
}

fn refuse(client: &mut TcpStream, status: &str) -> std::io::Result<()> {
    write!(client, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
    client.shutdown(Shutdown::Both)
}

/// The head of a message of HTTP without the empty line, and its body. `None` at the end of the connection.
pub fn message(reader: &mut impl BufRead) -> Option<(String, Vec<u8>)> {
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

/// A header in the head of a message.
pub fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
}

/// Sends a request on a connection of its own, and returns the whole answer.
fn ask(port: u16, request: &[u8]) -> Vec<u8> {
    let mut server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    server.write_all(request).unwrap();
    let mut answer = Vec::new();
    // A server that ends the connection early has answered.
    let _ = server.read_to_end(&mut answer);
    answer
}

/// A target without `%` and digits, as services differ in what they encode.
pub fn decoded(target: &str) -> String {
    let mut parts = target.split('%');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at(2);
        decoded.push(u8::from_str_radix(digits, 16).unwrap().into());
        decoded += rest;
    }
    decoded
}
