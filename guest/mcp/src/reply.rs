//! The message for the client: the original bytes with a descriptor or an advice in place of data.

use bytes::Bytes;
use lro_payload::{Size, SizeUnit};

use super::message::Message;
use super::result::{Role, ToolResult};
use super::span::{self, Span};
use super::text::text_block;

/// Longest value of `resultType`, in bytes, that a cut or rejected result keeps.
const RESULT_TYPE_BYTES_MAX: usize = 64;

/// Bytes of a message that are measured before the size is compared with the limit.
const MEASURED_BYTES: usize = 64 << 10;

/// The replacement of the parts that were written to files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Replacement<'a> {
    /// A JSON object.
    pub descriptor: &'a str,
    /// For each part, whether it stays in the reply; a missing entry means no.
    pub kept: &'a [bool],
    /// Structured content as JSON, instead of the descriptor.
    pub structured: Option<&'a [u8]>,
    /// Whether to add structured content to a result without it.
    pub always_structured: bool,
    /// Content blocks to append, as JSON.
    pub more_blocks: &'a [String],
}

/// Size of a message as sent on the wire, in a unit. JSON escapes count: two characters for each `\"`.
pub fn wire_size(message: &str, unit: SizeUnit) -> u64 {
    let mut measure = lro_jsonl::Measure::text();
    measure.push(message);
    in_unit(&measure, unit)
}

/// Whether a message exceeds a limit: the last check before it is sent. A message never has more units than bytes, so
/// most messages need no measuring.
pub fn exceeds(message: &[u8], limit: Size) -> bool {
    size_beyond(message, limit).is_some()
}

/// The size of a message that exceeds a limit. It is measured until it does; the rest is extrapolated.
pub fn size_beyond(message: &[u8], limit: Size) -> Option<u64> {
    if message.len() as u64 <= limit.amount {
        return None;
    }
    let (text, mut measure, mut at) = (String::from_utf8_lossy(message), lro_jsonl::Measure::text(), 0);
    while at < text.len() {
        let end = text.ceil_char_boundary(at + MEASURED_BYTES);
        measure.push(text.get(at..end).unwrap_or_default());
        at = end;
        let size = in_unit(&measure, limit.unit);
        if size > limit.amount {
            let whole = u128::from(size) * text.len() as u128 / at as u128;
            return Some(u64::try_from(whole).unwrap_or(u64::MAX));
        }
    }
    None
}

/// The text of a response with a tool result: the message without the data of images and sounds, and without `unseen`, one of
/// `content` and `structuredContent`, if the result has both.
pub fn text_of_response(response: &Bytes, unseen: Option<&str>) -> Bytes {
    let result = Message::read(response.clone()).find(&["result"]);
    let skipped = result.map(|result| not_text(response, &result, unseen)).unwrap_or_default();
    if skipped.is_empty() {
        return response.clone();
    }
    let (mut text, mut from) = (Vec::new(), 0);
    let mut push = |span: Span| text.extend_from_slice(response.get(span).unwrap_or_default());
    for span in skipped {
        push(from..span.start);
        from = span.end;
    }
    push(from..response.len());
    text.into()
}

/// The lines of all text blocks of a response with a tool result, and one more for each block but the first, as clients join
/// them with an empty line.
pub fn lines_of_response(response: &Bytes) -> u64 {
    let result = Message::read(response.clone()).find(&["result"]);
    let content = result.and_then(|result| span::child(response, &result, "content"));
    let texts = blocks(response, content).into_iter().filter_map(|block| span::child(response, &block, "text"));
    let lines = |text: &str| text.bytes().filter(|byte| *byte == b'\n').count() as u64 + 2;
    let all: u64 = texts.filter_map(|text| span::string(response, &text)).map(|text| lines(&text)).sum();
    all.saturating_sub(1)
}

/// What does not count as text of a result, in order.
fn not_text(response: &[u8], result: &Span, unseen: Option<&str>) -> Vec<Span> {
    let is_there = |value: &Span| response.get(value.clone()) != Some(b"null");
    let half = |name: &str| span::child(response, result, name).filter(is_there);
    let (content, structured) = (half("content"), half("structuredContent"));
    let has_both = content.is_some() && structured.is_some();
    let unseen = unseen.filter(|_| has_both).and_then(half);
    let content = content.filter(|content| Some(content) != unseen.as_ref());
    let is_media = |block: &Span| {
        let kind = span::child(response, block, "type").and_then(|kind| span::string(response, &kind));
        kind.is_some_and(|kind| kind == "image" || kind == "audio")
    };
    let media = blocks(response, content).into_iter().filter(is_media);
    let mut found: Vec<Span> = media.filter_map(|block| span::child(response, &block, "data")).chain(unseen).collect();
    found.sort_by_key(|span| span.start);
    found
}

/// The blocks of `content`; empty unless `content` is a list.
fn blocks(response: &[u8], content: Option<Span>) -> Vec<Span> {
    let list = content.filter(|content| response.get(content.start) == Some(&b'['));
    list.map(|list| span::each_element(response, list.start).collect()).unwrap_or_default()
}

pub(super) fn in_unit(measure: &lro_jsonl::Measure, unit: SizeUnit) -> u64 {
    match unit {
        SizeUnit::Bytes => measure.bytes(),
        SizeUnit::Characters => measure.characters(),
        SizeUnit::Tokens => measure.tokens(),
    }
}

