//! The envelope of a JSON-RPC message, as spans of the bytes it came in.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::blocks::Object;
use super::span::{self, Span};

/// Most messages of a batch; revision 2025-03-26 knows batches, no other does.
pub const BATCH_MESSAGES_MAX: usize = 1_024;

/// Most members of an envelope that are looked at in a message without an end.
const ENVELOPE_MEMBERS_MAX: usize = 16;

/// Longest value that stays in a notification without its data, in bytes of JSON.
const SHORT_BYTES_MAX: usize = 256;

/// JSON-RPC code of a method that does not exist.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC code of something that is no request.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC code of a failure that is not the caller's.
pub const INTERNAL_ERROR: i32 = -32603;

/// The id of a request: a JSON number or string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(String);

impl Id {
    /// An id of the gateway's own.
    pub fn own(text: &str) -> Self {
        Self(super::reply::quoted(text))
    }

    /// As JSON.
    pub fn json(&self) -> &str {
        &self.0
    }

    /// From JSON. A string counts as the same however it is spelled.
    pub fn of_json(json: &str) -> Self {
        if json.contains('\\')
            && let Ok(text) = serde_json::from_str::<String>(json)
        {
            return Self::own(&text);
        }
        Self(json.to_owned())
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asks for an answer.
    Request,
    /// Tells, and asks for none.
    Notification,
    /// Answers a request.
    Response,
    /// Several messages in an array.
    Batch,
    /// No JSON-RPC message: no JSON, members twice, or nothing that says what it is.
    Other,
}

/// A message and where the members of its envelope lie. What is inside them is not validated.
#[derive(Clone, Debug)]
pub struct Message {
    pub(super) bytes: Bytes,
    /// Where the object lies, without white space around it.
    pub(super) start: usize,
    pub(super) outer: Object,
    kind: Kind,
    id: Option<Span>,
}

/// What a gateway wants to know of the parameters of a request or notification. A member of another type than the
/// protocol says makes all of them unknown.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Params<'a> {
    /// Name of a tool or prompt.
    #[serde(borrow)]
    pub name: Option<Cow<'a, str>>,
    /// Arguments of a call.
    #[serde(borrow)]
    pub arguments: Option<&'a RawValue>,
    /// Cursor of a list.
    #[serde(borrow)]
    pub cursor: Option<&'a RawValue>,
    /// URI of a resource.
    #[serde(borrow)]
    pub uri: Option<Cow<'a, str>>,
    /// A task.
    #[serde(borrow)]
    pub task_id: Option<Cow<'a, str>>,
    /// The request of a cancellation.
    #[serde(borrow)]
    pub request_id: Option<&'a RawValue>,
    /// The token of a progress notification.
    #[serde(borrow)]
    pub progress_token: Option<&'a RawValue>,
    /// What the client is; revisions up to 2025-11-25, in `initialize`.
    #[serde(borrow)]
    pub client_info: Option<Implementation<'a>>,
    /// The revision asked for; revisions up to 2025-11-25, in `initialize`.
    #[serde(borrow)]
    pub protocol_version: Option<Cow<'a, str>>,
    /// The metadata.
    #[serde(borrow, rename = "_meta")]
    pub meta: Option<Meta<'a>>,
}

/// Name and version of a client.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Implementation<'a> {
    /// Name, such as `claude-code`.
    #[serde(borrow, default)]
    pub name: Cow<'a, str>,
    /// Version.
    #[serde(borrow, default)]
    pub version: Cow<'a, str>,
}

/// The metadata of a request or notification that a gateway wants to know.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Meta<'a> {
    /// Token that progress notifications repeat.
    #[serde(borrow, rename = "progressToken")]
    pub progress_token: Option<&'a RawValue>,
    /// The revision; from 2026-07-28 on, in every request.
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    pub protocol_version: Option<Cow<'a, str>>,
    /// What the client is; from revision 2026-07-28 on, in every request.
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    pub client_info: Option<Implementation<'a>>,
    /// Id of the request `subscriptions/listen` that a notification belongs to; from revision 2026-07-28 on.
    #[serde(borrow, rename = "io.modelcontextprotocol/subscriptionId")]
    pub subscription_id: Option<&'a RawValue>,
    /// How this client wants the result of this request: [`INLINE_MODE`] for the whole of it.
    #[serde(borrow, rename = "io.github.lro-filter/mode")]
    pub mode: Option<Cow<'a, str>>,
}

