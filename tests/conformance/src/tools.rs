//! The tools, and the dispatch of calls.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock, ErrorData, JsonObject, ProgressNotificationParam, Tool};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::call::{Call, Outcome, failure, internal, text};
use crate::logging::{Level, call_with_logging};
use crate::media::{audio, embedded, image};
use crate::server::Shared;
use crate::{questions, rounds, tasks};

/// The tool that drops the caller's connection.
pub(crate) const RECONNECTION: &str = "test_reconnection";

/// All tools, always in this order. The suite calls the first one without arguments.
pub(crate) fn list() -> Vec<Tool> {
    vec![
        plain("test_simple_text", "Answers with a text"),
        plain("test_image_content", "Answers with an image"),
        plain("test_audio_content", "Answers with a sound"),
        plain("test_embedded_resource", "Answers with an embedded resource"),
        plain("test_multiple_content_types", "Answers with a text, an image and a resource"),
        plain("test_tool_with_logging", "Logs while it works"),
        plain("test_logging_tool", "Logs while it works"),
        plain("test_tool_with_progress", "Tells of its progress while it works"),
        plain("test_error_handling", "Always fails"),
        plain(RECONNECTION, "Closes the stream of its answer before the answer"),
        tool("test_sampling", "Has the client's model answer a prompt", &[("prompt", "string")]),
        tool("test_elicitation", "Asks the user for a name and an address", &[("message", "string")]),
        plain("test_elicitation_sep1034_defaults", "Asks the user with a form full of defaults"),
        plain("test_elicitation_sep1330_enums", "Asks the user with a form full of choices"),
        Tool::new("json_schema_2020_12_tool", "Has many keywords in its schema", rich_schema()),
        Tool::new("test_custom_headers", "Repeats what also stands in headers", header_schema()),
        plain("test_missing_capability", "Needs a client that can sample"),
        plain("test_streaming_elicitation", "Asks the user for a name, on a stream"),
        plain("test_trigger_tool_change", "Announces another list of tools"),
        plain("test_trigger_prompt_change", "Announces another list of prompts"),
        plain("test_input_required_result_elicitation", "Asks the user for a name first"),
        plain("test_input_required_result_sampling", "Asks the client's model first"),
        plain("test_input_required_result_list_roots", "Asks for the client's roots first"),
        plain("test_input_required_result_request_state", "Gives out a state and wants it back"),
        plain("test_input_required_result_multiple_inputs", "Asks the user, the model and for roots first"),
        plain("test_input_required_result_multi_round", "Asks twice, one after the other"),
        plain("test_input_required_result_tampered_state", "Refuses a state that was altered"),
        plain("test_input_required_result_capabilities", "Asks what the client can answer"),
        tool("greet", "Greets", &[("name", "string")]),
        tool("slow_compute", "Takes its time", &[("seconds", "number"), ("label", "string")]),
        plain("failing_job", "A task that reports a failure"),
        plain("protocol_error_job", "A task that breaks"),
        tool("confirm_delete", "A task that asks the user first", &[("filename", "string")]),
        plain("multi_input", "A task that asks the user two things at once"),
        plain("test_tool_with_task", "Asks the user first, then becomes a task"),
    ]
}

