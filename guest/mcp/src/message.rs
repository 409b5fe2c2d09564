//! The envelope of a JSON-RPC message, as spans of its bytes.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use bytes::Bytes;
use lro_json::walk::skip_white;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::blocks::Object;
use super::error::MEMBERS_MAX;
use super::meta;
use super::method;
use super::span::{self, Member, Span};

/// Most messages of a batch: 1,024. Only revision 2025-03-26 has batches.
pub const BATCH_MESSAGES_MAX: usize = 1_024;

/// The byte order mark that some writers put before a text, although JSON does not allow it.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Most envelope members that are read in a truncated message.
const ENVELOPE_MEMBERS_MAX: usize = 16;

/// Longest value, in bytes of JSON, that [`Message::without_data`] keeps.
const SHORT_BYTES_MAX: usize = 256;

/// Most digits of an id that are written out for comparison.
const ID_DIGITS_MAX: usize = 400;

/// Most levels of nested batches that are searched for ids.
const BATCH_LEVELS_MAX: usize = 4;

/// Names of the members of an envelope.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Names of the members of a task or an input request without a result, in any revision.
pub(super) const ACKNOWLEDGEMENT: [&str; 13] = [
    "_meta",
    "resultType",
    "taskId",
    "status",
    "statusMessage",
    "createdAt",
    "lastUpdatedAt",
    "ttl",
    "ttlMs",
    "pollInterval",
    "pollIntervalMs",
    "inputRequests",
    "requestState",
];

/// Names of the members that hold the outcome of a task.
const OUTCOME: [&str; 2] = ["result", "error"];

/// JSON-RPC code of a method that does not exist.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC code of an invalid request.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC code of an internal error.
pub const INTERNAL_ERROR: i32 = -32603;

/// The id of a request: a JSON number or string. Two ids are equal when their values are, however they are written:
/// `1`, `1.0` and `1e0`, or `"a"` and `"\u0061"`. Numbers of any length are compared digit by digit.
#[derive(Clone, Debug)]
pub struct Id {
    /// The id as written.
    json: String,
    /// The normalized value, where it differs.
    value: Option<String>,
}

impl Id {
    /// An id that the gateway creates.
    pub fn own(text: &str) -> Self {
        Self { json: super::text::quoted(text), value: None }
    }

    /// The id as JSON, as it was received.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Reads an id from JSON.
    pub fn of_json(json: &str) -> Self {
        let value = match json.as_bytes() {
            [b'"', ..] if json.contains('\\') => {
                serde_json::from_str::<String>(json).ok().map(|text| super::text::quoted(&text))
            }
            [b'-' | b'0'..=b'9', ..] => plain_number(json),
            _ => None,
        };
        Self { json: json.to_owned(), value: value.filter(|value| value != json) }
    }

    /// The id that some readers treat as equal to this one: the number in a string, or a number as a string.
    pub fn of_other_type(&self) -> Option<Self> {
        let value = self.value();
        let Some(text) = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) else {
            return Some(Self::own(value));
        };
        let text = text.trim();
        let text = text.strip_prefix('+').unwrap_or(text);
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = digits.starts_with(|first: char| first.is_ascii_digit())
            && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
        is_number.then(|| Self::of_json(text))
    }

    fn value(&self) -> &str {
        self.value.as_deref().unwrap_or(&self.json)
    }
}

impl PartialEq for Id {
    fn eq(&self, other: &Self) -> bool {
        self.value() == other.value()
    }
}

impl Eq for Id {}

impl Hash for Id {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value().hash(state);
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.json)
    }
}

/// The normal form of a number: an integer as its digits, any other number as its digits and an exponent. `None` when
/// it is not a number, or its exponent is out of range.
fn plain_number(json: &str) -> Option<String> {
    let (sign, number) = json.strip_prefix('-').map_or(("", json), |number| ("-", number));
    let (number, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return Some("0".to_owned());
    }
    let exponent = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    let exponent = exponent.checked_add(i64::try_from(digits.len() - significant.len()).ok()?)?;
    match usize::try_from(exponent) {
        Ok(zeros) if zeros <= ID_DIGITS_MAX => Some(format!("{sign}{significant}{}", "0".repeat(zeros))),
        _ => Some(format!("{sign}{significant}e{exponent}")),
    }
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Expects an answer.
    Request,
    /// Expects no answer.
    Notification,
    /// Answers a request.
    Response,
    /// Several messages in an array.
    Batch,
    /// Not a JSON-RPC message, or one that readers may interpret differently: see [`Message::fault`].
    Other,
}

