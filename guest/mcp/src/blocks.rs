//! Walks over a message once: finds its members and content blocks, and makes the part of each block.

use bytes::Bytes;
use lro_json::{SyntaxError, Validator};
use lro_payload::{Part, PartKind};

use super::error::{BLOCKS_MAX, MEMBERS_MAX, ParseError};
use super::span::{self, Member, Span};

/// Most bytes of a content block besides its text or data (media type, URI, annotations, metadata): 1 KiB. A block with
/// more becomes one part as a whole, so that no data evades the size check.
pub const BLOCK_EXTRA_BYTES_MAX: usize = 1_024;

/// Longest base64 text with JSON escapes in it (some servers write `\/`), in bytes: 16 MiB. Decoding needs a copy of
/// it; a block with a longer one becomes one part with its JSON.
pub const ESCAPED_BASE64_BYTES_MAX: usize = 16 << 20;

/// Most members of a content block or embedded resource of a known type (the protocol has six); a block with more
/// becomes one part with its JSON. Bounds the memory per block to 600 bytes.
const BLOCK_MEMBERS_MAX: usize = 16;

/// Number of members that the protocol gives annotations.
const ANNOTATIONS_MAX: usize = 3;

/// Number of roles that the protocol has.
const ROLES_MAX: usize = 2;

/// Longest number of a priority, which is between 0 and 1, in bytes.
const PRIORITY_BYTES_MAX: usize = 8;

/// Longest time, in bytes with its quotation marks.
const TIME_BYTES_MAX: usize = 40;

/// An object that may be a tool result, or a response that holds one.
#[derive(Clone, Debug, Default)]
pub(super) struct Object {
    pub(super) members: Vec<Member>,
    /// The elements of the array `content`.
    pub(super) blocks: Vec<FoundBlock>,
    /// The object `result`.
    pub(super) result: Option<Box<Self>>,
    pub(super) end: usize,
}

/// A content block.
#[derive(Clone, Debug)]
pub(super) struct FoundBlock {
    pub(super) span: Span,
    members: Vec<Member>,
    /// `None` when the JSON of the block becomes the part.
    pub(super) part: Option<Part>,
    /// The inside of the string literal of the part, which making the part has validated.
    literal: Span,
}

impl Object {
    /// Walks over the object at `start`.
    pub(super) fn walk(message: &[u8], start: usize) -> Self {
        Self::walk_within(message, start, true)
    }

    fn walk_within(message: &[u8], start: usize, is_outer: bool) -> Self {
        let (mut blocks, mut result) = (Vec::new(), None);
        let (members, end) = span::members(message, start, MEMBERS_MAX, |key, value| {
            let name = span::string(message, key)?;
            match (name.as_ref(), message.get(value)?) {
                ("content", b'[') => {
                    let end;
                    (blocks, end) = walk_blocks(message, value);
                    Some(end)
                }
                ("result", b'{') if is_outer => {
                    let inner = Self::walk_within(message, value, false);
                    let end = inner.end;
                    result = Some(Box::new(inner));
                    Some(end)
                }
                _ => None,
            }
        });
        Self { members, blocks, result, end }
    }

    /// Makes a part of each block of a known type.
    pub(super) fn make_parts(&mut self, message: &Bytes) {
        for block in &mut self.blocks {
            if let Some((part, literal)) = typed(message, &block.span, &block.members) {
                (block.part, block.literal) = (Some(part), literal);
            }
        }
    }

    /// The value of the only member with this key.
    pub(super) fn get(&self, message: &[u8], key: &str) -> Option<&Span> {
        span::member(message, &self.members, key)
    }
}

fn walk_blocks(message: &[u8], start: usize) -> (Vec<FoundBlock>, usize) {
    let mut all = Vec::new();
    let (spans, end) = span::elements(message, start, BLOCKS_MAX, |start| {
        let (members, end) = match message.get(start) {
            Some(b'{') => span::members(message, start, BLOCK_MEMBERS_MAX, |_, _| None),
            _ => (Vec::new(), span::skip_value(message, start)),
        };
        if all.len() <= BLOCKS_MAX {
            all.push(members);
        }
        Some(end)
    });
    let found =
        spans.into_iter().zip(all).map(|(span, members)| FoundBlock { span, members, part: None, literal: 0..0 });
    (found.collect(), end)
}

/// The parts of the blocks in the array `content`, made when they are asked for; `None` for a block of no known type.
pub(super) fn parts_of(message: &Bytes, content: &Span) -> impl Iterator<Item = Option<Part>> {
    span::each_element(message, content.start).map(|block| {
        let members = members_of(message, &block)?;
        typed(message, &block, &members).map(|(part, _)| part)
    })
}

/// The members of a block or a resource; `None` for a value that is not an object.
fn members_of(message: &[u8], object: &Span) -> Option<Vec<Member>> {
    let is_object = message.get(object.start) == Some(&b'{');
    is_object.then(|| span::members(message, object.start, BLOCK_MEMBERS_MAX, |_, _| None).0)
}

