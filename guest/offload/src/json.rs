//! Writes JSON text and JSON Pointers.

use std::fmt::Write;

/// Appends a JSON string.
pub fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// A JSON string.
pub fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_string(&mut out, text);
    out
}

/// A JSON array of values given as JSON.
pub fn array<I: AsRef<str>>(values: impl IntoIterator<Item = I>) -> String {
    let mut out = String::from("[");
    for value in values {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(value.as_ref());
    }
    out.push(']');
    out
}

/// A JSON object under construction. Values are given as JSON, keys as text.
#[derive(Clone, Default)]
pub struct Object(String);

impl Object {
    /// Adds a member at the end.
    pub fn member(&mut self, key: &str, value: &str) -> &mut Self {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        push_string(&mut self.0, key);
        self.0.push(':');
        self.0.push_str(value);
        self
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Its JSON.
    pub fn finish(&self) -> String {
        if self.0.is_empty() { "{}".to_owned() } else { format!("{}}}", self.0) }
    }
}

/// The JSON Pointer of a configured key: a pointer stays unchanged, a plain key becomes one.
pub fn pointer_of_key(key: &str) -> String {
    if key.is_empty() || key.starts_with('/') {
        return key.to_owned();
    }
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// The last step of a JSON Pointer, unescaped; `None` for the whole document.
pub fn last_step(pointer: &str) -> Option<String> {
    let (_, step) = pointer.rsplit_once('/')?;
    Some(step.replace("~1", "/").replace("~0", "~"))
}
