//! Nothing that answers a call goes past the policy: envelopes that readers disagree about, generated and by name, on both faces
//! and before both kinds of servers. What arrives is read in every way that a lenient client may read it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::{GzDecoder, ZlibDecoder};
use flate2::write::{GzEncoder, ZlibEncoder};
use lro_tests::{component, rounds, target, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{Gate, new_mark, tool_call};
use crate::http::{Exchange, Reply, Session};
use crate::served::{Served, edge};
use crate::support::{Environment, path_text, python};

/// What the policy takes out.
const SECRET: &str = "nobody.s3cret@example.com";

/// What is looked for, in any reading of what arrives.
const TRACE: &str = "s3cret";

/// What stands beside the secret and may be read.
const VISIBLE: &str = "public words";

/// Ends what a server on standard streams says to a call.
const FENCE: &str = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":"the fence"}]}}"#;

/// Messages of a batch that is too long.
const LONG_BATCH: usize = 1_025;

/// The id of the first case.
const FIRST_ID: usize = 1_000;

/// Longest wait for a line.
const PATIENCE: Duration = Duration::from_secs(60);

/// Longest wait for more lines at the end.
const SILENCE: Duration = Duration::from_millis(500);

/// What is to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Anything but the secret.
    Anything,
    /// The result without the secret.
    Visible,
    /// An error with these words.
    Error(&'static str),
    /// A notification, which is not filtered, with no message on a line of its own.
    OneLine,
}

/// How a server over HTTP wraps its answer up.
#[derive(Clone, Debug)]
struct Wrap {
    status: u16,
    headers: Vec<(&'static str, &'static str)>,
    framing: Framing,
    encoding: Encoding,
    /// Bytes of a chunk; none for a body of a known length.
    chunk: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Framing {
    Bare,
    /// An event between these texts; a line break of the data becomes a new line of data.
    Event {
        before: &'static str,
        data: &'static str,
        line_break: &'static str,
        after: &'static str,
    },
    Utf16,
}

#[derive(Clone, Copy, Debug)]
enum Encoding {
    Identity,
    Gzip,
    TwiceGzip,
    Deflate,
    CutGzip,
}

/// What a server answers a call with. `@ID@` stands for the id of the call.
#[derive(Clone, Debug)]
struct Case {
    name: String,
    message: Vec<u8>,
    wrap: Wrap,
    /// Over HTTP, and on standard streams where the wrapping does not count.
    wanted: Wanted,
}

impl Default for Wrap {
    fn default() -> Self {
        let headers = vec![("Content-Type", "application/json")];
        Self { status: 200, headers, framing: Framing::Bare, encoding: Encoding::Identity, chunk: None }
    }
}

impl Wrap {
    fn of_type(kind: &'static str) -> Self {
        let headers = if kind.is_empty() { Vec::new() } else { vec![("Content-Type", kind)] };
        Self { headers, ..Self::default() }
    }

    fn encoded(value: &'static str, encoding: Encoding) -> Self {
        let headers = vec![("Content-Type", "application/json"), ("Content-Encoding", value)];
        Self { headers, encoding, ..Self::default() }
    }

    fn event(before: &'static str, data: &'static str, line_break: &'static str, after: &'static str) -> Self {
        let framing = Framing::Event { before, data, line_break, after };
        Self { framing, ..Self::of_type("text/event-stream") }
    }

    /// All bytes of the response.
    fn response(&self, message: &[u8]) -> Vec<u8> {
        let body = self.encoding.of(&self.framing.of(message));
        let mut head = format!("HTTP/1.1 {} Said\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let Some(size) = self.chunk else {
            return [format!("{head}Content-Length: {}\r\n\r\n", body.len()).as_bytes(), &body].concat();
        };
        let mut bytes = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
        for chunk in body.chunks(size) {
            bytes.extend(format!("{:x}\r\n", chunk.len()).as_bytes());
            bytes.extend(chunk);
            bytes.extend(b"\r\n");
        }
        bytes.extend(b"0\r\n\r\n");
        bytes
    }
}

impl Framing {
    fn of(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Bare => message.to_vec(),
            Self::Utf16 => String::from_utf8_lossy(message).encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Self::Event { before, data, line_break, after } => {
                let text = String::from_utf8_lossy(message);
                let lines: Vec<String> = text.split('\n').map(|line| format!("{data}{line}")).collect();
                format!("{before}{}{after}", lines.join(line_break)).into_bytes()
            }
        }
    }
}

impl Encoding {
    fn of(self, body: &[u8]) -> Vec<u8> {
        let gzip = |body: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(body).unwrap();
            encoder.finish().unwrap()
        };
        match self {
            Self::Identity => body.to_vec(),
            Self::Gzip => gzip(body),
            Self::TwiceGzip => gzip(&gzip(body)),
            Self::CutGzip => gzip(body).split_last_chunk::<4>().unwrap().0.to_vec(),
            Self::Deflate => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
                encoder.write_all(body).unwrap();
                encoder.finish().unwrap()
            }
        }
    }
}

