//! Settings as they reach the gateway, and what it does with each tool.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use lro_tests::{component, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::scripted::{Script, Setup, descriptor, first_text, records, structured, text};
use crate::support::{lro, path_text};

fn large() -> Value {
    structured(&json!({ "items": records(2_000) }))
}

/// What a gateway says that should not start.
fn refused(flags: &[&str], toml: &str, variables: &[(&str, &str)]) -> Output {
    let home = TempDir::new().unwrap();
    let (command, environment) = Script::new().command(&Setup { flags, toml, variables, ..Setup::default() }, &home);
    Command::new(&command[0]).args(&command[1..]).envs(environment).output().unwrap()
}

// Each section gets the summaries that the configuration asks for, and one that asks for none those of the policy.
#[test]
fn sections_get_the_summaries_asked_for() {
    let states = ["open", "paid", "paid"];
    let order = |id: u32| json!({"id": id, "state": (states[id as usize % 3]), "total": f64::from(id) / 2.0});
    let orders: Vec<Value> = (1..=900).map(order).collect();
    let people: Vec<Value> = (0..700).map(|id| json!({"name": format!("n{}", id % 7), "age": 20 + id % 50})).collect();
    let script =
        Script::new().call("both", structured(&json!({"orders": orders, "people": people, "plain": records(400)})));
    let toml = r#"
        level = "full"
        [[sections]]
        key = "orders"
        summaries = [{kind = "range", field = "/total"}, {kind = "top-values", field = "/state"}]
        [[sections]]
        key = "people"
        summaries = [{kind = "distinct", field = "/name"}, {kind = "distinct", field = "/age"}, {kind = "count"}]
        [[sections]]
        key = "plain"
    "#;
    let summary = script.with_toml(toml).descriptor("both")["summary"].take();
    let counts = |wanted: &str| orders.iter().filter(|order| order["state"] == wanted).count();
    let totals = || orders.iter().map(|order| order["total"].as_f64().unwrap());
    let (least, most) = (totals().fold(f64::MAX, f64::min), totals().fold(f64::MIN, f64::max));
    assert_eq!(
        summary["orders"],
        json!({
            "count": orders.len(), "total": {"min": least, "max": most},
            "state": {"top": [["paid", counts("paid")], ["open", counts("open")]]},
        })
    );
    let distinct = |key: &str| people.iter().map(|person| person[key].to_string()).collect::<BTreeSet<_>>().len();
    assert_eq!(
        summary["people"],
        json!({
            "count": people.len(), "name": {"distinct": distinct("name")}, "age": {"distinct": distinct("age")},
        })
    );
    assert_eq!((&summary["plain"]["count"], &summary["plain"]["id"]["max"]), (&json!(400), &json!(399)), "{summary}");
}

// A second start compiles nothing: one millisecond is enough for it, which is not for the first.
#[test]
fn a_second_start_compiles_nothing() {
    let cache = TempDir::new().unwrap();
    let script = Script::new().call("large", large());
    let variables = [("XDG_CACHE_HOME", cache.path().to_str().unwrap())];
    let in_no_time = ["--loading-compile-ms", "1"];
    let output = refused(&in_no_time, "", &variables);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("1 ms"), "{errors}");
    script.start_with(&Setup { variables: &variables, ..Setup::default() }).descriptor("large");
    script.start_with(&Setup { flags: &in_no_time, variables: &variables, ..Setup::default() }).descriptor("large");
    // What was kept is of this engine and these bytes: without it there is nothing to start from.
    std::fs::remove_dir_all(cache.path().join("lro-filter-compiled")).unwrap();
    assert!(!refused(&in_no_time, "", &variables).status.success());
}

