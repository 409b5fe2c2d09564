//! Widens the output schemas of tools whose results may be replaced.

use super::percent::decoded;
use super::span::{self, Member, Span};
use super::text::quoted;

/// Members that hold definitions. References point to them from the root, so they stay there.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// Members whose members are schemas under any name.
const NAMED_SCHEMAS: [&str; 6] =
    ["$defs", "definitions", "properties", "patternProperties", "dependentSchemas", "dependencies"];

/// Members that hold data, which contains no references.
const DATA: [&str; 4] = ["const", "enum", "default", "examples"];

/// Members that hold references.
const REFERENCES: [&str; 2] = ["$ref", "$dynamicRef"];

/// The member with which FastMCP marks that it wrapped a value into an object with the single property [`WRAPPED`]. Its
/// client reads both at the root.
const WRAPS: &str = "x-fastmcp-wrap-result";

/// The property that holds a value that FastMCP wrapped.
const WRAPPED: &str = "result";

/// Schema of a descriptor or truncated result, for clients that validate: an object that says whether data is in files.
const REPLACEMENT: &str = r#"{"type":"object","properties":{"offloaded":{"type":"boolean"}},"required":["offloaded"]}"#;

/// Most levels of a schema that are searched for references; deeper ones stay unchanged.
const LEVELS_MAX: usize = 128;

/// The schema, or the replacement of a result: `{"type":"object","anyOf":[original, replacement]}`.
///
/// Definitions and `$schema` move to the new root; references to other parts of the old root are rewritten. A schema
/// with an identifier is its own root wherever it stands and moves unchanged. `None` when the schema is not an object.
pub(super) fn or_replacement(schema: &[u8]) -> Option<Vec<u8>> {
    (schema.first() == Some(&b'{')).then(|| Original::of(schema).or_replacement())
}

/// A schema that moves one level deeper.
struct Original<'a> {
    json: &'a [u8],
    members: Vec<Member>,
    dialect: Dialect,
    /// Whether its identifier makes it its own root.
    is_root: bool,
    /// Rewritten references.
    edits: Vec<(Span, Vec<u8>)>,
}

/// The meaning of the keyword `id`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    /// An identifier, up to draft-04.
    Old,
    /// None; the identifier is `$id`.
    New,
}

impl<'a> Original<'a> {
    fn of(json: &'a [u8]) -> Self {
        let (members, _) = span::members(json, 0, usize::MAX, |_, _| None);
        let named = |key| span::member(json, &members, key).and_then(|value| span::string(json, value));
        let is_old = |uri: &str| ["draft-03", "draft-04"].iter().any(|draft| uri.contains(draft));
        let dialect = if named("$schema").is_some_and(|uri| is_old(&uri)) { Dialect::Old } else { Dialect::New };
        let is_root = identifies(json, &members, dialect);
        let mut original = Self { json, members, dialect, is_root, edits: Vec::new() };
        if !is_root {
            original.find_references(&(0..json.len()), LEVELS_MAX);
        }
        original
    }

    fn or_replacement(&self) -> Vec<u8> {
        let (hoisted, inner): (Vec<&Member>, Vec<&Member>) =
            self.members.iter().partition(|member| self.is_hoisted(member));
        let mut wrapped = b"{".to_vec();
        for member in hoisted {
            self.write(member, &mut wrapped);
            wrapped.push(b',');
        }
        if self.value("type").is_some_and(|value| self.at(value) == b"\"object\"") {
            wrapped.extend_from_slice(b"\"type\":\"object\",");
        }
        if let Some(value) = self.wrapped_value() {
            wrapped.extend_from_slice(format!("\"properties\":{{{}:{{\"anyOf\":[", quoted(WRAPPED)).as_bytes());
            wrapped.extend(value);
            wrapped.extend_from_slice(b",{\"type\":\"null\"}]}},");
        }
        wrapped.extend_from_slice(b"\"anyOf\":[{");
        for (index, member) in inner.into_iter().enumerate() {
            if index > 0 {
                wrapped.push(b',');
            }
            self.write(member, &mut wrapped);
        }
        wrapped.extend_from_slice(b"},");
        wrapped.extend_from_slice(REPLACEMENT.as_bytes());
        wrapped.extend_from_slice(b"]}");
        wrapped
    }

