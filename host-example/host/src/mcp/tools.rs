//! The tools `lro_extract` and `lro_read`, which read offloads: definitions and calls.
//!
//! An error that the model can fix by calling again is a tool error that says how. An invalid cursor and an unknown
//! tool are protocol errors.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::extract::{Answer, Budget, Cut, ExtractError, Extractor, Jq, Query, Question, stored_query};
use crate::job;
use crate::read::{PageError, PageRequest, Pages, Start};
use crate::store::{Store, StoreError, Ulid};
use lro_mcp::{text_block, tool_error};

/// Name of the tool that answers questions.
pub const EXTRACT_TOOL: &str = "lro_extract";
/// Name of the tool that returns pages.
pub const READ_TOOL: &str = "lro_read";

/// Maximum size in bytes of a page that the tool returns; larger values are lowered to it. Even with escapes, such a
/// page stays below the 500,000 characters from which on Claude Code withholds a result from its model.
const PAGE_BYTES_MAX: u32 = 200_000;

/// JSON-RPC error code "invalid params".
pub const INVALID_PARAMS: i32 = -32602;

/// Arguments of `lro_extract` that are not part of the typed query.
const EXTRACT_MEMBERS: [&str; 7] = ["handle", "section", "jq", "slurp", "args", "recipe", "params"];

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

