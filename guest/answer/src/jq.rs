//! Runs a jq program on each record, or on the array of all.

use std::ops::Range;

use bytes::Bytes;
use jaq_core::data::JustLut;
use jaq_core::load::lex::{Lexer, Tok, Token};
use jaq_core::load::{Arena, Error, File, Loader, parse};
use jaq_core::{Ctx, Filter, Vars, compile};
use jaq_json::{Num, Val, read};
use lro_json::walk;
use lro_json::write::push_string;

use crate::answer::Lines;
use crate::find::Finder;
use crate::json::checked;
use crate::number::spelled;
use crate::reach::Reach;
use crate::record::Records;
use crate::{Answer, Argument, Budget, ExtractError, Failures, Jq, Read, Source, SyntaxError, functions, lines};

/// Longest program: 64 KiB.
pub const FILTER_BYTES_MAX: usize = 64 << 10;

/// Most variables of a program: 100.
pub const ARGUMENTS_MAX: usize = 100;

/// Longest message of a failure, in bytes; the original may quote a whole record.
const MESSAGE_BYTES_MAX: usize = 500;

/// Functions of jq that a sandbox cannot offer: environment, clock, further inputs, other outputs, exit.
const UNAVAILABLE: [&str; 19] = [
    "$ENV",
    "debug",
    "debug_empty",
    "env",
    "get_search_list",
    "halt",
    "halt_error",
    "import",
    "include",
    "input",
    "input_filename",
    "input_line_number",
    "inputs",
    "localtime",
    "modulemeta",
    "now",
    "stderr",
    "stderr_empty",
    "strflocaltime",
];

pub(crate) type Data = JustLut<Val>;

/// Answers with the results whose numbers are in `page`; all are counted.
pub(crate) fn run(
    source: &Source,
    jq: &Jq,
    page: Range<u64>,
    budget: Budget,
    read: &mut Read<'_>,
) -> Result<Answer, ExtractError> {
    if jq.filter.len() > FILTER_BYTES_MAX {
        return Err(ExtractError::Limit(format!("filter-bytes: a program has at most {FILTER_BYTES_MAX} bytes")));
    }
    let (names, values) = arguments(&jq.arguments)?;
    let filter = compiled(&jq.filter, &names)?;
    let lines = Lines::new(budget);
    let mut program = Program { filter: &filter, values, page, lines, total: 0, failures: None, text: String::new() };
    if jq.slurp {
        let mut all = Vec::new();
        lines::each_run(source, read, |_, run| {
            for line in run.strip_suffix(b"\n").unwrap_or(run).split(|&byte| byte == b'\n') {
                all.push(record(line).ok_or(ExtractError::Damaged(all.len() as u64))?);
            }
            Ok(())
        })?;
        let examined = all.len() as u64;
        program.run(0, all.into_iter().collect());
        return program.answer(examined, 1);
    }
    let examined = each_record(source, read, &Reach::of(&jq.filter, &jq.arguments), &mut program)?;
    program.answer(examined, source.records.max(examined))
}

/// Runs a program on every record; returns their number.
fn each_record(
    source: &Source,
    read: &mut Read<'_>,
    reach: &Reach,
    program: &mut Program<'_>,
) -> Result<u64, ExtractError> {
    let keys: Vec<Vec<u8>> = reach.keys.iter().map(|key| key.as_bytes().to_vec()).collect();
    let (mut finder, mut records) = (Finder::new(&keys), Records::default());
    lines::each_run(source, read, |offset, run| {
        let slice = Bytes::copy_from_slice(run);
        let is_plain = run.iter().fold(true, |plain, &byte| plain & (byte >= b' ' || byte == b'\n'));
        finder.scan(offset, run, |found| {
            let (line, start) = (found.line, (found.offset - offset) as usize);
            let end = start + line.len();
            let value_start = |key: usize| found.member(key).map(|at| walk::skip_white(line, at));
            let mut input = None;
            if is_plain && line.first() == Some(&b'{') {
                if reach.excludes(|key| value_start(key).and_then(|at| line.get(at..))) {
                    return Ok(());
                }
                if reach.is_all {
                    let starts = (0..reach.keys.len()).map(|key| value_start(key).map(|at| start + at));
                    input = records.reduced(&slice, end, &reach.keys, starts);
                }
            }
            if is_plain && input.is_none() {
                input = records.read(&slice, start, end);
            }
            let input = input.or_else(|| record(line)).ok_or(ExtractError::Damaged(found.number))?;
            program.run(found.number, input);
            Ok(())
        })
    })?;
    Ok(finder.examined)
}

