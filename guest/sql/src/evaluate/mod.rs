//! Expressions over a row.

mod date;
mod like;
mod number;
mod text;

use std::cell::Cell;
use std::cmp::Ordering;
use std::rc::Rc;

pub(crate) use date::Unit;
use lro_json::path::{self, Step};
use lro_json::walk;

use crate::plan::Expression;
use crate::set::Set;
use crate::value::boolean;
use crate::{Error, Value};

/// An operator or function. A null argument makes the result null, unless it says something else.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Function {
    /// Three-valued.
    And,
    /// Three-valued.
    Or,
    Not,
    /// Conditions and values by turns, and the value otherwise.
    Case,
    /// The first argument that is not null.
    Coalesce,
    NullIf,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// Equal, where null is equal to null.
    Same,
    IsNull,
    IsTrue,
    IsFalse,
    In(Rc<Set>),
    /// In the values of the subquery with this number.
    InSubquery(usize),
    /// Text, pattern, and a text of one character that escapes wildcards.
    Like {
        ignore_case: bool,
    },
    Add,
    Subtract,
    Multiply,
    Divide,
    /// Of integers their whole quotient, of other numbers as [`Self::Divide`].
    IntegerDivide,
    Modulo,
    Power,
    Negate,
    Abs,
    /// A number, and digits after the point.
    Round,
    Floor,
    Ceil,
    Truncate,
    Sqrt,
    Sign,
    /// The greatest argument that is not null.
    Greatest,
    /// The least argument that is not null.
    Least,
    /// Null if an argument is.
    Join,
    /// Leaves out nulls.
    Concat,
    /// A separator, and texts; leaves out nulls.
    ConcatWith,
    Lower,
    Upper,
    /// Texts, and characters to remove.
    Trim {
        start: bool,
        end: bool,
    },
    /// Characters of a text, elements of an array.
    Length,
    /// A text, a start from 1 or from the end, and a length.
    Substring,
    Left,
    Right,
    Replace,
    Reverse,
    /// In a text a text, in an array an element.
    Contains,
    StartsWith,
    EndsWith,
    /// The place of a text in another, from 1; 0 without one.
    Position,
    /// A text, a separator, or an empty one for characters, and a number from 1 or from the end.
    SplitPart,
    /// A text, a length, and what to fill it with.
    Pad {
        left: bool,
    },
    DatePart(Unit),
    /// A unit, and a date.
    DateTrunc(Unit),
    /// Boundaries of a unit between two dates.
    DateDiff(Unit),
    /// A date and a format.
    DateText,
    /// Milliseconds since 1970.
    FromEpoch {
        per_second: i64,
    },
    /// A value inside an array or object.
    Path(Rc<[Step]>),
    Cast {
        to: Type,
        or_null: bool,
    },
}

/// A type of CAST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Boolean,
    Integer,
    Double,
    Text,
    Date,
    Timestamp,
    Json,
}

/// What expressions are evaluated with.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    pub(crate) subqueries: Vec<Answered>,
    /// Whether values were compared of which neither can be read as the type of the other.
    pub(crate) compared_types: Cell<bool>,
}

/// The result of a subquery.
#[derive(Clone, Debug)]
pub(crate) enum Answered {
    Value(Value),
    Set(Set),
}

/// A row: the values of each table.
pub(crate) type Row<'r> = [&'r [Value]];

impl Environment {
    /// The value of an expression for a row.
    pub(crate) fn value(&self, expression: &Expression, row: &Row<'_>) -> Result<Value, Error> {
        match expression {
            Expression::Value(value) => Ok(value.clone()),
            Expression::Column(table, column) => {
                let value = row.get(*table).and_then(|values| values.get(*column));
                Ok(value.cloned().unwrap_or(Value::Null))
            }
            Expression::Subquery(number) => match self.subqueries.get(*number) {
                Some(Answered::Value(value)) => Ok(value.clone()),
                _ => Ok(Value::Null),
            },
            // Replaced before the query runs.
            Expression::Aggregate(_) => Ok(Value::Null),
            Expression::Call(function, arguments) => self.call(function, arguments, row),
        }
    }

    /// Whether a condition holds for a row: neither false nor null.
    pub(crate) fn holds(&self, condition: &Expression, row: &Row<'_>) -> Result<bool, Error> {
        Ok(truth(&self.value(condition, row)?)? == Some(true))
    }

