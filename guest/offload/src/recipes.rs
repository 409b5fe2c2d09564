//! Commands and queries that run on the files: they use only existing fields, are safe on null, and quote the path.

use crate::bindings::lro::filter::types::{
    self, Aggregate, AggregateKind, Condition, FileKind, Group, Operator, Query, Selection, SortKey, StoredQuery, Test,
};
use crate::descriptor::shown_file;
use crate::entry::Entry;
use crate::names::Names;
use lro_json::pointer::push_step;
use lro_json::write::{Object, string};
use lro_jsonl::{Field, Key};

/// Longest value, in bytes of JSON, that a recipe compares with.
const VALUE_BYTES_MAX: usize = 40;

/// Most fields that a recipe selects from each record.
const PICKED_FIELDS_MAX: usize = 4;

/// Records that the recipe `first` shows.
const FIRST_RECORDS: u32 = 3;

/// A command or query for a file.
#[derive(Clone)]
pub(crate) struct Recipe {
    /// Unique in the offload.
    pub(crate) name: String,
    pub(crate) description: String,
    /// The shell command.
    pub(crate) command: String,
    /// The query for the tool `lro_extract`, also stored with the file.
    pub(crate) query: Option<Query>,
    /// Whether it comes from the configuration.
    pub(crate) configured: bool,
}

impl Recipe {
    pub(crate) fn stored(&self) -> Option<StoredQuery> {
        let query = self.query.clone()?;
        Some(StoredQuery { name: self.name.clone(), description: self.description.clone(), query })
    }

    /// The arguments of the tool `lro_extract` that run it.
    pub(crate) fn call(&self, handle: &str) -> Option<String> {
        let query = self.query.as_ref()?;
        let mut call = Object::default();
        call.member("handle", &string(handle)).member("recipe", &string(&self.name));
        let mut parameters = Object::default();
        for condition in &query.where_ {
            if let Condition::Test(Test { parameter: Some(name), value: Some(value), .. }) = condition {
                parameters.member(name, value);
            }
        }
        if !parameters.is_empty() {
            call.member("params", &parameters.finish());
        }
        Some(call.finish())
    }
}

/// The recipes of each file: the configured ones first, then the most useful.
pub(crate) fn of_files(call: &types::Call, entries: &[Entry]) -> Vec<Vec<Recipe>> {
    let mut names = Names::default();
    let of_file = |entry: &Entry| {
        let path = shown_file(call, &entry.file_name);
        let rule = entry.rule.and_then(|rule| call.settings.sections.get(rule));
        let mut recipes = rule.map(|rule| configured(&rule.recipes, &path)).unwrap_or_default();
        recipes.extend(offered(entry, &path));
        for recipe in &mut recipes {
            recipe.name = names.unique(&recipe.name);
        }
        recipes
    };
    entries.iter().map(of_file).collect()
}

fn configured(recipes: &[types::Recipe], path: &str) -> Vec<Recipe> {
    let recipe = |recipe: &types::Recipe| Recipe {
        name: recipe.name.clone(),
        description: recipe.description.clone(),
        command: recipe.command.replace("{file}", &quoted(path)),
        query: recipe.query.clone(),
        configured: true,
    };
    recipes.iter().map(recipe).collect()
}

fn offered(entry: &Entry, path: &str) -> Vec<Recipe> {
    let file = quoted(path);
    let recipe = |name: &str, description: &str, command: String, query: Option<Query>| Recipe {
        name: format!("{}_{name}", entry.section),
        description: description.to_owned(),
        command,
        query,
        configured: false,
    };
    match entry.kind {
        FileKind::Records => {
            let mut recipes = field_recipes(entry, &file, &recipe);
            let (first, count) = (Query { limit: Some(FIRST_RECORDS), ..all() }, Query { count: true, ..all() });
            let command = format!("sed -n '2,4p;4q' {file}");
            recipes.insert(recipes.len().min(1), recipe("first", "the first records", command, Some(first)));
            recipes.push(recipe("count", "number of records", format!("tail -n +2 {file} | wc -l"), Some(count)));
            recipes
        }
        FileKind::Text => vec![
            recipe("head", "the first lines", format!("head -n 20 {file}"), None),
            recipe("tail", "the last lines", format!("tail -n 20 {file}"), None),
        ],
        FileKind::Value => vec![recipe("begin", "the beginning of the value", format!("head -c 2000 {file}"), None)],
        FileKind::Bytes => Vec::new(),
    }
}

/// Makes a recipe from its name, description, command and query.
type Make<'a> = &'a dyn Fn(&str, &str, String, Option<Query>) -> Recipe;

