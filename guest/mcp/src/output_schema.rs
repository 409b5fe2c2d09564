//! Validates a value against an output schema, for the subset of JSON Schema that output schemas use, in a bounded
//! number of steps.
//!
//! The schema comes from a server, so it may be hostile: references that double forty times over, or that form a cycle.
//! Every check ends within [`STEPS_MAX`] steps and [`LEVELS_MAX`] levels. It only gives an answer on which all
//! validators agree: an unsupported keyword, a dialect with different rules, and numbers that some validators round are
//! a [`SchemaError`], whatever the rest of the schema says.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::percent;
use super::shorten::ENDS_SHORT;

/// Largest schema, in bytes: 256 KiB.
pub const SCHEMA_BYTES_MAX: usize = 256 << 10;

/// Most steps of one check: 100,000. A step is a keyword applied to a value, a comparison with a name or a choice, or
/// 64 bytes of a string.
pub const STEPS_MAX: usize = 100_000;

/// Most nested schemas on the path to a value, references included: 256.
pub const LEVELS_MAX: usize = 256;

/// Bytes of a string per step.
const BYTES_PER_STEP: usize = 64;

/// Bound below which a 64-bit floating point number represents every integer exactly.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// Longest keyword or reference in an error, in characters.
const SHOWN_CHARACTERS_MAX: usize = 80;

/// URI suffixes of the dialects in which the supported keywords mean the same.
const DIALECTS: [&str; 4] = ["draft-06/schema", "draft-07/schema", "draft/2019-09/schema", "draft/2020-12/schema"];

/// The dialects among them that ignore the keywords beside `$ref`.
const DIALECTS_OF_LONE_REFERENCES: [&str; 2] = ["draft-06/schema", "draft-07/schema"];

/// The reason why a value cannot be validated against a schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchemaError {
    /// Longer than [`SCHEMA_BYTES_MAX`].
    #[error("output schema of {0} bytes exceeds the limit of {SCHEMA_BYTES_MAX} bytes")]
    TooLarge(usize),
    /// Not JSON, or a keyword with an invalid value.
    #[error("invalid output schema: {0}")]
    Malformed(String),
    /// An unsupported dialect.
    #[error("output schema has the unsupported dialect {0:?}")]
    Dialect(String),
    /// An unsupported keyword, which may be an assertion.
    #[error("output schema has the unsupported keyword {0:?}")]
    Keyword(String),
    /// A reference that is not a JSON Pointer into the schema, or does not resolve.
    #[error("output schema has the unresolvable reference {0:?}")]
    Reference(String),
    /// Validators may disagree.
    #[error("validators of the output schema may disagree on {0}")]
    Undecided(&'static str),
    /// More than [`STEPS_MAX`].
    #[error("validation against the output schema takes more than {STEPS_MAX} steps")]
    Steps,
    /// More than [`LEVELS_MAX`].
    #[error("output schema nests more than {LEVELS_MAX} levels")]
    Levels,
}

type Answer = Result<bool, SchemaError>;

/// A schema to validate values against.
#[derive(Clone, Debug)]
pub struct OutputSchema {
    root: Value,
    /// Whether keywords beside `$ref` are ignored.
    lone_references: bool,
}

impl OutputSchema {
    /// Reads a schema.
    ///
    /// # Errors
    /// When the schema is too large, not JSON, of an unsupported dialect, or has an identifier below its root, which
    /// would change the base of references.
    pub fn read(json: &[u8]) -> Result<Self, SchemaError> {
        if json.len() > SCHEMA_BYTES_MAX {
            return Err(SchemaError::TooLarge(json.len()));
        }
        let root: Value = serde_json::from_slice(json).map_err(|error| SchemaError::Malformed(error.to_string()))?;
        let dialect = root.get("$schema").map(|dialect| dialect.as_str().unwrap_or_default());
        let is_one_of = |known: &[&str]| {
            dialect.is_some_and(|uri| known.iter().any(|end| uri.trim_end_matches('#').ends_with(end)))
        };
        if dialect.is_some() && !is_one_of(&DIALECTS) {
            return Err(SchemaError::Dialect(shown(dialect.unwrap_or_default())));
        }
        if children(&root).any(has_identifier) {
            return Err(SchemaError::Keyword("$id".to_owned()));
        }
        Ok(Self { lone_references: is_one_of(&DIALECTS_OF_LONE_REFERENCES), root })
    }