/// The reason why readers may not agree on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// Not a JSON object or array, or one that is cut or followed by more text.
    #[error("it is not one JSON object")]
    NotOne,
    /// A duplicate member of the envelope: readers disagree which one is valid.
    #[error("it has two members `{0}`")]
    Duplicate(&'static str),
    /// A member that case-insensitive readers treat as one of the envelope.
    #[error("it has a member that case-insensitive readers treat as `{0}`")]
    CaseVariant(&'static str),
    /// Members that exclude each other.
    #[error("it has both `{0}` and `{1}`")]
    Both(&'static str, &'static str),
    /// No member that determines its kind.
    #[error("it has neither `method` nor `result` nor `error`")]
    NoKind,
    /// An id that is neither a number nor a string.
    #[error("its `id` is neither a number nor a string")]
    Id,
    /// More than [`MEMBERS_MAX`] members.
    #[error("it has more than {MEMBERS_MAX} members")]
    TooMany,
    /// A batch that is empty, incomplete, too long, or contains a batch.
    #[error("a batch must be complete and hold 1 to {BATCH_MESSAGES_MAX} messages, none of them a batch")]
    Batch,
}

/// A message and the spans of its envelope members. Their values are not validated.
#[derive(Clone, Debug)]
pub struct Message {
    pub(super) bytes: Bytes,
    /// Start of the object, after white space.
    pub(super) start: usize,
    pub(super) outer: Object,
    kind: Kind,
    fault: Option<Fault>,
    id: Option<Span>,
}

/// The parameters of a request or notification that a gateway uses. When a member has another type than the protocol
/// gives it, all of them are unknown.
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
    /// Id of a task.
    #[serde(borrow)]
    pub task_id: Option<Cow<'a, str>>,
    /// Id of the request that a cancellation names.
    #[serde(borrow)]
    pub request_id: Option<&'a RawValue>,
    /// The token of a progress notification.
    #[serde(borrow)]
    pub progress_token: Option<&'a RawValue>,
    /// Name and version of the client; in `initialize`, revisions up to 2025-11-25.
    #[serde(borrow)]
    pub client_info: Option<Implementation<'a>>,
    /// The requested revision; in `initialize`, revisions up to 2025-11-25.
    #[serde(borrow)]
    pub protocol_version: Option<Cow<'a, str>>,
    /// What the client can do; in `initialize`, revisions up to 2025-11-25.
    #[serde(borrow)]
    pub capabilities: Option<&'a RawValue>,
    /// The metadata.
    #[serde(borrow, rename = "_meta")]
    pub meta: Option<Meta<'a>>,
}

impl Params<'_> {
    /// Whether the request names its revision, as from 2026-07-28 on.
    pub fn is_modern(&self) -> bool {
        self.meta.as_ref().is_some_and(|meta| meta.protocol_version.is_some())
    }

    /// Whether the client declares that it downloads files: the capability `files` of the proposal SEP-2631, in
    /// `initialize`, or from revision 2026-07-28 on in each request.
    pub fn downloads_files(&self) -> bool {
        let of_request = self.meta.as_ref().and_then(|meta| meta.client_capabilities);
        let Some(declared) = of_request.or(self.capabilities) else { return false };
        let declared: Value = serde_json::from_str(declared.get()).unwrap_or_default();
        let Value::Object(files) = &declared["files"] else { return false };
        let families = files.get("transports").map(Value::as_array);
        let follows =
            families.is_none_or(|families| families.is_some_and(|families| families.contains(&"https".into())));
        files.get("download") == Some(&Value::Bool(true)) && follows
    }

    /// Id of the request that a cancellation names.
    pub fn cancelled_id(&self) -> Option<Id> {
        self.request_id.map(|id| Id::of_json(id.get()))
    }

    /// The token of a progress notification.
    pub fn progress_id(&self) -> Option<Id> {
        self.progress_token.map(|token| Id::of_json(token.get()))
    }

    /// The subject of a request: the name of a tool or prompt, the URI of a resource, the id of a task. Over HTTP,
    /// revision 2026-07-28 repeats it in the header `Mcp-Name`.
    pub fn subject(&self, method: &str) -> Option<&str> {
        match method {
            method::TOOLS_CALL | method::PROMPTS_GET => self.name.as_deref(),
            method::RESOURCES_READ => self.uri.as_deref(),
            method if method.starts_with(method::TASKS) => self.task_id.as_deref(),
            _ => None,
        }
    }
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

