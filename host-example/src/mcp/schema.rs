//! Output schemas of tools whose results may be replaced.

use super::span::{self, Member, Span};

/// Names of the members that hold definitions; references lead to them from the root, so they stay there.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// What a descriptor and a truncated result are, for a client that validates: an object that says whether data is in files.
const REPLACEMENT: &str = r#"{"type":"object","properties":{"offloaded":{"type":"boolean"}},"required":["offloaded"]}"#;

/// Most levels of a schema that are searched for references; deeper ones stay as they are.
const LEVELS_MAX: usize = 128;

/// The schema, or what stands in for a result that was replaced: `{"type":"object","anyOf":[original, replacement]}`.
///
/// Definitions and `$schema` move to the new root, references to other places of the old root are led to its new place. A
/// schema with an `$id` is a root of its own wherever it stands and moves as it is. None when it is no object.
pub(super) fn or_replacement(schema: &[u8]) -> Option<Vec<u8>> {
    let whole = 0..schema.len();
    if schema.first() != Some(&b'{') {
        return None;
    }
    let (members, _) = span::members(schema, 0, usize::MAX, |_, _| None);
    let at = |span: &Span| schema.get(span.clone()).unwrap_or_default();
    let named = |member: &Member, names: &[&str]| {
        span::string(schema, &member.key).is_some_and(|key| names.contains(&key.as_ref()))
    };
    let is_root = span::member(schema, &members, "$id").is_some();
    let hoisted = |member: &&Member| named(member, &["$schema"]) || (!is_root && named(member, &DEFINITIONS));
    let is_object = span::member(schema, &members, "type").is_some_and(|value| at(value) == b"\"object\"");
    let mut edits = Vec::new();
    if !is_root {
        references(schema, &whole, LEVELS_MAX, &mut edits);
    }
    let mut wrapped = b"{".to_vec();
    for member in members.iter().filter(hoisted) {
        wrapped.extend_from_slice(at(&member.key));
        wrapped.push(b':');
        wrapped.extend(edited(schema, &member.value, &edits));
        wrapped.push(b',');
    }
    if is_object {
        wrapped.extend_from_slice(b"\"type\":\"object\",");
    }
    wrapped.extend_from_slice(b"\"anyOf\":[{");
    for (index, member) in members.iter().filter(|member| !hoisted(member)).enumerate() {
        if index > 0 {
            wrapped.push(b',');
        }
        wrapped.extend_from_slice(at(&member.key));
        wrapped.push(b':');
        wrapped.extend(edited(schema, &member.value, &edits));
    }
    wrapped.extend_from_slice(b"},");
    wrapped.extend_from_slice(REPLACEMENT.as_bytes());
    wrapped.extend_from_slice(b"]}");
    Some(wrapped)
}

/// Finds references to places of the root that are not definitions, and what they become.
fn references(schema: &[u8], value: &Span, levels: usize, edits: &mut Vec<(Span, Vec<u8>)>) {
    let Some(levels) = levels.checked_sub(1) else { return };
    match schema.get(value.start) {
        Some(b'{') => {
            let (members, _) = span::members(schema, value.start, usize::MAX, |_, _| None);
            for Member { key, value } in &members {
                let is_reference = matches!(schema.get(key.clone()), Some(b"\"$ref\"" | b"\"$dynamicRef\""));
                match span::string(schema, value).filter(|_| is_reference) {
                    Some(target) => edits.extend(moved(&target).map(|target| (value.clone(), target))),
                    None => references(schema, value, levels, edits),
                }
            }
        }
        Some(b'[') => {
            let (elements, _) = span::elements(schema, value.start, usize::MAX, |_| None);
            for element in &elements {
                references(schema, element, levels, edits);
            }
        }
        _ => {}
    }
}

/// A reference to a place that is one level deeper now.
fn moved(target: &str) -> Option<Vec<u8>> {
    let path = target.strip_prefix('#')?;
    let first = path.strip_prefix('/').and_then(|path| path.split('/').next());
    let stays = first.is_some_and(|first| DEFINITIONS.contains(&first));
    let is_anchor = !path.is_empty() && first.is_none();
    (!stays && !is_anchor).then(|| super::reply::quoted(&format!("#/anyOf/0{path}")).into_bytes())
}

/// A value of the schema with those edits that lie in it.
fn edited(schema: &[u8], value: &Span, edits: &[(Span, Vec<u8>)]) -> Vec<u8> {
    let mut result = Vec::with_capacity(value.len());
    let mut at = value.start;
    for (span, bytes) in edits.iter().filter(|(span, _)| value.start <= span.start && span.end <= value.end) {
        result.extend_from_slice(schema.get(at..span.start).unwrap_or_default());
        result.extend_from_slice(bytes);
        at = span.end;
    }
    result.extend_from_slice(schema.get(at..value.end).unwrap_or_default());
    result
}
