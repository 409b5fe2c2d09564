//! Shared by the tests: random documents as trees of text, and an output in memory.
#![allow(dead_code, reason = "each test binary uses a part of it")]
#![expect(clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{HashMap, VecDeque};

use lro_json::SyntaxError;
use lro_jsonl::{Document, Error, FileReport, LargeShape, Options, Output, Shape, Splitter, Stream, Target};
use proptest::prelude::*;

/// A JSON value that keeps scalars and keys as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Json {
    Scalar(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl Json {
    pub(crate) fn compact(&self) -> String {
        self.render(&mut || "")
    }

    /// Renders with the given white space between all tokens.
    pub(crate) fn render<'a>(&self, white: &mut impl FnMut() -> &'a str) -> String {
        let mut text = String::new();
        self.write(white, &mut text);
        text + white()
    }

    fn write<'a>(&self, white: &mut impl FnMut() -> &'a str, text: &mut String) {
        text.push_str(white());
        match self {
            Self::Scalar(scalar) => text.push_str(scalar),
            Self::Array(elements) => {
                text.push('[');
                for (index, element) in elements.iter().enumerate() {
                    text.push_str(if index > 0 { "," } else { "" });
                    element.write(white, text);
                    text.push_str(white());
                }
                text.push_str(white());
                text.push(']');
            }
            Self::Object(members) => {
                text.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    text.push_str(if index > 0 { "," } else { "" });
                    text.push_str(white());
                    text.push_str(key);
                    text.push_str(white());
                    text.push(':');
                    value.write(white, text);
                    text.push_str(white());
                }
                text.push_str(white());
                text.push('}');
            }
        }
    }

    /// The lines of a file with this value.
    pub(crate) fn lines(&self, shape: Shape) -> Vec<String> {
        match (self, shape) {
            (Self::Array(elements), _) => elements.iter().map(Self::compact).collect(),
            (Self::Object(members), Shape::Members) => {
                members.iter().map(|(key, value)| member_line(key, value)).collect()
            }
            _ => vec![self.compact()],
        }
    }
}

pub(crate) fn member_line(key: &str, value: &Json) -> String {
    format!("{{\"key\":{key},\"value\":{}}}", value.compact())
}

pub(crate) const SCALARS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "7",
    "-12",
    "1.0",
    "1e2",
    "1E+2",
    "0.25e-7",
    "-0.0",
    "9007199254740993",
    "1e999999",
    "123456789012345678901234567890.123456789",
    "\"\"",
    "\"a\"",
    "\"\\u0061\"",
    "\"\\\\\"",
    "\"\\\"\"",
    "\"a,b:[{]}\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud800\"",
    "\"\\udc00x\"",
    "\"naïve 東京 📦\"",
    "\"  two  spaces  \"",
    "\"\\\\\\\\\\\"\\n\\t\\/\"",
];

pub(crate) const KEYS: &[&str] = &[
    "\"a\"",
    "\"b\"",
    "\"c\"",
    "\"id\"",
    "\"\"",
    "\"\\u0061\"",
    "\"a/b~c\"",
    "\"é\"",
    "\"\\\"q\\\"\"",
    "\"0\"",
    "\"\\ud800\"",
];

/// Any scalar, some of them long.
pub(crate) fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => proptest::sample::select(SCALARS).prop_map(String::from),
        1 => (1_usize..200, 0..3).prop_map(|(length, kind)| match kind {
            0 => format!("\"{}\"", "x".repeat(length)),
            1 => format!("\"{}\"", "\\\\\\\"".repeat(length)),
            _ => format!("-{}", "12345678".repeat(length)),
        }),
    ]
}

pub(crate) fn key() -> impl Strategy<Value = String> {
    proptest::sample::select(KEYS).prop_map(String::from)
}

/// Any document.
pub(crate) fn json() -> impl Strategy<Value = Json> {
    scalar().prop_map(Json::Scalar).prop_recursive(5, 60, 8, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..8).prop_map(Json::Array),
            proptest::collection::vec((key(), inner), 0..8).prop_map(Json::Object),
        ]
    })
}

/// An array of records of one shape: with any scalars, and with some members and elements missing.
pub(crate) fn records() -> impl Strategy<Value = Json> {
    let template = proptest::collection::vec((key(), json()), 1..8).prop_map(Json::Object);
    (template, dice(), 2..40_usize).prop_map(|(template, dice, count)| {
        let mut dice = dice.into_iter().cycle();
        Json::Array((0..count).map(|_| varied(&template, &mut || dice.next().unwrap_or_default())).collect())
    })
}

fn varied(json: &Json, die: &mut impl FnMut() -> u8) -> Json {
    match json {
        Json::Scalar(_) => Json::Scalar(SCALARS[usize::from(die()) % SCALARS.len()].to_owned()),
        Json::Array(elements) => {
            let length = if die() < 200 { elements.len() } else { usize::from(die()) % (elements.len() + 1) };
            Json::Array(elements.iter().take(length).map(|element| varied(element, die)).collect())
        }
        Json::Object(members) => {
            let mut some = Vec::new();
            for (key, value) in members {
                if die() < 245 {
                    some.push((key.clone(), varied(value, die)));
                }
            }
            Json::Object(some)
        }
    }
}

/// Random numbers that place white space and cut slices.
pub(crate) fn dice() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 1..32)
}

/// White space: none, the same everywhere, or random.
pub(crate) fn white(dice: &[u8]) -> impl FnMut() -> &'static str + '_ {
    let mut dice = dice.iter().copied().cycle();
    let same = match dice.next() {
        Some(0..80) => Some(""),
        Some(80..110) => Some(" "),
        Some(110..140) => Some("\n      "),
        _ => None,
    };
    let pretty = "\n                                                                        ";
    move || match dice.next() {
        _ if same.is_some() => same.unwrap_or_default(),
        Some(0..120) => "",
        Some(120..160) => " ",
        Some(160..200) => "\n  ",
        Some(200..240) => "\t\r\n",
        _ => pretty,
    }
}

