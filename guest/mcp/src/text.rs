//! Renders text as JSON.

/// A tool result that is an error, as JSON.
pub fn tool_error(text: &str) -> String {
    format!(r#"{{"content":[{}],"isError":true}}"#, text_block(text))
}

/// A text content block, as JSON.
pub fn text_block(text: &str) -> String {
    format!(r#"{{"type":"text","text":{}}}"#, quoted(text))
}

/// A JSON string literal.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The escaped text inside a JSON string.
pub(super) fn escaped(text: &str) -> String {
    let mut literal = quoted(text);
    literal.pop();
    literal.split_off(1)
}