// Each variable overrides the configuration.
#[test]
fn variables_override_the_configuration() {
    let script = Script::new().call("middle", text(&"x".repeat(5_000))).call("large", large());
    let elsewhere = TempDir::new().unwrap();
    let start = |variables: &[(&str, &str)]| {
        let toml = "threshold = 60000\nenabled = true\n";
        script.start_with(&Setup { toml, variables, ..Setup::default() })
    };
    let mut gateway = start(&[]);
    assert_eq!(gateway.call("middle", json!({})), text(&"x".repeat(5_000)));
    let mut gateway = start(&[("MCP_LRO_THRESHOLD", "4999")]);
    gateway.descriptor("middle");
    let mut gateway = start(&[("MCP_LRO_THRESHOLD", "5000")]);
    assert!(descriptor(&gateway.call("middle", json!({}))).is_none());
    for off in ["false", "0", "off", "NO"] {
        let mut gateway = start(&[("MCP_LRO_ENABLED", off)]);
        assert_eq!(gateway.call("large", json!({})), large());
    }
    let directory = elsewhere.path().join("there");
    let mut gateway = start(&[("MCP_LRO_DIR", directory.to_str().unwrap())]);
    let found = gateway.descriptor("large");
    assert!(found["files"]["items"].as_str().unwrap().starts_with(directory.to_str().unwrap()), "{found}");
    assert_eq!(gateway.offloads().len(), 0);
}

