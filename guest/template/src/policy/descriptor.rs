//! The descriptor: what the model sees in place of the parts that were written.

use serde_json::{Map, Value, json};

use super::write::Written;
use crate::bindings::exports::lro::filter::lro_filter::{Call, PolicyError};
use crate::bindings::lro::filter::types::{Abilities, FileKind};

/// The descriptor: with the first lines of each file, or without them when it would exceed its limit.
pub(super) fn content(call: &Call, files: &[Written], head_lines: usize) -> Result<String, PolicyError> {
    let limit = call.settings.descriptor_limit as usize;
    let candidates = [Some(head_lines), None].map(|lines| describe(call, files, lines));
    let fitting = candidates.into_iter().find(|content| content.chars().count() <= limit);
    fitting.ok_or_else(|| PolicyError::Limit(format!("descriptor-limit: {limit} characters are too few")))
}

fn describe(call: &Call, files: &[Written], head_lines: Option<usize>) -> String {
    let path = |file: &Written| json!(format!("{}/{}", call.shown_path, file.entry.name));
    let paths: Map<String, Value> = files.iter().map(|file| (file.entry.section.clone(), path(file))).collect();
    let summary: Map<String, Value> =
        files.iter().map(|file| (file.entry.section.clone(), summary(file, head_lines))).collect();
    let has_handle =
        !call.reader.abilities.contains(Abilities::SHELL) || call.reader.abilities.contains(Abilities::READ_TOOL);
    let handle = if has_handle { format!("\"handle\":{},", json!(call.id)) } else { String::new() };
    let (files, summary, guidance) = (Value::from(paths), Value::from(summary), json!(guidance(call)));
    // The order matters, because a model reads from the front.
    format!("{{\"offloaded\":true,{handle}\"files\":{files},\"summary\":{summary},\"guidance\":{guidance}}}")
}

/// The size of a file, and its first lines if they are to be shown.
fn summary(file: &Written, head_lines: Option<usize>) -> Value {
    let mut summary = json!({ "bytes": file.entry.bytes });
    match file.entry.kind {
        FileKind::Text => summary["lines"] = json!(file.entry.records),
        FileKind::Records => summary["records"] = json!(file.entry.records),
        FileKind::Value | FileKind::Bytes => {}
    }
    if let Some(lines) = head_lines {
        summary["head"] = json!(file.head.split_inclusive('\n').take(lines).collect::<String>());
    }
    summary
}

/// Advice that names only abilities of the reader.
fn guidance(call: &Call) -> &'static str {
    if call.reader.abilities.contains(Abilities::SHELL) {
        "The result was too large and is in files. Use `head`, `grep` or `jq` on them; do not read a file whole. Line 1 of a \
         .jsonl file is a header."
    } else if call.reader.abilities.contains(Abilities::READ_TOOL) {
        "The result was too large and is in files. Page with `lro_read` on the handle."
    } else {
        "The result was too large and is in files. Nothing here can read them: tell the user the handle, or ask for less."
    }
}
