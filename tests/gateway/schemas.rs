//! Output schemas as the gateway lists them, and whether the replies keep to them.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use lro_host::mcp::{OutputSchema, SCHEMA_BYTES_MAX, SchemaError};
use lro_tests::workspace;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{Client, Connection, Way};
use crate::scripted::{Script, Scripted, Setup, descriptor, first_text, handle, records, structured, text};
use crate::support::python;

/// A tool with a schema, a large value that is valid, and a small one.
struct Case {
    name: &'static str,
    schema: Value,
    large: Value,
    small: Value,
    /// Whether all clients take such a schema without the gateway.
    common: bool,
}

fn item() -> Value {
    json!({
        "type": "object", "required": ["id", "name", "even"], "additionalProperties": false,
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "even": {"type": "boolean"}},
    })
}

/// A closed object with `items`, and more of the schema.
fn closed(items: Value, more: Value) -> Value {
    let mut schema = json!({
        "type": "object", "required": ["items"], "additionalProperties": false,
        "properties": {"items": {"type": "array", "items": items}},
    });
    for (key, value) in more.as_object().unwrap() {
        schema[key] = value.clone();
    }
    schema
}

/// A closed object that holds others of its kind.
fn node(reference: Value, more: Value) -> Value {
    let mut schema = json!({
        "type": "object", "required": ["value", "children"], "additionalProperties": false,
        "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": reference}},
    });
    for (key, value) in more.as_object().unwrap() {
        schema[key] = value.clone();
    }
    schema
}

fn tree(levels: usize) -> Value {
    let children: Vec<Value> = if levels == 0 { Vec::new() } else { (0..4).map(|_| tree(levels - 1)).collect() };
    json!({"value": levels, "children": children})
}