/// The value of a line. The check also keeps the parser from accepting more than JSON, and from nesting too deeply.
pub(crate) fn record(line: &[u8]) -> Option<Val> {
    read::parse_single(checked(line).ok()?.as_bytes()).ok()
}

/// Names, each with its `$`, and values of the variables.
fn arguments(arguments: &[Argument]) -> Result<(Vec<String>, Vec<Val>), ExtractError> {
    if arguments.len() > ARGUMENTS_MAX {
        return Err(ExtractError::Limit(format!("arguments: a program has at most {ARGUMENTS_MAX}")));
    }
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for argument in arguments {
        let fail = |why| ExtractError::Invalid(format!("argument {}: {why}", argument.name));
        let starts_well = argument.name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
        if !starts_well || !argument.name.chars().all(|other| other.is_ascii_alphanumeric() || other == '_') {
            return Err(fail("is not a valid variable name"));
        }
        let name = format!("${}", argument.name);
        if names.contains(&name) {
            return Err(fail("is defined twice"));
        }
        names.push(name);
        values.push(record(argument.value.trim_ascii().as_bytes()).ok_or_else(|| fail("is not JSON"))?);
    }
    Ok((names, values))
}

/// Compiles a program with the definitions and functions of jq, without those in [`UNAVAILABLE`].
fn compiled(program: &str, variables: &[String]) -> Result<Filter<Data>, ExtractError> {
    no_modules(program)?;
    let own = parse(include_str!("defs.jq"), |parser| parser.defs()).unwrap_or_default();
    let ours: Vec<_> = functions::functions().map(|(name, arguments, _)| (name, arguments.len())).collect();
    let is_used = |name: &str, arguments: usize| is_available(name) && !ours.contains(&(name, arguments));
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs()).chain(own);
    let definitions = definitions.filter(|definition| is_used(definition.name, definition.args.len()));
    let functions = jaq_core::funs::<Data>().chain(jaq_std::funs()).chain(jaq_json::funs());
    let functions = functions.filter(|(name, arguments, _)| is_used(name, arguments.len()));
    let arena = Arena::default();
    let modules =
        Loader::new(definitions).load(&arena, File { code: program, path: () }).map_err(|errors| {
            match errors.into_iter().next() {
                Some((_, error)) => not_loaded(program, error),
                None => syntax(program, program, "cannot be read".to_owned()),
            }
        })?;
    compile::Compiler::default()
        .with_funs(functions.chain(functions::functions()))
        .with_global_vars(variables.iter().map(String::as_str))
        .compile(modules)
        .map_err(|errors| match errors.into_iter().flat_map(|(_, errors)| errors).next() {
            Some((name, _)) if !is_available(name) => syntax(program, name, format!("{name} is not available here")),
            Some((name, kind)) => {
                let arity = match kind {
                    compile::Undefined::Filter(arity) => format!("/{arity}"),
                    _ => String::new(),
                };
                syntax(program, name, format!("{} {name}{arity} is not defined", kind.as_str()))
            }
            None => syntax(program, program, "cannot be compiled".to_owned()),
        })
}

fn is_available(name: &str) -> bool {
    !UNAVAILABLE.contains(&name)
}

/// Rejects `import` and `include`, which can only begin a program.
fn no_modules(program: &str) -> Result<(), ExtractError> {
    let mut before = ";";
    for Token(word, kind) in Lexer::new(program).lex().unwrap_or_default() {
        if before == ";" && matches!(kind, Tok::Word) && matches!(word, "import" | "include") {
            return Err(syntax(program, word, format!("{word} is not available here")));
        }
        before = word;
    }
    Ok(())
}

fn not_loaded(program: &str, error: Error<&str>) -> ExtractError {
    let first = match error {
        Error::Io(errors) => errors.into_iter().next(),
        Error::Lex(errors) => {
            errors.into_iter().next().map(|(expected, found)| (found, format!("expected {}", expected.as_str())))
        }
        Error::Parse(errors) => errors.into_iter().next().map(|(expected, found)| {
            let expected = match expected {
                parse::Expect::Nothing => "the end of the program",
                ref other => other.as_str(),
            };
            (found, format!("expected {expected}"))
        }),
    };
    match first {
        Some((found, message)) if found.is_empty() => syntax(program, found, format!("{message} before the end")),
        Some((found, message)) => {
            let word: String = found.chars().take(20).take_while(|character| !character.is_whitespace()).collect();
            syntax(program, found, format!("{message}, not {word}"))
        }
        None => syntax(program, program, "cannot be read".to_owned()),
    }
}

