//! The URI of a resource with arguments of a call in it.

use lro_host::mcp::Message;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::Config;

/// URI of a resource of the server, with names of top-level arguments of a call in braces: `log://{build}/output`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResourceTemplate(String);

impl<'de> Deserialize<'de> for ResourceTemplate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pieces = pieces(&text).filter(|_| text.contains(':') && !text.contains(char::is_whitespace));
        let expected = "a URI with names of arguments in braces, such as `log://{build}`";
        pieces.map(drop).ok_or_else(|| D::Error::custom(format!("expected {expected}")))?;
        Ok(Self(text))
    }
}

impl ResourceTemplate {
    /// The URI for a call; `None` if it lacks one of the arguments, or one is no string, number or boolean.
    pub(crate) fn uri(&self, call: &Message) -> Option<String> {
        let arguments = call.value(&["params", "arguments"]);
        let arguments: Map<String, Value> =
            arguments.and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default();
        let mut uri = String::new();
        for (literal, name) in pieces(&self.0)? {
            uri.push_str(literal);
            if let Some(name) = name {
                push_encoded(&mut uri, &text(arguments.get(name)?)?);
            }
        }
        Some(uri)
    }
}

impl Config {
    /// The resource of the server in which the result of a tool grows.
    pub fn partial_resource(&self, tool: &str) -> Option<&ResourceTemplate> {
        self.tool_override(tool)?.partial_resource.as_ref()
    }
}

/// What stands before each name, and the name; `None` when a brace has no other.
fn pieces(template: &str) -> Option<Vec<(&str, Option<&str>)>> {
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((literal, more)) = rest.split_once('{') {
        let (name, after) = more.split_once('}')?;
        if literal.contains('}') || name.is_empty() || name.contains('{') {
            return None;
        }
        pieces.push((literal, Some(name)));
        rest = after;
    }
    pieces.push((rest, None));
    (!rest.contains('}')).then_some(pieces)
}

fn text(argument: &Value) -> Option<String> {
    match argument {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(argument.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Adds text to a URI, with `%XX` for all bytes but those that RFC 3986 calls unreserved.
fn push_encoded(uri: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
}
