//! A server of the part of the S3 API that a store uses for small objects, with all objects in memory, sorted by key: others take
//! time for each list that grows with all objects. The benchmark runs itself as this server, with offloads that nobody has
//! written.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use httpdate::fmt_http_date;
use lro_host::store::{Ulid, rfc3339};
use lro_tests::bucket::{decoded, header, message};

/// The argument that runs the benchmark as this server; the number of tenants and of offloads of each follow.
pub(crate) const ARGUMENT: &str = "--objects";
/// Most keys of one page of a list, as in S3.
const PAGE: usize = 1000;
/// Age of every second offload, which has expired then, and of the others.
const AGES: [Duration; 2] = [Duration::from_secs(2 * 3600), Duration::from_secs(60)];
/// The path that answers with the requests since the last time, by kind.
const SEEN: &str = "/seen";

/// The server as another process, which ends with this.
pub(crate) struct Server {
    pub(crate) port: u16,
    process: Child,
}

/// Requests by kind: `list`, `get`, `put` and `delete`.
pub(crate) type Requests = BTreeMap<String, u64>;

struct Object {
    bytes: Vec<u8>,
    size: u64,
    modified: SystemTime,
    /// Changes with each write.
    version: u64,
}

#[derive(Default)]
struct Objects {
    by_key: BTreeMap<String, Object>,
    versions: u64,
    seen: Requests,
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    head: String,
    body: Vec<u8>,
}

struct Answer {
    status: &'static str,
    headers: String,
    body: Vec<u8>,
}

impl Server {
    pub(crate) fn start(tenants: usize, offloads: usize) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([ARGUMENT, &tenants.to_string(), &offloads.to_string()]).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { port: port.trim().parse().unwrap(), process }
    }

    /// The requests since the last time.
    pub(crate) fn seen(&self) -> Requests {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {SEEN} HTTP/1.1\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The id of an offload: those with an odd number have not expired.
pub(crate) fn id(number: usize, random: usize) -> Ulid {
    let time = SystemTime::now() - AGES[number % 2];
    Ulid::from_parts(time.duration_since(UNIX_EPOCH).unwrap().as_millis(), random as u128)
}

/// Runs as the server.
pub(crate) fn serve(mut arguments: impl Iterator<Item = String>) {
    let mut number = || arguments.next().unwrap().parse().unwrap();
    let objects = Arc::new(Mutex::new(Objects::of(number(), number())));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for stream in listener.incoming() {
        let (stream, objects) = (stream.unwrap(), Arc::clone(&objects));
        thread::spawn(move || while_open(&stream, &objects));
    }
}

fn while_open(mut stream: &TcpStream, objects: &Mutex<Objects>) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = Request::read(&mut reader) {
        let Answer { status, headers, body } = objects.lock().unwrap().answer(&request);
        let is_head = request.method == "HEAD";
        let mut answer = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}\r\n", body.len()).into_bytes();
        answer.extend(if is_head { Vec::new() } else { body });
        if stream.write_all(&answer).is_err() || header(&request.head, "connection") == Some("close") {
            return;
        }
    }
}

impl Request {
    /// `None` at the end of the connection.
    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let (head, body) = message(reader)?;
        let mut words = head.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?);
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        };
        let (path, query) = (decoded(path), query.split('&').map(pair).collect());
        Some(Self { method, path, query, head, body })
    }
}

impl Objects {
    /// Offloads of one file with an index and a manifest.
    fn of(tenants: usize, offloads: usize) -> Self {
        let mut objects = Self::default();
        for tenant in 0..tenants {
            for offload in 0..offloads {
                let id = id(offload, tenant * offloads + offload);
                for (name, size) in [("items.jsonl", 500_000), (".items.jsonl.ranges", 200), ("manifest.json", 4000)] {
                    let key = format!("scale/tenant-{tenant}/{id}/{name}");
                    objects.by_key.insert(key, Object { bytes: Vec::new(), size, modified: id.time(), version: 0 });
                }
            }
        }
        objects
    }