    /// Whether a value is valid.
    ///
    /// # Errors
    /// When the check cannot decide, see [`SchemaError`].
    pub fn allows(&self, value: &Value) -> Answer {
        Check { schema: self, steps: STEPS_MAX, levels: LEVELS_MAX }.schema(&self.root, value)
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Object(members) => Box::new(members.values()),
        Value::Array(elements) => Box::new(elements.iter()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Whether a value has an identifier at any level. A property may be named `$id`, but its value is a schema and not a
/// string.
fn has_identifier(value: &Value) -> bool {
    value.get("$id").is_some_and(Value::is_string) || children(value).any(has_identifier)
}

/// The class of a keyword.
enum Keyword {
    Asserts,
    Annotates,
    Unknown,
}

fn kind(keyword: &str) -> Keyword {
    match keyword {
        "$ref"
        | "type"
        | "const"
        | "enum"
        | "allOf"
        | "anyOf"
        | "oneOf"
        | "not"
        | "if"
        | "then"
        | "else"
        | "minimum"
        | "maximum"
        | "exclusiveMinimum"
        | "exclusiveMaximum"
        | "multipleOf"
        | "minLength"
        | "maxLength"
        | "format"
        | "items"
        | "minItems"
        | "maxItems"
        | "uniqueItems"
        | "properties"
        | "required"
        | "additionalProperties"
        | "minProperties"
        | "maxProperties" => Keyword::Asserts,
        "$schema" | "$id" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" | "$comment" | "$defs"
        | "definitions" | "title" | "description" | "default" | "examples" | "deprecated" | "readOnly"
        | "writeOnly" | "contentMediaType" | "contentEncoding" => Keyword::Annotates,
        other if other.starts_with("x-") => Keyword::Annotates,
        _ => Keyword::Unknown,
    }
}

/// A check in progress.
struct Check<'a> {
    schema: &'a OutputSchema,
    steps: usize,
    levels: usize,
}

impl<'a> Check<'a> {
    fn take_steps(&mut self, steps: usize) -> Result<(), SchemaError> {
        self.steps = self.steps.checked_sub(steps).ok_or(SchemaError::Steps)?;
        Ok(())
    }

    fn schema(&mut self, schema: &'a Value, value: &Value) -> Answer {
        self.take_steps(1)?;
        match schema {
            Value::Bool(allows) => Ok(*allows),
            Value::Object(keywords) => {
                self.levels = self.levels.checked_sub(1).ok_or(SchemaError::Levels)?;
                let answer = self.keywords(keywords, value);
                self.levels += 1;
                answer
            }
            _ => Err(malformed("a schema")),
        }
    }

    fn keywords(&mut self, keywords: &'a Map<String, Value>, value: &Value) -> Answer {
        let mut assertions = 0;
        for keyword in keywords.keys() {
            self.take_steps(1)?;
            match kind(keyword) {
                Keyword::Asserts => assertions += 1,
                Keyword::Annotates => {}
                Keyword::Unknown => return Err(SchemaError::Keyword(shown(keyword))),
            }
        }
        if self.schema.lone_references && assertions > 1 && keywords.contains_key("$ref") {
            return Err(SchemaError::Undecided("keywords beside a reference"));
        }
        for (keyword, argument) in keywords {
            if !self.keyword(keyword, argument, keywords, value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks one keyword, with the keywords beside it. A keyword for another type of value allows the value.
    fn keyword(&mut self, keyword: &str, argument: &'a Value, beside: &'a Map<String, Value>, value: &Value) -> Answer {
        match (keyword, value) {
            ("$ref", _) => {
                let target = self.target(argument)?;
                self.schema(target, value)
            }
            ("type", _) => {
                let names = argument.as_array().map_or(std::slice::from_ref(argument), Vec::as_slice);
                Ok(self.count(names, 1, |_, name| is_of_type(name, value))? == 1)
            }
            ("const", _) => self.equal(argument, value),
            ("enum", _) => Ok(self.count(list(argument)?, 1, |check, choice| check.equal(choice, value))? == 1),
            ("allOf", _) => self.all(list(argument)?, |check, schema| check.schema(schema, value)),
            ("anyOf", _) => Ok(self.count(list(argument)?, 1, |check, schema| check.schema(schema, value))? == 1),
            ("oneOf", _) => Ok(self.count(list(argument)?, 2, |check, schema| check.schema(schema, value))? == 1),
            ("not", _) => Ok(!self.schema(argument, value)?),
            ("if", _) => {
                let branch = if self.schema(argument, value)? { "then" } else { "else" };
                beside.get(branch).map_or(Ok(true), |schema| self.schema(schema, value))
            }
            (_, Value::Number(number)) => is_within_bounds(keyword, argument, number),
            (_, Value::String(text)) => self.text(keyword, argument, text),
            (_, Value::Array(elements)) => self.array(keyword, argument, elements),
            (_, Value::Object(members)) => self.object(keyword, argument, beside, members),
            _ => Ok(true),
        }
    }

    fn text(&mut self, keyword: &str, argument: &Value, text: &str) -> Answer {
        self.take_steps(text.len() / BYTES_PER_STEP)?;
        match keyword {
            "minLength" => Ok(text.chars().count() >= count(argument)?),
            "maxLength" => Ok(text.chars().count() <= count(argument)?),
            // Some validators check it. A string that was not shortened is as valid as without the gateway.
            "format" if text.ends_with(ENDS_SHORT) => Err(SchemaError::Undecided("the format of a shortened string")),
            _ => Ok(true),
        }
    }

    fn array(&mut self, keyword: &str, argument: &'a Value, elements: &[Value]) -> Answer {
        match keyword {
            "minItems" => Ok(elements.len() >= count(argument)?),
            "maxItems" => Ok(elements.len() <= count(argument)?),
            "items" => self.all(elements, |check, element| check.schema(argument, element)),
            "uniqueItems" if *argument == Value::Bool(true) => {
                self.all(elements.iter().enumerate(), |check, (index, element)| {
                    let before = elements.iter().take(index);
                    Ok(check.count(before, 1, |check, other| check.equal(other, element))? == 0)
                })
            }
            _ => Ok(true),
        }
    }

    fn object(
        &mut self,
        keyword: &str,
        argument: &'a Value,
        beside: &'a Map<String, Value>,
        members: &Map<String, Value>,
    ) -> Answer {
        match keyword {
            "minProperties" => Ok(members.len() >= count(argument)?),
            "maxProperties" => Ok(members.len() <= count(argument)?),
            "required" => self.all(list(argument)?, |_, name| {
                Ok(members.contains_key(name.as_str().ok_or_else(|| malformed("required"))?))
            }),
            "properties" => self
                .all(argument.as_object().ok_or_else(|| malformed("properties"))?, |check, (name, schema)| {
                    members.get(name).map_or(Ok(true), |member| check.schema(schema, member))
                }),
            "additionalProperties" => {
                let declared = beside.get("properties").and_then(Value::as_object);
                self.all(members, |check, (name, member)| {
                    let is_declared = declared.is_some_and(|declared| declared.contains_key(name));
                    Ok(is_declared || check.schema(argument, member)?)
                })
            }
            _ => Ok(true),
        }
    }

    fn all<T>(&mut self, items: impl IntoIterator<Item = T>, mut holds: impl FnMut(&mut Self, T) -> Answer) -> Answer {
        for item in items {
            self.take_steps(1)?;
            if !holds(self, item)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The number of items that `holds` is true for, counted up to `enough`.
    fn count<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        enough: usize,
        mut holds: impl FnMut(&mut Self, T) -> Answer,
    ) -> Result<usize, SchemaError> {
        let mut count = 0;
        for item in items {
            self.take_steps(1)?;
            count += usize::from(holds(self, item)?);
            if count == enough {
                break;
            }
        }
        Ok(count)
    }

    /// Whether two values are equal: numbers by value, objects regardless of the order of their members.
    fn equal(&mut self, one: &Value, other: &Value) -> Answer {
        self.take_steps(1)?;
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => Ok(order(one, other)? == Ordering::Equal),
            (Value::String(one), Value::String(other)) => {
                self.take_steps(one.len().min(other.len()) / BYTES_PER_STEP)?;
                Ok(one == other)
            }
            (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
                for (one, other) in one.iter().zip(other) {
                    if !self.equal(one, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Object(one), Value::Object(other)) if one.len() == other.len() => {
                for (key, one) in one {
                    let Some(other) = other.get(key) else { return Ok(false) };
                    if !self.equal(one, other)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (Value::Bool(_) | Value::Null, _) => Ok(one == other),
            _ => Ok(false),
        }
    }

    /// Resolves a reference.
    fn target(&mut self, reference: &Value) -> Result<&'a Value, SchemaError> {
        let reference = reference.as_str().ok_or_else(|| malformed("$ref"))?;
        self.take_steps(reference.len() / BYTES_PER_STEP)?;
        let nowhere = || SchemaError::Reference(shown(reference));
        let pointer = reference.strip_prefix('#').or_else(|| reference.is_empty().then_some("")).ok_or_else(nowhere)?;
        let pointer = percent::decoded(pointer).ok_or_else(nowhere)?;
        self.schema.root.pointer(&pointer).ok_or_else(nowhere)
    }
}

fn is_of_type(name: &Value, value: &Value) -> Answer {
    Ok(match name.as_str() {
        Some("null") => value.is_null(),
        Some("boolean") => value.is_boolean(),
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("number") => value.is_number(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => return Err(malformed("type")),
    })
}

fn is_within_bounds(keyword: &str, argument: &Value, number: &Number) -> Answer {
    let bound = || match argument {
        Value::Number(bound) => Ok(bound),
        _ => Err(malformed(keyword)),
    };
    Ok(match keyword {
        "minimum" => order(number, bound()?)?.is_ge(),
        "maximum" => order(number, bound()?)?.is_le(),
        "exclusiveMinimum" => order(number, bound()?)?.is_gt(),
        "exclusiveMaximum" => order(number, bound()?)?.is_lt(),
        "multipleOf" => match (exact(number), bound().map(exact)?) {
            (Some(number), Some(factor @ 1..)) => number % factor == 0,
            _ => return Err(SchemaError::Undecided("a multiple of a number")),
        },
        _ => true,
    })
}

/// An integer that every validator represents exactly.
fn exact(number: &Number) -> Option<i64> {
    number.as_i64().filter(|integer| (*integer as f64).abs() < EXACT_MAX)
}

/// The order of two numbers, where validators that round agree.
fn order(one: &Number, other: &Number) -> Result<Ordering, SchemaError> {
    let undecided = SchemaError::Undecided("large numbers");
    let (Some(left), Some(right)) = (one.as_f64(), other.as_f64()) else { return Err(undecided) };
    match left.partial_cmp(&right) {
        Some(Ordering::Equal) if left.abs() < EXACT_MAX || (!one.is_f64() && one == other) => Ok(Ordering::Equal),
        Some(order @ (Ordering::Less | Ordering::Greater)) => Ok(order),
        _ => Err(undecided),
    }
}

fn list(argument: &Value) -> Result<&[Value], SchemaError> {
    argument.as_array().map(Vec::as_slice).ok_or_else(|| malformed("a list of schemas or values"))
}

fn count(argument: &Value) -> Result<usize, SchemaError> {
    argument
        .as_u64()
        .and_then(|count| usize::try_from(count).ok())
        .ok_or_else(|| malformed("a least or greatest count"))
}

fn malformed(what: &str) -> SchemaError {
    SchemaError::Malformed(format!("invalid value of `{what}`"))
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARACTERS_MAX).collect()
}