/// The metadata of a request or notification that a gateway uses.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Meta<'a> {
    /// Token that progress notifications repeat.
    #[serde(borrow, rename = "progressToken")]
    pub progress_token: Option<&'a RawValue>,
    /// The revision; in every request from revision 2026-07-28 on.
    #[serde(borrow, rename = "io.modelcontextprotocol/protocolVersion")]
    pub protocol_version: Option<Cow<'a, str>>,
    /// Name and version of the client; in every request from revision 2026-07-28 on.
    #[serde(borrow, rename = "io.modelcontextprotocol/clientInfo")]
    pub client_info: Option<Implementation<'a>>,
    /// What the client can do; in every request from revision 2026-07-28 on.
    #[serde(borrow, rename = "io.modelcontextprotocol/clientCapabilities")]
    pub client_capabilities: Option<&'a RawValue>,
    /// Id of the request `subscriptions/listen` that a notification belongs to; from revision 2026-07-28 on.
    #[serde(borrow, rename = "io.modelcontextprotocol/subscriptionId")]
    pub subscription_id: Option<&'a RawValue>,
    /// Name of the client's model.
    #[serde(borrow, rename = "io.github.lro-filter/model")]
    pub model: Option<Cow<'a, str>>,
    /// How the client wants the result of this request: [`INLINE_MODE`] for the whole result.
    #[serde(borrow, rename = "io.github.lro-filter/mode")]
    pub mode: Option<Cow<'a, str>>,
}

impl Meta<'_> {
    /// Token that progress notifications repeat.
    pub fn progress_id(&self) -> Option<Id> {
        self.progress_token.map(|token| Id::of_json(token.get()))
    }
}

/// Value of the metadata key `io.github.lro-filter/mode` that requests the whole result, up to the client's ceiling:
/// for programs that work on structured content.
pub const INLINE_MODE: &str = "inline";
/// Metadata key of a request for the name of the client's model.
pub const MODEL_KEY: &str = "io.github.lro-filter/model";

impl Message {
    /// Finds the members of the envelope in one pass, without copies. Byte order marks at the beginning count as white
    /// space.
    pub fn read(bytes: Bytes) -> Self {
        let start = skip_marks(&bytes);
        let first = bytes.get(start).copied();
        if first != Some(b'{') {
            let (kind, fault) =
                if first == Some(b'[') { (Kind::Batch, None) } else { (Kind::Other, Some(Fault::NotOne)) };
            return Self { bytes, start, outer: Object::default(), kind, fault, id: None };
        }
        let outer = Object::walk(&bytes, start);
        let id = present(&bytes, &outer, "id").cloned();
        let (kind, fault) = match kind_of(&bytes, &outer, id.as_ref()) {
            Ok(kind) => (kind, None),
            Err(fault) => (Kind::Other, Some(fault)),
        };
        let id = id.filter(|span| bytes.get(span.clone()).and_then(scalar).is_some());
        Self { bytes, start, outer, kind, fault, id }
    }

    /// The message without the byte order marks at its beginning.
    #[must_use]
    pub fn without_marks(self) -> Self {
        if skip_white(&self.bytes, 0) == self.start {
            return self;
        }
        Self::read(self.bytes.slice(self.start..))
    }

    /// The reason for [`Kind::Other`], or why a batch cannot be split.
    pub fn fault(&self) -> Option<Fault> {
        let is_batch = self.kind == Kind::Batch;
        self.fault.or_else(|| (is_batch && self.batch().is_none()).then_some(Fault::Batch))
    }