/// The part of a block of a known type, and its literal. `None` when the block is of another type, malformed, or has
/// members that the part would hide from a policy.
fn typed(message: &Bytes, block: &Span, members: &[Member]) -> Option<(Part, Span)> {
    let get = |name| span::member(message, members, name);
    let text = |value: Option<&Span>| value.and_then(|value| span::string(message, value)).map(String::from);
    let limited = |value: &Span| {
        let literal = span::literal(message, value)?;
        (block.len().checked_sub(literal.len())? <= BLOCK_EXTRA_BYTES_MAX).then_some(literal)
    };
    if members.len() > BLOCK_MEMBERS_MAX {
        return None;
    }
    let is_plain = |names: &[&str]| members.iter().all(|member| is_plain(message, member, names));
    match span::string(message, get("type")?)?.as_ref() {
        "text" if is_plain(&["type", "text"]) => text_part(message, limited(get("text")?)?),
        "image" | "audio" if is_plain(&["type", "data", "mimeType"]) => {
            let (mut part, literal) = base64_part(message, limited(get("data")?)?)?;
            part.media_type = text(get("mimeType"));
            Some((part, literal))
        }
        "resource" if is_plain(&["type", "resource"]) => {
            let resource = get("resource")?;
            let members = members_of(message, resource)?;
            let names = ["uri", "mimeType", "text", "blob"];
            if members.len() > BLOCK_MEMBERS_MAX
                || !members.iter().all(|member| self::is_plain(message, member, &names))
            {
                return None;
            }
            let get = |name| span::member(message, &members, name);
            let (mut part, literal) = match (get("text"), get("blob")) {
                (Some(value), None) => text_part(message, limited(value)?)?,
                (None, Some(value)) => base64_part(message, limited(value)?)?,
                _ => return None,
            };
            part.media_type = text(get("mimeType"));
            part.name = text(get("uri"));
            Some((part, literal))
        }
        _ => None,
    }
}

/// Whether a member of a block has one of these names, or holds nothing that a policy must see.
fn is_plain(message: &[u8], member: &Member, names: &[&str]) -> bool {
    let value = || message.get(member.value.clone()).unwrap_or_default();
    match span::string(message, &member.key).as_deref() {
        Some("mimeType") if names.contains(&"mimeType") => {
            value() == b"null" || span::string(message, &member.value).is_some_and(|text| is_media_type(&text))
        }
        Some("annotations") => is_plain_annotations(message, &member.value),
        Some("_meta") => matches!(value(), b"null" | b"{}"),
        Some(name) => names.contains(&name),
        None => false,
    }
}

/// Whether annotations have only the members of the protocol: audience, priority, time of the last change.
fn is_plain_annotations(message: &[u8], annotations: &Span) -> bool {
    let is_plain = |member: &Member| {
        let value = message.get(member.value.clone()).unwrap_or_default();
        match span::string(message, &member.key).as_deref() {
            Some("audience") => is_audience(message, &member.value),
            Some("priority") => {
                value.len() <= PRIORITY_BYTES_MAX && value.iter().all(|byte| b"0123456789.".contains(byte))
            }
            Some("lastModified") => is_time(value),
            _ => false,
        }
    };
    match message.get(annotations.start) {
        Some(b'{') => {
            let (members, _) = span::members(message, annotations.start, ANNOTATIONS_MAX, |_, _| None);
            members.len() <= ANNOTATIONS_MAX && members.iter().all(is_plain)
        }
        _ => message.get(annotations.clone()) == Some(b"null"),
    }
}

fn is_audience(message: &[u8], roles: &Span) -> bool {
    if message.get(roles.start) != Some(&b'[') {
        return false;
    }
    let (elements, _) = span::elements(message, roles.start, ROLES_MAX, |_| None);
    let is_role = |role: &Span| matches!(message.get(role.clone()), Some(br#""user""# | br#""assistant""#));
    elements.len() <= ROLES_MAX && elements.iter().all(is_role)
}

/// Whether a JSON string is a time in the format of RFC 3339, so that it cannot carry other data.
fn is_time(json: &[u8]) -> bool {
    let is_known = |byte: &u8| byte.is_ascii_digit() || b"\"-+:.TZ".contains(byte);
    json.len() <= TIME_BYTES_MAX && json.get(11).is_some_and(|byte| *byte == b'T') && json.iter().all(is_known)
}

/// Whether a text has only the characters of media types.
fn is_media_type(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/+.-_;= ".contains(&byte))
}

fn text_part(message: &Bytes, literal: Span) -> Option<(Part, Span)> {
    let part = Part::checked_json_string(PartKind::Text, message.slice(literal.clone())).ok()?;
    Some((part, literal))
}

fn base64_part(message: &Bytes, literal: Span) -> Option<(Part, Span)> {
    let escaped = message.slice(literal.clone());
    let plain = if !escaped.contains(&b'\\') {
        escaped
    } else if literal.len() <= ESCAPED_BASE64_BYTES_MAX {
        Bytes::from(span::string(message, &(literal.start - 1..literal.end + 1))?.into_owned())
    } else {
        return None;
    };
    Some((Part::base64(plain).ok()?, literal))
}

/// The literals of the parts, in order.
pub(super) fn literals(outer: &Object) -> Vec<Span> {
    let inner = outer.result.iter().flat_map(|result| &result.blocks);
    let literals = outer.blocks.iter().chain(inner).map(|block| block.literal.clone());
    let mut literals: Vec<Span> = literals.filter(|literal| !literal.is_empty()).collect();
    literals.sort_by_key(|literal| literal.start);
    literals
}

/// Validates the whole message except the literals that are already valid: without their content, the message is JSON
/// exactly when it was before.
pub(super) fn validate(text: &str, literals: &[Span]) -> Result<(), ParseError> {
    let mut validator = Validator::new();
    let mut at = 0;
    for literal in literals.iter().chain([&(text.len()..text.len())]) {
        let slice = text.get(at..literal.start).unwrap_or_default();
        validator.push(slice).map_err(|error| syntax(error, literals))?;
        at = literal.end;
    }
    validator.finish().map_err(|error| syntax(error, literals))
}

/// The error with its offset in the message, from which the `removed` spans were left out, in order.
fn syntax(mut error: SyntaxError, removed: &[Span]) -> ParseError {
    for span in removed {
        if error.offset > span.start as u64 {
            error.offset += span.len() as u64;
        }
    }
    ParseError::Syntax(error)
}