/// A failed call.
enum Failure {
    Tool(String),
    Protocol(String),
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ExtractArguments {
    handle: String,
    section: Option<String>,
    jq: Option<String>,
    slurp: bool,
    args: BTreeMap<String, Box<RawValue>>,
    recipe: Option<String>,
    params: BTreeMap<String, Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    handle: String,
    section: Option<String>,
    from: Option<u64>,
    cursor: Option<String>,
    limit: Option<u32>,
    bytes: Option<u32>,
}

impl Tools {
    /// Creates the tools. `budget` limits each answer. While the store cannot be used, each call returns an error.
    pub fn new(store: Store, extractor: Extractor, budget: Budget) -> Self {
        Self { pages: Pages::of(store.clone()), store, extractor, budget }
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
            Ok(json) => Ok(format!(r#"{{"content":[{}],"structuredContent":{json}}}"#, text_block(&json))),
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
        let (arguments, query) = extract_arguments(arguments)?;
        let ExtractArguments { handle, section, jq, slurp, args, recipe, params } = arguments;
        let offload = self.store.find(tenant, id(&handle)?).map_err(|error| find_failure(tenant, &handle, &error))?;
        let (section, question) = match (jq, recipe) {
            (Some(_), Some(_)) => return Err(Failure::Tool("give `jq` or `recipe`, not both".to_owned())),
            (Some(filter), None) => (section, Question::Jq(Jq { filter, slurp, arguments: args })),
            (None, Some(name)) => {
                let (file, query) =
                    stored_query(&offload, &name, &params).map_err(|error| extract_failure(tenant, &error))?;
                (Some(file.to_owned()), Question::Query(query))
            }
            (None, None) => (section, Question::Query(query)),
        };
        let answer = self.extractor.answer(&offload, section.as_deref(), &question, self.budget).await;
        answer_json(&answer.map_err(|error| extract_failure(tenant, &error))?)
    }

    fn read(&self, tenant: &str, arguments: &str) -> Result<String, Failure> {
        let ReadArguments { handle, section, from, cursor, limit, bytes } = parsed(arguments)?;
        if limit == Some(0) {
            return Err(Failure::Tool("`limit` must be at least 1".to_owned()));
        }
        let id = id(&handle)?;
        let section = match section {
            Some(section) => section,
            None => {
                let offload = self.store.find(tenant, id).map_err(|error| find_failure(tenant, &handle, &error))?;
                match offload.record().files.as_slice() {
                    [only] => only.name.clone(),
                    files => {
                        let names: Vec<String> = files.iter().map(|file| format!("`{}`", file.section)).collect();
                        return Err(Failure::Tool(format!(
                            "the offload has several sections: name one of {}",
                            names.join(", ")
                        )));
                    }
                }
            }
        };
        let start = match (from, cursor) {
            (Some(_), Some(_)) => return Err(Failure::Tool("give `from` or `cursor`, not both".to_owned())),
            (from, None) => Start::Record(from.unwrap_or(0)),
            (None, Some(cursor)) => Start::Cursor(cursor),
        };
        let bytes = bytes.map(|bytes| bytes.min(PAGE_BYTES_MAX));
        let request = PageRequest { tenant: tenant.to_owned(), offload: id, section, start, bytes, records: limit };
        let page = self.pages.page(&request).map_err(|error| match error {
            PageError::Cursor(error) => Failure::Protocol(error.to_string()),
            PageError::Store(error) => Failure::Tool(client_message(tenant, &error)),
            error => Failure::Tool(error.to_string()),
        })?;
        serialized(&page)
    }
}

/// Splits the arguments: those that are not the tool's own are parsed as a typed query, which rejects unknown members.
fn extract_arguments(arguments: &str) -> Result<(ExtractArguments, Query), Failure> {
    let members: BTreeMap<String, Box<RawValue>> = parsed(arguments)?;
    let (own, query): (BTreeMap<_, _>, BTreeMap<_, _>) =
        members.into_iter().partition(|(name, _)| EXTRACT_MEMBERS.contains(&name.as_str()));
    let own: ExtractArguments = parsed(&serialized(&own)?)?;
    if own.jq.is_none() && (own.slurp || !own.args.is_empty()) {
        return Err(Failure::Tool("`slurp` and `args` go with `jq` only".to_owned()));
    }
    if own.recipe.is_none() && !own.params.is_empty() {
        return Err(Failure::Tool("`params` go with `recipe` only".to_owned()));
    }
    if !query.is_empty() && (own.jq.is_some() || own.recipe.is_some()) {
        let names: Vec<&str> = query.keys().map(String::as_str).collect();
        return Err(Failure::Tool(format!("`jq` and `recipe` go without {}", names.join(", "))));
    }
    Ok((own, parsed(&serialized(&query)?)?))
}

fn parsed<T: DeserializeOwned>(json: &str) -> Result<T, Failure> {
    serde_json::from_str(json).map_err(|error| Failure::Tool(format!("invalid arguments: {error}")))
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

fn find_failure(tenant: &str, handle: &str, error: &StoreError) -> Failure {
    Failure::Tool(match error {
        StoreError::Expired { .. } => format!("the offload {handle} has expired: call the tool again that made it"),
        StoreError::NotFound { .. } => format!("there is no offload {handle}"),
        error => client_message(tenant, error),
    })
}

fn extract_failure(tenant: &str, error: &ExtractError) -> Failure {
    Failure::Tool(match error {
        ExtractError::Store(error) => client_message(tenant, error),
        error => error.to_string(),
    })
}

/// The answer as JSON, with advice on how to get the rest.
fn answer_json(answer: &Answer) -> Result<String, Failure> {
    let next = answer.offset + answer.results;
    let advice = match answer.cut {
        Some(Cut::Limit) => format!("{} more: go on with \"offset\": {next}, or raise \"limit\"", answer.left()),
        Some(Cut::Budget(bytes)) if answer.results == 0 => {
            format!("the next result alone has {bytes} bytes: select fewer fields, or use {READ_TOOL}")
        }
        Some(Cut::Budget(_)) => format!(
            "{} more did not fit: go on with \"offset\": {next}, select fewer fields, or count or group them",
            answer.left()
        ),
        None => return serialized(answer),
    };
    let json = serialized(answer)?;
    let advice = to_raw_value(&advice).map_err(|error| Failure::Tool(error.to_string()))?;
    Ok(format!("{},\"advice\":{advice}}}", json.strip_suffix('}').unwrap_or(&json)))
}

/// Definitions of both tools, as in `tools/list`.
pub fn definitions() -> [Value; 2] {
    let field = json!({"type": "string", "description": "owner.name, or a JSON Pointer such as /owner/name"});
    let handle = json!({"type": "string", "description": "member `handle` of a descriptor"});
    let section =
        json!({"type": "string", "description": "key under `files` of the descriptor; needed when there are several"});
    let condition = json!({
        "type": "object",
        "description": "{\"field\", \"op\", \"value\", \"ignore_case\"}, {\"all\": […]}, {\"any\": […]} or {\"not\": …}. \
                        A missing field fails every test; null is equal to null only",
        "properties": {
            "field": field,
            "op": {"enum": ["eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "starts_with", "matches", "exists", "is_null"]},
            "value": {"description": "any JSON value; a list for `in`, a regular expression for `matches`"},
            "ignore_case": {"type": "boolean"},
            "all": {"type": "array", "items": {"type": "object"}},
            "any": {"type": "array", "items": {"type": "object"}},
            "not": {"type": "object"},
        },
    });
    let named =
        |extra: &str| json!({"type": "array", "items": {"description": format!("a field, or {{\"field\", {extra}}}")}});
    let aggregates = json!({"type": "array", "items": {"type": "object", "required": ["kind"], "properties": {
        "kind": {"enum": ["count", "sum", "min", "max", "avg"]}, "field": field, "as": {"type": "string"},
    }}});
    let whole = |minimum: u32| json!({"type": "integer", "minimum": minimum});
    let extract = json!({
        "name": EXTRACT_TOOL,
        "title": "Ask about an offloaded result",
        "description": "Answers one question about a large result that was offloaded, without reading it. Prefer the typed \
            query: where, group, select, distinct, sort, sample, count, offset, limit apply in this order. Example: \
            {\"handle\": \"…\", \"where\": [{\"field\": \"status\", \"op\": \"eq\", \"value\": \"open\"}, {\"field\": \"age\", \
            \"op\": \"gt\", \"value\": 30}], \"select\": [\"id\", \"title\"], \"limit\": 20}. Count with \"count\": true. \
            Otherwise give a jq program, run on one record after another, or the name of a recipe.",
        "inputSchema": {"type": "object", "required": ["handle"], "additionalProperties": false, "properties": {
            "handle": handle, "section": section,
            "where": {"description": "conditions that must all hold", "type": "array", "items": condition},
            "group": {"type": "object", "properties": {"by": named("\"as\""), "aggregates": aggregates}},
            "select": named("\"as\""), "distinct": {"type": "boolean"}, "sort": named("\"descending\""),
            "sample": whole(1), "count": {"type": "boolean"}, "offset": whole(0), "limit": whole(1),
            "jq": {"type": "string", "description": "program; variables from `args`"},
            "slurp": {"type": "boolean", "description": "run the program once, over the array of all records"},
            "args": {"type": "object"},
            "recipe": {"type": "string", "description": "name under `jq_recipes` of the descriptor"},
            "params": {"type": "object", "description": "values in the place of the recipe's own"},
        }},
    });
    let read = json!({
        "name": READ_TOOL,
        "title": "Page through an offloaded result",
        "description": format!("Gives a page of an offloaded result: records, lines of a text, or bytes. To find or count \
            something use {EXTRACT_TOOL} instead. Go on with the cursor under `next`."),
        "inputSchema": {"type": "object", "required": ["handle"], "additionalProperties": false, "properties": {
            "handle": handle, "section": section,
            "from": {"type": "integer", "minimum": 0, "description": "number of the first record, from 0"},
            "cursor": {"type": "string", "description": "`next` of the page before"},
            "limit": {"type": "integer", "minimum": 1, "description": "most records, 50 by default, at most 1000"},
            "bytes": {"type": "integer", "minimum": 256, "description": "most bytes, 20000 by default, at most 200000"},
        }},
    });
    [extract, read]
}
