//! Tools that take more than one round: they answer a call with questions, and the client calls again with the answers.

use rmcp::model::{CallToolResult, ClientCapabilities, ErrorData, RequestStateCodec, SealOptions};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::call::{Call, Outcome, accepted, ask, form, internal, text};
use crate::questions::{self, Asked};

/// Asks for a name and greets.
pub(crate) async fn ask_user(call: &Call) -> Outcome {
    let greeted = |answer: &Value| accepted(answer, "name")?.as_str().map(greeting);
    ask_for(call, NAME, name_form(), greeted).await
}

/// Asks the client's model.
pub(crate) async fn ask_model(call: &Call) -> Outcome {
    let told = |answer: &Value| answered_text(answer).map(text);
    ask_for(call, "capital_question", prompt("What is the capital of France?", 100), told).await
}

/// Asks for the client's roots.
pub(crate) async fn ask_roots(call: &Call) -> Outcome {
    let listed = |answer: &Value| root_addresses(answer).map(|roots| text(format!("Roots: {}", roots.join(", "))));
    ask_for(call, ROOTS, roots_question(), listed).await
}

/// Asks one question, again if the answer has not what is read from it.
async fn ask_for(call: &Call, key: &str, question: Value, read: impl Fn(&Value) -> Option<CallToolResult>) -> Outcome {
    match questions::put(call, key, question.clone()).await? {
        Asked::Answered(answer) => match read(&answer) {
            Some(result) => Ok(result.into()),
            None => Ok(ask(json!({key: question}), None)?.into()),
        },
        Asked::First(asked) => Ok(asked),
    }
}

/// Asks the user, the model and for roots at once.
pub(crate) fn ask_all(call: &Call, seal: &Seal) -> Outcome {
    const GREETING: &str = "greeting";
    let state: Option<()> = seal.open(call)?;
    let name = name(call);
    let greeting = call.answer(GREETING).and_then(answered_text);
    let roots = call.answer(ROOTS).and_then(root_addresses);
    if let (Some(()), Some(name), Some(greeting), Some(roots)) = (state, name, greeting, roots) {
        return Ok(text(format!("{greeting} {name}, at home in {}", roots.join(", "))).into());
    }
    let questions = json!({
        NAME: name_form(),
        GREETING: prompt("Generate a greeting", 50),
        ROOTS: roots_question(),
    });
    Ok(ask(questions, Some(seal.close(call, &())?))?.into())
}

/// Asks for a confirmation and continues only with the state that it returned.
pub(crate) fn ask_with_state(call: &Call, seal: &Seal) -> Outcome {
    const KEY: &str = "confirm";
    let state: Option<()> = seal.open(call)?;
    if state.is_some() && call.field(KEY, "ok").is_some_and(Value::is_boolean) {
        return Ok(text("state-ok").into());
    }
    let question = form("Please confirm", "ok", "boolean");
    Ok(ask(json!({KEY: question}), Some(seal.close(call, &())?))?.into())
}

/// The progress of [`ask_in_turn`]: the answer it waits for, and the earlier ones.
#[derive(Serialize, Deserialize)]
enum Turn {
    Name,
    Color { name: String },
}

/// Asks for a name, then for a color.
pub(crate) fn ask_in_turn(call: &Call, seal: &Seal) -> Outcome {
    let answered = |key, field| call.field(key, field).and_then(Value::as_str);
    let turn = match seal.open(call)?.unwrap_or(Turn::Name) {
        Turn::Name => match answered("step1", "name") {
            Some(name) => Turn::Color { name: name.to_owned() },
            None => Turn::Name,
        },
        Turn::Color { name } => match answered("step2", "color") {
            Some(color) => return Ok(text(format!("{name} likes {color}")).into()),
            None => Turn::Color { name },
        },
    };
    let questions = match turn {
        Turn::Name => json!({"step1": form("Step 1: What is your name?", "name", "string")}),
        Turn::Color { .. } => json!({"step2": form("Step 2: What is your favorite color?", "color", "string")}),
    };
    Ok(ask(questions, Some(seal.close(call, &turn)?))?.into())
}

/// Asks only what the client can answer.
pub(crate) fn ask_what_is_possible(call: &Call) -> Outcome {
    let possible = call.capabilities();
    let mut questions = Map::new();
    if possible.elicitation.is_some() {
        questions.insert(NAME.to_owned(), name_form());
    }
    if possible.sampling.is_some() {
        questions.insert("greeting".to_owned(), prompt("Generate a greeting", 50));
    }
    if possible.roots.is_some() {
        questions.insert(ROOTS.to_owned(), roots_question());
    }
    let left = questions.keys().filter(|key| call.answer(key).is_none()).count();
    if left == 0 { Ok(text("Nothing is left to ask").into()) } else { Ok(ask(questions.into(), None)?.into()) }
}

/// Rejects a client without sampling.
pub(crate) fn need_sampling(call: &Call) -> Outcome {
    if call.capabilities().sampling.is_none() {
        let needed = ClientCapabilities::builder().enable_sampling().build();
        return Err(ErrorData::missing_required_client_capability(needed));
    }
    Ok(text("The client can sample").into())
}

/// The question that [`name_form`] asks.
pub(crate) const NAME: &str = "user_name";
const ROOTS: &str = "client_roots";

pub(crate) fn name_form() -> Value {
    form("What is your name?", "name", "string")
}

/// The answer to the question [`NAME`].
pub(crate) fn name(call: &Call) -> Option<&str> {
    call.field(NAME, "name").and_then(Value::as_str)
}

pub(crate) fn greeting(name: &str) -> CallToolResult {
    text(format!("Hello, {name}!"))
}

fn roots_question() -> Value {
    json!({"method": "roots/list", "params": {}})
}

fn prompt(text: &str, length: u32) -> Value {
    json!({
        "method": "sampling/createMessage",
        "params": {
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
            "maxTokens": length,
        },
    })
}

/// The text of a model's answer.
fn answered_text(answer: &Value) -> Option<&str> {
    answer.pointer("/content/text")?.as_str()
}

fn root_addresses(answer: &Value) -> Option<Vec<&str>> {
    answer.get("roots")?.as_array()?.iter().map(|root| root.get("uri")?.as_str()).collect()
}

/// Seals the state that a client carries between the rounds of a call, so that it cannot be altered or used elsewhere.
pub(crate) struct Seal(RequestStateCodec);

impl Seal {
    pub(crate) fn new() -> Result<Self, ErrorData> {
        // It only protects tests, so a public key value is enough.
        Ok(Self(RequestStateCodec::try_new(*b"the key of a server for tests only").map_err(internal)?))
    }

    fn close(&self, call: &Call, state: &impl Serialize) -> Result<String, ErrorData> {
        let options = SealOptions::new().associated_data(call.name.as_bytes());
        self.0.seal_json_with(state, &options).map_err(internal)
    }

    /// The state of an earlier round of the same tool, if any.
    fn open<T: DeserializeOwned>(&self, call: &Call) -> Result<Option<T>, ErrorData> {
        let Some(sealed) = &call.state else { return Ok(None) };
        let opened = self.0.open_json_with(sealed, call.name.as_bytes());
        opened.map(Some).map_err(|error| ErrorData::invalid_params(error.to_string(), None))
    }
}
