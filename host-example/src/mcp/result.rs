//! A tool result as spans of the message it came in, and its parts.

use std::sync::Arc;

use bytes::Bytes;

use super::blocks::{FoundBlock, Object, literals, validate};
use super::copy::{Same, same};
use super::message::Message;
use super::span::{self, Member, Span};
use crate::sandbox::{Part, PartKind, Payload, at_once};

/// Most content blocks of a tool result. One costs up to 1 KiB of memory besides the message.
pub const BLOCKS_MAX: usize = 16_384;

/// Most members of a tool result.
pub const MEMBERS_MAX: usize = 1_024;

/// Why a message is not a tool result. It may still be any JSON or any text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The message is not UTF-8 from this byte on.
    #[error("expected a tool result as JSON: not UTF-8 at byte {0}")]
    NotUtf8(usize),
    /// The message is not JSON.
    #[error("expected a tool result as JSON: {0}")]
    Syntax(lro_jsonl::SyntaxError),
    /// JSON, but neither a tool result nor a response that holds one.
    #[error("expected an object with `content` or a JSON-RPC response with such a `result`: {0}")]
    NotAToolResult(&'static str),
    /// Two members of the same name: readers disagree which of them counts.
    #[error("the tool result has two members `{0}`")]
    Duplicate(&'static str),
    /// More than a limit.
    #[error("the tool result has more than {limit} {what}")]
    TooMany {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}

/// What a member of the result object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Content,
    Structured,
    Meta,
    IsError,
    ResultType,
    Other,
}

const ROLES: [(&str, Role); 5] = [
    ("content", Role::Content),
    ("structuredContent", Role::Structured),
    ("_meta", Role::Meta),
    ("isError", Role::IsError),
    ("resultType", Role::ResultType),
];

/// One content block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) span: Span,
    /// Index of its part; none for a text that holds the same as the structured content.
    pub(super) part: Option<usize>,
}

/// One tool result, whole or in a JSON-RPC response. Holds the message once and copies nothing large out of it.
#[derive(Clone, Debug)]
pub struct ToolResult {
    pub(super) message: Bytes,
    /// Where the result object lies in the message.
    pub(super) result: Span,
    pub(super) members: Vec<(Role, Member)>,
    pub(super) blocks: Vec<Block>,
    /// Index of the part of the structured content, which may be the text of a block.
    pub(super) structured: Option<usize>,
    /// Index of the part of the metadata.
    pub(super) meta: Option<usize>,
    is_error: bool,
    not_for_policy: bool,
    payload: Arc<Payload>,
}

impl ToolResult {
    /// Takes a message apart: a `CallToolResult`, or a JSON-RPC response with one as its `result`.
    ///
    /// A JSON-RPC error, a `resultType` of `input_required` or `task`, and the task object of older servers are not for a
    /// policy, unless there is content all the same: they have no parts and pass.
    pub fn parse(message: Bytes) -> Result<Self, ParseError> {
        let start = span::skip_white(&message, 0);
        let outer = Object::walk(&message, start);
        Self::of_walked(message, start, outer)
    }

    /// As [`ToolResult::parse`], for a message whose envelope was read already.
    pub fn of_message(message: Message) -> Result<Self, ParseError> {
        Self::of_walked(message.bytes, message.start, message.outer)
    }

    fn of_walked(message: Bytes, start: usize, mut outer: Object) -> Result<Self, ParseError> {
        let make_parts = || {
            outer.make_parts(&message);
            if let Some(result) = &mut outer.result {
                result.make_parts(&message);
            }
        };
        let (text, ()) = at_once(message.len(), || simdutf8::compat::from_utf8(&message), make_parts);
        let text = text.map_err(|error| ParseError::NotUtf8(error.valid_up_to()))?;
        let literals = literals(&outer);
        let rest = text.len() - literals.iter().map(Span::len).sum::<usize>();
        let taken_apart = || Self::of_text(message.clone(), start, outer);
        let (valid, result) = at_once(rest, || validate(text, &literals), taken_apart);
        valid.and(result)
    }

    /// Takes apart a message that is UTF-8, and may turn out not to be JSON at the same time.
    fn of_text(message: Bytes, start: usize, outer: Object) -> Result<Self, ParseError> {
        if message.get(start) != Some(&b'{') {
            return Err(ParseError::NotAToolResult("not an object"));
        }
        let whole = start..outer.end;
        if outer.get(&message, "jsonrpc").is_none() {
            return Self::of_object(message, whole, outer);
        }
        if outer.get(&message, "error").is_some() {
            return Ok(Self::untouched(message, whole));
        }
        let Some(span) = outer.get(&message, "result").cloned() else {
            return Err(ParseError::NotAToolResult("a JSON-RPC message without a single `result`"));
        };
        match outer.result {
            Some(result) => Self::of_object(message, span, *result),
            None => Err(ParseError::NotAToolResult("`result` is not an object")),
        }
    }

    /// The parts in order: content blocks, structured content, metadata.
    pub fn payload(&self) -> &Arc<Payload> {
        &self.payload
    }

    /// Whether the tool reported an error.
    pub const fn is_error(&self) -> bool {
        self.is_error
    }

    /// Whether the message passes without asking a policy.
    pub const fn not_for_policy(&self) -> bool {
        self.not_for_policy
    }