/// All texts that a reader may find in some bytes: packed or not, of any width, with escapes undone, twice for JSON in a
/// string.
fn readings(bytes: &[u8]) -> Vec<String> {
    let mut all = vec![bytes.to_vec()];
    for _ in 0..2 {
        let mut packed = Vec::new();
        for bytes in &all {
            let (mut gzip, mut zlib) = (Vec::new(), Vec::new());
            // What was unpacked before it broke is read, too.
            let _ = GzDecoder::new(bytes.as_slice()).read_to_end(&mut gzip);
            let _ = ZlibDecoder::new(bytes.as_slice()).read_to_end(&mut zlib);
            packed.extend([gzip, zlib].into_iter().filter(|bytes| !bytes.is_empty()));
        }
        all.extend(packed);
    }
    let without_nul: Vec<Vec<u8>> =
        all.iter().map(|bytes| bytes.iter().copied().filter(|byte| *byte != 0).collect()).collect();
    all.extend(without_nul);
    let texts: Vec<String> = all.iter().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).collect();
    let once: Vec<String> = texts.iter().map(|text| unescaped(text)).collect();
    let twice: Vec<String> = once.iter().map(|text| unescaped(text)).collect();
    [texts, once, twice].concat()
}

/// A text without the escapes of ASCII.
fn unescaped(text: &str) -> String {
    let mut shown = text.replace("\\/", "/").replace("\\\\", "\\");
    for character in ' '..='~' {
        let code = u32::from(character);
        for escape in [format!("\\u{code:04x}"), format!("\\u{code:04X}")] {
            shown = shown.replace(&escape, &character.to_string());
        }
    }
    shown
}

fn assert_clean(name: &str, arrived: &[u8]) {
    for reading in readings(arrived) {
        let place = reading.find(TRACE);
        let around = |at: usize| reading.chars().skip(reading[..at].chars().count().saturating_sub(300)).take(700);
        assert!(place.is_none(), "{name}: the secret arrives: {}", around(place.unwrap_or(0)).collect::<String>());
    }
}

/// A response with this result.
fn answer(result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#)
}

/// A result with the secret in a text.
fn secret_result() -> String {
    json!({"content": [{"type": "text", "text": format!("{VISIBLE} {SECRET}")}]}).to_string()
}

fn plain_result() -> String {
    json!({"content": [{"type": "text", "text": VISIBLE}]}).to_string()
}

/// A message that a case answers with, the same on every transport.
fn told(name: &str, message: impl Into<Vec<u8>>, wanted: Wanted) -> Case {
    Case { name: name.to_owned(), message: message.into(), wrap: Wrap::default(), wanted }
}

/// The usual message, wrapped up in another way.
fn wrapped(name: &str, wrap: Wrap, wanted: Wanted) -> Case {
    Case { name: name.to_owned(), message: answer(&secret_result()).into(), wrap, wanted }
}

/// A result of the size that was seen to go through.
fn large_result() -> String {
    let text = format!("{VISIBLE} {SECRET} ").repeat(290_000 / 40);
    json!({"content": [{"type": "text", "text": text}]}).to_string()
}

