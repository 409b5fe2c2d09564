//! The envelope of a JSON-RPC message, as spans of the bytes it came in.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::blocks::Object;
use super::error::MEMBERS_MAX;
use super::method;
use super::span::{self, Span};

/// Most messages of a batch; revision 2025-03-26 knows batches, no other does.
pub const BATCH_MESSAGES_MAX: usize = 1_024;

/// What some writers put before a text. It is no part of JSON.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Most members of an envelope that are looked at in a message without an end.
const ENVELOPE_MEMBERS_MAX: usize = 16;

/// Longest value that stays in a notification without its data, in bytes of JSON.
const SHORT_BYTES_MAX: usize = 256;

/// Most digits that an id is written out with to be compared.
const ID_DIGITS_MAX: usize = 400;

/// Levels of batches in batches in which ids are looked for.
const BATCH_LEVELS_MAX: usize = 4;

/// Names of the members of an envelope.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Names that the members of a task or of a question have while there is no result, in any revision.
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

/// And those that hold what came of it.
const OUTCOME: [&str; 2] = ["result", "error"];

/// JSON-RPC code of a method that does not exist.
pub const METHOD_NOT_FOUND: i32 = -32601;
/// JSON-RPC code of something that is no request.
pub const INVALID_REQUEST: i32 = -32600;
/// JSON-RPC code of a failure that is not the caller's.
pub const INTERNAL_ERROR: i32 = -32603;

/// The id of a request: a JSON number or string. Two are the same when their values are, however they are spelled: `1`,
/// `1.0` and `1e0`, or `"a"` and `"\u0061"`. Numbers are compared digit by digit, of any length.
#[derive(Clone, Debug)]
pub struct Id {
    /// As it was spelled.
    json: String,
    /// Its value, where that is spelled otherwise.
    value: Option<String>,
}

impl Id {
    /// An id of the gateway's own.
    pub fn own(text: &str) -> Self {
        Self { json: super::text::quoted(text), value: None }
    }

    /// As JSON, spelled as it came.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// From JSON.
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

    /// The id that some readers take for this one: the number that a string spells, and a number as a string.
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

/// A number in the one spelling that all of its value share: an integer as its digits, another as its digits and an
/// exponent. None when it is no number, or its exponent is out of all bounds.
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
    /// No JSON-RPC message, or one that readers disagree about: see [`Message::fault`].
    Other,
}