    /// Whether there is structured content, which a client may want to validate.
    pub const fn has_structured(&self) -> bool {
        self.structured.is_some()
    }

    /// The structured content as JSON.
    pub fn structured(&self) -> Option<Bytes> {
        let (_, member) = self.members.iter().find(|(role, _)| *role == Role::Structured)?;
        self.structured.map(|_| self.message.slice(member.value.clone()))
    }

    /// The id of the task that the call became instead of a result.
    pub fn task(&self) -> Option<String> {
        let id = |object: &Span| span::child(&self.message, object, "taskId");
        let object = self.result.clone();
        let task = id(&object).or_else(|| id(&span::child(&self.message, &object, "task")?))?;
        span::string(&self.message, &task).map(String::from)
    }

    fn untouched(message: Bytes, result: Span) -> Self {
        Self {
            message,
            result,
            members: Vec::new(),
            blocks: Vec::new(),
            structured: None,
            meta: None,
            is_error: false,
            not_for_policy: true,
            payload: Arc::default(),
        }
    }

    fn of_object(message: Bytes, result: Span, object: Object) -> Result<Self, ParseError> {
        let Object { members, blocks, .. } = object;
        let members = with_roles(&message, members)?;
        let find = |wanted| members.iter().find(|(role, _)| *role == wanted).map(|(_, member)| member.value.clone());
        let result_type = find(Role::ResultType).and_then(|value| span::string(&message, &value));
        let (content, structured) = (find(Role::Content), find(Role::Structured));
        let is_task = members.iter().any(|(_, member)| message.get(member.key.clone()) == Some(b"\"task\""));
        let is_other = is_task || matches!(result_type.as_deref(), Some("input_required" | "task"));
        let is_empty = content.as_ref().is_none_or(|content| message.get(content.clone()) == Some(b"[]"));
        if is_other && is_empty && structured.is_none() {
            return Ok(Self::untouched(message.clone(), result));
        }
        if content.as_ref().is_some_and(|content| message.get(content.start) != Some(&b'[')) {
            return Err(ParseError::NotAToolResult("`content` is not an array"));
        }
        if content.is_none() && structured.is_none() {
            return Err(ParseError::NotAToolResult("no `content`"));
        }
        if blocks.len() > BLOCKS_MAX {
            return Err(ParseError::TooMany { what: "content blocks", limit: BLOCKS_MAX });
        }
        let structured = structured.filter(|value| message.get(value.clone()) != Some(b"null"));
        let (blocks, parts, text) = without_copies(&message, blocks, structured.as_ref());
        let is_error = find(Role::IsError).is_some_and(|value| message.get(value) == Some(b"true"));
        let meta = find(Role::Meta);
        let mut found = Self { is_error, not_for_policy: false, members, blocks, ..Self::untouched(message, result) };
        found.add_json(parts, structured, text, meta);
        Ok(found)
    }

    /// Adds the parts that are JSON values of the result object. A text that is all of the structured content stands for it.
    fn add_json(&mut self, mut parts: Vec<Part>, structured: Option<Span>, text: Option<Part>, meta: Option<Span>) {
        let json = |kind, span: Span| Part::checked_text(kind, self.message.slice(span));
        let mut add = |part: Option<Part>| {
            parts.push(part?);
            Some(parts.len() - 1)
        };
        self.structured = add(text.or_else(|| Some(json(PartKind::Structured, structured?))));
        self.meta = add(meta.map(|meta| json(PartKind::Meta, meta)));
        self.payload = Arc::new(Payload::new(parts));
    }
}

fn with_roles(message: &[u8], members: Vec<Member>) -> Result<Vec<(Role, Member)>, ParseError> {
    if members.len() > MEMBERS_MAX {
        return Err(ParseError::TooMany { what: "members", limit: MEMBERS_MAX });
    }
    let mut found = Vec::with_capacity(members.len());
    for member in members {
        let name = span::string(message, &member.key);
        let known = ROLES.iter().find(|(known, _)| name.as_deref() == Some(known));
        let (name, role) = known.map_or(("", Role::Other), |(name, role)| (*name, *role));
        if role != Role::Other && found.iter().any(|(other, _)| *other == role) {
            return Err(ParseError::Duplicate(name));
        }
        found.push((role, member));
    }
    Ok(found)
}

/// The blocks of the result and their parts. A text that holds the same as the structured content becomes no part; one that
/// stands for both is returned apart.
fn without_copies(
    message: &Bytes,
    found: Vec<FoundBlock>,
    structured: Option<&Span>,
) -> (Vec<Block>, Vec<Part>, Option<Part>) {
    let (mut blocks, mut parts) = (Vec::with_capacity(found.len()), Vec::with_capacity(found.len() + 2));
    let mut text = None;
    for FoundBlock { span, part, .. } in found {
        let part = part.unwrap_or_else(|| Part::checked_text(PartKind::Block, message.slice(span.clone())));
        let index = match structured.and_then(|structured| same(&part, message, structured)) {
            Some(Same::Structured) => None,
            Some(Same::Text) => {
                text = Some(part);
                None
            }
            None => {
                parts.push(part);
                Some(parts.len() - 1)
            }
        };
        blocks.push(Block { span, part: index });
    }
    (blocks, parts, text)
}
