//! The condition of a query: tests and their combination.

use std::borrow::Cow;
use std::cmp::Ordering;

use lro_json::masks::find_either;
use lro_json::walk::{self, Damaged};
use regex::Regex;

use crate::ExtractError;
use crate::bindings::lro::filter::types::{Condition, Operator, Test};
use crate::fields::{Elements, FieldId, Fields, any, any_element};
use crate::find::Record;
use crate::json::{checked, is_number};
use crate::key::{self, Case};
use crate::keys::{Keys, same};
use crate::number::{self, Decimal, Threshold};
use crate::numeric::with_number;
use crate::pattern::{self, builder};

/// Most steps of a condition: 256. Bounds the recursion depth.
pub const STEPS_MAX: usize = 256;

/// Longest regular expression, in bytes: 4 KiB.
pub const PATTERN_BYTES_MAX: usize = 4096;

/// Most memory of the values of one `one-of`, in bytes.
const VALUES_BYTES_MAX: usize = 4 << 20;

/// A compiled condition.
#[derive(Debug)]
pub(crate) struct Where {
    steps: Vec<Node>,
    /// For each step except tests, whether it holds for the current record, once that is known.
    known: Vec<Option<bool>>,
    /// Whether any of these steps refers to another.
    is_nested: bool,
    /// Scratch buffer for a key.
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum Node {
    Test(FieldId, Box<Check>),
    All(Vec<usize>),
    Any(Vec<usize>),
    Negation(usize),
}

/// A test of a value.
#[derive(Debug)]
enum Check {
    Exists,
    IsNull,
    Equal {
        to: Literal,
        equal: bool,
    },
    /// Whether the order of the value and the literal is one of these.
    Order {
        to: Literal,
        orders: &'static [Ordering],
    },
    OneOf {
        values: Keys,
        case: Case,
        has_numbers: bool,
    },
    Contains(Literal),
    StartsWith(Literal),
    Matches(Regex),
    /// Whether any value that these lead to passes.
    Any(Elements, Box<Self>),
}

/// A value of the query.
#[derive(Debug)]
struct Literal {
    kind: Kind,
    key: Vec<u8>,
    case: Case,
}

#[derive(Debug)]
enum Kind {
    /// A string, case-folded when the test ignores case.
    Text(Vec<u8>),
    Number(Box<Threshold>),
    Other,
}

impl Where {
    /// Compiles a condition; `None` for an empty one.
    pub(crate) fn new(conditions: &[Condition], fields: &mut Fields) -> Result<Option<Self>, ExtractError> {
        if conditions.len() > STEPS_MAX {
            return Err(ExtractError::Limit(format!("condition-steps: a condition has at most {STEPS_MAX} steps")));
        }
        let mut steps = Vec::new();
        for (index, condition) in conditions.iter().enumerate() {
            let fail = |why: String| ExtractError::Invalid(format!("where[{index}]: {why}"));
            let below = |step: &u32| match *step as usize {
                step if step < index => Ok(step),
                step => Err(fail(format!("step {step} does not come before the step that refers to it"))),
            };
            steps.push(match condition {
                Condition::Test(test) => {
                    let ((field, elements), check) =
                        (fields.add_with_elements(&test.field)?, check(test).map_err(fail)?);
                    let is_one = elements.is_empty();
                    Node::Test(field, Box::new(if is_one { check } else { Check::Any(elements, Box::new(check)) }))
                }
                Condition::All(steps) => Node::All(steps.iter().map(below).collect::<Result<_, _>>()?),
                Condition::Any(steps) => Node::Any(steps.iter().map(below).collect::<Result<_, _>>()?),
                Condition::Negation(step) => Node::Negation(below(step)?),
            });
        }
        let known = vec![None; steps.len()];
        let is_nested = steps.iter().filter(|step| !matches!(step, Node::Test(..))).count() > 1;
        Ok((!steps.is_empty()).then_some(Self { steps, known, is_nested, scratch: Vec::new() }))
    }