    /// The id at the beginning of a message whose end is missing.
    pub fn envelope_id(head: &[u8]) -> Option<Id> {
        let start = skip_white(head, 0);
        let (members, _) = span::members(head, start, ENVELOPE_MEMBERS_MAX, |_, _| None);
        let id = span::member(head, &members, "id")?;
        // The last value may be cut.
        scalar(head.get(id.clone()).filter(|_| id.end < head.len())?)
    }

    /// The id at the end of a message whose beginning is missing: the last member of that name, if it belongs to the
    /// envelope.
    pub fn trailing_id(tail: &[u8]) -> Option<Id> {
        let key = memchr::memmem::rfind(tail, b"\"id\"")?;
        // After a backslash, this is part of a longer string that contains a quotation mark.
        if matches!(tail.get(key.checked_sub(1)?), Some(b'\\')) {
            return None;
        }
        let value = skip_white(tail, skip_white(tail, key + 4) + 1);
        let end = span::skip_value(tail, value);
        let id = scalar(tail.get(value..end)?)?;
        let mut at = skip_white(tail, end);
        while tail.get(at) == Some(&b',') {
            let key = skip_white(tail, at + 1);
            let colon = skip_white(tail, span::skip_value(tail, key));
            at = skip_white(tail, span::skip_value(tail, skip_white(tail, colon + 1)));
        }
        (tail.get(at) == Some(&b'}') && skip_white(tail, at + 1) == tail.len()).then_some(id)
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The message as received.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its id, if it has one; also of a message with a fault.
    pub fn id(&self) -> Option<Id> {
        scalar(self.bytes.get(self.id.clone()?)?)
    }

    /// Calls `found` with every id that some reader may use: of all duplicate members, of the messages of a batch, and of
    /// objects behind the first, which who reads a stream of values finds.
    pub fn each_id(&self, found: &mut dyn FnMut(Id)) {
        self.each_id_within(BATCH_LEVELS_MAX, found);
    }

    fn each_id_within(&self, levels: usize, found: &mut dyn FnMut(Id)) {
        self.ids_of(&self.outer.members, found);
        let mut at = skip_white(&self.bytes, self.outer.end);
        while self.kind == Kind::Other && self.bytes.get(at) == Some(&b'{') {
            let (members, end) = span::members(&self.bytes, at, ENVELOPE_MEMBERS_MAX, |_, _| None);
            self.ids_of(&members, found);
            at = skip_white(&self.bytes, end.max(at + 1));
        }
        if self.kind == Kind::Batch && levels > 0 {
            span::elements(&self.bytes, self.start, 0, |start| {
                let end = span::skip_value(&self.bytes, start);
                Self::read(self.bytes.slice(start..end)).each_id_within(levels - 1, found);
                Some(end)
            });
        }
    }

    fn ids_of(&self, members: &[Member], found: &mut dyn FnMut(Id)) {
        for member in members {
            if span::string(&self.bytes, &member.key).is_some_and(|name| span::folded(&name) == "id") {
                self.bytes.get(member.value.clone()).and_then(scalar).into_iter().for_each(&mut *found);
            }
        }
    }

    /// Its method.
    pub fn method(&self) -> Option<Cow<'_, str>> {
        span::string(&self.bytes, self.outer.get(&self.bytes, "method")?)
    }