// An invalid value is an error at the start that names it, whatever layer it came from.
#[test]
fn bad_values_are_errors_at_the_start() {
    for (variable, value) in [
        ("MCP_LRO_THRESHOLD", "many"),
        ("MCP_LRO_THRESHOLD", "0"),
        ("MCP_LRO_THRESHOLD", "-1"),
        ("MCP_LRO_THRESHOLD", ""),
        ("MCP_LRO_THRESHOLD", "5e4"),
        ("MCP_LRO_ENABLED", "maybe"),
        ("MCP_LRO_ENABLED", ""),
        ("MCP_LRO_DIR", ""),
        ("MCP_LRO_UNIT", "words"),
        ("MCP_LRO_MODE", "sometimes"),
        ("MCP_LRO_SCHEMA", "guess"),
        ("MCP_LRO_THRESHOLDS", "1"),
        ("MCP_LRO_GATEWAY_SESSION_BUDGET", "0"),
        ("MCP_LRO_GATEWAY_AUDIT", "perhaps"),
        ("MCP_LRO_TRUNCATE_LIMIT", "0"),
        ("MCP_LRO_PRESET", "26k"),
        ("MCP_LRO_CONFIG", "/none/such.toml"),
    ] {
        let output = refused(&[], "", &[(variable, value)]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{variable}={value}: {errors}");
        assert!(errors.contains(variable), "{variable}={value}: {errors}");
        assert_eq!(output.stdout, b"", "nothing on the wire");
    }
    for (toml, key) in [
        ("threshold = 0\n", "threshold"),
        ("[tools.a]\nthreshold = 0\n", "tools"),
        ("[clients.a]\nresult-limit = 0\n", "clients"),
        ("[tools.a]\nmod = \"never\"\n", "mod"),
        ("[clients.a]\nshares_disk = true\n", "shares_disk"),
        ("threshold", "lro.toml"),
        ("[gateway]\nsession-floor = 0\n", "session-floor"),
    ] {
        let output = refused(&[], toml, &[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{toml}: {errors}");
        assert!(errors.contains(key), "{toml}: {errors}");
    }
}

// What would fail at each call, or at the start, is refused before: settings of a policy, files that are not there. No server is needed.
#[test]
fn a_configuration_is_checked_with_all_that_it_names() {
    let home = TempDir::new().unwrap();
    let named = |name: &str| path_text(&home.path().join(name));
    std::fs::write(named("redact.wasm"), component("lro_redact.wasm")).unwrap();
    std::fs::create_dir(named("keys")).unwrap();
    let cache = path_text(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
    let check = |toml: &str| {
        std::fs::write(named("lro.toml"), toml).unwrap();
        let bucket = [("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret"), ("AWS_REGION", "us-east-1")];
        let mut command = Command::new(lro());
        command.args(["gateway", "--config", &named("lro.toml"), "--check-config"]).envs(bucket);
        command.env("XDG_CACHE_HOME", &cache).env("MCP_LRO_DIR", named("out"));
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let policy = format!("policy = {:?}\n", named("redact.wasm"));
    let good = check(&format!("{policy}custom = '{{\"fields\": [\"ssn\"]}}'\n"));
    assert_eq!(good.0, Some(0), "{}", good.1);
    let unknown = "custom = '{\"columns\": [\"ssn\"]}'\n";
    let keys = format!("store = \"s3://bucket/offloads\"\nstore-keys = {:?}\n", named("keys"));
    let of_acme = "[gateway]\nlisten = \"127.0.0.1:0\"\n[gateway.tokens]\nacme = \"sha256:";
    for (toml, cause) in [
        (format!("{policy}{unknown}"), "unknown member `columns`"),
        (format!("{policy}[tools.\"list_*\"]\n{unknown}"), "unknown member `columns`"),
        (format!("{policy}[tenants.acme]\n{unknown}"), "tenant `acme`"),
        (
            "[gateway]\nlisten = \"127.0.0.1:0\"\ntls-certificate = \"/no/cert.pem\"\ntls-key = \"/no/key.pem\"\n"
                .to_owned(),
            "/no/cert.pem",
        ),
        (keys.clone(), "tenant `default` has no key: create "),
        (format!("{keys}{of_acme}{}\"\n", "0".repeat(64)), "tenant `acme` has no key: create "),
    ] {
        let (code, errors) = check(&toml);
        assert_eq!(code, Some(1), "{toml}: {errors}");
        assert!(errors.contains(cause), "{toml}: {errors}");
    }
    std::fs::write(named("keys/default.key"), "0".repeat(64)).unwrap();
    let (code, errors) = check(&keys);
    assert_eq!(code, Some(0), "{errors}");
}

/// All files and directories below a directory, with their modes.
fn below(directory: &Path, found: &mut Vec<(String, u32)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        found.push((path.display().to_string(), metadata.permissions().mode() & 0o777));
        if metadata.is_dir() {
            below(&path, found);
        }
    }
}

// Files lie under the directory alone, for nobody else to read, whatever the names are.
#[test]
fn files_lie_under_the_directory_alone() {
    let hostile = json!({"../../up": records(400), "/etc/x": records(400), "a\u{0}b": records(400), "$(touch x)": records(400), "x".repeat(5_000): records(400)});
    let names = ["large", "../../tool", "$(touch y)"];
    let script = names.iter().fold(Script::new(), |script, name| script.call(name, structured(&hostile)));
    let outside = TempDir::new().unwrap();
    let mut gateway =
        script.start_with(&Setup { variables: &[("TMPDIR", outside.path().to_str().unwrap())], ..Setup::default() });
    for name in names {
        gateway.descriptor(name);
    }
    let mut found = Vec::new();
    below(gateway.home.path(), &mut found);
    let out = gateway.directory().display().to_string();
    for (path, mode) in &found {
        if path.starts_with(&out) {
            assert!(mode & 0o077 == 0, "{path} has the mode {mode:o}");
        } else {
            assert!(path.ends_with("script.json"), "{path} is outside");
        }
    }
    assert_eq!(gateway.offloads().len(), 3);
    let mut found = Vec::new();
    below(outside.path(), &mut found);
    assert_eq!(found, [], "in the directory for temporary files");
}

// Each tool by its name or pattern: never, always, by its own size and unit.
#[test]
fn each_tool_has_its_own_settings() {
    let toml = "mode = \"never\"\n\
        [tools.\"list_*\"]\nmode = \"by-size\"\n\
        [tools.\"list_big*\"]\nthreshold = 10\nunit = \"tokens\"\nmode = \"by-size\"\n\
        [tools.always]\nmode = \"always\"\n\
        [tools.\"*cut\"]\nmode = \"by-size\"\naction = \"truncate\"\n\
        [tools.refuse]\nmode = \"always\"\naction = \"reject\"\n";
    let middle = text(&"x".repeat(5_000));
    let script = ["other", "list_a", "list_big_a", "always", "refuse"]
        .iter()
        .fold(Script::new(), |script, name| script.call(name, &middle));
    let script = script.call("list_large", large()).call("the_cut", large()).call("never_large", large());
    let mut gateway = script.with_toml(toml);
    for (name, offloaded) in [
        ("other", false),
        ("never_large", false),
        ("list_a", false),
        ("list_large", true),
        ("list_big_a", true),
        ("always", true),
    ] {
        assert_eq!(descriptor(&gateway.call(name, json!({}))).is_some(), offloaded, "{name}");
    }
    let cut = gateway.call("the_cut", json!({}));
    assert!(cut.to_string().len() < 60_000 && first_text(&cut).contains("\"offloaded\":false"), "{cut:.300}");
    assert_eq!(gateway.call("refuse", json!({}))["isError"], true);
}

/// Names of the files of a descriptor, in alphabetical order of their sections.
fn file_names(descriptor: &Value) -> Vec<&str> {
    let files = descriptor["files"].as_object().unwrap_or_else(|| panic!("no files: {descriptor}"));
    files.values().map(|path| path.as_str().unwrap().rsplit('/').next().unwrap()).collect()
}

// What is said of one tool leaves the others as they are: sections that one names are still found for another.
#[test]
fn each_tool_has_its_own_descriptor() {
    let toml = r#"
        [tools.named]
        session-key = "run"
        inline-keys = ["total"]
        inline-limit = 0
        header-type = "own"
        [[tools.named.sections]]
        key = "wanted"
        filename-prefix = "kept"
        [tools.pointer]
        level = "pointer"
        [tools.specification]
        dialect = "specification"
        [tools.cut]
        action = "truncate"
        truncate-limit = 3000
        [tools.refused]
        action = "reject"
        advice = "ask for one page"
    "#;
    let both =
        structured(&json!({"wanted": records(900), "page": {"found": records(900)}, "total": 1_800, "run": "r7"}));
    let tools = ["named", "pointer", "specification", "cut", "refused", "other"];
    let script = tools.iter().fold(Script::new(), |script, tool| script.call(tool, &both));
    let mut gateway = script.with_toml(toml);

    let other = gateway.descriptor("other");
    assert_eq!(file_names(&other), ["found.jsonl", "wanted.jsonl"]);
    assert_eq!((&other["total"], &other["run"]), (&json!(1_800), &json!("r7")), "{other}");
    let named = gateway.descriptor("named");
    assert_eq!(file_names(&named), ["page-r7.jsonl", "kept-r7.jsonl"]);
    assert_eq!((&named["total"], &named["run"]), (&json!(1_800), &Value::Null), "{named}");
    for (descriptor, header) in [(&named, "own"), (&other, "mcp_lro")] {
        let file = std::fs::read_to_string(descriptor["files"]["wanted"].as_str().unwrap()).unwrap();
        let line: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
        assert_eq!(line["type"], header);
    }
    assert_eq!(gateway.descriptor("pointer")["summary"]["found"], json!({"count": 900}));
    assert!(other["summary"]["found"]["id"].is_object(), "{other}");
    assert!(gateway.descriptor("specification")["file_path"].is_string() && other["file_path"].is_null());
    let cut = gateway.call("cut", json!({}));
    assert!(cut.to_string().len() < 3_500 && first_text(&cut).contains("\"offloaded\":false"), "{cut}");
    let refused = gateway.call("refused", json!({}));
    assert_eq!((&refused["isError"], first_text(&refused)), (&true.into(), "ask for one page"));
}

// A tool may fail closed where others are cut.
#[test]
fn each_tool_has_its_own_failure_mode() {
    let script = Script::new().call("open", large()).call("closed", large());
    let mut gateway = script.with_toml("quota-file = 2000\n[tools.closed]\nfailure = \"closed\"\n");
    assert_eq!(gateway.call("open", json!({}))["isError"], Value::Null);
    let closed = gateway.call("closed", json!({}));
    assert_eq!(closed["isError"], true);
    assert!(first_text(&closed).contains("could not be filtered"), "{closed}");
}

// Offloads of one tool outlive those of others, for readers and for what removes them.
#[test]
fn each_tool_has_its_own_time_to_live() {
    let script = Script::new().call("brief", large()).call("lasting", large());
    let mut gateway = script.with_toml("ttl-seconds = 2\n[tools.lasting]\nttl-seconds = 3600\n");
    let [lasting, brief] = ["lasting", "brief"].map(|tool| crate::scripted::handle(&gateway.descriptor(tool)));
    wait_until("what has expired is gone", || gateway.offloads().len() == 1);
    assert_eq!(gateway.call("lro_read", json!({ "handle": lasting }))["isError"], Value::Null);
    let read = gateway.call("lro_read", json!({ "handle": brief }));
    assert!(read["isError"] == true && first_text(&read).contains("expired"), "{read}");
}

// Only some tools: everything else is exempt; and none at all.
#[test]
fn tools_are_included_or_excluded() {
    let script = ["a", "b"].iter().fold(Script::new(), |script, name| script.call(name, large()));
    for (toml, wanted) in [
        ("", [true, true]),
        ("mode = \"never\"\n[tools.a]\nmode = \"by-size\"\n", [true, false]),
        ("[tools.a]\nmode = \"never\"\n", [false, true]),
        ("mode = \"never\"\n", [false, false]),
        ("[tools.\"*\"]\nmode = \"never\"\n", [false, false]),
    ] {
        let mut gateway = script.with_toml(toml);
        let found = ["a", "b"].map(|name| descriptor(&gateway.call(name, json!({}))).is_some());
        assert_eq!(found, wanted, "{toml}");
    }
}

// Always means always: the smallest result, too.
#[test]
fn always_offloads_whatever_the_size() {
    let script = Script::new().call("small", text("{\"a\":1}")).call("rows", structured(&json!({"items": records(3)})));
    let mut gateway = script.with_toml("[tools.\"*\"]\nmode = \"always\"\n");
    for tool in ["small", "rows"] {
        gateway.descriptor(tool);
    }
}

// What cannot be written is cut to whole records, and told in the log; the call succeeds.
#[test]
fn what_cannot_be_written_is_cut() {
    let script = Script::new().call("large", large());
    let home = TempDir::new().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "").unwrap();
    for flags in [["--dir", file.to_str().unwrap()], ["--quota-file", "2000"], ["--quota-tenant", "2000"]] {
        let mut gateway = script.with_flags(&flags);
        let result = gateway.call("large", json!({}));
        assert_eq!(result["isError"], Value::Null, "{flags:?}: {result:.300}");
        let cut: Value = serde_json::from_str(first_text(&result)).unwrap();
        assert_eq!((&cut["offloaded"], &result["structuredContent"]), (&false.into(), &cut), "{flags:?}");
        let kept = cut["/items"].as_array().unwrap();
        assert_eq!(Value::Array(kept.clone()), records(kept.len()), "whole records");
        assert_eq!(cut["omitted"]["/items"], 2_000 - kept.len());
        assert!(cut["warning"].as_str().unwrap().contains("could not be written"), "{}", cut["warning"]);
        assert_eq!(gateway.offloads().len(), 0);
        let errors = gateway.end().errors;
        assert!(errors.lines().any(|line| line.contains("WARN") && line.contains("large")), "{errors}");
    }
}

// An offload expires; whoever asks is told so.
#[test]
fn an_offload_expires() {
    let mut gateway = Script::new().call("large", large()).with_flags(&["--ttl-seconds", "3"]);
    let handle = crate::scripted::handle(&gateway.descriptor("large"));
    assert_eq!(gateway.call("lro_read", json!({ "handle": handle }))["isError"], Value::Null);
    std::thread::sleep(std::time::Duration::from_millis(3_500));
    for tool in ["lro_read", "lro_extract"] {
        let result = gateway.call(tool, json!({ "handle": handle }));
        assert!(result["isError"] == true && first_text(&result).contains("expired"), "{result}");
    }
    let error = gateway.error("resources/read", json!({"uri": format!("lro://{handle}/items")}));
    assert!(error["message"].as_str().unwrap().contains("expired"), "{error}");
}

/// What a gateway must do to conform to the LRO specification, level by level.
mod specification {
    use serde_json::Value;

    use super::{Script, Setup, json, large, text, wait_until};
    use crate::scripted::Scripted;

    /// The gateway set up as the specification says: 1,600 tokens, its dialect, its header.
    fn gateway(more: &[&str]) -> Scripted {
        let flags = [
            &[
                "--preset",
                "1600-tokens",
                "--dialect",
                "specification",
                "--header-type",
                "lro_header",
                "--level",
                "full",
            ],
            more,
        ]
        .concat();
        let script = Script::new()
            .call("large", large())
            .call("at", text(&"x".repeat(5_000)))
            .call("over", text(&"word ".repeat(1_400)));
        script.start_with(&Setup { flags: &flags, ..Setup::default() })
    }

    fn lines(descriptor: &Value) -> Vec<Value> {
        let file = std::fs::read_to_string(descriptor["file_path"].as_str().unwrap()).unwrap();
        file.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    // Threshold, JSONL, reference to the file, summary.
    #[test]
    fn level_1() {
        let mut gateway = gateway(&[]);
        assert_eq!(gateway.call("at", json!({})), text(&"x".repeat(5_000)));
        gateway.descriptor("over");
        let found = gateway.descriptor("large");
        let lines = lines(&found);
        let header = &lines[0];
        for field in ["type", "operation", "count", "schema_version", "timestamp", "estimated_tokens", "detail"] {
            assert!(!header[field].is_null(), "{field}: {header}");
        }
        assert_eq!(
            (&header["type"], &header["operation"], &header["count"]),
            (&"lro_header".into(), &"large".into(), &2_000.into())
        );
        assert_eq!(lines.len(), 2_001);
        assert_eq!(lines[1..], *super::records(2_000).as_array().unwrap());
        assert!(std::path::Path::new(found["file_path"].as_str().unwrap()).is_absolute());
        assert_eq!((&found["summary"]["count"], &found["summary"]["operation"]), (&2_000.into(), &"large".into()));
        assert!(found["summary"]["estimated_tokens"].as_u64().unwrap() > 20_000, "{found}");
    }

    // A schema of a line, recipes that run on fields that exist, cleanup.
    #[test]
    fn level_2() {
        let mut gateway = gateway(&["--ttl-seconds", "4"]);
        let found = gateway.descriptor("large");
        let properties = found["line_schema"]["properties"].as_object().unwrap();
        assert_eq!(properties.keys().collect::<Vec<_>>(), ["even", "id", "name"], "{found}");
        let recipes = found["jq_recipes"].as_array().unwrap();
        assert!(!recipes.is_empty());
        for recipe in recipes {
            assert!(!recipe["description"].as_str().unwrap().is_empty());
            let output =
                std::process::Command::new("sh").args(["-c", recipe["command"].as_str().unwrap()]).output().unwrap();
            assert!(
                output.status.success() && output.stderr.is_empty() && !output.stdout.is_empty(),
                "{recipe}: {output:?}"
            );
        }
        std::thread::sleep(std::time::Duration::from_millis(4_500));
        // An offload makes room: what has expired is gone.
        gateway.descriptor("over");
        let file = std::path::Path::new(found["file_path"].as_str().unwrap());
        wait_until("the expired file is gone", || !file.exists());
    }

    // The call succeeds when the file cannot be written; events for that and for expiry.
    #[test]
    fn level_3() {
        let mut broken = gateway(&["--quota-file", "2000"]);
        let result = broken.call("large", json!({}));
        let cut: Value = serde_json::from_str(crate::scripted::first_text(&result)).unwrap();
        assert_eq!((&cut["offloaded"], &result["isError"]), (&false.into(), &Value::Null));
        assert!(result.to_string().len() < 6_400 * 2 && cut["warning"].is_string(), "{result}");
        assert!(broken.end().errors.contains("WARN"), "an event of the failed write");
        let script = Script::new().call("large", large());
        let mut expiring =
            script.start_with(&Setup { flags: &["--ttl-seconds", "1"], log: "info", ..Setup::default() });
        expiring.descriptor("large");
        std::thread::sleep(std::time::Duration::from_millis(1_500));
        expiring.descriptor("large");
        std::thread::sleep(std::time::Duration::from_millis(500));
        let errors = expiring.end().errors;
        assert!(errors.contains("expired"), "an event of the expiry: {errors}");
    }
}