fn cases() -> Vec<Case> {
    const DRAFT4: &str = "http://json-schema.org/draft-04/schema#";
    const DRAFT7: &str = "http://json-schema.org/draft-07/schema#";
    const DRAFT2019: &str = "https://json-schema.org/draft/2019-09/schema";
    const DRAFT2020: &str = "https://json-schema.org/draft/2020-12/schema";
    let items = |count| json!({ "items": records(count) });
    let of_items = |name, schema, common| Case { name, schema, large: items(2_000), small: items(2), common };
    let of_tree = |name, schema, common| Case { name, schema, large: tree(6), small: tree(2), common };
    let reference = |target: &str| json!({ "$ref": target });
    let link = |keyword: &str, value: Value| {
        let mut schema = closed(item(), json!({}));
        schema["properties"]["link"] = json!({ keyword: value });
        schema["required"] = json!(["items", "link"]);
        let with = |count| json!({"items": records(count), "link": {"$ref": "#/a"}});
        (schema, with(2_000), with(2))
    };
    let (constant, large, small) = link("const", json!({"$ref": "#/a"}));
    let (choice, ..) = link("enum", json!([{"$ref": "#/a"}]));
    let twice = |count| json!({"a b": records(count), "c": records(count)});
    vec![
        of_items("closed", closed(item(), json!({})), true),
        of_items("$defs", closed(reference("#/$defs/I"), json!({"$defs": {"I": item()}})), true),
        of_items("draft-07", closed(item(), json!({ "$schema": DRAFT7 })), true),
        of_items(
            "definitions",
            closed(reference("#/definitions/I"), json!({"$schema": DRAFT7, "definitions": {"I": item()}})),
            true,
        ),
        of_items(
            "$id",
            closed(reference("#/$defs/I"), json!({"$id": "https://example.org/a", "$defs": {"I": item()}})),
            true,
        ),
        of_items(
            "$id of draft-07",
            closed(
                reference("#/definitions/I"),
                json!({"$schema": DRAFT7, "$id": "https://example.org/b", "definitions": {"I": item()}}),
            ),
            true,
        ),
        of_items(
            "id of draft-04",
            closed(
                reference("#/definitions/I"),
                json!({"$schema": DRAFT4, "id": "https://example.org/c", "definitions": {"I": item()}}),
            ),
            false,
        ),
        of_tree("recursive", node(reference("#"), json!({})), true),
        of_tree("recursive draft-07", node(reference("#"), json!({ "$schema": DRAFT7 })), true),
        of_tree("recursive draft-04", node(reference("#"), json!({ "$schema": DRAFT4 })), false),
        of_tree(
            "recursive definition",
            json!({"$defs": {"N": node(reference("#/$defs/N"), json!({}))}, "$ref": "#/$defs/N", "type": "object"}),
            true,
        ),
        of_tree("$anchor", node(reference("#root"), json!({"$schema": DRAFT2020, "$anchor": "root"})), false),
        of_tree(
            "$recursiveRef",
            node(json!({"$recursiveRef": "#"}), json!({"$schema": DRAFT2019, "$recursiveAnchor": true})),
            false,
        ),
        of_tree(
            "$dynamicRef",
            node(json!({"$dynamicRef": "#n"}), json!({"$schema": DRAFT2020, "$dynamicAnchor": "n"})),
            false,
        ),
        Case {
            name: "$id inside",
            schema: json!({
                "type": "object", "required": ["tree"], "additionalProperties": false,
                "properties": {"tree": reference("#/$defs/N")},
                "$defs": {"N": node(reference("#"), json!({"$id": "https://example.org/node"}))},
            }),
            large: json!({"tree": tree(6)}),
            small: json!({"tree": tree(2)}),
            common: true,
        },
        Case {
            name: "pointer",
            schema: json!({
                "type": "object", "required": ["a b", "c"], "additionalProperties": false,
                "properties": {"a b": {"type": "array", "items": item()}, "c": reference("#/properties/a%20b")},
            }),
            large: twice(2_000),
            small: twice(2),
            common: true,
        },
        Case { name: "const", schema: constant, large: large.clone(), small: small.clone(), common: true },
        Case { name: "enum", schema: choice, large, small, common: true },
        Case {
            name: "wrapped",
            schema: json!({
                "type": "object", "required": ["result"], "x-fastmcp-wrap-result": true,
                "properties": {"result": {"type": "array", "items": reference("#/$defs/I")}}, "$defs": {"I": item()},
            }),
            large: json!({"result": records(2_000)}),
            small: json!({"result": records(2)}),
            common: true,
        },
        of_tree("empty reference", node(reference(""), json!({})), false),
        of_items("escaped definition", closed(reference("#/%24defs/I"), json!({"$defs": {"I": item()}})), true),
        of_items(
            "id without a draft",
            closed(reference("#/definitions/I"), json!({"id": "https://example.org/e", "definitions": {"I": item()}})),
            false,
        ),
        Case {
            name: "const as a property",
            schema: json!({
                "type": "object", "required": ["a", "const"], "additionalProperties": false,
                "properties": {"a": {"type": "array", "items": item()}, "const": reference("#/properties/a")},
            }),
            large: json!({"a": records(2_000), "const": records(2)}),
            small: json!({"a": records(2), "const": records(2)}),
            common: true,
        },
        Case {
            name: "array",
            schema: json!({"type": "array", "items": item()}),
            large: records(2_000),
            small: records(2),
            common: false,
        },
        Case {
            name: "string",
            schema: json!({"type": "string"}),
            large: "x".repeat(60_000).into(),
            small: "x".into(),
            common: false,
        },
        Case { name: "true", schema: json!(true), large: items(2_000), small: items(2), common: false },
    ]
}

fn script(cases: &[Case]) -> Script {
    let mut error = structured(&json!({ "items": records(2_000) }));
    error["isError"] = true.into();
    let script = Script::new().tool("large error", &closed(item(), json!({})).to_string(), error);
    cases.iter().fold(script, |script, case| {
        let (large, small) = (format!("large {}", case.name), format!("small {}", case.name));
        script.tool(&large, &case.schema.to_string(), structured(&case.large)).tool(
            &small,
            &case.schema.to_string(),
            structured(&case.small),
        )
    })
}

