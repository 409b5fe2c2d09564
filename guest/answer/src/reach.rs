//! Finds out from the text of a jq program which members of a record it reads, so that the others need no parsing.
//!
//! It detects two things, each only where it is certain:
//!
//! * The program reads only some members of its input. Then a record is reduced to an object of these.
//! * The program is `select(TEST and …) | …` with tests such as `.name == "value"`. Where one of them is surely false,
//!   the program has no results and need not run.
//!
//! Neither changes an answer: an object without unread members gives the same results, and a program is skipped only
//! where it has none and cannot fail.

use std::cmp::Ordering;

use jaq_core::load;
use jaq_core::load::lex::StrPart;
use jaq_core::load::parse::{BinaryOp, Pattern, Term};
use jaq_core::ops::Cmp;
use jaq_core::path::{Part, Path};
use lro_json::walk;

use crate::Argument;
use crate::number::{self, Short};

/// Greatest mantissa, of 15 digits, up to which 64-bit floating point numbers compare exactly.
const MANTISSA_MAX: u64 = 999_999_999_999_999;

/// Most members of a reduced record; a program that reads more gets all.
const KEYS_MAX: usize = 32;

/// The members of a record that a program reads.
#[derive(Debug, Default)]
pub(crate) struct Reach {
    /// Keys of the members that are read or tested.
    pub(crate) keys: Vec<String>,
    /// Whether the program reads the members of these keys and nothing else.
    pub(crate) is_all: bool,
    /// Tests that must all hold, by index of the key.
    tests: Vec<(usize, Cmp, Literal)>,
}

/// A constant in a comparison with a member.
#[derive(Clone, Debug)]
enum Literal {
    Text(Vec<u8>),
    Number(Short),
    /// `null`, `true` or `false`, by its first letter.
    Word(u8),
}

impl Reach {
    /// Analyses a program that compiles.
    pub(crate) fn of(program: &str, arguments: &[Argument]) -> Self {
        let mut reach = Self::default();
        let Some(term) = load::parse(program, |parser| parser.term()) else { return reach };
        if let Some(condition) = selection(&term) {
            reach.add_tests(condition, arguments);
        }
        let mut keys = reach.keys.clone();
        if reads(&term, &mut keys) {
            reach.keys = keys;
            reach.is_all = true;
        }
        reach
    }

    /// Whether the program surely has no results for a record. `value` returns the text from the value of a member on,
    /// by its index, or `None` for a missing member.
    #[inline(always)]
    pub(crate) fn excludes<'a>(&self, value: impl Fn(usize) -> Option<&'a [u8]>) -> bool {
        self.tests.iter().any(|(key, compare, literal)| {
            let value = value(*key).unwrap_or(b"null");
            is_surely_false(*compare, literal, value)
        })
    }

    /// Adds the tests at the beginning of a condition. Stops at a term that is not understood: it may fail, and later
    /// tests must not hide that.
    fn add_tests(&mut self, condition: &Term<&str>, arguments: &[Argument]) -> bool {
        match condition {
            Term::BinOp(left, BinaryOp::And, right) => {
                self.add_tests(left, arguments) && self.add_tests(right, arguments)
            }
            Term::BinOp(left, BinaryOp::Cmp(compare), right) => {
                let (Some(key), Some(literal)) = (member(left), literal(right, arguments)) else { return false };
                let key = self.key(key);
                self.tests.push((key, *compare, literal));
                true
            }
            _ => false,
        }
    }

    fn key(&mut self, key: &str) -> usize {
        self.keys.iter().position(|other| other == key).unwrap_or_else(|| {
            self.keys.push(key.to_owned());
            self.keys.len() - 1
        })
    }
}

/// The condition of a program that is or begins with `select(CONDITION)`.
fn selection<'t, 's>(term: &'t Term<&'s str>) -> Option<&'t Term<&'s str>> {
    match term {
        Term::Call("select", arguments) => arguments.first(),
        Term::BinOp(left, BinaryOp::Pipe(None), _) => selection(left),
        _ => None,
    }
}

/// The key of a term `.key`.
fn member<'s>(term: &Term<&'s str>) -> Option<&'s str> {
    match term {
        Term::Path(base, Path(parts)) if matches!(**base, Term::Id) && parts.len() == 1 => first_key(parts),
        _ => None,
    }
}

type Parts<'s> = [(Part<Term<&'s str>>, jaq_core::path::Opt)];

/// The first key of a path.
fn first_key<'s>(parts: &Parts<'s>) -> Option<&'s str> {
    match parts.first() {
        Some((Part::Index(index), _)) => plain_text(index),
        _ => None,
    }
}

/// A string without format, interpolation and escapes.
fn plain_text<'s>(term: &Term<&'s str>) -> Option<&'s str> {
    match term {
        Term::Str(None, parts) => match parts.as_slice() {
            [StrPart::Str(text)] => Some(text),
            _ => None,
        },
        _ => None,
    }
}

fn literal(term: &Term<&str>, arguments: &[Argument]) -> Option<Literal> {
    match term {
        Term::Num(text) => number(text, false),
        Term::Neg(term) => match **term {
            Term::Num(text) => number(text, true),
            _ => None,
        },
        Term::Str(..) => plain_text(term).map(|text| Literal::Text(text.as_bytes().to_vec())),
        Term::Call(word @ ("null" | "true" | "false"), arguments) if arguments.is_empty() => {
            word.bytes().next().map(Literal::Word)
        }
        Term::Var(name) => {
            let value = arguments.iter().find(|argument| name.strip_prefix('$') == Some(&argument.name))?;
            constant(value.value.trim_ascii())
        }
        _ => None,
    }
}