    /// Whether a record satisfies the condition.
    #[inline(always)]
    pub(crate) fn matches(&mut self, fields: &Fields, record: &Record<'_>) -> Result<bool, Damaged> {
        if self.is_nested {
            self.known.fill(None);
        }
        holds(&self.steps, self.steps.len() - 1, &mut self.known, &mut self.scratch, fields, record)
    }
}

/// Whether a step holds. A step other than a test is evaluated at most once, however many others refer to it.
fn holds(
    steps: &[Node],
    index: usize,
    known: &mut [Option<bool>],
    scratch: &mut Vec<u8>,
    fields: &Fields,
    record: &Record<'_>,
) -> Result<bool, Damaged> {
    // The first step with this result decides.
    let (among, wanted) = match steps.get(index) {
        Some(Node::Test(field, check)) => return passes(*field, check, scratch, fields, record),
        Some(Node::All(among)) => (among.as_slice(), false),
        Some(Node::Any(among)) => (among.as_slice(), true),
        Some(Node::Negation(step)) => (std::slice::from_ref(step), true),
        None => return Ok(false),
    };
    if let Some(Some(holds)) = known.get(index) {
        return Ok(*holds);
    }
    let mut result = !wanted;
    for &step in among {
        let holds = match steps.get(step) {
            Some(Node::Test(field, check)) => passes(*field, check, scratch, fields, record)?,
            _ => holds(steps, step, known, scratch, fields, record)?,
        };
        if holds == wanted {
            result = wanted;
            break;
        }
    }
    if matches!(steps.get(index), Some(Node::Negation(_))) {
        result = !result;
    }
    if index + 1 < known.len()
        && let Some(known) = known.get_mut(index)
    {
        *known = Some(result);
    }
    Ok(result)
}

#[inline(always)]
fn passes(
    field: FieldId,
    check: &Check,
    scratch: &mut Vec<u8>,
    fields: &Fields,
    record: &Record<'_>,
) -> Result<bool, Damaged> {
    match fields.value(record, field)? {
        Some(value) => check.passes(value, scratch),
        None => Ok(false),
    }
}

fn check(test: &Test) -> Result<Check, String> {
    let case = if test.ignore_case { Case::Insensitive } else { Case::Sensitive };
    if matches!(test.operator, Operator::Exists | Operator::IsNull) {
        return match (&test.value, test.operator) {
            (Some(_), _) => Err("this operator takes no value".to_owned()),
            (None, Operator::Exists) => Ok(Check::Exists),
            (None, _) => Ok(Check::IsNull),
        };
    }
    let value = test.value.as_deref().ok_or("this operator needs a value")?;
    let value = checked(value.trim_ascii().as_bytes()).map_err(|_| format!("value is not JSON: {value}"))?;
    let literal = || Literal::new(value, case).map_err(|_| "value is not JSON".to_owned());
    let text = || match literal()? {
        literal @ Literal { kind: Kind::Text(_), .. } => Ok(literal),
        _ => Err("this operator needs a string".to_owned()),
    };
    let ordered = |orders| match literal()? {
        Literal { kind: Kind::Other, .. } => Err("this operator needs a number or a string".to_owned()),
        to => Ok(Check::Order { to, orders }),
    };
    match test.operator {
        Operator::Eq => Ok(Check::Equal { to: literal()?, equal: true }),
        Operator::Ne => Ok(Check::Equal { to: literal()?, equal: false }),
        Operator::Lt => ordered(&[Ordering::Less]),
        Operator::Le => ordered(&[Ordering::Less, Ordering::Equal]),
        Operator::Gt => ordered(&[Ordering::Greater]),
        Operator::Ge => ordered(&[Ordering::Greater, Ordering::Equal]),
        Operator::OneOf => one_of(value, case),
        Operator::Contains => literal().map(Check::Contains),
        Operator::StartsWith => text().map(Check::StartsWith),
        Operator::Matches => pattern(value, case),
        Operator::Exists | Operator::IsNull => Err("this operator takes no value".to_owned()),
    }
}

fn one_of(value: &str, case: Case) -> Result<Check, String> {
    let elements = lro_json::elements(value).map_err(|_| "the value must be an array")?;
    let (mut values, mut key) = (Keys::new("one-of-bytes", VALUES_BYTES_MAX), Vec::new());
    let has_numbers = elements.iter().any(|element| is_number(element.as_bytes()));
    for element in elements {
        key.clear();
        key::push(&mut key, Some(element.as_bytes()), case).map_err(|_| "value is not JSON")?;
        values.index(&key).map_err(|_| "value is too large")?;
    }
    Ok(Check::OneOf { values, case, has_numbers })
}

fn pattern(value: &str, case: Case) -> Result<Check, String> {
    let text = match value.as_bytes().first() {
        Some(b'"') => walk::string(value.as_bytes(), 0).map_err(|_| "value is not JSON")?.unescaped(),
        _ => return Err("matches needs a string".to_owned()),
    };
    if text.len() > PATTERN_BYTES_MAX {
        return Err(format!("a regular expression has at most {PATTERN_BYTES_MAX} bytes"));
    }
    builder(&String::from_utf8_lossy(&text))
        .case_insensitive(case == Case::Insensitive)
        .build()
        .map(Check::Matches)
        .map_err(|error| format!("regular expression: {}", pattern::reason(&error)))
}

impl Literal {
    fn new(value: &str, case: Case) -> Result<Self, Damaged> {
        let text = value.as_bytes();
        let mut key = Vec::new();
        key::push(&mut key, Some(text), case)?;
        let kind = match text.first() {
            Some(b'"') => Kind::Text(content(text, case)?.into_owned()),
            _ if is_number(text) => Kind::Number(Box::new(Threshold::new(&Decimal::read(text, 0)?))),
            _ => Kind::Other,
        };
        Ok(Self { kind, key, case })
    }

