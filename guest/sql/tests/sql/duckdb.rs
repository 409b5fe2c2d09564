//! Random queries on random rows have the same results as in DuckDB: the same rows, nulls, types and order.

use std::cmp::Ordering;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::support::{Lines, answer};

/// Tables, and queries about each of them.
const TABLES: usize = 40;
const QUERIES: usize = 60;

/// Answers `{"a": rows, "c": rows, "queries": […]}`, one line each, with a list of rows or an error for each query.
const SERVER: &str = r#"
import duckdb, json, sys
for line in sys.stdin:
    asked = json.loads(line)
    base = duckdb.connect()
    base.execute("CREATE TABLE a (id BIGINT, k BIGINT, x DOUBLE, s VARCHAR, b BOOLEAN, d VARCHAR)")
    base.execute("CREATE TABLE c (k BIGINT, name VARCHAR, w BIGINT)")
    for name, columns in (("a", "id k x s b d"), ("c", "k name w")):
        for row in asked[name]:
            base.execute(f"INSERT INTO {name} VALUES ({', '.join('?' for _ in columns.split())})", [row.get(c) for c in columns.split()])
    answers = []
    for sql in asked["queries"]:
        try:
            answers.append(base.execute(sql).fetchall())
        except Exception as error:
            answers.append(str(error))
    print(json.dumps(answers, default=str), flush=True)
"#;