/// What a validating client looks at in a reply, with the schemas as they are listed. Of an error, the TypeScript SDK 1.x
/// validates the structured content when there is some.
fn judged(name: &str, tool: &Value, result: &Value) -> Option<Value> {
    let schema = &tool["outputSchema"];
    let is_exempt = result["isError"] == true && result["structuredContent"].is_null();
    (!schema.is_null() && !is_exempt).then(|| json!([name, schema, result["structuredContent"]]))
}

fn complaints(judged: &[Value]) -> String {
    let mut validator = Command::new(python())
        .arg(workspace().join("tests/tools/servers/validate.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = judged.iter().map(|case| format!("{case}\n")).collect();
    let mut input = validator.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = validator.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "the validator failed");
    String::from_utf8(output.stdout).unwrap()
}

/// Calls all tools; what a validating client has to judge, with the way in which they were called.
fn judged_of(gateway: &mut Scripted, way: &str) -> Vec<Value> {
    let tools = gateway.tools();
    let mut judgements = Vec::new();
    for tool in tools {
        let name = tool["name"].as_str().unwrap().to_owned();
        if name.starts_with("lro_") {
            continue;
        }
        let result = gateway.call(&name, json!({}));
        judgements.extend(judged(&format!("{way}, {name}"), &tool, &result));
    }
    judgements
}

// Whatever the strategy and whatever is done with a large result, the reply keeps to the schema as listed.
#[test]
fn replies_keep_to_the_listed_schema() {
    let cases = cases();
    let script = script(&cases);
    let mut judged = Vec::new();
    for strategy in ["rewrite", "strip", "shape", "block"] {
        for action in ["offload", "truncate", "reject"] {
            let mut gateway = script.with_flags(&["--schema", strategy, "--action", action]);
            judged.extend(judged_of(&mut gateway, &format!("{strategy}, {action}")));
        }
    }
    assert_eq!(complaints(&judged), "");
}

// Also when nothing can be written, and when the policy fails.
#[test]
fn replies_keep_to_the_listed_schema_when_writing_fails() {
    let script = script(&cases());
    let directory = TempDir::new().unwrap();
    let blocked = directory.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let ways: [(&str, &[&str]); 3] = [
        ("no directory", &["--dir", blocked.to_str().unwrap()]),
        ("no room", &["--quota-file", "1000"]),
        ("no memory", &["--limits-memory-bytes", "1000"]),
    ];
    let mut judged = Vec::new();
    for (way, flags) in ways {
        for strategy in ["rewrite", "strip", "shape", "block"] {
            let mut gateway = script.with_flags(&[flags, &["--schema", strategy]].concat());
            judged.extend(judged_of(&mut gateway, &format!("{way}, {strategy}")));
        }
    }
    assert_eq!(complaints(&judged), "");
}

/// What a client of others, which validates, does not take of the lists and calls of a server.
fn refused(client: Client, way: &Way, cases: &[Case]) -> Vec<String> {
    let mut connection = Connection::open(client, way);
    let mut steps = vec![("the list".to_owned(), json!({"tools": null}))];
    for case in cases {
        let names = ["large", "small"].map(|size| format!("{size} {}", case.name));
        steps.extend(names.map(|name| (name.clone(), json!({"call": {"name": name, "arguments": {}}}))));
    }
    let refused = steps.iter().filter_map(|(name, step)| Some((name, connection.step(step).err()?)));
    refused.map(|(name, error)| format!("{client:?}, {name}: {error:.200}")).collect()
}

// The clients of others, which validate, accept every reply, as they do without the gateway.
#[test]
fn validating_clients_accept_every_reply() {
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.common).collect();
    let script = script(&cases);
    std::thread::scope(|scope| {
        for client in [Client::Sdk1, Client::Client2, Client::FastMcp] {
            let (script, cases) = (&script, &cases);
            scope.spawn(move || {
                let home = TempDir::new().unwrap();
                let (command, variables) = script.command(&Setup::default(), &home);
                let alone = command.iter().skip_while(|word| *word != "--").skip(1).cloned().collect();
                assert_eq!(
                    refused(client, &Way::Command(alone, variables.clone()), cases),
                    [""; 0],
                    "without the gateway"
                );
                assert_eq!(refused(client, &Way::Command(command, variables), cases), [""; 0]);
            });
        }
    });
}

