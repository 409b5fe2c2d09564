//! A tool result as spans of its message, and its parts.

use std::sync::Arc;

use bytes::Bytes;
use lro_json::walk::skip_white;
use lro_payload::{Part, PartKind, Payload, join};

use super::blocks::{FoundBlock, Object, literals, parts_of, validate};
use super::copy::{Same, Structured};
use super::error::{BLOCKS_MAX, MEMBERS_MAX, ParseError};
use super::message::{ACKNOWLEDGEMENT, Message};
use super::span::{self, Member, Span};

/// Most bytes of members outside the protocol beside members of it: 16 MiB. They are copied into one part for a policy.
pub const OTHERS_BYTES_MAX: usize = 16 << 20;

/// The role of a member of the result object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Content,
    Structured,
    Meta,
    IsError,
    ResultType,
    /// The cursor of the next page.
    Cursor,
    Other,
}

const ROLES: [(&str, Role); 6] = [
    ("content", Role::Content),
    ("structuredContent", Role::Structured),
    ("_meta", Role::Meta),
    ("isError", Role::IsError),
    ("resultType", Role::ResultType),
    (CURSOR, Role::Cursor),
];

/// The member with the cursor of the next page, as in lists of the protocol.
pub(super) const CURSOR: &str = "nextCursor";

/// One content block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) span: Span,
    /// Index of its part; `None` for a text that is a copy of the structured content.
    pub(super) part: Option<usize>,
}

/// A tool result, alone or in a JSON-RPC response. Holds the message once and copies nothing large out of it.
#[derive(Clone, Debug)]
pub struct ToolResult {
    pub(super) message: Bytes,
    /// Span of the result object in the message.
    pub(super) result: Span,
    pub(super) members: Vec<(Role, Member)>,
    pub(super) blocks: Vec<Block>,
    /// Index of the part of the structured content, which may be the text of a block.
    pub(super) structured: Option<usize>,
    /// Index of the part of the metadata.
    pub(super) meta: Option<usize>,
    /// Index of the part of all members outside the protocol, including those of the message around the result.
    pub(super) others: Option<usize>,
    /// The text before the result, without members outside the protocol; `None` when the message has no such members.
    pub(super) plain_envelope: Option<Vec<u8>>,
    /// Index of the part of the cursor.
    pub(super) cursor: Option<usize>,
    is_error: bool,
    not_for_policy: bool,
    payload: Arc<Payload>,
}

/// The expected form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A `CallToolResult`, or a response with one.
    ToolResult,
    /// A response with any result.
    Response,
    /// Any result.
    Value,
}

impl ToolResult {
    /// Takes a message apart: a `CallToolResult`, or a JSON-RPC response with one as its `result`.
    ///
    /// A JSON-RPC error, a `resultType` of `input_required` or `task`, and the task object of older servers are not for
    /// a policy, unless they hold content as well: they have no parts and pass.
    pub fn parse(message: Bytes) -> Result<Self, ParseError> {
        Self::of_form(message, Form::ToolResult)
    }

    /// As [`ToolResult::parse`], for a JSON-RPC response whose envelope was already read. Every result becomes parts:
    /// one outside the protocol becomes a single part.
    pub fn of_message(message: Message) -> Result<Self, ParseError> {
        Self::of_walked(message.bytes, message.start, message.outer, Form::Response)
    }

    /// As [`ToolResult::of_message`], for a result alone.
    pub fn of_value(value: Bytes) -> Result<Self, ParseError> {
        Self::of_form(value, Form::Value)
    }

    fn of_form(message: Bytes, form: Form) -> Result<Self, ParseError> {
        let start = skip_white(&message, 0);
        let outer = match message.get(start) {
            Some(b'{') => Object::walk(&message, start),
            _ => Object::default(),
        };
        Self::of_walked(message, start, outer, form)
    }

