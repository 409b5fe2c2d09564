//! What is wrong with input of a client that is not a JSON-RPC message.

use lro_host::mcp::{INVALID_REQUEST, Message};
use serde::de::IgnoredAny;

/// JSON-RPC error code for what is not JSON.
const PARSE_ERROR: i32 = -32700;

/// The JSON-RPC code and the text of the error.
pub(crate) fn reason(message: &Message) -> (i32, String) {
    if let Err(error) = str::from_utf8(message.bytes()) {
        return (PARSE_ERROR, format!("this is not JSON: it is not UTF-8: {error}"));
    }
    if let Err(error) = serde_json::from_slice::<IgnoredAny>(message.bytes()) {
        return (PARSE_ERROR, format!("this is not JSON: {error}"));
    }
    let fault = message.fault().map(|fault| fault.to_string());
    let fault = fault.unwrap_or_else(|| "a batch holds something else".to_owned());
    (INVALID_REQUEST, format!("this is not a JSON-RPC message: {fault}"))
}