/// Messages that readers disagree about.
fn named_messages() -> Vec<Case> {
    use Wanted::{Anything, Error, OneLine, Visible};
    let (secret, plain) = (secret_result(), plain_result());
    let quoted = json!(SECRET).to_string();
    let with_id = |id: &str| answer(&secret).replace("@ID@", id);
    let mut cases = vec![
        told("plain", answer(&secret), Visible),
        told("large", answer(&large_result()), Anything),
        told("id 1.0", with_id("@ID@.0"), Visible),
        told("id 1e0", with_id("@ID@e0"), Visible),
        told("id 10e-1", with_id("@ID@0e-1"), Visible),
        told("id as a string", with_id("\"@ID@\""), Visible),
        told("id as a string with space", with_id("\" @ID@ \""), Visible),
        told("another id", with_id("\"nobody\""), Anything),
        told("id null", with_id("null"), Anything),
        told("id true", with_id("true"), Anything),
        told("id an array", with_id("[@ID@]"), Anything),
        told("no id", format!(r#"{{"jsonrpc":"2.0","result":{secret}}}"#), Anything),
        told(
            "id twice",
            format!(r#"{{"jsonrpc":"2.0","id":0,"id":@ID@,"result":{secret}}}"#),
            Error("two members `id`"),
        ),
        told(
            "id twice, the last another",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"id":0,"result":{secret}}}"#),
            Error("two members `id`"),
        ),
        told(
            "result twice",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{plain},"result":{secret}}}"#),
            Error("two members `result`"),
        ),
        told(
            "result twice, the first",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{secret},"result":{plain}}}"#),
            Error("two members `result`"),
        ),
        told(
            "result twice, large",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{plain},"result":{}}}"#, large_result()),
            Error("two members `result`"),
        ),
        told("result escaped", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"\u0072esult":{secret}}}"#), Visible),
        told(
            "result twice, once escaped",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{plain},"\u0072esult":{secret}}}"#),
            Error("two members `result`"),
        ),
        told(
            "Result",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{plain},"Result":{secret}}}"#),
            Error("treat as `result`"),
        ),
        told("RESULT alone", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"RESULT":{secret}}}"#), Error("treat as `result`")),
        told(
            "reſult",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{plain},"reſult":{secret}}}"#),
            Error("treat as `result`"),
        ),
        told(
            "jsonrpc twice",
            format!(r#"{{"jsonrpc":"2.0","jsonrpc":{quoted},"id":@ID@,"result":{plain}}}"#),
            Error("two members `jsonrpc`"),
        ),
        told("another jsonrpc", format!(r#"{{"jsonrpc":{quoted},"id":@ID@,"result":{plain}}}"#), Anything),
        told("no jsonrpc", format!(r#"{{"id":@ID@,"result":{secret}}}"#), Visible),
        told("error null", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"error":null,"result":{secret}}}"#), Visible),
        told(
            "error and result",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"error":{{"code":1,"message":"no"}},"result":{secret}}}"#),
            Error("both `result` and `error`"),
        ),
        told(
            "method and result",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,"method":"ping","result":{secret}}}"#),
            Error("both `method` and `result`"),
        ),
        told("method null", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"method":null,"result":{secret}}}"#), Visible),
        told("another member", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{plain},"more":{quoted}}}"#), Visible),
        told("params", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{plain},"params":{secret}}}"#), Visible),
        told("neither", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"data":{secret}}}"#), Error("not a JSON-RPC message")),
        told(
            "many members",
            format!(r#"{{"jsonrpc":"2.0","id":@ID@,{}"result":{secret}}}"#, r#""x":1,"#.repeat(1_100)),
            Error("more than 1024 members"),
        ),
        told("byte order mark", [b"\xEF\xBB\xBF", answer(&secret).as_bytes()].concat(), Visible),
        told("two byte order marks", [b"\xEF\xBB\xBF\xEF\xBB\xBF", answer(&secret).as_bytes()].concat(), Visible),
        told("space", format!(" \t{} \r", answer(&secret)), Visible),
        told("form feed before", format!("\x0c{}", answer(&secret)), Anything),
        told("NUL after", [answer(&secret).as_bytes(), b"\0"].concat(), Error("not one JSON object")),
        told("junk after", format!("{} x", answer(&secret)), Error("not one JSON object")),
        told("two on a line", format!("{} {}", answer(&plain), answer(&secret)), Error("not one JSON object")),
        told(
            "not UTF-8",
            [answer(&secret).as_bytes().split_last_chunk::<5>().unwrap().0, b" \xff\"}]}}"].concat(),
            Anything,
        ),
        told("batch of one", format!("[{}]", answer(&secret)), Anything),
        told(
            "batch with others",
            format!(r#"[{{"jsonrpc":"2.0","method":"notifications/x"}},{}]"#, answer(&secret)),
            Anything,
        ),
        told("batch in a batch", format!("[[{}]]", answer(&secret)), Error("none of them a batch")),
        told("cut batch", format!("[{}", answer(&secret)), Error("must be complete")),
        told(
            "long batch",
            format!("[{}{}]", r#"{"jsonrpc":"2.0","method":"x"},"#.repeat(LONG_BATCH - 1), answer(&secret)),
            Error("1 to 1024 messages"),
        ),
        told(
            "a line of its own",
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":\r{}\r}}", answer(&secret)),
            OneLine,
        ),
    ];
    cases.extend(named_results().into_iter().map(|(name, result, wanted)| told(name, answer(&result), wanted)));
    cases
}

