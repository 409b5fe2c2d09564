//! The tools `lro_extract` and `lro_read`, with which models read offloads: definitions, arguments, and texts of results.
//!
//! An error that the model can mend by calling again is a tool error that says how. An unknown tool is a protocol error.

mod arguments;
mod definitions;
mod search;
mod sql;

use std::borrow::Cow;

use lro_contract::manifest::{FileKind, OffloadRecord};
use lro_contract::query::QueryError;
use lro_contract::ulid::Ulid;
use lro_mcp::{text_block, tool_error};
use serde_json::json;
use serde_json::value::to_raw_value;

pub use self::arguments::{
    Asked, ExtractArguments, ReadArguments, Recipe, check_names_with_file, extract, question, read,
};
pub use self::definitions::{definitions, guidance, question_schema};
pub use self::sql::TableArguments;
use crate::{
    Answer, CursorError, Cut, Growth, LineRange, Page, PageContent, Pattern, Question, QuestionError, Search, Start,
};

/// Name of the tool that answers questions.
pub const EXTRACT_TOOL: &str = "lro_extract";
/// Name of the tool that returns pages.
pub const READ_TOOL: &str = "lro_read";

/// Whether a tool of this name reads offloads: [`EXTRACT_TOOL`] or [`READ_TOOL`].
pub fn reads_offloads(name: &str) -> bool {
    [EXTRACT_TOOL, READ_TOOL].contains(&name)
}

/// Maximum size in bytes of a page that the tool returns; larger values are lowered to it. Even with escapes, such a
/// page stays below the 500,000 characters from which on Claude Code withholds a result from its model.
pub const PAGE_BYTES_MAX: u32 = 200_000;

/// Maximum number of characters of the text of an error: an argument that it quotes may have any length.
const ERROR_CHARACTERS_MAX: usize = 4_000;

/// JSON-RPC error code "invalid params".
pub const INVALID_PARAMS: i32 = -32602;

/// JSON-RPC error code "resource not found", in revisions up to 2025-11-25.
pub const RESOURCE_NOT_FOUND: i32 = -32002;

/// A protocol error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProtocolError {
    /// The JSON-RPC code.
    pub code: i32,
    /// What is wrong.
    pub message: String,
}

impl ProtocolError {
    /// The error for a resource that does not exist. The code depends on the revision: `modern` from 2026-07-28 on.
    pub fn missing_resource(message: String, modern: bool) -> Self {
        Self { code: if modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND }, message }
    }
}

/// A failed call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An error of the tool, with this text for the model.
    Tool(String),
    /// A protocol error with this message.
    Protocol(String),
}

impl Failure {
    /// The answer to the call: the result of a tool, or a protocol error.
    ///
    /// # Errors
    /// Protocol errors.
    pub fn answer(self) -> Result<String, ProtocolError> {
        match self {
            Self::Tool(text) => Ok(tool_error(&both_ends(&text))),
            Self::Protocol(message) => Err(ProtocolError { code: INVALID_PARAMS, message }),
        }
    }

    /// The failure of a call of an unknown tool.
    pub fn unknown_tool(tool: &str) -> Self {
        Self::Protocol(format!("there is no tool `{tool}`"))
    }

    /// Its text.
    pub fn message(self) -> String {
        match self {
            Self::Tool(message) | Self::Protocol(message) => message,
        }
    }
}

/// The error about an offload that is not there, or not for who asks.
pub fn missing_offload(id: Ulid) -> String {
    format!("there is no offload {id} of this tenant: call the tool again that made it")
}

/// The error about an offload that has expired.
pub fn expired_offload(id: Ulid) -> String {
    format!("the offload {id} has expired: call the tool again that made it")
}

/// A text with its middle cut out, if it is longer than [`ERROR_CHARACTERS_MAX`]: errors quote what they were given at the
/// beginning, and end with the way out.
fn both_ends(text: &str) -> Cow<'_, str> {
    const HALF: usize = ERROR_CHARACTERS_MAX / 2;
    let (beginning, end) = (text.char_indices().nth(HALF), text.char_indices().nth_back(HALF - 1));
    match (beginning, end) {
        (Some((beginning, _)), Some((end, _))) if beginning < end => {
            let (beginning, end) = (text.get(..beginning), text.get(end..));
            Cow::Owned([beginning.unwrap_or_default(), " … ", end.unwrap_or_default()].concat())
        }
        _ => Cow::Borrowed(text),
    }
}

impl From<QuestionError> for Failure {
    fn from(error: QuestionError) -> Self {
        Self::Tool(error.to_string())
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Self::Tool(format!("invalid arguments: {error}"))
    }
}

/// The file of an offload with one section.
///
/// # Errors
/// The sections to choose from, for the model.
pub fn only_file(offload: &OffloadRecord) -> Result<String, Failure> {
    offload.only_file().map(|file| file.name.clone()).map_err(|sections| {
        let names: Vec<String> = sections.iter().map(|section| format!("`{section}`")).collect();
        Failure::Tool(format!("the offload has several sections: name one of {}", names.join(", ")))
    })
}