    /// The parameters that a gateway uses.
    pub fn params(&self) -> Params<'_> {
        let params = self.outer.get(&self.bytes, "params").and_then(|params| self.bytes.get(params.clone()));
        params.and_then(|params| serde_json::from_slice(params).ok()).unwrap_or_default()
    }

    /// Its result; `None` when the message also has an error.
    pub fn result(&self) -> Option<Bytes> {
        let result = self.member("result")?;
        present(&self.bytes, &self.outer, "error").is_none().then_some(result)
    }

    /// Whether its result says that the tool failed.
    pub fn is_tool_error(&self) -> bool {
        let flag = self.outer.result.as_ref().and_then(|result| result.get(&self.bytes, "isError"));
        flag.and_then(|flag| self.bytes.get(flag.clone())).is_some_and(|flag| flag == b"true")
    }

    /// Whether the object at a path of keys is a task and nothing else: it has only members of a task, none of them
    /// twice.
    pub fn is_task(&self, path: &[&str]) -> bool {
        self.find(path).is_some_and(|object| span::is_object_of(&self.bytes, &object, &[&ACKNOWLEDGEMENT, &OUTCOME]))
    }

    /// The code of its error.
    pub fn error_code(&self) -> Option<i64> {
        #[derive(Deserialize)]
        struct Failure {
            code: i64,
        }
        serde_json::from_slice(&self.member("error")?).ok().map(|failure: Failure| failure.code)
    }

    /// The text of its error.
    pub fn error_text(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Failure {
            message: String,
        }
        serde_json::from_slice(&self.member("error")?).ok().map(|failure: Failure| failure.message)
    }

    /// The messages of a batch; `None` when there are more than [`BATCH_MESSAGES_MAX`], one is a batch, or it is not an
    /// array.
    pub fn batch(&self) -> Option<Vec<Bytes>> {
        if self.kind != Kind::Batch {
            return None;
        }
        let (elements, end) = span::elements(&self.bytes, self.start, BATCH_MESSAGES_MAX, |_| None);
        let whole = skip_white(&self.bytes, end) == self.bytes.len() && self.bytes.get(end - 1) == Some(&b']');
        // Thousands of nested batches would overflow the stack.
        let is_flat = elements.iter().all(|element| self.bytes.get(element.start) != Some(&b'['));
        (whole && is_flat && !elements.is_empty() && elements.len() <= BATCH_MESSAGES_MAX)
            .then(|| elements.into_iter().map(|element| self.bytes.slice(element)).collect())
    }

    /// The message with another id.
    pub fn with_id(&self, id: &Id) -> Bytes {
        match &self.id {
            Some(span) => span::spliced(&self.bytes, vec![(span.clone(), id.json().into())]),
            None => self.bytes.clone(),
        }
    }

    /// A notification about a task, reduced to the task, its status and the subscription.
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
        let id = short(&["params", "_meta", meta::SUBSCRIPTION_ID]);
        members.extend(id.map(|id| format!(r#""_meta":{{"{}":{id}}}"#, meta::SUBSCRIPTION_ID)));
        format!(r#"{{"jsonrpc":"2.0","method":{method},"params":{{{}}}}}"#, members.join(",")).into()
    }

    /// As [`with_id`](Self::with_id), in pieces that share the bytes of the message.
    pub fn pieces_with_id(&self, id: &Id) -> Vec<Bytes> {
        match &self.id {
            Some(span) => {
                let id = Bytes::copy_from_slice(id.json().as_bytes());
                vec![self.bytes.slice(..span.start), id, self.bytes.slice(span.end..)]
            }
            None => vec![self.bytes.clone()],
        }
    }

    /// The message with other bytes at a path of keys; unchanged when the path does not exist.
    pub fn with_bytes(&self, path: &[&str], json: &[u8]) -> Bytes {
        match self.find(path) {
            Some(span) => span::spliced(&self.bytes, vec![(span, json.to_vec())]),
            None => self.bytes.clone(),
        }
    }

    /// The message without the member at a path of keys; unchanged when the path does not exist.
    pub fn without(&self, path: &[&str]) -> Bytes {
        let removal = || {
            let (key, object) = path.split_last()?;
            self.find(path)?;
            span::removal(&self.bytes, &self.find(object)?, key)
        };
        match removal() {
            Some(span) => span::spliced(&self.bytes, vec![(span, Vec::new())]),
            None => self.bytes.clone(),
        }
    }

    /// The decoded strings at and below a path of keys that satisfy `wanted`, with their spans.
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
        let child = |value, key: &&str| span::child(&self.bytes, &value, key);
        match (rest.split_first(), self.walked(&value)) {
            // Its members are known, and another walk over a large one would take as long as the first.
            (Some((second, rest)), Some(result)) => {
                rest.iter().try_fold(result.get(&self.bytes, second)?.clone(), child)
            }
            _ => rest.iter().try_fold(value, child),
        }
    }

    /// The members of this value, if it is the result and all of them were found.
    fn walked(&self, value: &Span) -> Option<&Object> {
        let result = self.outer.result.as_deref().filter(|result| result.end == value.end)?;
        (result.members.len() <= MEMBERS_MAX).then_some(result)
    }

    fn member(&self, key: &str) -> Option<Bytes> {
        self.outer.get(&self.bytes, key).map(|value| self.bytes.slice(value.clone()))
    }
}

/// A request with these parameters, a JSON object.
pub fn request(id: &Id, method: &str, params: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#).into()
}

/// A notification with these parameters, a JSON object.
pub fn notification(method: &str, params: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#).into()
}

/// A response with a result.
pub fn response(id: &Id, result: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into()
}

/// A response with an error.
pub fn error_response(id: Option<&Id>, code: i32, message: &str) -> Bytes {
    let (id, message) = (id.map_or("null", Id::json), super::text::quoted(message));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#).into()
}

/// Whether some reader may interpret the result of a response as a tool result, whatever request it answers.
pub fn looks_like_tool_result(message: &Message) -> bool {
    let members = message.outer.result.iter().flat_map(|result| &result.members);
    let mut names = members.filter_map(|member| span::string(&message.bytes, &member.key));
    message.kind() == Kind::Response
        && names.any(|name| matches!(span::folded(&name).as_str(), "content" | "structuredcontent"))
}

/// A result with its `resultType`, which revisions from 2026-07-28 on require.
pub fn with_result_type(result: String, modern: bool) -> String {
    match result.strip_prefix('{').filter(|_| modern) {
        Some(members) => {
            let comma = if members.trim_start() == "}" { "" } else { "," };
            format!(r#"{{"resultType":"complete"{comma}{members}"#)
        }
        None => result,
    }
}

/// The id, if the JSON is a number or a string.
fn scalar(json: &[u8]) -> Option<Id> {
    let is_id = matches!(json.first()?, b'"' | b'-' | b'0'..=b'9');
    std::str::from_utf8(json).ok().filter(|_| is_id).map(Id::of_json)
}

/// The first position after white space and byte order marks.
fn skip_marks(bytes: &[u8]) -> usize {
    let mut start = skip_white(bytes, 0);
    while bytes.get(start..).is_some_and(|rest| rest.starts_with(BYTE_ORDER_MARK)) {
        start = skip_white(bytes, start + BYTE_ORDER_MARK.len());
    }
    start
}

/// The value of the only member with this key, unless it is `null`, which some serializers write for a missing value.
fn present<'a>(bytes: &[u8], outer: &'a Object, key: &str) -> Option<&'a Span> {
    outer.get(bytes, key).filter(|value| bytes.get((*value).clone()) != Some(b"null"))
}

