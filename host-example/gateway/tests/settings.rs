//! The configuration through its public API: layers, origins, validation, overrides by tool.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::fs;
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use lro_gateway::parts;
use lro_gateway::settings::{
    Action, Admission, BreakerSettings, CONFIG_KEY, ClientProfile, Config, DecisionMode, DescriptorDialect,
    DescriptorLevel, DocumentMode, FILE_KEYS, FailureMode, GatewaySettings, GatewayTool, ImageMode, JobMode,
    KNOWN_CLIENTS, Origin, PolicyPlace, PolicySettings, SchemaStrategy, Sees, SettingsError, Size, SizeUnit,
    SummaryKind, Token, Tokenizer, Trial, VARIABLES, ValueForm,
};
use lro_host::policy::Digest;
use lro_host::store::Fsync;
use tempfile::TempDir;

/// A minisign public key.
const KEY: &str = "RWQBAQEBAQEBAQICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgIC";

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

#[test]
fn defaults_are_the_documented_ones() {
    let config = Config::load([("HOME".into(), "/home/somebody".into())], &[]).unwrap();
    assert!(config.enabled && config.fsync == Fsync::Before);
    assert_eq!(config.dir, PathBuf::from("/home/somebody/.cache/lro-filter"));
    assert_eq!((config.ttl_seconds.get(), config.failure), (3600, FailureMode::Open));
    let quotas = (config.quota_file.get(), config.quota_tenant.get(), config.quota_total.get());
    assert_eq!(quotas, (1 << 30, 4 << 30, 16 << 30));
    let bucket = (config.store_copies.get(), config.store_timeout_ms.get(), config.store_retry_ms);
    assert_eq!((&config.store, bucket, config.store_left_seconds.get()), (&None, (4 << 30, 20_000, 30_000), 3_600));
    assert_eq!(config.store_lease_seconds.get(), 30);
    assert_eq!((&config.policy, &config.policy_sha256), (&None, &None));
    assert_eq!((&config.policy_dir, &config.policy_keep, &config.policy_keys), (&None, &None, &vec![]));
    let loading = &config.loading;
    assert_eq!((loading.component_bytes.get(), loading.compile_ms.get()), (64 << 20, 30_000));
    assert_eq!(loading.compile_memory_bytes.get(), 1 << 30);
    assert_eq!(loading.compile_cache_bytes.get(), 1 << 30);
    assert_eq!((loading.fetch_ms.get(), loading.plain_http.len()), (60_000, 0));
    let admission = &config.admission;
    assert_eq!((admission.calls, admission.waiting, admission.wait), (128, 1024, Duration::from_secs(1)));
    assert_eq!(config.query.waiting, 64);
    assert_eq!(config.query.instances.get(), 4);
    let BreakerSettings { failures, pause, pause_max } = config.breaker;
    assert_eq!((failures, pause, pause_max), (5, Duration::from_secs(1), Duration::from_secs(60)));
    assert_eq!((config.trial.calls, config.trial.time, config.trial.promote), (None, None, false));
    assert_eq!(config.trial.if_limited(), None);
    assert!(config.tenants.is_empty());
    let limits = &config.limits;
    assert_eq!((limits.wall_time, limits.memory_bytes), (Duration::from_secs(30), 64 << 20));
    assert_eq!(limits.wait, Duration::from_secs(10));
    assert_eq!((limits.written_bytes, limits.files, limits.crossing_bytes), (4 << 30, 256, 8 << 20));
    assert_eq!((limits.table_elements, limits.instances), (100_000, 16));
    let names = (limits.name_bytes, limits.open_files, limits.log_bytes, limits.fuel);
    assert_eq!(names, (128, 64, 4 << 10, None));
    let documents = (config.documents, config.documents_wall_time_ms.get(), config.documents_memory_bytes.get());
    assert_eq!(documents, (DocumentMode::Text, 2_000, 256 << 20));
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
        images: ImageMode::Keep,
        images_max: 20,
        images_bytes: 8 << 20,
        custom: None,
    };
    assert_eq!(config.for_tool("any"), expected);
    assert_eq!(config.for_tool_and_client("any", &ClientProfile::default()), expected);
    assert!(config.explain().iter().all(|entry| entry.origin == Origin::Default));
}

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