// The original schema still counts: what is neither it nor a descriptor is not valid.
#[test]
fn a_rewritten_schema_is_no_blank_cheque() {
    let cases = cases();
    let mut gateway = script(&cases).start();
    let tools = gateway.tools();
    let wrong = json!({"items": [{"id": "a string"}], "tree": 1, "value": "x", "children": 0, "a b": 0});
    let judged: Vec<Value> = cases
        .iter()
        .filter(|case| case.name != "true")
        .map(|case| {
            let tool = tools.iter().find(|tool| tool["name"] == format!("large {}", case.name)).unwrap();
            json!([case.name, tool["outputSchema"], wrong])
        })
        .collect();
    let found = complaints(&judged);
    for case in cases.iter().filter(|case| case.name != "true") {
        assert!(
            found.lines().any(|line| line.starts_with(&format!("{}: ", case.name))),
            "{} takes anything",
            case.name
        );
    }
}

// The schema of a tool that never offloads stays byte for byte, and so does everything else of all tools.
#[test]
fn only_schemas_that_must_change_do() {
    let schema = r#"{ "type":"object","properties":{"a":{"type":"integer","maximum":1e3}} }"#;
    let tools = format!(
        r#"{{"tools":[ {{"name":"never","inputSchema":{{"type":"object"}},"outputSchema":{schema},"_meta":{{"anthropic/maxResultSizeChars":500000}},"execution":{{"taskSupport":"optional"}}}},{{"name":"large","title":"\u00e9","inputSchema":{{"type":"object","a":1.0}},"outputSchema":{schema},"annotations":{{"readOnlyHint":true}},"_meta":{{"anthropic/maxResultSizeChars":1.5e5}}}},{{"name":"plain","inputSchema":{{}}}}],"nextCursor":"n","ttlMs":5,"_meta":{{"x/y":1.0}}}}"#
    );
    let script = Script::new().result("tools/list", tools.as_str());
    let answer = script.with_toml("[tools.never]\nmode = \"never\"\n").ask("tools/list", json!({}));
    let (before, after) = tools
        .split_once(
            r#""outputSchema":{ "type":"object","properties":{"a":{"type":"integer","maximum":1e3}} },"annotations""#,
        )
        .unwrap();
    assert!(answer.contains(before), "{answer}");
    let (listed, rest) = after.split_once("],").unwrap();
    assert!(answer.contains(listed) && answer.ends_with(&format!("],{rest}}}")), "{answer}");
    assert!(answer.contains(r#""maximum":1e3"#), "{answer}");
    // Off and in an audit nothing changes at all.
    for flags in [["--audit", "true"], ["--enabled", "false"]] {
        let answer = script.with_flags(&flags).ask("tools/list", json!({}));
        assert_eq!(crate::scripted::result_bytes(&answer), tools);
    }
}

/// A value that schemas here say something about.
fn any_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        prop::sample::select(&[0.5, 1.0, -2.0, 1e3][..]).prop_map(Value::from),
        "[ab]{0,4}".prop_map(Value::from),
    ];
    scalar.prop_recursive(3, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

/// A schema of the keywords that are understood, with references to two definitions.
fn any_schema() -> impl Strategy<Value = Value> {
    let number = || prop::sample::select(&[-1.0, 0.0, 0.5, 2.0][..]).prop_map(Value::from);
    let small = || (0_u64..4).prop_map(Value::from);
    let kinds = &["null", "boolean", "object", "array", "string", "number", "integer"][..];
    let kind = move || prop::sample::select(kinds);
    let one =
        |name: &'static str, value: BoxedStrategy<Value>| value.prop_map(move |value| json!({ name: value })).boxed();
    let leaf = prop::strategy::Union::new([
        any::<bool>().prop_map(Value::from).boxed(),
        one("type", kind().prop_map(Value::from).boxed()),
        one("type", prop::collection::btree_set(kind(), 1..3).prop_map(|names| json!(names)).boxed()),
        one("const", any_value().boxed()),
        one("enum", prop::collection::vec(any_value(), 1..4).prop_map(Value::from).boxed()),
        one("minimum", number().boxed()),
        one("maximum", number().boxed()),
        one("exclusiveMinimum", number().boxed()),
        one("exclusiveMaximum", number().boxed()),
        one("multipleOf", (1_u64..3).prop_map(Value::from).boxed()),
        one("minLength", small().boxed()),
        one("maxLength", small().boxed()),
        one("minItems", small().boxed()),
        one("maxItems", small().boxed()),
        one("uniqueItems", any::<bool>().prop_map(Value::from).boxed()),
        one("minProperties", small().boxed()),
        one("maxProperties", small().boxed()),
        one("required", prop::collection::btree_set("[abc]", 0..3).prop_map(|names| json!(names)).boxed()),
        one(
            "$ref",
            prop::sample::select(&["#/$defs/a", "#/$defs/%62", "#/properties/a"][..]).prop_map(Value::from).boxed(),
        ),
        one("title", Just(json!("an explanation")).boxed()),
    ]);
    leaf.prop_recursive(3, 24, 3, move |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4).prop_map(Value::from).boxed();
        let named =
            prop::collection::btree_map("[abc]", inner.clone(), 0..3).prop_map(|schemas| json!(schemas)).boxed();
        let both = (inner.clone(), inner.clone(), inner.clone());
        prop_oneof![
            one("allOf", list.clone()),
            one("anyOf", list.clone()),
            one("oneOf", list),
            one("not", inner.clone().boxed()),
            one("items", inner.clone().boxed()),
            both.prop_map(|(first, then, other)| json!({"if": first, "then": then, "else": other})),
            (named.clone(), inner.clone())
                .prop_map(|(named, other)| json!({"properties": named, "additionalProperties": other})),
            (named, inner).prop_map(|(named, mut other)| {
                if let Value::Object(keywords) = &mut other {
                    keywords.entry("properties").or_insert(named);
                }
                other
            }),
        ]
    })
}

