//! Tool results by audience, the proposal SEP-3279, "Negotiated Tool Result Variants", as of 2026-08-19: a client names the
//! outputs that it wants of a call, and gets them in place of `content` and `structuredContent`.
//!
//! Here the outputs of the audience `assistant` are what the policy makes of a result, and those of `user` and `programmatic`
//! the whole result.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;

use super::message::{INTERNAL_ERROR, Message, error_response};
use super::span::{self, Span};
use super::text::text_block;

/// The revision in which tool results have outputs.
pub const OUTPUTS_REVISION: &str = "2026-12-01";

/// The revision before it. Its messages differ in nothing else that the proposal names.
pub const REVISION_BEFORE_OUTPUTS: &str = "2026-07-28";

/// Who an output is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The model.
    Assistant,
    /// People, without the model.
    User,
    /// Programs of the client.
    Programmatic,
}

/// The form of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// A list of content blocks.
    Content,
    /// A JSON value.
    Structured,
}

/// One output of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// Who it is for.
    pub audience: Audience,
    /// Its form.
    pub format: OutputFormat,
}

const AUDIENCES: [(&str, Audience); 3] =
    [("assistant", Audience::Assistant), ("user", Audience::User), ("programmatic", Audience::Programmatic)];

const FORMATS: [(&str, OutputFormat); 2] =
    [("content", OutputFormat::Content), ("structured", OutputFormat::Structured)];

impl Output {
    /// What a client gets that names no output, and what every tool has.
    pub const FALLBACK: Self = Self { audience: Audience::Assistant, format: OutputFormat::Content };

    /// The outputs that a tool may have, in the order in which it lists them.
    const ALL: [Self; 5] = [
        Self::FALLBACK,
        Self { audience: Audience::Assistant, format: OutputFormat::Structured },
        Self { audience: Audience::User, format: OutputFormat::Content },
        Self { audience: Audience::User, format: OutputFormat::Structured },
        Self { audience: Audience::Programmatic, format: OutputFormat::Structured },
    ];

    fn names(self) -> (&'static str, &'static str) {
        let audience = AUDIENCES.iter().find(|(_, audience)| *audience == self.audience);
        let format = FORMATS.iter().find(|(_, format)| *format == self.format);
        (audience.map_or("", |(name, _)| name), format.map_or("", |(name, _)| name))
    }
}

/// `audience/format`.
impl fmt::Display for Output {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (audience, format) = self.names();
        write!(formatter, "{audience}/{format}")
    }
}

/// Why the outputs that a call names cannot be given.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputsError {
    /// Not a list of objects with two texts.
    #[error("requestedOutputs is not a list of objects with `audience` and `format`: {0}")]
    Syntax(#[from] serde_json::Error),
    /// No output.
    #[error("requestedOutputs is empty: name an output, or leave it out for {fallback}", fallback = Output::FALLBACK)]
    Empty,
    /// The same output more than once.
    #[error("requestedOutputs names {0} more than once")]
    Twice(Output),
    /// A pair that the proposal does not have, or the audience of an extension.
    #[error("no tool here has the output {audience}/{format}: use {all}", all = all_outputs())]
    Unknown {
        /// Its audience.
        audience: String,
        /// Its format.
        format: String,
    },
}

fn all_outputs() -> String {
    Output::ALL.map(|output| output.to_string()).join(", ")
}

/// An output as a client names it.
#[derive(Deserialize)]
struct Selector {
    audience: String,
    format: String,
}

impl TryFrom<Selector> for Output {
    type Error = OutputsError;

    fn try_from(Selector { audience, format }: Selector) -> Result<Self, OutputsError> {
        let known = Self::ALL.into_iter().find(|output| output.names() == (audience.as_str(), format.as_str()));
        known.ok_or(OutputsError::Unknown { audience, format })
    }
}

/// The outputs that a client wants of a call: at least one, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedOutputs(Vec<Output>);

impl Default for RequestedOutputs {
    fn default() -> Self {
        Self(vec![Output::FALLBACK])
    }
}

