//! Conditions as text, such as `lat > 70 and (state == "AK" or not name starts with 'A')`.
//!
//! ```text
//! any        = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" any ")" | "exists" field | field comparison
//! comparison = "exists" | "is" [ "not" ] "null" | [ "not" ] "in" list | [ "not" ] operator value
//! list       = "[" value { "," value } "]" | "(" value { "," value } ")"
//! ```
//!
//! A field is a bare name with dots, a JSON Pointer, or any name in double quotes or backticks. A value is JSON, or a
//! text in single quotes. `&&`, `||` and `!` stand for the words.

use serde_json::value::RawValue;

use super::Condition;
use super::document::{QueryError, shown};
use super::operator::{Comparison, OPERATORS, Operand};
use super::read::DEPTH_MAX;

/// Levels that `or` and `and` can add to a condition.
const JOINS: usize = 2;

/// Why a text is not a condition.
#[derive(Debug)]
pub(super) struct Problem {
    offset: usize,
    message: String,
}

impl Problem {
    /// The error for a text at a place of the query.
    pub(super) fn at(self, place: &str) -> QueryError {
        QueryError::Expression { place: place.to_owned(), offset: self.offset, message: self.message }
    }
}

/// Reads a condition that is inside this many others.
pub(super) fn parse(text: &str, depth: usize) -> Result<Condition, Problem> {
    let mut parser = Parser { text, rest: text, depth: depth + JOINS };
    let condition = parser.any()?;
    match parser.peek() {
        None => Ok(condition),
        Some(_) => Err(parser.expected("`and`, `or` or the end")),
    }
}

impl Condition {
    /// Reads a condition as text, such as `lat > 70 and state == "AK"`. Values are JSON, or texts in single quotes.
    ///
    /// # Errors
    /// [`QueryError::Expression`], with the offset of the first byte that does not fit.
    pub fn of_expression(text: &str) -> Result<Self, QueryError> {
        parse(text, 0).map_err(|problem| problem.at(""))
    }

    /// Reads `FIELD OPERATOR VALUE`. A value that is not JSON is a text, to the end and without quotes.
    ///
    /// # Errors
    /// [`QueryError::Expression`] and [`QueryError::Unexpected`].
    pub fn of_words(text: &str) -> Result<Self, QueryError> {
        let mut parser = Parser { text, rest: text.trim_start(), depth: 0 };
        let field = parser.first_word().map_err(|problem| problem.at(""))?;
        if parser.peek().is_none() {
            let expected = format!("FIELD OPERATOR VALUE, found {}", shown(text));
            return Err(QueryError::Unexpected { place: String::new(), expected });
        }
        let comparison = parser.comparison().map_err(|problem| problem.at(""))?;
        let value = Some(parser.rest.trim()).filter(|text| !text.is_empty()).and_then(json_or_text);
        comparison
            .condition(field, Operand { value, ..Operand::default() })
            .map_err(|expected| QueryError::Unexpected { place: String::new(), expected: expected.to_owned() })
    }
}

/// JSON as it is, anything else as a string.
fn json_or_text(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(text.to_owned()).ok().or_else(|| json_string(text))
}

fn json_string(text: &str) -> Option<Box<RawValue>> {
    RawValue::from_string(serde_json::Value::from(text).to_string()).ok()
}