// What the gateway holds to be valid or not, the validator of a client does, too.
#[test]
fn a_check_says_what_a_validator_says() {
    let mut random = TestRunner::deterministic();
    let definitions = (any_schema(), any_schema(), any_schema(), any_value());
    let (mut judged, mut answers) = (Vec::new(), Vec::new());
    while judged.len() < 4_000 {
        let (mut schema, a, b, value) = definitions.new_tree(&mut random).unwrap().current();
        if let Value::Object(keywords) = &mut schema {
            keywords.insert("$defs".to_owned(), json!({"a": a, "b": b}));
            keywords.entry("properties").or_insert(json!({"a": {"type": "integer"}}));
        }
        // References in a circle, and what readers differ about, have no answer.
        let Ok(answer) = OutputSchema::read(schema.to_string().as_bytes()).unwrap().allows(&value) else { continue };
        judged.push(json!([judged.len(), schema, value]));
        answers.push(answer);
    }
    assert!(answers.iter().filter(|answer| **answer).count() > 500 && answers.contains(&false));
    let complaints = complaints(&judged);
    let refused: BTreeSet<usize> =
        complaints.lines().map(|line| line.split(':').next().unwrap().parse().unwrap()).collect();
    for (index, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer, !refused.contains(&index), "{}", judged[index]);
    }
}

