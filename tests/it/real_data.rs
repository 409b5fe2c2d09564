//! Real data through the default policy, checked by an independent program in Python.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, OnceLock};

use lro_host::filter::{Filter, Offloaded};
use lro_host::policy::{DEFAULT_POLICY, Policy};
use lro_host::sandbox::{Limits, Payload, Sandbox};
use lro_host::settings::PolicySettings;
use lro_tests::{
    always, always_full, check, filter, filter_with, offloaded, patient, read_data, request, structured, text,
    try_check, with_directory, workspace,
};
use tempfile::TempDir;

/// Most memory of the default policy, whatever the size of the result.
const MEMORY_BYTES_MAX: usize = 8 << 20;

/// Most instructions of WebAssembly for a record of three members, about twice as many as it takes.
const FUEL_OF_A_RECORD: u64 = 3_500;

struct DataSet {
    name: String,
    content: String,
    payload: Arc<Payload>,
}

/// One data set in files, and the file of its input beside them.
struct Published {
    input: PathBuf,
    offloaded: Offloaded,
    _root: TempDir,
}

fn data_sets() -> &'static [DataSet] {
    static DATA_SETS: OnceLock<Vec<DataSet>> = OnceLock::new();
    DATA_SETS.get_or_init(|| {
        let mut sets = vec![json("cargo metadata", cargo_metadata())];
        for (name, path) in [
            ("flights", "npm/vega-datasets/data/flights-200k.json"),
            ("countries", "npm/world-countries/countries.json"),
            ("emoji", "npm/emoji-datasource/emoji.json"),
            ("emoji pretty", "npm/emoji-datasource/emoji_pretty.json"),
        ] {
            sets.push(json(name, read_data(path)));
        }
        for name in ["15924", "3166-1", "3166-2", "3166-3", "4217", "639-3", "639-5"] {
            sets.push(json(&format!("iso {name}"), read_data(&format!("python/pycountry/databases/iso{name}.json"))));
        }
        let airports = read_data("python/airportsdata/airports.csv");
        sets.push(DataSet { name: "airports".to_owned(), payload: text(airports.clone()), content: airports });
        sets
    })
}

fn json(name: &str, content: String) -> DataSet {
    DataSet { name: name.to_owned(), payload: structured(content.clone()), content }
}

