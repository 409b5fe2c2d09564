//! Functions of texts. Characters are Unicode scalar values, counted from 1.

use std::rc::Rc;

use super::{Function, shown};
use crate::value::Number;
use crate::{Error, Value};

/// Longest text that a function may make, in bytes: 16 MiB, as a record.
const TEXT_BYTES_MAX: usize = 16 << 20;

/// Texts one after another, without nulls.
pub(super) fn concat(values: &[Value]) -> Result<Value, Error> {
    joined(values.iter().filter_map(Value::to_text).collect(), "")
}

/// Texts with the first one between them, without nulls.
pub(super) fn concat_with(values: &[Value]) -> Result<Value, Error> {
    let mut texts = values.iter().map(Value::to_text);
    match texts.next().flatten() {
        Some(separator) => joined(texts.flatten().collect(), &separator),
        None => Ok(Value::Null),
    }
}

fn joined(texts: Vec<Rc<str>>, separator: &str) -> Result<Value, Error> {
    let length: usize = texts.iter().map(|text| text.len() + separator.len()).sum();
    if length > TEXT_BYTES_MAX { Err(too_long()) } else { Ok(Value::text(texts.join(separator))) }
}

/// A function of arguments that are not null.
pub(super) fn call(function: &Function, values: &[Value]) -> Result<Value, Error> {
    let text = |index: usize| values.get(index).and_then(Value::to_text).unwrap_or_else(|| "".into());
    let count = |index: usize| values.get(index).map(count).transpose();
    let first = text(0);
    Ok(match function {
        Function::Join => concat(values)?,
        Function::Lower => Value::text(first.to_lowercase()),
        Function::Upper => Value::text(first.to_uppercase()),
        Function::Trim { start, end } => {
            let characters = values.get(1).and_then(Value::to_text).unwrap_or_else(|| " ".into());
            let removed = |character: char| characters.contains(character);
            let trimmed = if *start { first.trim_start_matches(removed) } else { &first };
            Value::text(if *end { trimmed.trim_end_matches(removed) } else { trimmed })
        }
        Function::Substring => substring(&first, count(1)?.unwrap_or(1), count(2)?),
        Function::Left => {
            let wanted = count(1)?.unwrap_or(0);
            let length = if wanted < 0 { characters(&first).saturating_add(wanted) } else { wanted };
            substring(&first, 1, Some(length.max(0)))
        }
        Function::Right => {
            let (all, wanted) = (characters(&first), count(1)?.unwrap_or(0));
            let length = if wanted < 0 { all.saturating_add(wanted) } else { wanted.min(all) }.max(0);
            substring(&first, all - length + 1, None)
        }
        Function::Replace => replace(&first, &text(1), &text(2))?,
        Function::Reverse => Value::text(first.chars().rev().collect::<String>()),
        Function::Contains => Value::Boolean(first.contains(&*text(1))),
        Function::StartsWith => Value::Boolean(first.starts_with(&*text(1))),
        Function::EndsWith => Value::Boolean(first.ends_with(&*text(1))),
        Function::Position => {
            let before = first.find(&*text(1)).and_then(|at| first.get(..at));
            Value::Integer(before.map_or(0, |before| i128::from(characters(before)) + 1))
        }
        Function::SplitPart => split_part(&first, &text(1), count(2)?.unwrap_or(1)),
        Function::Pad { left } => {
            pad(&first, count(1)?.unwrap_or(0), &values.get(2).map_or(" ".into(), |_| text(2)), *left)?
        }
        _ => Value::Null,
    })
}

fn characters(text: &str) -> i64 {
    text.chars().count() as i64
}

fn count(value: &Value) -> Result<i64, Error> {
    match value.number() {
        Some(Number::Integer(integer)) => Ok(integer.clamp(i128::from(i32::MIN), i128::from(i32::MAX)) as i64),
        Some(Number::Double(double)) => Ok(double.clamp(f64::from(i32::MIN), f64::from(i32::MAX)) as i64),
        None => Err(Error::Value(format!("{} is not a number of characters", shown(value)))),
    }
}

/// Characters from `start` on; a negative start counts from the end, a negative length goes back.
fn substring(text: &str, start: i64, length: Option<i64>) -> Value {
    let all = characters(text);
    let start = if start < 0 { all + start } else { start - 1 };
    let end = length.map_or(all, |length| start.saturating_add(length));
    let (from, to) = (start.min(end).clamp(0, all), start.max(end).clamp(0, all));
    let offset = |number: i64| {
        usize::try_from(number).ok().and_then(|number| text.char_indices().nth(number)).map_or(text.len(), |(at, _)| at)
    };
    Value::text(text.get(offset(from)..offset(to)).unwrap_or_default())
}

fn too_long() -> Error {
    Error::Limit(format!("text-bytes: a text would be longer than {TEXT_BYTES_MAX} bytes"))
}

fn replace(text: &str, from: &str, to: &str) -> Result<Value, Error> {
    if from.is_empty() {
        return Ok(Value::text(text));
    }
    let longer = to.len().saturating_sub(from.len()).saturating_mul(text.matches(from).count());
    if text.len().saturating_add(longer) > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    Ok(Value::text(text.replace(from, to)))
}

fn split_part(text: &str, separator: &str, number: i64) -> Value {
    if separator.is_empty() {
        return if number == 0 { Value::text("") } else { substring(text, number, Some(1)) };
    }
    let parts: Vec<&str> = text.split(separator).collect();
    let index = if number < 0 { parts.len() as i64 + number } else { number - 1 };
    Value::text(usize::try_from(index).ok().and_then(|index| parts.get(index)).copied().unwrap_or_default())
}

fn pad(text: &str, length: i64, fill: &str, left: bool) -> Result<Value, Error> {
    let missing = usize::try_from(length - characters(text)).unwrap_or(0);
    if missing == 0 {
        return Ok(substring(text, 1, Some(length.max(0))));
    }
    if missing.saturating_mul(4) > TEXT_BYTES_MAX {
        return Err(too_long());
    }
    let filled: String = if fill.is_empty() { String::new() } else { fill.chars().cycle().take(missing).collect() };
    let padded: Rc<str> = if left { format!("{filled}{text}") } else { format!("{text}{filled}") }.into();
    Ok(Value::Text(padded))
}
