//! Adds the gateway's capabilities, instructions, tools and templates to the answers of a server.

use std::borrow::Cow;

use bytes::Bytes;
use lro_json::walk::skip_white;

use super::arguments::{self, ArgumentRule};
use super::message::Message;
use super::outputs;
use super::schema;
use super::span::{self, Span};
use super::text::quoted;

/// Change to the output schema of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaChange {
    /// Keep it.
    Keep,
    /// Also allow the replacement of a result.
    Widen,
    /// Remove it.
    Remove,
}

/// Changes to a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolChange<'a> {
    /// Change to its output schema.
    pub schema: SchemaChange,
    /// Least size of a result, in characters, that the tool is to declare.
    pub result_characters: Option<u64>,
    /// An argument to add to its input schema: the name, and its JSON Schema. A tool that has one of that name keeps its own.
    pub argument: Option<(&'a str, &'a str)>,
    /// Defaults and maximums of arguments to declare in its input schema.
    pub rules: Vec<ArgumentRule>,
    /// Whether to declare that a call may be a task, as revision 2025-11-25 does. A tool that declares so itself is not changed.
    pub tasks: bool,
    /// The text in the place of its description. A tool without a description gets none.
    pub description: Option<String>,
    /// Whether it is declared for a client of [`OUTPUTS_REVISION`](super::OUTPUTS_REVISION): with the outputs of its results in
    /// place of the output schema.
    pub outputs: bool,
}

/// How a server announces that it knows tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskSupport {
    /// Revision 2025-11-25: the capability `tasks`.
    Capability,
    /// From revision 2026-07-28 on: the extension [`TASKS_EXTENSION`].
    Extension,
}

/// Name of the extension for tasks, in the member `extensions` of capabilities.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The capability `tasks` of a server whose tool calls may be tasks.
const TASKS_CAPABILITY: &str = r#""tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}"#;

/// Metadata key of a tool: the greatest number of characters of a result that a client passes to its model.
const RESULT_CHARACTERS: &str = "anthropic/maxResultSizeChars";

/// A tool in an answer to `tools/list`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedTool<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its description.
    pub description: Option<Cow<'a, str>>,
    /// Its output schema as JSON.
    pub output_schema: Option<&'a [u8]>,
    /// Its input schema as JSON.
    pub input_schema: Option<&'a [u8]>,
    /// Whether the server runs a call as a task if the client asks for it, in revision 2025-11-25.
    pub runs_tasks: bool,
    /// Whether it runs calls as tasks alone.
    pub requires_tasks: bool,
}

