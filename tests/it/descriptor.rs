//! What the model sees: fields and their order, dialects, kept values, recipes, guidance, names, digests.

use std::collections::BTreeMap;
#[cfg(unix)]
use std::process::{Command, Output};

use lro_host::filter::{Offloaded, Request};
use lro_host::sandbox::types::Abilities;
use lro_host::settings::{DescriptorDialect, PolicySettings, Recipe, SectionRule, SummaryKind, SummaryRule};
use lro_tests::{always, always_full, filter, keys, offloaded, request, structured, with_directory};
use proptest::prelude::*;
use tempfile::TempDir;

/// One result in files, kept as long as this lives.
struct Published {
    offloaded: Offloaded,
    descriptor: serde_json::Value,
    _root: TempDir,
}

impl Published {
    /// The descriptor with the directory and the id replaced by words that do not change from run to run.
    fn golden(&self) -> String {
        with_directory(&self.offloaded, "DIRECTORY").replace(&self.offloaded.offload.id().to_string(), "ID")
    }

    fn names(&self) -> Vec<&str> {
        self.offloaded.offload.record().files.iter().map(|file| file.name.as_str()).collect()
    }
}

fn publish(request: &Request, document: &str) -> Published {
    let root = TempDir::new().unwrap();
    let offloaded = offloaded(filter(root.path()).apply(request, &structured(document.to_owned())));
    let descriptor = serde_json::from_str(&offloaded.descriptor).unwrap();
    Published { offloaded, descriptor, _root: root }
}

/// Runs a command, of which Windows has neither the shell nor the programs.
#[cfg(unix)]
fn shell(command: &str) -> Output {
    Command::new("sh").args(["-c", command]).output().unwrap()
}

fn with(settings: PolicySettings, document: &str) -> Published {
    publish(&request(settings), document)
}

fn rule(key: &str) -> SectionRule {
    SectionRule { key: key.to_owned(), filename_prefix: None, schema: None, summaries: Vec::new(), recipes: Vec::new() }
}