/// The error at a part of the program.
fn syntax(program: &str, part: &str, message: String) -> ExtractError {
    let offset = (part.as_ptr() as usize).checked_sub(program.as_ptr() as usize);
    let offset = offset.filter(|offset| *offset <= program.len()).unwrap_or(0) as u64;
    ExtractError::Syntax(SyntaxError { offset, message })
}

/// A compiled program and its results so far.
struct Program<'f> {
    filter: &'f Filter<Data>,
    values: Vec<Val>,
    page: Range<u64>,
    lines: Lines,
    total: u64,
    failures: Option<Failures>,
    text: String,
}

impl Program<'_> {
    /// Runs on one value.
    fn run(&mut self, number: u64, input: Val) {
        let context = Ctx::<Data>::new(&self.filter.lut, Vars::new(self.values.iter().cloned()));
        for output in self.filter.id.run((context, input)) {
            let written = match output {
                Ok(value) => self.push(&value),
                Err(exception) => Err(match exception.get_err() {
                    Ok(error) => message(error.into_val()),
                    Err(_) => "the program ended".to_owned(),
                }),
            };
            if let Err(message) = written {
                let failures = self.failures.get_or_insert(Failures { records: 0, first: number, message });
                failures.records += 1;
                return;
            }
        }
    }

    fn push(&mut self, value: &Val) -> Result<(), String> {
        // Also written when the answer is full: a value that JSON cannot represent is a failure wherever it comes.
        self.text.clear();
        write(&mut self.text, value, lro_json::DEPTH_MAX)?;
        if self.page.contains(&self.total) {
            self.lines.push(&self.text);
        }
        self.total += 1;
        Ok(())
    }

    /// The answer; `runs` are those on the whole file. When every run failed, but some gave results first, the results
    /// are more useful than the error alone.
    fn answer(self, examined: u64, runs: u64) -> Result<Answer, ExtractError> {
        match self.failures {
            Some(failures) if failures.records == runs && self.total == 0 => Err(ExtractError::Failed(failures)),
            failures => Ok(Answer { failures, ..self.lines.answer(self.total, examined, examined) }),
        }
    }
}

/// The message of an error: its text, or the JSON of any other value.
fn message(error: Val) -> String {
    let mut text = match &error {
        Val::TStr(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => {
            let mut text = String::new();
            match write(&mut text, other, lro_json::DEPTH_MAX) {
                Ok(()) => text,
                Err(message) => message,
            }
        }
    };
    if text.len() > MESSAGE_BYTES_MAX {
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
        text.push('…');
    }
    text
}

/// Appends a value as JSON. Values that JSON cannot represent are written as jq writes them: null for NaN, the largest
/// number for infinity, U+FFFD for invalid bytes.
fn write(out: &mut String, value: &Val, depth: usize) -> Result<(), String> {
    let below = || depth.checked_sub(1).ok_or("the result is nested too deeply".to_owned());
    match value {
        Val::Null => out.push_str("null"),
        Val::Bool(true) => out.push_str("true"),
        Val::Bool(false) => out.push_str("false"),
        Val::Num(Num::Float(amount)) => out.push_str(&spelled(*amount)),
        Val::Num(number) => out.push_str(&number.to_string()),
        Val::TStr(bytes) | Val::BStr(bytes) => push_string(out, &String::from_utf8_lossy(bytes)),
        Val::Arr(elements) => {
            let depth = below()?;
            out.push('[');
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(out, element, depth)?;
            }
            out.push(']');
        }
        Val::Obj(members) => {
            let depth = below()?;
            out.push('{');
            for (index, (key, value)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                match key {
                    Val::TStr(key) => push_string(out, &String::from_utf8_lossy(key)),
                    other => return Err(format!("object keys must be strings, not {}", message(other.clone()))),
                }
                out.push(':');
                write(out, value, depth)?;
            }
            out.push('}');
        }
    }
    Ok(())
}