    /// Whether a member moves to the new root. An `id` that is not the identifier moves too, for readers that treat it
    /// as one.
    fn is_hoisted(&self, member: &Member) -> bool {
        span::string(self.json, &member.key).is_some_and(|key| match key.as_ref() {
            "$schema" | WRAPS => true,
            "id" => !self.is_root,
            key => !self.is_root && DEFINITIONS.contains(&key),
        })
    }

    /// The schema of the value that FastMCP wrapped.
    fn wrapped_value(&self) -> Option<Vec<u8>> {
        let wraps = self.value(WRAPS).is_some_and(|value| self.at(value) == b"true");
        let properties = self.value("properties").filter(|_| wraps && !self.is_root)?;
        Some(self.edited(&span::child(self.json, properties, WRAPPED)?))
    }

    /// Finds references to parts of the root other than definitions.
    fn find_references(&mut self, schema: &Span, levels: usize) {
        let Some(levels) = levels.checked_sub(1) else { return };
        match self.json.get(schema.start) {
            Some(b'{') => {
                let (members, _) = span::members(self.json, schema.start, usize::MAX, |_, _| None);
                if !identifies(self.json, &members, self.dialect) {
                    members.iter().for_each(|member| self.find_in_member(member, levels));
                }
            }
            Some(b'[') => {
                span::each_element(self.json, schema.start).for_each(|element| self.find_references(&element, levels));
            }
            _ => {}
        }
    }

    fn find_in_member(&mut self, Member { key, value }: &Member, levels: usize) {
        let Some(key) = span::string(self.json, key) else { return };
        if DATA.contains(&key.as_ref()) {
            return;
        }
        if NAMED_SCHEMAS.contains(&key.as_ref()) && self.json.get(value.start) == Some(&b'{') {
            let (schemas, _) = span::members(self.json, value.start, usize::MAX, |_, _| None);
            schemas.iter().for_each(|schema| self.find_references(&schema.value, levels));
            return;
        }
        match span::string(self.json, value).filter(|_| REFERENCES.contains(&key.as_ref())) {
            Some(target) => self.edits.extend(moved(&target).map(|target| (value.clone(), target))),
            None => self.find_references(value, levels),
        }
    }

    fn value(&self, key: &str) -> Option<&Span> {
        span::member(self.json, &self.members, key)
    }

    fn at(&self, span: &Span) -> &'a [u8] {
        self.json.get(span.clone()).unwrap_or_default()
    }

    fn write(&self, member: &Member, output: &mut Vec<u8>) {
        output.extend_from_slice(self.at(&member.key));
        output.push(b':');
        output.extend(self.edited(&member.value));
    }

    /// A value with the edits inside it.
    fn edited(&self, value: &Span) -> Vec<u8> {
        let mut result = Vec::with_capacity(value.len());
        let mut at = value.start;
        for (span, bytes) in self.edits.iter().filter(|(span, _)| value.start <= span.start && span.end <= value.end) {
            result.extend_from_slice(self.at(&(at..span.start)));
            result.extend_from_slice(bytes);
            at = span.end;
        }
        result.extend_from_slice(self.at(&(at..value.end)));
        result
    }
}

/// Whether a schema with these members has an identifier, which makes it the base of its references. A fragment only
/// gives it a name.
fn identifies(json: &[u8], members: &[Member], dialect: Dialect) -> bool {
    let names = |key| {
        let value = span::member(json, members, key).and_then(|value| span::string(json, value));
        value.is_some_and(|uri| !uri.starts_with('#'))
    };
    names("$id") || (dialect == Dialect::Old && names("id"))
}

/// A reference to a part that moved one level deeper; `None` when it stays valid.
fn moved(target: &str) -> Option<Vec<u8>> {
    let path = if target.is_empty() { "" } else { target.strip_prefix('#')? };
    let first = path.strip_prefix('/').and_then(|path| path.split('/').next());
    let is_definition = |name: &str| decoded(name).is_some_and(|name| DEFINITIONS.contains(&name.as_str()));
    let is_anchor = !path.is_empty() && first.is_none();
    (!first.is_some_and(is_definition) && !is_anchor).then(|| quoted(&format!("#/anyOf/0{path}")).into_bytes())
}
