//! The settings stand once, in `lro-gateway`: the page of the settings, and the defaults of the packages for Python and
//! Node, are made from it.

use std::collections::BTreeMap;
use std::path::Path;

use lro_gateway::settings::{CONFIG_KEY, Config, FILE_KEYS, Preset, VARIABLES, ValueForm};
use lro_host::mcp;
use lro_tests::{read, workspace};
use serde_json::{Map, Value, json};

const PAGE: &str = "host-example/docs/reference/settings.md";
const BEGIN: &str = "<!-- settings: begin -->\n";
const END: &str = "<!-- settings: end -->\n";
const PYTHON: &str = "host-example/python/lro_filter/defaults.json";
const READING: [&str; 2] = ["host-example/python/lro_filter/reading.json", "host-example/node/src/reading.json"];
const NODE: &str = "host-example/node/src/defaults.js";
const NODE_TYPES: &str = "host-example/node/index.d.ts";

/// Set to anything, what is made is written instead of compared, for a review by `git diff`.
const WRITE: &str = "LRO_WRITE_SETTINGS";

/// Headings of the page, and the beginnings of the keys below each: the last that fits counts.
const GROUPS: [(&str, &[&str]); 7] = [
    ("What becomes of a result", &[""]),
    ("Tools, resources and prompts", &["tools-", "resources.", "prompt-"]),
    ("Store", &["dir", "store", "ttl-", "fsync", "quota-"]),
    ("Policies", &["config", "enabled", "failure", "policy", "tenants", "loading.", "breaker.", "trial."]),
    ("One call of a policy", &["limits."]),
    ("Questions, and calls of one tenant", &["query.", "admission."]),
    ("Gateway", &["gateway."]),
];

/// Tables and keys of the host alone. The other defaults are those of the packages too.
const OF_THE_HOST: [&str; 31] = [
    "admission",
    "clients",
    "dir",
    "documents",
    "documents-memory-bytes",
    "documents-wall-time-ms",
    "gateway",
    "inline-keys",
    "loading",
    "models",
    "policy",
    "policy-dir",
    "policy-keep",
    "policy-keys",
    "policy-sha256",
    "query",
    "quota-total",
    "resources",
    "sections",
    "store",
    "store-copies",
    "store-keys",
    "store-lease-seconds",
    "store-left-seconds",
    "store-retry-ms",
    "store-timeout-ms",
    "tenants",
    "tools",
    "tools-allow",
    "tools-deny",
    "trial",
];

/// The default of each key, as JSON.
fn defaults() -> BTreeMap<String, Value> {
    let config = Config::load([("HOME".into(), "/home/user".into())], &[]).unwrap();
    let entries = config.explain().into_iter();
    let mut defaults: BTreeMap<String, Value> =
        entries.map(|entry| (entry.key, serde_json::from_str(&entry.value).unwrap())).collect();
    let dir = defaults.insert("dir".to_owned(), Value::from("~/.cache/lro-filter"));
    assert_eq!(dir, Some(Value::from("/home/user/.cache/lro-filter")));
    defaults.insert(CONFIG_KEY.to_owned(), Value::Null);
    defaults
}

/// A default for readers: `none`, `50,000`, `64 MiB`, or JSON in backticks.
fn shown(default: &Value, form: ValueForm) -> String {
    let Some(number) = default.as_u64() else {
        return if default.is_null() { "none".to_owned() } else { format!("`{default}`") };
    };
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let whole = |(_, size): &(&str, u64)| form == ValueForm::Bytes && number.is_multiple_of(*size);
    units.into_iter().find(whole).map_or_else(|| grouped(number), |(unit, size)| format!("{} {unit}", number / size))
}

/// A number with a comma before each three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let (first, rest) = digits.split_at((digits.len() - 1) % 3 + 1);
    let rest = rest.as_bytes().chunks(3).map(|group| format!(",{}", str::from_utf8(group).unwrap()));
    first.to_owned() + &rest.collect::<String>()
}

/// The tables of the page.
fn tables() -> String {
    let defaults = defaults();
    let variables = VARIABLES.iter().map(|variable| (variable.key, variable.form, variable.help));
    let settings: Vec<_> =
        variables.chain(FILE_KEYS.iter().map(|(key, help)| (*key, ValueForm::Text, *help))).collect();
    let heading = |key: &str| {
        let fits = |(_, beginnings): &(&str, &[&str])| beginnings.iter().any(|beginning| key.starts_with(beginning));
        GROUPS.into_iter().rfind(fits).unwrap().0
    };
    let row = |(key, form, help): &(&str, ValueForm, &str)| {
        format!("| `{key}` | {} | {help} |\n", shown(&defaults[*key], *form))
    };
    let table = |(title, _): (&str, &[&str])| {
        let rows = settings.iter().filter(|(key, ..)| heading(key) == title).map(row);
        format!("\n### {title}\n\n| key | default | |\n|---|---|---|\n{}", rows.collect::<String>())
    };
    assert_eq!(settings.len(), defaults.len(), "a key is missing in VARIABLES and FILE_KEYS, or no key");
    GROUPS.into_iter().map(table).collect::<String>() + "\n"
}

