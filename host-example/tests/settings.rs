//! The configuration through its public face: layers, origins, checks, overrides by tool.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{collections::HashSet, ffi::OsString, fs, os::unix::ffi::OsStringExt, path::PathBuf};

use lro_host::settings::{
    Action, Config, DecisionMode, DescriptorDialect, DescriptorLevel, FailureMode, Origin, PolicySettings,
    SettingsError, Size, SizeUnit, SummaryKind, VARIABLE_PREFIX, VARIABLES, ValueForm,
};
use tempfile::TempDir;

/// Loads a configuration from the text of a file, variables and flags.
fn load(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Result<Config, SettingsError> {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("lro.toml");
    fs::write(&path, file).unwrap();
    let fixed = [("HOME", "/home/somebody"), ("PATH", "/bin"), ("MCP_LRO_CONFIG", path.to_str().unwrap())];
    let environment = fixed.iter().chain(variables).map(|(name, value)| (name.into(), value.into()));
    let flags: Vec<_> = flags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Config::load(environment, &flags)
}

/// The texts of all problems.
fn problems(file: &str, variables: &[(&str, &str)], flags: &[(&str, &str)]) -> Vec<String> {
    load(file, variables, flags).unwrap_err().problems.iter().map(ToString::to_string).collect()
}

fn size(amount: u64, unit: SizeUnit) -> Size {
    Size { amount, unit }
}

// row 2, row 8
#[test]
fn defaults_are_the_documented_ones() {
    let config = Config::load([("HOME".into(), "/home/somebody".into())], &[]).unwrap();
    assert!(config.enabled && config.fsync);
    assert_eq!(config.dir, PathBuf::from("/home/somebody/.cache/lro-filter"));
    assert_eq!((config.ttl_seconds.get(), config.failure), (3600, FailureMode::Open));
    let quotas = (config.quota_file.get(), config.quota_tenant.get(), config.quota_total.get());
    assert_eq!(quotas, (1 << 30, 4 << 30, 16 << 30));
    assert_eq!((&config.policy, &config.policy_sha256), (&None, &None));
    let limits = &config.limits;
    assert_eq!((limits.wall_time_ms.get(), limits.memory_bytes.get()), (30_000, 64 << 20));
    assert_eq!((limits.written_bytes.get(), limits.files.get(), limits.crossing_bytes.get()), (4 << 30, 256, 8 << 20));
    assert_eq!((limits.table_elements.get(), limits.instances.get()), (100_000, 16));
    let threshold = size(50_000, SizeUnit::Characters);
    let expected = PolicySettings {
        mode: DecisionMode::BySize,
        threshold,
        action: Action::Offload,
        sections: vec![],
        inline_keys: vec![],
        inline_limit: 512,
        infer: true,
        header_type: "mcp_lro".to_owned(),
        session_key: None,
        level: DescriptorLevel::Standard,
        dialect: DescriptorDialect::Sections,
        descriptor_limit: 40_000,
        truncate_limit: threshold,
        truncate_suffix: "\n\n[truncated: the result was larger than the limit]".to_owned(),
        advice: String::new(),
        custom: None,
    };
    assert_eq!(config.for_tool("any"), expected);
    assert!(config.explain().iter().all(|entry| entry.origin == Origin::Default));
}

// row 8
#[test]
fn the_directory_is_private_to_the_user() {
    let dir = |variables: &[(&str, &str)]| {
        let environment = variables.iter().map(|(name, value)| (name.into(), value.into()));
        Config::load(environment, &[]).map(|config| config.dir)
    };
    let home = ("HOME", "/h");
    assert_eq!(dir(&[home, ("XDG_CACHE_HOME", "/x")]), Ok("/x/lro-filter".into()));
    assert_eq!(dir(&[home, ("XDG_CACHE_HOME", "relative")]), Ok("/h/.cache/lro-filter".into()));
    assert_eq!(dir(&[("MCP_LRO_DIR", "/d")]), Ok("/d".into()));
    assert!(dir(&[]).unwrap_err().to_string().contains("`dir`"));
}

// row 5
#[test]
fn later_layers_override_earlier_ones_and_say_so() {
    let file = "threshold = 10\nunit = \"bytes\"\nenabled = true\n[limits]\nfiles = 5\nmemory-bytes = 6\n";
    let variables = [("MCP_LRO_THRESHOLD", "20"), ("MCP_LRO_DIR", "/data"), ("MCP_LRO_ENABLED", "Off")];
    let flags = [("threshold", "30"), ("limits.files", "7")];
    let config = load(file, &variables, &flags).unwrap();
    assert_eq!(config.for_tool("t").threshold, size(30, SizeUnit::Bytes));
    assert_eq!((config.enabled, config.dir.to_str().unwrap()), (false, "/data"));
    assert_eq!((config.limits.files.get(), config.limits.memory_bytes.get()), (7, 6));
    assert_eq!(config.limits.wall_time_ms.get(), 30_000, "the rest of a table keeps its defaults");

    let entries = config.explain();
    let told = |key: &str| {
        let entry = entries.iter().find(|entry| entry.key == key).unwrap();
        (entry.value.as_str(), entry.origin.to_string())
    };
    assert_eq!(told("threshold"), ("30", "flag --threshold".to_owned()));
    assert_eq!(told("dir"), ("\"/data\"", "variable MCP_LRO_DIR".to_owned()));
    assert_eq!(told("limits.files"), ("7", "flag --limits-files".to_owned()));
    assert_eq!(told("session-key"), ("null", "default".to_owned()));
    let (value, origin) = told("unit");
    assert!(value == "\"bytes\"" && origin.starts_with("file /") && origin.ends_with("lro.toml"), "{origin}");
    assert!(entries.is_sorted_by_key(|entry| &entry.key));
    assert_eq!(load(file, &[("MCP_LRO_THRESHOLD", "20")], &[]).unwrap().threshold.get(), 20);
}

// row 5, row 47
#[test]
fn bad_values_are_errors_and_all_are_told() {
    for (file, expected) in [
        ("threshold = 0", "`threshold` = `0` (file "),
        ("threshold = -1", "`threshold` = `-1` (file "),
        ("threshold = 1.5", "expected a nonzero u64"),
        ("treshold = 1", "unknown field `treshold`"),
        ("[limits]\nfile = 1", "`limits.file` = `1`"),
        ("[limits]\nfiles = 0", "`limits.files` = `0`"),
        ("[unknown]", "unknown field `unknown`"),
        ("unit = \"words\"", "expected one of `bytes`, `characters`, `tokens`"),
        ("policy-sha256 = \"abc\"", "expected 64 hexadecimal digits"),
        ("policy = \"\"", "expected a path"),
        ("ttl-seconds = 0", "`ttl-seconds` = `0`"),
        ("truncate-limit = 0", "`truncate-limit` = `0`"),
        ("preset = \"2k\"", "expected `1600-tokens` or `25k`"),
        ("[tools.\"a.*\"]\nmode = \"sometimes\"", "`tools.\"a.*\".mode` = `\"sometimes\"`"),
        ("[tools.x]\nlevel = \"full\"", "unknown field `level`"),
        ("[[sections]]\nkey = \"a\"\nschema = \"{\"", "expected a JSON Schema as JSON text"),
        ("[[sections]]\nfilename-prefix = \"a\"", "missing field `key`"),
        ("threshold = ", "`config` = `/"),
    ] {
        let found = problems(file, &[], &[]);
        assert!(found.len() == 1 && found.iter().all(|text| text.contains(expected)), "{file}: {found:?}");
    }
    let variables = [
        ("MCP_LRO_THRESHOLD", "many"),
        ("MCP_LRO_ENABLED", "maybe"),
        ("MCP_LRO_UNIT", "words"),
        ("MCP_LRO_TTL_SECONDS", "-5"),
        ("MCP_LRO_TRESHOLD", "5"),
    ];
    let found = problems("action = \"drop\"", &variables, &[("fsync", ""), ("nonsense", "1")]).join("\n");
    for expected in [
        "`action` = `\"drop\"` (file ",
        "`threshold` = `many` (variable MCP_LRO_THRESHOLD): expected a whole number",
        "`enabled` = `maybe` (variable MCP_LRO_ENABLED): expected one of true, false, 1, 0, yes, no, on, off",
        "`unit` = `\"words\"` (variable MCP_LRO_UNIT): unknown variant `words`, expected one of `bytes`",
        "`ttl-seconds` = `-5` (variable MCP_LRO_TTL_SECONDS)",
        "`MCP_LRO_TRESHOLD` = `5` (variable MCP_LRO_TRESHOLD): there is no variable of this name",
        "`fsync` = `` (flag --fsync)",
        "`nonsense` = `1` (flag --nonsense): there is no key of this name",
    ] {
        assert!(found.contains(expected), "no {expected} in\n{found}");
    }
    assert_eq!(found.lines().count(), 8, "{found}");
    assert!(problems("", &[], &[("config", "/nowhere.toml")]).iter().all(|text| text.contains("cannot read the file")));
    let not_text = ("MCP_LRO_DIR".into(), OsString::from_vec(vec![b'/', 0xff]));
    assert!(Config::load([not_text], &[]).unwrap_err().to_string().contains("expected UTF-8"));
}

// row 5
#[test]
fn every_key_has_a_variable_and_every_variable_works() {
    let samples = |form, key: &str| match (form, key) {
        (ValueForm::Integer, _) => "123",
        (ValueForm::Boolean, _) => "no",
        (ValueForm::List, _) => "a,/b/c",
        (_, "failure") => "closed",
        (_, "mode") => "always",
        (_, "unit") => "tokens",
        (_, "preset") => "25k",
        (_, "action") => "reject",
        (_, "level") => "full",
        (_, "dialect") => "specification",
        (_, "policy-sha256") => "00000000000000000000000000000000000000000000000000000000000000Ab",
        _ => "text",
    };
    for variable in VARIABLES.iter().filter(|variable| variable.key != "config") {
        let snake = variable.key.replace(['-', '.'], "_").to_uppercase();
        assert_eq!(variable.name, format!("{VARIABLE_PREFIX}{snake}"));
        let sample = samples(variable.form, variable.key);
        let config = load("", &[(variable.name, sample)], &[]).unwrap();
        let entries = config.explain();
        let entry = entries.iter().find(|entry| entry.key == variable.key).unwrap();
        assert_eq!(entry.origin, Origin::Variable(variable.name.to_owned()));
        let default = Config::default().explain().into_iter().find(|entry| entry.key == variable.key).unwrap();
        assert_ne!(entry.value, default.value, "{}", variable.name);
        load("", &[], &[(variable.key, sample)]).unwrap();
    }
    let keys: HashSet<String> = Config::default().explain().into_iter().map(|entry| entry.key).collect();
    let with_variable: HashSet<String> = VARIABLES.iter().map(|variable| variable.key.to_owned()).collect();
    let without: HashSet<_> = keys.difference(&with_variable).cloned().collect();
    assert_eq!(without, HashSet::from(["sections".to_owned(), "tools".to_owned()]));
    for (text, value) in [("TRUE", true), ("1", true), ("yes", true), ("on", true), ("0", false), ("False", false)] {
        assert_eq!(load("", &[("MCP_LRO_INFER", text)], &[]).unwrap().infer, value);
    }
}

// row 57
#[test]
fn presets_give_way_to_an_explicit_threshold_of_their_layer() {
    let threshold =
        |file: &str, variables: &[(&str, &str)]| load(file, variables, &[]).unwrap().for_tool("t").threshold;
    assert_eq!(threshold("preset = \"25k\"", &[]), size(25_000, SizeUnit::Tokens));
    assert_eq!(threshold("preset = \"1600-tokens\"", &[]), size(1_600, SizeUnit::Tokens));
    assert_eq!(threshold("preset = \"25k\"\nthreshold = 7", &[]), size(7, SizeUnit::Tokens));
    assert_eq!(threshold("preset = \"25k\"", &[("MCP_LRO_THRESHOLD", "8")]), size(8, SizeUnit::Tokens));
    assert_eq!(
        threshold("threshold = 7\nunit = \"bytes\"", &[("MCP_LRO_PRESET", "25k")]),
        size(25_000, SizeUnit::Tokens)
    );
    let config = load("preset = \"25k\"", &[], &[]).unwrap();
    assert_eq!(config.origin("threshold"), config.origin("preset"));
    assert_eq!(config.for_tool("t").truncate_limit, size(25_000, SizeUnit::Tokens));
}

// row 36, row 78
#[test]
fn the_most_specific_pattern_overrides_for_a_tool() {
    let file = r#"
        threshold = 1000
        truncate-limit = 900
        [tools."*"]
        mode = "never"
        [tools."search_*"]
        mode = "always"
        [tools."search_*_small"]
        threshold = 5
        unit = "tokens"
        action = "truncate"
        [tools."exact.name"]
        mode = "always"
    "#;
    let config = load(file, &[], &[]).unwrap();
    let mode = |tool: &str| config.for_tool(tool).mode;
    assert_eq!((mode("other"), mode("")), (DecisionMode::Never, DecisionMode::Never));
    assert_eq!((mode("search_"), mode("search_x")), (DecisionMode::Always, DecisionMode::Always));
    assert_eq!((mode("exact.name"), mode("exact_name")), (DecisionMode::Always, DecisionMode::Never));
    let small = config.for_tool("search_very_small");
    assert_eq!((small.mode, small.action), (DecisionMode::BySize, Action::Truncate));
    assert_eq!(small.threshold, size(5, SizeUnit::Tokens));
    assert_eq!(small.truncate_limit, size(900, SizeUnit::Characters));
    assert_eq!(mode("search_very_small_"), DecisionMode::Always);

    let tie = load("[tools.\"a*\"]\nthreshold = 1\n[tools.\"*b\"]\nthreshold = 2", &[], &[]).unwrap();
    assert_eq!(tie.for_tool("ab").threshold.amount, 2, "the first in alphabetical order");
    // A hostile name does not make matching slow.
    let stars = load(&format!("[tools.\"{}b\"]\nmode = \"always\"", "*a".repeat(50)), &[], &[]).unwrap();
    assert_eq!(stars.for_tool(&"a".repeat(10_000)).mode, DecisionMode::BySize);
}

#[test]
fn sections_are_read_with_their_summaries_and_recipes() {
    let file = r#"
        inline-keys = ["total", "/page/next"]
        [[sections]]
        key = "/data/items"
        filename-prefix = "items"
        schema = '{"type":"object"}'
        summaries = [{ kind = "top-values", field = "/owner" }, { kind = "count" }]
        recipes = [{ name = "newest", description = "The newest", command = "tail -n 1 {file}" }]
        [[sections]]
        key = ""
    "#;
    let settings = load(file, &[], &[]).unwrap().for_tool("t");
    let [first, second] = settings.sections.as_slice() else { unreachable!("two sections") };
    assert_eq!((first.key.as_str(), first.filename_prefix.as_deref()), ("/data/items", Some("items")));
    assert_eq!(first.schema.as_deref(), Some("{\"type\":\"object\"}"));
    let kinds: Vec<_> = first.summaries.iter().map(|rule| (rule.kind, rule.field.as_str())).collect();
    assert_eq!(kinds, [(SummaryKind::TopValues, "/owner"), (SummaryKind::Count, "")]);
    assert_eq!(first.recipes.first().unwrap().command, "tail -n 1 {file}");
    assert_eq!((second.key.as_str(), &second.schema), ("", &None));
    assert_eq!(settings.inline_keys, ["total", "/page/next"]);
}
