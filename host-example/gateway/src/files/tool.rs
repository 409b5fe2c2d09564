//! The tool that lists and describes files, and files in the arguments of the tools that read offloads.

use std::collections::BTreeMap;

use lro_host::mcp::{self, EXTRACT_TOOL, READ_TOOL};
use lro_host::store::{Offload, Ulid};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{FileError, Files};
use crate::session::Session;

/// Name of the tool.
pub(crate) const FILES_TOOL: &str = "lro_files";

/// Argument that names a file in the place of a handle.
const FILE: &str = "file";

/// What models call it too: it is the argument of [`FILES_TOOL`].
const PATH: &str = "path";

/// Argument with a handle.
const HANDLE: &str = "handle";

/// Arguments of [`FILES_TOOL`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: Option<String>,
    contains: Option<String>,
}

/// Arguments by their names, each as it was sent.
type Members = BTreeMap<String, Box<RawValue>>;

/// Definitions of the tools about files, made from those of the tools that read offloads.
pub(crate) fn definitions() -> Vec<String> {
    let path = "a directory, to list what is in it; or a file, to describe it: its sections, fields and first records";
    let files = json!({
        "name": FILES_TOOL,
        "title": "List and describe files",
        "description": format!("Lists the files that `{EXTRACT_TOOL}` and `{READ_TOOL}` can be asked about, such as JSON, CSV, logs, \
            Markdown, PDF and spreadsheets. With a file as `path`, describes that one, so that you know its fields before you ask. \
            Example: {{\"path\": \"data/orders.csv\"}}; {{\"contains\": \".log\"}}."),
        "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
            "path": {"type": "string", "description": path},
            "contains": {"type": "string", "description": "only files whose paths contain this text, in upper or lower case"},
        }},
    });
    let file = json!({
        "type": "string",
        "description": format!("path of a file as `{FILES_TOOL}` lists it, in the place of `{HANDLE}`"),
    });
    let with_file = |mut tool: Value| {
        let schema = &mut tool["inputSchema"];
        add(schema, &file);
        if let Some(table) = schema.pointer_mut("/properties/from/items") {
            add(table, &json!({ "type": "string" }));
        }
        tool
    };
    let [extract, read] = mcp::definitions().map(with_file);
    [files, extract, read].iter().map(ToString::to_string).collect()
}

/// Adds the argument to a schema, and makes that for handles optional.
fn add(schema: &mut Value, file: &Value) {
    schema["properties"][FILE] = file.clone();
    if let Some(object) = schema.as_object_mut() {
        object.remove("required");
    }
}

/// Instructions about files for the model.
pub(crate) fn guidance() -> String {
    format!(
        "Files on disk can be asked about without reading them: `{FILES_TOOL}` lists them and describes one, `{EXTRACT_TOOL}` \
         (filter, count, group, sort, search, SQL) and `{READ_TOOL}` (pages) take the path of a file as `{FILE}`."
    )
}

/// The answer to a call of [`FILES_TOOL`]: a tool result as JSON, with at most so many bytes of data. Blocks.
pub(crate) fn answer(files: &Files, session: &Session, arguments: &str, bytes_max: u32) -> String {
    let answered = serde_json::from_str(arguments)
        .map_err(|error| format!("invalid arguments: {error}"))
        .and_then(|arguments| described(files, session, &arguments, bytes_max).map_err(|error| error.to_string()));
    match answered {
        Ok(json) => format!(r#"{{"content":[{}],"structuredContent":{json}}}"#, mcp::text_block(&json)),
        Err(reason) => mcp::tool_error(&reason),
    }
}

/// A list, or the descriptor of a file, as JSON.
fn described(files: &Files, session: &Session, arguments: &Arguments, bytes_max: u32) -> Result<String, FileError> {
    let Arguments { path, contains } = arguments;
    // Models name the top in these ways, too.
    let path = path.as_ref().filter(|path| !["", ".", "./"].contains(&path.as_str()));
    if let Some(path) = path {
        match files.offload(session, path) {
            Ok(offload) => return Ok(descriptor(&offload)),
            Err(FileError::Directory(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let listing = files.list(session, path.map(String::as_str), contains.as_deref(), bytes_max)?;
    serde_json::to_string(&listing)
        .map_err(|error| FileError::Refused { path: path.cloned().unwrap_or_default(), reason: error.to_string() })
}

/// The descriptor as the policy wrote it.
fn descriptor(offload: &Offload) -> String {
    offload.record().descriptor.get().to_owned()
}

/// The arguments of a tool that reads offloads, with a handle in the place of each file; `None` if they name no file. A path
/// in the place of a handle counts as a file. Blocks.
pub(crate) fn with_handles(
    files: &Files,
    session: &Session,
    tool: &str,
    arguments: &str,
) -> Result<Option<String>, String> {
    // What is no object is refused by the tool.
    let Ok(mut members) = serde_json::from_str::<Members>(arguments) else { return Ok(None) };
    mcp::check_names_with_file(tool, arguments).map_err(|failure| failure.message())?;
    let mut has_file = replace(files, session, &mut members)?;
    let tables = members.get("from").and_then(|from| serde_json::from_str::<Vec<Members>>(from.get()).ok());
    if let Some(mut tables) = tables {
        for table in &mut tables {
            has_file |= replace(files, session, table)?;
        }
        members.insert("from".to_owned(), to_raw_value(&tables).map_err(|error| error.to_string())?);
    }
    let json = || serde_json::to_string(&members).map_err(|error| error.to_string());
    has_file.then(json).transpose()
}

/// Replaces a file by its handle. Returns whether there is one.
fn replace(files: &Files, session: &Session, members: &mut Members) -> Result<bool, String> {
    let text =
        |members: &Members, name: &str| -> Option<String> { serde_json::from_str(members.get(name)?.get()).ok() };
    let spelled = members.keys().find(|name| [FILE, PATH].iter().any(|file| name.eq_ignore_ascii_case(file))).cloned();
    if let Some(file) = spelled.and_then(|name| members.remove(&name)) {
        members.insert(FILE.to_owned(), file);
    }
    let file = match (text(members, FILE), text(members, HANDLE)) {
        (Some(_), Some(_)) => return Err(format!("both `{FILE}` and `{HANDLE}` are given: give one of them")),
        (Some(file), None) => file,
        (None, Some(handle)) if handle.parse::<Ulid>().is_err() && files.place(&handle).is_ok() => handle,
        (None, _) if members.contains_key(FILE) => {
            return Err(format!("`{FILE}` is not a text: give the path of a file"));
        }
        (None, _) => return Ok(false),
    };
    let handle = files.offload(session, &file).map_err(|error| error.to_string())?.id().to_string();
    members.remove(FILE);
    members.insert(HANDLE.to_owned(), to_raw_value(&handle).map_err(|error| error.to_string())?);
    Ok(true)
}
