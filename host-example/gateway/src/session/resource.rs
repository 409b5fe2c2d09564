//! Answers to `resources/read`, whose contents go before the policy as the blocks of a tool result, and to `prompts/get`.

use std::sync::Arc;

use bytes::Bytes;
use lro_host::job::Job;
use lro_host::mcp::{self, INTERNAL_ERROR, Message, ToolResult, method};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::decision::{Filtering, FromServer};
use super::pending::{Call, RequestKind, ToolCall};
use super::{QUERY_BYTES_MAX, Session};
use crate::settings::ResourceMode;

/// A tool result in place of resource contents.
#[derive(Deserialize)]
struct Reply<'a> {
    #[serde(borrow)]
    content: Vec<Block<'a>>,
    #[serde(default, rename = "isError")]
    is_error: bool,
}

/// A content block of it.
#[derive(Deserialize)]
struct Block<'a> {
    text: Option<String>,
    #[serde(borrow)]
    resource: Option<&'a RawValue>,
}

/// The result of `resources/read` for one text that may change, as JSON.
pub(super) fn text_resource(uri: &str, media_type: &str, text: &str, modern: bool) -> String {
    let mut result = json!({ "contents": [{ "uri": uri, "mimeType": media_type, "text": text }] });
    if modern {
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    result.to_string()
}

impl Session {
    pub(super) fn resource_answer(self: &Arc<Self>, message: Message, call: Call, uri: String) -> Filtering {
        let (session, bytes) = (Arc::clone(self), message.bytes().clone());
        let job = Job::new(async move {
            session.measure_answer(&call, &message);
            let message = session.bounded_error(message);
            FromServer::Pass(session.resource(&message, call, uri).await)
        });
        Filtering { message: bytes, job, is_answered: false }
    }

    /// An answer to `prompts/get`, unless it is too large: cut in its middle, a prompt would say something else.
    pub(super) fn prompt(&self, message: &Message) -> Bytes {
        match self.limit(self.rules.config.prompt_limit).filter(|_| message.result().is_some()) {
            Some(limit) if self.client().tokenizer.exceeds(message.bytes(), limit) => {
                let bytes = message.bytes().len();
                let text = format!("the prompt has {bytes} bytes, more than the setting `prompt-limit` allows");
                mcp::error_response(message.id().as_ref(), INTERNAL_ERROR, &text)
            }
            _ => message.bytes().clone(),
        }
    }

    async fn resource(&self, message: &Message, call: Call, uri: String) -> Bytes {
        let mode = self.rules.config.resources.mode(&uri);
        if mode == ResourceMode::Pass || message.result().is_none() {
            return message.bytes().clone();
        }
        let name = method::RESOURCES_READ;
        let contents = message.value(&["result", "contents"]);
        let elements = contents.as_deref().and_then(|contents| serde_json::from_slice::<Vec<&RawValue>>(contents).ok());
        let threshold = self.rules.config.for_tool_and_client(name, &call.client).threshold;
        // What is not contents is never offloaded.
        let (elements, fixed) = match (mode, elements) {
            (ResourceMode::Offload, Some(elements)) => (elements, message.without(&["result", "contents"])),
            _ => (Vec::new(), message.bytes().clone()),
        };
        if !self.rules.audits() && call.client.tokenizer.exceeds(&fixed, threshold) {
            return refused(
                message,
                &format!("its {} bytes are more than the limit: read less", message.bytes().len()),
            );
        }
        if elements.is_empty() {
            return message.bytes().clone();
        }
        let blocks = elements.iter().map(|element| format!(r#"{{"type":"resource","resource":{element}}}"#));
        let result = format!(r#"{{"content":[{}]}}"#, blocks.collect::<Vec<_>>().join(","));
        let result = match ToolResult::of_value(result.into()) {
            Ok(result) => result,
            Err(error) => return refused(message, &error.to_string()),
        };
        let query = Some(json!({ "uri": uri }).to_string()).filter(|query| query.len() <= QUERY_BYTES_MAX);
        let tool = ToolCall { name: name.to_owned(), query, ..ToolCall::default() };
        let call = Call { kind: RequestKind::Tool(tool), ..call };
        let (reply, _) = self.filtered_reply(&result, &call).await;
        if reply == result.pass() {
            return self.within_ceiling(message.bytes().clone(), message, &call);
        }
        let answer = match as_contents(&reply, &uri) {
            Ok(contents) => message.with_bytes(&["result", "contents"], contents.as_bytes()),
            Err(reason) => refused(message, &reason),
        };
        self.within_ceiling(answer, message, &call)
    }
}

/// The contents in the place of a tool result: its texts under the URI that was read, and the resources it kept.
///
/// # Errors
/// The text of a tool error, or why the reply cannot be read.
fn as_contents(reply: &[u8], uri: &str) -> Result<String, String> {
    let reply: Reply<'_> = serde_json::from_slice(reply).map_err(|error| error.to_string())?;
    if reply.is_error {
        return Err(reply.content.into_iter().filter_map(|block| block.text).collect::<Vec<_>>().join("\n"));
    }
    let content = |block: Block<'_>| match (block.resource, block.text) {
        (Some(resource), _) => Some(resource.get().to_owned()),
        (None, Some(text)) => {
            let is_json = serde_json::from_str::<IgnoredAny>(&text).is_ok();
            let media_type = if is_json { "application/json" } else { "text/plain" };
            Some(json!({"uri": uri, "mimeType": media_type, "text": Value::from(text)}).to_string())
        }
        (None, None) => None,
    };
    Ok(format!("[{}]", reply.content.into_iter().filter_map(content).collect::<Vec<_>>().join(",")))
}

fn refused(message: &Message, reason: &str) -> Bytes {
    let text = format!("the resource is not shown: {reason}");
    mcp::error_response(message.id().as_ref(), INTERNAL_ERROR, &text)
}