struct Parser<'a> {
    text: &'a str,
    /// What is left of the text.
    rest: &'a str,
    /// Most levels of conditions around the rest.
    depth: usize,
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<Condition, Problem> {
        let mut conditions = vec![self.all()?];
        while self.word("or") || self.sign("||") {
            conditions.push(self.all()?);
        }
        Ok(Condition::joined(conditions, Condition::Any))
    }

    fn all(&mut self) -> Result<Condition, Problem> {
        let mut conditions = vec![self.one()?];
        while self.word("and") || self.sign("&&") {
            conditions.push(self.one()?);
        }
        Ok(Condition::joined(conditions, Condition::All))
    }

    fn one(&mut self) -> Result<Condition, Problem> {
        if self.depth >= DEPTH_MAX {
            return Err(self.problem(format!("more than {DEPTH_MAX} levels of conditions")));
        }
        let outer = self.depth;
        let condition = if self.word("not") || self.sign("!") {
            self.depth += 1;
            Condition::Not(Box::new(self.one()?))
        } else if self.sign("(") {
            self.depth += JOINS;
            let inner = self.any()?;
            self.closing(")")?;
            inner
        } else if self.word("exists") {
            let is_bracketed = self.sign("(");
            let field = self.field()?;
            if is_bracketed {
                self.closing(")")?;
            }
            self.condition("exists", field)?
        } else {
            let field = self.field()?;
            self.test(field)?
        };
        self.depth = outer;
        Ok(condition)
    }

    fn condition(&self, operator: &str, field: String) -> Result<Condition, Problem> {
        let condition = Comparison::of(operator).map(|comparison| comparison.condition(field, Operand::default()));
        condition.and_then(Result::ok).ok_or_else(|| self.expected("an operator"))
    }

    fn test(&mut self, field: String) -> Result<Condition, Problem> {
        let comparison = self.comparison()?;
        let value = if comparison.takes_nothing() {
            None
        } else if comparison.takes_list() {
            Some(self.list()?)
        } else {
            Some(self.value()?)
        };
        let value = value.and_then(|json| RawValue::from_string(json).ok());
        comparison
            .condition(field, Operand { value, ..Operand::default() })
            .map_err(|expected| self.problem(format!("expected {expected}")))
    }

    /// An operator: a sign, or one or more words.
    fn comparison(&mut self) -> Result<Comparison, Problem> {
        self.rest = self.rest.trim_start();
        let start = self.rest;
        let sign = self.take_while(|character| "=<>!~".contains(character));
        let comparison = if sign.is_empty() { self.operator_words() } else { Comparison::of(sign) };
        comparison.ok_or_else(|| {
            self.rest = start;
            self.expected(&format!("one of the operators = != < <= > >= {}", OPERATORS.join(" ")))
        })
    }

    fn operator_words(&mut self) -> Option<Comparison> {
        if self.word("is") {
            let operator = if self.word("not") { "is_not_null" } else { "is_null" };
            return if self.word("null") { Comparison::of(operator) } else { None };
        }
        let negation = if self.word("not") { "not_" } else { "" };
        self.rest = self.rest.trim_start();
        let word = self.take_while(|character| character.is_ascii_alphabetic() || matches!(character, '_' | '-'));
        let second = if self.word("with") { "_with" } else { "" };
        Comparison::of(&format!("{negation}{word}{second}"))
    }

    /// The name of a field.
    fn field(&mut self) -> Result<String, Problem> {
        self.rest = self.rest.trim_start();
        match self.peek() {
            Some('"') => {
                let start = self.rest;
                let name = serde_json::from_str(self.json()?);
                name.map_err(|_| {
                    self.rest = start;
                    self.expected("a field")
                })
            }
            Some('`') => {
                let (name, rest) =
                    self.rest.split_at(1).1.split_once('`').ok_or_else(|| self.expected("a field in backticks"))?;
                self.rest = rest;
                Ok(name.to_owned())
            }
            Some('/') => Ok(self.take_while(|character| !is_delimiter(character)).to_owned()),
            _ => self.bare_field(),
        }
    }

    fn bare_field(&mut self) -> Result<String, Problem> {
        let start = self.rest;
        let is_of_name = |character: char| character.is_alphanumeric() || "_-.$@#:".contains(character);
        let mut name = self.take_while(is_of_name).to_owned();
        // Steps such as `[0]` and `["a key"]`.
        while !name.is_empty() && self.rest.starts_with('[') {
            let (step, rest) = self.rest.split_once(']').ok_or_else(|| self.expected("`]` after a step of a field"))?;
            self.rest = rest;
            name.push_str(step);
            name.push(']');
            name.push_str(self.take_while(is_of_name));
        }
        let keyword = ["and", "or", "not", "in", "is", "exists"].iter().any(|word| name.eq_ignore_ascii_case(word));
        if name.is_empty() || keyword || serde_json::from_str::<&RawValue>(&name).is_ok() {
            self.rest = start;
            let hint = match (name.is_empty(), keyword) {
                (false, false) => ", and the value to the right of the operator",
                (false, true) => "; a field of this name is written in double quotes",
                (true, _) if start.starts_with('\'') => "; names are in double quotes, texts in single quotes",
                (true, _) => "",
            };
            return Err(self.expected_and("a field", hint));
        }
        Ok(name)
    }

    /// The field of `FIELD OPERATOR VALUE`: as elsewhere, or anything up to a space.
    fn first_word(&mut self) -> Result<String, Problem> {
        let start = self.rest;
        let ends = |rest: &str| rest.starts_with(|next: char| next.is_whitespace() || "=<>!~".contains(next));
        if let Ok(field) = self.field()
            && (self.rest.is_empty() || ends(self.rest))
        {
            return Ok(field);
        }
        self.rest = start;
        match self.take_while(|character| !character.is_whitespace()) {
            "" => Err(self.expected("FIELD OPERATOR VALUE")),
            word => Ok(word.to_owned()),
        }
    }

    /// A list as a JSON array.
    fn list(&mut self) -> Result<String, Problem> {
        let end = if self.sign("[") {
            "]"
        } else if self.sign("(") {
            ")"
        } else {
            return Err(self.expected("a list such as [1, 2] or (\"a\", \"b\")"));
        };
        let mut json = String::from("[");
        while !self.sign(end) {
            if json.len() > 1 {
                self.closing(",")?;
                json.push(',');
            }
            json.push_str(&self.value()?);
        }
        json.push(']');
        Ok(json)
    }

    /// A value as JSON.
    fn value(&mut self) -> Result<String, Problem> {
        self.rest = self.rest.trim_start();
        let start = self.rest;
        match self.peek() {
            Some('\'') => self.quoted(),
            Some('"' | '[' | '{') => self.json().map(str::to_owned),
            _ => {
                let word = self.take_while(|character| !character.is_whitespace() && !"()[],".contains(character));
                let lower = word.to_ascii_lowercase();
                let is_name = matches!(lower.as_str(), "true" | "false" | "null");
                if is_name {
                    return Ok(lower);
                }
                if serde_json::from_str::<&RawValue>(word).is_ok() {
                    return Ok(word.to_owned());
                }
                self.rest = start;
                let hint =
                    if word.is_empty() { String::new() } else { format!(": quote it, as in \"{}\"", shown(word)) };
                Err(self.expected_and("a value", &hint))
            }
        }
    }

    /// A text in single quotes. Two of them, or one after a backslash, stand for one.
    fn quoted(&mut self) -> Result<String, Problem> {
        let start = self.rest;
        let mut text = String::new();
        let mut rest = self.rest.strip_prefix('\'').unwrap_or_default();
        while let Some(at) = rest.find('\'') {
            let (before, after) = rest.split_at(at);
            let after = after.strip_prefix('\'').unwrap_or_default();
            if let Some(before) = before.strip_suffix('\\') {
                text.push_str(before);
                rest = after;
            } else if let Some(after) = after.strip_prefix('\'') {
                text.push_str(before);
                rest = after;
            } else {
                text.push_str(before);
                self.rest = after;
                return Ok(serde_json::Value::from(text).to_string());
            }
            text.push('\'');
        }
        self.rest = start;
        Err(self.expected("a closing single quote"))
    }

    /// A JSON string, array or object, as it is written.
    fn json(&mut self) -> Result<&'a str, Problem> {
        let mut values = serde_json::Deserializer::from_str(self.rest).into_iter::<&'a RawValue>();
        let value = values.next().and_then(Result::ok).map(RawValue::get);
        let end = values.byte_offset();
        let value = value.ok_or_else(|| self.expected("a JSON value"))?;
        self.rest = self.rest.get(end..).unwrap_or_default();
        Ok(value)
    }

    fn peek(&self) -> Option<char> {
        self.rest.trim_start().chars().next()
    }

    /// Takes a keyword, whatever its case.
    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest.trim_start();
        let Some((found, after)) = rest.split_at_checked(word.len()) else { return false };
        let ends = !after.starts_with(|next: char| next.is_alphanumeric() || "_-.$@#:".contains(next));
        let is_there = found.eq_ignore_ascii_case(word) && ends;
        if is_there {
            self.rest = after;
        }
        is_there
    }

    /// Takes a sign.
    fn sign(&mut self, sign: &str) -> bool {
        let after = self.rest.trim_start().strip_prefix(sign);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn closing(&mut self, sign: &str) -> Result<(), Problem> {
        if self.sign(sign) { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    fn take_while(&mut self, holds: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|character| !holds(character)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }

    fn expected(&self, expected: &str) -> Problem {
        self.expected_and(expected, "")
    }

    fn expected_and(&self, expected: &str, hint: &str) -> Problem {
        let found = self.rest.trim_start();
        let found = if found.is_empty() { "the end".to_owned() } else { format!("`{}`", shown(found)) };
        self.problem(format!("expected {expected}, found {found}{hint}"))
    }

    fn problem(&self, message: String) -> Problem {
        Problem { offset: self.text.len() - self.rest.trim_start().len(), message }
    }
}

/// Whether a character ends a JSON Pointer.
fn is_delimiter(character: char) -> bool {
    character.is_whitespace() || "=<>!(),".contains(character)
}
