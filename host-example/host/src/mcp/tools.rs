//! The tools `lro_extract` and `lro_read`, which read offloads: definitions and calls.
//!
//! An error that the model can mend by calling again is a tool error that says how. An unknown tool is a protocol error.

mod arguments;
mod ask;
mod definitions;
mod search;
mod sql;

pub use ask::{ToolQuestion, question_schema};
pub use definitions::definitions;
use lro_mcp::{text_block, tool_error};
use serde_json::json;
use serde_json::value::to_raw_value;

use self::arguments::{Asked, ExtractArguments, ReadArguments};
use self::sql::TableArguments;
use crate::extract::{
    Answer, Budget, Cut, ExtractError, Extractor, LineRange, Query, QueryError, Question, Sql, Tables, stored_query,
};
use crate::job;
use crate::read::{CursorError, Page, PageContent, PageError, PageRequest, Pages, Start};
use crate::store::{FileKind, Growth, JobState, Offload, Store, StoreError, Ulid};

/// Name of the tool that answers questions.
pub const EXTRACT_TOOL: &str = "lro_extract";
/// Name of the tool that returns pages.
pub const READ_TOOL: &str = "lro_read";

/// Maximum size in bytes of a page that the tool returns; larger values are lowered to it. Even with escapes, such a
/// page stays below the 500,000 characters from which on Claude Code withholds a result from its model.
const PAGE_BYTES_MAX: u32 = 200_000;

/// JSON-RPC error code "invalid params".
pub const INVALID_PARAMS: i32 = -32602;

/// JSON-RPC error code "resource not found", in revisions up to 2025-11-25.
pub const RESOURCE_NOT_FOUND: i32 = -32002;

/// The tools for one store.
#[derive(Clone, Debug)]
pub struct Tools {
    store: Store,
    pages: Pages,
    extractor: Extractor,
    budget: Budget,
}

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
enum Failure {
    Tool(String),
    Protocol(String),
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Self::Tool(format!("invalid arguments: {error}"))
    }
}

impl Tools {
    /// Creates the tools. `budget` limits each answer. While the store cannot be used, each call returns an error.
    pub fn new(store: Store, extractor: Extractor, budget: Budget) -> Self {
        Self { pages: Pages::of(store.clone()), store, extractor, budget }
    }

    /// These tools with at most so many bytes of data in an answer, a page or a resource, for clients that accept no more.
    pub fn at_most(&self, bytes: u32) -> Self {
        let budget = Budget { bytes: self.budget.bytes.min(bytes), ..self.budget };
        Self { budget, pages: self.pages.at_most(bytes), ..self.clone() }
    }

    /// Most bytes of data in a page.
    pub fn page_bytes_max(&self) -> u32 {
        self.pages.bytes_max()
    }

    /// Calls a tool for a tenant; `arguments` is the JSON object of the call. Returns the tool result as JSON, which
    /// may be a tool error. Blocks.
    ///
    /// # Errors
    /// Protocol errors only.
    pub fn call(&self, tenant: &str, tool: &str, arguments: &str) -> Result<String, ProtocolError> {
        job::finish(self.call_async(tenant, tool, arguments))
    }

