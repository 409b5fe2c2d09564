//! The prompts.

use rmcp::model::{
    CompletionInfo, ContentBlock, ErrorData, GetPromptResponse, GetPromptResult, Prompt, PromptArgument, PromptMessage,
    Role,
};
use serde_json::{Value, json};

use crate::call::{Call, ask, form, internal};
use crate::media::{embedded, image};

const SIMPLE: &str = "test_simple_prompt";
const WITH_ARGUMENTS: &str = "test_prompt_with_arguments";
const WITH_RESOURCE: &str = "test_prompt_with_embedded_resource";
const WITH_IMAGE: &str = "test_prompt_with_image";
const WITH_QUESTION: &str = "test_input_required_result_prompt";

/// Completions for the arguments of prompts.
const VALUES: [&str; 6] = ["paris", "park", "party", "tea", "test", "testing"];

pub(crate) fn list() -> Vec<Prompt> {
    let prompt = |name: &str, description: &str, arguments: &[(&str, &str)]| {
        let arguments = arguments
            .iter()
            .map(|(name, description)| PromptArgument::new(*name).with_description(*description).with_required(true));
        Prompt::new(name, Some(description), Some(arguments.collect()))
    };
    vec![
        prompt(SIMPLE, "A prompt without arguments", &[]),
        prompt(WITH_ARGUMENTS, "A prompt that repeats its arguments", &[("arg1", "Any text"), ("arg2", "Any text")]),
        prompt(WITH_RESOURCE, "A prompt with a resource in it", &[("resourceUri", "The address of the resource")]),
        prompt(WITH_IMAGE, "A prompt with an image in it", &[]),
        prompt(WITH_QUESTION, "A prompt that asks the user for its context", &[]),
    ]
}

pub(crate) fn get(call: &Call) -> Result<GetPromptResponse, ErrorData> {
    let messages = match call.name.as_str() {
        SIMPLE => vec![user(ContentBlock::text("This is a simple prompt for testing."))],
        WITH_ARGUMENTS => {
            let (first, second) = (call.text("arg1"), call.text("arg2"));
            vec![user(ContentBlock::text(format!("Prompt with arguments: arg1='{first}', arg2='{second}'")))]
        }
        WITH_RESOURCE => vec![
            user(embedded(call.text("resourceUri"), "text/plain", "Embedded resource content for testing.")),
            user(ContentBlock::text("Please process the embedded resource above.")),
        ],
        WITH_IMAGE => vec![user(image()), user(ContentBlock::text("Please analyze the image above."))],
        WITH_QUESTION => return get_with_question(call),
        unknown => return Err(ErrorData::invalid_params(format!("unknown prompt: {unknown}"), None)),
    };
    Ok(GetPromptResult::new(messages).into())
}

fn get_with_question(call: &Call) -> Result<GetPromptResponse, ErrorData> {
    const KEY: &str = "user_context";
    let Some(context) = call.field(KEY, "context").and_then(Value::as_str) else {
        let question = form("What context should the prompt use?", "context", "string");
        return Ok(ask(json!({KEY: question}), None)?.into());
    };
    Ok(GetPromptResult::new(vec![user(ContentBlock::text(format!("Use this context: {context}")))]).into())
}

/// The completions with a prefix.
pub(crate) fn complete(typed: &str) -> Result<CompletionInfo, ErrorData> {
    let values = VALUES.iter().filter(|value| value.starts_with(typed)).map(|value| (*value).to_owned());
    CompletionInfo::with_all_values(values.collect()).map_err(internal)
}

fn user(content: ContentBlock) -> PromptMessage {
    PromptMessage::new(Role::User, content)
}