fn cargo_metadata() -> String {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn publish(set: &DataSet, settings: PolicySettings) -> Published {
    publish_below(set, settings, "store")
}

fn publish_below(set: &DataSet, settings: PolicySettings, directory: &str) -> Published {
    let root = TempDir::new().unwrap();
    let input = root.path().join("input");
    std::fs::write(&input, &set.content).unwrap();
    let decision = filter(&root.path().join(directory)).apply(&request(settings), &set.payload);
    let memory = decision.write.expect("a write").memory_bytes;
    assert!(memory < MEMORY_BYTES_MAX, "{}: {memory} bytes of memory", set.name);
    Published { input, offloaded: offloaded(decision), _root: root }
}

// Memory is checked by `publish_below`.
#[test]
fn every_value_is_in_the_files_or_the_descriptor() {
    for set in data_sets() {
        for settings in [always(), always_full()] {
            let published = publish(set, settings);
            let counts = check(&[&"lossless", &published.offloaded.offload.path(), &published.input]);
            assert!(counts["records"].as_u64().unwrap() > 10, "{}: {counts}", set.name);
        }
    }
}

/// What the checker is worth: it has to find each of these changes of one record, in file or input.
#[test]
fn the_checker_notices_any_change() {
    let row = r#"{"id":12345678901234567890123,"x":1.0,"e":1e2,"n":-0,"s":"a\"b","k":1,"k":2,"d":{"z":null,"y":[]}}"#;
    let document =
        |row: &str| format!(r#"{{"rows":[{},{row}],"total":2}}"#, r#"{"id":1},"#.repeat(2000).trim_end_matches(','));
    let published = publish(&json("rows", document(row)), always());
    let path = published.offloaded.offload.path();
    check(&[&"lossless", &path, &published.input]);
    let changes = [
        ("12345678901234567890123", "12345678901234567890124"),
        ("1.0", "1"),
        ("1e2", "100"),
        ("-0", "0"),
        (r#""k":1,"k":2"#, r#""k":2"#),
        (r#""z":null,"y":[]"#, r#""y":[],"z":null"#),
        ("[]", "{}"),
        (r#""e":1e2"#, r#""e":"1e2""#),
    ];
    for (old, new) in changes {
        assert!(row.contains(old));
        std::fs::write(&published.input, document(&row.replace(old, new))).unwrap();
        let found = try_check(&[&"lossless", &path, &published.input]).expect_err(new);
        assert!(found.contains("differs"), "{old} -> {new}: {found}");
    }
    std::fs::write(&published.input, document(row).replace(r#""total":2"#, r#""total":2,"more":1"#)).unwrap();
    try_check(&[&"lossless", &path, &published.input]).expect_err("a value that is nowhere");
    std::fs::write(&published.input, document(row).replace(r#","total":2"#, "")).unwrap();
    try_check(&[&"lossless", &path, &published.input]).expect_err("a value that is not of the input");
}

// Also below a directory whose name means something to a shell.
#[test]
fn every_recipe_runs() {
    for set in data_sets() {
        let published = publish_below(set, always_full(), r#"it's "quoted", $(touch X) `touch Y` & spaced \n"#);
        let descriptor: serde_json::Value = serde_json::from_str(&published.offloaded.descriptor).unwrap();
        let recipes = descriptor["jq_recipes"].as_object().unwrap();
        assert!(!recipes.is_empty(), "{}", set.name);
        let empty = TempDir::new().unwrap();
        for (name, command) in recipes {
            let command = command.as_str().unwrap();
            let output = Command::new("sh").args(["-c", command]).current_dir(empty.path()).output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && errors.is_empty(), "{} {name}: {command}: {errors}", set.name);
            assert!(!output.stdout.is_empty(), "{} {name}: {command} says nothing", set.name);
        }
        assert_eq!(std::fs::read_dir(empty.path()).unwrap().count(), 0, "a recipe of {} made a file", set.name);
    }
}

// Of files with more than 20,000 records the checker looks at the first 20,000 and at 2,000 others.
#[test]
fn the_inferred_schemas_hold_for_the_lines() {
    for set in data_sets() {
        let published = publish(set, always_full());
        let counts = check(&[&"schema", &published.offloaded.offload.path()]);
        assert!(counts["lines"].as_u64().unwrap() > 10 || set.name == "airports", "{}: {counts}", set.name);
    }
}

#[test]
fn the_summaries_are_true() {
    let mut figures = 0;
    for set in data_sets().iter().filter(|set| set.name != "airports") {
        for settings in [always(), always_full()] {
            let published = publish(set, settings);
            let counts = check(&[&"summary", &published.offloaded.offload.path()]);
            figures += counts["figures"].as_u64().unwrap();
        }
    }
    // Some sets have nothing but unique values; all of them together have plenty to tell.
    assert!(figures > 50, "{figures}");
}

#[test]
fn descriptors_are_short_whatever_the_data() {
    for set in data_sets() {
        let published = publish(set, always());
        let descriptor = &published.offloaded.descriptor;
        let (own, all) = (lro_jsonl::tokens(&with_directory(&published.offloaded, "")), lro_jsonl::tokens(descriptor));
        assert!(own < 600, "{}: {own} tokens: {descriptor}", set.name);
        assert!(all < 1_200, "{}: {all} tokens with its paths: {descriptor}", set.name);
        let full = publish(set, always_full()).offloaded.descriptor.chars().count();
        assert!(full < 50_000, "{}: {full} characters at the level full", set.name);
    }
}

// Each record may take as many instructions as any other, however many there are.
#[test]
fn memory_does_not_grow_with_the_records_and_time_is_linear() {
    let root = TempDir::new().unwrap();
    let counting = Sandbox::with_fuel().unwrap();
    let policy = Policy::from_bytes(&counting, DEFAULT_POLICY, &patient()).unwrap();
    let filter = filter_with(policy, root.path());
    let run = |records: u64| {
        let limits = Limits { fuel: Some(records * FUEL_OF_A_RECORD), ..Limits::default() };
        let filter = Filter { limits, ..filter.clone() };
        let rows = (0..records).map(|id| format!(r#"{{"id":{id},"name":"name {}","score":{}.5}}"#, id % 1000, id % 97));
        let payload = structured(format!(r#"{{"rows":[{}]}}"#, rows.collect::<Vec<_>>().join(",")));
        let decision = filter.apply(&request(always()), &payload);
        let cost = decision.write.unwrap();
        assert_eq!(offloaded(decision).offload.record().files[0].records, records);
        cost
    };
    let (small, large) = (run(100_000), run(1_000_000));
    assert!(large.memory_bytes < MEMORY_BYTES_MAX, "{} bytes", large.memory_bytes);
    assert!(large.memory_bytes <= small.memory_bytes + (1 << 20), "{} and {}", small.memory_bytes, large.memory_bytes);
}
