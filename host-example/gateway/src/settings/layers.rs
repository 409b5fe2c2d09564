//! Reads the layers, validates each key by itself, and records the origin of each value.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

use lro_system::files::cache_directory;
use serde::Deserialize;
use toml::{Table, Value};

use super::Config;
use super::gateway::{HEADERS_KEY, HIDDEN, TOKENS_KEY, shown_url};
use super::variables::{CONFIG_KEY, GATEWAY_TABLE, VARIABLE_PREFIX, VARIABLES, ValueForm, Variable, flag_name};

/// The table of the overrides of tenants.
const TENANTS_TABLE: &str = "tenants";
/// Maximum length of a value in the text of a [`Problem`], in characters.
const SHOWN_CHARACTERS_MAX: usize = 80;
/// Least similarity, from 0 to 1, of a name that is suggested for an unknown one.
const SIMILARITY_MIN: f64 = 0.6;
/// What messages of errors end with about numbers, and what it means.
const NUMBERS: [(&str, &str); 4] = [
    ("expected a nonzero u64", "expected a whole number of at least 1"),
    ("expected a nonzero u32", "expected a whole number from 1 to 4294967295"),
    ("expected u64", "expected a whole number of at least 0"),
    ("expected u32", "expected a whole number from 0 to 4294967295"),
];

/// The layer that a value comes from. A later variant overrides an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// The TOML text of [`Config::from_toml`].
    Text,
    /// The TOML file of this path.
    File(PathBuf),
    /// The variable of this name.
    Variable(String),
    /// The flag for this key.
    Flag(String),
    /// The tenant of this name, see [`Config::for_tenant`].
    Tenant(String),
}

impl Origin {
    /// Precedence of the layer; the higher one wins.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::Default => 0,
            Self::Text | Self::File(_) => 1,
            Self::Variable(_) => 2,
            Self::Flag(_) => 3,
            Self::Tenant(_) => 4,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::Text => formatter.write_str("text"),
            Self::File(path) => write!(formatter, "file {}", path.display()),
            Self::Variable(name) => write!(formatter, "variable {name}"),
            Self::Flag(key) => write!(formatter, "flag --{}", flag_name(key)),
            Self::Tenant(name) => write!(formatter, "tenant {name}"),
        }
    }
}

/// One value of the effective configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key, with a `.` after the name of a table.
    pub key: String,
    /// The value as JSON; `null` when there is none.
    pub value: String,
    /// The layer it comes from.
    pub origin: Origin,
}

/// An invalid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The key, with a `.` after the name of a table.
    pub key: String,
    /// The value as given, truncated to 80 characters, with `…` for what may be a secret.
    pub value: String,
    /// The layer it comes from.
    pub origin: Origin,
    /// What is wrong, and what is allowed.
    pub message: String,
}

