//! Functions of jq that the interpreter has as definitions, some of dozens of steps, or that compile something for every value: here
//! each takes one step. What they give is the same, except that `fromjson` and `tonumber` take exactly one value.

use std::collections::BTreeSet;
use std::fmt::Write;

use jaq_core::box_iter::box_once;
use jaq_core::native::{Fun, bome, run, v};
use jaq_core::{Error, Native, ValR, ValT as _};
use jaq_json::{Num, Val, read};

use crate::jq::{self, Data};
use crate::regex;

/// The functions, in place of definitions and functions of the same name and number of arguments. Those that end in `_` are of
/// `defs.jq`: null for what is left to the definitions there.
pub(crate) fn functions() -> impl Iterator<Item = Fun<Data>> {
    let plain: [Fun<Data>; 18] = [
        run(("null", v(0), |_| box_once(Ok(Val::Null)))),
        run(("true", v(0), |_| box_once(Ok(Val::Bool(true))))),
        run(("false", v(0), |_| box_once(Ok(Val::Bool(false))))),
        run(("not", v(0), |cv| box_once(Ok(Val::Bool(!cv.1.as_bool()))))),
        ("empty", v(0), empty()),
        run(("type", v(0), |cv| box_once(Ok(Val::from(kind(&cv.1).to_owned()))))),
        run(("isboolean", v(0), |cv| box_once(Ok(Val::Bool(kind(&cv.1) == "boolean"))))),
        run(("isnumber", v(0), |cv| box_once(Ok(Val::Bool(kind(&cv.1) == "number"))))),
        run(("isstring", v(0), |cv| box_once(Ok(Val::Bool(kind(&cv.1) == "string"))))),
        run(("isarray", v(0), |cv| box_once(Ok(Val::Bool(kind(&cv.1) == "array"))))),
        run(("isobject", v(0), |cv| box_once(Ok(Val::Bool(kind(&cv.1) == "object"))))),
        run(("fromjson", v(0), |cv| bome(from_json(cv.1)))),
        run(("tonumber", v(0), |cv| bome(to_number(cv.1)))),
        run(("to_entries", v(0), |cv| bome(entries(cv.1)))),
        run(("without_", v(1), |mut cv| {
            let paths = cv.0.pop_var();
            box_once(Ok(without(&cv.1, &paths).unwrap_or_default()))
        })),
        run(("joined_", v(1), |mut cv| {
            let separator = cv.0.pop_var();
            let row = text(&separator).and_then(|separator| row(&cv.1, separator, String::push_str));
            box_once(Ok(row.unwrap_or_default()))
        })),
        run(("csv_", v(0), |cv| box_once(Ok(row(&cv.1, ",", push_quoted).unwrap_or_default())))),
        run(("tsv_", v(0), |cv| box_once(Ok(row(&cv.1, "\t", push_escaped).unwrap_or_default())))),
    ];
    plain.into_iter().chain(regex::functions())
}

/// No result, no path, and nothing to update.
fn empty() -> Native<Data> {
    let none = Native::new(|_| Box::new(std::iter::empty()));
    none.with_paths(|_| Box::new(std::iter::empty())).with_update(|cv, _| box_once(Ok(cv.1)))
}

/// The type of a value, as jq calls it.
fn kind(value: &Val) -> &'static str {
    match value {
        Val::Null => "null",
        Val::Bool(_) => "boolean",
        Val::Num(_) => "number",
        Val::TStr(_) | Val::BStr(_) => "string",
        Val::Arr(_) => "array",
        Val::Obj(_) => "object",
    }
}

fn from_json(value: Val) -> ValR<Val> {
    let Val::TStr(bytes) = &value else { return Err(Error::typ(value, "string")) };
    jq::record(bytes)
        .ok_or_else(|| Error::str(format_args!("cannot parse {value} as JSON: it has to be exactly one value")))
}

fn to_number(value: Val) -> ValR<Val> {
    match &value {
        Val::Num(_) => Ok(value),
        _ => text(&value)
            .and_then(number)
            .map(Val::Num)
            .ok_or_else(|| Error::str(format_args!("cannot parse {value} as a number: it has to be exactly one"))),
    }
}

/// The number that a text spells. Like jq, this takes some spellings that JSON does not have: `+1`, `007`, `.5`.
fn number(text: &str) -> Option<Num> {
    let text = text.trim_ascii();
    // Parsers of numbers also take words, such as `inf`.
    if !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')) {
        return None;
    }
    read::parse_single_num(text.as_bytes())
        .or_else(|| Num::from_str_radix(text, 10))
        .or_else(|| text.parse().ok().map(Num::Float))
}

fn entries(value: Val) -> ValR<Val> {
    let entry = |key, value| {
        Val::from_map([("key", key), ("value", value)].map(|(name, value)| (name.to_owned().into(), value)))
    };
    value.key_values().map(|member| member.and_then(|(key, value)| entry(key, value))).collect()
}

/// An object without some of its members, whose paths are given.
fn without(value: &Val, paths: &Val) -> Option<Val> {
    let (Val::Obj(members), Val::Arr(paths)) = (value, paths) else { return None };
    let key = |path: &Val| match path {
        Val::Arr(steps) => <[Val; 1]>::try_from(steps.to_vec()).ok().map(|[key]| key),
        _ => None,
    };
    let keys: BTreeSet<Val> = paths.iter().map(key).collect::<Option<_>>()?;
    let all_are_text = keys.iter().all(|key| matches!(key, Val::TStr(_)));
    let kept = members.iter().filter(|(key, _)| !keys.contains(*key));
    all_are_text.then(|| Val::obj(kept.map(|(key, value)| (key.clone(), value.clone())).collect()))
}

fn text(value: &Val) -> Option<&str> {
    let Val::TStr(bytes) = value else { return None };
    std::str::from_utf8(bytes).ok()
}

/// The cells of an array, if they are plain values.
fn row(array: &Val, separator: &str, push: fn(&mut String, &str)) -> Option<Val> {
    let Val::Arr(cells) = array else { return None };
    let mut row = String::new();
    for (index, cell) in cells.iter().enumerate() {
        if index > 0 {
            row.push_str(separator);
        }
        match cell {
            Val::Null => {}
            Val::Bool(true) => row.push_str("true"),
            Val::Bool(false) => row.push_str("false"),
            Val::Num(Num::Float(amount)) if !amount.is_finite() => return None,
            Val::Num(number) => write!(row, "{number}").ok()?,
            other => push(&mut row, text(other)?),
        }
    }
    Some(Val::utf8_str(row))
}

fn push_quoted(row: &mut String, text: &str) {
    row.push('"');
    row.push_str(&text.replace('"', "\"\""));
    row.push('"');
}

fn push_escaped(row: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\\' => row.push_str("\\\\"),
            '\t' => row.push_str("\\t"),
            '\n' => row.push_str("\\n"),
            '\r' => row.push_str("\\r"),
            other => row.push(other),
        }
    }
}
