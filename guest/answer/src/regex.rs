//! The functions that `test`, `match`, `capture`, `scan`, `split`, `sub` and `gsub` are made of. Those of the interpreter compile their
//! regular expression for every value anew.

use std::cell::RefCell;
use std::rc::Rc;

use jaq_core::native::{Fun, bome, run, v};
use jaq_core::{Cv, Error, ValR, ValT as _};
use jaq_json::Val;
use jaq_std::ValT as _;
use regex::{Captures, Regex};

use crate::jq::Data;
use crate::pattern;

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
        let mut builder = pattern::builder(pattern);
        let (mut is_global, mut ignores_empty) = (false, false);
        for flag in flags.chars() {
            match flag {
                'g' => is_global = true,
                'n' => ignores_empty = true,
                'i' => _ = builder.case_insensitive(true),
                'm' => _ = builder.multi_line(true),
                's' => _ = builder.dot_matches_new_line(true),
                // The longest match: the engine has none, and what it finds first is nearest to it.
                'l' => {}
                'x' => _ = builder.ignore_whitespace(true),
                'p' => _ = builder.multi_line(true).dot_matches_new_line(true),
                other => return Err(Error::str(format_args!("invalid regex flag: {other}"))),
            }
        }
        let fail = |error| Error::str(format_args!("invalid regex: {}", pattern::reason(&error)));
        let regex = builder.build().map_err(fail)?;
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
    let flags = if flags == Val::Null { "" } else { text(&flags)? };
    expression(text(&pattern)?, flags)
}

fn text(value: &Val) -> Result<&str, Error<Val>> {
    match value {
        Val::TStr(bytes) => std::str::from_utf8(bytes).map_err(Error::str),
        other => Err(Error::typ(other.clone(), "string")),
    }
}

/// A text in which what is not UTF-8 is replaced.
fn replaced(value: Val) -> Val {
    match &value {
        Val::TStr(bytes) if std::str::from_utf8(bytes).is_err() => {
            Val::utf8_str(String::from_utf8_lossy(bytes).into_owned())
        }
        _ => value,
    }
}

/// Whether there is a match that counts.
fn is_match(mut cv: Cv<'_, Data>) -> ValR<Val> {
    let expression = of_call(&mut cv)?;
    let whole = replaced(cv.1);
    let input = text(&whole)?;
    Ok(Val::Bool(if expression.ignores_empty {
        expression.regex.find_iter(input).any(|found| !found.is_empty())
    } else {
        expression.regex.is_match(input)
    }))
}

/// The array of what is asked for: texts between matches, and for each match the array of its groups.
fn parts(mut cv: Cv<'_, Data>, between: bool, matches: bool) -> ValR<Val> {
    let expression = of_call(&mut cv)?;
    let whole = replaced(cv.1);
    let input = text(&whole)?;
    let (mut parts, mut last_end) = (Vec::new(), 0);
    let (mut counted, mut characters) = (0, 0);
    for captures in expression.regex.captures_iter(input) {
        let found = captures.get_match();
        if expression.ignores_empty && found.is_empty() {
            continue;
        }
        if between {
            parts.push(whole.as_sub_str(&input.as_bytes()[last_end..found.start()]));
            last_end = found.end();
        }
        if matches {
            characters += count(&input[counted..found.start()]);
            counted = found.start();
            parts.push(groups(&whole, &captures, &expression.regex, &input[counted..], characters)?);
        }
        if !expression.is_global {
            break;
        }
    }
    if between {
        parts.push(whole.as_sub_str(&input.as_bytes()[last_end..]));
    }
    Ok(parts.into_iter().collect())
}

/// The groups of a match in a text, as jq shows them; those that take no part keep their places. `rest` is the text from the match
/// on, which begins behind so many characters.
fn groups(text: &Val, captures: &Captures<'_>, regex: &Regex, rest: &str, characters: usize) -> ValR<Val> {
    let start = captures.get_match().start();
    let member = |key: &str, value: Val| (Val::from(key.to_owned()), value);
    let groups = captures.iter().zip(regex.capture_names()).enumerate().map(|(index, (group, name))| {
        let [offset, length, string] = match group {
            Some(group) => [
                Val::from(characters + count(&rest[..group.start() - start])),
                Val::from(count(group.as_str())),
                text.as_sub_str(group.as_str().as_bytes()),
            ],
            None => [Val::from(-1_isize), Val::from(0_usize), Val::Null],
        };
        let members = [member("offset", offset), member("length", length), member("string", string)];
        let name = name.map_or(Val::Null, |name| Val::from(name.to_owned()));
        Val::from_map(members.into_iter().chain((index > 0).then(|| member("name", name))))
    });
    groups.collect()
}

/// The number of characters of a text.
fn count(text: &str) -> usize {
    text.chars().count()
}