impl RequestedOutputs {
    /// Reads the parameter `requestedOutputs` of a call.
    ///
    /// # Errors
    /// [`OutputsError`] if it is not as the proposal says.
    pub fn read(json: &[u8]) -> Result<Self, OutputsError> {
        let selectors: Vec<Selector> = serde_json::from_slice(json)?;
        let mut outputs = Vec::with_capacity(selectors.len().min(Output::ALL.len()));
        for selector in selectors {
            let output = Output::try_from(selector)?;
            if outputs.contains(&output) {
                return Err(OutputsError::Twice(output));
            }
            outputs.push(output);
        }
        if outputs.is_empty() { Err(OutputsError::Empty) } else { Ok(Self(outputs)) }
    }

    /// Whether the client wants what it would get without naming an output.
    pub fn is_fallback(&self) -> bool {
        self.0 == [Output::FALLBACK]
    }

    /// Whether one is for the model.
    pub fn has_assistant(&self) -> bool {
        self.0.iter().any(|output| output.audience == Audience::Assistant)
    }

    /// Whether one is the whole result.
    pub fn has_whole(&self) -> bool {
        self.0.iter().any(|output| output.audience != Audience::Assistant)
    }

    /// The first structured output.
    pub fn structured(&self) -> Option<Output> {
        self.0.iter().copied().find(|output| output.format == OutputFormat::Structured)
    }

    /// The response with its outputs in the place of `content` and `structuredContent`. `whole` is the whole result, a JSON
    /// object, or why there is none; without it, the response has the whole result. A response without a complete result stays
    /// as it is.
    ///
    /// If an output cannot be given, the result is an error with those that can be, and says why; without any of them, the
    /// response is a JSON-RPC error.
    pub fn of_response(&self, response: &Bytes, whole: Option<Result<&Bytes, &str>>) -> Bytes {
        let message = Message::read(response.clone());
        let Some(result) = message.result() else { return response.clone() };
        match self.of_result(&result, whole.unwrap_or(Ok(&result))) {
            Ok(result) => message.with_bytes(&["result"], &result),
            Err(reason) => error_response(message.id().as_ref(), INTERNAL_ERROR, &reason),
        }
    }

    /// As [`Self::of_response`], for a result alone.
    ///
    /// # Errors
    /// Why there is no output.
    pub fn of_result(&self, result: &Bytes, whole: Result<&Bytes, &str>) -> Result<Bytes, String> {
        let assistant = Halves::of(result);
        if !assistant.is_complete() {
            return Ok(result.clone());
        }
        let of_whole = whole.map(Halves::of);
        let (mut given, mut missing) = (Vec::new(), Vec::new());
        for output in &self.0 {
            let found = match (output.audience, &of_whole) {
                (Audience::Assistant, _) => assistant.value(output.format),
                (_, Ok(whole)) => whole.value(output.format),
                (_, Err(reason)) => Err(*reason),
            };
            match found {
                Ok(value) => given.push((*output, value)),
                Err(reason) => missing.push(format!("no output {output}: {reason}")),
            }
        }
        let reasons = missing.join("; ");
        let main = of_whole.as_ref().ok().filter(|_| !self.has_assistant()).unwrap_or(&assistant);
        if given.is_empty() {
            return Err(main.error_text().unwrap_or(reasons));
        }
        // A result that is an error already may lack outputs.
        let note = Some(text_block(&reasons)).filter(|_| !missing.is_empty() && !main.is_error);
        let outputs: Vec<String> = given.iter().map(|(output, value)| shown(*output, value, note.as_deref())).collect();
        Ok(main.with_outputs(&format!("[{}]", outputs.join(",")), note.is_some()))
    }
}