impl ToolResult {
    /// The message as it came.
    pub fn pass(&self) -> Bytes {
        self.message.clone()
    }

    /// The message with a descriptor, a JSON object, in place of every part that is not kept.
    ///
    /// Kept blocks stay unchanged and in order; one text block with the descriptor replaces the first missing block, or
    /// comes last. Structured content is replaced unless kept; metadata, a cursor and members outside the protocol are
    /// dropped unless kept; every other member stays.
    pub fn offloaded(&self, replacement: &Replacement<'_>) -> Vec<u8> {
        let Replacement { descriptor, kept, structured, always_structured, .. } = *replacement;
        let is_kept = |part: usize| kept.get(part).copied().unwrap_or_default();
        let keeps_others = self.others.is_some_and(is_kept);
        let structured = structured.unwrap_or(descriptor.as_bytes());
        let content = self.content_with(replacement, is_kept);
        let mut members = Vec::with_capacity(self.members.len() + 2);
        let mut has_structured = false;
        for (role, member) in &self.members {
            let value = self.at(&member.value);
            let value = match role {
                Role::Content => content.as_slice(),
                Role::Structured => {
                    has_structured = true;
                    let keep = self.structured.map_or(!always_structured, is_kept);
                    if keep { value } else { structured }
                }
                Role::Meta if !self.meta.is_some_and(is_kept) => continue,
                Role::Other if !keeps_others => continue,
                Role::Cursor if self.cursor.is_some_and(|cursor| !is_kept(cursor)) => continue,
                _ => value,
            };
            members.push((self.at(&member.key), value));
        }
        if !self.members.iter().any(|(role, _)| *role == Role::Content) {
            members.push((b"\"content\"", &content));
        }
        if always_structured && !has_structured {
            members.push((b"\"structuredContent\"", structured));
        }
        if keeps_others { self.between(self.envelope(), &members) } else { self.message_with(&members) }
    }

    /// The message with an advice in place of the whole result, as a tool error.
    pub fn rejected(&self, advice: &str) -> Vec<u8> {
        let content = [b"[", text_block(advice).as_bytes(), b"]"].concat();
        let mut members = self.result_type();
        members.push((b"\"content\"", &content));
        members.push((b"\"isError\"", b"true"));
        self.message_with(&members)
    }

    /// The member `resultType`, which newer revisions require, unless it is longer than [`RESULT_TYPE_BYTES_MAX`].
    pub(super) fn result_type(&self) -> Vec<(&[u8], &[u8])> {
        let found = self.members.iter().filter(|(role, _)| *role == Role::ResultType);
        let members = found.map(|(_, member)| (self.at(&member.key), self.at(&member.value)));
        members.filter(|(_, value)| value.len() <= RESULT_TYPE_BYTES_MAX).collect()
    }

    /// The message with these members, keys quoted, as the result object, and no members outside the protocol around
    /// it.
    pub(super) fn message_with(&self, members: &[(&[u8], &[u8])]) -> Vec<u8> {
        self.between(self.reply_envelope(), members)
    }

    fn between(&self, (before, after): (&[u8], &[u8]), members: &[(&[u8], &[u8])]) -> Vec<u8> {
        let size = members.iter().map(|(key, value)| key.len() + value.len() + 2).sum::<usize>();
        let mut message = Vec::with_capacity(before.len() + size + 2 + after.len());
        message.extend_from_slice(before);
        message.push(b'{');
        for (index, (key, value)) in members.iter().enumerate() {
            if index > 0 {
                message.push(b',');
            }
            message.extend_from_slice(key);
            message.push(b':');
            message.extend_from_slice(value);
        }
        message.push(b'}');
        message.extend_from_slice(after);
        message
    }

    /// The text around the result object of a reply.
    pub(super) fn reply_envelope(&self) -> (&[u8], &[u8]) {
        self.plain_envelope.as_ref().map_or_else(|| self.envelope(), |before| (before.as_slice(), b"}"))
    }

    /// The text around the result object.
    fn envelope(&self) -> (&[u8], &[u8]) {
        let before = self.message.get(..self.result.start).unwrap_or_default();
        (before, self.message.get(self.result.end..).unwrap_or_default())
    }

    pub(super) fn at(&self, span: &Span) -> &[u8] {
        self.message.get(span.clone()).unwrap_or_default()
    }

    fn content_with(&self, replacement: &Replacement<'_>, is_kept: impl Fn(usize) -> bool) -> Vec<u8> {
        let descriptor = text_block(replacement.descriptor);
        let mut blocks = Vec::with_capacity(self.blocks.len() + 1 + replacement.more_blocks.len());
        let mut has_descriptor = false;
        for block in &self.blocks {
            // A copy of the structured content is kept or replaced with it.
            if block.part.or(self.structured).is_some_and(&is_kept) {
                blocks.push(self.at(&block.span));
            } else if !has_descriptor {
                blocks.push(descriptor.as_bytes());
                has_descriptor = true;
            }
        }
        if !has_descriptor {
            blocks.push(descriptor.as_bytes());
        }
        blocks.extend(replacement.more_blocks.iter().map(String::as_bytes));
        [b"[", blocks.join(&b","[..]).as_slice(), b"]"].concat()
    }
}