    /// As [`Tools::call`]. Blocks from the start, and yields once a tick.
    ///
    /// # Errors
    /// Protocol errors only.
    pub async fn call_async(&self, tenant: &str, tool: &str, arguments: &str) -> Result<String, ProtocolError> {
        let answered = match tool {
            EXTRACT_TOOL => self.extract(tenant, arguments).await,
            READ_TOOL => self.read(tenant, arguments),
            _ => Err(Failure::Protocol(format!("there is no tool `{tool}`"))),
        };
        match answered {
            Ok(result) => Ok(result),
            Err(Failure::Tool(text)) => Ok(tool_error(&text)),
            Err(Failure::Protocol(message)) => Err(ProtocolError { code: INVALID_PARAMS, message }),
        }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    async fn extract(&self, tenant: &str, arguments: &str) -> Result<String, Failure> {
        let (handle, section, asked) = match arguments::extract(arguments)? {
            ExtractArguments::Tables { sql, from } => return self.sql(tenant, &sql, from).await,
            ExtractArguments::One { handle, section, asked } => (handle, section, asked),
        };
        let offload = self.find(tenant, &handle)?;
        let json = self.answer_about(tenant, &offload, section, asked).await?;
        Ok(result_of(&json, &json))
    }

    /// The answer to a question about an offload, as JSON.
    async fn answer_about(
        &self,
        tenant: &str,
        offload: &Offload,
        section: Option<String>,
        asked: Asked,
    ) -> Result<String, Failure> {
        let (section, question) = match asked {
            Asked::Question(question) => (section, question),
            Asked::Sql(sql) => {
                return self
                    .answer_sql(tenant, &sql, &[Tables { offload: offload.clone(), section, name: None }])
                    .await;
            }
            Asked::Recipe { name, parameters, offset, limit } => {
                let (file, query) =
                    stored_query(offload, &name, &parameters).map_err(|error| extract_failure(tenant, &error))?;
                let (offset, limit) = (offset.unwrap_or(query.offset), limit.or(query.limit));
                (Some(file.to_owned()), Question::Query(Query { offset, limit, ..query }))
            }
        };
        let answer = self.extractor.answer(offload, section.as_deref(), &question, self.budget).await;
        let json = answer_json(&answer.map_err(|error| extract_failure(tenant, &error))?, &question)?;
        Ok(with_growth(json, offload.growth()))
    }

    async fn sql(&self, tenant: &str, sql: &Sql, from: Vec<TableArguments>) -> Result<String, Failure> {
        let mut tables = Vec::with_capacity(from.len());
        for TableArguments { handle, section, name } in from {
            tables.push(Tables { offload: self.find(tenant, &handle)?, section, name });
        }
        let json = self.answer_sql(tenant, sql, &tables).await?;
        Ok(result_of(&json, &json))
    }

    /// The answer to a query in SQL, as JSON.
    async fn answer_sql(&self, tenant: &str, sql: &Sql, tables: &[Tables]) -> Result<String, Failure> {
        let answer = self.extractor.answer_sql(tables, sql, self.budget).await;
        // What is left is asked for as with a typed query.
        let question = Question::Query(Query::default());
        let json = answer_json(&answer.map_err(|error| extract_failure(tenant, &error))?, &question)?;
        Ok(with_growth(json, tables.iter().find_map(|table| table.offload.growth())))
    }

    fn find(&self, tenant: &str, handle: &str) -> Result<Offload, Failure> {
        let id = id(handle)?;
        self.store.find(tenant, id).map_err(|error| self.find_failure(tenant, id, &error))
    }

    fn find_failure(&self, tenant: &str, handle: Ulid, error: &StoreError) -> Failure {
        let is_absent = matches!(error, StoreError::Expired { .. } | StoreError::NotFound { .. });
        let job = if is_absent { self.store.job(tenant, handle, 0).ok() } else { None };
        Failure::Tool(match (job.map(|job| job.state), error) {
            (Some(JobState::Running { .. }), _) => format!("nothing of the result of the job {handle} has come yet"),
            (Some(JobState::Ended | JobState::Lost), _) => {
                format!(
                    "the job {handle} has no offload: its result, or why it has none, is in the answer of the tool for jobs"
                )
            }
            (None, StoreError::Expired { .. }) => {
                format!("the offload {handle} has expired: call the tool again that made it")
            }
            (None, StoreError::NotFound { .. }) => format!("there is no offload {handle}"),
            (None, error) => client_message(tenant, error),
        })
    }

    fn read(&self, tenant: &str, arguments: &str) -> Result<String, Failure> {
        let asked = arguments::read(arguments)?;
        let id = id(&asked.handle)?;
        let section = match &asked.section {
            Some(section) => section.clone(),
            None => {
                let found = self.store.find(tenant, id);
                only_file(&found.map_err(|error| self.find_failure(tenant, id, &error))?)?
            }
        };
        let bytes = asked.bytes.map(|bytes| bytes.min(PAGE_BYTES_MAX));
        let start = asked.start.clone();
        let request =
            PageRequest { tenant: tenant.to_owned(), offload: id, section, start, bytes, records: asked.limit };
        let page = self.pages.page(&request).map_err(|error| match error {
            PageError::Cursor(error) => Failure::Tool(cursor_advice(error, &asked)),
            PageError::Store(error) => Failure::Tool(client_message(tenant, &error)),
            error => Failure::Tool(error.to_string()),
        })?;
        let json = serialized(&page)?;
        Ok(result_of(&page_text(&page, &asked).unwrap_or_else(|| json.clone()), &json))
    }
}

/// The section of an offload with one file.
fn only_file(offload: &Offload) -> Result<String, Failure> {
    offload.only_file().map(|file| file.name.clone()).map_err(|sections| {
        let names: Vec<String> = sections.iter().map(|section| format!("`{section}`")).collect();
        Failure::Tool(format!("the offload has several sections: name one of {}", names.join(", ")))
    })
}

/// A tool result: the text for the model, and the structured content as JSON.
fn result_of(text: &str, json: &str) -> String {
    format!(r#"{{"content":[{}],"structuredContent":{json}}}"#, text_block(text))
}

/// What to do about a cursor that is not accepted.
fn cursor_advice(error: CursorError, asked: &ReadArguments) -> String {
    let again = asked.call("from", json!(0));
    format!("{error}. Pass `next` of the page before with the same `handle` and `section`, or begin again: {again}")
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

fn id(handle: &str) -> Result<Ulid, Failure> {
    handle
        .parse()
        .map_err(|_| Failure::Tool(format!("`{handle}` is not a handle: pass the member `handle` of a descriptor")))
}

/// Error message of the store for clients. The log has the full error.
pub(super) fn client_message(tenant: &str, error: &StoreError) -> String {
    if !matches!(error, StoreError::Expired { .. } | StoreError::NotFound { .. }) {
        tracing::warn!(tenant, error = error as &dyn std::error::Error, "cannot read an offload");
    }
    error.for_client()
}

fn extract_failure(tenant: &str, error: &ExtractError) -> Failure {
    Failure::Tool(match error {
        ExtractError::Store(error) => client_message(tenant, error),
        error => error.to_string(),
    })
}

/// The answer, which says when it is not about a whole section.
fn with_growth(json: String, growth: Option<Growth>) -> String {
    let Some(growth) = growth.and_then(|growth| serde_json::to_string(&growth).ok()) else { return json };
    format!("{},\"complete\":false,\"state\":{growth}}}", json.strip_suffix('}').unwrap_or(&json))
}

/// The answer as JSON, with advice on how to get the rest.
fn answer_json(answer: &Answer, question: &Question) -> Result<String, Failure> {
    let json = serialized(answer)?;
    let Some(advice) = advice(answer, question) else { return Ok(json) };
    let advice = to_raw_value(&advice).map_err(|error| Failure::Tool(error.to_string()))?;
    Ok(format!("{},\"advice\":{advice}}}", json.strip_suffix('}').unwrap_or(&json)))
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
        (None, Question::Search(search)) if answer.total == 0 => Some(match search.ignore_case || search.rank {
            true => "nothing found: try fewer or other words".to_owned(),
            false => "nothing found: try \"ignore_case\": true, \"words\": true or \"rank\": true".to_owned(),
        }),
        (None, Question::Lines(_)) if answer.total == 0 => Some(format!("there are {} lines", answer.examined)),
        (None, _) => None,
    }
}
