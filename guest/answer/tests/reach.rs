//! A jq program gives the same answer with and without the analysis of what it reads.

mod support;

use proptest::prelude::*;
use support::{ROOMY, ask_cut, jq};

/// A prefix that defeats the analysis of a program.
const HIDDEN: &str = "def hidden: .; ";

/// Values that are easily confused: numbers near the limits of exactness, texts with escapes, all types.
const VALUES: [&str; 24] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "1.0",
    "1e0",
    "100",
    "0.1",
    "-5",
    "999999999999999",
    "9007199254740993",
    "123456789012345678901234567890",
    "0.1000000000000000055",
    "\"\"",
    "\"a\"",
    "\"\\u0061\"",
    "\"b\\\"\"",
    "\"1\"",
    "[]",
    "[1,\"a\"]",
    "{}",
    "{\"a\":1,\"b\":{\"c\":\"a\"}}",
];

const LITERALS: [&str; 14] = [
    "null",
    "true",
    "false",
    "0",
    "1",
    "1.0",
    "-5",
    "0.1",
    "100",
    "9007199254740993",
    "\"\"",
    "\"a\"",
    "\"1\"",
    "$value",
];

/// Programs with one condition `C` or one constant `L`.
const PROGRAMS: [&str; 24] = [
    "select(C)",
    "select(C) | .b",
    "select(C and .b == L)",
    "select(.b.c == L and C)",
    "select(C or .c)",
    "select(C | not)",
    "select(C) | select(.c != L) | {a, x: .b}",
    ".a",
    ".a, .c?",
    ".b.c",
    ".b.c // L",
    "[.a, .b, .a]",
    "{a, (\"k\"): .c, \"b\": .b}",
    "if C then .b else .c end",
    "if C then .b end",
    ".a as $x | select(.b == $x) | .c",
    ".a | keys",
    "try (.a | keys) catch \"no\"",
    "\"\\(.a)-\\(.b)\"",
    "first(.a, .b), limit(1; .c)",
    ".a[.b]?",
    "error(.a)",
    ". as {a: $x} | $x",
    ".a + .b",
];

fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(VALUES.to_vec())
}

fn record() -> impl Strategy<Value = String> {
    let member = (prop::sample::select(vec!["a", "b", "c", "d", "\\u0061"]), value());
    let object = prop::collection::vec(member, 0..6).prop_map(|members| {
        let members: Vec<String> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    });
    prop_oneof![9 => object, 1 => value().prop_map(str::to_owned)]
}

fn program() -> impl Strategy<Value = String> {
    let literal = || prop::sample::select(LITERALS.to_vec());
    let compare = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="]);
    let condition = (prop::sample::select(vec!["a", "b", "c"]), compare, literal())
        .prop_map(|(key, compare, literal)| format!(".{key} {compare} {literal}"));
    (prop::sample::select(PROGRAMS.to_vec()), condition, literal())
        .prop_map(|(program, condition, literal)| program.replace('C', &condition).replace('L', literal))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn knowing_what_is_read_changes_nothing(
        records in prop::collection::vec(record(), 1..8), program in program(), argument in value(), cut in 1_usize..200,
    ) {
        let text = format!("{}\n", records.join("\n"));
        let ask = |filter: String| {
            let lro_answer::Question::Jq(question) = jq(&filter) else { unreachable!() };
            let arguments = vec![lro_answer::Argument { name: "value".to_owned(), value: argument.to_owned() }];
            let question = lro_answer::Question::Jq(lro_answer::Jq { arguments, ..question });
            ask_cut(text.as_bytes(), cut, &question, ROOMY)
        };
        let (plain, hidden) = (ask(program.clone()), ask(format!("{HIDDEN}{program}")));
        prop_assert_eq!(format!("{plain:?}"), format!("{hidden:?}"), "{} on\n{}", program, text);
    }
}