/// Recipes that use fields, for records that are all objects.
fn field_recipes(entry: &Entry, file: &str, recipe: Make<'_>) -> Vec<Recipe> {
    let Some(profile) = &entry.profile else { return Vec::new() };
    let all_fields: Vec<Field<'_>> = profile.fields().filter(|field| field.path.len() <= 1).collect();
    if all_fields.is_empty() || all_fields.iter().any(|field| field.path.is_empty()) {
        return Vec::new();
    }
    let records = format!("tail -n +2 {file} | jq -c");
    let mut recipes = Vec::new();
    let chosen = all_fields.iter().find_map(|field| Some((field, frequent_value(field)?)));
    if let Some((field, value)) = &chosen {
        let filter = format!("select({} == {value})", access(field));
        let query = tested(field, Operator::Eq, value, "value");
        recipes.push(recipe("where", "records with one value", format!("{records} {}", quoted(&filter)), query));
    }
    if let Some((field, least)) =
        all_fields.iter().find_map(|field| Some((field, field.minimum.filter(|text| text.len() <= VALUE_BYTES_MAX)?)))
    {
        let filter = format!("select(({} | numbers) >= {least})", access(field));
        let query = tested(field, Operator::Ge, least, "least");
        recipes.push(recipe("at_least", "records from one number on", format!("{records} {}", quoted(&filter)), query));
    }
    let picked = all_fields.iter().take(PICKED_FIELDS_MAX);
    let keys: Vec<String> = picked.clone().filter_map(|field| Some(key_text(field.path.first()?))).collect();
    let command = format!("{records} {}", quoted(&format!("{{{}}}", keys.join(", "))));
    let select = picked.map(selection).collect::<Option<_>>().map(|select| Query { select, ..all() });
    recipes.push(recipe("fields", "some fields of each record", command, select));
    if let Some((field, _)) = chosen {
        let command = format!("{records} {} | sort | uniq -c | sort -rn", quoted(&access(field)));
        recipes.push(recipe("groups", "values with their counts", command, grouped(field)));
    }
    recipes
}

/// The query for the first records, without a condition.
fn all() -> Query {
    Query {
        where_: Vec::new(),
        group: None,
        select: Vec::new(),
        distinct: false,
        sort: Vec::new(),
        sample: None,
        count: false,
        offset: 0,
        limit: None,
    }
}

fn tested(field: &Field<'_>, operator: Operator, value: &str, parameter: &str) -> Option<Query> {
    let test = Test {
        field: name(field)?,
        operator,
        value: Some(value.to_owned()),
        ignore_case: false,
        parameter: Some(parameter.to_owned()),
    };
    Some(Query { where_: vec![Condition::Test(test)], ..all() })
}

/// The values of a field with their counts, the most frequent first.
fn grouped(field: &Field<'_>) -> Option<Query> {
    let by = selection(field)?;
    // A field of the name of the number needs another name for the number.
    let (count, aggregates) = match by.field.as_str() {
        "count" => {
            let name = Some("records".to_owned());
            ("records", vec![Aggregate { kind: AggregateKind::Count, field: None, name }])
        }
        _ => ("count", Vec::new()),
    };
    let sort = vec![SortKey { field: count.to_owned(), descending: true }];
    Some(Query { group: Some(Group { by: vec![by], aggregates }), sort, ..all() })
}

fn selection(field: &Field<'_>) -> Option<Selection> {
    Some(Selection { field: name(field)?, name: None })
}

/// The name of a field in a query; `None` when a key has escapes.
fn name(field: &Field<'_>) -> Option<String> {
    let is_plain = |key: &Key<'_>| !key.raw.is_empty() && !key.raw.contains(['.', '/', '~']);
    if field.path.iter().any(|key| key.escaped) {
        return None;
    }
    Some(if field.path.iter().all(is_plain) { display_path(field) } else { pointer(field) })
}

/// A value worth filtering by: the most frequent one of at least two.
fn frequent_value<'a>(field: &Field<'a>) -> Option<&'a str> {
    if field.types.strings + field.types.booleans == 0 {
        return None;
    }
    let distinct = field.distinct.as_ref().filter(|distinct| distinct.len() > 1)?;
    // The first of equally frequent values, so that only the order of the data decides.
    let best = distinct.iter().rev().max_by_key(|value| value.count)?;
    (best.count > 1 && best.json.len() <= VALUE_BYTES_MAX).then_some(best.json)
}

/// `.name`, or `."any key"`.
fn access(field: &Field<'_>) -> String {
    field.path.iter().map(|key| format!(".{}", key_text(key))).collect()
}

fn key_text(key: &Key<'_>) -> String {
    // jq reserves a few words that look like keys; quoting makes every key valid.
    let plain = key.raw.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let reserved = RESERVED_WORDS.contains(&key.raw);
    if plain && !reserved && key.raw.starts_with(|first: char| !first.is_ascii_digit()) {
        key.raw.to_owned()
    } else {
        format!("\"{}\"", key.raw)
    }
}

const RESERVED_WORDS: [&str; 20] = [
    "and", "as", "catch", "def", "elif", "else", "end", "foreach", "if", "import", "include", "label", "module", "not",
    "or", "reduce", "then", "try", "__loc__", "limit",
];

/// A word for the shell: in single quotes, in which nothing has a meaning.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The path of a field in a descriptor: its keys joined by dots.
pub(crate) fn display_path(field: &Field<'_>) -> String {
    if field.path.is_empty() {
        return ".".to_owned();
    }
    field.path.iter().map(|key| key.raw).collect::<Vec<_>>().join(".")
}

/// The path of a field as a JSON Pointer.
pub(crate) fn pointer(field: &Field<'_>) -> String {
    let mut pointer = String::new();
    field.path.iter().for_each(|key| push_step(&mut pointer, key.raw));
    pointer
}
