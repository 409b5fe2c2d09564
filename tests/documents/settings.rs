//! The table of the settings.

use std::collections::BTreeMap;

use lro_gateway::settings::{CONFIG_KEY, Config, VARIABLES};
use lro_tests::{read, workspace};
use serde_json::Value;

const PAGE: &str = "host-example/docs/reference/settings.md";

/// The rows between the markers: key and default.
fn documented() -> BTreeMap<String, Value> {
    let page = read(&workspace().join(PAGE));
    let (_, rest) = page.split_once("<!-- settings: begin -->").unwrap();
    let (table, _) = rest.split_once("<!-- settings: end -->").unwrap();
    let mut found = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').splitn(3, " | ").map(str::trim).collect();
        let [key, default, meaning] = cells[..] else { panic!("{row}") };
        assert!(!meaning.is_empty(), "{row}");
        let before = found.insert(key.trim_matches('`').to_owned(), value(default));
        assert!(before.is_none(), "{key} is listed twice");
    }
    found
}

/// A default as it is written for readers: `none`, `50,000`, `64 MiB`, or JSON in backticks.
fn value(text: &str) -> Value {
    if text == "none" {
        return Value::Null;
    }
    if let Some(json) = text.strip_prefix('`').and_then(|text| text.strip_suffix('`')) {
        return serde_json::from_str(json).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    let (amount, unit) = text.split_once(' ').unwrap_or((text, ""));
    let unit: u64 = match unit {
        "" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => panic!("{text}: unit {other}"),
    };
    let amount: u64 = amount.replace(',', "").parse().unwrap_or_else(|error| panic!("{text}: {error}"));
    Value::from(amount * unit)
}

#[test]
fn the_table_has_every_key_with_its_default() {
    let config = Config::load([("HOME".into(), "/home/user".into())], &[]).unwrap();
    let mut actual: BTreeMap<String, Value> =
        config.explain().into_iter().map(|entry| (entry.key, serde_json::from_str(&entry.value).unwrap())).collect();
    let dir = actual.insert("dir".to_owned(), Value::from("~/.cache/lro-filter"));
    assert_eq!(dir, Some(Value::from("/home/user/.cache/lro-filter")));
    actual.insert(CONFIG_KEY.to_owned(), Value::Null);
    for variable in VARIABLES {
        assert!(actual.contains_key(variable.key), "{} is no key of the configuration", variable.key);
    }
    assert_eq!(documented(), actual);
}