/// A tool result: the text for the model, and the structured content as JSON.
pub fn result_of(text: &str, json: &str) -> String {
    format!(r#"{{"content":[{}],"structuredContent":{json}}}"#, text_block(text))
}

/// What to do about a cursor that is not accepted.
pub fn cursor_advice(error: CursorError, asked: &ReadArguments) -> String {
    let again = asked.call("from", json!(0));
    format!("{error}. Pass `next` of the page before with the same `handle` and `section`, or begin again: {again}")
}

/// The result of a tool with a page.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn page_result(page: &Page, asked: &ReadArguments) -> Result<String, Failure> {
    let json = serialized(page)?;
    Ok(result_of(&page_text(page, asked).unwrap_or_else(|| json.clone()), &json))
}

/// A page of text as it is, with a last line that says where it goes on; `None` for records, which are JSON.
fn page_text(page: &Page, asked: &ReadArguments) -> Option<String> {
    let (text, place, end) = match &page.content {
        PageContent::Records(lines) if page.kind == FileKind::Text => {
            let end = page.first + lines.len() as u64;
            let place = format!("lines {} to {} of {}", page.first, end.saturating_sub(1), page.total);
            (lines.join("\n"), place, Some(end))
        }
        PageContent::Text(part) => {
            let last = (part.offset + part.bytes).saturating_sub(1);
            let bytes = format!("bytes {} to {last} of {}", part.offset, part.record_bytes);
            let is_one_of_many = page.total > 1;
            let place = if is_one_of_many { format!("line {} of {}, {bytes}", page.first, page.total) } else { bytes };
            (part.data.clone(), place, None)
        }
        PageContent::Records(_) | PageContent::Base64(_) => return None,
    };
    let place = match page.next {
        // The beginning of a long text.
        Some(_) if page.first == 0 => format!("{place}; to find something: {}", asked.search_call()),
        _ => place,
    };
    let next = match (&page.next, end) {
        (None, _) => "the end".to_owned(),
        (Some(_), Some(end)) if !matches!(asked.start, Start::Cursor(_)) => asked.call("from", json!(end)),
        (Some(cursor), _) => asked.call("cursor", json!(cursor)),
    };
    Some(format!("{text}\n[{place}; next: {next}]"))
}

fn serialized(value: &impl serde::Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| Failure::Tool(error.to_string()))
}

/// The offload with this handle.
///
/// # Errors
/// When the text is not a handle, for the model.
pub fn id(handle: &str) -> Result<Ulid, Failure> {
    handle
        .parse()
        .map_err(|_| Failure::Tool(format!("`{handle}` is not a handle: pass the member `handle` of a descriptor")))
}

/// The answer to a question as JSON: it says when it is not about a whole section, and how to get the rest.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn answer_json(answer: &Answer, question: &Question, growth: Option<Growth>) -> Result<String, Failure> {
    let mut json = serialized(answer)?;
    let mut add = |members: String| {
        json.truncate(json.len() - 1);
        json.push_str(&members);
    };
    if let Some(advice) = advice(answer, question) {
        let advice = to_raw_value(&advice).map_err(|error| Failure::Tool(error.to_string()))?;
        add(format!(",\"advice\":{advice}}}"));
    }
    if let Some(growth) = growth {
        add(format!(",\"complete\":false,\"state\":{}}}", serialized(&growth)?));
    }
    Ok(json)
}

/// What to do about an answer that is empty, or not all there is.
fn advice(answer: &Answer, question: &Question) -> Option<String> {
    let left = answer.left();
    let next = match question {
        Question::Lines(range) => {
            let LineRange { first, last } = range.behind(answer);
            format!("\"lines\": [{first}, {last}]")
        }
        _ => format!("\"offset\": {}", answer.offset + answer.results),
    };
    let less = match question {
        Question::Search(_) => "show less context",
        Question::Lines(_) => "ask for fewer lines",
        Question::Query(_) | Question::Jq(_) => "select fewer fields",
    };
    match (answer.cut, question) {
        (Some(Cut::Limit), Question::Lines(_)) => Some(format!("{left} more: go on with {next}")),
        (Some(Cut::Limit), _) => Some(format!("{left} more: go on with {next}, or raise \"limit\"")),
        (Some(Cut::Budget(bytes)), _) if answer.results == 0 => {
            Some(format!("the next result alone has {bytes} bytes: {less}, or use {READ_TOOL}"))
        }
        (Some(Cut::Budget(_)), Question::Lines(_)) => Some(format!("{left} more did not fit: go on with {next}")),
        (Some(Cut::Budget(_)), Question::Search(_)) => {
            Some(format!("{left} more did not fit: go on with {next}, {less}, or count them"))
        }
        (Some(Cut::Budget(_)), _) => {
            Some(format!("{left} more did not fit: go on with {next}, {less}, or count or group them"))
        }
        (None, Question::Search(search)) if answer.total == 0 => Some(nothing_found(search)),
        (None, Question::Lines(_)) if answer.total == 0 => Some(format!("there are {} lines", answer.examined)),
        (None, _) => None,
    }
}

/// What to try after a search that found nothing.
fn nothing_found(search: &Search) -> String {
    if matches!(&search.pattern, Pattern::Literal(text) if text.trim().parse::<f64>().is_ok()) {
        return "nothing found: of records, a search reads the strings; find a number with \"where\"".to_owned();
    }
    match search.ignore_case || search.rank {
        true => "nothing found: try fewer or other words".to_owned(),
        false => "nothing found: try \"ignore_case\": true, \"words\": true or, in a text, \"rank\": true".to_owned(),
    }
}