/// Answers a call.
pub(crate) async fn call(call: &Call, shared: &Shared, level: &Level) -> Outcome {
    let (seal, background) = (&shared.seal, &shared.tasks);
    match call.name.as_str() {
        "test_simple_text" => Ok(text("This is a simple text response for testing.").into()),
        "test_image_content" => Ok(CallToolResult::success(vec![image()]).into()),
        "test_audio_content" => Ok(CallToolResult::success(vec![audio()]).into()),
        "test_embedded_resource" => Ok(CallToolResult::success(vec![embedded_text()]).into()),
        "test_multiple_content_types" => Ok(mixed().into()),
        "test_tool_with_logging" | "test_logging_tool" => call_with_logging(call, level).await,
        "test_tool_with_progress" => report_progress(call).await,
        "test_error_handling" => Ok(failure("This tool intentionally returns an error for testing").into()),
        RECONNECTION => answer_later().await,
        "test_sampling" => questions::sample(call).await,
        "test_elicitation" => questions::elicit(call).await,
        "test_elicitation_sep1034_defaults" => questions::elicit_defaults(call).await,
        "test_elicitation_sep1330_enums" => questions::elicit_choices(call).await,
        "json_schema_2020_12_tool" => Ok(text("ok").into()),
        "test_custom_headers" => Ok(text(format!("region: {}", call.text("region"))).into()),
        "test_missing_capability" => rounds::need_sampling(call),
        "test_streaming_elicitation" | "test_input_required_result_elicitation" => rounds::ask_user(call).await,
        "test_trigger_tool_change" => {
            shared.changes.change_tools();
            if !call.is_modern() {
                call.context.peer.notify_tool_list_changed().await.map_err(internal)?;
            }
            Ok(text("The list of tools is announced").into())
        }
        "test_trigger_prompt_change" => {
            shared.changes.change_prompts();
            if !call.is_modern() {
                call.context.peer.notify_prompt_list_changed().await.map_err(internal)?;
            }
            Ok(text("The list of prompts is announced").into())
        }
        "test_input_required_result_sampling" => rounds::ask_model(call).await,
        "test_input_required_result_list_roots" => rounds::ask_roots(call).await,
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            rounds::ask_with_state(call, seal)
        }
        "test_input_required_result_multiple_inputs" => rounds::ask_all(call, seal),
        "test_input_required_result_multi_round" => rounds::ask_in_turn(call, seal),
        "test_input_required_result_capabilities" => rounds::ask_what_is_possible(call),
        "greet" => tasks::greet(call),
        "slow_compute" => tasks::compute(call, background).await,
        "failing_job" => tasks::fail(call, background),
        "protocol_error_job" => tasks::break_down(call, background),
        "confirm_delete" => tasks::confirm(call, background),
        "multi_input" => tasks::ask_twice(call, background),
        "test_tool_with_task" => tasks::greet_later(call, background),
        unknown => Err(ErrorData::invalid_params(format!("unknown tool: {unknown}"), None)),
    }
}

fn embedded_text() -> ContentBlock {
    embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
}

fn mixed() -> CallToolResult {
    let document = json!({"test": "data", "value": 123}).to_string();
    CallToolResult::success(vec![
        ContentBlock::text("Multiple content types test:"),
        image(),
        embedded("test://mixed-content-resource", "application/json", &document),
    ])
}

async fn report_progress(call: &Call) -> Outcome {
    let token = call.context.meta.get_progress_token();
    for progress in [0.0, 50.0, 100.0] {
        if progress > 0.0 {
            sleep(Duration::from_millis(50)).await;
        }
        if let Some(token) = &token {
            let news = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
            call.context.peer.notify_progress(news).await.map_err(internal)?;
        }
    }
    Ok(text("Went from 0 to 100").into())
}

async fn answer_later() -> Outcome {
    sleep(Duration::from_millis(100)).await;
    Ok(text("This answer came over a second connection").into())
}

/// A tool without arguments.
fn plain(name: &'static str, description: &'static str) -> Tool {
    tool(name, description, &[])
}

/// A tool with arguments of these names and types, all required.
fn tool(name: &'static str, description: &'static str, arguments: &[(&str, &str)]) -> Tool {
    let properties: JsonObject =
        arguments.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
    let required: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    Tool::new(name, description, object(schema))
}

fn header_schema() -> Arc<JsonObject> {
    object(json!({
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    }))
}

fn rich_schema() -> Arc<JsonObject> {
    object(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    }))
}

fn object(value: Value) -> Arc<JsonObject> {
    match value {
        Value::Object(members) => Arc::new(members),
        _ => Arc::default(),
    }
}