struct DuckDb {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl DuckDb {
    fn start() -> Self {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = target.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"));
        let python = target.join("test-data/venv/bin/python");
        let mut command = Command::new(&python);
        let child = command.args(["-c", SERVER]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{}: {error}: run `make test-data`", python.display()));
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    fn ask(&mut self, asked: &Value) -> Vec<Value> {
        writeln!(self.input, "{asked}").expect("DuckDB for Python is not installed: run `make test-data`");
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect("DuckDB for Python is not installed: run `make test-data`")
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn nullable(values: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop_oneof![1 => Just(Value::Null), 5 => values].boxed()
}

fn texts() -> BoxedStrategy<Value> {
    select(vec!["", "a", "ab", "Ab", "abc", "b_c", "A%", " a ", "é", "éa", "10", "a-b-c", "東京"])
        .prop_map(Value::from)
        .boxed()
}

fn row_a() -> BoxedStrategy<Value> {
    let x = select(vec![-2.5, -1.0, 0.0, 0.25, 1.0, 1.5, 3.75, 1e6, 2.0]).prop_map(Value::from).boxed();
    let d = select(vec!["2023-12-31", "2024-01-01", "2024-02-29", "2024-07-15", "1999-05-05"])
        .prop_map(Value::from)
        .boxed();
    let columns = (
        nullable((0..1000_i64).prop_map(Value::from).boxed()),
        nullable((-3..4_i64).prop_map(Value::from).boxed()),
        nullable(x),
        nullable(texts()),
        nullable(any::<bool>().prop_map(Value::from).boxed()),
        nullable(d),
    );
    columns.prop_map(|(id, k, x, s, b, d)| json!({"id": id, "k": k, "x": x, "s": s, "b": b, "d": d})).boxed()
}

fn row_c() -> BoxedStrategy<Value> {
    let number = || nullable((-3..4_i64).prop_map(Value::from).boxed());
    (number(), nullable(texts()), number()).prop_map(|(k, name, w)| json!({"k": k, "name": name, "w": w})).boxed()
}

/// Expressions of one type over the columns of `a`, written in SQL.
#[derive(Clone)]
struct Expressions {
    integer: BoxedStrategy<String>,
    double: BoxedStrategy<String>,
    text: BoxedStrategy<String>,
    boolean: BoxedStrategy<String>,
}

fn words(words: &[&str]) -> BoxedStrategy<String> {
    select(words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).boxed()
}

fn columns() -> Expressions {
    Expressions {
        integer: words(&["a.id", "a.k", "a.k", "2", "-1", "NULL::BIGINT"]),
        double: words(&["a.x", "a.x", "1.5e0", "-2e0"]),
        text: words(&["a.s", "a.s", "a.d", "'ab'", "''", "'A'"]),
        boolean: words(&["a.b", "a.b", "true", "a.k > 0", "a.s LIKE 'a%'", "a.x IS NULL"]),
    }
}

/// Expressions of those, one level deeper.
fn deeper(inner: &Expressions) -> Expressions {
    let Expressions { integer, double, text, boolean } = inner.clone();
    let infix = |side: &BoxedStrategy<String>, operators: &[&str]| {
        (side.clone(), words(operators), side.clone())
            .prop_map(|(left, operator, right)| format!("({left} {operator} {right})"))
            .boxed()
    };
    let pattern = words(&["'a%'", "'%b%'", "'_'", "'A%'", "''", "'%'", "'a_c'", "'é_'"]);
    let numbers = prop_oneof![integer.clone(), double.clone()].boxed();
    let cases = |value: &BoxedStrategy<String>| {
        (boolean.clone(), value.clone(), value.clone())
            .prop_map(|(when, then, other)| format!("CASE WHEN {when} THEN {then} ELSE {other} END"))
            .boxed()
    };
    Expressions {
        integer: prop_oneof![
            2 => integer.clone(),
            2 => infix(&integer, &["+", "-", "*"]),
            1 => integer.clone().prop_map(|value| format!("abs({value})")),
            1 => integer.clone().prop_map(|value| format!("({value} % 3)")),
            1 => integer.clone().prop_map(|value| format!("({value} // 2)")),
            1 => text.clone().prop_map(|value| format!("length({value})")),
            1 => text.clone().prop_map(|value| format!("strpos({value}, 'b')")),
            1 => cases(&integer),
            1 => (integer.clone(), integer.clone()).prop_map(|(left, right)| format!("coalesce({left}, {right})")),
            1 => (integer.clone(), integer.clone()).prop_map(|(left, right)| format!("nullif({left}, {right})")),
            1 => (integer.clone(), integer.clone()).prop_map(|(left, right)| format!("greatest({left}, {right})")),
            1 => words(&["year(a.d::DATE)", "month(a.d::DATE)", "day(a.d::DATE)", "dayofweek(a.d::DATE)", "quarter(a.d::DATE)",
                "week(a.d::DATE)", "dayofyear(a.d::DATE)", "date_diff('month', a.d::DATE, DATE '2024-01-31')",
                "date_diff('week', a.d::DATE, DATE '2024-01-31')", "date_diff('year', a.d::DATE, DATE '2024-01-31')",
                "century(a.d::DATE)", "date_diff('century', a.d::DATE, DATE '2000-01-01')", "date_diff('decade', a.d::DATE, DATE '2024-01-31')"]),
            1 => double.clone().prop_map(|value| format!("CAST({value} AS BIGINT)")),
        ].boxed(),
        double: prop_oneof![
            2 => double.clone(),
            2 => infix(&double, &["+", "-", "*"]),
            1 => (integer.clone(), double.clone()).prop_map(|(left, right)| format!("({left} + {right})")),
            1 => numbers.clone().prop_map(|value| format!("({value} / 4)")),
            1 => double.clone().prop_map(|value| format!("({value} // 2)")),
            1 => double.clone().prop_map(|value| format!("round({value}, 1)")),
            1 => double.clone().prop_map(|value| format!("round({value})")),
            1 => double.clone().prop_map(|value| format!("floor({value})")),
            1 => double.clone().prop_map(|value| format!("ceil({value})")),
            1 => double.clone().prop_map(|value| format!("sqrt(abs({value}))")),
            1 => cases(&double),
            1 => integer.clone().prop_map(|value| format!("CAST({value} AS DOUBLE)")),
        ].boxed(),
        text: prop_oneof![
            2 => text.clone(),
            1 => text.clone().prop_map(|value| format!("upper({value})")),
            1 => text.clone().prop_map(|value| format!("lower({value})")),
            1 => text.clone().prop_map(|value| format!("trim({value})")),
            1 => text.clone().prop_map(|value| format!("reverse({value})")),
            1 => (text.clone(), -3..4, 0..3).prop_map(|(value, from, length)| format!("substr({value}, {from}, {length})")),
            1 => (text.clone(), -2..3).prop_map(|(value, length)| format!("left({value}, {length})")),
            1 => (text.clone(), -2..3).prop_map(|(value, length)| format!("right({value}, {length})")),
            1 => text.clone().prop_map(|value| format!("replace({value}, 'a', 'xy')")),
            1 => (text.clone(), words(&["'-'", "''"]), -4..5).prop_map(|(value, separator, part)| format!("split_part({value}, {separator}, {part})")),
            1 => text.clone().prop_map(|value| format!("lpad({value}, 4, 'é')")),
            1 => (text.clone(), text.clone()).prop_map(|(left, right)| format!("({left} || {right})")),
            1 => (text.clone(), integer.clone()).prop_map(|(left, right)| format!("concat({left}, '-', {right})")),
            1 => numbers.clone().prop_map(|value| format!("CAST({value} AS VARCHAR)")),
            1 => boolean.clone().prop_map(|value| format!("CAST({value} AS VARCHAR)")),
            1 => cases(&text),
            1 => (text.clone(), text.clone()).prop_map(|(left, right)| format!("coalesce({left}, {right})")),
            1 => words(&["CAST(date_trunc('month', a.d::DATE)::DATE AS VARCHAR)", "CAST(a.d::DATE AS VARCHAR)",
                "strftime(a.d::DATE, '%Y-%m %j %a %B %y')", "CAST(date_trunc('week', CAST(a.d AS TIMESTAMP)) AS VARCHAR)",
                "CAST(date_trunc('quarter', CAST(a.d AS TIMESTAMP)) AS VARCHAR)", "CAST(date_trunc('century', CAST(a.d AS TIMESTAMP)) AS VARCHAR)",
                "CAST(CAST(a.d || 'T10:20:30.50Z' AS TIMESTAMP) AS VARCHAR)"]),
        ].boxed(),
        boolean: prop_oneof![
            1 => boolean.clone(),
            2 => infix(&boolean, &["AND", "OR"]),
            1 => boolean.clone().prop_map(|value| format!("(NOT {value})")),
            2 => infix(&integer, &["=", "<>", "<", "<=", ">", ">="]),
            1 => infix(&numbers, &["=", "<", ">="]),
            1 => infix(&text, &["=", "<>", "<", ">="]),
            1 => infix(&integer, &["IS DISTINCT FROM", "IS NOT DISTINCT FROM"]),
            1 => (text.clone(), words(&["LIKE", "NOT LIKE", "ILIKE", "NOT ILIKE"]), pattern).prop_map(|(value, like, pattern)| format!("({value} {like} {pattern})")),
            1 => (integer.clone(), words(&["IN (1, 2, -1)", "NOT IN (0, 1)", "IN (1, NULL)", "NOT IN (1, NULL)"])).prop_map(|(value, list)| format!("({value} {list})")),
            1 => (text.clone(), words(&["IN ('a', 'ab')", "NOT IN ('a')"])).prop_map(|(value, list)| format!("({value} {list})")),
            1 => (numbers.clone(), integer.clone(), double.clone()).prop_map(|(value, low, high)| format!("({value} BETWEEN {low} AND {high})")),
            1 => (numbers, words(&["IS NULL", "IS NOT NULL"])).prop_map(|(value, test)| format!("({value} {test})")),
            1 => (boolean.clone(), words(&["IS TRUE", "IS NOT TRUE", "IS FALSE"])).prop_map(|(value, test)| format!("({value} {test})")),
            1 => (words(&["starts_with", "ends_with", "contains"]), text, words(&["'a'", "''", "'b'"])).prop_map(|(function, value, part)| format!("{function}({value}, {part})")),
            1 => words(&["a.b IN ('true')", "a.b NOT IN ('f')", "a.b IN (1)", "a.b = '1'", "a.k IN ('1', '2')", "a.x IN ('1', '2.0')", "a.k = '1.0'"]),
            2 => words(&["a.d::DATE < TIMESTAMP '2024-01-01 12:00:00'", "a.d::DATE = TIMESTAMP '2024-01-01 00:00:00'",
                "a.d::DATE >= '2024-01-01'", "date_trunc('month', a.d::DATE) = a.d::DATE", "a.d::DATE IN ('2024-01-01', '2024-02-29')",
                "CAST(a.d || 'T10:20:30Z' AS TIMESTAMP) BETWEEN '2024-01-01 00:00:00' AND '2024-02-29T10:20:30'",
                "CAST(a.d || 'T10:20:30Z' AS TIMESTAMP) > a.d::DATE", "a.d::DATE IN (SELECT date_trunc('day', TIMESTAMP '2024-01-01 10:00:00'))",
                "a.d::DATE = (SELECT max(a.d::DATE) FROM a)", "a.d::DATE IS DISTINCT FROM TIMESTAMP '2024-02-29 00:00:00'"]),
            1 => words(&["a.k IN (SELECT k FROM c WHERE w > 0)", "a.k NOT IN (SELECT k FROM c WHERE k IS NOT NULL)",
                "a.k = (SELECT max(k) FROM c)", "a.k > (SELECT avg(w) FROM c)"]),
        ].boxed(),
    }
}

/// Orders that leave nothing open: by all columns.
fn order(columns: usize) -> BoxedStrategy<String> {
    let direction = words(&["", " DESC", " ASC NULLS FIRST", " DESC NULLS FIRST", " NULLS LAST"]);
    let limit = words(&["", "", " LIMIT 3", " LIMIT 2 OFFSET 1", " OFFSET 2", " LIMIT 0"]);
    (vec(direction, columns), limit)
        .prop_map(|(directions, limit)| {
            let keys: Vec<String> =
                directions.iter().enumerate().map(|(index, direction)| format!("{}{direction}", index + 1)).collect();
            format!("ORDER BY {}{limit}", keys.join(", "))
        })
        .boxed()
}

fn queries() -> BoxedStrategy<String> {
    let Expressions { integer, double, text, boolean } = deeper(&deeper(&columns()));
    let any = prop_oneof![integer.clone(), double.clone(), text.clone(), boolean.clone()].boxed();
    let aggregate = prop_oneof![
        Just("count(*)".to_owned()),
        any.clone().prop_map(|value| format!("count({value})")),
        any.clone().prop_map(|value| format!("count(DISTINCT {value})")),
        integer.clone().prop_map(|value| format!("sum({value})")),
        double.clone().prop_map(|value| format!("sum({value})")),
        integer.clone().prop_map(|value| format!("avg({value})")),
        any.clone().prop_map(|value| format!("min({value})")),
        text.clone().prop_map(|value| format!("max({value})")),
        (integer.clone(), boolean.clone()).prop_map(|(value, filter)| format!("sum({value}) FILTER (WHERE {filter})")),
        integer.clone().prop_map(|value| format!("sum(DISTINCT {value})")),
    ]
    .boxed();
    let key = prop_oneof![words(&["a.k", "a.s", "a.b"]), integer.clone(), text.clone()].boxed();
    let join = words(&[
        "JOIN c ON a.k = c.k",
        "LEFT JOIN c ON a.k = c.k",
        "LEFT JOIN c ON a.k = c.k AND c.w > 0",
        "JOIN c ON a.k = c.k AND a.s = c.name",
        "JOIN c ON a.k < c.w",
        "LEFT JOIN c ON c.k + 1 = a.k AND a.x > c.w",
        "CROSS JOIN c",
        "JOIN c USING (k)",
        "JOIN c ON a.x = c.k",
        "JOIN c ON date_trunc('year', a.d::DATE) = CAST((2021 + c.k) || '-01-01' AS DATE)",
    ]);
    let plain = (words(&["", "DISTINCT "]), any.clone(), any.clone(), boolean.clone(), order(2)).prop_map(
        |(distinct, one, two, filter, order)| {
            format!("SELECT {distinct}{one}, {two} AS two FROM a WHERE {filter} {order}")
        },
    );
    let groups = (
        key.clone(),
        aggregate.clone(),
        aggregate.clone(),
        boolean.clone(),
        words(&["", "HAVING count(*) > 1", "HAVING n IS NOT NULL"]),
        order(3),
    )
        .prop_map(|(key, one, two, filter, having, order)| {
            format!("SELECT {key} AS g, {one} AS n, {two} FROM a WHERE {filter} GROUP BY 1 {having} {order}")
        });
    let total = (aggregate.clone(), aggregate.clone(), boolean.clone())
        .prop_map(|(one, two, filter)| format!("SELECT {one}, {two} FROM a WHERE {filter}"));
    let joined = (any.clone(), join.clone(), boolean.clone(), order(3)).prop_map(|(one, join, filter, order)| {
        format!("SELECT {one}, c.name, c.w FROM a {join} WHERE {filter} {order}")
    });
    let joined = joined.prop_map(|sql| if sql.contains("USING") { sql.replace("a.k", "a.id % 3") } else { sql });
    let comma = (any.clone(), order(2))
        .prop_map(|(one, order)| format!("SELECT {one}, c.w FROM a, c WHERE a.k = c.k AND a.x < c.w {order}"));
    let joined_groups = (join, aggregate.clone(), order(2))
        .prop_map(|(join, one, order)| format!("SELECT c.name, {one} FROM a {join} GROUP BY c.name {order}"));
    let joined_groups =
        joined_groups.prop_map(|sql| if sql.contains("USING") { sql.replace("a.k", "a.id % 3") } else { sql });
    let union =
        (integer, boolean.clone(), words(&["UNION", "UNION ALL"]), order(1)).prop_map(|(one, filter, union, order)| {
            format!("SELECT {one} AS v FROM a WHERE {filter} {union} SELECT w FROM c {order}")
        });
    let inner = (key, aggregate, boolean, order(2)).prop_map(|(key, one, filter, order)| {
        format!("WITH a AS (SELECT * FROM a WHERE {filter}), g AS (SELECT {key} AS g, {one} AS n FROM a GROUP BY 1) SELECT g.g, g.n FROM g WHERE g.n IS NOT NULL {order}")
    });
    let star = order(2).prop_map(|order| format!("SELECT s, k + 1 FROM (SELECT * FROM (SELECT * FROM a WHERE k > -2) UNION ALL SELECT * FROM a) AS u WHERE id > 100 {order}"));
    prop_oneof![4 => plain, 4 => groups, 2 => total, 3 => joined, 1 => comma, 2 => joined_groups, 2 => union, 2 => inner, 1 => star].boxed()
}

fn compare(left: &Value, right: &Value) -> Ordering {
    left.to_string().cmp(&right.to_string())
}

/// Whether two values are the same, numbers up to rounding.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) if left.is_f64() && right.is_f64() => {
            let (left, right) = (left.as_f64().unwrap(), right.as_f64().unwrap());
            (left - right).abs() <= 1e-9 * left.abs().max(right.abs()).max(1.0)
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (left, right) => left == right,
    }
}

#[test]
fn random_queries_answer_as_in_duckdb() {
    let mut duckdb = DuckDb::start();
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (rows, queries) = ((vec(row_a(), 0..25), vec(row_c(), 0..8)), vec(queries(), QUERIES));
    let (mut compared, mut with_rows, mut wrong) = (0, 0, Vec::new());
    for _ in 0..TABLES {
        let (a, c) = rows.new_tree(&mut runner).unwrap().current();
        let queries = queries.new_tree(&mut runner).unwrap().current();
        let expected = duckdb.ask(&json!({"a": a, "c": c, "queries": queries}));
        let lines = |rows: &[Value]| rows.iter().map(|row| format!("{row}\n")).collect::<String>();
        let (a, c) = (lines(&a), lines(&c));
        for (sql, expected) in queries.iter().zip(expected) {
            let tables = [Lines { name: "a", text: &a }, Lines { name: "c", text: &c }];
            let answered = answer(sql, &tables);
            let Value::Array(mut expected) = expected else {
                // Overflow and the like; ours has more digits.
                if !expected.as_str().unwrap().contains("Out of Range") {
                    wrong.push(format!("{sql}\nDuckDB: {expected}"));
                }
                continue;
            };
            let mut rows: Vec<Value> = match answered {
                Ok((rows, _)) => rows
                    .iter()
                    .map(|row| {
                        let row: serde_json::Map<String, Value> = serde_json::from_str(row).unwrap();
                        Value::Array(row.into_iter().map(|(_, value)| value).collect())
                    })
                    .collect(),
                Err(error) => {
                    wrong.push(format!("{sql}\nours: {error}\nDuckDB: {expected:?}"));
                    continue;
                }
            };
            if !sql.contains("ORDER BY") {
                rows.sort_by(compare);
                expected.sort_by(compare);
            }
            compared += 1;
            with_rows += usize::from(!rows.is_empty());
            if !same(&Value::Array(rows.clone()), &Value::Array(expected.clone())) {
                wrong.push(format!(
                    "{sql}\nours:   {}\nDuckDB: {}\na: {a}c: {c}",
                    Value::Array(rows),
                    Value::Array(expected)
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {compared} differ, such as\n{}",
        wrong.len(),
        wrong.iter().take(25).cloned().collect::<Vec<_>>().join("\n\n")
    );
    // A test of queries without rows would prove little.
    assert!(
        compared > TABLES * QUERIES * 9 / 10 && with_rows > compared / 3,
        "{compared} compared, {with_rows} with rows"
    );
}