/// Why something is not a message that all readers read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// No JSON object or array, or one that is cut or followed by something else.
    #[error("it is not one JSON object")]
    NotOne,
    /// A member of the envelope that is there twice: readers disagree which of them counts.
    #[error("it has two members `{0}`")]
    Duplicate(&'static str),
    /// A member that readers who do not look at case take for one of the envelope.
    #[error("it has a member that some readers take for `{0}`")]
    Namesake(&'static str),
    /// Members that exclude each other.
    #[error("it has both `{0}` and `{1}`")]
    Both(&'static str, &'static str),
    /// Nothing that says what it is.
    #[error("it has neither `method` nor `result` nor `error`")]
    Nothing,
    /// An id of another type.
    #[error("its `id` is neither a number nor a string")]
    Id,
    /// More members than are looked at.
    #[error("it has more than {MEMBERS_MAX} members")]
    TooMany,
    /// A batch that is empty, not whole, too long, or in another one.
    #[error("a batch must be whole, hold 1 to {BATCH_MESSAGES_MAX} messages, and no batch")]
    Batch,
}

/// A message and where the members of its envelope lie. What is inside them is not validated.
#[derive(Clone, Debug)]
pub struct Message {
    pub(super) bytes: Bytes,
    /// Where the object lies, without white space around it.
    pub(super) start: usize,
    pub(super) outer: Object,
    kind: Kind,
    fault: Option<Fault>,
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

impl Params<'_> {
    /// What a request of a method is about: the name of a tool or prompt, the URI of a resource, the id of a task. Over HTTP,
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
    /// Finds the members of the envelope. Takes one pass; nothing is copied. Byte order marks before it count as white space.
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
        Self { bytes, start, outer, kind, fault, id }
    }

    /// The message without byte order marks before it.
    #[must_use]
    pub fn without_marks(self) -> Self {
        if span::skip_white(&self.bytes, 0) == self.start {
            return self;
        }
        Self::read(self.bytes.slice(self.start..))
    }

    /// What makes it [`Kind::Other`], or a batch that is not to be taken apart.
    pub fn fault(&self) -> Option<Fault> {
        let is_batch = self.kind == Kind::Batch;
        self.fault.or_else(|| (is_batch && self.batch().is_none()).then_some(Fault::Batch))
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

    /// Its id; of a message with a fault, if there is one.
    pub fn id(&self) -> Option<Id> {
        scalar(self.bytes.get(self.id.clone()?)?)
    }

    /// Every id that some reader may find: of members that are there twice all, of a batch those of its messages.
    pub fn each_id(&self, found: &mut dyn FnMut(Id)) {
        self.each_id_within(BATCH_LEVELS_MAX, found);
    }

    fn each_id_within(&self, levels: usize, found: &mut dyn FnMut(Id)) {
        for member in &self.outer.members {
            if span::string(&self.bytes, &member.key).is_some_and(|name| span::folded(&name) == "id") {
                self.bytes.get(member.value.clone()).and_then(scalar).into_iter().for_each(&mut *found);
            }
        }
        if self.kind == Kind::Batch && levels > 0 {
            span::elements(&self.bytes, self.start, 0, |start| {
                let end = span::skip_value(&self.bytes, start);
                Self::read(self.bytes.slice(start..end)).each_id_within(levels - 1, found);
                Some(end)
            });
        }
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

    /// Its result. What stands beside an error is none.
    pub fn result(&self) -> Option<Bytes> {
        let result = self.member("result")?;
        present(&self.bytes, &self.outer, "error").is_none().then_some(result)
    }

    /// Whether the object at a path of keys is a task and nothing else: its members are those of a task, each there once.
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

    /// The messages of a batch. None when they are more than [`BATCH_MESSAGES_MAX`], one is a batch, or it is no array.
    pub fn batch(&self) -> Option<Vec<Bytes>> {
        if self.kind != Kind::Batch {
            return None;
        }
        let (elements, end) = span::elements(&self.bytes, self.start, BATCH_MESSAGES_MAX, |_| None);
        let whole = span::skip_white(&self.bytes, end) == self.bytes.len() && self.bytes.get(end - 1) == Some(&b']');
        // One in another, thousands of times, would take all of the stack.
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
    let (id, message) = (id.map_or("null", Id::json), super::text::quoted(message));
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":{message}}}}}"#).into()
}

/// Whether some reader may take the result of a response for that of a tool, whatever it answers.
pub fn looks_like_tool_result(message: &Message) -> bool {
    let members = message.outer.result.iter().flat_map(|result| &result.members);
    let mut names = members.filter_map(|member| span::string(&message.bytes, &member.key));
    message.kind() == Kind::Response
        && names.any(|name| matches!(span::folded(&name).as_str(), "content" | "structuredcontent"))
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

/// The start of what comes after white space and byte order marks.
fn skip_marks(bytes: &[u8]) -> usize {
    let mut start = span::skip_white(bytes, 0);
    while bytes.get(start..).is_some_and(|rest| rest.starts_with(BYTE_ORDER_MARK)) {
        start = span::skip_white(bytes, start + BYTE_ORDER_MARK.len());
    }
    start
}

/// The value of the one member with this key, unless it is `null`, which some serializers write for what is not there.
fn present<'a>(bytes: &[u8], outer: &'a Object, key: &str) -> Option<&'a Span> {
    outer.get(bytes, key).filter(|value| bytes.get((*value).clone()) != Some(b"null"))
}

/// What an object is, if all readers say the same.
fn kind_of(bytes: &[u8], outer: &Object, id: Option<&Span>) -> Result<Kind, Fault> {
    if span::skip_white(bytes, outer.end) != bytes.len() || bytes.get(outer.end - 1) != Some(&b'}') {
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
                ENVELOPE.iter().find(|known| **known == name).map_or(Ok(()), |known| Err(Fault::Namesake(known)))?;
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
        (false, false, false) => Err(Fault::Nothing),
    }
}