// What is not understood, or not the same for all readers, has no answer.
#[test]
fn what_is_not_understood_is_not_checked() {
    let answer = |schema: Value, value: Value| {
        OutputSchema::read(schema.to_string().as_bytes())
            .and_then(|schema| schema.allows(&value))
            .map_err(|error| error.to_string())
    };
    for (schema, value, reason) in [
        (json!({"pattern": "^a"}), json!("a"), "\"pattern\""),
        (json!({"properties": {"a": {"contains": true}}}), json!({"a": []}), "\"contains\""),
        (json!({"items": [true]}), json!([1]), "a schema"),
        (json!({"$schema": "http://json-schema.org/draft-04/schema#"}), json!(1), "draft-04"),
        (json!({"properties": {"a": {"$id": "https://example.org/a"}}}), json!({}), "\"$id\""),
        (json!({"$ref": "https://example.org/a"}), json!(1), "https://example.org/a"),
        (json!({"$ref": "#/$defs/missing"}), json!(1), "missing"),
        (json!({"$ref": "#anchor"}), json!(1), "#anchor"),
        (json!({"type": "text"}), json!(1), "`type`"),
        (json!({"minItems": "two"}), json!([]), "count"),
        (json!({"maximum": 1e300}), json!(1e300), "large numbers"),
        (json!({"multipleOf": 0.1}), json!(0.3), "multiple"),
        (json!({"format": "uri"}), json!("https://example.org/…"), "format"),
        (
            json!({"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/a", "type": "object", "definitions": {"a": true}}),
            json!(1),
            "beside",
        ),
    ] {
        let found = answer(schema.clone(), value);
        assert!(found.as_ref().is_err_and(|error| error.contains(reason)), "{schema}: {found:?}");
    }
    // A property may have any name.
    assert_eq!(answer(json!({"properties": {"$id": {"type": "string"}}}), json!({"$id": 1})), Ok(false));
    assert_eq!(
        answer(json!({"format": "uri", "x-note": 1, "description": "d"}), json!("https://example.org")),
        Ok(true)
    );
    assert_eq!(answer(json!({"type": "integer", "enum": [1]}), json!(1.0)), Ok(true));
}

// No schema makes a check long.
#[test]
fn a_check_has_a_bounded_number_of_steps() {
    let mut definitions = json!({"d0": {"type": "object"}});
    for level in 1..=40 {
        let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
        definitions[format!("d{level}")] = json!({"anyOf": [{"not": below}, below]});
    }
    let nested = |levels: usize| (0..levels).fold(json!(true), |schema, _| json!({"allOf": [schema]}));
    let long = "x".repeat(1 << 16);
    let other = format!("{}y", &long[1..]);
    let mut types = vec!["null"; 1_000];
    types.push("integer");
    for (schema, value, reason) in [
        (json!({"$ref": "#/$defs/d40", "$defs": definitions}), json!(1), SchemaError::Steps),
        (json!({"$ref": "#"}), json!(1), SchemaError::Levels),
        (
            json!({"items": {"allOf": vec![json!({"minLength": 1}); 100]}}),
            json!(vec![long.as_str(); 3]),
            SchemaError::Steps,
        ),
        (json!({"items": {"enum": [long, long, other]}}), json!(vec![other.as_str(); 100]), SchemaError::Steps),
        (json!({"uniqueItems": true}), json!((0..1_000).collect::<Vec<_>>()), SchemaError::Steps),
        (json!({"items": {"type": types}}), json!(vec![1; 200]), SchemaError::Steps),
    ] {
        let schema = OutputSchema::read(schema.to_string().as_bytes()).unwrap();
        assert_eq!(schema.allows(&value), Err(reason));
    }
    assert!(matches!(OutputSchema::read(nested(200).to_string().as_bytes()), Err(SchemaError::Malformed(_))));
    assert_eq!(OutputSchema::read(nested(50).to_string().as_bytes()).unwrap().allows(&json!(1)), Ok(true));
    let title = json!({"title": "x".repeat(SCHEMA_BYTES_MAX)}).to_string();
    assert_eq!(OutputSchema::read(title.as_bytes()).unwrap_err(), SchemaError::TooLarge(title.len()));
}

/// The large reply to a tool with a closed schema.
fn reply_with(strategy: &str, listed: bool) -> (Value, Value) {
    let value = json!({"items": records(2_000), "total": 2_000});
    let mut schema = closed(item(), json!({}));
    schema["properties"]["total"] = json!({"type": "integer"});
    let script = Script::new().tool("large", &schema.to_string(), structured(&value));
    let mut gateway = script.with_flags(&["--schema", strategy]);
    let tool = if listed { gateway.tools()[0].take() } else { Value::Null };
    let unchanged = tool["outputSchema"] == schema;
    let result = gateway.call("large", json!({}));
    assert_eq!(listed && unchanged, listed && ["shape", "block"].contains(&strategy), "{strategy}");
    assert_eq!(gateway.offloads().len(), 1, "{strategy}: the data is kept in any case");
    (tool, result)
}

