//! Commands that run on the files: only on fields that are there, safe on null, with the path quoted.

use crate::bindings::lro::filter::types::{self, FileKind};
use crate::descriptor::Entry;
use lro_jsonl::{Field, Key};

/// Longest value, in bytes of JSON, that a recipe compares with.
const VALUE_BYTES_MAX: usize = 40;

/// Fields that a recipe picks from each record.
const PICKED_FIELDS_MAX: usize = 4;

/// A command as the model sees it.
pub(crate) struct Recipe {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) command: String,
}

/// The recipes of the configuration.
pub(crate) fn configured(recipes: &[types::Recipe], path: &str) -> Vec<Recipe> {
    let recipe = |recipe: &types::Recipe| Recipe {
        name: recipe.name.clone(),
        description: recipe.description.clone(),
        command: recipe.command.replace("{file}", &quoted(path)),
    };
    recipes.iter().map(recipe).collect()
}

/// The policy's own recipes, the most useful first.
pub(crate) fn offered(entry: &Entry, path: &str) -> Vec<Recipe> {
    let file = quoted(path);
    let recipe = |name: &str, description: &str, command: String| Recipe {
        name: format!("{}_{name}", entry.section),
        description: description.to_owned(),
        command,
    };
    match entry.kind {
        FileKind::Records => {
            let mut recipes = field_recipes(entry, &file, &recipe);
            recipes
                .insert(recipes.len().min(1), recipe("first", "the first records", format!("sed -n '2,4p;4q' {file}")));
            recipes.push(recipe("count", "number of records", format!("tail -n +2 {file} | wc -l")));
            recipes
        }
        FileKind::Text => vec![
            recipe("head", "the first lines", format!("head -n 20 {file}")),
            recipe("tail", "the last lines", format!("tail -n 20 {file}")),
        ],
        FileKind::Value => vec![recipe("begin", "the beginning of the value", format!("head -c 2000 {file}"))],
        FileKind::Bytes => Vec::new(),
    }
}

/// Recipes that name fields, for records that are all objects.
fn field_recipes(entry: &Entry, file: &str, recipe: &dyn Fn(&str, &str, String) -> Recipe) -> Vec<Recipe> {
    let Some(profile) = &entry.profile else { return Vec::new() };
    let all: Vec<Field<'_>> = profile.fields().filter(|field| field.path.len() <= 1).collect();
    if all.is_empty() || all.iter().any(|field| field.path.is_empty()) {
        return Vec::new();
    }
    let records = format!("tail -n +2 {file} | jq -c");
    let mut recipes = Vec::new();
    let chosen = all.iter().find_map(|field| Some((field, frequent_value(field)?)));
    if let Some((field, value)) = &chosen {
        let filter = format!("select({} == {value})", access(field));
        recipes.push(recipe("where", "records with one value", format!("{records} {}", quoted(&filter))));
    }
    if let Some((field, least)) =
        all.iter().find_map(|field| Some((field, field.minimum.filter(|text| text.len() <= VALUE_BYTES_MAX)?)))
    {
        let filter = format!("select(({} | numbers) >= {least})", access(field));
        recipes.push(recipe("at_least", "records from one number on", format!("{records} {}", quoted(&filter))));
    }
    let picked: Vec<String> =
        all.iter().take(PICKED_FIELDS_MAX).filter_map(|field| Some(key_text(field.path.first()?))).collect();
    recipes.push(recipe(
        "fields",
        "some fields of each record",
        format!("{records} {}", quoted(&format!("{{{}}}", picked.join(", ")))),
    ));
    if let Some((field, _)) = chosen {
        let filter = access(field);
        recipes.push(recipe(
            "groups",
            "values with their counts",
            format!("{records} {} | sort | uniq -c | sort -rn", quoted(&filter)),
        ));
    }
    recipes
}

/// A value worth filtering by: the most frequent one, where it is not the only one.
fn frequent_value<'a>(field: &Field<'a>) -> Option<&'a str> {
    if field.types.strings + field.types.booleans == 0 {
        return None;
    }
    let distinct = field.distinct.as_ref().filter(|distinct| distinct.len() > 1)?;
    // The first of the most frequent ones, so that the order of the data decides and nothing else.
    let best = distinct.iter().rev().max_by_key(|value| value.count)?;
    (best.count > 1 && best.json.len() <= VALUE_BYTES_MAX).then_some(best.json)
}

/// `.name`, or `."any key"`.
fn access(field: &Field<'_>) -> String {
    field.path.iter().map(|key| format!(".{}", key_text(key))).collect()
}

fn key_text(key: &Key<'_>) -> String {
    // jq reserves a few words that look like keys; quoted, every key is one.
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

/// The path of a field as a descriptor shows it: its keys with dots between them.
pub(crate) fn display_path(field: &Field<'_>) -> String {
    if field.path.is_empty() {
        return ".".to_owned();
    }
    field.path.iter().map(|key| key.raw).collect::<Vec<_>>().join(".")
}

/// The path of a field as a JSON Pointer.
pub(crate) fn pointer(field: &Field<'_>) -> String {
    field.path.iter().map(|key| format!("/{}", key.raw.replace('~', "~0").replace('/', "~1"))).collect()
}
