//! The form of a text with records: recognized from its beginning, named as in the contract, and in words.

use lro_json::Validator;
use lro_text::{HEAD_BYTES_MAX, Hints, recognize, tabular, without_mark};

use crate::bindings::lro::filter::types::{Delimited, Form};
use crate::{Part, PolicyError, Source};

/// The form of a JSON document on its own.
pub(crate) const DOCUMENT: lro_text::Form = lro_text::Form::JsonWithin { start: 0, document: true };

/// Reads a JSON text without the byte order mark that may begin it, until `each` says false.
pub(crate) fn read_json(
    source: &dyn Source,
    index: u32,
    each: &mut dyn FnMut(&str) -> Result<bool, PolicyError>,
) -> Result<(), PolicyError> {
    let mut has_begun = false;
    source.read_text(index, &mut |slice| match std::mem::replace(&mut has_begun, true) {
        true => each(slice),
        false => each(without_mark(slice)),
    })
}

/// The beginning of a text.
pub(crate) struct Head {
    /// At least [`HEAD_BYTES_MAX`] bytes, or all.
    pub(crate) text: String,
    /// Whether this is all.
    pub(crate) complete: bool,
}

impl Head {
    pub(crate) fn read(source: &dyn Source, index: u32) -> Result<Self, PolicyError> {
        let mut text = String::new();
        source.read_text(index, &mut |slice| {
            text.push_str(slice);
            Ok(text.len() <= HEAD_BYTES_MAX)
        })?;
        let complete = text.len() <= HEAD_BYTES_MAX;
        Ok(Self { text, complete })
    }

    /// The form of a text or a JSON part, as its reader and as the contract names it; nothing for a text without records, for
    /// a JSON document that is not a table, and when in doubt.
    pub(crate) fn form(&self, part: &Part) -> Option<(lro_text::Form, Form)> {
        let hints =
            Hints { media_type: part.media_type.as_deref(), name: part.name.as_deref(), complete: self.complete };
        let found = recognize(&self.text, &hints).or_else(|| tabular(&self.text).map(lro_text::Form::Tabular))?;
        named(&found, &self.text).map(|named| (found, named))
    }

    /// Whether the text begins as a JSON object or array: what may be behind it in a longer text does not show.
    pub(crate) fn is_document(&self) -> bool {
        let (mut validator, head) =
            (Validator::new(), without_mark(&self.text[..self.text.floor_char_boundary(HEAD_BYTES_MAX)]));
        let is_json = validator.push(head).is_ok() && (!self.complete || validator.finish().is_ok());
        is_json && head.trim_start().starts_with(['{', '['])
    }
}

/// The form of a part that is not a JSON document as a whole. If it begins with one, other text follows.
pub(crate) fn form(
    source: &dyn Source,
    index: u32,
    part: &Part,
) -> Result<Option<(lro_text::Form, Form)>, PolicyError> {
    let head = Head::read(source, index)?;
    Ok(head.form(part).or_else(|| head.is_document().then_some((DOCUMENT, Form::JsonWithin))))
}

/// The name of a form in the contract, if it has one.
fn named(form: &lro_text::Form, head: &str) -> Option<Form> {
    Some(match form {
        lro_text::Form::JsonValues if begins_with_a_line(head) => Form::JsonLines,
        lro_text::Form::JsonValues => Form::JsonSequence,
        lro_text::Form::JsonLines => Form::JsonLines,
        lro_text::Form::JsonWithin { .. } | lro_text::Form::JsonElements { .. } => Form::JsonWithin,
        &lro_text::Form::Delimited { delimiter, header, .. } => {
            Form::Delimited(Delimited { delimiter: delimiter.into(), header })
        }
        lro_text::Form::MarkdownTable => Form::MarkdownTable,
        lro_text::Form::RuledTable | lro_text::Form::AlignedTable | lro_text::Form::PaddedTable { .. } => {
            Form::AlignedTable
        }
        lro_text::Form::KeyedBlocks { .. } => Form::KeyedBlocks,
        lro_text::Form::PythonLiteral { .. } => Form::PythonLiteral,
        lro_text::Form::YamlList => Form::Yaml,
        lro_text::Form::XmlElements { .. } | lro_text::Form::HtmlTable => Form::Markup,
        lro_text::Form::Tabular(_) => Form::JsonColumns,
        _ => return None,
    })
}

/// Whether the first line is one JSON value.
fn begins_with_a_line(text: &str) -> bool {
    let mut validator = Validator::new();
    let line = without_mark(text).trim_start().lines().next().unwrap_or_default();
    validator.push(line).and_then(|()| validator.finish()).is_ok()
}

/// Whether the records of a form are in one JSON document, and its sections have to be found.
pub(crate) fn is_document(form: &lro_text::Form) -> bool {
    use lro_text::Form::{JsonWithin, PythonLiteral};
    matches!(form, JsonWithin { document: true, .. } | PythonLiteral { document: true })
}

/// A form in words.
pub(crate) fn in_words(form: Form) -> String {
    let words = match form {
        Form::JsonLines => "JSON Lines",
        Form::JsonSequence => "JSON values one after another",
        Form::JsonWithin => "JSON inside text",
        Form::Delimited(Delimited { delimiter, header }) => {
            let name = match delimiter {
                ',' => "CSV".to_owned(),
                '\t' => "TSV".to_owned(),
                other => format!("cells with `{other}` between them"),
            };
            return format!("{name} {} header", if header { "with" } else { "without" });
        }
        Form::MarkdownTable => "Markdown table",
        Form::AlignedTable => "aligned table",
        Form::PythonLiteral => "Python literal",
        Form::Yaml => "YAML list",
        Form::Markup => "elements of XML or HTML",
        Form::JsonColumns => "JSON table",
        Form::KeyedBlocks => "blocks of named values",
    };
    words.to_owned()
}