/// Cuts a text between characters, at random.
pub(crate) fn slices<'a>(text: &'a str, dice: &[u8]) -> Vec<&'a str> {
    // Include an empty slice.
    let mut slices = vec![""];
    let (mut rest, mut dice) = (text, dice.iter().cycle());
    while !rest.is_empty() {
        let length = match dice.next() {
            Some(&die @ 0..150) => usize::from(die / 10).max(1),
            Some(&die) => usize::from(die) * 2,
            None => rest.len(),
        };
        let (slice, after) = rest.split_at(rest.ceil_char_boundary(length));
        slices.push(slice);
        rest = after;
    }
    slices
}

/// A written file.
#[derive(Debug)]
pub(crate) struct Written {
    /// Index of the section.
    pub(crate) section: Option<usize>,
    pub(crate) pointer: String,
    /// How to reassemble its lines.
    pub(crate) shape: Option<LargeShape>,
    pub(crate) text: String,
    pub(crate) report: FileReport,
}

impl Written {
    pub(crate) fn lines(&self) -> Vec<&str> {
        self.text.lines().collect()
    }
}

/// An output in memory, which checks the order of calls.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    pub(crate) files: Vec<Written>,
    pub(crate) rest: Option<Written>,
    current: Option<(Written, Vec<u8>)>,
    rest_open: Option<Vec<u8>>,
}

impl Output for Memory {
    type Error = String;

    fn begin(&mut self, target: Target<'_>) -> Result<(), String> {
        let (section, pointer, shape) = match target {
            Target::Section { index, pointer, .. } => (Some(index), pointer, None),
            Target::Large { pointer, shape } => (None, pointer, Some(shape)),
            Target::Rest => {
                assert!(self.rest_open.replace(Vec::new()).is_none(), "one rest");
                return Ok(());
            }
        };
        let written =
            Written { section, pointer: pointer.into(), shape, text: String::new(), report: FileReport::default() };
        assert!(self.current.replace((written, Vec::new())).is_none(), "one current file");
        Ok(())
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), String> {
        assert!(!bytes.is_empty() && bytes.len() <= lro_jsonl::BLOCK_BYTES);
        match stream {
            Stream::Current => self.current.as_mut().expect("begun").1.extend_from_slice(bytes),
            Stream::Rest => self.rest_open.as_mut().expect("begun").extend_from_slice(bytes),
        }
        Ok(())
    }

    fn end(&mut self, stream: Stream, report: FileReport) -> Result<(), String> {
        let (mut written, bytes) = match stream {
            Stream::Current => self.current.take().expect("begun"),
            Stream::Rest => {
                let written = Written {
                    section: None,
                    pointer: String::new(),
                    shape: None,
                    text: String::new(),
                    report: FileReport::default(),
                };
                (written, self.rest_open.take().expect("begun"))
            }
        };
        written.text = String::from_utf8(bytes).expect("UTF-8");
        assert_eq!(report.bytes, written.text.len() as u64);
        assert_eq!(report.records, written.text.matches('\n').count() as u64);
        assert!(written.text.is_empty() || written.text.ends_with('\n'));
        written.report = report;
        match stream {
            Stream::Current => self.files.push(written),
            Stream::Rest => self.rest = Some(written),
        }
        Ok(())
    }
}

/// Splits slices; the output must not fail.
pub(crate) fn split(slices: &[&str], options: &Options) -> Result<(Document, Memory), SyntaxError> {
    let mut splitter = Splitter::new(options.clone(), Memory::default());
    let result = slices.iter().try_for_each(|slice| splitter.push(slice)).and_then(|()| splitter.finish());
    result.map_err(|error| match error {
        Error::Syntax(error) => error,
        Error::Output(error) => panic!("{error}"),
    })
}

/// The pieces of a document by pointer, in document order.
pub(crate) struct Pieces(HashMap<String, VecDeque<String>>);

impl Pieces {
    pub(crate) fn new(document: &Document, output: &Memory) -> Self {
        let mut pieces = Self(HashMap::new());
        for (pointer, json) in document.kept.iter().chain(&document.inline) {
            pieces.add(pointer, json.clone());
        }
        for file in &output.files {
            pieces.add(&file.pointer, file.text.clone());
        }
        for line in output.rest.iter().flat_map(Written::lines) {
            let members = lro_json::members(line).expect("a line of the rest");
            let pointer: String = serde_json::from_str(members[0].value).expect("a string");
            pieces.add(&pointer, members[1].value.into());
        }
        pieces
    }

    fn add(&mut self, pointer: &str, json: String) {
        self.0.entry(pointer.into()).or_default().push_back(json);
    }

    /// Removes the piece at a pointer that satisfies `wanted`; duplicate keys may have gone different ways.
    pub(crate) fn take(&mut self, pointer: &str, wanted: impl Fn(&str) -> bool) -> bool {
        let Some(pieces) = self.0.get_mut(pointer) else { return false };
        let found = pieces.iter().position(|piece| wanted(piece));
        found.is_some_and(|index| pieces.remove(index).is_some())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.values().all(VecDeque::is_empty)
    }
}

/// `/` and the key, escaped as in RFC 6901.
pub(crate) fn token(key: &str) -> String {
    let key = key[1..key.len() - 1].replace("\\u0061", "a").replace("\\\"", "\"");
    format!("/{}", key.replace('~', "~0").replace('/', "~1"))
}