/// Value of the request's metadata key `io.github.lro-filter/mode` that asks for the whole result, up to the ceiling of the
/// client: for programs that work on structured content.
pub const INLINE_MODE: &str = "inline";

impl Message {
    /// Finds the members of the envelope. Takes one pass; nothing is copied.
    pub fn read(bytes: Bytes) -> Self {
        let start = span::skip_white(&bytes, 0);
        let first = bytes.get(start).copied();
        if first != Some(b'{') {
            let kind = if first == Some(b'[') { Kind::Batch } else { Kind::Other };
            return Self { bytes, start, outer: Object::default(), kind, id: None };
        }
        let outer = Object::walk(&bytes, start);
        let has = |key| outer.get(&bytes, key).is_some();
        let whole = span::skip_white(&bytes, outer.end) == bytes.len() && bytes.get(outer.end - 1) == Some(&b'}');
        let id = outer.get(&bytes, "id").filter(|id| bytes.get((*id).clone()) != Some(b"null")).cloned();
        let kind = match (has("method"), has("result") != has("error"), id.is_some()) {
            _ if !whole => Kind::Other,
            (true, false, true) => Kind::Request,
            (true, false, false) => Kind::Notification,
            // An error about a message that could not be read has no id.
            (false, true, _) => Kind::Response,
            _ => Kind::Other,
        };
        Self { bytes, start, outer, kind, id }
    }

    /// The id in the beginning of a message whose end is missing.
    pub fn envelope_id(head: &[u8]) -> Option<Id> {
        let start = span::skip_white(head, 0);
        let (members, _) = span::members(head, start, ENVELOPE_MEMBERS_MAX, |_, _| None);
        let id = span::member(head, &members, "id")?;
        // The last one may be cut.
        scalar(head.get(id.clone()).filter(|_| id.end < head.len())?)
    }

    /// The id in the end of a message whose beginning is missing: the last member of that name, if it is in the envelope.
    pub fn trailing_id(tail: &[u8]) -> Option<Id> {
        let key = memchr::memmem::rfind(tail, b"\"id\"")?;
        // What goes before tells whether this is not the end of a longer string with a quotation mark in it.
        if matches!(tail.get(key.checked_sub(1)?), Some(b'\\')) {
            return None;
        }
        let value = span::skip_white(tail, span::skip_white(tail, key + 4) + 1);
        let end = span::skip_value(tail, value);
        let id = scalar(tail.get(value..end)?)?;
        let mut at = span::skip_white(tail, end);
        while tail.get(at) == Some(&b',') {
            let key = span::skip_white(tail, at + 1);
            let colon = span::skip_white(tail, span::skip_value(tail, key));
            at = span::skip_white(tail, span::skip_value(tail, span::skip_white(tail, colon + 1)));
        }
        (tail.get(at) == Some(&b'}') && span::skip_white(tail, at + 1) == tail.len()).then_some(id)
    }

    /// What it is.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The message as it came.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its id.
    pub fn id(&self) -> Option<Id> {
        let id = self.bytes.get(self.id.clone()?)?;
        std::str::from_utf8(id).ok().map(Id::of_json)
    }