#[test]
fn later_layers_override_earlier_ones_and_say_so() {
    let file = "threshold = 10\nunit = \"bytes\"\nenabled = true\n[limits]\nfiles = 5\nmemory-bytes = 6\n";
    let variables = [("MCP_LRO_THRESHOLD", "20"), ("MCP_LRO_DIR", "/data"), ("MCP_LRO_ENABLED", "Off")];
    let flags = [("threshold", "30"), ("limits.files", "7")];
    let config = load(file, &variables, &flags).unwrap();
    assert_eq!(config.for_tool("t").threshold, size(30, SizeUnit::Bytes));
    assert_eq!((config.enabled, config.dir.to_str().unwrap()), (false, "/data"));
    assert_eq!((config.limits.files, config.limits.memory_bytes), (7, 6));
    assert_eq!(config.limits.wall_time, Duration::from_secs(30), "the rest of a table keeps its defaults");

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

#[test]
fn a_text_is_read_as_a_file_is() {
    let text = "dir = '/data'\nthreshold = 7\n[tenants.acme]\nunit = 'tokens'\n";
    let config = Config::from_toml(text).unwrap();
    let as_file = load(text, &[], &[]).unwrap();
    let values = |config: &Config| -> Vec<_> { config.explain().into_iter().map(|one| (one.key, one.value)).collect() };
    assert_eq!(values(&config), values(&as_file));
    assert_eq!((config.origin("threshold"), config.origin("unit")), (Origin::Text, Origin::Default));
    assert_eq!(config.for_tenant("acme").for_tool("any").threshold, size(7, SizeUnit::Tokens));
    let preset = Config::from_toml("dir = '/data'\npreset = '1600-tokens'\nthreshold = 7").unwrap();
    assert_eq!(preset.threshold.get(), 7);
    let problems = |text: &str| Config::from_toml(text).unwrap_err().to_string();
    let all = problems("dir = '/data'\nthreshold = 0\nno-such-key = 1");
    assert!(all.contains("`threshold` = `0` (text): ") && all.contains("`no-such-key` = `1` (text): "), "{all}");
    let syntax = problems("dir = '/data'\ntoken = secret");
    assert!(syntax.contains("line 2, column ") && !syntax.contains("secret"), "{syntax}");
}

#[test]
fn bad_values_are_errors_and_all_are_told() {
    for (file, expected) in [
        ("threshold = 0", "`threshold` = `0` (file "),
        ("threshold = -1", "`threshold` = `-1` (file "),
        ("threshold = 1.5", "expected a whole number of at least 1"),
        ("treshold = 1", "unknown field `treshold`"),
        ("[limits]\nfile = 1", "`limits.file` = `1`"),
        ("[limits]\nfiles = 0", "`limits.files` = `0`"),
        ("[unknown]", "unknown field `unknown`"),
        ("unit = \"words\"", "expected one of `bytes`, `characters`, `tokens`"),
        ("policy-sha256 = \"abc\"", "expected 64 hexadecimal digits"),
        ("policy = \"\"", "expected a path"),
        ("policy = \"oci://h\"", "`oci://h` is not a reference to an OCI artifact"),
        ("[tenants.acme]\npolicy = \"oci://h/n@sha256:1\"", "a digest is `sha256:` and 64"),
        ("[loading]\nfetch-ms = 0", "`loading.fetch-ms` = `0`"),
        ("[loading]\nplain-http = [\"http://a\"]", "`http://a` is not HOST or HOST:PORT"),
        ("ttl-seconds = 0", "`ttl-seconds` = `0`"),
        ("truncate-limit = 0", "`truncate-limit` = `0`"),
        ("ceiling = 0", "`ceiling` = `0`"),
        ("ceiling-unit = \"words\"", "expected one of `bytes`"),
        ("preset = \"2k\"", "expected `1600-tokens` or `25k`"),
        ("[tools.\"a.*\"]\nmode = \"sometimes\"", "`tools.\"a.*\".mode` = `\"sometimes\"`"),
        ("[tools.x]\nlevel = \"all\"", "`tools.x.level` = `\"all\"`"),
        ("[tools.x]\npolicy = \"a.wasm\"", "unknown field `policy`"),
        ("[[tools.x.sections]]\nfilename-prefix = \"a\"", "missing field `key`"),
        ("[tools.x]\nttl-seconds = 0", "`tools.x.ttl-seconds` = `0`"),
        ("[tools.x]\ndescriptor-limit = 0", "`tools.x.descriptor-limit` = `0`"),
        ("[tools.x]\nfailure = \"never\"", "expected one of `open`, `closed`, `truncate`"),
        ("[[sections]]\nkey = \"a\"\nschema = \"{\"", "expected a JSON Schema as JSON text"),
        ("[[sections]]\nfilename-prefix = \"a\"", "missing field `key`"),
        ("threshold = ", "`config` = `/"),
        ("fsync = \"after\"\nthreshold = ", "line 2, column "),
        ("fsync = true", "unknown variant `true`, expected one of `before`, `after`, `never`"),
        ("[tools.x]\nlevel = 1", "unknown variant `1`, expected one of `pointer`, `standard`, `full`"),
        ("schema = \"drop\"", "expected one of `rewrite`, `strip`, `shape`, `block`"),
        ("[tools.x]\nhandles = 1", "`tools.x.handles` = `1`"),
        ("[tools.x]\nask = 1", "`tools.x.ask` = `1`"),
        ("[tools.x]\nreuse-seconds = 0", "`tools.x.reuse-seconds` = `0`"),
        ("[tools.x]\njob = \"slow\"", "expected one of `auto`, `always`, `never`"),
        ("[tools.x]\nwait-ms = 0", "`tools.x.wait-ms` = `0`"),
        ("[tools.x]\nheartbeat-ms = 0", "`tools.x.heartbeat-ms` = `0`"),
        ("[tools.x]\npartial-resource = \"log://{a\"", "expected a URI with names of arguments in braces"),
        ("[tools.x]\npartial-resource = \"out}\"", "expected a URI with names of arguments in braces"),
        ("[clients.x]\ndeclared-size = 0", "`clients.x.declared-size` = `0`"),
        ("[clients.x]\nsees = \"none\"", "expected one of `text`, `structured`, `both`"),
        ("[clients.x]\nresult-limit = 0", "`clients.x.result-limit` = `0`"),
        ("[clients.x]\nthreshold = 0", "`clients.x.threshold` = `0`"),
        ("[clients.x]\nmode = \"always\"", "unknown field `mode`"),
        ("policy-dir = \"\"", "expected a path"),
        ("policy-keep = 1", "`policy-keep` = `1`"),
        ("policy-keys = \"a\"", "`policy-keys` = `\"a\"`"),
        ("policy-keys = [\"a\"]", "`a` is not a minisign public key"),
        ("[loading]\ncomponent-bytes = 0", "`loading.component-bytes` = `0`"),
        ("[loading]\ncompile-ms = 0", "`loading.compile-ms` = `0`"),
        ("[loading]\ncompile-cache-bytes = 0", "`loading.compile-cache-bytes` = `0`"),
        ("[loading]\ncompile-memory-bytes = 0", "`loading.compile-memory-bytes` = `0`"),
        ("[loading]\nbytes = 1", "unknown field `bytes`"),
        ("[admission]\ncalls = 0", "`admission.calls` = `0`"),
        ("[admission]\nwaiting = -1", "`admission.waiting` = `-1`"),
        ("[admission]\nwait-ms = \"1s\"", "`admission.wait-ms` = `\"1s\"`"),
        ("[query]\nwaiting = -1", "`query.waiting` = `-1`"),
        ("[limits]\nwait-ms = 0", "`limits.wait-ms` = `0`"),
        ("[breaker]\nfailures = 0", "`breaker.failures` = `0`"),
        ("[breaker]\npause-ms = 0", "`breaker.pause-ms` = `0`"),
        ("[breaker]\npause-max-ms = 0", "`breaker.pause-max-ms` = `0`"),
        ("[breaker]\nfailure = 1", "unknown field `failure`"),
        ("[trial]\ncalls = 0", "`trial.calls` = `0`"),
        ("[trial]\nseconds = 0", "`trial.seconds` = `0`"),
        ("[trial]\npromote = 1", "`trial.promote` = `1`"),
        ("[tenants.acme]\nthreshold = 0", "`tenants.acme.threshold` = `0`"),
        ("[tenants.acme]\ntreshold = 1", "unknown field `treshold`"),
        ("[tenants.acme.limits]\nfile = 1", "`tenants.acme.limits.file` = `1`"),
        ("[tenants.acme.tools.x]\nlevel = \"all\"", "unknown variant `all`"),
        ("tenants = [\"acme\"]", "`tenants` = `[\"acme\"]`"),
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
        "`MCP_LRO_TRESHOLD` = `…` (variable MCP_LRO_TRESHOLD): this variable is not known",
        "`fsync` = `\"\"` (flag --fsync): unknown variant ``, expected one of `before`, `after`, `never`",
        "`nonsense` = `1` (flag --nonsense): this key is not known",
    ] {
        assert!(found.contains(expected), "no {expected} in\n{found}");
    }
    assert_eq!(found.lines().count(), 8, "{found}");
    assert!(problems("", &[], &[("config", "/nowhere.toml")]).iter().all(|text| text.contains("cannot read the file")));
    let not_text = ("MCP_LRO_DIR".into(), OsString::from_vec(vec![b'/', 0xff]));
    assert!(Config::load([not_text], &[]).unwrap_err().to_string().contains("expected UTF-8"));
}

#[test]
fn a_misspelt_name_is_told_with_the_one_that_is_meant() {
    for (file, expected) in [
        ("treshold = 5", "unknown field `treshold`; did you mean `threshold`?"),
        ("[limits]\nwall-time = 5", "unknown field `wall-time`; did you mean `wall-time-ms`?"),
        ("[tools.a]\ntreshold = 5", "did you mean `threshold`?"),
        ("[tenants.acme]\ntreshold = 5", "did you mean `threshold`?"),
        ("nothing-of-the-kind = 5", "expected one of `enabled`, `dir`"),
    ] {
        let found = problems(file, &[], &[]).join("\n");
        assert!(found.contains(expected), "{file}: {found}");
        assert!(found.contains("did you mean") != found.contains("expected one of"), "{file}: {found}");
    }
    let variables = [("MCP_LRO_TRESHOLD", "5"), ("MCP_LRO_WHAT_IS_THIS", "5")];
    let found = problems("", &variables, &[("treshold", "5")]);
    assert!(found[0].ends_with("this variable is not known; did you mean `MCP_LRO_THRESHOLD`?"), "{found:?}");
    assert!(found[1].ends_with("this variable is not known"), "{found:?}");
    assert!(found[2].ends_with("this key is not known; did you mean `threshold`?"), "{found:?}");
}

#[test]
fn a_number_is_asked_for_in_plain_words_and_may_have_underscores() {
    for (file, expected) in [
        ("threshold = 0", "integer `0`, expected a whole number of at least 1"),
        ("threshold = \"5\"", "string \"5\", expected a whole number of at least 1"),
        ("inline-limit = -1", "expected a whole number from 0 to 4294967295"),
        ("images-bytes = -1", "expected a whole number of at least 0"),
    ] {
        let found = problems(file, &[], &[]);
        assert!(found.len() == 1 && found[0].ends_with(expected), "{file}: {found:?}");
    }
    let flag = |text: &str| load("", &[], &[("threshold", text)]).map(|config| config.threshold.get());
    assert_eq!((flag("10_000").unwrap(), flag("+1_0").unwrap()), (10_000, 10));
    for wrong in ["_1", "1_", "1__0", "_", "", "1 0", "0x10"] {
        assert!(flag(wrong).unwrap_err().to_string().contains("expected a whole number"), "{wrong}");
    }
}

#[test]
fn every_key_has_a_variable_and_every_variable_works() {
    let samples = |form, key: &str| match (form, key) {
        (ValueForm::Integer | ValueForm::Bytes, _) => "123",
        (
            ValueForm::Boolean,
            "gateway.audit"
            | "gateway.file-transfer"
            | "gateway.interceptor"
            | "gateway.output-variants"
            | "trial.promote",
        ) => "yes",
        (ValueForm::Boolean, _) => "no",
        (ValueForm::List, "gateway.allowed-origins") => "https://a.example,http://b.example:81",
        (ValueForm::List, "gateway.allowed-hosts") => "a.example,b.example:81",
        (ValueForm::List, "gateway.forward-headers") => "x-a,X-B",
        (ValueForm::List, "policy-keys") => KEY,
        (ValueForm::List, "loading.plain-http") => "a.example,b.example:81",
        (ValueForm::List, _) => "a,/b/c",
        (_, "failure") => "closed",
        (_, "fsync") => "after",
        (_, "mode") => "always",
        (_, "unit") => "tokens",
        (_, "ceiling-unit") => "bytes",
        (_, "preset") => "25k",
        (_, "tokenizer") => "o200k",
        (_, "action") => "reject",
        (_, "level") => "full",
        (_, "dialect") => "specification",
        (_, "images") => "offload",
        (_, "documents") => "keep",
        (_, "resources.mode") => "refuse",
        (_, "gateway.translate") => "never",
        (_, "schema") => "strip",
        (_, "gateway.listen" | "gateway.metrics-listen") => "127.0.0.1:8080",
        (_, "gateway.upstream" | "gateway.public-url") => "https://example.org/mcp",
        (_, "gateway.path") => "/other",
        (_, "store") => "s3://bucket/offloads",
        (_, "policy-sha256") => "00000000000000000000000000000000000000000000000000000000000000Ab",
        _ => "text",
    };
    for variable in VARIABLES.iter().filter(|variable| variable.key != "config") {
        let (name, sample) = (variable.name(), samples(variable.form, variable.key));
        let config = load("", &[(&name, sample)], &[]).unwrap();
        let entries = config.explain();
        let entry = entries.iter().find(|entry| entry.key == variable.key).unwrap();
        assert_eq!(entry.origin, Origin::Variable(name.clone()));
        let default = Config::default().explain().into_iter().find(|entry| entry.key == variable.key).unwrap();
        assert_ne!(entry.value, default.value, "{name}");
        load("", &[], &[(variable.key, sample)]).unwrap();
    }
    assert_eq!(
        VARIABLES.iter().find(|variable| variable.key == "limits.wall-time-ms").unwrap().name(),
        "MCP_LRO_LIMITS_WALL_TIME_MS"
    );
    let keys: HashSet<String> = Config::default().explain().into_iter().map(|entry| entry.key).collect();
    let listed = VARIABLES.iter().map(|variable| variable.key).chain(FILE_KEYS.iter().map(|(key, _)| *key));
    let listed: HashSet<String> = listed.filter(|key| *key != CONFIG_KEY).map(str::to_owned).collect();
    assert_eq!(listed, keys);
    let flags: HashSet<String> = VARIABLES.iter().map(|variable| variable.flag()).collect();
    assert_eq!(flags.len(), VARIABLES.len(), "each flag is unique");
    for (text, value) in [("TRUE", true), ("1", true), ("yes", true), ("on", true), ("0", false), ("False", false)] {
        assert_eq!(load("", &[("MCP_LRO_INFER", text)], &[]).unwrap().infer, value);
    }
}

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
    // A hostile pattern does not make matching slow.
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

#[test]
fn defaults_of_the_gateway_are_the_documented_ones() {
    let gateway = load("", &[], &[]).unwrap().gateway;
    assert_eq!(gateway, GatewaySettings::default());
    assert_eq!((gateway.listen, gateway.metrics_listen, &gateway.upstream), (None, None, &None));
    assert_eq!((gateway.path.as_str(), gateway.audit), ("/mcp", false));
    assert!(gateway.allowed_hosts.is_empty() && gateway.allowed_origins.is_empty());
    assert!(gateway.tokens.is_empty() && gateway.upstream_headers.is_empty() && gateway.forward_headers.is_empty());
    assert_eq!((&gateway.admin_token, &gateway.metrics_token), (&None, &None));
    assert_eq!((gateway.connections.get(), gateway.metrics_connections.get(), gateway.streams.get()), (4096, 64, 1024));
    assert_eq!((gateway.header_timeout_ms.get(), gateway.body_timeout_ms.get()), (10_000, 10_000));
    assert_eq!((gateway.write_timeout_ms.get(), gateway.memory_bytes.get()), (30_000, 128 << 20));
    assert_eq!((gateway.message_bytes.get(), gateway.message_memory.get()), (1 << 30, 4 << 20));
    assert_eq!(gateway.message_disk.get(), 4 << 30);
    assert_eq!((gateway.call_timeout_ms.get(), gateway.start_timeout_ms.get()), (600_000, 30_000));
    assert_eq!((gateway.header_bytes.get(), gateway.requests.get(), gateway.sessions.get()), (64 << 10, 1024, 256));
    assert_eq!((gateway.session_idle_seconds.get(), gateway.shutdown_ms.get()), (1800, 10_000));
    assert_eq!(gateway.drain_ms, 0);
    assert_eq!((gateway.session_budget, gateway.session_floor.get()), (None, 1000));
    assert_eq!((gateway.jobs_max.get(), gateway.jobs_kept.get()), (1000, 1000));
    assert_eq!((gateway.job_seconds_max.get(), gateway.job_result_bytes.get()), (3600, 4 << 20));
    assert_eq!((gateway.job_input_seconds.get(), gateway.input_rounds.get()), (600, 16));
    assert_eq!((gateway.job_inputs.get(), gateway.job_input_bytes.get()), (16, 64 << 10));
    assert_eq!((gateway.job_call_bytes.get(), gateway.translate_timeout_ms.get()), (64 << 10, 5_000));
    assert_eq!((gateway.translate_held.get(), gateway.translate_waiting.get()), (1000, 100));
    assert_eq!((gateway.list_page_size, gateway.interceptor), (None, false));
    assert_eq!(
        (gateway.file_transfer, gateway.public_url.is_none(), gateway.download_seconds.get()),
        (false, true, 300)
    );
    assert_eq!((&gateway.env, gateway.env_all, gateway.isolate, &gateway.user), (&vec![], None, true, &None));
    assert_eq!(gateway.server_log_bytes.get(), 64 << 10);
}

#[test]
fn a_server_gets_named_variables_where_not_all_pass() {
    let names = ["PATH", "LC_ALL", "LC", "HTTPS_PROXY", "GH_TOKEN", "GH", "LRO_LOG", "MCP_LRO_DIR", "ACME"];
    let given = |file: &str| {
        let all = names.map(|name| (OsString::from(name), OsString::from("x")));
        let given = load(file, &[], &[]).unwrap().server_environment(all);
        let passed: Vec<String> = given.variables.into_iter().map(|(name, _)| name.into_string().unwrap()).collect();
        (passed.join(" "), given.withheld.join(" "))
    };
    let tokens = "[gateway.tokens]\na = \"env:ACME\"";
    let listen = "[gateway]\nlisten = \"127.0.0.1:0\"\n";
    for (file, passed, withheld) in [
        (tokens.to_owned(), "PATH LC_ALL LC HTTPS_PROXY GH_TOKEN GH", ""),
        (format!("{listen}{tokens}"), "PATH LC_ALL", "GH GH_TOKEN HTTPS_PROXY LC"),
        (
            format!("{listen}env = [\"GH_*\", \"ACME\", \"*_LRO_*\"]\n{tokens}"),
            "PATH LC_ALL GH_TOKEN",
            "GH HTTPS_PROXY LC",
        ),
        (format!("{listen}env-all = true\n{tokens}"), "PATH LC_ALL LC HTTPS_PROXY GH_TOKEN GH", ""),
        ("[gateway]\nmetrics-token = \"env:GH_TOKEN\"".to_owned(), "PATH LC_ALL LC HTTPS_PROXY GH ACME", ""),
        ("[gateway]\nenv-all = false".to_owned(), "PATH LC_ALL", "ACME GH GH_TOKEN HTTPS_PROXY LC"),
    ] {
        assert_eq!(given(&file), (passed.to_owned(), withheld.to_owned()), "{file}");
    }
}

#[test]
fn headers_for_the_collector_are_not_passed_but_by_name() {
    let names = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_ENDPOINT"];
    for (file, passed, withheld) in [("", 1, 2), ("[gateway]\nenv = [\"OTEL_*\"]", 3, 0)] {
        let all = names.map(|name| (OsString::from(name), OsString::from("x")));
        let given = load(file, &[], &[]).unwrap().server_environment(all);
        assert_eq!((given.variables.len(), given.withheld.len()), (passed, withheld), "{file}");
    }
}

#[test]
fn credentials_of_the_bucket_are_not_passed_but_by_name() {
    let names = ["AWS_SECRET_ACCESS_KEY", "AWS_REGION", "GOOGLE_APPLICATION_CREDENTIALS", "AZURE_CLIENT_SECRET"];
    let given = |file: &str| {
        let all = names.map(|name| (OsString::from(name), OsString::from("x")));
        let given = load(file, &[], &[]).unwrap().server_environment(all);
        let passed: Vec<String> = given.variables.into_iter().map(|(name, _)| name.into_string().unwrap()).collect();
        (passed, given.withheld)
    };
    for (file, withheld) in [
        ("", &[][..]),
        ("store = \"dir:/data\"", &[]),
        ("store = \"s3://bucket/offloads\"", &["AWS_REGION", "AWS_SECRET_ACCESS_KEY"]),
        ("store = \"gs://bucket\"", &["GOOGLE_APPLICATION_CREDENTIALS"]),
        ("store = \"az://container/offloads\"", &["AZURE_CLIENT_SECRET"]),
        ("store = \"s3://bucket\"\n[gateway]\nenv = [\"AWS_REGION\"]", &["AWS_SECRET_ACCESS_KEY"]),
    ] {
        let (passed, found) = given(file);
        assert_eq!(found, withheld, "{file}");
        assert_eq!(passed.len() + found.len(), names.len(), "{file}");
    }
}

#[test]
fn the_store_is_a_directory_or_a_bucket() {
    let config = load("store = \"dir:/data\"", &[("MCP_LRO_DIR", "/other")], &[]).unwrap();
    assert_eq!((config.dir.to_str().unwrap(), parts::store_config(&config).bucket), ("/data", None));
    assert!(config.origin("dir").to_string().starts_with("file /"));
    let file = "store = \"s3://bucket/a/b\"\nstore-copies = 5\nstore-timeout-ms = 6\nstore-retry-ms = 0\nstore-left-seconds = 7\nstore-lease-seconds = 8\nstore-keys = \"/keys\"";
    let bucket = parts::store_config(&load(file, &[], &[]).unwrap()).bucket.unwrap();
    assert_eq!((bucket.url.as_str(), bucket.copies_bytes_max), ("s3://bucket/a/b", 5));
    let times = [bucket.request_time, bucket.retry_time, bucket.left_age, bucket.lease_time];
    assert_eq!(times, [Duration::from_millis(6), Duration::ZERO, Duration::from_secs(7), Duration::from_secs(8)]);
    assert_eq!(bucket.keys.as_deref(), Some(PathBuf::from("/keys").as_path()));
    for wrong in ["", "bucket", "dir:", "s3:bucket", "s3://", "s3:///a", "http://bucket", "S3://bucket", "gs://?a"] {
        let found = problems(&format!("store = {wrong:?}"), &[], &[]);
        assert!(found.len() == 1 && found.iter().all(|text| text.contains("expected dir:PATH")), "{wrong}: {found:?}");
    }
}

#[test]
fn each_layer_overrides_the_one_before_for_the_gateway() {
    let file = "[gateway]\nlisten = \"127.0.0.1:1\"\nrequests = 1\nsessions = 1\nallowed-hosts = [\"a\", \"b\"]";
    let variables = [("MCP_LRO_GATEWAY_REQUESTS", "2"), ("MCP_LRO_GATEWAY_SESSIONS", "2")];
    let config = load(file, &variables, &[("gateway.sessions", "3"), ("gateway.allowed-hosts", "c.example")]).unwrap();
    let gateway = &config.gateway;
    assert_eq!(gateway.listen.map(|address| address.to_string()).as_deref(), Some("127.0.0.1:1"));
    assert_eq!((gateway.requests.get(), gateway.sessions.get()), (2, 3));
    assert_eq!(gateway.allowed_hosts, ["c.example"]);
    assert_eq!(gateway.header_bytes.get(), 64 << 10, "the rest of the table keeps its defaults");
    assert!(config.origin("gateway.listen").to_string().starts_with("file /"));
    assert_eq!(config.origin("gateway.requests").to_string(), "variable MCP_LRO_GATEWAY_REQUESTS");
    assert_eq!(config.origin("gateway.sessions").to_string(), "flag --sessions");
    assert_eq!(config.origin("gateway.path"), Origin::Default);
}

#[test]
fn bad_values_of_the_gateway_are_errors() {
    for (line, expected) in [
        ("listen = \"127.0.0.1:70000\"", "a port from 0 to 65535"),
        ("listen = \"localhost:80\"", "expected an IP address"),
        ("listen = 80", "`gateway.listen` = `80`"),
        ("metrics-listen = \"127.0.0.1\"", "expected an IP address and a port"),
        ("upstream = \"localhost:80/mcp\"", "expected http:// or https:// at the beginning"),
        ("upstream = \"ftp://localhost/mcp\"", "expected http:// or https:// at the beginning"),
        ("upstream = \"https:///mcp\"", "expected a host"),
        ("upstream = \"https://:80/mcp\"", "expected a host"),
        ("upstream = \"https://a b/mcp\"", "without white space"),
        ("upstream = \"https://[::g]/mcp\"", "an IPv6 address in brackets"),
        ("upstream = \"https://a:65536/mcp\"", "expected a port from 1 to 65535"),
        ("upstream = \"https://a/mcp#b\"", "without a fragment"),
        ("path = \"mcp\"", "expected a path that begins with `/`"),
        ("path = \"/m?a\"", "expected a path of visible ASCII"),
        ("allowed-hosts = [\"a.example\", \"http://b\"]", "not `http://b`"),
        ("allowed-hosts = [\"\"]", "expected a host, or a host and a port"),
        ("allowed-origins = [\"a.example\"]", "expected an origin such as https://example.org, not `a.example`"),
        ("allowed-origins = [\"https://a.example/\"]", "expected an origin"),
        ("message-bytes = 0", "`gateway.message-bytes` = `0`"),
        ("message-memory = 0", "`gateway.message-memory` = `0`"),
        ("call-timeout-ms = 0", "`gateway.call-timeout-ms` = `0`"),
        ("start-timeout-ms = 0", "`gateway.start-timeout-ms` = `0`"),
        ("header-bytes = 0", "`gateway.header-bytes` = `0`"),
        ("requests = 0", "`gateway.requests` = `0`"),
        ("requests = 4294967296", "expected a whole number from 1 to 4294967295"),
        ("sessions = 0", "`gateway.sessions` = `0`"),
        ("connections = 0", "`gateway.connections` = `0`"),
        ("metrics-connections = 0", "`gateway.metrics-connections` = `0`"),
        ("history-days = 0", "`gateway.history-days` = `0`"),
        ("streams = 0", "`gateway.streams` = `0`"),
        ("memory-bytes = 0", "`gateway.memory-bytes` = `0`"),
        ("header-timeout-ms = 0", "`gateway.header-timeout-ms` = `0`"),
        ("body-timeout-ms = 0", "`gateway.body-timeout-ms` = `0`"),
        ("write-timeout-ms = 0", "`gateway.write-timeout-ms` = `0`"),
        ("forward-headers = [\"a b\"]", "`a b` is not a valid header name"),
        ("forward-headers = [\"Authorization\"]", "`authorization` is for the gateway"),
        ("forward-headers = [\"Transfer-Encoding\"]", "cannot be forwarded"),
        ("session-idle-seconds = 0", "`gateway.session-idle-seconds` = `0`"),
        ("shutdown-ms = 0", "`gateway.shutdown-ms` = `0`"),
        ("session-budget = 0", "`gateway.session-budget` = `0`"),
        ("session-floor = 0", "`gateway.session-floor` = `0`"),
        ("jobs-max = 0", "`gateway.jobs-max` = `0`"),
        ("jobs-kept = 0", "`gateway.jobs-kept` = `0`"),
        ("job-seconds-max = 0", "`gateway.job-seconds-max` = `0`"),
        ("job-input-seconds = 0", "`gateway.job-input-seconds` = `0`"),
        ("input-rounds = 0", "`gateway.input-rounds` = `0`"),
        ("job-call-bytes = 0", "`gateway.job-call-bytes` = `0`"),
        ("job-inputs = 0", "`gateway.job-inputs` = `0`"),
        ("job-input-bytes = 0", "`gateway.job-input-bytes` = `0`"),
        ("translate-timeout-ms = 0", "`gateway.translate-timeout-ms` = `0`"),
        ("translate-held = 0", "`gateway.translate-held` = `0`"),
        ("translate-waiting = 0", "`gateway.translate-waiting` = `0`"),
        ("job-result-bytes = 0", "`gateway.job-result-bytes` = `0`"),
        ("env = [\"A=B\"]", "expected names of variables, optionally with `*`, not `A=B`"),
        ("user = \"\"", "expected the name of a user, or UID:GID"),
        ("user = \"1000\"", "expected the name of a user, or UID:GID"),
        ("user = \"1000:staff\"", "expected the name of a user, or UID:GID"),
        ("server-log-bytes = 0", "`gateway.server-log-bytes` = `0`"),
        ("listn = \"127.0.0.1:80\"", "unknown field `listn`"),
        ("[gateway.upstream-headers]\n\"a b\" = \"c\"", "`a b` is not a valid header name"),
        ("[gateway.upstream-headers]\na = \"env:\"", "expected the name of a variable"),
        ("[gateway.tokens]\n\"\" = \"env:A\"", "expected the name of a tenant"),
        ("[gateway.tokens]\na = \"env:\"", "expected the name of a variable"),
        ("[gateway.tokens]\na = \"env:MCP_LRO_TOKEN\"", "does not begin with `MCP_LRO_`"),
        ("[gateway.tokens]\na = \"file:\"", "expected a path after `file:`"),
        ("[gateway.tokens]\na = \"sha256:12\"", "expected 64 hexadecimal digits"),
    ] {
        let found = problems(&format!("[gateway]\n{line}"), &[], &[]);
        assert!(found.len() == 1 && found.iter().all(|text| text.contains(expected)), "{line}: {found:?}");
    }
    let found = problems("", &[("MCP_LRO_GATEWAY_REQUESTS", "all")], &[("gateway.listen", "80")]).join("\n");
    assert!(
        found.contains("`gateway.requests` = `all` (variable MCP_LRO_GATEWAY_REQUESTS): expected a whole"),
        "{found}"
    );
    assert!(found.contains("`gateway.listen` = `\"80\"` (flag --listen): expected an IP address"), "{found}");
}

#[test]
fn urls_and_hosts_of_all_kinds_are_taken() {
    for url in ["http://localhost:8080/mcp", "HTTPS://example.org", "http://[::1]:1/a?b=c", "http://127.0.0.1/"] {
        let gateway = load("", &[], &[("gateway.upstream", url)]).unwrap().gateway;
        assert_eq!(gateway.upstream.as_deref(), Some(url));
    }
    let file = "[gateway]\nlisten = \"[::]:0\"\nallowed-hosts = [\"[::1]:80\", \"a_b.example\"]\n\
                allowed-origins = [\"vscode-webview://abc\", \"http://[::1]:80\"]";
    assert_eq!(load(file, &[], &[]).unwrap().gateway.allowed_origins.len(), 2);
}

#[test]
fn secrets_are_never_shown() {
    const SECRET: &str = "s3cr3t";
    let digest = Digest::of(SECRET.as_bytes()).to_string();
    let file = format!(
        "[gateway]\nupstream = \"https://example.org/mcp?key={SECRET}\"\n[gateway.upstream-headers]\n\
         authorization = \"Bearer {SECRET}\"\nx-key = \"env:UPSTREAM_KEY\"\n[gateway.tokens]\n\
         one = \"env:TOKEN_ONE\"\ntwo = \"file:/run/two\"\nthree = \"sha256:{digest}\""
    );
    let config = load(&file, &[("TOKEN_ONE", SECRET), ("UPSTREAM_KEY", SECRET)], &[]).unwrap();
    let entries = config.explain();
    assert!(!format!("{config:?}{entries:?}").contains(SECRET));
    let shown: BTreeMap<_, _> = entries.iter().map(|entry| (entry.key.as_str(), entry.value.as_str())).collect();
    for (key, value) in [
        ("gateway.upstream", "\"https://example.org/mcp?…\""),
        ("gateway.upstream-headers.authorization", "\"…\""),
        ("gateway.upstream-headers.x-key", "\"env:UPSTREAM_KEY\""),
        ("gateway.tokens.one", "\"env:TOKEN_ONE\""),
        ("gateway.tokens.two", "\"file:/run/two\""),
        ("gateway.tokens.three", format!("\"sha256:{digest}\"").as_str()),
    ] {
        assert_eq!(shown.get(key), Some(&value), "{key}");
    }
    for line in [
        "tokens = { a = \"s3cr3t\" }",
        "tokens = { a = { b = \"s3cr3t\" } }",
        "tokens = { a = [\"s3cr3t\"] }",
        "tokens = \"s3cr3t\"",
        "token = \"s3cr3t\"",
        "token = { a = \"s3cr3t\" }",
        "tokens = { a = \"sha256:s3cr3t\" }",
        "upstream-headers = { a = \"s3cr3t\\n\" }",
        "upstream-headers = [\"s3cr3t\"]",
        "upstream = \"https://user:s3cr3t@example.org/\"",
        "upstream = \"example.org?s3cr3t\"",
        "tokens = { a = \"s3cr3t }",
        "admin-token = \"s3cr3t\"",
        "admin-token = { a = \"s3cr3t\" }",
        "admin-token = [\"s3cr3t\"]",
        "metrics-token = \"s3cr3t\"",
        "metrics-token = { a = \"s3cr3t\" }",
    ] {
        let found = problems(&format!("[gateway]\n{line}"), &[], &[]);
        assert!(found.len() == 1 && !found.join("").contains(SECRET), "{line}: {found:?}");
    }
    let found = problems("[gateway.tokens]\na = \"s3cr3t\"", &[], &[]).join("");
    assert!(found.contains("expected `env:NAME`, `file:PATH`, or `sha256:` and 64 hexadecimal digits"), "{found}");
    assert!(!problems("", &[("MCP_LRO_GATEWAY_TOKENS", SECRET)], &[]).join("").contains(SECRET));
}

#[test]
fn tokens_and_headers_are_looked_up_when_the_gateway_starts() {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (full, empty) = (write("full", "from file\n"), write("empty", " \n"));
    let digest = Digest::of(b"given");
    let environment = |name: &str| match name {
        "SET" => Some("from variable".into()),
        "SAME" => Some(" from variable ".into()),
        "EMPTY" => Some(OsString::new()),
        _ => None,
    };
    let table = |name: &str, lines: &[(&str, &str)]| -> Config {
        let lines: String = lines.iter().map(|(key, value)| format!("{key} = {value:?}\n")).collect();
        load(&format!("[gateway.{name}]\n{lines}"), &[], &[]).unwrap()
    };

    let given = format!("sha256:{digest}");
    let config = table("tokens", &[("a", "env:SET"), ("b", &format!("file:{full}")), ("c", &given)]);
    assert_eq!(config.gateway.tokens.get("c"), Some(&Token::Sha256(digest)));
    let expected = [("a", Digest::of(b"from variable")), ("b", Digest::of(b"from file")), ("c", digest)];
    assert_eq!(
        config.gateway_tokens(environment).unwrap(),
        expected.map(|(tenant, digest)| (tenant.to_owned(), digest)).into()
    );
    let bad = [
        ("a", "env:SET"),
        ("b", "env:SAME"),
        ("c", "env:EMPTY"),
        ("d", "env:UNSET"),
        ("e", &format!("file:{empty}")),
        ("f", "file:/nowhere/token"),
    ];
    let found = table("tokens", &bad).gateway_tokens(environment).unwrap_err().to_string();
    for expected in [
        "`gateway.tokens.b` = `env:SAME` (file /",
        "tenant `a` has the same token",
        "`gateway.tokens.c` = `env:EMPTY` (file /",
        "the variable is empty",
        "`gateway.tokens.d` = `env:UNSET` (file /",
        "the variable is not set",
        "the file is empty",
        "`gateway.tokens.f` = `file:/nowhere/token` (file /",
        "cannot read the file",
    ] {
        assert!(found.contains(expected), "no {expected} in\n{found}");
    }
    assert_eq!(found.lines().count(), 6, "{found}");

    let admin = |token: &str| load(&format!("[gateway]\nadmin-token = {token:?}"), &[], &[]).unwrap();
    for (token, expected) in [("env:SET", b"from variable".as_slice()), (&format!("file:{full}"), b"from file")] {
        assert_eq!(admin(token).admin_token(environment).unwrap(), Some(Digest::of(expected)));
    }
    assert_eq!(admin(&given).admin_token(environment).unwrap(), Some(digest));
    assert_eq!(load("", &[], &[]).unwrap().admin_token(environment).unwrap(), None);
    let found = admin("env:UNSET").admin_token(environment).unwrap_err().to_string();
    assert!(found.contains("`gateway.admin-token` = `env:UNSET` (file /"), "{found}");
    assert!(found.contains("the variable is not set"), "{found}");

    let config = table("upstream-headers", &[("X-Team", "blue"), ("authorization", "env:SET")]);
    let headers = config.gateway_headers(environment).unwrap();
    assert_eq!(headers.get("x-team").unwrap(), "blue");
    assert_eq!(headers.get("Authorization").unwrap(), "from variable");
    assert!(headers.values().all(|value| value.is_sensitive()));
    let found = table("upstream-headers", &[("a", "env:UNSET"), ("b", "env:EMPTY")]).gateway_headers(environment);
    let found = found.unwrap_err().to_string();
    assert!(found.contains("`gateway.upstream-headers.a` = `env:UNSET` (file /"), "{found}");
    assert!(found.contains("the variable is empty"), "{found}");
}

#[test]
fn the_configuration_overrides_what_is_known_of_a_client_key_by_key() {
    let config = load("", &[], &[]).unwrap();
    let nothing_known = ClientProfile {
        sees: Sees::Both,
        resource_links: false,
        shares_disk: None,
        inline: false,
        threshold: None,
        result_limit: None,
        ceiling: None,
        text_limit: None,
        text_lines: None,
        session_budget: None,
        tokenizer: Tokenizer::Estimate,
        declared_size: None,
    };
    assert_eq!(config.for_client("somebody", "1"), nothing_known);
    assert_eq!(config.for_client("", ""), nothing_known);
    let code = ClientProfile {
        sees: Sees::Structured,
        text_limit: Some(size(25_000, SizeUnit::Tokens)),
        declared_size: Some(500_000),
        ..nothing_known
    };
    assert_eq!(config.for_client("claude-code", "2.1.0"), code);
    let desktop = ClientProfile { shares_disk: Some(false), result_limit: Some(1_000_000), ..nothing_known };
    assert_eq!(config.for_client("claude-ai", "0.1.0"), desktop);
    assert_eq!(config.for_client("claude-ai (via mcp-remote 0.1.37)", "0.1.0"), desktop);
    // The names that clients send, and where each begins to cut or hide the text of a result.
    let limits = [
        ("Visual Studio Code - Insiders", Some(size(8_192, SizeUnit::Bytes))),
        ("github-copilot-developer", Some(size(8_192, SizeUnit::Bytes))),
        ("gemini-cli-mcp-client-server", Some(size(40_000, SizeUnit::Characters))),
        ("qwen-cli-mcp-client-server", Some(size(25_000, SizeUnit::Characters))),
        ("goose", Some(size(200_000, SizeUnit::Characters))),
        ("opencode", Some(size(51_200, SizeUnit::Bytes))),
        ("cursor-vscode", None),
        ("@librechat/api-client", None),
        ("@n8n/n8n-nodes-langchain.mcpClientTool", None),
        ("mcp", None),
    ];
    let codex =
        ClientProfile { sees: Sees::Structured, text_limit: Some(size(10_000, SizeUnit::Bytes)), ..nothing_known };
    assert_eq!(config.for_client("codex-mcp-client", "1"), codex);
    for (name, text_limit) in limits {
        let text_lines = match name.split('-').next() {
            Some("opencode") => Some(2_000),
            Some("qwen") => Some(1_000),
            _ => None,
        };
        assert_eq!(config.for_client(name, "1"), ClientProfile { text_limit, text_lines, ..nothing_known }, "{name}");
    }
    assert!(config.for_client("inspector-client", "0.21.1").resource_links);
    assert!(KNOWN_CLIENTS.is_sorted_by_key(|known| known.pattern));

    let file = r#"
        threshold = 1000
        [clients."*"]
        inline = true
        [clients."claude-code"]
        resource-links = true
        threshold = 500
        [clients."claude-code/2.*"]
        shares-disk = false
        unit = "tokens"
        declared-size = 7
        text-limit = 9
        [clients."codex*"]
        text-limit = 40000
        [clients."claude-ai*"]
        result-limit = 5
        sees = "text"
    "#;
    let config = load(file, &[], &[]).unwrap();
    assert_eq!(config.for_client("somebody", "1"), ClientProfile { inline: true, ..nothing_known });
    let old = ClientProfile {
        sees: Sees::Structured,
        resource_links: true,
        threshold: Some(size(500, SizeUnit::Characters)),
        ..code
    };
    assert_eq!(config.for_client("claude-code", "1.0"), old);
    let new = ClientProfile {
        sees: Sees::Structured,
        shares_disk: Some(false),
        threshold: Some(size(1000, SizeUnit::Tokens)),
        text_limit: Some(size(9, SizeUnit::Tokens)),
        declared_size: Some(7),
        ..code
    };
    assert_eq!(config.for_client("claude-code", "2.1.0"), new, "the longest pattern alone counts");
    let codex = config.for_client("codex-mcp-client", "1").text_limit;
    assert_eq!(codex, Some(size(40_000, SizeUnit::Bytes)), "what is known of a client can be raised");
    let desktop = ClientProfile { sees: Sees::Text, shares_disk: Some(false), result_limit: Some(5), ..nothing_known };
    assert_eq!(config.for_client("claude-ai", "1"), desktop);
}

// The share of a model is one more limit of what a client shows.
#[test]
fn models_have_a_share() {
    let file = r#"
        tokenizer = "o200k"
        [models."*"]
        tokenizer = "cl100k"
        window = 50_000
        [models."gpt-*"]
        window = 200_000
        result-share = 1
        session-share = 25
        [models."tiny"]
        window = 1
    "#;
    let config = load(file, &[], &[]).unwrap();
    let limit = |name: &str, model: &str| {
        let profile = config.for_client_and_model(name, "1", model);
        (profile.text_limit, profile.session_budget)
    };
    let tokens = |amount| Some(size(amount, SizeUnit::Tokens));
    assert_eq!(limit("any", ""), (tokens(5_000), None));
    assert_eq!(limit("any", "gpt-9"), (tokens(2_000), Some(50_000)));
    assert_eq!(limit("any", "tiny"), (tokens(1), None));
    assert_eq!(limit("codex", "gpt-9"), (tokens(2_000), Some(50_000)));
    assert_eq!(limit("codex", "other").0, Some(size(10_000, SizeUnit::Bytes)), "the client shows less than the share");
    let profile = config.for_client_and_model("any", "1", "gpt-9");
    assert_eq!(profile.tokenizer, Tokenizer::O200k);
    assert_eq!(config.for_client_and_model("any", "1", "").tokenizer, Tokenizer::Cl100k);
    assert_eq!(config.for_tool_and_client("any", &profile).threshold, size(2_000, SizeUnit::Tokens));
    assert_eq!(load("", &[], &[]).unwrap().for_client_and_model("any", "1", "gpt-9").text_limit, None);
    for (wrong, cause) in [
        ("window = 0", "expected a whole number of at least 1"),
        ("window = 9\nresult-share = 101", "expected 1 to 100 percent"),
        ("window = 9\nsession-share = 0", "expected 1 to 100 percent"),
    ] {
        let error = load(&format!("[models.a]\n{wrong}\n"), &[], &[]).unwrap_err().to_string();
        assert!(error.contains(cause), "{wrong}: {error}");
    }
}

// Wrong rules are errors at the start, each with its cause.
#[test]
fn arguments_of_tools_are_checked() {
    let table = |text: &str| load(&format!("[tools.list.arguments]\n{text}\n"), &[], &[]);
    for fits in
        ["default = { limit = 50, names = [\"a\"], deep = { a = 1 }, since = 2026-11-02 }", "max = { limit = 2.5 }", ""]
    {
        assert!(table(fits).is_ok(), "{fits}");
    }
    for (wrong, cause) in [
        (
            "default = { limit = 50 }\nmax = { limit = 20 }",
            "the default of the argument `limit`, 50, is above its maximum, 20",
        ),
        ("default = { limit = [nan] }", "the default of the argument `limit` is not JSON"),
        ("default = { limit = nan }", "the default of the argument `limit` is not JSON"),
        ("max = { limit = \"many\" }", "expected a JSON number"),
        ("max = { limit = inf }", "not a JSON number"),
        ("min = { limit = 1 }", "unknown field `min`"),
    ] {
        let error = table(wrong).unwrap_err().to_string();
        assert!(error.contains(cause), "{wrong}: {error}");
    }
    // Each is right by itself: the error names the place of the default, also where a tenant has the maximum.
    let default = "[tools.\"y*\".arguments]\ndefault = { limit = 50 }\n";
    let both =
        problems(&format!("{default}max = {{ limit = 20 }}\n[tenants.acme.tools.x]\nmode = \"never\"\n"), &[], &[]);
    assert_eq!(both.len(), 1, "{both:?}");
    assert!(both[0].starts_with("`tools.\"y*\".arguments.default.limit` = `50` (file "), "{both:?}");
    let of_tenant = format!("{default}[tenants.acme.tools.\"y*\".arguments]\nmax = {{ limit = 20 }}\n");
    let of_tenant = problems(&of_tenant, &[], &[]);
    assert!(of_tenant.len() == 1 && of_tenant[0].contains("is above its maximum, 20"), "{of_tenant:?}");
}

// A threshold never passes what the client shows: neither the general one, nor one of the tool or of the client.
#[test]
fn what_a_client_shows_bounds_every_threshold() {
    let file = r#"
        threshold = 1000000
        truncate-limit = 2000000
        [clients.codex-high]
        threshold = 900000
        [tools.high]
        threshold = 800000
        [tools.low]
        threshold = 2000
        truncate-limit = 3000
        [tools.tokens]
        threshold = 2500
        unit = "tokens"
    "#;
    let config = load(file, &[], &[]).unwrap();
    let codex = config.for_client("codex-mcp-client", "1");
    let sizes = |tool: &str, client: &ClientProfile| {
        let settings = config.for_tool_and_client(tool, client);
        (settings.threshold, settings.truncate_limit)
    };
    let most = size(10_000, SizeUnit::Bytes);
    assert_eq!(sizes("any", &codex), (most, most));
    assert_eq!(sizes("any", &config.for_client("codex-high", "1")), (most, most));
    assert_eq!(sizes("high", &codex), (most, most));
    assert_eq!(sizes("low", &codex), (size(2_000, SizeUnit::Characters), size(3_000, SizeUnit::Characters)));
    assert_eq!(sizes("tokens", &codex).0, most, "2,500 tokens may have 10,000 characters, and more bytes");
    let code = config.for_client("claude-code", "1");
    assert_eq!(sizes("any", &code).0, size(25_000, SizeUnit::Tokens));
}

#[test]
fn a_ceiling_has_its_own_unit_or_the_general_one() {
    let file =
        "ceiling-unit = \"bytes\"\n[clients.a]\nceiling = 5\n[clients.b]\nceiling = 100\nceiling-unit = \"tokens\"\n";
    let config = load(file, &[], &[]).unwrap();
    assert_eq!(config.for_client("a", "1").ceiling, Some(size(5, SizeUnit::Bytes)));
    assert_eq!(config.for_client("b", "1").ceiling, Some(size(100, SizeUnit::Tokens)));
    assert_eq!(config.for_client("c", "1").ceiling, None);
    assert_eq!(Config::default().ceiling_unit, SizeUnit::Tokens);
}

#[test]
fn a_threshold_of_the_tool_wins_over_one_of_the_client() {
    let file = r#"
        threshold = 1000
        [clients.small]
        threshold = 100
        unit = "tokens"
        [tools.own]
        threshold = 10
        [tools.counted]
        unit = "bytes"
        [tools.always]
        mode = "always"
    "#;
    let config = load(file, &[], &[]).unwrap();
    let (small, other) = (config.for_client("small", "1"), config.for_client("other", "1"));
    let threshold = |tool: &str, client| config.for_tool_and_client(tool, client).threshold;
    assert_eq!(threshold("any", &small), size(100, SizeUnit::Tokens));
    assert_eq!(threshold("any", &other), size(1000, SizeUnit::Characters));
    assert_eq!(threshold("own", &small), size(10, SizeUnit::Characters));
    assert_eq!(threshold("counted", &small), size(1000, SizeUnit::Bytes));
    let always = config.for_tool_and_client("always", &small);
    assert_eq!((always.mode, always.threshold), (DecisionMode::Always, size(100, SizeUnit::Tokens)));
    assert_eq!(always.truncate_limit, size(100, SizeUnit::Tokens));
    assert_eq!(config.for_tool("any").threshold, size(1000, SizeUnit::Characters));
}

#[test]
fn the_gateway_finds_its_strategy_by_tool() {
    let file = r#"
        [tools."search_*"]
        schema = "strip"
        [tools."search_all"]
        handles = true
        [tools."draw"]
        schema = "shape"
        threshold = 5
        reuse-seconds = 60
        ask = true
        job = "auto"
        wait-ms = 500
        heartbeat-ms = 600
    "#;
    let config = load(file, &[], &[]).unwrap();
    let tool = |schema, handles| GatewayTool { schema, handles, ..GatewayTool::default() };
    assert_eq!(config.gateway_tool("any"), tool(SchemaStrategy::Rewrite, false));
    assert_eq!(config.gateway_tool("search_one"), tool(SchemaStrategy::Strip, false));
    assert_eq!(
        config.gateway_tool("search_all"),
        tool(SchemaStrategy::Rewrite, true),
        "the longest pattern alone counts"
    );
    let draw = GatewayTool {
        reuse_seconds: NonZeroU64::new(60),
        ask: true,
        job: Some(JobMode::Auto),
        wait_ms: NonZeroU64::new(500),
        heartbeat_ms: NonZeroU64::new(600),
        ..tool(SchemaStrategy::Shape, false)
    };
    assert_eq!(config.gateway_tool("draw"), draw);
    let config = load(file, &[("MCP_LRO_SCHEMA", "block")], &[]).unwrap();
    assert_eq!(config.gateway_tool("search_all"), tool(SchemaStrategy::Block, true));
    assert_eq!(config.gateway_tool("search_one").schema, SchemaStrategy::Strip);
}

#[test]
fn every_setting_that_can_differ_by_tool_does() {
    // The key, its value for all tools and for one, and where the effective value is.
    let settings = [
        ("ttl-seconds", "7200", "60", "/1/ttl_seconds"),
        ("failure", "\"closed\"", "\"truncate\"", "/1/failure"),
        ("mode", "\"never\"", "\"always\"", "/0/mode"),
        ("threshold", "7", "8", "/0/threshold/amount"),
        ("unit", "\"bytes\"", "\"tokens\"", "/0/threshold/unit"),
        ("action", "\"reject\"", "\"truncate\"", "/0/action"),
        ("sections", "[{ key = \"a\" }]", "[]", "/0/sections"),
        ("inline-keys", "[\"a\"]", "[\"b\"]", "/0/inline_keys"),
        ("inline-limit", "7", "8", "/0/inline_limit"),
        ("infer", "false", "true", "/0/infer"),
        ("header-type", "\"a\"", "\"b\"", "/0/header_type"),
        ("session-key", "\"a\"", "\"b\"", "/0/session_key"),
        ("level", "\"full\"", "\"pointer\"", "/0/level"),
        ("dialect", "\"specification\"", "\"sections\"", "/0/dialect"),
        ("descriptor-limit", "7", "8", "/0/descriptor_limit"),
        ("truncate-limit", "7", "8", "/0/truncate_limit/amount"),
        ("truncate-suffix", "\"a\"", "\"b\"", "/0/truncate_suffix"),
        ("advice", "\"a\"", "\"b\"", "/0/advice"),
        ("images", "\"keep\"", "\"offload\"", "/0/images"),
        ("images-max", "7", "8", "/0/images_max"),
        ("images-bytes", "7", "8", "/0/images_bytes"),
        ("custom", "\"a\"", "\"b\"", "/0/custom"),
        ("documents", "\"text\"", "\"keep\"", "/1/documents"),
        ("schema", "\"strip\"", "\"block\"", "/1/schema"),
    ];
    for (key, general, own, at) in settings {
        let at = |config: &Config, tool: &str| {
            let effective = serde_json::to_value((config.for_tool(tool), config.gateway_tool(tool))).unwrap();
            effective.pointer(at).unwrap().clone()
        };
        let expected: serde_json::Value = serde_json::from_str(own).unwrap();
        let alone = load(&format!("{key} = {general}"), &[], &[]).unwrap();
        let config = load(&format!("{key} = {general}\n[tools.\"search_*\"]\n{key} = {own}"), &[], &[]).unwrap();
        assert_eq!(at(&config, "other"), at(&alone, "other"), "{key}");
        assert_eq!(at(&config, "search_all"), expected, "{key}");
        assert_ne!(at(&alone, "search_all"), expected, "{key}");
        let tenants =
            load(&format!("{key} = {general}\n[tenants.acme.tools.search]\n{key} = {own}"), &[], &[]).unwrap();
        assert_eq!(at(&tenants.for_tenant("acme"), "search"), expected, "{key}: for a tenant");
        assert_ne!(at(&tenants, "search"), expected, "{key}: for other tenants");
    }
    // That is all that a policy gets.
    for field in serde_json::to_value(PolicySettings::default()).unwrap().as_object().unwrap().keys() {
        assert!(settings.iter().any(|(key, ..)| key.replace('-', "_") == *field), "{field}");
    }
}

#[test]
fn sections_of_one_tool_leave_those_of_others_to_the_policy() {
    let file = "[[tools.search.sections]]\nkey = \"hits\"\nsummaries = [{ kind = \"count\" }]\n\
                [[tools.search.sections.recipes]]\nname = \"n\"\ndescription = \"d\"\ncommand = \"c\"\n\
                [[tools.search.sections]]\nkey = \"pages\"\n";
    let config = load(file, &[], &[]).unwrap();
    let keys = |config: &Config, tool: &str| -> Vec<String> {
        config.for_tool(tool).sections.into_iter().map(|section| section.key).collect()
    };
    assert_eq!(keys(&config, "search"), ["hits", "pages"]);
    assert_eq!(keys(&config, "other"), Vec::<String>::new(), "the policy finds them");
    let search = config.for_tool("search");
    let hits = search.sections.first().unwrap();
    assert_eq!((hits.summaries.len(), hits.recipes.first().unwrap().name.as_str()), (1, "n"));

    let config = load("[[sections]]\nkey = \"hits\"\n[tools.other]\nsections = []", &[], &[]).unwrap();
    assert_eq!((keys(&config, "search"), keys(&config, "other")), (vec!["hits".to_owned()], vec![]));
}

#[test]
fn a_truncate_limit_of_the_tool_has_its_unit() {
    let file = "threshold = 100\ntruncate-limit = 50\n[tools.own]\ntruncate-limit = 7\nunit = \"tokens\"\n\
                [tools.limited]\ntruncate-limit = 8\n[tools.counted]\nunit = \"tokens\"";
    let config = load(file, &[], &[]).unwrap();
    let limit = |tool: &str| config.for_tool(tool).truncate_limit;
    assert_eq!(limit("own"), size(7, SizeUnit::Tokens));
    assert_eq!(limit("limited"), size(8, SizeUnit::Characters));
    assert_eq!(limit("counted"), size(50, SizeUnit::Characters), "the general limit in the general unit");
    let config = load("[tools.own]\nthreshold = 9", &[], &[]).unwrap();
    assert_eq!(config.for_tool("own").truncate_limit, size(9, SizeUnit::Characters), "the threshold");
}

#[test]
fn each_layer_overrides_the_one_before_for_policies() {
    let file = "policy-dir = \"/one\"\npolicy-keys = []\n[breaker]\nfailures = 1\npause-ms = 2\n[trial]\ncalls = 3\n\
                [admission]\ncalls = 1\nwaiting = 0\n[query]\nwaiting = 2\n[loading]\ncompile-ms = 1\n";
    let variables = [("MCP_LRO_POLICY_DIR", "/two"), ("MCP_LRO_BREAKER_FAILURES", "4"), ("MCP_LRO_TRIAL_CALLS", "5")];
    let flags =
        [("policy-dir", "/three"), ("policy-keys", KEY), ("trial.promote", "on"), ("breaker.pause-max-ms", "6")];
    let config = load(file, &variables, &flags).unwrap();
    assert_eq!(
        (config.policy_dir.as_deref(), config.policy_keys.as_slice()),
        (Some("/three".as_ref()), &[KEY.to_owned()][..])
    );
    let BreakerSettings { failures, pause, pause_max } = config.breaker;
    assert_eq!((failures, pause, pause_max), (4, Duration::from_millis(2), Duration::from_millis(6)));
    assert_eq!(config.trial.if_limited(), Some(Trial { calls: Some(5), time: None, promote: true }));
    let Admission { calls, waiting, wait } = config.admission;
    assert_eq!((calls, waiting, wait), (1, 0, Duration::from_secs(1)));
    assert_eq!(config.query.waiting, 2);
    assert_eq!((config.loading.compile_ms.get(), config.loading.component_bytes.get()), (1, 64 << 20));
    assert_eq!(config.origin("breaker.failures").to_string(), "variable MCP_LRO_BREAKER_FAILURES");
    assert_eq!(config.origin("trial.promote").to_string(), "flag --trial-promote");
    assert!(config.origin("breaker.pause-ms").to_string().starts_with("file /"));
}

#[test]
fn a_tenant_overrides_key_by_key() {
    let file = r#"
        dir = "/data"
        threshold = 1000
        inline-keys = ["a", "b"]
        policy = "all.wasm"
        [limits]
        files = 5
        memory-bytes = 6
        [tools.search]
        mode = "never"
        [clients.small]
        threshold = 1
        [gateway.tokens]
        acme = "env:ACME"
        [tenants.acme]
        threshold = 100
        inline-keys = ["c"]
        policy = "acme.wasm"
        custom = "redact"
        failure = "closed"
        [tenants.acme.limits]
        files = 7
        [tenants.acme.tools.search]
        threshold = 10
        [tenants.acme.tools.draw]
        mode = "always"
        [tenants.beta]
    "#;
    let config = load(file, &[("MCP_LRO_UNIT", "bytes")], &[("level", "full")]).unwrap();
    let acme = config.for_tenant("acme");
    assert_eq!(acme.for_tool("any").threshold, size(100, SizeUnit::Bytes));
    assert_eq!((&acme.inline_keys, &acme.custom), (&vec!["c".to_owned()], &Some("redact".to_owned())));
    let own = PolicyPlace::File("acme.wasm".into());
    assert_eq!((acme.policy.as_ref(), acme.failure), (Some(&own), FailureMode::Closed));
    assert_eq!((acme.limits.files, acme.limits.memory_bytes), (7, 6));
    let search = acme.for_tool("search");
    assert_eq!((search.mode, search.threshold.amount), (DecisionMode::Never, 10), "tools are merged, too");
    assert_eq!(acme.for_tool("draw").mode, DecisionMode::Always);
    assert_eq!((acme.level, acme.dir.as_path()), (DescriptorLevel::Full, "/data".as_ref()));
    assert_eq!((&acme.gateway, &acme.clients), (&config.gateway, &config.clients));
    assert_eq!(acme.origin("limits.files"), Origin::Tenant("acme".to_owned()));
    assert_eq!(acme.origin("threshold").to_string(), "tenant acme");
    assert!(acme.origin("limits.memory-bytes").to_string().starts_with("file /"));

    for other in ["beta", "nobody"] {
        let other = config.for_tenant(other);
        assert_eq!(other.for_tool("any"), config.for_tool("any"));
        assert_eq!((&other.policy, &other.limits, other.failure), (&config.policy, &config.limits, FailureMode::Open));
    }
    assert_eq!(config.for_tool("any").threshold.amount, 1000);
}

#[test]
fn presets_hold_for_tenants_too() {
    let threshold = |file: &str, variables: &[(&str, &str)]| {
        load(file, variables, &[]).unwrap().for_tenant("a").for_tool("t").threshold
    };
    let tenant = "\n[tenants.a]\ncustom = \"x\"";
    let preset = |file: &str, variables| threshold(&[file, tenant].concat(), variables);
    assert_eq!(preset("preset = \"25k\"", &[]), size(25_000, SizeUnit::Tokens));
    assert_eq!(preset("threshold = 7", &[("MCP_LRO_PRESET", "25k")]), size(25_000, SizeUnit::Tokens));
    assert_eq!(preset("preset = \"25k\"\nthreshold = 7", &[]), size(7, SizeUnit::Tokens));
    assert_eq!(threshold("threshold = 7\n[tenants.a]\npreset = \"25k\"", &[]), size(25_000, SizeUnit::Tokens));
    let variable = [("MCP_LRO_THRESHOLD", "7")];
    assert_eq!(threshold("[tenants.a]\npreset = \"25k\"", &variable), size(25_000, SizeUnit::Tokens));
    assert_eq!(threshold("preset = \"25k\"\n[tenants.a]\nthreshold = 7", &[]), size(7, SizeUnit::Tokens));
    assert_eq!(
        threshold("preset = \"25k\"\n[tenants.a]\npreset = \"1600-tokens\"", &[]),
        size(1_600, SizeUnit::Tokens)
    );
    let both = "[tenants.a]\npreset = \"25k\"\nunit = \"bytes\"";
    assert_eq!(threshold(both, &[]), size(25_000, SizeUnit::Bytes));
}

#[test]
fn what_is_the_same_for_all_tenants_is_refused() {
    for (line, key) in [
        ("admission = { calls = 1 }", "admission"),
        ("breaker = { failures = 1 }", "breaker"),
        ("config = \"a\"", "config"),
        ("dir = \"/a\"", "dir"),
        ("fsync = \"after\"", "fsync"),
        ("gateway = { audit = true }", "gateway"),
        ("loading = { compile-ms = 1 }", "loading"),
        ("policy-dir = \"/a\"", "policy-dir"),
        ("policy-keep = \"/a\"", "policy-keep"),
        ("query = { memory-bytes = 1 }", "query"),
        ("quota-file = 1", "quota-file"),
        ("quota-tenant = 1", "quota-tenant"),
        ("quota-total = 1", "quota-total"),
        ("store = \"s3://a\"", "store"),
        ("store-copies = 1", "store-copies"),
        ("store-keys = \"/a\"", "store-keys"),
        ("store-lease-seconds = 1", "store-lease-seconds"),
        ("store-left-seconds = 1", "store-left-seconds"),
        ("store-retry-ms = 1", "store-retry-ms"),
        ("store-timeout-ms = 1", "store-timeout-ms"),
        ("tenants = { b = { threshold = 1 } }", "tenants"),
        ("ttl-seconds = 1", "ttl-seconds"),
    ] {
        let found = problems(&format!("[tenants.acme]\n{line}"), &[], &[]);
        let expected = format!("all tenants share `{key}`");
        let names_key = |text: &String| text.starts_with(&format!("`tenants.acme.{key}"));
        assert!(found.len() == 1 && found.iter().all(|text| text.contains(&expected) && names_key(text)), "{found:?}");
    }
    // A tenant can override any other key.
    for line in ["trial = { calls = 1 }", "limits = { files = 1 }", "policy-sha256 = \"\"", "schema = \"strip\""] {
        let found = load(&format!("[tenants.acme]\n{line}"), &[], &[]).err().map(|error| error.to_string());
        assert!(!found.unwrap_or_default().contains("all tenants"), "{line}");
    }
}
