//! jq programs: their answers, their failures, and the comparison with the installed jq.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::io::Write;
use std::process::{Command, Stdio};

use lro_answer::{Answer, Argument, Budget, ExtractError, FILTER_BYTES_MAX, Jq, Question};
use serde_json::Value;
use support::{ROOMY, ask_cut, ask_jq, jq};

const RECORDS: &str = r#"{"id":1,"name":"Ann Lee","age":41,"score":0.5,"tags":["red","eu"],"meta":{"owner":"u1","n":null},"at":"2015-03-05T23:51:47Z"}
{"id":2,"name":"bob","age":7,"score":12.25,"tags":[],"meta":{"owner":"u2","n":3},"at":"2024-02-29T00:00:00Z"}
{"id":3,"name":"Zoë \"Z\" 東京","age":null,"score":-3,"tags":["blue","red","red"],"meta":{"owner":"u1","n":[1,[2]]},"at":"1999-12-31T23:59:59Z"}
"#;

/// Programs for the features in the jq manual. They run on each record.
const PROGRAMS: [&str; 182] = [
    ".",
    ".name",
    ".meta.owner",
    ".[\"name\"]",
    ".meta[\"owner\"]?",
    ".missing",
    ".name.x?",
    ".tags[0]",
    ".tags[-1]",
    ".tags[1:]",
    ".tags[:-1]",
    ".name[2:4]",
    ".tags[]",
    ".id, .age",
    ".tags | length",
    "..|numbers",
    "{id, owner: .meta.owner}",
    "{(.name): .id}",
    "{\"a b\": .id, @base64 \"x\": 1}",
    "{id, tag: .tags[]}",
    "[.id, .age]",
    "[.tags[] | ascii_upcase]",
    ".age + 1",
    ".score * 2 - 1",
    ".age / 2",
    "7 % 3, 5 % -2, -5 % 3",
    ".name + \"!\"",
    ".tags + [\"x\"]",
    ".meta + {x: 1}",
    "{a: {b: 1}} * {a: {c: 2}}",
    ".tags - [\"red\"]",
    "\"x\" * 3",
    ".name / \" \"",
    "length",
    ".name | length, utf8bytelength",
    "keys, keys_unsorted",
    "has(\"id\"), (.tags | has(0))",
    "\"id\" | in({\"id\": 1})",
    ".tags | map(length)",
    ".meta | map_values(type)",
    "path(.meta.owner)",
    "[paths]",
    "[paths(type == \"number\")]",
    "[leaf_paths]",
    "del(.tags)",
    "del(.tags[0, 1])",
    "delpaths([[\"meta\", \"owner\"], [\"id\"]])",
    "getpath([\"meta\", \"owner\"]), getpath([\"x\", \"y\"])",
    "setpath([\"meta\", \"x\"]; 1).meta",
    "setpath([\"a\", \"b\", 2]; 1).a, (null | setpath([1, \"x\"]; 2))",
    ".name | ltrimstr(1), (.id | rtrimstr(\"x\"))",
    "to_entries",
    "to_entries | from_entries",
    "[{name: \"a\", value: 1}, {key: \"c\", value: null}] | from_entries",
    "with_entries(select(.key != \"tags\"))",
    "select(.age > 10)",
    "empty",
    "try error(\"x\") catch .",
    "try error({a: 1}) catch .a",
    "try (.name | tonumber) catch \"no\"",
    "[.age, .score | values] | add",
    "[true, false] | any, all",
    "any(.tags[]; . == \"red\"), all(.tags[]; length > 2)",
    "[[1, [2]], 3] | flatten, flatten(1)",
    "[range(5)], [range(2; 5)], [range(0; 10; 3)]",
    "[.score | floor, ceil, round, sqrt?] | tojson | length > 0",
    "[2, 3 | pow(.; 2), log2 | floor]",
    "tostring | length > 10",
    "\"12.5\" | tonumber",
    "[.[] | type]",
    "[infinite, -infinite, nan] | map(isinfinite), map(isnan)",
    "[1, nan] | sort | length",
    "[.tags[], .id, null, {}, true] | sort",
    "[{a: 2}, {a: 1}] | sort_by(.a)",
    "[{a: 2, b: 1}, {a: 1, b: 2}, {a: 2, b: 3}] | group_by(.a)",
    ".tags | min, max",
    "[{a: 2}, {a: 1}] | min_by(.a), max_by(.a)",
    ".tags | unique",
    "[\"aa\", \"b\", \"cc\"] | unique_by(length)",
    ".tags | reverse",
    ".name | contains(\"b\")",
    ".tags | contains([\"re\"])",
    "{a: [1, 2], b: 3} | contains({a: [1]})",
    ".tags | inside([\"red\", \"eu\", \"blue\"])",
    ".name | startswith(\"A\"), endswith(\"b\")",
    "[1, [2, 3]] | combinations?",
    "[[[1, 2], [3, 4]] | combinations]",
    "[[0, 1] | combinations(2)]",
    ".name | ltrimstr(\"Ann \"), rtrimstr(\"b\")",
    ".name | explode | implode",
    ".name | split(\" \")",
    ".tags | join(\"-\")",
    "[\"a\", 1, null, true] | join(\",\")",
    ".name | ascii_downcase",
    "[1 | while(. < 50; . * 2)]",
    "[1 | until(. > 50; . * 2)]",
    "[limit(3; repeat(1))]",
    "[recurse(if . < 3 then . + 1 else empty end)]?",
    "[2 | recurse(. * .; . < 100)]",
    "[{a: [{a: []}]} | recurse(.a[]?)]",
    "[[1, 2], [3]] | transpose",
    "[1, 2, 3] | bsearch(2), bsearch(0), bsearch(4)",
    "\"\\(.id) is \\(.name)\"",
    "tojson | fromjson | .id",
    "@text, @json",
    "[.id, .name, .score] | @csv",
    "[.id, .name, \"a\\tb\"] | @tsv",
    ".name | @html",
    ".name | @uri",
    ".name | @sh",
    ".name | @base64",
    ".name | @base64 | @base64d",
    "@json \"x \\(.tags)\"",
    ".at | fromdate",
    ".at | fromdate | todate",
    ".at | fromdateiso8601 | gmtime | mktime",
    "1425599507 | strftime(\"%Y-%m-%dT%H:%M:%SZ\")",
    "1425599507 | strftime(\"%A, %B %d, %Y\")",
    ".at | strptime(\"%Y-%m-%dT%H:%M:%SZ\") | mktime",
    "1425599507 | gmtime",
    ".age == 41 and .id == 1 or false | not",
    ".age // \"unknown\"",
    "if .age == null then \"none\" elif .age > 10 then \"old\" else \"young\" end",
    "if .age then 1 else 2 end",
    ".id == 1, .id != 1, .id < 2, .id <= 2, .id > 2, .id >= 2",
    "[.tags[] | select(test(\"^r\"))]",
    ".name | test(\"B\"; \"i\")",
    ".name | [match(\"[a-z]+\"; \"g\") | .string, .offset]",
    ".name | [match(\"(?<first>[A-Z])(?<rest>[a-z]+)\") | .captures[] | .name, .string]",
    ".name | capture(\"(?<first>[A-Za-z])(?<rest>[a-z]+)\")",
    ".name | [scan(\"[a-z]\")]",
    "\"a, b,c\" | split(\", *\"; null)",
    "\"a, b,c\" | [splits(\", *\")]",
    ".name | sub(\"[a-z]\"; \"_\"), gsub(\"[a-z]\"; \"_\")",
    ".name | gsub(\"(?<x>[a-z])\"; \"<\\(.x)>\")",
    ". as $r | $r.tags | map(. + \" \" + $r.meta.owner)",
    ". as {id: $i, tags: [$first]} | [$i, $first]",
    "def f(x): x * 2; f(.id)",
    "def f($a; $b): $a + $b; f(.id; 10)",
    "def fac: if . <= 1 then 1 else . * (. - 1 | fac) end; 10 | fac",
    "reduce .tags[] as $t (0; . + ($t | length))",
    "[foreach range(5) as $i (0; . + $i; [$i, .])]",
    "[label $out | foreach .tags[] as $t (0; . + 1; ., if . == 2 then break $out else empty end)]",
    "[first(range(5; 10)), (.tags | first, last)]",
    "[nth(2; range(10))], ([range(10)] | nth(3))",
    "first(empty) // \"none\"",
    "isempty(.tags[])",
    ".tags |= map(ascii_upcase) | .tags",
    ".score += 1 | .score",
    ".age //= 18 | .age",
    ".meta.owner = \"x\" | .meta",
    "(.tags[] | select(. == \"red\")) = \"RED\" | .tags",
    ".meta | walk(if type == \"array\" then reverse else . end)",
    "[splits(\"x\")?]",
    "[tostream] | fromstream(.[])",
    "[1 | truncate_stream([[0], 1], [[1, 0], 2], [[1, 0]], [[1]])]",
    "INDEX(.tags[]; .)",
    "(.id | IN(1, 3)), (.tags | map(IN(\"red\")))",
    "del(.id) | keys_unsorted",
    "del(.id, .tags)",
    "del(.missing)",
    "del(.tags[0], .meta.n)",
    "[.id, .score, .name, null, true] | @csv",
    "[.id, .name, \"a\\tb\\\\c\\n\\r\"] | @tsv",
    "[.id, .score, .name, null, false] | join(\"-\")",
    "[] | join(\",\"), ([\"a\"] | join(\",\"))",
    "to_entries",
    "[..|type]",
    "[paths]",
    "[.[] | booleans, numbers, strings, arrays, objects, nulls]",
    "map_values(empty)",
    "map_values(select(type != \"string\"))",
    "[.[] | not]",
    "[path(..)]",
    "del(.[] | select(type == \"string\")) | keys_unsorted",
    "(.tags[] | select(. == \"red\")) |= \"x\"",
    "empty |= 1",
    "[limit(2; .[])]",
    ".name | test(\"ANN\"; \"i\"), test(\"ann\"), test(\"^.{3}$\"; \"x\")",
    ".name | [match(\"[a-zë]+\"; \"g\")]",
    ".name | sub(\"(?<a>[A-Z])\"; \"<\\(.a)>\")",
    ".name | test(\"\"; \"n\")",
];

