//! The first line of a JSONL file.
//!
//! It contains the number of records, which is known only at the end: the line is written with reserved bytes and
//! completed in place. Unused bytes are white space before the line feed.

use lro_json::write::{Object, string};

use crate::bindings::lro::filter::types::{Call, DescriptorLevel, SectionShape};

/// Version of the file layout.
const SCHEMA_VERSION: &str = "1";

/// Most characters of the query in the header.
const QUERY_CHARACTERS_MAX: usize = 512;

/// Bytes reserved for the two numbers, which have at most 20 digits each.
const NUMBERS_BYTES: usize = 40;

/// The header of one file.
pub(crate) struct Header {
    before: Object,
    after: Vec<(&'static str, String)>,
    length: usize,
}

impl Header {
    pub(crate) fn new(call: &Call, section: &str, pointer: Option<&str>, shape: Option<SectionShape>) -> Self {
        let mut before = Object::default();
        before
            .member("type", &string(&call.settings.header_type))
            .member("operation", &string(&call.tool))
            .member("section", &string(section))
            .member("pointer", &pointer.map_or_else(|| "null".to_owned(), string))
            .member("shape", shape.map_or("null", shape_name));
        let query = call.query.as_deref().map(|query| query.chars().take(QUERY_CHARACTERS_MAX).collect::<String>());
        let after = vec![
            ("query", query.map_or_else(|| "null".to_owned(), |query| string(&query))),
            ("schema_version", string(SCHEMA_VERSION)),
            ("timestamp", string(&call.time)),
            ("detail", string(level_name(call.settings.level))),
        ];
        let mut header = Self { before, after, length: 0 };
        header.length = header.text(0, 0).len() + NUMBERS_BYTES;
        header
    }

    /// The line, always of the same length, line feed included.
    pub(crate) fn line(&self, count: u64, estimated_tokens: u64) -> Vec<u8> {
        let mut line = self.text(count, estimated_tokens).into_bytes();
        line.resize(self.length, b' ');
        line.push(b'\n');
        line
    }

    fn text(&self, count: u64, estimated_tokens: u64) -> String {
        let mut object = self.before.clone();
        object.member("count", &count.to_string()).member("estimated_tokens", &estimated_tokens.to_string());
        for (key, value) in &self.after {
            object.member(key, value);
        }
        object.finish()
    }
}

fn shape_name(shape: SectionShape) -> &'static str {
    match shape {
        SectionShape::Elements => "\"elements\"",
        SectionShape::Members => "\"members\"",
        SectionShape::Value => "\"value\"",
    }
}

/// The name of a level in the configuration.
pub(crate) fn level_name(level: DescriptorLevel) -> &'static str {
    match level {
        DescriptorLevel::Pointer => "pointer",
        DescriptorLevel::Standard => "standard",
        DescriptorLevel::Full => "full",
    }
}