    fn answer(&mut self, request: &Request) -> Answer {
        if request.path == SEEN {
            let seen = std::mem::take(&mut self.seen);
            return Answer::with(serde_json::to_vec(&seen).unwrap());
        }
        // Behind the name of the bucket.
        let key = request.path.trim_start_matches('/').split_once('/').map(|(_, key)| key).unwrap_or_default();
        let (kind, answer) = match request.method.as_str() {
            "GET" if key.is_empty() => ("list", self.list(&request.query)),
            "GET" | "HEAD" => ("get", self.get(key)),
            "PUT" => ("put", self.put(key, request)),
            "POST" => ("delete", self.delete(&request.body)),
            "DELETE" => {
                self.by_key.remove(key);
                ("delete", Answer::with(Vec::new()))
            }
            _ => ("other", Answer::failed("405 Method Not Allowed")),
        };
        *self.seen.entry(kind.to_owned()).or_default() += 1;
        answer
    }

    fn list(&self, query: &BTreeMap<String, String>) -> Answer {
        let prefix = query.get("prefix").map(String::as_str).unwrap_or_default();
        let after = query.get("continuation-token").or_else(|| query.get("start-after"));
        let from = after.map_or(prefix.to_owned(), |after| format!("{after}\0"));
        let mut found = self.by_key.range(from..).take_while(|(key, _)| key.starts_with(prefix)).peekable();
        let mut text = String::from("<ListBucketResult>");
        let mut last = "";
        for (key, object) in found.by_ref().take(PAGE) {
            let (size, modified) = (object.size, rfc3339(object.modified));
            let contents = format_args!("<Key>{key}</Key><Size>{size}</Size><LastModified>{modified}</LastModified>");
            write!(text, "<Contents>{contents}</Contents>").unwrap();
            last = key;
        }
        if found.peek().is_some() {
            write!(text, "<NextContinuationToken>{last}</NextContinuationToken>").unwrap();
        }
        text.push_str("</ListBucketResult>");
        Answer::with(text.into_bytes())
    }

    fn get(&self, key: &str) -> Answer {
        let Some(object) = self.by_key.get(key) else { return Answer::failed("404 Not Found") };
        let headers = format!("etag: \"{}\"\r\nlast-modified: {}\r\n", object.version, fmt_http_date(object.modified));
        Answer { headers, ..Answer::with(object.bytes.clone()) }
    }

    fn put(&mut self, key: &str, request: &Request) -> Answer {
        let there = self.by_key.get(key).map(|object| format!("\"{}\"", object.version));
        let refuses = |expected: &str| there.as_deref() != Some(expected);
        if header(&request.head, "if-none-match").is_some_and(|_| there.is_some())
            || header(&request.head, "if-match").is_some_and(refuses)
        {
            return Answer::failed("412 Precondition Failed");
        }
        self.versions += 1;
        let (bytes, version) = (request.body.clone(), self.versions);
        let object = Object { size: bytes.len() as u64, bytes, modified: SystemTime::now(), version };
        self.by_key.insert(key.to_owned(), object);
        Answer { headers: format!("etag: \"{version}\"\r\n"), ..Answer::with(Vec::new()) }
    }

    fn delete(&mut self, body: &[u8]) -> Answer {
        let body = String::from_utf8_lossy(body);
        for key in body.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>")) {
            self.by_key.remove(key.0);
        }
        Answer::with(b"<DeleteResult><Deleted><Key>all</Key></Deleted></DeleteResult>".to_vec())
    }
}

impl Answer {
    fn with(body: Vec<u8>) -> Self {
        Self { status: "200 OK", headers: String::new(), body }
    }

    fn failed(status: &'static str) -> Self {
        Self { status, ..Self::with(b"<Error><Code>Failed</Code></Error>".to_vec()) }
    }
}