/// Programs with different answers, and the reason. Refers to jq 1.6 unless a version is named.
const DIFFERENT: [(&str, &str); 17] = [
    (".[] as [$a] ?// $a | $a | type", "the interpreter has no alternative destructuring"),
    ("add(.tags[]) // \"none\"", "jq has add/1 from 1.7.1 on"),
    ("[{k: \"b\", v: 1}] | from_entries", "jq takes k and v from 1.7 on"),
    ("[{key: null, value: 1}] | from_entries", "jq 1.6 fails on a null key, 1.7 does not"),
    (".x.y = 1", "an update does not make objects on its way; setpath does"),
    (".tags[5] = \"x\"", "an update does not make an array longer; setpath does"),
    ("null | .a += 1", "an update does not make an object of null; it is {} that is counted in"),
    ("[limit(0; 1, 2)]", "jq 1.6 gives one, 1.7 none"),
    ("try .tags.x catch .", "messages are worded otherwise"),
    ("$__loc__", "a program has no location in a file"),
    ("infinite | tostring", "a text of infinity is Infinity"),
    ("1425599507.5 | todate", "a fraction of a second is kept"),
    ("\"10:15\" | strptime(\"%H:%M\")", "a time needs a date"),
    ("{a: [1]} | flatten", "only arrays can be flattened"),
    ("\" a \" | trim", "jq has trim from 1.7.1 on"),
    ("pick(.meta.owner)", "jq has pick from 1.7 on"),
    ("input_line_number", "not available here"),
];

