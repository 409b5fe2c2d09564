//! Arguments of a call that are filled in and capped before the server sees them, and what a tool says of that.

use bytes::Bytes;
use lro_json::write::string;

use super::announce::appended;
use super::message::Message;
use super::span::{self, Span};

/// What becomes of one argument of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArgumentRule {
    /// Its top-level name.
    pub name: String,
    /// Its value as JSON, where a call has none or null.
    pub default: Option<String>,
    /// The greatest number that it may be, as JSON.
    pub max: Option<String>,
}

/// A call with its arguments filled in and capped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedCall {
    /// The message. Everything else in it is preserved byte for byte.
    pub message: Bytes,
    /// The changed arguments as a JSON object, each with its value for the server.
    pub changed: String,
}

/// Why a rule does not fit a tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// The schema has no such argument.
    #[error("the tool has no such argument")]
    Unknown,
    /// The default has a type that the schema does not allow.
    #[error("the default is not of type {0}, as the tool wants it")]
    Type(String),
    /// Only numbers, and texts of numbers, have a maximum.
    #[error("an argument of type {0} has no maximum")]
    NoMaximum(String),
    /// A client sends the argument as a header too, and servers compare them.
    #[error("the argument is a header too (`x-mcp-header`)")]
    Header,
}

/// Fills in and caps the arguments of a call; `None` if nothing changes. Of an argument that is there several times, each
/// value is capped.
pub fn bounded_call(call: &Message, rules: &[ArgumentRule]) -> Option<BoundedCall> {
    let bytes = call.bytes();
    let params = call.find(&["params"])?;
    let named = |object: &Span| span::members(bytes, object.start, usize::MAX, |_, _| None).0;
    let is_object = |value: &Span| bytes.get(value.start) == Some(&b'{');
    let of_params = is_object(&params).then(|| named(&params))?;
    let is_arguments = |key: &Span| span::string(bytes, key).is_some_and(|name| name == "arguments");
    let mut found = of_params.into_iter().filter(|member| is_arguments(&member.key)).map(|member| member.value);
    let (arguments, None) = (found.next(), found.next()) else { return None };
    let is_null = |value: &Span| bytes.get(value.clone()) == Some(b"null");
    let given = match &arguments {
        Some(arguments) if is_object(arguments) => named(arguments),
        Some(arguments) if !is_null(arguments) => return None,
        _ => Vec::new(),
    };
    let (mut edits, mut missing, mut changed) = (Vec::new(), Vec::new(), Vec::new());
    for ArgumentRule { name, default, max } in rules {
        let own = || given.iter().filter(|member| span::string(bytes, &member.key).is_some_and(|key| key == *name));
        for member in own() {
            let value = bytes.get(member.value.clone()).unwrap_or_default();
            let replaced = match (default, max) {
                (Some(default), _) if value == b"null" => Some(default.clone()),
                (_, Some(max)) => capped(value, max),
                _ => None,
            };
            if let Some(json) = replaced {
                changed.push(format!("{}:{json}", string(name)));
                edits.push((member.value.clone(), json.into_bytes()));
            }
        }
        if let Some(default) = default.as_ref().filter(|_| own().next().is_none()) {
            missing.push(format!("{}:{default}", string(name)));
        }
    }
    changed.extend(missing.iter().cloned());
    if changed.is_empty() {
        return None;
    }
    match arguments {
        Some(arguments) if is_object(&arguments) => edits.extend(appended(bytes, &arguments, b"{}", &missing)),
        Some(null) => edits.push((null, format!("{{{}}}", missing.join(",")).into_bytes())),
        None => edits.extend(appended(bytes, &params, b"{}", &[format!("\"arguments\":{{{}}}", missing.join(","))])),
    }
    edits.sort_by_key(|(span, _)| span.start);
    // An argument with two values is named once.
    changed.dedup();
    Some(BoundedCall { message: span::spliced(bytes, edits), changed: format!("{{{}}}", changed.join(",")) })
}