    /// Functions that need not evaluate all arguments, and those that take nulls.
    fn call(&self, function: &Function, arguments: &[Expression], row: &Row<'_>) -> Result<Value, Error> {
        let value = |index: usize| match arguments.get(index) {
            Some(argument) => self.value(argument, row),
            None => Ok(Value::Null),
        };
        Ok(match function {
            Function::And => logical(self.joined(arguments, row, false)?),
            Function::Or => logical(self.joined(arguments, row, true)?),
            Function::Not => logical(truth(&value(0)?)?.map(|truth| !truth)),
            Function::IsNull => Value::Boolean(value(0)?.is_null()),
            Function::IsTrue => Value::Boolean(truth(&value(0)?)? == Some(true)),
            Function::IsFalse => Value::Boolean(truth(&value(0)?)? == Some(false)),
            Function::Case => return self.case(arguments, row),
            Function::Coalesce => {
                for argument in arguments {
                    let value = self.value(argument, row)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Value::Null
            }
            Function::NullIf => {
                let (left, right) = (value(0)?, value(1)?);
                if self.compare(&left, &right) == Some(Ordering::Equal) { Value::Null } else { left }
            }
            Function::Same => {
                let (left, right) = (value(0)?, value(1)?);
                let both_null = left.is_null() && right.is_null();
                Value::Boolean(both_null || self.compare(&left, &right) == Some(Ordering::Equal))
            }
            Function::In(set) => logical(set.contains(&value(0)?)),
            Function::InSubquery(number) => match self.subqueries.get(*number) {
                Some(Answered::Set(set)) => logical(set.contains(&value(0)?)),
                _ => Value::Null,
            },
            Function::Equal => self.compared(&value(0)?, &value(1)?, Ordering::is_eq),
            Function::NotEqual => self.compared(&value(0)?, &value(1)?, Ordering::is_ne),
            Function::Less => self.compared(&value(0)?, &value(1)?, Ordering::is_lt),
            Function::LessEqual => self.compared(&value(0)?, &value(1)?, Ordering::is_le),
            Function::Greater => self.compared(&value(0)?, &value(1)?, Ordering::is_gt),
            Function::GreaterEqual => self.compared(&value(0)?, &value(1)?, Ordering::is_ge),
            Function::Path(steps) => inside(&value(0)?, steps)?,
            _ => {
                let mut values =
                    arguments.iter().map(|argument| self.value(argument, row)).collect::<Result<Vec<_>, _>>()?;
                match function {
                    Function::Concat => text::concat(&values)?,
                    Function::ConcatWith => text::concat_with(&values)?,
                    Function::Greatest | Function::Least => {
                        values.retain(|value| !value.is_null());
                        let by_order = |left: &Value, right: &Value| {
                            self.compare(left, right).unwrap_or_else(|| left.order(right))
                        };
                        let found = if *function == Function::Least {
                            values.into_iter().min_by(by_order)
                        } else {
                            values.into_iter().max_by(by_order)
                        };
                        found.unwrap_or(Value::Null)
                    }
                    _ if values.iter().any(Value::is_null) => Value::Null,
                    _ => strict(function, &values)?,
                }
            }
        })
    }

    /// AND, which ends at false, and OR, which ends at true.
    fn joined(&self, arguments: &[Expression], row: &Row<'_>, end: bool) -> Result<Option<bool>, Error> {
        let mut all = Some(!end);
        for argument in arguments {
            match truth(&self.value(argument, row)?)? {
                Some(truth) if truth == end => return Ok(Some(end)),
                Some(_) => {}
                None => all = None,
            }
        }
        Ok(all)
    }

    fn case(&self, arguments: &[Expression], row: &Row<'_>) -> Result<Value, Error> {
        for pair in arguments.chunks(2) {
            match pair {
                [condition, value] if self.holds(condition, row)? => return self.value(value, row),
                [otherwise] => return self.value(otherwise, row),
                _ => {}
            }
        }
        Ok(Value::Null)
    }

    fn compared(&self, left: &Value, right: &Value, holds: fn(Ordering) -> bool) -> Value {
        logical(self.compare(left, right).map(holds))
    }

    fn compare(&self, left: &Value, right: &Value) -> Option<Ordering> {
        let order = left.compare(right);
        if order.is_none() && !left.is_null() && !right.is_null() {
            self.compared_types.set(true);
        }
        order
    }
}

/// Functions of arguments that are not null.
fn strict(function: &Function, values: &[Value]) -> Result<Value, Error> {
    let null = Value::Null;
    let at = |index: usize| values.get(index).unwrap_or(&null);
    match function {
        Function::Add
        | Function::Subtract
        | Function::Multiply
        | Function::Divide
        | Function::IntegerDivide
        | Function::Modulo
        | Function::Power => number::binary(function, at(0), at(1)),
        Function::Negate
        | Function::Abs
        | Function::Floor
        | Function::Ceil
        | Function::Truncate
        | Function::Sqrt
        | Function::Sign => number::unary(function, at(0)),
        Function::Round => number::round(at(0), values.get(1)),
        Function::Length => length(at(0)),
        Function::Contains if matches!(at(0), Value::Json(_)) => has_element(at(0), at(1)),
        Function::DatePart(unit) => date::part(*unit, at(0)),
        Function::DateTrunc(unit) => date::truncate(*unit, at(0)),
        Function::DateDiff(unit) => date::difference(*unit, at(0), at(1)),
        Function::DateText => date::formatted(at(0), at(1)),
        Function::FromEpoch { per_second } => date::from_epoch(at(0), *per_second),
        Function::Cast { to, or_null } => match cast(at(0), *to) {
            Err(Error::Value(_)) if *or_null => Ok(Value::Null),
            cast => cast,
        },
        Function::Like { ignore_case } => like::like(at(0), at(1), values.get(2), *ignore_case),
        _ => text::call(function, values),
    }
}

fn logical(truth: Option<bool>) -> Value {
    truth.map_or(Value::Null, Value::Boolean)
}

/// The truth value of a condition.
fn truth(value: &Value) -> Result<Option<bool>, Error> {
    match value {
        Value::Null => Ok(None),
        Value::Boolean(boolean) => Ok(Some(*boolean)),
        Value::Integer(integer) => Ok(Some(*integer != 0)),
        Value::Double(double) => Ok(Some(*double != 0.0)),
        Value::Text(text) if boolean(text).is_some() => Ok(boolean(text)),
        Value::Time(_) | Value::Text(_) | Value::Json(_) => {
            Err(Error::Value(format!("{} is neither true nor false: compare it with something", shown(value))))
        }
    }
}

/// A value inside an array or object; null in other values.
fn inside(value: &Value, steps: &[Step]) -> Result<Value, Error> {
    let Value::Json(json) = value else { return Ok(Value::Null) };
    match path::find(json.as_bytes(), 0, steps)? {
        Some(at) => Ok(Value::read(json.as_bytes().get(at..).unwrap_or_default())?),
        None => Ok(Value::Null),
    }
}

fn length(value: &Value) -> Result<Value, Error> {
    let length = match value {
        Value::Json(json) if json.starts_with('[') => {
            let mut elements = 0;
            walk::elements(json.as_bytes(), 0, |_| {
                elements += 1;
                Ok(())
            })?;
            elements
        }
        value => value.to_text().map_or(0, |text| text.chars().count()),
    };
    Ok(Value::Integer(length as i128))
}

fn has_element(array: &Value, element: &Value) -> Result<Value, Error> {
    let Value::Json(json) = array else { return Ok(Value::Null) };
    if !json.starts_with('[') {
        return Ok(Value::Boolean(false));
    }
    let mut has = false;
    walk::elements(json.as_bytes(), 0, |at| {
        let value = Value::read(json.as_bytes().get(at..).unwrap_or_default())?;
        has |= value.compare(element) == Some(Ordering::Equal);
        Ok(())
    })?;
    Ok(Value::Boolean(has))
}

/// CAST of a value that is not null.
pub(crate) fn cast(value: &Value, to: Type) -> Result<Value, Error> {
    let fails = |kind: &str| Error::Value(format!("{} is not {kind}: use TRY_CAST to get null", shown(value)));
    Ok(match to {
        Type::Text => value.to_text().map_or(Value::Null, Value::Text),
        Type::Boolean => match value {
            Value::Time(_) | Value::Json(_) => return Err(fails("a truth value")),
            Value::Text(text) => Value::Boolean(boolean(text).ok_or_else(|| fails("a truth value"))?),
            other => logical(truth(other)?),
        },
        Type::Integer => number::integer(value).ok_or_else(|| fails("an integer"))?,
        Type::Double => Value::double(value.number().ok_or_else(|| fails("a number"))?.double()),
        Type::Date => date::to_date(value)?,
        Type::Timestamp => date::to_timestamp(value)?,
        Type::Json => match value {
            Value::Text(text) => {
                lro_json::validate(text).map_err(|_| fails("JSON"))?;
                Value::read(text.trim_start().as_bytes())?
            }
            other => other.clone(),
        },
    })
}

/// A value in an error, shortened.
pub(crate) fn shown(value: &Value) -> String {
    const SHOWN_CHARACTERS: usize = 60;
    let text = value.to_text().unwrap_or_else(|| "null".into());
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("`{}…`", text.get(..end).unwrap_or_default()),
        None => format!("`{text}`"),
    }
}