/// The defaults that the packages have too, with their names of the keys.
fn package_defaults(rename: fn(&str) -> String) -> Map<String, Value> {
    let mut found = Map::new();
    for (key, default) in defaults() {
        let (table, name) = key.split_once('.').map_or((None, key.as_str()), |(table, name)| (Some(table), name));
        if OF_THE_HOST.contains(&table.unwrap_or(name)) || key == CONFIG_KEY || default.is_null() {
            continue;
        }
        let map = match table {
            Some(table) => found.entry(table).or_insert_with(|| json!({})).as_object_mut().unwrap(),
            None => &mut found,
        };
        map.insert(rename(name), default);
    }
    found
}

/// The named thresholds.
fn presets() -> Value {
    let preset = |preset: Preset| (serde_json::to_value(preset).unwrap().as_str().unwrap().to_owned(), preset.size());
    let sizes = [Preset::Tokens1600, Preset::Tokens25000].map(preset);
    sizes.into_iter().map(|(name, size)| (name, serde_json::to_value(size).unwrap())).collect::<Map<_, _>>().into()
}

fn snake(key: &str) -> String {
    key.replace('-', "_")
}

fn camel(key: &str) -> String {
    let mut words = key.split('-');
    let first = words.next().unwrap().to_owned();
    first + &words.map(|word| word[..1].to_uppercase() + &word[1..]).collect::<String>()
}

/// Compares a file with what it should be, or writes it.
pub(crate) fn compare(path: &str, expected: &str) {
    let path = workspace().join(path);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let is_same = Path::exists(&path) && read(&path) == expected;
    assert!(is_same, "{} differs; write it with {WRITE}=1, and review it", path.display());
}

#[test]
fn the_page_has_every_key_with_its_default_and_meaning() {
    let page = read(&workspace().join(PAGE));
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    compare(PAGE, &[before, BEGIN, &tables(), END, after].concat());
}

#[test]
fn the_package_for_python_has_the_defaults_of_the_host() {
    let mut all = package_defaults(snake);
    all.insert("presets".to_owned(), presets());
    compare(PYTHON, &(serde_json::to_string_pretty(&all).unwrap() + "\n"));
}

// A client does not wait for the component to be compiled before it sees what there is.
#[test]
fn the_packages_for_python_and_node_have_the_tools_of_the_host() {
    let template: Value = serde_json::from_str(mcp::TEMPLATE).unwrap();
    let all = json!({"tools": mcp::definitions(), "guidance": mcp::guidance(), "template": template});
    let expected = serde_json::to_string_pretty(&all).unwrap() + "\n";
    for path in READING {
        compare(path, &expected);
    }
}

#[test]
fn the_package_for_node_has_the_defaults_of_the_host() {
    let defaults: Value = package_defaults(camel).into();
    let defaults = serde_json::to_string_pretty(&defaults).unwrap().replace("  ", "    ");
    let comment = format!("/** Defaults of the host, written by its tests with {WRITE}=1. */");
    compare(NODE, &format!("{comment}\n\nexport const DEFAULTS = {defaults};\n"));
}

/// The comments of the types say the defaults: `Default: 50,000.` before `threshold?:`.
#[test]
fn the_types_of_the_package_for_node_say_the_defaults() {
    let types = read(&workspace().join(NODE_TYPES));
    let (_, types) = types.split_once("export interface Settings").unwrap();
    let mut defaults = package_defaults(camel);
    let tables = ["limits", "breaker"].map(|table| defaults.remove(table).unwrap());
    let of_tables = tables.iter().flat_map(|table| table.as_object().unwrap().clone());
    let mut compared = 0;
    for (name, default) in defaults.into_iter().chain(of_tables) {
        let Some((before, _)) = types.split_once(&format!(" {name}?:")) else { continue };
        let comment = &before[before.rfind("/**").unwrap()..];
        let Some((_, said)) = comment.rsplit_once("Default: ") else { continue };
        let said = said.split(['\n', '*']).next().unwrap().trim().trim_end_matches('.');
        let text = default.as_str().map_or_else(|| default.to_string(), |text| format!("`{text}`"));
        let forms = [text, shown(&default, ValueForm::Integer), shown(&default, ValueForm::Bytes)];
        let is_the_policys = default == "" && said.starts_with("the policy");
        assert!(forms.iter().any(|form| form == said) || is_the_policys, "{name}: {said}, not {}", forms[0]);
        compared += 1;
    }
    assert!(compared >= 15, "{compared} defaults");
}
