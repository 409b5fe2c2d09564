//! Arguments of the tool `lro_extract`: what recipes and the guidance show to a reader without a shell.

use lro_json::write::{Object, array, string};
use lro_jsonl::Field;

use crate::bindings::lro::filter::types::FileKind;
use crate::entry::Entry;
use crate::fields::{Fields, name, plain_name};

/// Longest arguments, in bytes of JSON, of the example in the guidance.
const EXAMPLE_BYTES_MAX: usize = 160;

/// Most records or lines that the example in the guidance asks for.
const EXAMPLE_RECORDS: u32 = 20;

/// Records that the recipe `first` shows.
pub(crate) const FIRST_RECORDS: u32 = 3;

/// Members of the arguments of a tool, their values as JSON.
pub(crate) type Arguments = Vec<(&'static str, String)>;

/// Where a call of the tool `lro_extract` asks.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) handle: &'a str,
    /// Where there are several.
    pub(crate) section: Option<&'a str>,
}

impl Target<'_> {
    /// The arguments of a call.
    pub(crate) fn call(self, arguments: &Arguments) -> String {
        let mut call = Object::default();
        call.member("handle", &string(self.handle));
        if let Some(section) = self.section {
            call.member("section", &string(section));
        }
        for (key, value) in arguments {
            call.member(key, value);
        }
        call.finish()
    }

    /// The arguments of the one call that shows best how this entry is asked.
    pub(crate) fn example(self, entry: &Entry) -> Option<String> {
        let arguments = match entry.kind {
            FileKind::Records => example_of_records(entry),
            FileKind::Text => match entry.word() {
                Some(word) => vec![("search", string(&word)), ("context", "2".to_owned())],
                None => vec![("lines", format!("[1,{EXAMPLE_RECORDS}]"))],
            },
            FileKind::Value | FileKind::Bytes => return None,
        };
        Some(self.call(&arguments))
    }
}

/// Some fields of the records with one value, or of those with the greatest numbers; of strings, those with a word.
fn example_of_records(entry: &Entry) -> Arguments {
    let few = || vec![("limit", FIRST_RECORDS.to_string())];
    let Some(fields) = Fields::of(entry) else {
        return entry.word().map_or_else(few, |word| vec![("search", string(&word))]);
    };
    let tested = fields.frequent.as_ref().and_then(|(field, value)| condition(field, ("==", "eq"), value));
    let sorted = fields.numeric.as_ref().and_then(|(field, _)| plain_name(field));
    let mut example = match (tested, sorted) {
        (Some(tested), _) => tested,
        (None, Some(field)) => vec![("sort", string(&format!("-{field}")))],
        (None, None) => return few(),
    };
    example.extend(selected(&fields.picked).into_iter().flatten());
    example.push(("limit", EXAMPLE_RECORDS.to_string()));
    let bytes: usize = example.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > EXAMPLE_BYTES_MAX { few() } else { example }
}

/// A condition as an argument: an expression, or an object where the name of the field has other characters.
pub(crate) fn condition(field: &Field<'_>, (sign, operator): (&str, &str), value: &str) -> Option<Arguments> {
    let in_quotes = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let value_text = match in_quotes.filter(|text| !text.contains(['\'', '\\'])) {
        Some(text) => format!("'{text}'"),
        None => value.to_owned(),
    };
    if let Some(name) = plain_name(field) {
        return Some(vec![("where", string(&format!("{name} {sign} {value_text}")))]);
    }
    let mut test = Object::default();
    test.member("field", &string(&name(field)?)).member("op", &string(operator)).member("value", value);
    Some(vec![("where", array([test.finish()]))])
}

/// Fields as an argument: with commas between them, or a list where a name has other characters.
pub(crate) fn selected(fields: &[Field<'_>]) -> Option<Arguments> {
    let plain: Option<Vec<String>> = fields.iter().map(plain_name).collect();
    let select = match plain {
        Some(names) => string(&names.join(", ")),
        None => array(fields.iter().map(|field| Some(string(&name(field)?))).collect::<Option<Vec<_>>>()?),
    };
    Some(vec![("select", select)])
}