/// Results with a secret in some place.
fn named_results() -> Vec<(&'static str, String, Wanted)> {
    use Wanted::{Anything, Error, Visible};
    let (secret, quoted) = (secret_result(), json!(SECRET).to_string());
    let block = |more: Value| {
        let mut block = json!({"type": "text", "text": VISIBLE});
        block.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "content": [block] }).to_string()
    };
    let text = format!(r#"[{{"type":"text","text":{}}}]"#, json!(VISIBLE));
    let more = |more: &str| format!(r#"{{"content":{text},{more}}}"#);
    let twice = |name: &str, one: &str, other: &str| format!(r#"{{"{name}":{one},"{name}":{other}}}"#);
    let content = format!(r#"[{{"type":"text","text":{quoted}}}]"#);
    vec![
        ("content twice", twice("content", "[]", &content), Error("two members `content`")),
        ("content twice, the first", twice("content", &content, "[]"), Error("two members `content`")),
        ("structured twice", twice("structuredContent", "{}", &secret), Error("two members `structuredContent`")),
        ("metadata twice", twice("_meta", "{}", &secret), Error("two members `_meta`")),
        ("result type twice", twice("resultType", "\"task\"", &quoted), Error("two members `resultType`")),
        ("is error twice", twice("isError", "true", &quoted), Error("two members `isError`")),
        ("Content", more(&format!(r#""Content":{content}"#)), Visible),
        ("unknown member", more(&format!(r#""x":{quoted}"#)), Visible),
        ("unknown member twice", more(&format!(r#""x":1,"x":{quoted}"#)), Visible),
        ("tool result", format!(r#"{{"toolResult":{quoted}}}"#), Anything),
        ("no content", format!(r#"{{"rows":[{quoted}]}}"#), Anything),
        ("content a text", format!(r#"{{"content":{quoted}}}"#), Anything),
        ("content an object", format!(r#"{{"content":{{"text":{quoted}}}}}"#), Anything),
        ("a text", quoted.clone(), Anything),
        ("an array", format!("[{secret}]"), Anything),
        ("metadata", more(&format!(r#""_meta":{{"a":{quoted}}}"#)), Visible),
        ("is error a text", more(&format!(r#""isError":{quoted}"#)), Visible),
        ("result type a text", more(&format!(r#""resultType":{quoted}"#)), Visible),
        ("structured", format!(r#"{{"content":[],"structuredContent":{{"a":{quoted}}}}}"#), Anything),
        ("metadata of a block", block(json!({"_meta": {"a": SECRET}})), Anything),
        ("another member of a block", block(json!({"more": SECRET})), Anything),
        ("Text of a block", block(json!({"Text": SECRET})), Anything),
        ("annotations", block(json!({"annotations": {"audience": [SECRET]}})), Anything),
        ("a third role", block(json!({"annotations": {"audience": ["user", "user", "user", SECRET]}})), Anything),
        (
            "annotations of the protocol",
            block(
                json!({"annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-11-22T10:00:00Z"}}),
            ),
            Visible,
        ),
        ("text twice", format!(r#"{{"content":[{{"type":"text","text":"a","text":{quoted}}}]}}"#), Anything),
        (
            "media type",
            json!({"content": [{"type": "image", "data": "QUJD", "mimeType": SECRET}]}).to_string(),
            Anything,
        ),
        ("task and content", format!(r#"{{"task":{{"taskId":"t"}},"content":{content}}}"#), Anything),
        ("task with content inside", format!(r#"{{"task":{{"taskId":"t","content":{content}}}}}"#), Anything),
        ("task twice", format!(r#"{{"task":{{"taskId":"t"}},"task":{secret}}}"#), Anything),
        ("task that is done", format!(r#"{{"resultType":"task","taskId":"t","result":{secret}}}"#), Anything),
        ("task with a tool result", format!(r#"{{"resultType":"task","taskId":"t","toolResult":{quoted}}}"#), Anything),
        ("question with content", format!(r#"{{"resultType":"input_required","content":{content}}}"#), Anything),
        ("question with more", format!(r#"{{"resultType":"input_required","rows":{quoted}}}"#), Anything),
    ]
}

/// Wrappings that readers disagree about.
fn named_wrappings() -> Vec<Case> {
    use Wanted::{Anything, Error, Visible};
    let json_as = |kind, wanted| wrapped(&format!("type {kind:?}"), Wrap::of_type(kind), wanted);
    let encoded = |value: &'static str, encoding, wanted| {
        wrapped(&format!("encoding {value} {encoding:?}"), Wrap::encoded(value, encoding), wanted)
    };
    let event = |name: &str, wrap: Wrap, wanted| wrapped(&format!("event stream, {name}"), wrap, wanted);
    let status = |status, wanted| wrapped(&format!("status {status}"), Wrap { status, ..Wrap::default() }, wanted);
    let text = |name: &str, kind, status, text: &str, wanted| Case {
        message: text.into(),
        ..wrapped(name, Wrap { status, ..Wrap::of_type(kind) }, wanted)
    };
    let secret_comment =
        r#": {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"nobody.s3cret@example.com"}]}}"#;
    let mut cases = vec![
        json_as("text/json", Visible),
        json_as("text/plain", Visible),
        json_as("text/plain; charset=utf-8", Visible),
        json_as("application/octet-stream", Visible),
        json_as("", Visible),
        json_as("APPLICATION/JSON; Charset=\"UTF-8\"", Visible),
        json_as("application/json; charset=utf-16", Error("utf-16")),
        json_as("application/json; charset = utf-7", Error("utf-7")),
        json_as("text/event-stream; charset=utf-16le", Error("utf-16le")),
        json_as("text/event-stream", Error("event stream, but it is not one")),
        json_as("application/json, text/event-stream", Error("event stream, but it is not one")),
        wrapped("UTF-16", Wrap { framing: Framing::Utf16, ..Wrap::default() }, Error("utf-16")),
        encoded("gzip", Encoding::Gzip, Visible),
        encoded("GZip", Encoding::Gzip, Visible),
        encoded("x-gzip", Encoding::Gzip, Visible),
        encoded("identity", Encoding::Identity, Visible),
        encoded("gzip", Encoding::CutGzip, Error("gzip")),
        encoded("gzip", Encoding::Identity, Error("gzip")),
        encoded("gzip, gzip", Encoding::TwiceGzip, Error("gzip, gzip")),
        encoded("deflate", Encoding::Deflate, Error("deflate")),
        encoded("br", Encoding::Identity, Error("br")),
        status(500, Visible),
        status(404, Visible),
        status(202, Visible),
        event("plain", Wrap::event("event: message\n", "data: ", "\n", "\n\n"), Visible),
        event(
            "type in upper case",
            Wrap { headers: vec![("Content-Type", "Text/Event-Stream")], ..Wrap::event("", "data:", "\n", "\n\n") },
            Visible,
        ),
        event("carriage returns", Wrap::event(": hello\r\r", "data:", "\r", "\r\r"), Visible),
        event("both line breaks", Wrap::event("id: 7\r\n", "data: ", "\r\n", "\r\nretry: 5\r\n\r\n"), Visible),
        event("without its end", Wrap::event("", "data: ", "\n", ""), Visible),
        event("byte order mark", Wrap::event("\u{feff}", "data: ", "\n", "\n\n"), Visible),
        event("field in upper case", Wrap::event("", "DATA: ", "\n", "\n\n"), Error("ended the stream")),
        event("space before the field", Wrap::event("", " data: ", "\n", "\n\n"), Error("ended the stream")),
        event("in a comment", Wrap::event(secret_comment, "\ndata: 1", "\n", "\n\n"), Anything),
        event(
            "of another type",
            Wrap { headers: vec![("Content-Type", "application/json")], ..Wrap::event("", "data: ", "\n", "\n\n") },
            Error("content type"),
        ),
        event(
            "packed",
            Wrap {
                encoding: Encoding::Gzip,
                headers: vec![("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip")],
                ..Wrap::event("", "data: ", "\n", "\n\n")
            },
            Visible,
        ),
        text("a page", "text/html", 500, &format!("<p>{SECRET}</p>"), Anything),
        text("a text", "text/plain", 200, SECRET, Error("content type")),
        text("a bare result", "application/json", 200, &secret_result(), Error("content type")),
        text("a bare result of a failure", "application/json", 503, &secret_result(), Anything),
        text("an event of a failure", "text/plain", 503, &format!("data: {SECRET}\n\n"), Anything),
        text("nothing", "application/json", 200, "", Error("")),
    ];
    // A reader that does not put lines of data together finds a message in one of them.
    let hidden = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":\n{}\n}}", answer(&secret_result()));
    cases.push(Case {
        message: hidden.into(),
        ..wrapped("event stream, a line of its own", Wrap::event("", "data: ", "\n", "\n\n"), Wanted::OneLine)
    });
    for size in [1, 7, 1 << 20] {
        let mut case = wrapped(&format!("chunks of {size}"), Wrap::event("", "data: ", "\n", "\n\n"), Visible);
        case.wrap.chunk = Some(size);
        cases.push(case);
    }
    cases
}

/// Numbers that look like any, the same for the same seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn often(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// A message put together at random, with the secret somewhere in it.
fn generated_message(random: &mut Random) -> Vec<u8> {
    let results = named_results();
    let mut secret = match random.below(4) {
        0 => secret_result(),
        1 => large_result(),
        _ => random.one(&results).1,
    };
    if random.often(3) {
        secret = secret.replace('@', random.one(&["\\u0040", "\\u0040", "@"])).replace('3', "\\u0033");
    }
    let id = random.one(&["@ID@", "@ID@", "@ID@.0", "@ID@e0", "\"@ID@\"", "\"0@ID@\"", "null", "7", "\"x\"", "-0"]);
    let mut members = vec![r#""jsonrpc":"2.0""#.to_owned(), format!(r#""id":{id}"#), format!(r#""result":{secret}"#)];
    let names = ["result", "\\u0072esult", "id", "error", "method", "jsonrpc", "Result", "params", "more", "iD"];
    let values = ["null", "@ID@", "{}", r#""ping""#, r#"{"content":[]}"#];
    for _ in 0..random.below(3) {
        let value = if random.often(2) { secret.clone() } else { random.one(&values).to_owned() };
        let name = random.one(&names);
        // An error is not filtered, so there is no secret in one that stands alone.
        let value = if name == "error" { r#"{"code":1,"message":"no"}"#.to_owned() } else { value };
        members.insert(random.below(members.len() + 1), format!(r#""{name}":{value}"#));
    }
    if random.often(4) {
        members.rotate_left(1);
    }
    let space = random.one(&["", "", " ", "\t", "\r"]);
    let mut text = format!("{space}{{{space}{}{space}}}{space}", members.join(&format!("{space},{space}")));
    if random.often(5) {
        let notification = r#"{"jsonrpc":"2.0","method":"x"}"#;
        text = match random.below(4) {
            0 => format!("[{text}]"),
            1 => format!("[{notification},{text}]"),
            2 => format!("[[{text}]]"),
            _ => format!("[{}{text}]", format!("{notification},").repeat(LONG_BATCH)),
        };
    }
    let before = random.one(&["", "", "", "\u{feff}", "\u{feff} ", "\x0b"]);
    let after = random.one(&["", "", "", "", " x", "\0", ","]);
    format!("{before}{text}{after}").into_bytes()
}

fn generated_wrap(random: &mut Random) -> Wrap {
    let kinds = [
        "application/json",
        "application/json",
        "text/json",
        "text/plain",
        "",
        "text/event-stream",
        "Application/JSON; x=y",
    ];
    let mut wrap = if random.often(2) {
        Wrap::of_type(random.one(&kinds))
    } else {
        let line_break = random.one(&["\n", "\r", "\r\n"]);
        let before = random.one(&["", ": a\n\n", "id: 1\n", "\u{feff}", "event: message\r\n", "x: y\n", "data: {\n\n"]);
        let data = random.one(&["data: ", "data:", "data: ", " data:", "Data: ", "data : "]);
        let after = match (line_break, random.often(5)) {
            (_, true) => "",
            ("\r", _) => "\r\r",
            ("\r\n", _) => "\r\n\r\n",
            _ => "\n\n",
        };
        Wrap::event(before, data, line_break, after)
    };
    if random.often(4) {
        let (value, encoding) = random.one(&[
            ("gzip", Encoding::Gzip),
            ("X-GZIP", Encoding::Gzip),
            ("deflate", Encoding::Deflate),
            ("gzip", Encoding::CutGzip),
            ("gzip,gzip", Encoding::TwiceGzip),
            ("br", Encoding::Identity),
        ]);
        wrap.headers.push(("Content-Encoding", value));
        wrap.encoding = encoding;
    }
    wrap.status = random.one(&[200, 200, 200, 200, 201, 202, 404, 500]);
    wrap.chunk = random.one(&[None, Some(1 << 16), Some(13)]);
    wrap
}

fn generated() -> Vec<Case> {
    let seed = rounds("LRO_UNSEEN_SEED", 20_261_122) as u64;
    let mut random = Random(seed | 1);
    let case = |number: usize| Case {
        name: format!("generated {number} of seed {seed}"),
        message: generated_message(&mut random),
        wrap: generated_wrap(&mut random),
        wanted: Wanted::Anything,
    };
    (0..rounds("LRO_UNSEEN_CASES", 200)).map(case).collect()
}

/// What a gateway is started with: what cannot be redacted does not go on.
fn flags() -> Vec<String> {
    let policy = target().join("wasm32-unknown-unknown/component/lro_redact.wasm");
    assert!(policy.exists(), "{} is not there: run `make component`", policy.display());
    vec!["--policy".to_owned(), path_text(&policy), "--failure".to_owned(), "closed".to_owned()]
}

/// The script of the server on standard streams, and its command.
fn command(cases: &[Case], files: &TempDir, mark: &str) -> Vec<String> {
    let steps: BTreeMap<String, Value> = (cases.iter().enumerate())
        .map(|(number, case)| {
            let bytes = json!({ "bytes": STANDARD.encode(&case.message) });
            // What has to arrive shows that the case is over; a fence may overtake it.
            let steps = match case.wanted {
                Wanted::Visible | Wanted::Error(_) => json!([bytes]),
                Wanted::Anything | Wanted::OneLine => json!([bytes, FENCE]),
            };
            (format!("tools/call case-{number}"), steps)
        })
        .collect();
    let script = files.path().join("script.json");
    std::fs::write(&script, json!(steps).to_string()).unwrap();
    let program = workspace().join("tests/tools/servers/scripted.py");
    vec![python(), "-S".to_owned(), path_text(&program), path_text(&script), mark.to_owned()]
}

/// A server over HTTP that answers with the bytes of the cases.
fn serve(cases: &[Case]) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let cases: Arc<[Case]> = cases.into();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let cases = Arc::clone(&cases);
            std::thread::spawn(move || {
                let _ = serve_one(stream, &cases);
            });
        }
    });
    url
}

fn serve_one(stream: TcpStream, cases: &[Case]) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut is_post) = (String::new(), 0, false);
    while reader.read_line(&mut line)? > 2 {
        is_post |= line.starts_with("POST ");
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut stream = reader.into_inner();
    let empty =
        |status: &str| format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").into_bytes();
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let tool = request["params"]["name"].as_str().and_then(|name| name.strip_prefix("case-"));
    let response = match (request["method"].as_str(), tool) {
        _ if !is_post => empty("405 No"),
        (Some("tools/call"), Some(number)) => {
            let case = &cases[number.parse::<usize>().unwrap()];
            case.wrap.response(&with_id(&case.message, &request["id"]))
        }
        (Some("initialize"), _) => {
            let result = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "raw", "version": "1"}});
            Wrap::default()
                .response(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string().as_bytes())
        }
        _ => empty("202 Yes"),
    };
    stream.write_all(&response)
}

fn with_id(message: &[u8], id: &Value) -> Vec<u8> {
    let (mark, id) = (b"@ID@".as_slice(), id.to_string());
    let mut found = Vec::with_capacity(message.len());
    let mut rest = message;
    while let Some(at) = rest.windows(mark.len()).position(|window| window == mark) {
        found.extend(&rest[..at]);
        found.extend(id.as_bytes());
        rest = &rest[at + mark.len()..];
    }
    found.extend(rest);
    found
}

/// Checks what arrived for a case.
fn check(case: &Case, wanted: Wanted, arrived: &[u8]) {
    let text = String::from_utf8_lossy(arrived);
    if case.wanted == Wanted::OneLine {
        // One document is not read by lines.
        let lines = text.split(['\n', '\r']).filter(|_| !text.contains("\"application/json\""));
        let messages = lines.filter_map(|line| serde_json::from_str(line.strip_prefix("data: ").unwrap_or(line)).ok());
        let secrets = messages.filter(|message: &Value| message["result"].to_string().contains(TRACE)).count();
        return assert_eq!(secrets, 0, "{}: {text}", case.name);
    }
    assert_clean(&case.name, arrived);
    let shown: String = text.chars().take(1_000).collect();
    match wanted {
        Wanted::Anything | Wanted::OneLine => {}
        Wanted::Visible => assert!(text.contains(VISIBLE), "{}: the result is lost: {shown}", case.name),
        Wanted::Error(words) => {
            let is_named = text.contains("\"error\"") && text.contains(words);
            assert!(is_named, "{}: no error that says `{words}`: {shown}", case.name);
        }
    }
}

/// Through a gateway on standard streams: all lines up to one that shows the case to be over, and then all others.
fn through_lines(
    gate: &mut Gate,
    cases: &[Case],
    is_over: impl Fn(&str, usize) -> bool,
    wanted: impl Fn(&Case) -> Wanted,
) {
    for (number, case) in cases.iter().enumerate() {
        let id = FIRST_ID + number;
        gate.send(&tool_call(id, &format!("case-{number}"), json!({})));
        let mut arrived = Vec::new();
        loop {
            let line = gate.read(PATIENCE).unwrap_or_else(|| panic!("{}: nothing comes: {}", case.name, gate.errors()));
            arrived.extend(&line.text);
            arrived.push(b'\n');
            if is_over(&String::from_utf8_lossy(&line.text), id) {
                break;
            }
        }
        // What takes a thread of its own comes later, and is looked at below.
        let wanted = if case.message.len() > 60_000 { Wanted::Anything } else { wanted(case) };
        check(case, wanted, &arrived);
    }
    while let Some(line) = gate.read(SILENCE) {
        assert_clean("at the end", &line.text);
    }
}

/// What a case wants where only the messages arrive.
fn wanted_of_lines(case: &Case) -> Wanted {
    match case.wanted {
        // The words are about what the client of HTTP is told.
        Wanted::Error(_) => Wanted::Error(""),
        wanted => wanted,
    }
}

/// What a reply shows to its reader, head included.
fn bytes_of(reply: &Reply) -> Vec<u8> {
    [format!("{:?}\n", reply.headers).as_bytes(), &reply.body].concat()
}

fn through_http(session: &Session, cases: &[Case], wanted: impl Fn(&Case) -> Wanted) {
    for (number, case) in cases.iter().enumerate() {
        let call = tool_call(FIRST_ID + number, &format!("case-{number}"), json!({}));
        let reply = session.open(&call).finish();
        check(case, wanted(case), &bytes_of(&reply));
    }
}

/// All that there is, before a command on one face.
fn messages() -> Vec<Case> {
    named_messages().into_iter().chain(generated()).collect()
}

/// And before a server over HTTP.
fn all() -> Vec<Case> {
    named_messages().into_iter().chain(named_wrappings()).chain(generated()).collect()
}

// Standard streams on both sides.
#[test]
fn nothing_goes_past_from_a_command_to_standard_output() {
    let (cases, files, mark) = (messages(), TempDir::new().unwrap(), new_mark());
    let command = command(&cases, &files, &mark);
    let flags = flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut gate = Gate::start(&flags, &command, &mark, &Environment::new());
    gate.shake_hands();
    let is_over = |line: &str, id: usize| match cases[id - FIRST_ID].wanted {
        Wanted::Visible => is_id(line, id),
        Wanted::Error(words) => line.contains("\"error\"") && line.contains(words),
        Wanted::Anything | Wanted::OneLine => line.contains("the fence"),
    };
    through_lines(&mut gate, &cases, is_over, |case| case.wanted);
    assert!(gate.end().success());
}

// A command over HTTP.
#[test]
fn nothing_goes_past_from_a_command_over_http() {
    let (cases, files, mark) = (messages(), TempDir::new().unwrap(), new_mark());
    let command = command(&cases, &files, &mark);
    let flags = flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let gate = Gate::listening_before(&flags, &command, &mark, &Environment::new());
    through_http(&Session::begin(&gate.url), &cases, |case| case.wanted);
}

// A server over HTTP, for a client on standard streams.
#[test]
fn nothing_goes_past_from_http_to_standard_output() {
    let cases = all();
    let url = serve(&cases);
    let flags = flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let mut gate = Gate::remote(&flags, &url);
    through_lines(&mut gate, &cases, is_id, wanted_of_lines);
}

/// Whether a line, or a message of the batch in it, has this id in any spelling, or may have.
fn is_id(line: &str, id: usize) -> bool {
    let messages = match serde_json::from_str(line) {
        Ok(Value::Array(messages)) => messages,
        Ok(message) => vec![message],
        Err(_) => return true,
    };
    messages.iter().any(|message| {
        let found = &message["id"];
        let number = found.as_f64().or_else(|| found.as_str()?.trim().parse().ok());
        number == Some(id as f64)
    })
}

// HTTP on both sides.
#[test]
fn nothing_goes_past_from_http_over_http() {
    let cases = all();
    let url = serve(&cases);
    let flags = flags();
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let gate = Gate::proxy(&flags, &url, &Environment::new());
    let session = Session { url: gate.url.clone(), id: String::new(), token: String::new() };
    through_http(&session, &cases, |case| case.wanted);
}

// HTTP on both sides, through the gateway that is a component. It asks for answers that are not compressed.
#[test]
fn nothing_goes_past_a_component() {
    let cases = all();
    let upstream = serve(&cases);
    let variables = [("LRO_UPSTREAM", upstream.as_str()), ("LRO_SETTINGS", r#"{"failure":"closed"}"#)];
    let gate = Served::start(&edge(&component("lro_redact.wasm")), &variables);
    let session = Session { url: gate.url.clone(), id: String::new(), token: String::new() };
    through_http(&session, &cases, |case| match (case.wrap.encoding, case.wanted) {
        (Encoding::Gzip, Wanted::Visible) => Wanted::Error("gzip"),
        (_, wanted) => wanted,
    });
}

// A bomb is an error that names the limit, and the gateway goes on.
#[test]
fn what_unpacks_without_end_is_refused() {
    let bomb = answer(&json!({"content": [{"type": "text", "text": "x".repeat(3_000_000)}]}).to_string());
    let wrap = Wrap::encoded("gzip", Encoding::Gzip);
    let events = Wrap {
        headers: vec![("Content-Type", "text/event-stream"), ("Content-Encoding", "gzip")],
        ..Wrap { encoding: Encoding::Gzip, ..Wrap::event("", "data: ", "\n", "\n\n") }
    };
    let cases = [
        Case { message: bomb.clone().into(), ..wrapped("a bomb", wrap, Wanted::Error("gateway.message-bytes")) },
        Case { message: bomb.into(), ..wrapped("a bomb of events", events, Wanted::Error("gateway.message-bytes")) },
        told("plain", answer(&plain_result()), Wanted::Visible),
    ];
    let url = serve(&cases);
    let gate = Gate::proxy(&["--message-bytes", "1000000"], &url, &Environment::new());
    let session = Session { url: gate.url.clone(), id: String::new(), token: String::new() };
    through_http(&session, &cases, |case| case.wanted);
    let mut gate = Gate::remote(&["--message-bytes", "1000000"], &url);
    through_lines(&mut gate, &cases, is_id, |case| case.wanted);
}

// The headers that describe packed bytes go with them.
#[test]
fn what_is_unpacked_says_nothing_of_its_packing() {
    let mut wrap = Wrap::encoded("gzip", Encoding::Gzip);
    wrap.headers.extend([("ETag", "\"x\""), ("Content-Digest", "sha-256=:AAAA:"), ("X-Own", "stays")]);
    let case = Case { message: answer(&plain_result()).into(), ..wrapped("packed", wrap, Wanted::Visible) };
    let gate = Gate::proxy(&[], &serve(std::slice::from_ref(&case)), &Environment::new());
    let call = tool_call(1, "case-0", json!({})).to_string();
    let reply = Exchange::open(&gate.url, "POST", &[], call.as_bytes()).finish();
    assert_eq!(reply.text(), String::from_utf8(with_id(&case.message, &json!(1))).unwrap());
    for name in ["content-encoding", "etag", "content-digest"] {
        assert!(!reply.headers.contains_key(name), "{:?}", reply.headers);
    }
    assert_eq!(reply.headers["x-own"], "stays");
}

// Switched off, even such bodies go on as they came.
#[test]
fn switched_off_no_body_is_touched() {
    let cases: Vec<Case> = named_wrappings().into_iter().filter(|case| case.wrap.chunk.is_none()).collect();
    let gate = Gate::proxy(&["--enabled", "false"], &serve(&cases), &Environment::new());
    for (number, case) in cases.iter().enumerate() {
        let call = tool_call(number, &format!("case-{number}"), json!({})).to_string();
        let reply = Exchange::open(&gate.url, "POST", &[], call.as_bytes()).finish();
        let body = case.wrap.encoding.of(&case.wrap.framing.of(&with_id(&case.message, &json!(number))));
        let is_stream = case.wrap.headers.iter().any(|(_, kind)| kind.to_lowercase().contains("event-stream"));
        assert_eq!(reply.status, case.wrap.status, "{}", case.name);
        // A stream that ends without an answer gets one.
        assert!(reply.body == body || is_stream, "{}: {}", case.name, reply.text());
    }
}
