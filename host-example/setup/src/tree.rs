//! A configuration file, with the place of each value in its text.

use std::ops::Range;

use jsonc_parser::ast::Value as Json;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A value, and where it stands in the text, in bytes.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) span: Range<usize>,
    pub(crate) value: Value,
}

#[derive(Debug)]
pub(crate) enum Value {
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
    /// What no server is described with: numbers, booleans, dates.
    Other,
}

impl Node {
    /// The value of a key. Of a key that stands there twice, the last, as parsers of JSON have it.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Map(entries) => entries.iter().rev().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }
}

/// JSON, with comments and commas at the end of a list: clients that take neither do not have them in their files.
pub(crate) fn of_json(text: &str) -> Result<Option<Node>, String> {
    let options = ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options).map_err(|error| error.to_string())?;
    Ok(parsed.value.map(json))
}

fn json(value: Json<'_>) -> Node {
    let range = value.range();
    let value = match value {
        Json::StringLit(text) => Value::Text(text.value.into_owned()),
        Json::Array(array) => Value::List(array.elements.into_iter().map(json).collect()),
        Json::Object(object) => {
            let entry =
                |property: jsonc_parser::ast::ObjectProp<'_>| (property.name.into_string(), json(property.value));
            Value::Map(object.properties.into_iter().map(entry).collect())
        }
        Json::NumberLit(_) | Json::BooleanLit(_) | Json::NullKeyword(_) => Value::Other,
    };
    Node { span: range.start..range.end, value }
}

/// TOML.
pub(crate) fn of_toml(text: &str) -> Result<Node, String> {
    let table = DeTable::parse(text).map_err(|error| error.to_string())?;
    let span = table.span();
    Ok(Node { span, value: map(table.into_inner()) })
}

fn map(table: DeTable<'_>) -> Value {
    Value::Map(table.into_iter().map(|(key, value)| (key.into_inner().into_owned(), toml(value))).collect())
}

fn toml(value: Spanned<DeValue<'_>>) -> Node {
    let span = value.span();
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Array(array) => Value::List(array.into_iter().map(toml).collect()),
        DeValue::Table(table) => map(table),
        DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => Value::Other,
    };
    Node { span, value }
}
