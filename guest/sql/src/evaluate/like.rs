//! LIKE: `%` is any text, `_` any character.

use super::shown;
use crate::{Error, Value};

/// Whether a text is like a pattern, in time that grows with the product of their lengths at most.
pub(super) fn like(text: &Value, pattern: &Value, escape: Option<&Value>, ignore_case: bool) -> Result<Value, Error> {
    let (Some(text), Some(pattern)) = (text.to_text(), pattern.to_text()) else { return Ok(Value::Null) };
    let escape = match escape.and_then(Value::to_text) {
        Some(escape) if escape.chars().count() > 1 => {
            let message = format!("ESCAPE takes one character, not {}", shown(&Value::Text(escape)));
            return Err(Error::Value(message));
        }
        escape => escape.and_then(|escape| escape.chars().next()),
    };
    Ok(Value::Boolean(if ignore_case {
        matches(&text.to_lowercase(), &pattern.to_lowercase(), escape)
    } else {
        matches(&text, &pattern, escape)
    }))
}

/// One step of a pattern.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Text,
    Any,
    Exactly(char),
}

/// The first step of a pattern, and the rest.
fn step(pattern: &str, escape: Option<char>) -> Option<(Step, &str)> {
    let mut characters = pattern.chars();
    let step = match characters.next()? {
        first if Some(first) == escape => Step::Exactly(characters.next().unwrap_or(first)),
        '%' => Step::Text,
        '_' => Step::Any,
        first => Step::Exactly(first),
    };
    Some((step, characters.as_str()))
}

fn matches(mut text: &str, mut pattern: &str, escape: Option<char>) -> bool {
    // After the last `%`: the pattern there, and where it was last tried.
    let mut again: Option<(&str, &str)> = None;
    loop {
        let next = text.chars().next();
        let behind = next.map_or("", |next| text.get(next.len_utf8()..).unwrap_or_default());
        match (step(pattern, escape), next) {
            (Some((Step::Text, rest)), _) => {
                again = Some((rest, text));
                pattern = rest;
                continue;
            }
            (Some((Step::Any, rest)), Some(_)) => {
                (text, pattern) = (behind, rest);
                continue;
            }
            (Some((Step::Exactly(wanted), rest)), Some(next)) if wanted == next => {
                (text, pattern) = (behind, rest);
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        // The last `%` takes one character more.
        let Some((rest, tried)) = again else { return false };
        let Some(skipped) = tried.chars().next() else { return false };
        let tried = tried.get(skipped.len_utf8()..).unwrap_or_default();
        again = Some((rest, tried));
        (text, pattern) = (tried, rest);
    }
}