    fn of_walked(message: Bytes, start: usize, mut outer: Object, form: Form) -> Result<Self, ParseError> {
        let make_parts = || {
            outer.make_parts(&message);
            if let Some(result) = &mut outer.result {
                result.make_parts(&message);
            }
        };
        let (text, ()) = join(message.len(), || simdutf8::compat::from_utf8(&message), make_parts);
        let text = text.map_err(|error| ParseError::NotUtf8(error.valid_up_to()))?;
        let literals = literals(&outer);
        let rest = text.len() - literals.iter().map(Span::len).sum::<usize>();
        let taken_apart = || Self::of_text(message.clone(), start, outer, form);
        let (valid, result) = join(rest, || validate(text, &literals), taken_apart);
        valid.and(result)
    }

    /// Takes apart a message that is UTF-8 but may still turn out not to be JSON.
    fn of_text(message: Bytes, start: usize, outer: Object, form: Form) -> Result<Self, ParseError> {
        let is_object = message.get(start) == Some(&b'{');
        let is_response = form == Form::Response || outer.get(&message, "jsonrpc").is_some();
        let is_there = |key| outer.get(&message, key).is_some_and(|value| message.get(value.clone()) != Some(b"null"));
        match form {
            Form::ToolResult if !is_object => Err(ParseError::NotAToolResult("not an object")),
            Form::Value if !is_object => Ok(Self::of_other(message.clone(), start..span::skip_value(&message, start))),
            Form::ToolResult if !is_response => Self::of_object(message, start..outer.end, outer, form, Vec::new()),
            Form::Value => Self::of_object(message, start..outer.end, outer, form, Vec::new()),
            Form::ToolResult if is_there("error") && !is_there("result") => {
                Ok(Self::untouched(message, start..outer.end))
            }
            Form::ToolResult | Form::Response => Self::of_response(message, outer, form),
        }
    }