#[test]
fn programs_of_the_manual_answer_as_jq_does() {
    if Command::new("jq").arg("--version").output().is_err() {
        eprintln!("skipped: jq is not installed");
        return;
    }
    let different = DIFFERENT.map(|(program, _)| program);
    let mut wrong = Vec::new();
    for program in PROGRAMS.into_iter().chain(different) {
        let expected = installed_jq(program);
        let answer = ask_jq(RECORDS, program).map(|answer| values(&answer.lines));
        let is_same = answer.as_ref().is_ok_and(|answer| *answer == expected);
        if is_same == different.contains(&program) {
            wrong.push(format!("{program}\n  {answer:?}\n  jq: {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), PROGRAMS.len(), wrong.join("\n"));
}

fn installed_jq(program: &str) -> Vec<Value> {
    let mut child = Command::new("jq")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(RECORDS.as_bytes()).unwrap();
    values(&String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
}

/// Values with normalized numbers: `2.0` becomes `2`.
fn values(lines: &str) -> Vec<Value> {
    lines.lines().map(|line| plain(serde_json::from_str(line).unwrap())).collect()
}

fn plain(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().into(),
        Value::Array(elements) => elements.into_iter().map(plain).collect(),
        Value::Object(members) => members.into_iter().map(|(key, value)| (key, plain(value))).collect(),
        other => other,
    }
}

fn slurp(filter: &str) -> Result<Answer, ExtractError> {
    let question = Question::Jq(Jq { filter: filter.to_owned(), slurp: true, arguments: Vec::new() });
    ask_cut(RECORDS.as_bytes(), usize::MAX, &question, ROOMY)
}

fn with_arguments(filter: &str, arguments: &[(&str, &str)]) -> Result<Answer, ExtractError> {
    let arguments = arguments.iter().map(|(name, value)| Argument { name: (*name).into(), value: (*value).into() });
    let question = Question::Jq(Jq { filter: filter.to_owned(), slurp: false, arguments: arguments.collect() });
    ask_cut(b"{\"id\":1}\n", usize::MAX, &question, ROOMY)
}

fn syntax(filter: &str) -> (u64, String) {
    match ask_jq(RECORDS, filter) {
        Err(ExtractError::Syntax(error)) => (error.offset, error.message),
        other => panic!("{filter}: {other:?}"),
    }
}

#[test]
fn a_program_runs_once_over_the_array_when_asked() {
    let answer = slurp("map(.id) | add").unwrap();
    assert_eq!((answer.lines.as_str(), answer.total, answer.matched, answer.examined), ("6\n", 1, 3, 3));
    assert_eq!(slurp(".[] | .id").unwrap().lines, "1\n2\n3\n");
}

// The functions that are replaced keep to what the definitions did where these failed.
#[test]
fn rows_of_other_values_fail() {
    for (program, message) in [
        (".meta | @csv", "cannot be formatted, only an array can"),
        ("[.tags] | @csv", "array is not valid in a csv row"),
        ("[.meta] | @tsv", "object is not valid in a tsv row"),
    ] {
        let Err(ExtractError::Failed(failures)) = ask_jq(RECORDS, program) else { panic!("{program}") };
        assert_eq!((failures.records, failures.message.as_str()), (3, message), "{program}");
    }
    assert!(matches!(ask_jq(RECORDS, ".name | join(\"-\")"), Err(ExtractError::Failed(_))));
    assert!(matches!(ask_jq(RECORDS, "[.meta] | join(\"-\")"), Err(ExtractError::Failed(_))));
}

#[test]
fn more_expressions_than_are_kept_match_what_they_say() {
    let program = r#"[range(100) | tostring as $n | . as $number | "[\($n)]" | test("^\\[\($n)]$"), test("x\($n)")]
        | [.[range(0; 200; 2)]], [.[range(1; 200; 2)]] | unique"#;
    let answer = ask_jq("{\"id\":1}\n", program).unwrap();
    assert_eq!(answer.lines, "[true]\n[false]\n");
}

/// Programs, and the results of each; nothing for one that fails.
fn assert_results(programs: &[(&str, &str)]) {
    for (program, results) in programs {
        let found = match ask_jq("null\n", program) {
            Ok(answer) => answer.lines.replace('\n', " "),
            Err(ExtractError::Failed(_)) => String::new(),
            other => panic!("{program}: {other:?}"),
        };
        assert_eq!(found.trim_end(), *results, "{program}");
    }
}

#[test]
fn expressions_know_the_letters_of_all_languages() {
    assert_results(&[
        (r#""École" | test("école"; "i"), test("^\\w+$"), test("\\bcole"), test("^\\p{Lu}")"#, "true true false true"),
        (r#"["Été à 東京" | scan("\\w+")]"#, r#"["Été","à","東京"]"#),
        (r#""é-ü" | gsub("\\W"; "_"), split("\\W"; ""), capture("(?<a>\\w)")"#, r#""é_ü" ["é","ü"] {"a":"é"}"#),
        (r#""é東" | [match(""; "g").offset], [match("東") | .offset, .length]"#, "[0,1,2] [1,1]"),
        (r#""aab" | match("a+"; "l").string"#, r#""aa""#),
        (r#""École" | test("cole"; null), [splits("o"; null)]"#, r#"true ["Éc","le"]"#),
        (r#""dMOpdP8=" | @base64d | test("té"), [match("[^a-zé]").offset]"#, "true [3]"),
    ]);
}

#[test]
fn an_expression_that_is_too_large_fails() {
    let Err(ExtractError::Failed(failures)) = ask_jq("\"a\"\n", r#"test("\\w{400}")"#) else { panic!("it matched") };
    assert!(failures.message.contains("bytes; use smaller repetitions"), "{failures:?}");
}

#[test]
fn groups_that_take_no_part_keep_their_places() {
    assert_results(&[
        (
            r#""ac" | [match("(a)(b)?(c)").captures[].string], [scan("(a)(b)?(c)")]"#,
            r#"["a",null,"c"] [["a",null,"c"]]"#,
        ),
        (r#""ac" | [scan("(b)?a")], [scan("c")]"#, r#"[[null]] ["c"]"#),
        (r#""ac" | match("(b)?").captures"#, r#"[{"offset":-1,"length":0,"string":null,"name":null}]"#),
        (r#""ac" | capture("(?<x>a)(?<y>b)?"), sub("(?<y>b)?a"; "\(.y)")"#, r#"{"x":"a","y":null} "nullc""#),
    ]);
}

#[test]
fn a_text_is_one_number_or_one_value_or_an_error() {
    for text in ["2024-05-31", "1,299", "0x1F", "5 x", "", " ", "1 2", "inf", "nan", "1e", "--1", "1_0"] {
        assert_results(&[(&format!("\"{text}\" | tonumber"), "")]);
    }
    for text in ["", " ", "1 2", "[1] 2", "nan", "1,", "# 1", "tru"] {
        assert_results(&[(&format!("\"{text}\" | fromjson"), "")]);
    }
    assert_results(&[
        (
            r#""1", " -2.5 ", "1e3", "007", "+1", ".5", "12345678901234567890" | tonumber"#,
            "1 -2.5 1e3 7 1 0.5 12345678901234567890",
        ),
        (r#"["1,299" | tonumber?], [1.5 | tonumber], (["null" | fromjson])"#, "[] [1.5] [null]"),
        ("null | tonumber", ""),
        (r#"" {\"a\":[1]} " | fromjson"#, r#"{"a":[1]}"#),
    ]);
}

#[test]
fn arrays_flatten_to_a_depth() {
    assert_results(&[
        ("[] | flatten(1), flatten(0)", "[] []"),
        ("[1, [2, [3, []]]] | flatten(0), flatten(1), flatten(9)", "[1,[2,[3,[]]]] [1,2,[3,[]]] [1,2,3]"),
        ("[1] | flatten(-1)", ""),
    ]);
}

#[test]
fn a_wrong_expression_is_told_each_time() {
    let Err(ExtractError::Failed(failures)) = ask_jq(RECORDS, r#".name | test("(")"#) else { panic!("it matched") };
    assert!(failures.records == 3 && failures.message.starts_with("invalid regex: "), "{failures:?}");
    let Err(ExtractError::Failed(failures)) = ask_jq(RECORDS, r#".name | test("a"; "q")"#) else {
        panic!("it matched")
    };
    assert_eq!((failures.records, failures.message.as_str()), (3, "invalid regex flag: q"));
    let Err(ExtractError::Failed(failures)) = ask_jq(RECORDS, r#".age | test("a")"#) else { panic!("it matched") };
    assert_eq!((failures.records, failures.message.as_str()), (3, "cannot use 41 as string"));
}

#[test]
fn numbers_survive() {
    let text = "{\"a\":9007199254740993,\"b\":1.0,\"c\":1e1000,\"d\":123456789012345678901234567890,\"e\":-0.10}\n";
    assert_eq!(ask_jq(text, ".").unwrap().lines, text);
    assert_eq!(ask_jq(text, ".a + 1, .d + 1").unwrap().lines, "9007199254740994\n123456789012345678901234567891\n");
    assert_eq!(ask_jq(text, ".b + 1, .e * 10").unwrap().lines, "2\n-1\n");
    // As in jq.
    assert_eq!(
        ask_jq(text, "nan, infinite, -infinite").unwrap().lines,
        "null\n1.7976931348623157e308\n-1.7976931348623157e308\n"
    );
    assert_eq!(ask_jq(text, "[.c + 1, .c > .d]").unwrap().lines, "[1.7976931348623157e308,true]\n");
}

#[test]
fn arguments_are_values_and_never_program_text() {
    let arguments = [("text", "\"\\\"; env\""), ("_n2", "[1,{\"a\":2}]"), ("big", "9007199254740993")];
    let answer = with_arguments("$text, $_n2[1].a, $big, .id", &arguments).unwrap();
    assert_eq!(answer.lines, "\"\\\"; env\"\n2\n9007199254740993\n1\n");
    for (name, value) in
        [("", "1"), ("1a", "1"), ("a b", "1"), ("$a", "1"), ("é", "1"), ("a", ""), ("a", "nan"), ("a", "1 2")]
    {
        assert!(matches!(with_arguments(".", &[(name, value)]), Err(ExtractError::Invalid(_))), "{name} {value}");
    }
    assert!(matches!(with_arguments(".", &[("a", "1"), ("a", "2")]), Err(ExtractError::Invalid(_))));
}

// Nothing reaches out of the sandbox.
#[test]
fn what_reaches_out_does_not_compile() {
    for word in [
        "$ENV",
        "env",
        "input",
        "inputs",
        "debug",
        "stderr",
        "now",
        "localtime",
        "halt",
        "halt_error",
        "input_filename",
        "input_line_number",
        "modulemeta",
        "get_search_list",
    ] {
        let (offset, message) = syntax(&format!(".id | {word}"));
        assert_eq!((offset, message), (6, format!("{word} is not available here")));
    }
    assert_eq!(syntax("strflocaltime(\"\")").0, 0);
    assert_eq!(syntax("import \"a\" as a; .").1, "import is not available here");
    assert_eq!(syntax("import \"a\" as $a; $a").1, "import is not available here");
    assert_eq!(syntax("include \"a\"; .").1, "include is not available here");
    assert_eq!(ask_jq("{\"import\":1,\"env\":2}\n", ".import + .env").unwrap().lines, "3\n");
    assert_eq!(ask_jq("\"it's\"\n", "@sh").unwrap().lines, "\"'it'\\\\''s'\"\n");
}

#[test]
fn a_program_that_does_not_compile_is_told_where() {
    let cases = [
        ("", 0),
        (".id |", 5),
        (".id | foo(1)", 6),
        (".id | $x", 6),
        ("[.id", 4),
        (".id | break $out", 12),
        (".id | if", 8),
        (".a b", 3),
        ("\"\\q\"", 2),
        ("\"é\" | nope", 7),
    ];
    for (filter, offset) in cases {
        assert_eq!(syntax(filter).0, offset, "{filter}: {}", syntax(filter).1);
    }
    let long = Question::Jq(Jq { filter: " ".repeat(FILTER_BYTES_MAX + 1), slurp: false, arguments: Vec::new() });
    assert!(
        matches!(ask_cut(b"", 1, &long, ROOMY), Err(ExtractError::Limit(message)) if message.starts_with("filter-bytes"))
    );
}

#[test]
fn failures_are_counted_and_the_first_is_told() {
    let answer = ask_jq(RECORDS, ".id, .age + 1, (.tags[0] | ascii_upcase)").unwrap();
    assert_eq!(answer.lines, "1\n42\n\"RED\"\n2\n8\n3\n1\n\"BLUE\"\n");
    let failures = answer.failures.unwrap();
    assert_eq!((failures.records, failures.first), (1, 1));
    assert!(failures.message.contains("null"), "{}", failures.message);
    match ask_jq(RECORDS, ".name.x") {
        Err(ExtractError::Failed(failures)) => assert_eq!((failures.records, failures.first), (3, 0)),
        other => panic!("{other:?}"),
    }
    for (filter, message) in [("error(\"no\")", "no"), ("error({a: 1})", "{\"a\":1}"), ("error(null)", "null")] {
        match ask_jq(RECORDS, filter) {
            Err(ExtractError::Failed(failures)) => assert_eq!(failures.message, message),
            other => panic!("{other:?}"),
        }
    }
    match slurp("error(.[0].name)") {
        Err(ExtractError::Failed(failures)) => assert_eq!((failures.records, failures.first), (1, 0)),
        other => panic!("{other:?}"),
    }
    assert!(matches!(ask_jq(RECORDS, "{(1): 2}"), Err(ExtractError::Failed(_))));
    assert!(
        matches!(ask_jq(RECORDS, "error([range(1000)])"), Err(ExtractError::Failed(failures)) if failures.message.len() < 600)
    );
}

#[test]
fn a_budget_ends_the_lines_but_not_the_count() {
    let text: String = (0..100).map(|id| format!("{id}\n")).collect();
    let budget = Budget { bytes: 6, tokens: 1000 };
    let answer = ask_cut(text.as_bytes(), 7, &jq(".,."), budget).unwrap();
    assert_eq!((answer.lines.as_str(), answer.results, answer.total), ("0\n0\n1\n", 3, 200));
    assert_eq!((answer.next_bytes, answer.matched, answer.examined), (Some(2), 100, 100));
}

#[test]
fn an_empty_file_gives_nothing_also_with_a_program() {
    let answer = ask_jq("", ".id").unwrap();
    assert_eq!((answer.lines.as_str(), answer.total, answer.examined), ("", 0, 0));
    assert!(answer.failures.is_none());
    let question = Question::Jq(Jq { filter: "length".to_owned(), slurp: true, arguments: Vec::new() });
    assert_eq!(ask_cut(b"", 1, &question, ROOMY).unwrap().lines, "0\n");
}

#[test]
fn nesting_is_bounded() {
    let deep = |depth: usize| format!("{}1{}\n", "[".repeat(depth), "]".repeat(depth));
    assert!(ask_jq(&deep(1000), "flatten | .[0]").is_ok());
    assert!(matches!(ask_jq(&deep(2000), "."), Err(ExtractError::Damaged(0))));
    let built = "reduce range(1500) as $i (1; [.])";
    assert!(matches!(ask_jq("1\n", built), Err(ExtractError::Failed(failures)) if failures.message.contains("deep")));
}
