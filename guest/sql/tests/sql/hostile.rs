//! No query panics, overflows a stack of the size there is in the sandbox, or goes beyond a limit.

use lro_sql::{Error, Flow, OPERATORS_MAX, SQL_BYTES_MAX, Statement, Table};
use proptest::prelude::*;

use crate::support::{Lines, answer, error, rows, scan};

/// The stack of a component. Native frames are larger than those of WebAssembly.
const STACK_BYTES: usize = 512 << 10;

/// Reads and runs a query on a small stack.
fn on_small_stack(sql: String) -> Result<usize, Error> {
    let run = move || answer(&sql, &[Lines { name: "t", text: "{\"a\":1}\n" }]).map(|(rows, _)| rows.len());
    // Without optimization frames are several times as large.
    let bytes = if cfg!(debug_assertions) { 8 * STACK_BYTES } else { STACK_BYTES };
    std::thread::Builder::new().stack_size(bytes).spawn(run).unwrap().join().unwrap()
}

fn is_limit(result: Result<usize, Error>) -> bool {
    matches!(result, Err(Error::Limit(_)))
}

#[test]
fn deep_nesting_is_a_limit() {
    for count in [10, 1000, 15_000] {
        let cases = [
            format!("SELECT {}1{}", "(".repeat(count), ")".repeat(count)),
            format!("SELECT {}1", "- ".repeat(count)),
            format!("SELECT {} true", "NOT ".repeat(count)),
            format!("SELECT {}1{}", "abs(".repeat(count), ")".repeat(count)),
            format!("{}SELECT 1{}", "SELECT * FROM (".repeat(count), ")".repeat(count)),
            format!("SELECT {}1{}", "(SELECT ".repeat(count), ")".repeat(count)),
            format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(count), " END".repeat(count)),
            format!("SELECT 1{}", "+1".repeat(count)),
            format!("SELECT 1{}", "::INT".repeat(count)),
            format!("SELECT 1 {}", "UNION ALL SELECT 1 ".repeat(count)),
            format!("SELECT 1{}", " IS NULL".repeat(count)),
            format!("SELECT * FROM {}t{}", "(".repeat(count), ")".repeat(count)),
            format!("SELECT a{} FROM t", ".a".repeat(count)),
            format!("SELECT a{} FROM t", "[1]".repeat(count)),
        ];
        for sql in cases {
            let shown: String = sql.chars().take(60).collect();
            if sql.len() > SQL_BYTES_MAX {
                assert!(is_limit(on_small_stack(sql)), "{count}: {shown}");
            } else {
                // An answer or an error, but no overflow.
                let _ = on_small_stack(sql);
            }
        }
    }
    assert!(is_limit(on_small_stack(format!("SELECT {}1{}", "(".repeat(200), ")".repeat(200)))));
    assert!(is_limit(on_small_stack(format!("SELECT 1{}", "+1".repeat(OPERATORS_MAX + 1)))));
}

#[test]
fn long_chains_and_lists_are_answered() {
    let list: Vec<String> = (0..8000).map(|number| number.to_string()).collect();
    assert_eq!(on_small_stack(format!("SELECT a FROM t WHERE a IN ({})", list.join(","))), Ok(1));
    let chain = vec!["a = 1"; 600].join(" OR ");
    assert_eq!(on_small_stack(format!("SELECT a FROM t WHERE {chain}")), Ok(1));
    let columns = vec!["a"; 2000].join(", ");
    assert_eq!(on_small_stack(format!("SELECT {columns} FROM t")), Ok(1));
}