/// The maximum in the form of a value that is beyond it: a number, or the text of one.
fn capped(value: &[u8], max: &str) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let most: f64 = max.parse().ok()?;
    match serde_json::from_str::<String>(text) {
        Ok(number) => (number.trim().parse::<f64>().ok()? > most).then(|| format!("\"{max}\"")),
        Err(_) => (text.parse::<f64>().ok()? > most).then(|| max.to_owned()),
    }
}

/// Whether a rule fits a tool with this input schema, as far as the schema says so.
///
/// # Errors
/// Why it does not.
pub fn check_argument(input_schema: &[u8], rule: &ArgumentRule) -> Result<(), ArgumentError> {
    let Some(properties) = span::child(input_schema, &(0..input_schema.len()), "properties") else { return Ok(()) };
    let Some(property) = span::child(input_schema, &properties, &rule.name) else { return Err(ArgumentError::Unknown) };
    if span::child(input_schema, &property, "x-mcp-header").is_some() {
        return Err(ArgumentError::Header);
    }
    let types = types(input_schema, &property);
    let listed = || types.join(" or ");
    let is_one_of = |wanted: &[&str]| types.is_empty() || types.iter().any(|kind| wanted.contains(&kind.as_str()));
    if rule.default.as_deref().is_some_and(|default| !is_one_of(types_of(default))) {
        return Err(ArgumentError::Type(listed()));
    }
    match rule.max {
        Some(_) if !is_one_of(&["integer", "number", "string"]) => Err(ArgumentError::NoMaximum(listed())),
        _ => Ok(()),
    }
}

/// The types that a property allows; empty if it does not say.
fn types(schema: &[u8], property: &Span) -> Vec<String> {
    let Some(kind) = span::child(schema, property, "type") else { return Vec::new() };
    let mut found = Vec::new();
    span::strings(schema, &kind, &mut |_, name| found.push(name.into_owned()));
    found
}

/// The types of JSON Schema that a value has.
fn types_of(json: &str) -> &'static [&'static str] {
    match json.as_bytes().first() {
        Some(b'"') => &["string"],
        Some(b'{') => &["object"],
        Some(b'[') => &["array"],
        Some(b't' | b'f') => &["boolean"],
        Some(b'n') => &["null"],
        _ if json.parse::<f64>().is_ok_and(|number| number.fract() == 0.0) => &["integer", "number"],
        _ => &["number"],
    }
}

/// The edits that tell of rules in a tool of a list. A maximum of the tool that is less stays.
pub(super) fn schema_edits(bytes: &Bytes, tool: &Span, rules: &[ArgumentRule]) -> Vec<(Span, Vec<u8>)> {
    let schema = span::child(bytes, tool, "inputSchema");
    let Some(properties) = schema.and_then(|schema| span::child(bytes, &schema, "properties")) else {
        return Vec::new();
    };
    rules.iter().flat_map(|rule| property_edits(bytes, &properties, rule)).collect()
}

fn property_edits(bytes: &Bytes, properties: &Span, rule: &ArgumentRule) -> Vec<(Span, Vec<u8>)> {
    let Some(property) = span::child(bytes, properties, &rule.name) else { return Vec::new() };
    let number = |json: &[u8]| std::str::from_utf8(json).ok()?.parse::<f64>().ok();
    let is_number = |kind: &String| kind == "integer" || kind == "number";
    let types = types(bytes, &property);
    let max = rule.max.as_ref().filter(|_| types.is_empty() || types.iter().any(is_number));
    let (mut edits, mut more) = (Vec::new(), Vec::new());
    for (key, value) in [("default", rule.default.as_ref()), ("maximum", max)] {
        let Some(value) = value else { continue };
        match span::child(bytes, &property, key) {
            Some(own) => {
                let least = bytes.get(own.clone()).and_then(number).filter(|_| key == "maximum");
                let stays = least.zip(number(value.as_bytes())).is_some_and(|(own, max)| own <= max);
                edits.extend((!stays).then(|| (own, value.clone().into_bytes())));
            }
            None => more.push(format!("\"{key}\":{value}")),
        }
    }
    edits.extend(appended(bytes, &property, b"{}", &more));
    edits
}