impl Problem {
    pub(super) fn new(key: &str, value: impl fmt::Display, origin: Origin, message: impl fmt::Display) -> Self {
        let value = value.to_string().chars().take(SHOWN_CHARACTERS_MAX).collect();
        Self { key: key.to_owned(), value, origin, message: message.to_string() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` = `{}` ({}): {}", self.key, self.value, self.origin, self.message)
    }
}

/// All problems of a configuration, one per line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid configuration{}", problems.iter().map(|problem| format!("\n  {problem}")).collect::<String>())]
pub struct SettingsError {
    /// The problems, in the order of the layers.
    pub problems: Vec<Problem>,
}

/// One value of one layer. Inside a table, the path has several segments.
pub(super) struct Leaf {
    pub(super) path: Vec<String>,
    value: Value,
    pub(super) origin: Origin,
}

/// The layers above the defaults, merged.
#[derive(Default)]
pub(super) struct Layers {
    /// The valid values.
    pub(super) merged: Table,
    /// Origins of the keys in `merged`.
    pub(super) origins: BTreeMap<String, Origin>,
    /// The problems of the other values.
    pub(super) problems: Vec<Problem>,
}

impl Layers {
    /// Reads the variables with [`VARIABLE_PREFIX`], the flags, and the file that one of them names.
    pub(super) fn read(environment: &BTreeMap<OsString, OsString>, flags: &[(String, String)]) -> Self {
        let mut layers = Self::default();
        let mut leaves = layers.variables(environment);
        leaves.extend(layers.flags(flags));
        let (named, leaves): (Vec<Leaf>, Vec<Leaf>) =
            leaves.into_iter().partition(|leaf| leaf.path.iter().eq([CONFIG_KEY]));
        if let Some(Leaf { value: Value::String(path), origin, .. }) = named.into_iter().next_back() {
            for leaf in layers.file(Path::new(&path), origin) {
                layers.merge(leaf);
            }
        }
        leaves.into_iter().for_each(|leaf| layers.merge(leaf));
        layers
    }

    /// Reads a TOML text.
    pub(super) fn of_toml(text: &str) -> Self {
        let mut layers = Self::default();
        match leaves_of(text, &Origin::Text) {
            Ok(leaves) => leaves.into_iter().for_each(|leaf| layers.merge(leaf)),
            Err(message) => layers.problems.push(Problem::new("", HIDDEN, Origin::Text, message)),
        }
        layers
    }

    fn variables(&mut self, environment: &BTreeMap<OsString, OsString>) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        for (name, text) in environment {
            let Some(name) = name.to_str().filter(|name| name.starts_with(VARIABLE_PREFIX)) else { continue };
            let origin = Origin::Variable(name.to_owned());
            match (VARIABLES.iter().find(|variable| variable.name() == name), text.to_str()) {
                (None, _) => {
                    let names: Vec<String> = VARIABLES.iter().map(Variable::name).collect();
                    let message = unknown("this variable is not known", name, names.iter().map(String::as_str));
                    self.problems.push(Problem::new(name, HIDDEN, origin, message));
                }
                (Some(variable), None) => {
                    self.problems.push(Problem::new(variable.key, text.display(), origin, "expected UTF-8"));
                }
                (Some(variable), Some(text)) => leaves.extend(self.text(variable, text, origin)),
            }
        }
        leaves
    }

    fn flags(&mut self, flags: &[(String, String)]) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        for (key, text) in flags {
            let origin = Origin::Flag(key.clone());
            match VARIABLES.iter().find(|variable| variable.key == key) {
                Some(variable) => leaves.extend(self.text(variable, text, origin)),
                None => {
                    let keys = VARIABLES.iter().map(|variable| variable.key);
                    let message = unknown("this key is not known", key, keys);
                    self.problems.push(Problem::new(key, text, origin, message));
                }
            }
        }
        leaves
    }

    fn file(&mut self, path: &Path, named_by: Origin) -> Vec<Leaf> {
        let text = fs::read_to_string(path).map_err(|error| format!("cannot read the file: {error}"));
        match text.and_then(|text| leaves_of(&text, &Origin::File(path.to_owned()))) {
            Ok(leaves) => leaves,
            Err(message) => {
                self.problems.push(Problem::new(CONFIG_KEY, path.display(), named_by, message));
                Vec::new()
            }
        }
    }

    /// Parses the text of a variable or a flag.
    fn text(&mut self, variable: &Variable, text: &str, origin: Origin) -> Option<Leaf> {
        let value = match variable.form {
            ValueForm::Text => Ok(Value::String(text.to_owned())),
            ValueForm::Integer | ValueForm::Bytes => {
                whole_number(text).map(Value::Integer).ok_or("expected a whole number")
            }
            ValueForm::Boolean => match text.to_ascii_lowercase().as_str() {
                "true" | "1" | "yes" | "on" => Ok(Value::Boolean(true)),
                "false" | "0" | "no" | "off" => Ok(Value::Boolean(false)),
                _ => Err("expected one of true, false, 1, 0, yes, no, on, off"),
            },
            ValueForm::List => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(Value::Array(items.map(|item| Value::String(item.to_owned())).collect()))
            }
        };
        match value {
            Ok(value) => Some(Leaf { path: variable.key.split('.').map(str::to_owned).collect(), value, origin }),
            Err(message) => {
                self.problems.push(Problem::new(variable.key, text, origin, message));
                None
            }
        }
    }

    /// Validates one value as if it were the whole configuration, so that errors concern this value alone.
    fn merge(&mut self, leaf: Leaf) {
        let key = key_text(&leaf.path);
        let checked = match secret_form(&leaf.path, &leaf.value) {
            Some(message) => Err(message.to_owned()),
            None => check_alone(&leaf.path, leaf.value.clone()),
        };
        if let Err(message) = checked {
            self.problems.push(Problem::new(&key, shown_value(&leaf), leaf.origin, message));
            return;
        }
        let Some((last, tables)) = leaf.path.split_last() else { return };
        let mut table = &mut self.merged;
        for step in tables {
            let entry = table.entry(step).or_insert_with(|| Value::Table(Table::new()));
            // A segment that is not a table was rejected when the value was validated alone.
            let Value::Table(inner) = entry else { return };
            table = inner;
        }
        table.insert(last.clone(), leaf.value);
        self.origins.insert(key, leaf.origin);
    }
}

/// Checks a value as if it were the whole configuration.
fn check_alone(path: &[String], value: Value) -> Result<(), String> {
    let check = |value| {
        let table = |value, step: &String| Value::Table(Table::from_iter([(step.clone(), value)]));
        Config::deserialize(path.iter().rev().fold(value, table)).map(drop).map_err(|error| error.message().to_owned())
    };
    let text = match &value {
        Value::Boolean(_) | Value::Integer(_) | Value::Float(_) => Some(Value::String(value.to_string())),
        _ => None,
    };
    let checked = check(value).map_err(|message| {
        // Where one of several names is expected, only what is wrong with a text says which.
        let of_text = text.and_then(|text| check(text).err());
        of_text.filter(|of_text| of_text.starts_with("unknown variant")).unwrap_or(message)
    });
    checked.map_err(|message| in_plain_words(&message))
}

/// The message of an error in plain words: without the number types of Rust, and with the key that is similar to an unknown one in
/// place of all keys.
fn in_plain_words(message: &str) -> String {
    let unknown_field = message.split_once("`, expected one of `").and_then(|(beginning, known)| {
        let name = beginning.strip_prefix("unknown field `")?;
        let near = similar(name, known.split('`').step_by(2))?;
        Some(format!("{beginning}`; did you mean `{near}`?"))
    });
    unknown_field.unwrap_or_else(|| {
        NUMBERS.iter().fold(message.to_owned(), |message, (rust, plain)| {
            message.strip_suffix(rust).map(|beginning| format!("{beginning}{plain}")).unwrap_or(message)
        })
    })
}

