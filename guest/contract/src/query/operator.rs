//! Comparison operators as they are written, and the conditions they stand for.

use serde_json::value::RawValue;

use super::document::squashed;
use super::{Condition, Operator, Test};

/// The operators as documented.
pub const OPERATORS: [&str; 13] =
    ["eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "starts_with", "ends_with", "matches", "exists", "is_null"];

/// What a written operator stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comparison {
    kind: ComparisonKind,
    negated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ComparisonKind {
    Operator(Operator),
    /// `matches`, with the text and the end of the string as its pattern.
    EndsWith,
    /// There, and not null.
    NotNull,
}

/// What a field is compared with, and how.
#[derive(Debug, Default)]
pub(super) struct Operand {
    pub(super) value: Option<Box<RawValue>>,
    pub(super) ignore_case: bool,
    pub(super) parameter: Option<String>,
}

impl Comparison {
    /// Reads an operator: a sign, or a word in any spelling such as `startsWith`, `not_in` or `$gte`.
    pub(super) fn of(written: &str) -> Option<Self> {
        let plain = squashed(written.strip_prefix('$').unwrap_or(written));
        let operator = |name: &str| kind(name).map(|kind| Self { kind, negated: false });
        let negation = || Some(Self { kind: kind(plain.strip_prefix("not")?)?, negated: true });
        operator(&plain).or_else(negation)
    }

    /// Whether a list stands to the right of it.
    pub(super) fn takes_list(self) -> bool {
        self.kind == ComparisonKind::Operator(Operator::In)
    }

    /// Whether nothing stands to the right of it.
    pub(super) fn takes_nothing(self) -> bool {
        use ComparisonKind::{NotNull, Operator as Is};
        matches!(self.kind, NotNull | Is(Operator::Exists | Operator::IsNull))
    }

    /// The condition for a field. An operator without a value also takes `true`, and `false` for its opposite.
    pub(super) fn condition(self, field: String, operand: Operand) -> Result<Condition, &'static str> {
        let Operand { mut value, ignore_case, parameter } = operand;
        let mut kind = self.kind;
        let mut negated = self.negated;
        if self.takes_nothing() && parameter.is_none() {
            match value.take().as_ref().map(|value| value.get()) {
                None | Some("true") => {}
                Some("false") if kind == ComparisonKind::Operator(Operator::IsNull) => kind = ComparisonKind::NotNull,
                Some("false") if kind == ComparisonKind::NotNull => kind = ComparisonKind::Operator(Operator::IsNull),
                Some("false") => negated = !negated,
                Some(_) => return Err("no value: this operator takes none"),
            }
        }
        let op = match kind {
            ComparisonKind::Operator(op) => op,
            ComparisonKind::NotNull => {
                value = RawValue::from_string("null".to_owned()).ok();
                Operator::Ne
            }
            ComparisonKind::EndsWith if parameter.is_some() => {
                return Err("another operator: `ends_with` takes no `parameter`");
            }
            ComparisonKind::EndsWith => {
                value = value.and_then(|value| pattern_of_end(&value));
                if value.is_none() {
                    return Err("a text: `ends_with` takes no other value");
                }
                Operator::Matches
            }
        };
        let test = Condition::Test(Test { field, op, value, ignore_case, parameter });
        Ok(if negated { Condition::Not(Box::new(test)) } else { test })
    }
}

fn kind(plain: &str) -> Option<ComparisonKind> {
    use ComparisonKind::Operator as Is;
    Some(match plain {
        "=" | "==" | "===" | "eq" | "equals" | "equal" => Is(Operator::Eq),
        "!=" | "<>" | "!==" | "ne" | "neq" | "notequals" | "notequal" => Is(Operator::Ne),
        "<" | "lt" | "lessthan" => Is(Operator::Lt),
        "<=" | "le" | "lte" | "lessthanorequal" => Is(Operator::Le),
        ">" | "gt" | "greaterthan" => Is(Operator::Gt),
        ">=" | "ge" | "gte" | "greaterthanorequal" => Is(Operator::Ge),
        "in" | "isin" | "oneof" => Is(Operator::In),
        "contains" | "includes" => Is(Operator::Contains),
        "startswith" | "beginswith" => Is(Operator::StartsWith),
        "endswith" => ComparisonKind::EndsWith,
        "=~" | "~" | "matches" | "match" | "regex" | "regexp" => Is(Operator::Matches),
        "exists" => Is(Operator::Exists),
        "isnull" => Is(Operator::IsNull),
        "isnotnull" | "notnull" => ComparisonKind::NotNull,
        _ => return None,
    })
}

/// The JSON of a pattern that matches where a string ends with the text.
fn pattern_of_end(text: &RawValue) -> Option<Box<RawValue>> {
    let text: String = serde_json::from_str(text.get()).ok()?;
    let mut pattern = String::with_capacity(text.len() + 1);
    for character in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern.push('$');
    RawValue::from_string(serde_json::Value::from(pattern).to_string()).ok()
}
