//! The JSON of a query: objects with known members, and errors that name the place.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Least similarity, from 0 to 1, of a name that is suggested for an unknown one.
const SIMILARITY_MIN: f64 = 0.6;

/// Most characters of an unknown name in an error.
const SHOWN_CHARACTERS: usize = 60;

/// Known members of an object: the name of each, and its other names. Case, `_` and `-` in a name do not count.
pub type Known = [(&'static str, &'static [&'static str])];

/// Why a query cannot be read. The place is a path such as `where[0].value`; empty for the whole query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// It is not JSON.
    #[error("not JSON: {0}")]
    Syntax(String),
    /// A member, an operator or an aggregate function is not known.
    #[error("{}unknown {what} `{name}`; {}", at(.place), advice(*.near, .known))]
    Unknown {
        /// Where it is.
        place: String,
        /// What it would be: `member`, `operator` or `aggregate`.
        what: &'static str,
        /// The unknown name.
        name: String,
        /// The most similar name there is, if one is similar.
        near: Option<&'static str>,
        /// The names there are.
        known: Vec<&'static str>,
    },
    /// A value is not of the expected form.
    #[error("{}expected {expected}", at(.place))]
    Unexpected {
        /// Where it is.
        place: String,
        /// The expected form.
        expected: String,
    },
    /// Two members exclude each other, or one is there twice.
    #[error("{}{message}", at(.place))]
    Conflict {
        /// Where they are.
        place: String,
        /// Which.
        message: String,
    },
    /// The text of a condition cannot be read.
    #[error("{}at byte {offset} of the condition: {message}", at(.place))]
    Expression {
        /// Where the text is.
        place: String,
        /// Offset in the text, in bytes.
        offset: usize,
        /// What was expected, and what was found.
        message: String,
    },
}

fn at(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!("`{place}`: ") }
}

fn advice(near: Option<&str>, known: &[&str]) -> String {
    let suggestion = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
    let names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    format!("{suggestion}expected one of {}", names.join(", "))
}

impl QueryError {
    /// An unknown name, with the most similar of those there are.
    pub(super) fn unknown(place: &str, what: &'static str, name: &str, known: Vec<&'static str>) -> Self {
        let plain = squashed(name);
        let similarity = |known: &str| strsim::normalized_damerau_levenshtein(&plain, &squashed(known));
        let ranked = known.iter().map(|known| (similarity(known), *known));
        let best = ranked.max_by(|left, right| left.0.total_cmp(&right.0));
        let near = best.filter(|(similarity, _)| *similarity >= SIMILARITY_MIN).map(|(_, name)| name);
        Self::Unknown { place: place.to_owned(), what, name: shown(name), near, known }
    }
}

/// The beginning of a text, for an error or a note.
pub fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// A name without what spellings differ in: case, `_`, `-` and spaces.
pub(super) fn squashed(name: &str) -> String {
    // Longer than every known name; bounds the cost of a comparison.
    let beginning = name.chars().take(SHOWN_CHARACTERS);
    beginning.filter(|character| !matches!(character, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

/// A value of a query, and its place.
#[derive(Clone, Debug)]
pub struct Node<'a> {
    json: &'a RawValue,
    pub(super) place: String,
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    Text,
    Null,
    Other,
}

impl<'a> Node<'a> {
    /// The whole query.
    pub fn root(json: &'a RawValue) -> Self {
        Self { json, place: String::new() }
    }

    /// Reads JSON text.
    pub fn parse(text: &'a str) -> Result<Self, QueryError> {
        serde_json::from_str(text).map(Self::root).map_err(|error| QueryError::Syntax(error.to_string()))
    }

    /// Reads JSON inside a text at this place.
    pub(super) fn inner<'b>(&self, text: &'b str) -> Result<Node<'b>, QueryError> {
        Ok(Node { place: self.place.clone(), ..Node::parse(text)? })
    }

    pub(super) fn kind(&self) -> Kind {
        match self.json.get().as_bytes().first() {
            Some(b'{') => Kind::Object,
            Some(b'[') => Kind::Array,
            Some(b'"') => Kind::Text,
            Some(b'n') => Kind::Null,
            _ => Kind::Other,
        }
    }

    /// The JSON text.
    pub fn json(&self) -> &'a RawValue {
        self.json
    }

    /// The error for a value that is not of the expected form.
    pub fn unexpected(&self, expected: &str) -> QueryError {
        let found = shown(self.json.get());
        QueryError::Unexpected { place: self.place.clone(), expected: format!("{expected}, found {found}") }
    }

    fn as_a<T: Deserialize<'a>>(&self, expected: &str) -> Result<T, QueryError> {
        serde_json::from_str(self.json.get()).map_err(|_| self.unexpected(expected))
    }

    /// A text.
    pub fn text(&self) -> Result<String, QueryError> {
        self.as_a("a text")
    }

    /// `true` or `false`.
    pub fn boolean(&self) -> Result<bool, QueryError> {
        self.as_a("true or false")
    }

    /// A whole number, not negative.
    pub fn count<T: Deserialize<'a>>(&self) -> Result<T, QueryError> {
        self.as_a("a whole number, not negative")
    }

    /// A whole number.
    pub fn integer(&self) -> Result<i64, QueryError> {
        self.as_a("a whole number")
    }

    /// An object of any values.
    pub fn map(&self) -> Result<BTreeMap<String, Box<RawValue>>, QueryError> {
        self.as_a("an object")
    }

    /// The elements of an array.
    pub fn elements(&self) -> Result<Vec<Self>, QueryError> {
        let elements: Vec<&'a RawValue> = self.as_a("an array")?;
        let place = |index| format!("{}[{index}]", self.place);
        Ok(elements.into_iter().enumerate().map(|(index, json)| Self { json, place: place(index) }).collect())
    }

    /// The members of an object, of any names, in their order.
    pub(super) fn entries(&self, expected: &str) -> Result<Vec<(String, Self)>, QueryError> {
        let mut deserializer = serde_json::Deserializer::from_str(self.json.get());
        let entries = deserializer.deserialize_map(Entries).map_err(|_| self.unexpected(expected))?;
        let place = |name: &str| {
            let separator = if self.place.is_empty() { "" } else { "." };
            format!("{}{separator}{}", self.place, shown(name))
        };
        Ok(entries.into_iter().map(|(name, json)| (name.clone(), Self { json, place: place(&name) })).collect())
    }

    /// The members of an object, by their names in `known`.
    pub fn members(&self, expected: &str, known: &[&Known]) -> Result<Members<'a>, QueryError> {
        let known: Vec<_> = known.iter().flat_map(|known| known.iter()).collect();
        let mut members = Members { place: self.place.clone(), by_name: BTreeMap::new() };
        for (written, node) in self.entries(expected)? {
            let plain = squashed(&written);
            let is_spelled = |name: &str| squashed(name) == plain;
            let found =
                known.iter().find(|(name, others)| is_spelled(name) || others.iter().any(|name| is_spelled(name)));
            let Some((name, _)) = found else {
                let names = known.iter().map(|(name, _)| *name).collect();
                return Err(QueryError::unknown(&self.place, "member", &written, names));
            };
            if members.by_name.insert(*name, node).is_some() {
                return Err(members.conflict(format!("`{name}` is there twice")));
            }
        }
        Ok(members)
    }
}

