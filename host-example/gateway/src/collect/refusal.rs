//! What the error of a server says: whether it is called too often, and how long to wait.

use std::time::Duration;

use lro_host::mcp::Message;

/// Most characters of a server's error in the reason for an early end.
const ERROR_CHARACTERS_MAX: usize = 200;

/// The beginning of the text of an error of the protocol or of the tool.
pub fn error_text(answer: &Message) -> Option<String> {
    let text: Option<String> = match answer.value(&["error", "message"]) {
        Some(message) => serde_json::from_slice(&message).ok(),
        None => {
            let content = answer.is_tool_error().then(|| answer.value(&["result", "content"])).flatten()?;
            let blocks: Vec<serde_json::Value> = serde_json::from_slice(&content).ok()?;
            blocks.iter().find_map(|block| block.get("text")?.as_str()).map(str::to_owned)
        }
    };
    Some(text?.chars().take(ERROR_CHARACTERS_MAX).collect())
}

/// Whether an error says that the server is called too often.
pub(super) fn is_too_often(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.split(|character: char| !character.is_ascii_alphanumeric()).any(|word| word == "429")
        || ["rate limit", "rate-limit", "too many requests", "retry-after: "].iter().any(|sign| text.contains(sign))
}

/// How long to wait, as an error says: the number of seconds after `retry-after` or `retry after`.
pub(super) fn retry_after(text: &str) -> Option<Duration> {
    let text = text.to_ascii_lowercase();
    let (_, rest) = text.split_once("retry-after").or_else(|| text.split_once("retry after"))?;
    let rest = rest.trim_start_matches([':', '=', '"', '\\', ' ']);
    let digits = rest.split(|character: char| !character.is_ascii_digit()).next()?;
    digits.parse().ok().map(Duration::from_secs)
}
