//! Results as ACT has them, a list of events, and as MCP has them, JSON with content blocks.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::bindings::act::core::types::LocalizedString;
use crate::bindings::act::tools::types::{ContentPart, ToolEvent};
use crate::{INTERNAL, error};

const JSON: &str = "application/json";
const CBOR: &str = "application/cbor";

/// The result in MCP's form, with a content block for each event.
pub(crate) fn to_mcp(events: &[ToolEvent]) -> String {
    let is_error = events.iter().any(|event| matches!(event, ToolEvent::Error(_)));
    let content: Vec<Value> = events.iter().map(block).collect();
    json!({ "content": content, "isError": is_error }).to_string()
}

fn block(event: &ToolEvent) -> Value {
    let part = match event {
        ToolEvent::Content(part) => part,
        ToolEvent::Error(error) => return text_block(message(&error.message)),
    };
    let kind = part.mime_type.as_deref().unwrap_or("application/octet-stream");
    let is_text = kind.starts_with("text/") || kind == JSON;
    match (kind, std::str::from_utf8(&part.data)) {
        (_, Ok(text)) if is_text => text_block(text),
        (CBOR, _) if let Ok(value) = ciborium::from_reader::<Value, _>(part.data.as_slice()) => {
            text_block(&value.to_string())
        }
        _ => {
            let data = STANDARD.encode(&part.data);
            match kind.split('/').next() {
                Some(media @ ("image" | "audio")) => json!({ "type": media, "data": data, "mimeType": kind }),
                _ => {
                    let resource = json!({ "uri": "act:content", "mimeType": kind, "blob": data });
                    json!({ "type": "resource", "resource": resource })
                }
            }
        }
    }
}

fn text_block(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// The text in the first of its languages.
pub(crate) fn message(text: &LocalizedString) -> &str {
    match text {
        LocalizedString::Plain(text) => text,
        LocalizedString::Localized(texts) => texts.first().map(|(_, text)| text.as_str()).unwrap_or_default(),
    }
}

/// The events of a result in MCP's form. The text of an error is that of its last block.
pub(crate) fn of_mcp(result: &str) -> Vec<ToolEvent> {
    let result: Value = serde_json::from_str(result).unwrap_or_default();
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (blocks, failed) = match blocks.split_last() {
        Some((last, rest)) if result["isError"] == true => (rest, last["text"].as_str()),
        _ => (blocks, None),
    };
    let parts = blocks.iter().map(|block| ToolEvent::Content(part(block)));
    let failed = failed.map(|text| ToolEvent::Error(error(INTERNAL, text.to_owned())));
    parts.chain(failed).collect()
}

fn part(block: &Value) -> ContentPart {
    let decoded = |data: &Value| STANDARD.decode(data.as_str().unwrap_or_default()).ok();
    let resource = &block["resource"];
    let (data, kind) = match (block["text"].as_str(), decoded(&block["data"]), decoded(&resource["blob"])) {
        (Some(text), ..) => (text.as_bytes().to_vec(), "text/plain"),
        (None, Some(data), _) if block["data"].is_string() => (data, block["mimeType"].as_str().unwrap_or_default()),
        (None, _, Some(data)) if resource["blob"].is_string() => {
            (data, resource["mimeType"].as_str().unwrap_or_default())
        }
        _ => (block.to_string().into_bytes(), JSON),
    };
    ContentPart { data, mime_type: (!kind.is_empty()).then(|| kind.to_owned()), metadata: Vec::new() }
}