// `strip` takes the schema away, and both halves are the descriptor.
#[test]
fn the_strategy_strip() {
    let (tool, result) = reply_with("strip", true);
    assert!(tool.get("outputSchema").is_none(), "{tool}");
    assert_eq!(Some(&result["structuredContent"]), descriptor(&result).as_ref());
}

// `shape` keeps the schema: its structured content is short and whole, the text is the descriptor.
#[test]
fn the_strategy_shape() {
    let (_, result) = reply_with("shape", true);
    let found = descriptor(&result).unwrap();
    handle(&found);
    let short = &result["structuredContent"];
    assert_eq!(short["items"], records(3), "{result:.1000}");
    assert_eq!(short["total"], 2_000);
    // Nobody asked for the list: without a schema nothing can be vouched for.
    let (_, result) = reply_with("shape", false);
    assert_eq!((&result["isError"], &result["structuredContent"]), (&true.into(), &Value::Null));
    handle(&descriptor(&result).unwrap());
}

// What is short has no cursor either, as it is not a page; where the schema asks for one it is not shortened.
#[test]
fn a_shape_has_no_cursor() {
    let schema = |required: Value| json!({"type": "object", "required": required, "properties": {"items": {"type": "array"}, "nextCursor": {"type": "string"}}});
    let value = structured(&json!({"items": records(2_000), "nextCursor": "the-next-page"}));
    let script = Script::new().tool("may", &schema(json!(["items"])).to_string(), &value).tool(
        "must",
        &schema(json!(["items", "nextCursor"])).to_string(),
        &value,
    );
    let mut gateway = script.with_flags(&["--schema", "shape"]);
    gateway.tools();
    let result = gateway.call("may", json!({}));
    assert_eq!(result["structuredContent"], json!({"items": records(3)}));
    let refused = gateway.call("must", json!({}));
    assert_eq!((&refused["isError"], &refused["structuredContent"]), (&true.into(), &Value::Null));
    for result in [result, refused] {
        // What the schema allows has none; the descriptor names the argument that continues.
        let shown = result["structuredContent"].to_string();
        assert!(!shown.contains("the-next-page") && !result.to_string().contains("nextCursor"), "{result}");
        assert_eq!(descriptor(&result).unwrap()["paging"], json!({"next": {"cursor": "the-next-page"}}), "{result}");
    }
}

// `block` keeps the schema: an error of the tool that holds the descriptor.
#[test]
fn the_strategy_block() {
    let (_, result) = reply_with("block", true);
    assert_eq!((&result["isError"], &result["structuredContent"]), (&true.into(), &Value::Null));
    handle(&descriptor(&result).unwrap());
}

// A strategy of its own for a tool.
#[test]
fn a_strategy_for_each_tool() {
    let schema = closed(item(), json!({})).to_string();
    let value = structured(&json!({ "items": records(2_000) }));
    let script = ["one", "two", "other"].iter().fold(Script::new(), |script, name| script.tool(name, &schema, &value));
    let mut gateway = script
        .with_toml("schema = \"block\"\n[tools.one]\nschema = \"strip\"\n[tools.\"tw*\"]\nschema = \"rewrite\"\n");
    let tools = gateway.tools();
    assert!(tools[0].get("outputSchema").is_none() && tools[1]["outputSchema"]["anyOf"].is_array(), "{tools:?}");
    assert_eq!(tools[2]["outputSchema"].to_string(), serde_json::from_str::<Value>(&schema).unwrap().to_string());
    let is_error = |name, gateway: &mut Scripted| gateway.call(name, json!({}))["isError"] == true;
    assert_eq!(["one", "two", "other"].map(|name| is_error(name, &mut gateway)), [false, false, true]);
}

// A tool without a schema gets none, and no structured content.
#[test]
fn no_schema_stays_none() {
    let mut gateway = Script::new().tool("large", "", text(&records(2_000).to_string())).start();
    assert!(gateway.tools()[0].get("outputSchema").is_none());
    let result = gateway.call("large", json!({}));
    assert!(result.get("structuredContent").is_none() && first_text(&result).contains("offloaded"));
}