fn constant(json: &str) -> Option<Literal> {
    match json.as_bytes().first()? {
        b'"' => {
            let string = walk::string(json.as_bytes(), 0).ok()?;
            (!string.has_escapes).then(|| Literal::Text(string.bytes.to_vec()))
        }
        word @ (b'n' | b't' | b'f') => Some(Literal::Word(*word)),
        b'-' | b'0'..=b'9' => number(json, false),
        _ => None,
    }
}

fn number(text: &str, negated: bool) -> Option<Literal> {
    // A short number is read up to its delimiter.
    let short = number::short(format!("{text} ").as_bytes()).filter(is_comparable)?;
    Some(Literal::Number(if negated { Short { mantissa: -short.mantissa, ..short } } else { short }))
}

fn is_comparable(number: &Short) -> bool {
    number.mantissa.unsigned_abs() <= MANTISSA_MAX
}

#[inline(always)]
fn is_surely_false(compare: Cmp, literal: &Literal, value: &[u8]) -> bool {
    let first = value.first().copied().unwrap_or_default();
    match literal {
        Literal::Text(text) => match compare {
            Cmp::Eq | Cmp::Ne if first == b'"' => match walk::string(value, 0) {
                Ok(string) if !string.has_escapes => (string.bytes == text.as_slice()) != (compare == Cmp::Eq),
                _ => false,
            },
            Cmp::Eq => true,
            _ => false,
        },
        Literal::Number(number) => {
            // The order of jq: null, false, true, numbers, strings, arrays, objects.
            let order = match first {
                b'-' | b'0'..=b'9' => match number::short(value).filter(is_comparable) {
                    Some(value) => compared(value, *number),
                    None => return false,
                },
                b'n' | b't' | b'f' => Ordering::Less,
                _ => Ordering::Greater,
            };
            !match compare {
                Cmp::Lt => order.is_lt(),
                Cmp::Le => order.is_le(),
                Cmp::Gt => order.is_gt(),
                Cmp::Ge => order.is_ge(),
                Cmp::Eq => order.is_eq(),
                Cmp::Ne => order.is_ne(),
            }
        }
        Literal::Word(word) => match compare {
            Cmp::Eq => first != *word,
            Cmp::Ne => first == *word,
            _ => false,
        },
    }
}

#[inline(always)]
fn compared(left: Short, right: Short) -> Ordering {
    let scaled = |number: Short, scale: usize| i128::from(number.mantissa) * 10_i128.pow(scale as u32);
    if left.scale == right.scale {
        left.mantissa.cmp(&right.mantissa)
    } else {
        scaled(left, right.scale).cmp(&scaled(right, left.scale))
    }
}

/// Whether a term reads only members of its input with constant keys, which are added to `keys`.
fn reads(term: &Term<&str>, keys: &mut Vec<String>) -> bool {
    match term {
        Term::Num(_) | Term::Var(_) => true,
        Term::Str(_, parts) => parts.iter().all(|part| match part {
            StrPart::Term(term) => reads(term, keys),
            StrPart::Str(_) | StrPart::Char(_) => true,
        }),
        Term::Arr(None) => true,
        Term::Arr(Some(term)) | Term::Neg(term) => reads(term, keys),
        Term::Obj(entries) => entries.iter().all(|entry| match entry {
            (key, Some(value)) => reads(key, keys) && reads(value, keys),
            (Term::Var(_), None) => true,
            (key, None) => plain_text(key).is_some_and(|key| add(keys, key)),
        }),
        Term::BinOp(left, operator, right) => match operator {
            BinaryOp::Pipe(None) => match &**left {
                // `select` passes its input on.
                Term::Call("select", arguments) => {
                    arguments.iter().all(|argument| reads(argument, keys)) && reads(right, keys)
                }
                left => reads(left, keys),
            },
            BinaryOp::Pipe(Some(Pattern::Var(_)))
            | BinaryOp::Comma
            | BinaryOp::Alt
            | BinaryOp::Or
            | BinaryOp::And
            | BinaryOp::Math(_)
            | BinaryOp::Cmp(_) => reads(left, keys) && reads(right, keys),
            _ => false,
        },
        // The input of `catch` is the error.
        Term::TryCatch(term, _) => reads(term, keys),
        Term::IfThenElse(branches, Some(otherwise)) => {
            branches.iter().all(|(condition, then)| reads(condition, keys) && reads(then, keys))
                && reads(otherwise, keys)
        }
        Term::Call("empty" | "null" | "true" | "false" | "infinite" | "nan", arguments) => arguments.is_empty(),
        Term::Call("first" | "last" | "limit" | "isempty" | "range" | "error", arguments) => {
            !arguments.is_empty() && arguments.iter().all(|argument| reads(argument, keys))
        }
        Term::Path(base, Path(parts)) => {
            let (base_is_read, inner) = match (&**base, first_key(parts)) {
                (Term::Id, Some(key)) => (add(keys, key), parts.get(1..).unwrap_or_default()),
                (Term::Id, None) => (false, [].as_slice()),
                (base, _) => (reads(base, keys), parts.as_slice()),
            };
            base_is_read
                && inner.iter().all(|(part, _)| match part {
                    Part::Index(index) => reads(index, keys),
                    Part::Range(from, to) => [from, to].into_iter().flatten().all(|bound| reads(bound, keys)),
                })
        }
        _ => false,
    }
}

/// Adds a key, unless there are too many.
fn add(keys: &mut Vec<String>, key: &str) -> bool {
    if !keys.iter().any(|other| other == key) {
        keys.push(key.to_owned());
    }
    keys.len() <= KEYS_MAX
}
