//! The inputs of a call of a tool or a prompt, and helpers for its answers.

use std::fmt::Display;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock, ErrorData,
    GetPromptRequestParams, InputRequiredResult, InputResponses, JsonObject,
};
use rmcp::service::{RequestContext, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The answer to a call of a tool.
pub(crate) type Outcome = Result<CallToolResponse, ErrorData>;

/// One call of a tool or a prompt.
pub(crate) struct Call {
    /// Name of the tool or prompt.
    pub(crate) name: String,
    arguments: JsonObject,
    answers: InputResponses,
    /// The state that an earlier round of the call gave the client to return.
    pub(crate) state: Option<String>,
    /// The request and its connection.
    pub(crate) context: RequestContext<RoleServer>,
}

impl Call {
    pub(crate) fn of_tool(request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Self {
        Self {
            name: request.name.into_owned(),
            arguments: request.arguments.unwrap_or_default(),
            answers: request.input_responses.unwrap_or_default(),
            state: request.request_state,
            context,
        }
    }

    pub(crate) fn of_prompt(request: GetPromptRequestParams, context: RequestContext<RoleServer>) -> Self {
        Self {
            name: request.name,
            arguments: request.arguments.unwrap_or_default(),
            answers: request.input_responses.unwrap_or_default(),
            state: request.request_state,
            context,
        }
    }

    /// A text among the arguments; empty when it is missing.
    pub(crate) fn text(&self, name: &str) -> &str {
        self.arguments.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A number among the arguments; 0 when it is missing.
    pub(crate) fn number(&self, name: &str) -> f64 {
        self.arguments.get(name).and_then(Value::as_f64).unwrap_or_default()
    }

    /// The client's answer to the question `key`.
    pub(crate) fn answer(&self, key: &str) -> Option<&Value> {
        self.answers.get(key)
    }

    /// A field of the form of the question `key`, if the user filled it in.
    pub(crate) fn field(&self, key: &str, field: &str) -> Option<&Value> {
        accepted(self.answer(key)?, field)
    }

    /// Whether the request came without a session, from revision 2026-07-28 on.
    pub(crate) fn is_modern(&self) -> bool {
        self.context.meta.client_capabilities().is_some()
    }

    /// The capabilities that the client declared.
    pub(crate) fn capabilities(&self) -> ClientCapabilities {
        self.context.client_capabilities().unwrap_or_default()
    }
}

/// A result with one text.
pub(crate) fn text(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// A result that reports a failure.
pub(crate) fn failure(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// A field of the form in `answer`, if the user filled it in.
pub(crate) fn accepted<'a>(answer: &'a Value, field: &str) -> Option<&'a Value> {
    if answer.get("action")? != "accept" {
        return None;
    }
    answer.get("content")?.get(field)
}

/// A question to the user: a form with one required field.
pub(crate) fn form(message: &str, field: &str, kind: &str) -> Value {
    json!({
        "method": "elicitation/create",
        "params": {
            "message": message,
            "requestedSchema": {
                "type": "object",
                "properties": {field: {"type": kind}},
                "required": [field],
            },
        },
    })
}

/// Returns `questions`, an object, which the client must answer first.
pub(crate) fn ask(questions: Value, state: Option<String>) -> Result<InputRequiredResult, ErrorData> {
    Ok(InputRequiredResult::new(Some(typed(questions)?), state))
}

/// Converts a message from JSON to the type of the protocol library.
pub(crate) fn typed<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(internal)
}

/// An internal error of the server.
pub(crate) fn internal(error: impl Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
