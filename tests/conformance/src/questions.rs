//! Tools that send requests to the client during a call, over the session of the call.

use rmcp::model::{CreateMessageRequestParams, ElicitRequestParams, SamplingMessage};
use serde_json::{Value, json};

use crate::call::{Call, Outcome, failure, internal, text, typed};

const ANSWER_LENGTH: u32 = 100;

/// Asks the client's model to answer the prompt.
pub(crate) async fn sample(call: &Call) -> Outcome {
    if call.capabilities().sampling.is_none() {
        return Ok(failure("The client cannot sample").into());
    }
    let messages = vec![SamplingMessage::user_text(call.text("prompt"))];
    let answer = call.context.peer.create_message(CreateMessageRequestParams::new(messages, ANSWER_LENGTH)).await;
    let answer = answer.map_err(internal)?;
    let words = answer.message.content.first().and_then(|block| block.as_text());
    Ok(text(format!("LLM response: {}", words.map_or("", |words| words.text.as_str()))).into())
}

/// Asks for a name and an address.
pub(crate) async fn elicit(call: &Call) -> Outcome {
    let properties = json!({
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    });
    elicit_form(call, call.text("message"), "User response", properties, &["username", "email"]).await
}

/// Asks with a form with a default in every field.
pub(crate) async fn elicit_defaults(call: &Call) -> Outcome {
    let properties = json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    });
    elicit_form(call, "Please check these values", "Elicitation completed", properties, &[]).await
}

/// Asks with a form with every kind of choice.
pub(crate) async fn elicit_choices(call: &Call) -> Outcome {
    let options = ["option1", "option2", "option3"];
    let titled = |word: &str| {
        json!([
            {"const": "value1", "title": format!("First {word}")},
            {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")},
        ])
    };
    let properties = json!({
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    });
    elicit_form(call, "Please choose", "Elicitation completed", properties, &[]).await
}

async fn elicit_form(call: &Call, message: &str, label: &str, properties: Value, required: &[&str]) -> Outcome {
    if call.capabilities().elicitation.is_none() {
        return Ok(failure("The client cannot ask its user").into());
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    let question: ElicitRequestParams = typed(json!({"message": message, "requestedSchema": schema}))?;
    let answer = call.context.peer.create_elicitation(question).await.map_err(internal)?;
    let action = serde_json::to_value(&answer.action).map_err(internal)?;
    let content = answer.content.unwrap_or_default();
    Ok(text(format!("{label}: action={}, content={content}", action.as_str().unwrap_or_default())).into())
}
