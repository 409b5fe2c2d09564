//! Tools that ask the client during a call: by requests over the session of the call, or without a session by a result.

use rmcp::model::{CallToolResponse, ErrorData};
use serde_json::{Value, json};

use crate::call::{Call, Outcome, ask, failure, internal, text, typed};

const ANSWER_LENGTH: u32 = 100;

/// The key of the one question of a call.
const KEY: &str = "question";

const ROOTS: &str = "roots/list";
const SAMPLING: &str = "sampling/createMessage";

/// What becomes of a question.
pub(crate) enum Asked {
    Answered(Value),
    /// The result of the call, with the question.
    First(CallToolResponse),
}

/// Asks the question `key` of a call that has no other.
pub(crate) async fn put(call: &Call, key: &str, mut question: Value) -> Result<Asked, ErrorData> {
    if call.is_modern() {
        return Ok(match call.answer(key) {
            Some(answer) => Asked::Answered(answer.clone()),
            None => Asked::First(ask(json!({key: question}), None)?.into()),
        });
    }
    let (peer, params) = (&call.context.peer, question["params"].take());
    let answer = match question["method"].as_str() {
        Some(SAMPLING) => serde_json::to_value(peer.create_message(typed(params)?).await.map_err(internal)?),
        Some(ROOTS) => serde_json::to_value(peer.list_roots().await.map_err(internal)?),
        _ => serde_json::to_value(peer.create_elicitation(typed(params)?).await.map_err(internal)?),
    };
    Ok(Asked::Answered(answer.map_err(internal)?))
}

/// Asks the client's model to answer the prompt.
pub(crate) async fn sample(call: &Call) -> Outcome {
    if call.capabilities().sampling.is_none() {
        return Ok(failure("The client cannot sample").into());
    }
    let message = json!({"role": "user", "content": {"type": "text", "text": call.text("prompt")}});
    let params = json!({"messages": [message], "maxTokens": ANSWER_LENGTH});
    let answer = match put(call, KEY, json!({"method": SAMPLING, "params": params})).await? {
        Asked::Answered(answer) => answer,
        Asked::First(result) => return Ok(result),
    };
    let words = answer.pointer("/content/text").or(answer.pointer("/content/0/text")).and_then(Value::as_str);
    Ok(text(format!("LLM response: {}", words.unwrap_or_default())).into())
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
    let params = json!({"message": message, "requestedSchema": schema});
    let answer = match put(call, KEY, json!({"method": "elicitation/create", "params": params})).await? {
        Asked::Answered(answer) => answer,
        Asked::First(result) => return Ok(result),
    };
    let (action, content) = (answer["action"].as_str().unwrap_or_default(), &answer["content"]);
    Ok(text(format!("{label}: action={action}, content={content}")).into())
}