    /// Compares a value with this literal; `None` for a value of another type. A text that is a number has both types.
    #[inline(always)]
    fn compare(&self, value: &[u8], scratch: &mut Vec<u8>) -> Result<Option<Ordering>, Damaged> {
        match (&self.kind, value.first()) {
            (Kind::Number(threshold), Some(b'-' | b'0'..=b'9')) => match number::short(value) {
                Some(short) => Ok(Some(threshold.compare(short))),
                None => self.compare_keys(value, scratch).map(Some),
            },
            (Kind::Number(_), Some(b'"')) => self.compare_number_in(value, scratch),
            (Kind::Text(text), Some(b'"')) => Ok(Some(content(value, self.case)?.as_ref().cmp(text))),
            _ => Ok(None),
        }
    }

    /// Compares the number that a string is, if it is one.
    #[inline(never)]
    fn compare_number_in(&self, string: &[u8], scratch: &mut Vec<u8>) -> Result<Option<Ordering>, Damaged> {
        with_number(string, |number| number.map(|number| self.compare_keys(number, scratch)).transpose())?
    }

    fn compare_keys(&self, value: &[u8], scratch: &mut Vec<u8>) -> Result<Ordering, Damaged> {
        scratch.clear();
        key::push(scratch, Some(value), self.case)?;
        Ok(scratch.as_slice().cmp(&self.key))
    }

    #[inline(always)]
    fn equals(&self, value: &[u8], scratch: &mut Vec<u8>) -> Result<bool, Damaged> {
        match self.kind {
            Kind::Other => Ok(self.compare_keys(value, scratch)?.is_eq()),
            Kind::Text(ref text) if value.first() == Some(&b'"') => Ok(same(&content(value, self.case)?, text)),
            _ => Ok(self.compare(value, scratch)? == Some(Ordering::Equal)),
        }
    }
}

/// The content of the string at the beginning of `value`.
#[inline(always)]
fn content(value: &[u8], case: Case) -> Result<Cow<'_, [u8]>, Damaged> {
    let text = walk::string(value, 0)?.unescaped();
    if case == Case::Insensitive { key::folded(&text).map(Cow::Owned) } else { Ok(text) }
}

impl Check {
    #[inline(always)]
    fn passes(&self, value: &[u8], scratch: &mut Vec<u8>) -> Result<bool, Damaged> {
        let is_string = value.first() == Some(&b'"');
        match self {
            Self::Exists => Ok(true),
            Self::IsNull => Ok(value.first() == Some(&b'n')),
            Self::Equal { to, equal } => Ok(to.equals(value, scratch)? == *equal),
            Self::Order { to, orders } => Ok(to.compare(value, scratch)?.is_some_and(|order| orders.contains(&order))),
            Self::OneOf { values, case, has_numbers } => {
                scratch.clear();
                key::push(scratch, Some(value), *case)?;
                Ok(values.contains(scratch) || *has_numbers && is_string && contains_number_in(value, values, scratch)?)
            }
            Self::Contains(part) => part.is_in(value, scratch),
            Self::StartsWith(Literal { kind: Kind::Text(prefix), case, .. }) if is_string => {
                Ok(content(value, *case)?.starts_with(prefix))
            }
            Self::Matches(pattern) if is_string => {
                let text = content(value, Case::Sensitive)?;
                Ok(pattern.is_match(std::str::from_utf8(&text).map_err(|_| Damaged)?))
            }
            Self::StartsWith(_) | Self::Matches(_) => Ok(false),
            Self::Any(elements, check) => check.any_passes(elements, value, scratch),
        }
    }

    #[inline(never)]
    fn any_passes(&self, elements: &Elements, value: &[u8], scratch: &mut Vec<u8>) -> Result<bool, Damaged> {
        any_element(value, elements, &mut |value| self.passes(value, scratch))
    }
}

impl Literal {
    /// Whether a string has this text inside, or an array has an element that has it inside or equals this literal.
    fn is_in(&self, value: &[u8], scratch: &mut Vec<u8>) -> Result<bool, Damaged> {
        match (value.first(), &self.kind) {
            (Some(b'"'), Kind::Text(part)) => Ok(has_part(&content(value, self.case)?, part)),
            (Some(b'['), _) => any(value, |element| match &self.kind {
                Kind::Text(part) if element.first() == Some(&b'"') => Ok(has_part(&content(element, self.case)?, part)),
                _ => self.equals(element, scratch),
            }),
            _ => Ok(false),
        }
    }
}

/// Whether a string is a number that is one of the values.
#[inline(never)]
fn contains_number_in(string: &[u8], values: &Keys, scratch: &mut Vec<u8>) -> Result<bool, Damaged> {
    with_number(string, |number| {
        let Some(number) = number else { return Ok(false) };
        scratch.clear();
        key::push(scratch, Some(number), Case::Sensitive)?;
        Ok(values.contains(scratch))
    })?
}

/// Whether `text` contains `part`.
fn has_part(text: &[u8], part: &[u8]) -> bool {
    let Some(&first) = part.first() else { return true };
    let mut at = 0;
    while let Some(found) = find_either(text, at, first, first) {
        match text.get(found..) {
            Some(rest) if rest.len() >= part.len() => {
                if rest.starts_with(part) {
                    return true;
                }
            }
            _ => return false,
        }
        at = found + 1;
    }
    false
}