/// A problem with a name, and the name that is similar to it.
fn unknown<'a>(problem: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    similar(name, known).map_or_else(|| problem.to_owned(), |near| format!("{problem}; did you mean `{near}`?"))
}

/// The name that is most similar to an unknown one, if one is similar.
fn similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.trim_start_matches(VARIABLE_PREFIX).to_lowercase();
    let similarity = |known: &str| strsim::normalized_damerau_levenshtein(&plain(name), &plain(known));
    let ranked = known.map(|known| (similarity(known), known)).filter(|(similarity, _)| *similarity >= SIMILARITY_MIN);
    ranked.max_by(|left, right| left.0.total_cmp(&right.0)).map(|(_, known)| known)
}

/// Reads a number in decimal digits; as in TOML, `_` may stand between two of them.
fn whole_number(text: &str) -> Option<i64> {
    let is_number = |group: &str| !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    digits.split('_').all(is_number).then(|| text.replace('_', "").parse().ok()).flatten()
}

/// The value of a leaf without secrets. In the table `gateway`, a key that no variable sets holds secrets, or is the
/// misspelled name of one that does; the same goes for the table of a tenant.
fn shown_value(leaf: &Leaf) -> String {
    let (key, is_tenant) = match leaf.path.as_slice() {
        [tenants, _, rest @ ..] if tenants == TENANTS_TABLE => (rest.join("."), true),
        path => (path.join("."), false),
    };
    match &leaf.value {
        Value::String(url) if key == "gateway.upstream" => Value::String(shown_url(url)).to_string(),
        value if !is_tenant && leaf.path.first().is_none_or(|table| table != GATEWAY_TABLE) => value.to_string(),
        value if VARIABLES.iter().any(|variable| variable.key == key) => value.to_string(),
        value @ (Value::Boolean(_) | Value::Integer(_)) if is_tenant => value.to_string(),
        _ => HIDDEN.to_owned(),
    }
}

/// The problem with the type of a secret value. The usual message would repeat the value.
fn secret_form(path: &[String], value: &Value) -> Option<&'static str> {
    let [gateway, table, rest @ ..] = path else { return None };
    if gateway != GATEWAY_TABLE || ![TOKENS_KEY, HEADERS_KEY].contains(&table.as_str()) {
        return None;
    }
    match (rest, value) {
        ([], Value::Table(_)) | ([_], Value::String(_)) => None,
        ([], _) => Some("expected a table of strings"),
        _ => Some("expected a string"),
    }
}

/// The values of a TOML text.
fn leaves_of(text: &str, origin: &Origin) -> Result<Vec<Leaf>, String> {
    let table = text.parse::<Table>().map_err(|error| syntax_error(text, &error))?;
    let mut leaves = Vec::new();
    flatten(&mut Vec::new(), Value::Table(table), origin, &mut leaves);
    Ok(leaves)
}

/// The syntax error of a TOML text, with its position. The line is not repeated, as it may hold a secret.
fn syntax_error(text: &str, error: &toml::de::Error) -> String {
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return error.message().to_owned() };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    format!("line {line}, column {column}: {}", error.message())
}

/// Flattens tables down to values, lists and empty tables.
pub(super) fn flatten(path: &mut Vec<String>, value: Value, origin: &Origin, leaves: &mut Vec<Leaf>) {
    match value {
        Value::Table(table) if !table.is_empty() => {
            for (key, value) in table {
                path.push(key);
                flatten(path, value, origin, leaves);
                path.pop();
            }
        }
        Value::Table(_) if path.is_empty() => {}
        value => leaves.push(Leaf { path: path.clone(), value, origin: origin.clone() }),
    }
}

/// Formats a path as a TOML key.
pub(super) fn key_text(path: &[String]) -> String {
    let bare =
        |step: &str| !step.is_empty() && step.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    let steps = path.iter().map(|step| if bare(step) { step.clone() } else { format!("{step:?}") });
    steps.collect::<Vec<_>>().join(".")
}

/// `lro-filter` in the [`cache_directory`].
pub(super) fn default_dir(environment: &BTreeMap<OsString, OsString>) -> Option<PathBuf> {
    Some(cache_directory(|name| environment.get(OsStr::new(name)).cloned())?.join("lro-filter"))
}
