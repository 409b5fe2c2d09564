//! Questions that come with the call of a tool: as metadata, or as an argument of tools with the setting `ask`. If the
//! result is offloaded, the reply has the answer.

use std::sync::Arc;

use bytes::Bytes;
use lro_host::mcp::{self, Message, ToolQuestion, method};
use serde_json::Value;

use crate::session::Session;
use crate::settings::DecisionMode;

/// Metadata key of a call for a question.
const KEY: &str = "io.github.lro-filter/query";

/// The argument for a question.
pub(crate) const ARGUMENT: &str = "lro_query";

/// Path of the argument.
const ARGUMENT_PATH: [&str; 3] = ["params", "arguments", ARGUMENT];

/// Maximum size in bytes of a question: as much as other arguments take while a call is pending.
const QUESTION_BYTES_MAX: usize = super::QUERY_BYTES_MAX;

/// A question about the result of a call.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) question: Arc<ToolQuestion>,
    /// The size of its JSON.
    pub(crate) bytes: usize,
}

/// What a request asks besides its call.
#[derive(Default)]
pub(crate) struct Asking {
    /// The request without the argument; `None` if it has none.
    pub(crate) message: Option<Message>,
    pub(crate) asked: Option<Asked>,
}

/// Takes the question out of a request. The argument is removed, metadata stays.
///
/// # Errors
/// Why the question cannot be read, for the model.
pub(crate) fn taken(session: &Session, message: &Message) -> Result<Asking, String> {
    if !session.rules.announces() || message.method().as_deref() != Some(method::TOOLS_CALL) {
        return Ok(Asking::default());
    }
    let is_own = |_: &Bytes| message.params().name.is_some_and(|tool| takes_argument(session, &tool));
    let argument = message.value(&ARGUMENT_PATH).filter(is_own);
    let (name, json) = match (message.value(&["params", "_meta", KEY]), &argument) {
        (Some(_), Some(_)) => {
            return Err(format!("the tool was not called: give one question, `{ARGUMENT}` or the metadata `{KEY}`"));
        }
        (Some(metadata), None) => (KEY, metadata),
        (None, Some(argument)) => (ARGUMENT, argument.clone()),
        (None, None) => return Ok(Asking::default()),
    };
    let asked =
        read(&json).map_err(|error| format!("the tool was not called, because `{name}` is invalid: {error}"))?;
    let message = argument.map(|_| Message::read(message.without(&ARGUMENT_PATH)));
    Ok(Asking { message, asked })
}

/// Reads a question; a null is none.
fn read(json: &Bytes) -> Result<Option<Asked>, String> {
    let bytes = json.len();
    if bytes > QUESTION_BYTES_MAX {
        return Err(format!("it has {bytes} bytes, more than {QUESTION_BYTES_MAX}"));
    }
    let json = std::str::from_utf8(json).map_err(|error| error.to_string())?;
    if json == "null" {
        return Ok(None);
    }
    let question = Arc::new(ToolQuestion::read(json)?);
    Ok(Some(Asked { question, bytes }))
}

/// Whether the gateway adds [`ARGUMENT`] to a tool, which has none of that name itself.
fn takes_argument(session: &Session, tool: &str) -> bool {
    let config = &session.rules.config;
    let is_set = config.gateway_tool(tool).ask && config.for_tool(tool).mode != DecisionMode::Never;
    let listed = || session.rules.caches.input_schema(session.tenant(), tool);
    is_set && !listed().is_some_and(|schema| mcp::has_argument(&schema, ARGUMENT))
}

/// What stands in the place of a descriptor: the answer, or why there is none, and the descriptor. All are JSON objects,
/// but for the error.
pub(crate) fn with_answer(descriptor: &str, answer: Result<&str, &str>) -> String {
    let (name, value) = match answer {
        Ok(answer) => ("answer", answer.to_owned()),
        Err(error) => ("error", Value::from(error).to_string()),
    };
    format!(r#"{{"offloaded":true,"{name}":{value},"descriptor":{descriptor}}}"#)
}
