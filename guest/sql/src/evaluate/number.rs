//! Functions of numbers.

use super::{Function, shown};
use crate::value::Number;
use crate::{Error, Value};

/// Most digits after the point, or before it, that a number is rounded to: beyond, a floating point number has none.
const DIGITS_MAX: i128 = 300;

fn number(value: &Value) -> Result<Number, Error> {
    let missing = || Error::Value(format!("cannot compute with {}: use TRY_CAST(… AS DOUBLE)", shown(value)));
    value.number().ok_or_else(missing)
}

fn overflow() -> Error {
    Error::Value("an integer has more than 38 digits: use CAST(… AS DOUBLE)".to_owned())
}

/// An operator between two numbers. Division by zero is null.
pub(super) fn binary(function: &Function, left: &Value, right: &Value) -> Result<Value, Error> {
    let (left, right) = (number(left)?, number(right)?);
    if let (Number::Integer(left), Number::Integer(right)) = (left, right) {
        let integer = match function {
            Function::Add => left.checked_add(right),
            Function::Subtract => left.checked_sub(right),
            Function::Multiply => left.checked_mul(right),
            Function::IntegerDivide | Function::Modulo if right == 0 => return Ok(Value::Null),
            Function::IntegerDivide => left.checked_div(right),
            Function::Modulo => left.checked_rem(right),
            _ => return Ok(doubles(function, left as f64, right as f64)),
        };
        return integer.map(Value::Integer).ok_or_else(overflow);
    }
    Ok(doubles(function, left.double(), right.double()))
}

fn doubles(function: &Function, left: f64, right: f64) -> Value {
    Value::double(match function {
        Function::Add => left + right,
        Function::Subtract => left - right,
        Function::Multiply => left * right,
        Function::Divide | Function::IntegerDivide => left / right,
        Function::Modulo => left % right,
        _ => left.powf(right),
    })
}

/// A function of one number.
pub(super) fn unary(function: &Function, value: &Value) -> Result<Value, Error> {
    let number = number(value)?;
    Ok(match (function, number) {
        (Function::Negate, Number::Integer(integer)) => Value::Integer(integer.checked_neg().ok_or_else(overflow)?),
        (Function::Abs, Number::Integer(integer)) => Value::Integer(integer.checked_abs().ok_or_else(overflow)?),
        (Function::Sign, Number::Integer(integer)) => Value::Integer(integer.signum()),
        (Function::Sign, Number::Double(double)) => {
            Value::Integer(if double == 0.0 { 0 } else { double.signum() as i128 })
        }
        (Function::Floor | Function::Ceil | Function::Truncate, Number::Integer(integer)) => Value::Integer(integer),
        (function, number) => Value::double(match (function, number.double()) {
            (Function::Negate, double) => -double,
            (Function::Abs, double) => double.abs(),
            (Function::Floor, double) => double.floor(),
            (Function::Ceil, double) => double.ceil(),
            (Function::Truncate, double) => double.trunc(),
            (_, double) => double.sqrt(),
        }),
    })
}

/// Rounds to a number of digits after the point, or before it if negative; half away from zero.
pub(super) fn round(value: &Value, digits: Option<&Value>) -> Result<Value, Error> {
    let digits = match digits.map(number).transpose()? {
        Some(Number::Integer(digits)) => digits.clamp(-DIGITS_MAX, DIGITS_MAX) as i32,
        Some(Number::Double(double)) => double as i32,
        None => 0,
    };
    match number(value)? {
        Number::Integer(integer) if digits >= 0 => Ok(Value::Integer(integer)),
        Number::Integer(integer) => {
            let Some(unit) = 10_i128.checked_pow(digits.unsigned_abs()) else { return Ok(Value::Integer(0)) };
            let rest = integer % unit;
            let up = if rest.abs() >= unit - rest.abs() { integer.signum() * unit } else { 0 };
            (integer - rest).checked_add(up).map(Value::Integer).ok_or_else(overflow)
        }
        Number::Double(double) => {
            let unit = 10_f64.powi(digits);
            let rounded = (double * unit).round() / unit;
            Ok(Value::Double(if rounded.is_finite() { rounded } else { double }))
        }
    }
}

/// The nearest integer: of a number half to even, of a text half away from zero.
pub(super) fn integer(value: &Value) -> Option<Value> {
    let double = match value.number()? {
        Number::Integer(integer) => return Some(Value::Integer(integer)),
        Number::Double(double) => double,
    };
    let rounded = if matches!(value, Value::Text(_)) { double.round() } else { double.round_ties_even() };
    (rounded.abs() < i128::MAX as f64).then_some(Value::Integer(rounded as i128))
}
