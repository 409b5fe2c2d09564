//! Commands and queries that run on the files: they use only existing fields, are safe on null, and quote the path.

use lro_json::write::{Object, string};
use lro_jsonl::{Field, Key};

use crate::arguments::{Arguments, FIRST_RECORDS, Target, condition, selected};
use crate::bindings::lro::filter::types::{
    self, Aggregate, AggregateKind, Condition, FileKind, Group, Operator, Query, Selection, SortKey, StoredQuery, Test,
};
use crate::descriptor::shown_file;
use crate::entry::Entry;
use crate::fields::{Fields, display_path, name, plain_name};
use crate::names::Names;

/// A command or query for a file.
#[derive(Clone)]
pub(crate) struct Recipe {
    /// Unique in the offload.
    pub(crate) name: String,
    pub(crate) description: String,
    /// The shell command.
    pub(crate) command: String,
    /// The query, stored with the file.
    pub(crate) query: Option<Query>,
    /// The same as arguments of the tool `lro_extract`.
    pub(crate) arguments: Option<Arguments>,
    /// Whether it comes from the configuration.
    pub(crate) configured: bool,
}

impl Recipe {
    pub(crate) fn stored(&self) -> Option<StoredQuery> {
        let query = self.query.clone()?;
        Some(StoredQuery { name: self.name.clone(), description: self.description.clone(), query })
    }

    /// The arguments of one call of the tool `lro_extract` that run it.
    pub(crate) fn call(&self, target: Target<'_>) -> Option<String> {
        let query = self.query.as_ref()?;
        if let Some(arguments) = &self.arguments {
            return Some(target.call(arguments));
        }
        let mut call = Object::default();
        call.member("handle", &string(target.handle)).member("recipe", &string(&self.name));
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
        arguments: None,
        configured: true,
    };
    recipes.iter().map(recipe).collect()
}

fn offered(entry: &Entry, path: &str) -> Vec<Recipe> {
    let file = quoted(path);
    let recipe = |name: &str, description: &str, command: String, tool: Option<(Query, Arguments)>| {
        let (query, arguments) = tool.unzip();
        Recipe {
            name: format!("{}_{name}", entry.section),
            description: description.to_owned(),
            command,
            query,
            arguments,
            configured: false,
        }
    };
    match entry.kind {
        FileKind::Records => {
            let mut recipes = field_recipes(entry, &file, &recipe);
            // Other characters may be escaped in the file.
            let word = entry.word().filter(|word| word.is_ascii());
            let find = word.map(|word| format!("tail -n +2 {file} | grep {}", quoted(&word)));
            recipes.extend(find.map(|find| recipe("find", "records with a word", find, None)));
            let command = format!("sed -n '2,4p;4q' {file}");
            let first =
                (Query { limit: Some(FIRST_RECORDS), ..all_records() }, vec![("limit", FIRST_RECORDS.to_string())]);
            recipes.push(recipe("first", "the first records", command, Some(first)));
            let count = (Query { count: true, ..all_records() }, vec![("count", "true".to_owned())]);
            let command = format!("tail -n +2 {file} | wc -l");
            recipes.push(recipe("count", "number of records", command, Some(count)));
            recipes
        }
        FileKind::Text => {
            let word = entry.word();
            let find = word.map(|word| format!("grep -n -C 2 {} {file}", quoted(&word)));
            let mut recipes = Vec::from_iter(find.map(|find| recipe("find", "lines with a word", find, None)));
            recipes.push(recipe("head", "the first lines", format!("head -n 20 {file}"), None));
            recipes.push(recipe("tail", "the last lines", format!("tail -n 20 {file}"), None));
            recipes
        }
        FileKind::Value => vec![recipe("begin", "the beginning of the value", format!("head -c 2000 {file}"), None)],
        FileKind::Bytes => Vec::new(),
    }
}

/// Makes a recipe from its name, description and command, and the query with its arguments.
type Make<'a> = &'a dyn Fn(&str, &str, String, Option<(Query, Arguments)>) -> Recipe;

/// Recipes that use fields, for records that are all objects.
fn field_recipes(entry: &Entry, file: &str, recipe: Make<'_>) -> Vec<Recipe> {
    let Some(fields) = Fields::of(entry) else { return Vec::new() };
    let records = format!("tail -n +2 {file} | jq -c");
    let mut recipes = Vec::new();
    if let Some((field, value)) = &fields.frequent {
        let filter = format!("select({} == {value})", access(field));
        let query = tested(field, Operator::Eq, value, "value").zip(condition(field, ("==", "eq"), value));
        recipes.push(recipe("where", "records with one value", format!("{records} {}", quoted(&filter)), query));
        let command = format!("{records} {} | sort | uniq -c | sort -rn", quoted(&access(field)));
        recipes.push(recipe("groups", "values with their counts", command, grouped(field)));
    }
    if let Some((field, most)) = &fields.numeric {
        let filter = format!("select(({} | numbers) >= {most})", access(field));
        let query = tested(field, Operator::Ge, most, "least").zip(condition(field, (">=", "ge"), most));
        recipes.push(recipe("at_least", "records from one number on", format!("{records} {}", quoted(&filter)), query));
    }
    let members: Vec<String> = fields.picked.iter().map(member).collect();
    let command = format!("{records} {}", quoted(&format!("{{{}}}", members.join(", "))));
    let select =
        fields.picked.iter().map(selection).collect::<Option<_>>().map(|select| Query { select, ..all_records() });
    recipes.push(recipe("fields", "some fields of each record", command, select.zip(selected(&fields.picked))));
    recipes
}

/// The query for all records.
fn all_records() -> Query {
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
    Some(Query { where_: vec![Condition::Test(test)], ..all_records() })
}

/// The values of a field with their counts, the most frequent first, and the same as arguments.
fn grouped(field: &Field<'_>) -> Option<(Query, Arguments)> {
    let by = selection(field)?;
    let name = string(&by.field);
    // A field of the name of the number needs another name for the number.
    let (count, aggregates, group) = match by.field.as_str() {
        "count" => {
            let records = Some("records".to_owned());
            let aggregate = Aggregate { kind: AggregateKind::Count, field: None, name: records };
            let group = format!(r#"{{"by":[{name}],"aggregates":[{{"kind":"count","as":"records"}}]}}"#);
            ("records", vec![aggregate], group)
        }
        _ => ("count", Vec::new(), format!(r#"{{"by":[{name}]}}"#)),
    };
    let sort = vec![SortKey { field: count.to_owned(), descending: true }];
    let group = plain_name(field).filter(|_| aggregates.is_empty()).map_or(group, |name| string(&name));
    let arguments = vec![("group", group), ("sort", string(&format!("-{count}")))];
    Some((Query { group: Some(Group { by: vec![by], aggregates }), sort, ..all_records() }, arguments))
}

fn selection(field: &Field<'_>) -> Option<Selection> {
    Some(Selection { field: name(field)?, name: None })
}

/// The member of an object that jq makes: `name`, or `"owner.name": .owner.name`.
fn member(field: &Field<'_>) -> String {
    match field.path.as_slice() {
        [key] => key_text(key),
        _ => format!("{}: {}", string(&display_path(field)), access(field)),
    }
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