/// Adds the capabilities `tools` and `resources`, and support for tasks, to an answer to `initialize` or
/// `server/discover`, and `guidance` to the end of the instructions. With `subscribes`, resources can be subscribed to,
/// whatever the server says. Everything else is preserved byte for byte.
pub fn with_capabilities(answer: &Message, guidance: &str, subscribes: bool, tasks: Option<TaskSupport>) -> Bytes {
    let bytes = answer.bytes();
    let Some(result) = object(bytes, answer.find(&["result"])) else { return bytes.clone() };
    let own_resources = if subscribes { r#""resources":{"subscribe":true}"# } else { r#""resources":{}"# };
    let mut edits = Vec::new();
    let mut own = vec![("tools", r#""tools":{}"#.to_owned()), ("resources", own_resources.to_owned())];
    own.extend(tasks.map(|tasks| match tasks {
        TaskSupport::Capability => ("tasks", TASKS_CAPABILITY.to_owned()),
        TaskSupport::Extension => ("extensions", format!(r#""extensions":{{"{TASKS_EXTENSION}":{{}}}}"#)),
    }));
    match span::child(bytes, &result, "capabilities") {
        Some(capabilities) => {
            let is_missing = |(key, _): &(&str, String)| span::child(bytes, &capabilities, key).is_none();
            let missing: Vec<String> = own.into_iter().filter(is_missing).map(|(_, member)| member).collect();
            edits.extend(appended(bytes, &capabilities, b"{}", &missing));
            let extensions = span::child(bytes, &capabilities, "extensions");
            edits.extend(extensions.filter(|_| tasks == Some(TaskSupport::Extension)).and_then(|extensions| {
                let is_known = span::child(bytes, &extensions, TASKS_EXTENSION).is_some();
                let more = if is_known { Vec::new() } else { vec![format!(r#""{TASKS_EXTENSION}":{{}}"#)] };
                appended(bytes, &extensions, b"{}", &more)
            }));
            let resources = span::child(bytes, &capabilities, "resources").filter(|_| subscribes);
            edits.extend(resources.and_then(|resources| subscription_edit(bytes, &resources)));
        }
        None => {
            let members: Vec<String> = own.into_iter().map(|(_, member)| member).collect();
            edits.extend(appended(bytes, &result, b"{}", &[format!(r#""capabilities":{{{}}}"#, members.join(","))]));
        }
    }
    match span::child(bytes, &result, "instructions") {
        Some(instructions) => {
            if let Some(text) = span::string(bytes, &instructions) {
                let gap = if text.is_empty() { "" } else { "\n\n" };
                edits.push((instructions, quoted(&format!("{text}{gap}{guidance}")).into_bytes()));
            }
        }
        None => edits.extend(appended(bytes, &result, b"{}", &[format!("\"instructions\":{}", quoted(guidance))])),
    }
    edits.sort_by_key(|(span, _)| span.start);
    merge(&mut edits);
    span::spliced(bytes, edits)
}

/// The edit that makes `subscribe` true in the capability `resources`.
fn subscription_edit(bytes: &[u8], resources: &Span) -> Option<(Span, Vec<u8>)> {
    match span::child(bytes, resources, "subscribe") {
        Some(value) => Some((value, b"true".to_vec())),
        None => appended(bytes, resources, b"{}", &[r#""subscribe":true"#.to_owned()]),
    }
}

/// The tools of an answer to `tools/list`.
pub fn listed_tools(answer: &Message) -> Vec<ListedTool<'_>> {
    tools(answer).iter().filter_map(|tool| listed_tool(answer.bytes(), tool)).collect()
}

/// `None` for a tool without a name.
fn listed_tool<'a>(bytes: &'a Bytes, tool: &Span) -> Option<ListedTool<'a>> {
    let at = |span: Span| bytes.get(span);
    let support = task_support(bytes, tool).map(|(_, support)| support);
    Some(ListedTool {
        name: span::string(bytes, &span::child(bytes, tool, "name")?)?,
        description: span::child(bytes, tool, "description").and_then(|text| span::string(bytes, &text)),
        output_schema: span::child(bytes, tool, "outputSchema").and_then(at),
        input_schema: span::child(bytes, tool, "inputSchema").and_then(at),
        runs_tasks: support.as_deref().is_some_and(|support| RUNS_TASKS.contains(&support)),
        requires_tasks: support.as_deref() == Some(REQUIRES_TASKS),
    })
}

/// Changes the tools of an answer to `tools/list` and appends more. Everything else is preserved byte for byte.
pub fn with_tools<'a>(answer: &Message, change: impl Fn(&ListedTool<'_>) -> ToolChange<'a>, more: &[String]) -> Bytes {
    let bytes = answer.bytes();
    let mut edits = Vec::new();
    for tool in tools(answer) {
        let Some(change) = listed_tool(bytes, &tool).map(|listed| change(&listed)) else { continue };
        let mut of_tool = match change.outputs {
            true => output_edits(bytes, &tool, change.schema),
            false => Vec::from_iter(schema_edit(bytes, &tool, change.schema)),
        };
        of_tool.extend(change.argument.and_then(|argument| argument_edit(bytes, &tool, argument)));
        of_tool.extend(arguments::schema_edits(bytes, &tool, &change.rules));
        of_tool.extend(change.description.and_then(|text| {
            let description = span::child(bytes, &tool, "description")?;
            Some((description, quoted(&text).into_bytes()))
        }));
        of_tool.extend(if change.tasks { task_edit(bytes, &tool) } else { None });
        of_tool.extend(change.result_characters.and_then(|characters| size_edit(bytes, &tool, characters)));
        of_tool.sort_by_key(|(span, _)| span.start);
        edits.extend(of_tool);
    }
    edits.extend(answer.find(&["result", "tools"]).and_then(|list| appended(bytes, &list, b"[]", more)));
    span::spliced(bytes, edits)
}

/// As [`with_tools`], for the result of a `tools/list` alone, and one change for the output schemas of all tools. `None` if it is
/// not an object with the list `tools`.
pub fn with_tools_of_result(result: &str, schema: SchemaChange, more: &[String]) -> Option<Bytes> {
    // The tools are found in a response.
    let (before, after) = (r#"{"jsonrpc":"2.0","id":0,"result":"#, "}");
    let message = Message::read([before, result, after].concat().into());
    message.value(&["result", "tools"])?;
    let change = |_: &ListedTool<'_>| ToolChange {
        schema,
        result_characters: None,
        argument: None,
        rules: Vec::new(),
        tasks: false,
        description: None,
        outputs: false,
    };
    let changed = with_tools(&message, change, more);
    let end = changed.len().checked_sub(after.len())?;
    (end >= before.len()).then(|| changed.slice(before.len()..end))
}

/// Removes the tools of an answer to `tools/list` that `keeps` refuses, and those without a name. Everything else is preserved
/// byte for byte.
pub fn with_tools_that(answer: &Message, keeps: impl Fn(&str) -> bool) -> Bytes {
    let bytes = answer.bytes();
    let name = |tool: &Span| span::string(bytes, &span::child(bytes, tool, "name")?);
    let all = tools(answer);
    let kept: Vec<&[u8]> = all
        .iter()
        .filter(|tool| name(tool).is_some_and(|name| keeps(&name)))
        .filter_map(|tool| bytes.get(tool.clone()))
        .collect();
    match answer.find(&["result", "tools"]) {
        Some(list) if kept.len() < all.len() => {
            span::spliced(bytes, vec![(list.start + 1..list.end - 1, kept.join(&b","[..]))])
        }
        _ => bytes.clone(),
    }
}

/// The definition of a tool as JSON, with the declared size of its results in characters.
pub fn with_result_characters(definition: &str, characters: u64) -> String {
    let definition = Bytes::copy_from_slice(definition.as_bytes());
    let edit = size_edit(&definition, &(0..definition.len()), characters);
    String::from_utf8_lossy(&span::spliced(&definition, Vec::from_iter(edit))).into_owned()
}

/// The definition of a tool as JSON, for a client of [`OUTPUTS_REVISION`](super::OUTPUTS_REVISION).
pub fn with_outputs(definition: &str) -> String {
    let definition = Bytes::copy_from_slice(definition.as_bytes());
    let mut edits = output_edits(&definition, &(0..definition.len()), SchemaChange::Keep);
    edits.sort_by_key(|(span, _)| span.start);
    String::from_utf8_lossy(&span::spliced(&definition, edits)).into_owned()
}

/// The answer to `server/discover` with one more revision that is spoken.
pub fn with_revision(answer: &Message, revision: &str) -> Bytes {
    let bytes = answer.bytes();
    let versions = answer.find(&["result", "supportedVersions"]);
    let edit = versions.and_then(|versions| {
        let mut known = span::each_element(bytes, versions.start);
        let is_known = known.any(|known| span::string(bytes, &known).as_deref() == Some(revision));
        let more = if is_known { Vec::new() } else { vec![quoted(revision)] };
        appended(bytes, &versions, b"[]", &more)
    });
    span::spliced(bytes, edit.into_iter().collect())
}

/// A result object with one more metadata entry.
pub fn with_metadata(result: &Bytes, key: &str, json: &str) -> Bytes {
    let entry = format!("{}:{json}", quoted(key));
    span::spliced(result, Vec::from_iter(metadata_edit(result, &(0..result.len()), &entry)))
}

/// As [`with_metadata`], for the result of a response; unchanged without one.
pub fn with_response_metadata(response: &Bytes, key: &str, json: &str) -> Bytes {
    let message = Message::read(response.clone());
    let result = object(response, message.find(&["result"]));
    let entry = format!("{}:{json}", quoted(key));
    let edit = result.and_then(|result| metadata_edit(response, &result, &entry));
    span::spliced(response, edit.into_iter().collect())
}

fn schema_edit(bytes: &Bytes, tool: &Span, change: SchemaChange) -> Option<(Span, Vec<u8>)> {
    let schema = span::child(bytes, tool, "outputSchema")?;
    match change {
        SchemaChange::Keep => None,
        SchemaChange::Widen => Some((schema.clone(), schema::or_replacement(bytes.get(schema)?)?)),
        SchemaChange::Remove => Some((span::removal(bytes, tool, "outputSchema")?, Vec::new())),
    }
}

/// The edits that put the outputs of a tool in the place of its output schema.
fn output_edits(bytes: &Bytes, tool: &Span, change: SchemaChange) -> Vec<(Span, Vec<u8>)> {
    let schema = object(bytes, span::child(bytes, tool, "outputSchema")).and_then(|schema| bytes.get(schema));
    let widened = schema.filter(|_| change == SchemaChange::Widen).and_then(schema::or_replacement);
    let shown = schema.filter(|_| change != SchemaChange::Remove).map(|schema| widened.as_deref().unwrap_or(schema));
    let outputs = outputs::declaration(shown, schema);
    let declared = format!(r#""outputVariants":{outputs}"#);
    let (members, _) = span::members(bytes, tool.start, usize::MAX, |_, _| None);
    let of_schema = members.iter().find(|member| span::string(bytes, &member.key).as_deref() == Some("outputSchema"));
    match (span::child(bytes, tool, "outputVariants"), of_schema) {
        // In an older revision it says nothing.
        (Some(other), _) => {
            let removed = span::removal(bytes, tool, "outputSchema").map(|removed| (removed, Vec::new()));
            removed.into_iter().chain([(other, outputs.into_bytes())]).collect()
        }
        (None, Some(member)) => vec![(member.key.start..member.value.end, declared.into_bytes())],
        (None, None) => appended(bytes, tool, b"{}", &[declared]).into_iter().collect(),
    }
}

/// `None` when the tool has no input schema, or an argument of this name.
fn argument_edit(bytes: &Bytes, tool: &Span, (name, definition): (&str, &str)) -> Option<(Span, Vec<u8>)> {
    let schema = span::child(bytes, tool, "inputSchema")?;
    let argument = format!("{}:{definition}", quoted(name));
    match span::child(bytes, &schema, "properties") {
        Some(properties) if span::child(bytes, &properties, name).is_some() => None,
        Some(properties) => appended(bytes, &properties, b"{}", &[argument]),
        None => appended(bytes, &schema, b"{}", &[format!("\"properties\":{{{argument}}}")]),
    }
}

/// `None` when the tool already declares at least this size.
fn size_edit(bytes: &Bytes, tool: &Span, characters: u64) -> Option<(Span, Vec<u8>)> {
    let metadata = object(bytes, span::child(bytes, tool, "_meta"));
    let Some(declared) = metadata.and_then(|metadata| span::child(bytes, &metadata, RESULT_CHARACTERS)) else {
        return metadata_edit(bytes, tool, &format!("{}:{characters}", quoted(RESULT_CHARACTERS)));
    };
    let number: Option<f64> = bytes.get(declared.clone()).and_then(|number| serde_json::from_slice(number).ok());
    let is_enough = number.is_some_and(|number| number >= characters as f64);
    (!is_enough).then(|| (declared, characters.to_string().into_bytes()))
}

/// The values of `taskSupport` of a tool whose calls may be tasks.
const RUNS_TASKS: [&str; 2] = ["optional", REQUIRES_TASKS];

/// That of a tool whose calls have to be tasks.
const REQUIRES_TASKS: &str = "required";

/// What a tool declares about tasks.
fn task_support<'a>(bytes: &'a [u8], tool: &Span) -> Option<(Span, Cow<'a, str>)> {
    let support = span::child(bytes, &span::child(bytes, tool, "execution")?, "taskSupport")?;
    let text = span::string(bytes, &support)?;
    Some((support, text))
}

/// `None` when calls of the tool may be tasks already.
fn task_edit(bytes: &Bytes, tool: &Span) -> Option<(Span, Vec<u8>)> {
    if let Some((declared, support)) = task_support(bytes, tool) {
        return (!RUNS_TASKS.contains(&support.as_ref())).then(|| (declared, br#""optional""#.to_vec()));
    }
    let optional = r#""taskSupport":"optional""#;
    match span::child(bytes, tool, "execution") {
        Some(execution) => appended(bytes, &execution, b"{}", &[optional.to_owned()]),
        None => appended(bytes, tool, b"{}", &[format!("\"execution\":{{{optional}}}")]),
    }
}

/// Adds an entry to the metadata of an object; `None` when the metadata is not an object.
fn metadata_edit(bytes: &Bytes, of: &Span, entry: &str) -> Option<(Span, Vec<u8>)> {
    match span::child(bytes, of, "_meta") {
        Some(metadata) => appended(bytes, &metadata, b"{}", &[entry.to_owned()]),
        None => appended(bytes, of, b"{}", &[format!("\"_meta\":{{{entry}}}")]),
    }
}

/// Whether the input schema of a tool, as JSON, has an argument of this name.
pub fn has_argument(input_schema: &[u8], name: &str) -> bool {
    let properties = span::child(input_schema, &(0..input_schema.len()), "properties");
    properties.is_some_and(|properties| span::child(input_schema, &properties, name).is_some())
}

/// Adds an extension with its settings, as JSON, to the capabilities in an answer to `initialize` or `server/discover`,
/// unless it is there.
pub fn with_extension(answer: &Message, name: &str, settings: &str) -> Bytes {
    let bytes = answer.bytes();
    let member = format!("\"{name}\":{settings}");
    let edit = object(bytes, answer.find(&["result", "capabilities"])).and_then(|capabilities| {
        match span::child(bytes, &capabilities, "extensions") {
            Some(extensions) if span::child(bytes, &extensions, name).is_some() => None,
            Some(extensions) => appended(bytes, &extensions, b"{}", &[member]),
            None => appended(bytes, &capabilities, b"{}", &[format!(r#""extensions":{{{member}}}"#)]),
        }
    });
    span::spliced(bytes, edit.into_iter().collect())
}

/// Appends items, as JSON, to the list of this name in an answer.
pub fn with_items(answer: &Message, list: &str, items: &[String]) -> Bytes {
    let list = answer.find(&["result", list]);
    let edit = list.and_then(|list| appended(answer.bytes(), &list, b"[]", items));
    span::spliced(answer.bytes(), edit.into_iter().collect())
}

fn tools(answer: &Message) -> Vec<Span> {
    let list = answer.find(&["result", "tools"]).filter(|list| answer.bytes().get(list.start) == Some(&b'['));
    list.map(|list| span::each_element(answer.bytes(), list.start).collect()).unwrap_or_default()
}

fn object(bytes: &[u8], span: Option<Span>) -> Option<Span> {
    span.filter(|span| bytes.get(span.start) == Some(&b'{'))
}

/// The edit that adds members to an object or elements to an array; `None` when the value has other brackets.
pub(super) fn appended(
    bytes: &[u8],
    container: &Span,
    brackets: &[u8; 2],
    items: &[String],
) -> Option<(Span, Vec<u8>)> {
    let end = container.end.checked_sub(1)?;
    if items.is_empty() || *brackets != [*bytes.get(container.start)?, *bytes.get(end)?] {
        return None;
    }
    let is_empty = skip_white(bytes, container.start + 1) == end;
    let comma = if is_empty { "" } else { "," };
    Some((end..end, format!("{comma}{}", items.join(",")).into_bytes()))
}

/// Merges insertions at the same position.
fn merge(edits: &mut Vec<(Span, Vec<u8>)>) {
    edits.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            let more = std::mem::take(&mut later.1);
            if !earlier.1.starts_with(b",") && !more.starts_with(b",") {
                earlier.1.push(b',');
            }
            earlier.1.extend(more);
        }
        same
    });
}
