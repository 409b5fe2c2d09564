//! The functions that `test`, `match`, `capture`, `scan`, `split`, `sub` and `gsub` are made of. Those of the interpreter compile their
//! regular expression for every value anew.

use std::cell::RefCell;
use std::rc::Rc;

use jaq_core::native::{Fun, bome, run, v};
use jaq_core::{Cv, Error, ValR, ValT as _};
use jaq_json::Val;
use jaq_std::ValT as _;
use regex_bites::bytes::{Captures, Regex, RegexBuilder};

use crate::jq::Data;

/// Compiled expressions that are kept. Programs have few; one that makes them of its input compiles them again.
const KEPT_MAX: usize = 8;

/// The functions, each of an expression and its flags.
pub(crate) fn functions() -> [Fun<Data>; 4] {
    [
        run(("test", v(2), |cv| bome(is_match(cv)))),
        run(("matches", v(2), |cv| bome(parts(cv, false, true)))),
        run(("split_matches", v(2), |cv| bome(parts(cv, true, true)))),
        run(("split_", v(2), |cv| bome(parts(cv, true, false)))),
    ]
}

struct Expression {
    pattern: String,
    flags: String,
    regex: Regex,
    /// Whether all matches count, not the first alone.
    is_global: bool,
    ignores_empty: bool,
}

impl Expression {
    fn new(pattern: &str, flags: &str) -> Result<Self, Error<Val>> {
        let mut builder = RegexBuilder::new(pattern);
        let (mut is_global, mut ignores_empty) = (false, false);
        for flag in flags.chars() {
            match flag {
                'g' => is_global = true,
                'n' => ignores_empty = true,
                'i' => _ = builder.case_insensitive(true),
                'm' => _ = builder.multi_line(true),
                's' => _ = builder.dot_matches_new_line(true),
                'l' => _ = builder.swap_greed(true),
                'x' => _ = builder.ignore_whitespace(true),
                'p' => _ = builder.multi_line(true).dot_matches_new_line(true),
                other => return Err(Error::str(format_args!("invalid regex flag: {other}"))),
            }
        }
        let regex = builder.build().map_err(|error| Error::str(format_args!("invalid regex: {error}")))?;
        Ok(Self { pattern: pattern.to_owned(), flags: flags.to_owned(), regex, is_global, ignores_empty })
    }
}

thread_local! {
    /// The one used last comes first.
    static KEPT: RefCell<Vec<Rc<Expression>>> = const { RefCell::new(Vec::new()) };
}

fn expression(pattern: &str, flags: &str) -> Result<Rc<Expression>, Error<Val>> {
    KEPT.with_borrow_mut(|kept| {
        match kept.iter().position(|one| one.pattern == pattern && one.flags == flags) {
            Some(at) => kept[..=at].rotate_right(1),
            None => {
                let new = Rc::new(Expression::new(pattern, flags)?);
                kept.truncate(KEPT_MAX - 1);
                kept.insert(0, new);
            }
        }
        Ok(Rc::clone(&kept[0]))
    })
}

/// The expression of a call.
fn of_call(cv: &mut Cv<'_, Data>) -> Result<Rc<Expression>, Error<Val>> {
    let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
    expression(text(&pattern)?, text(&flags)?)
}

fn text(value: &Val) -> Result<&str, Error<Val>> {
    std::str::from_utf8(bytes(value)?).map_err(Error::str)
}

fn bytes(value: &Val) -> Result<&[u8], Error<Val>> {
    match value {
        Val::TStr(bytes) => Ok(bytes),
        other => Err(Error::typ(other.clone(), "string")),
    }
}

/// Whether there is a match that counts.
fn is_match(mut cv: Cv<'_, Data>) -> ValR<Val> {
    let expression = of_call(&mut cv)?;
    let input = bytes(&cv.1)?;
    Ok(Val::Bool(if expression.ignores_empty {
        expression.regex.find_iter(input).any(|found| !found.is_empty())
    } else {
        expression.regex.is_match(input)
    }))
}

/// The array of what is asked for: texts between matches, and for each match the array of its groups.
fn parts(mut cv: Cv<'_, Data>, between: bool, matches: bool) -> ValR<Val> {
    let expression = of_call(&mut cv)?;
    let input = bytes(&cv.1)?;
    let (mut parts, mut last_end) = (Vec::new(), 0);
    let (mut counted, mut characters) = (0, 0);
    for captures in expression.regex.captures_iter(input) {
        let Some(whole) = captures.get(0) else { break };
        if expression.ignores_empty && whole.is_empty() {
            continue;
        }
        if between {
            parts.push(cv.1.as_sub_str(&input[last_end..whole.start()]));
            last_end = whole.end();
        }
        if matches {
            characters += count(&input[counted..whole.start()]);
            counted = whole.start();
            parts.push(groups(&cv.1, &captures, &expression.regex, &input[counted..], characters)?);
        }
        if !expression.is_global {
            break;
        }
    }
    if between {
        parts.push(cv.1.as_sub_str(&input[last_end..]));
    }
    Ok(parts.into_iter().collect())
}

/// The groups of a match in a text, as jq shows them. `rest` is the text from the match on, which begins behind so many characters.
fn groups(text: &Val, captures: &Captures<'_>, regex: &Regex, rest: &[u8], characters: usize) -> ValR<Val> {
    let start = captures.get(0).map_or(0, |whole| whole.start());
    let groups = captures.iter().zip(regex.capture_names()).filter_map(|(group, name)| Some((group?, name)));
    let objects = groups.map(|(group, name)| {
        let member = |key: &str, value: Val| (Val::from(key.to_owned()), value);
        let length = |bytes: &[u8]| Val::from(count(bytes));
        let members = [
            member("offset", Val::from(characters + count(&rest[..group.start() - start]))),
            member("length", length(group.as_bytes())),
            member("string", text.as_sub_str(group.as_bytes())),
        ];
        Val::from_map(members.into_iter().chain(name.map(|name| member("name", Val::from(name.to_owned())))))
    });
    objects.collect()
}

/// The number of characters of a text; what is not UTF-8 counts like its replacement.
fn count(bytes: &[u8]) -> usize {
    bytes.utf8_chunks().map(|chunk| chunk.valid().chars().count() + usize::from(!chunk.invalid().is_empty())).sum()
}