/// The members of an object, by their known names.
#[derive(Debug)]
pub struct Members<'a> {
    place: String,
    by_name: BTreeMap<&'static str, Node<'a>>,
}

impl<'a> Members<'a> {
    /// Removes a member. A member that is null counts as missing.
    pub fn take(&mut self, name: &str) -> Option<Node<'a>> {
        self.take_any(name).filter(|node| node.kind() != Kind::Null)
    }

    /// Removes a member, null or not.
    pub(super) fn take_any(&mut self, name: &str) -> Option<Node<'a>> {
        self.by_name.remove(name)
    }

    /// Whether a member is there, null or not.
    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The names of the members that were not taken and are not null.
    pub fn names(&self) -> Vec<&'static str> {
        self.by_name.iter().filter(|(_, node)| node.kind() != Kind::Null).map(|(name, _)| *name).collect()
    }

    /// An optional `true` or `false`.
    pub fn boolean(&mut self, name: &str) -> Result<bool, QueryError> {
        self.take(name).map_or(Ok(false), |node| node.boolean())
    }

    /// An optional text.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, QueryError> {
        self.take(name).map(|node| node.text()).transpose()
    }

    pub(super) fn conflict(&self, message: String) -> QueryError {
        QueryError::Conflict { place: self.place.clone(), message }
    }

    pub(super) fn unexpected(&self, expected: &str) -> QueryError {
        QueryError::Unexpected { place: self.place.clone(), expected: expected.to_owned() }
    }
}

/// Reads the members of an object, the values unparsed.
struct Entries;

impl<'de> Visitor<'de> for Entries {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(entries)
    }
}