/// The kind of an object, if all readers agree.
fn kind_of(bytes: &[u8], outer: &Object, id: Option<&Span>) -> Result<Kind, Fault> {
    if skip_white(bytes, outer.end) != bytes.len() || bytes.get(outer.end - 1) != Some(&b'}') {
        return Err(Fault::NotOne);
    }
    if outer.members.len() > MEMBERS_MAX {
        return Err(Fault::TooMany);
    }
    let mut seen = Vec::with_capacity(ENVELOPE.len());
    for member in &outer.members {
        let Some(name) = span::string(bytes, &member.key) else { continue };
        match ENVELOPE.iter().find(|known| **known == name) {
            Some(known) if seen.contains(known) => return Err(Fault::Duplicate(known)),
            Some(known) => seen.push(known),
            None => {
                let name = span::folded(&name);
                ENVELOPE.iter().find(|known| **known == name).map_or(Ok(()), |known| Err(Fault::CaseVariant(known)))?;
            }
        }
    }
    if id.is_some_and(|id| bytes.get(id.clone()).and_then(scalar).is_none()) {
        return Err(Fault::Id);
    }
    let is_there = |key| present(bytes, outer, key).is_some();
    match (is_there("method"), is_there("result"), is_there("error")) {
        (true, false, false) if id.is_some() => Ok(Kind::Request),
        (true, false, false) => Ok(Kind::Notification),
        (false, true, false) | (false, false, true) => Ok(Kind::Response),
        (_, true, true) => Err(Fault::Both("result", "error")),
        (true, true, false) => Err(Fault::Both("method", "result")),
        (true, false, true) => Err(Fault::Both("method", "error")),
        (false, false, false) if outer.get(bytes, "result").is_some() => Ok(Kind::Response),
        (false, false, false) => Err(Fault::NoKind),
    }
}
