//! What is outside the subset is an error that names it and what to write instead.

use lro_sql::Error;

use crate::support::{Lines, answer, error};

const TEXT: &str = "{\"id\":1,\"name\":\"a\",\"day\":\"x\"}\n{\"id\":2,\"name\":\"b\",\"day\":\"y\"}\n";

#[test]
fn what_is_not_supported_is_named_with_the_nearest_form() {
    let cases = [
        ("DELETE FROM t", "DELETE", "SELECT"),
        ("DROP TABLE t", "DROP", "SELECT"),
        ("SELECT 1; SELECT 2", "second statement", "one query"),
        ("SELECT rank() OVER (ORDER BY id) FROM t", "OVER", "GROUP BY"),
        ("SELECT * FROM t RIGHT JOIN t AS b ON t.id = b.id", "RIGHT JOIN", "LEFT JOIN"),
        ("SELECT * FROM t NATURAL JOIN t AS b", "NATURAL JOIN", "USING"),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT * FROM r", "RECURSIVE", "WITH"),
        ("SELECT id FROM t EXCEPT SELECT 1", "EXCEPT", "NOT IN"),
        ("SELECT * FROM t WHERE EXISTS (SELECT 1)", "EXISTS", "IN"),
        ("SELECT * FROM t WHERE name ~ 'a.*'", "regular expression", "LIKE"),
        ("SELECT now()", "now", "no clock"),
        ("SELECT stringify(id) FROM t", "stringify", "substr"),
        ("SELECT * FROM read_json('x')", "table function", "section"),
        ("SELECT id FROM t GROUP BY ROLLUP (id)", "ROLLUP", "UNION ALL"),
        ("SELECT DISTINCT ON (id) * FROM t", "DISTINCT ON", "GROUP BY"),
        ("SELECT CAST(id AS UUID) FROM t", "UUID", "VARCHAR"),
        ("SELECT DATE '2024-01-01' + INTERVAL 1 DAY", "INTERVAL", "date_diff"),
        ("SELECT unnest(id) FROM t", "unnest", "jq"),
        ("SELECT * FROM t LIMIT id", "LIMIT", "number"),
        ("VALUES (1)", "VALUES", "SELECT"),
    ];
    for (sql, what, instead) in cases {
        match error(sql, TEXT) {
            Error::Unsupported { what: named, instead: advice } => {
                assert!(named.contains(what), "{sql}: {named}");
                assert!(advice.contains(instead), "{sql}: {advice}");
            }
            other => panic!("{sql}: {other}"),
        }
    }
}

#[test]
fn contradictions_say_what_to_do() {
    let cases = [
        ("SELECT name, count(*) FROM t", "`name` must be in GROUP BY"),
        ("SELECT * FROM t WHERE count(*) > 1", "use HAVING"),
        ("SELECT sum(count(*)) FROM t", "an aggregate"),
        ("SELECT id FROM t ORDER BY 2", "position 2: the selected columns are 1 to 1"),
        ("SELECT DISTINCT id FROM t ORDER BY name", "select it too"),
        ("SELECT id FROM t UNION SELECT id, name FROM t", "same number"),
        ("SELECT lower(id, 1) FROM t", "lower takes 1 arguments, not 2"),
        ("SELECT * FROM t JOIN t ON true", "give one another name"),
        ("SELECT x FROM t, t AS u", "t.x or u.x"),
        ("SELECT (SELECT id FROM t)", "more than one row"),
        ("SELECT (SELECT * FROM t)", "one column"),
        ("SELECT sum(name) FROM t", "TRY_CAST"),
        ("SELECT name + 1 FROM t", "TRY_CAST"),
        ("SELECT CAST(name AS BIGINT) FROM t", "`a` is not an integer: use TRY_CAST"),
        ("SELECT year(day) FROM t", "`x` is not a date such as"),
        ("SELECT id FROM t WHERE name", "neither true nor false"),
        ("SELECT strftime('2024-01-01', '%Q')", "`%Q` is not one of"),
    ];
    for (sql, message) in cases {
        let error = error(sql, TEXT).to_string();
        assert!(error.contains(message), "{sql}: {error}");
    }
}

#[test]
fn unknown_names_come_with_those_there_are() {
    let tables = [Lines { name: "people", text: TEXT }, Lines { name: "a b", text: TEXT }];
    let message = answer("SELECT * FROM persons", &tables).unwrap_err().to_string();
    assert_eq!(message, "no table is named `persons`; the tables are people, \"a b\"");
    match error("SELECT x FROM (SELECT id, name FROM t) AS s", TEXT) {
        Error::UnknownColumn { name, columns } => {
            assert_eq!((name.as_str(), columns.join(" ").as_str()), ("x", "id name"));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn syntax_errors_say_where() {
    for sql in ["SELECT FROM WHERE", "SELECT * FROM t WHERE (id = 1", "SELECT 'a FROM t", "", "hello"] {
        let error = error(sql, TEXT);
        assert!(matches!(error, Error::Syntax(_) | Error::Unsupported { .. }), "{sql}: {error}");
    }
    assert!(error("SELECT id FROM t WHERE id = = 2", TEXT).to_string().contains("Column: "));
}