    fn of_response(message: Bytes, outer: Object, form: Form) -> Result<Self, ParseError> {
        let Some(span) = outer.get(&message, "result").cloned() else {
            return Err(ParseError::NotAToolResult("a JSON-RPC message without a single `result`"));
        };
        let others: Vec<Member> =
            outer.members.iter().filter(|member| !is_of_response(&message, member)).cloned().collect();
        let plain_envelope = (!others.is_empty()).then(|| {
            let id = outer.get(&message, "id").and_then(|id| message.get(id.clone())).unwrap_or(b"null");
            [br#"{"jsonrpc":"2.0","id":"#, id, br#","result":"#].concat()
        });
        let mut result = match outer.result {
            Some(result) => Self::of_object(message, span, *result, form, others)?,
            None if form == Form::ToolResult || !others.is_empty() => {
                return Err(ParseError::NotAToolResult("`result` is not an object"));
            }
            None => Self::of_other(message, span),
        };
        result.plain_envelope = plain_envelope;
        Ok(result)
    }

    /// The parts in order: content blocks, structured content, metadata, and all other members as one object.
    pub fn payload(&self) -> &Arc<Payload> {
        &self.payload
    }

    /// Whether the tool reported an error.
    pub const fn is_error(&self) -> bool {
        self.is_error
    }

    /// Whether the message passes without a policy.
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

    /// The id of the task that the server created instead of a result.
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
            others: None,
            plain_envelope: None,
            cursor: None,
            is_error: false,
            not_for_policy: true,
            payload: Arc::default(),
        }
    }

    /// A result outside the protocol, as one part.
    fn of_other(message: Bytes, result: Span) -> Self {
        let part = Part::checked_text(PartKind::Structured, message.slice(result.clone()));
        let payload = Arc::new(Payload::new(vec![part]));
        Self {
            structured: Some(0),
            others: Some(0),
            not_for_policy: false,
            payload,
            ..Self::untouched(message, result)
        }
    }

    /// Takes apart a result object. `others` are members outside the protocol in the message around it.
    fn of_object(
        message: Bytes,
        result: Span,
        object: Object,
        form: Form,
        others: Vec<Member>,
    ) -> Result<Self, ParseError> {
        let Object { members, blocks, .. } = object;
        let members = with_roles(&message, members)?;
        let find = |wanted| members.iter().find(|(role, _)| *role == wanted).map(|(_, member)| member.value.clone());
        let (content, structured, meta) = (find(Role::Content), find(Role::Structured), find(Role::Meta));
        if others.is_empty() && is_acknowledgement(&message, &result, &members) {
            return Ok(Self::untouched(message.clone(), result));
        }
        if form == Form::ToolResult && content.is_none() && structured.is_none() {
            let has_content = find_name(&message, &members, "content").is_some();
            let reason = if has_content { "`content` is not an array" } else { "no `content`" };
            return Err(ParseError::NotAToolResult(reason));
        }
        let is_error = find(Role::IsError).is_some_and(|value| message.get(value) == Some(b"true"));
        let structured = structured.filter(|value| message.get(value.clone()) != Some(b"null"));
        let Some((blocks, parts, text)) = without_copies(&message, blocks, content, structured.as_ref()) else {
            return Ok(Self { is_error, members, ..Self::of_other(message, result) });
        };
        let is_foreign = |(role, _): &(Role, Member)| *role == Role::Other;
        if others.is_empty() && !members.is_empty() && members.iter().all(is_foreign) {
            return Ok(Self { members, ..Self::of_other(message, result) });
        }
        let others = others.iter().chain(members.iter().filter(|member| is_foreign(member)).map(|(_, member)| member));
        let others = as_object(&message, others)?;
        let cursor = find(Role::Cursor).filter(|value| message.get(value.clone()) != Some(b"null"));
        let mut found = Self { is_error, not_for_policy: false, members, blocks, ..Self::untouched(message, result) };
        found.add_json(parts, structured, text, meta, cursor, others);
        Ok(found)
    }

    /// Adds the parts that are JSON values of the result object. A text that is the whole structured content is its
    /// part. A cursor becomes a separate part, an object with that member.
    fn add_json(
        &mut self,
        mut parts: Vec<Part>,
        structured: Option<Span>,
        text: Option<Part>,
        meta: Option<Span>,
        cursor: Option<Span>,
        others: Option<Bytes>,
    ) {
        let json = |kind, span: Span| Part::checked_text(kind, self.message.slice(span));
        let mut add = |part: Option<Part>| {
            parts.push(part?);
            Some(parts.len() - 1)
        };
        self.structured = add(text.or_else(|| Some(json(PartKind::Structured, structured?))));
        self.meta = add(meta.map(|meta| json(PartKind::Meta, meta)));
        self.others = add(others.map(|others| Part::checked_text(PartKind::Block, others)));
        self.cursor = add(cursor.and_then(|cursor| {
            let object = [br#"{"nextCursor":"#, self.message.get(cursor)?, b"}"].concat();
            let mut part = Part::checked_text(PartKind::Meta, object.into());
            part.name = Some(CURSOR.to_owned());
            Some(part)
        }));
        self.payload = Arc::new(Payload::new(parts));
    }
}

fn with_roles(message: &[u8], members: Vec<Member>) -> Result<Vec<(Role, Member)>, ParseError> {
    if members.len() > MEMBERS_MAX {
        return Err(ParseError::TooMany { what: "members", limit: MEMBERS_MAX });
    }
    let mut found = Vec::with_capacity(members.len());
    let mut seen = Vec::with_capacity(ROLES.len());
    for member in members {
        let name = span::string(message, &member.key);
        let known = ROLES.iter().find(|(known, _)| name.as_deref() == Some(known));
        let Some((name, role)) = known else {
            found.push((Role::Other, member));
            continue;
        };
        if seen.contains(role) {
            return Err(ParseError::Duplicate(name));
        }
        seen.push(*role);
        let role = if is_of_role(message, *role, &member.value) { *role } else { Role::Other };
        found.push((role, member));
    }
    Ok(found)
}

/// Whether a member has a value that the protocol allows. Any other value could carry data.
fn is_of_role(message: &[u8], role: Role, value: &Span) -> bool {
    match role {
        Role::Content => message.get(value.start) == Some(&b'['),
        Role::IsError => matches!(message.get(value.clone()), Some(b"true" | b"false" | b"null")),
        Role::ResultType => {
            matches!(span::string(message, value).as_deref(), Some("complete" | "input_required" | "task"))
        }
        Role::Structured | Role::Meta | Role::Cursor | Role::Other => true,
    }
}