/// An output as JSON, with a content block at its end.
fn shown(output: Output, value: &[u8], note: Option<&str>) -> String {
    let (audience, format) = output.names();
    let value = String::from_utf8_lossy(value);
    let (member, value) = match (output.format, note, value.strip_suffix(']')) {
        (OutputFormat::Content, Some(note), Some(blocks)) => {
            let comma = if blocks.trim_end().ends_with('[') { "" } else { "," };
            ("content", format!("{blocks}{comma}{note}]").into())
        }
        (OutputFormat::Content, ..) => ("content", value),
        (OutputFormat::Structured, ..) => ("structuredContent", value),
    };
    format!(r#"{{"audience":"{audience}","format":"{format}","{member}":{value}}}"#)
}

/// The two halves of a tool result up to revision 2026-07-28.
struct Halves<'a> {
    result: &'a Bytes,
    content: Option<Span>,
    structured: Option<Span>,
    is_error: bool,
}

impl<'a> Halves<'a> {
    fn of(result: &'a Bytes) -> Self {
        let member = |name| span::child(result, &(0..result.len()), name);
        let content = member("content").filter(|content| result.get(content.start) == Some(&b'['));
        let structured = member("structuredContent").filter(|value| result.get(value.clone()) != Some(b"null"));
        let is_error = member("isError").is_some_and(|value| result.get(value) == Some(b"true"));
        Self { result, content, structured, is_error }
    }

    /// Whether it is not the acknowledgment of a task, nor a request for input.
    fn is_complete(&self) -> bool {
        let kind = span::child(self.result, &(0..self.result.len()), "resultType");
        kind.is_none_or(|kind| self.result.get(kind) == Some(br#""complete""#))
    }

    fn value(&self, format: OutputFormat) -> Result<&'a [u8], &'static str> {
        let (span, reason) = match format {
            OutputFormat::Content => (&self.content, "the result has no content"),
            OutputFormat::Structured => (&self.structured, "the result has no structured content"),
        };
        span.clone().and_then(|span| self.result.get(span)).ok_or(reason)
    }

    /// The texts of a result that is an error.
    fn error_text(&self) -> Option<String> {
        let list = self.content.clone().filter(|_| self.is_error)?;
        let texts = span::each_element(self.result, list.start).filter_map(|block| {
            span::string(self.result, &span::child(self.result, &block, "text")?).map(Cow::into_owned)
        });
        Some(texts.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty())
    }

    /// The result with outputs in place of both halves, as an error if it has become one.
    fn with_outputs(&self, outputs: &str, becomes_error: bool) -> Bytes {
        let (members, _) = span::members(self.result, 0, usize::MAX, |_, _| None);
        let text = |span: &Span| self.result.get(span.clone()).unwrap_or_default();
        let is_replaced = |name: &str| {
            ["content", "structuredContent", "outputs"].contains(&name) || (becomes_error && name == "isError")
        };
        let kept = members
            .iter()
            .filter(|member| span::string(self.result, &member.key).is_some_and(|name| !is_replaced(&name)))
            .map(|member| [text(&member.key), b":", text(&member.value)].concat());
        let error = becomes_error.then(|| br#""isError":true"#.to_vec());
        let outputs = format!(r#""outputs":{outputs}"#).into_bytes();
        let members: Vec<Vec<u8>> = kept.chain([outputs]).chain(error).collect();
        [b"{", members.join(&b","[..]).as_slice(), b"}"].concat().into()
    }
}

/// The member `outputVariants` of a tool, as JSON: what its results have for each audience. `shown` is the schema of its
/// structured content for a model, if that gets any, and `whole` that of the server.
pub(super) fn declaration(shown: Option<&[u8]>, whole: Option<&[u8]>) -> String {
    let variants = Output::ALL.iter().filter_map(|output| {
        let (audience, format) = output.names();
        let schema = match (output.format, output.audience) {
            (OutputFormat::Content, _) => String::new(),
            (OutputFormat::Structured, Audience::Assistant) => {
                format!(r#","schema":{}"#, String::from_utf8_lossy(shown?))
            }
            (OutputFormat::Structured, _) => format!(r#","schema":{}"#, String::from_utf8_lossy(whole?)),
        };
        Some(format!(r#"{{"audience":"{audience}","format":"{format}"{schema}}}"#))
    });
    format!("[{}]", variants.collect::<Vec<_>>().join(","))
}