/// Small and fixed: what the golden tests show.
fn orders() -> String {
    let order = |id: u64| {
        let state = ["open", "paid", "paid"][id as usize % 3];
        format!(r#"{{"id":{id},"state":"{state}","total":{id}.5,"customer":{{"name":"c{}"}}}}"#, id % 5)
    };
    let orders: Vec<String> = (1..=300).map(order).collect();
    format!(r#"{{"page":1,"orders":[{}],"note":"all of them"}}"#, orders.join(","))
}

// Path first, then what was kept, then the rest in the order of the reference.
#[test]
fn the_standard_descriptor() {
    let published = with(PolicySettings { inline_keys: vec!["note".to_owned()], ..always() }, &orders());
    let wanted = concat!(
        r#"{"offloaded":true,"files":{"orders":"DIRECTORY/orders.jsonl"},"note":"all of them","page":1,"#,
        r#""summary":{"orders":{"count":300,"#,
    );
    let golden = published.golden();
    assert!(golden.starts_with(wanted), "{golden}");
    let order = ["offloaded", "files", "note", "page", "summary", "schemas", "samples", "jq_recipes", "guidance"];
    assert_eq!(keys(&golden), order);
    let orders = &published.descriptor["summary"]["orders"];
    assert_eq!(orders["id"], serde_json::json!({"min": 1, "max": 300}), "{orders}");
    assert_eq!(orders["state"], serde_json::json!({"top": [["paid", 200], ["open", 100]]}), "{orders}");
    assert_eq!(published.descriptor["schemas"]["orders"]["total"], "number", "{golden}");
    let guidance = concat!(
        "The result was too large and is in files. Line 1 of a .jsonl file is a header, each later line one record. ",
        "Run a recipe or your own filter; do not read a file whole.",
    );
    assert_eq!(published.descriptor["guidance"], guidance);
}

// What is the same in every record is said once; what is in arrays is a field, and a key with brackets another; a sample is the first
// record, shortened.
#[test]
fn fields_constants_and_a_sample() {
    let step = |id: u64| format!(r#"{{"name":"s{id}","arguments":["{}"],"rank":{{"of":{id}}}}}"#, "long ".repeat(40));
    let row = |id: u64| {
        format!(
            r#"{{"type":"run","id":{id},"note":null,"owner":{{"site":"a","name":"n{}"}},"steps":[{},{}],"text":"{}","of[]":{id}}}"#,
            id % 3,
            step(id),
            step(id + 1),
            "é\\n".repeat(60),
        )
    };
    let rows: Vec<String> = (0..100).map(row).collect();
    let published = with(always(), &format!("[{}]", rows.join(",")));
    let descriptor = &published.descriptor;
    let constants = serde_json::json!({"type": "run", "note": null, "owner.site": "a"});
    assert_eq!(descriptor["summary"]["records"]["constants"], constants, "{descriptor}");
    assert_eq!(
        descriptor["schemas"]["records"],
        serde_json::json!({
            "id": "integer", "text": "string", "owner.name": "string",
            "steps[].name": "string", "steps[].arguments[]": "string", "steps[].rank.of": "integer", "/of[]": "integer",
        }),
    );
    let sample = &descriptor["samples"]["records"];
    assert_eq!((&sample["id"], &sample["owner"]), (&0.into(), &serde_json::json!({"name": "n0"})), "{sample}");
    assert_eq!(sample["steps"][0]["arguments"][0], "long ".repeat(40)[..48].to_owned() + "…");
    assert_eq!(sample["text"], "é\n".repeat(24) + "…");
    assert_eq!(descriptor["jq_recipes"]["records_where"].as_str().map(|text| text.contains("owner.name")), Some(true));
    // A sample and constants are those of the data, whatever it is.
    lro_tests::check_on_unix(&[&"summary", &published.offloaded.offload.path()]);
}

// The first record alone may be as large as the result.
#[test]
fn samples_of_large_records_are_short() {
    let wide: Vec<String> = (0..3_000).map(|key| format!(r#""key {key}":"value {key}""#)).collect();
    let deep = format!("{}1{}", r#"{"a":["#.repeat(60), "]}".repeat(60));
    let long = format!(r#"{{"a":"{}\\ud83d\\ude00"}}"#, "\\ud83d\\ude00".repeat(20_000));
    for record in [
        format!("{{{}}}", wide.join(",")),
        deep,
        long,
        "9".repeat(30_000),
        format!("[{}]", vec!["[]"; 9_000].join(",")),
    ] {
        let published = with(always(), &format!("[{record},{record},{record}]"));
        let text = published.golden();
        assert!(lro_jsonl::tokens(&text) < 600, "{text}");
    }
}

#[test]
fn the_dialect_of_the_specification() {
    let settings = PolicySettings { dialect: DescriptorDialect::Specification, ..always_full() };
    let published = with(settings, &orders());
    let golden = published.golden();
    let order = [
        "offloaded",
        "file_path",
        "files",
        "page",
        "note",
        "summary",
        "line_schema",
        "jq_recipes",
        "guidance",
        "integrity",
    ];
    assert_eq!(keys(&golden), order);
    let descriptor = &published.descriptor;
    assert!(descriptor["file_path"].as_str().unwrap().ends_with("/orders.jsonl"));
    assert_eq!(descriptor["summary"]["count"], 300);
    assert_eq!(descriptor["summary"]["operation"], "tool");
    assert_eq!(descriptor["line_schema"]["type"], "object");
    for recipe in descriptor["jq_recipes"].as_array().unwrap() {
        assert!(recipe["description"].is_string(), "{recipe}");
        #[cfg(unix)]
        {
            let output = shell(recipe["command"].as_str().unwrap());
            assert!(output.status.success() && output.stderr.is_empty() && !output.stdout.is_empty(), "{recipe}");
        }
    }
}

#[test]
fn guidance_names_only_what_the_reader_has() {
    let tools =
        [(Abilities::SHELL, "recipe"), (Abilities::EXTRACT_TOOL, "lro_extract"), (Abilities::READ_TOOL, "lro_read")];
    for bits in 0..8_usize {
        let has = |index: usize| bits >> index & 1 == 1;
        let given = tools.iter().enumerate().filter(|(index, _)| has(*index)).map(|(_, (ability, _))| *ability);
        let abilities = given.fold(Abilities::empty(), |all, ability| all | ability);
        let published = publish(&Request { abilities, ..request(always()) }, &orders());
        let guidance = published.descriptor["guidance"].as_str().unwrap();
        for (index, (_, word)) in tools.iter().enumerate() {
            assert_eq!(guidance.contains(word), has(index), "{bits:03b}: {guidance}");
        }
        // Recipes stay beside the native tools: as commands for a shell, else as calls of `lro_extract`.
        let (key, other) = if has(0) { ("jq_recipes", "recipes") } else { ("recipes", "jq_recipes") };
        let recipes = published.descriptor.get(key).and_then(serde_json::Value::as_object);
        assert_eq!((recipes.is_none(), published.descriptor.get(other)), (!has(0) && !has(1), None), "{bits:03b}");
        let mut all = recipes.into_iter().flat_map(serde_json::Map::values);
        assert!(all.all(|recipe| recipe.is_string() == has(0)), "{recipes:?}");
        assert_eq!(guidance.contains("header"), has(0), "{guidance}");
        // A tool needs the handle; it comes before the files.
        let handle = published.descriptor["handle"].as_str();
        if has(1) || has(2) {
            assert_eq!(handle, Some(published.offloaded.offload.id().to_string().as_str()));
            assert_eq!(keys(&published.offloaded.descriptor)[1], "handle");
        }
        // The tools take the name of a file; where it lies is for a shell.
        assert_eq!(published.golden().contains("DIRECTORY"), has(0), "{bits:03b}");
        assert!(published.descriptor["files"]["orders"].as_str().unwrap().ends_with("orders.jsonl"));
    }
}

#[test]
fn sections_of_the_same_last_key_lose_nothing() {
    let rows = |name: &str| {
        let rows: Vec<String> =
            (0..400).map(|id| format!(r#"{{"id":{id},"kind":"{name}{}","n":{id}}}"#, id % 2)).collect();
        format!("[{}]", rows.join(","))
    };
    let document = format!(r#"{{"a":{{"items":{}}},"b":{{"items":{}}}}}"#, rows("x"), rows("y"));
    let one = with(always_full(), &format!(r#"{{"a":{{"items":{}}}}}"#, rows("x")));
    let two = with(always_full(), &document);
    for field in ["files", "summary", "schemas"] {
        assert_eq!(two.descriptor[field].as_object().unwrap().len(), 2, "{field}: {}", two.offloaded.descriptor);
    }
    let count = |published: &Published| published.descriptor["jq_recipes"].as_object().unwrap().len();
    assert_eq!(count(&two), 2 * count(&one), "{}", two.offloaded.descriptor);
    let commands: std::collections::BTreeSet<_> =
        two.descriptor["jq_recipes"].as_object().unwrap().values().map(|command| command.as_str().unwrap()).collect();
    assert_eq!(commands.len(), count(&two));
}

#[test]
fn a_configured_section_shows_what_it_was_asked_for() {
    let summary = |kind, field: &str| SummaryRule { kind, field: field.to_owned() };
    let section = SectionRule {
        filename_prefix: Some("my/orders".to_owned()),
        schema: Some(r#"{"title":"Order"}"#.to_owned()),
        summaries: vec![summary(SummaryKind::Range, "/total"), summary(SummaryKind::Distinct, "/customer/name")],
        recipes: vec![Recipe {
            name: "last".to_owned(),
            description: "the last one".to_owned(),
            command: "tail -n 1 {file}".to_owned(),
            query: None,
        }],
        ..rule("orders")
    };
    let published = with(PolicySettings { sections: vec![section], ..always_full() }, &orders());
    let descriptor = &published.descriptor;
    let wanted = serde_json::json!({
        "count": 300, "total": {"min": 1.5, "max": 300.5}, "customer.name": {"distinct": 5},
    });
    assert_eq!(descriptor["summary"]["orders"], wanted);
    assert_eq!(descriptor["schemas"]["orders"], serde_json::json!({"title": "Order"}));
    assert!(published.names()[0].starts_with("my_orders"), "{:?}", published.names());
    let last = descriptor["jq_recipes"]["last"].as_str().unwrap();
    assert!(last.starts_with("tail -n 1 ") && last.contains("orders"), "{last}");
    #[cfg(unix)]
    assert!(String::from_utf8(shell(last).stdout).unwrap().starts_with(r#"{"id":300,"#));
}

// Also where the file has escapes.
#[test]
fn strings_are_found_by_a_command() {
    for (string, has_command) in [("src/module_a.rs", true), ("it's \"quoted\"", true), ("modulé", false)] {
        let strings: Vec<String> = (0..300).map(|id| format!("{string}{id}")).collect();
        let published = with(always(), &serde_json::to_string(&strings).unwrap());
        let command = published.descriptor["jq_recipes"]["records_find"].as_str();
        assert_eq!(command.is_some(), has_command, "{}", published.descriptor);
        #[cfg(unix)]
        if let Some(command) = command {
            assert_eq!(String::from_utf8(shell(command).stdout).unwrap().lines().count(), 300, "{command}");
        }
    }
}

#[test]
fn a_configured_schema_takes_nothing_away() {
    let described = |schema: Option<&str>| {
        let rule = SectionRule { schema: schema.map(str::to_owned), ..rule("orders") };
        with(PolicySettings { sections: vec![rule], ..always() }, &orders())
    };
    let schema_of =
        |published: &Published| published.offloaded.offload.record().files[0].schema.as_ref().unwrap().get().to_owned();
    let plain = described(None);
    assert!(plain.descriptor["jq_recipes"]["orders_where"].is_string(), "{}", plain.golden());
    let golden = |published: &Published| serde_json::from_str::<serde_json::Value>(&published.golden()).unwrap();

    let given = described(Some(r#"{"title":"Order"}"#));
    assert_eq!(
        (schema_of(&given).as_str(), &given.descriptor["schemas"]["orders"]["title"]),
        (r#"{"title":"Order"}"#, &"Order".into())
    );
    for member in ["summary", "jq_recipes"] {
        assert_eq!(golden(&given)[member], golden(&plain)[member], "{member}");
    }
    // One that says nothing hides nothing.
    for nothing in ["{}", " { } "] {
        let described = described(Some(nothing));
        assert_eq!((described.golden(), schema_of(&described)), (plain.golden(), schema_of(&plain)));
    }
    // One that is too long for a descriptor is in the manifest; the model sees the fields.
    let text = format!(r#"{{"title":"{}"}}"#, "long ".repeat(400));
    let long = described(Some(&text));
    assert_eq!((schema_of(&long), &golden(&long)["schemas"]), (text, &golden(&plain)["schemas"]));
}

#[test]
fn hostile_sessions_give_safe_names() {
    let long = "s".repeat(5000);
    let sessions = [
        "../",
        "..",
        "/etc/passwd",
        "a\0b",
        &long,
        "ünï 文 \u{202e}",
        "$(touch X)",
        "`id`",
        "-rf",
        "a b",
        "\n",
        ".",
        "tests",
    ];
    let mut seen = BTreeMap::new();
    for by_key in [false, true] {
        for session in sessions {
            let mut request = request(always());
            let mut document = orders();
            if by_key {
                let settings = PolicySettings { session_key: Some("session".to_owned()), ..always() };
                request = lro_tests::request(settings);
                let value = serde_json::to_string(session).unwrap();
                document = format!(r#"{{"session":{value},{}"#, document.strip_prefix('{').unwrap());
            } else {
                request.session = Some(session.to_owned());
            }
            let published = publish(&request, &document);
            for name in published.names() {
                let safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
                assert!(name.bytes().all(safe) && name.len() <= 128 && !name.starts_with(['.', '-']), "{name}");
            }
            let name = published.names()[0].to_owned();
            assert_ne!(name, "orders.jsonl", "{session:.20} left no trace");
            if let Some(other) = seen.insert((by_key, name.clone()), session) {
                panic!("{other:.20} and {session:.20} are both {name}");
            }
        }
    }
}

// Also when the session key renames the files at the end.
#[test]
fn the_descriptor_tells_the_digest_of_the_records() {
    for session_key in [None, Some("note".to_owned())] {
        let published = with(PolicySettings { session_key: session_key.clone(), ..always_full() }, &orders());
        let integrity = published.descriptor["integrity"].as_object().unwrap();
        assert_eq!(integrity.len(), 1);
        for (name, entry) in integrity {
            let path = published.offloaded.offload.path().join(name);
            assert_eq!(entry["bytes"].as_u64(), Some(path.metadata().unwrap().len()));
            #[cfg(unix)]
            {
                let output = shell(&format!("tail -n +2 '{}' | sha256sum", path.display()));
                let digest = String::from_utf8(output.stdout).unwrap();
                assert_eq!(entry["sha256"].as_str(), digest.split_whitespace().next(), "session key {session_key:?}");
            }
            published.offloaded.offload.open(name).unwrap().verify().unwrap();
        }
    }
}

/// Keys that clash with the descriptor's own names are among them.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "offloaded",
            "files",
            "summary",
            "guidance",
            "inline",
            "handle",
            "warning",
            "rows-2"
        ])
        .prop_map(str::to_owned),
        "[a-z]{1,3}",
        "[ -~é文]{1,6}",
    ]
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("12345678901234567890.10e+5".to_owned()),
        Just(r#"{"z":1,"a":[1.0,null],"z":2}"#.to_owned()),
        Just(r#""\u0041\ud83d\ude00""#.to_owned()),
        "-?[1-9][0-9]{0,20}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn inline_keys_are_kept_verbatim(
        members in prop::collection::btree_map(key(), value(), 0..8),
        absent in prop::collection::vec("[A-Z]{4}", 0..3),
        reverse: bool,
    ) {
        let mut wanted: Vec<(String, String)> = members.into_iter().filter(|(key, _)| !key.starts_with('/')).collect();
        let quoted = |text: &str| serde_json::to_string(text).unwrap();
        let document: Vec<String> = wanted.iter().map(|(key, value)| format!("{} : {value}", quoted(key))).collect();
        let rows = vec![r#"{"id":1}"#; 300].join(",");
        let document = format!(r#"{{"the rows":[{rows}]{}{}}}"#, if document.is_empty() { "" } else { "," }, document.join(","));
        if reverse {
            wanted.reverse();
        }
        let inline_keys = absent.iter().cloned().chain(wanted.iter().map(|(key, _)| key.clone())).collect();
        let published = with(PolicySettings { inline_keys, ..always() }, &document);
        let text = &published.offloaded.descriptor;
        let own =
            ["offloaded", "handle", "files", "summary", "schemas", "samples", "recipes", "jq_recipes", "guidance", "inline"];
        let members = |text: &str| -> Vec<(String, String)> {
            let members = lro_json::members(text).unwrap();
            members.iter().map(|member| (serde_json::from_str(member.key).unwrap(), member.value.to_owned())).collect()
        };
        let top = members(text);
        // The descriptor's own members keep their names and come once.
        for name in ["offloaded", "files", "summary", "guidance"] {
            prop_assert_eq!(top.iter().filter(|(key, _)| key == name).count(), 1, "{}", text);
        }
        prop_assert_eq!(&top[0], &("offloaded".to_owned(), "true".to_owned()));
        let clashes = top.iter().find(|(key, _)| key == "inline").map(|(_, value)| members(value)).unwrap_or_default();
        let shown: Vec<_> = top.into_iter().filter(|(key, _)| !own.contains(&key.as_str())).collect();
        for (found, clashing) in [(&shown, false), (&clashes, true)] {
            let positions: Vec<_> = found
                .iter()
                .map(|member| wanted.iter().position(|wanted| wanted == member))
                .collect();
            prop_assert!(positions.iter().all(Option::is_some) && positions.is_sorted(), "{} {}: {:?}", clashing, text, wanted);
        }
        prop_assert_eq!(shown.len() + clashes.len(), wanted.len(), "{}: {:?}", text, wanted);
    }
}