#[test]
fn queries_that_multiply_are_limits() {
    let mut sql = "WITH q0 AS (SELECT a FROM t)".to_owned();
    for number in 1..30 {
        let before = number - 1;
        sql += &format!(", q{number} AS (SELECT a FROM q{before} UNION ALL SELECT a FROM q{before})");
    }
    assert!(is_limit(on_small_stack(format!("{sql} SELECT count(*) FROM q29"))));

    let text: String = (0..6000).map(|number| format!("{{\"a\":{number}}}\n")).collect();
    let pairs = "SELECT count(*) FROM t CROSS JOIN t AS b CROSS JOIN t AS c";
    assert!(matches!(error(pairs, &text), Error::Limit(text) if text.starts_with("join-pairs")));
    let held = "SELECT x.a FROM t AS x ORDER BY x.a";
    let wide: String = (0..2000).map(|number| format!("{{\"a\":\"{number}{}\"}}\n", "x".repeat(20_000))).collect();
    assert!(matches!(error(held, &wide), Error::Limit(text) if text.starts_with("held-bytes")));
    // With a limit, only the wanted rows are held.
    assert_eq!(rows(&format!("{held} LIMIT 2"), &wide).len(), 2);
    for sql in [
        "SELECT a, count(*) FROM t GROUP BY a",
        "SELECT DISTINCT a FROM t",
        "SELECT count(DISTINCT a) FROM t",
        "SELECT count(*) FROM t JOIN t AS b USING (a)",
        "SELECT 1 WHERE 'x' IN (SELECT a FROM t)",
    ] {
        assert!(matches!(error(sql, &wide), Error::Limit(_)), "{sql}");
    }
    assert!(matches!(error("SELECT lpad('a', 100000000) FROM t", &text), Error::Limit(_)));
}

/// Fragments of SQL, valid or not when they are joined.
const FRAGMENTS: [&str; 52] = [
    "SELECT",
    "*",
    "a",
    "b",
    "t",
    "t.a",
    "1",
    "-1",
    "2.5",
    "'x'",
    "NULL",
    "FROM",
    "t AS u",
    "(",
    ")",
    ",",
    "WHERE",
    "GROUP BY",
    "HAVING",
    "ORDER BY",
    "LIMIT 1",
    "count(*)",
    "sum(a)",
    "max(",
    "AND",
    "OR",
    "NOT",
    "=",
    "<",
    "+",
    "/",
    "||",
    "IN",
    "(1, 2)",
    "BETWEEN",
    "LIKE '%a_'",
    "IS NULL",
    "CASE WHEN",
    "THEN",
    "ELSE",
    "END",
    "AS c",
    "JOIN t AS v ON",
    "LEFT JOIN t AS w ON",
    "UNION ALL",
    "DISTINCT",
    "DESC",
    "substr(a, ",
    "date_trunc('month', ",
    "\"/a/0\"",
    "WITH q AS (SELECT",
    "::DATE",
];

const TEXT: &str = "{\"a\":1,\"b\":\"2024-02-30\"}\n{\"a\":\"é\",\"b\":[1,{\"a\":null}]}\n{\"a\":-0.0}\n7\n";

proptest! {
    #[test]
    fn fragments_never_panic(fragments in prop::collection::vec(prop::sample::select(FRAGMENTS.to_vec()), 0..24)) {
        let _ = answer(&format!("SELECT {}", fragments.join(" ")), &[Lines { name: "t", text: TEXT }]);
    }

    #[test]
    fn any_text_never_panics(sql in ".{0,200}", text in ".{0,60}") {
        let _ = answer(&sql, &[Lines { name: "t", text: "{\"a\":1}" }]);
        let tables = [Table { names: vec!["t".to_owned()], fields: Vec::new(), is_scalar: false }];
        let statement = Statement::read("SELECT a, t.* FROM t WHERE a <> '' ORDER BY a", &tables).unwrap();
        // Records that are not JSON.
        let _ = statement.run(&mut |_, fields, each| scan(&text, fields, each), |_| Ok(Flow::More));
    }

    #[test]
    fn functions_never_panic(
        function in prop::sample::select(vec!["substr", "left", "right", "lpad", "round", "split_part", "replace", "date_trunc('week', ", "date_diff('month', ", "strftime", "power", "mod", "epoch_ms", "concat_ws", "json_extract"]),
        values in prop::collection::vec(prop::sample::select(vec!["NULL", "''", "'é-x'", "-1", "0", "3", "170141183460469231731687303715884105727", "-1e308", "0.5", "'9999-12-31T23:59:59.999999'", "'0000-01-01'", "true", "'%'"]), 1..4),
    ) {
        let open = if function.ends_with(' ') { "" } else { "(" };
        let _ = answer(&format!("SELECT {function}{open}{})", values.join(", ")), &[]);
    }
}