    /// Its method.
    pub fn method(&self) -> Option<Cow<'_, str>> {
        span::string(&self.bytes, self.outer.get(&self.bytes, "method")?)
    }

    /// Its parameters, as far as a gateway wants to know them.
    pub fn params(&self) -> Params<'_> {
        let params = self.outer.get(&self.bytes, "params").and_then(|params| self.bytes.get(params.clone()));
        params.and_then(|params| serde_json::from_slice(params).ok()).unwrap_or_default()
    }

    /// Its result.
    pub fn result(&self) -> Option<Bytes> {
        self.member("result")
    }

    /// The code of its error.
    pub fn error_code(&self) -> Option<i64> {
        #[derive(Deserialize)]
        struct Failure {
            code: i64,
        }
        serde_json::from_slice(&self.member("error")?).ok().map(|failure: Failure| failure.code)
    }

    /// The messages of a batch. None when they are more than [`BATCH_MESSAGES_MAX`], or it is no array.
    pub fn batch(&self) -> Option<Vec<Bytes>> {
        if self.kind != Kind::Batch {
            return None;
        }
        let (elements, end) = span::elements(&self.bytes, self.start, BATCH_MESSAGES_MAX, |_| None);
        let whole = span::skip_white(&self.bytes, end) == self.bytes.len();
        (whole && !elements.is_empty() && elements.len() <= BATCH_MESSAGES_MAX)
            .then(|| elements.into_iter().map(|element| self.bytes.slice(element)).collect())
    }

    /// The message with another id.
    pub fn with_id(&self, id: &Id) -> Bytes {
        match &self.id {
            Some(span) => span::spliced(&self.bytes, vec![(span.clone(), id.json().into())]),
            None => self.bytes.clone(),
        }
    }

    /// A notification about a task with nothing but the task, its status and the subscription.
    pub fn without_data(&self) -> Bytes {
        let short = |path: &[&str]| {
            let value = self.value(path).filter(|value| value.len() <= SHORT_BYTES_MAX)?;
            String::from_utf8(value.to_vec()).ok()
        };
        let Some(method) = short(&["method"]) else { return Bytes::new() };
        let mut members = Vec::new();
        for key in ["taskId", "status"] {
            members.extend(short(&["params", key]).map(|value| format!("\"{key}\":{value}")));
        }
        let subscription = "io.modelcontextprotocol/subscriptionId";
        let id = short(&["params", "_meta", subscription]);
        members.extend(id.map(|id| format!(r#""_meta":{{"{subscription}":{id}}}"#)));
        format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{{{}}}}}"#, members.join(",")).into()
    }

    /// As [`with_id`](Self::with_id), in pieces that share the bytes.
    pub fn pieces_with_id(&self, id: &Id) -> Vec<Bytes> {
        match &self.id {
            Some(span) => {
                let id = Bytes::copy_from_slice(id.json().as_bytes());
                vec![self.bytes.slice(..span.start), id, self.bytes.slice(span.end..)]
            }
            None => vec![self.bytes.clone()],
        }
    }

    /// The message with other bytes at a path of keys; as it is when there is nothing.
    pub fn with_bytes(&self, path: &[&str], json: &[u8]) -> Bytes {
        match self.find(path) {
            Some(span) => span::spliced(&self.bytes, vec![(span, json.to_vec())]),
            None => self.bytes.clone(),
        }
    }

    /// Whether there is an object at a path of keys.
    pub fn find_object(&self, path: &[&str]) -> bool {
        self.find(path).is_some_and(|span| self.bytes.get(span.start) == Some(&b'{'))
    }

    /// The strings at and below a path of keys that a condition holds for, decoded, and where they lie.
    pub fn strings(&self, path: &[&str], wanted: impl Fn(&str) -> bool) -> Vec<(Range<usize>, String)> {
        let mut found = Vec::new();
        if let Some(span) = self.find(path) {
            span::strings(&self.bytes, &span, &mut |span, text| {
                if wanted(&text) {
                    found.push((span, text.into_owned()));
                }
            });
        }
        found
    }

    /// The value at a path of keys.
    pub fn value(&self, path: &[&str]) -> Option<Bytes> {
        self.find(path).map(|span| self.bytes.slice(span))
    }

    pub(super) fn find(&self, path: &[&str]) -> Option<Span> {
        let (first, rest) = path.split_first()?;
        let value = self.outer.get(&self.bytes, first)?.clone();
        rest.iter().try_fold(value, |value, key| span::child(&self.bytes, &value, key))
    }

    fn member(&self, key: &str) -> Option<Bytes> {
        self.outer.get(&self.bytes, key).map(|value| self.bytes.slice(value.clone()))
    }
}

/// A response with a result.
pub fn response(id: &Id, result: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into()
}

/// A response with an error.
pub fn error_response(id: Option<&Id>, code: i32, message: &str) -> Bytes {
    let (id, message) = (id.map_or("null", Id::json), super::reply::quoted(message));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#).into()
}

/// Whether the result of a response can be nothing but that of a tool, whatever it answers.
pub fn looks_like_tool_result(message: &Message) -> bool {
    let has = |key| message.find(&["result", key]).is_some();
    message.kind() == Kind::Response && (has("content") || has("structuredContent"))
}

/// A result with its `resultType`, which revisions from 2026-07-28 on ask for.
pub fn with_result_type(result: String, modern: bool) -> String {
    match result.strip_prefix('{').filter(|_| modern) {
        Some(members) => format!(r#"{{"resultType":"complete",{members}"#),
        None => result,
    }
}

/// An id, if the JSON can be one.
fn scalar(json: &[u8]) -> Option<Id> {
    let is_id = matches!(json.first()?, b'"' | b'-' | b'0'..=b'9');
    std::str::from_utf8(json).ok().filter(|_| is_id).map(Id::of_json)
}