/// The value of the first member of a name, whatever its role.
fn find_name<'a>(message: &[u8], members: &'a [(Role, Member)], name: &str) -> Option<&'a Span> {
    let mut found = members.iter().filter(|(_, member)| span::string(message, &member.key).as_deref() == Some(name));
    found.next().map(|(_, member)| &member.value)
}

/// Whether a result only announces a task or an input request, and holds nothing that could be read as content.
fn is_acknowledgement(message: &[u8], result: &Span, members: &[(Role, Member)]) -> bool {
    let kind = find_name(message, members, "resultType").and_then(|value| span::string(message, value));
    let task = find_name(message, members, "task");
    let content = find_name(message, members, "content").and_then(|content| message.get(content.clone()));
    (task.is_some() || matches!(kind.as_deref(), Some("input_required" | "task")))
        && content.is_none_or(|content| content == b"[]")
        && span::is_object_of(message, result, &[&ACKNOWLEDGEMENT, &["content", "task"]])
        && task.is_none_or(|task| span::is_object_of(message, task, &[&ACKNOWLEDGEMENT]))
}

/// Whether a member of a message belongs to every response and carries no other data.
fn is_of_response(message: &[u8], member: &Member) -> bool {
    let value = message.get(member.value.clone());
    match span::string(message, &member.key).as_deref() {
        Some("id" | "result") => true,
        Some("jsonrpc") => value == Some(b"\"2.0\""),
        Some("error" | "method") => value == Some(b"null"),
        _ => false,
    }
}

/// The members as one object; `None` without members.
fn as_object<'a>(message: &[u8], members: impl Iterator<Item = &'a Member>) -> Result<Option<Bytes>, ParseError> {
    let mut object = Vec::new();
    for member in members {
        let (key, value) = (member.key.clone(), member.value.clone());
        if object.len() + key.len() + value.len() > OTHERS_BYTES_MAX {
            let what = "bytes of members that are not of the protocol";
            return Err(ParseError::TooMany { what, limit: OTHERS_BYTES_MAX });
        }
        object.push(if object.is_empty() { b'{' } else { b',' });
        object.extend_from_slice(message.get(key).unwrap_or_default());
        object.push(b':');
        object.extend_from_slice(message.get(value).unwrap_or_default());
    }
    if object.is_empty() {
        return Ok(None);
    }
    object.push(b'}');
    Ok(Some(object.into()))
}

/// The blocks of the result and their parts. A text that is a copy of the structured content gets no part, and neither do
/// texts that are its elements; a text that is the whole structured content is returned separately. Too many blocks become
/// one if they are such elements, and `None` otherwise.
fn without_copies(
    message: &Bytes,
    found: Vec<FoundBlock>,
    content: Option<Span>,
    structured: Option<&Span>,
) -> Option<(Vec<Block>, Vec<Part>, Option<Part>)> {
    let (mut blocks, mut parts) = (Vec::with_capacity(found.len()), Vec::with_capacity(found.len() + 2));
    let mut text = None;
    let has_text = || found.iter().any(|block| block.part.as_ref().is_some_and(|part| part.kind == PartKind::Text));
    let structured = structured.filter(|_| has_text()).and_then(|structured| Structured::new(message, structured));
    if found.len() > BLOCKS_MAX {
        let content = content?;
        let all = Block { span: content.start + 1..content.end - 1, part: None };
        return structured?.has_elements(parts_of(message, &content)).then(|| (vec![all], parts, text));
    }
    if found.len() > 1
        && let Some(structured) = &structured
        && structured.has_elements(found.iter().map(|block| block.part.clone()))
    {
        blocks.extend(found.into_iter().map(|block| Block { span: block.span, part: None }));
        return Some((blocks, parts, text));
    }
    for FoundBlock { span, part, .. } in found {
        let part = part.unwrap_or_else(|| Part::checked_text(PartKind::Block, message.slice(span.clone())));
        let index = match structured.as_ref().and_then(|structured| structured.same(&part)) {
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
    Some((blocks, parts, text))
}
