//! What the subset of SQL does, beside what the comparison with DuckDB covers.

use crate::support::{Lines, answer, rows};

const AIRPORTS: &str = r#"{"iata":"ADK","state":"AK","lat":61.17,"runways":[{"length":3800},{"length":3200}],"tags":["hub","ice"]}
{"iata":"FAI","state":"AK","lat":64.81,"runways":[{"length":3600}],"tags":[]}
{"iata":"SEA","state":"WA","lat":47.44,"runways":[],"owner":{"name":"Port of Seattle","since":"1949-07-09"}}
{"iata":"JFK","state":"NY","lat":40.63,"owner":{"name":"PANYNJ","since":"1948-07-01T12:30:00Z"}}
"#;

#[test]
fn the_query_that_everyone_writes() {
    let sql = "SELECT state, count(*) AS n FROM t WHERE lat > 45 GROUP BY state ORDER BY n DESC LIMIT 5;";
    assert_eq!(rows(sql, AIRPORTS), [r#"{"state":"AK","n":2}"#, r#"{"state":"WA","n":1}"#]);
}

#[test]
fn all_columns_are_the_record_as_it_stands() {
    let text = "{\"b\":1.50,\"a\":\"\\u0061\",\"n\":123456789012345678901234567890123456789012}\n";
    assert_eq!(rows("SELECT * FROM t", text), [text.trim_end()]);
    assert_eq!(rows("SELECT * EXCLUDE (a, n), b * 2 AS c FROM t", text), [r#"{"b":1.50,"c":3.0}"#]);
    // A name that is there already gets a number.
    assert_eq!(rows("SELECT * EXCLUDE (n), 1 AS b FROM t", text), [r#"{"b":1.50,"a":"\u0061","b_1":1}"#]);
}

#[test]
fn values_inside_others_are_columns() {
    for column in [
        "owner.name",
        "t.owner.name",
        "\"/owner/name\"",
        "owner['name']",
        "owner->'name'",
        "owner->>'name'",
        "t.owner -> 'name'",
        "\"owner\"->'$.name'",
        "(owner)->'name'",
        "json_extract(owner, '$.name')",
    ] {
        let sql = format!("SELECT {column} AS owner FROM t WHERE iata = 'SEA'");
        assert_eq!(rows(&sql, AIRPORTS), [r#"{"owner":"Port of Seattle"}"#], "{column}");
    }
    assert_eq!(
        rows(
            "SELECT runways[1].length AS first, \"/runways/1/length\" AS second, len(runways) AS n FROM t WHERE len(runways) > 1",
            AIRPORTS
        ),
        [r#"{"first":3800,"second":3200,"n":2}"#]
    );
    assert_eq!(rows("SELECT iata FROM t WHERE contains(tags, 'ice')", AIRPORTS), [r#"{"iata":"ADK"}"#]);
    assert_eq!(
        rows("SELECT owner FROM t WHERE iata = 'JFK'", AIRPORTS),
        [r#"{"owner":{"name":"PANYNJ","since":"1948-07-01T12:30:00Z"}}"#]
    );
}

#[test]
fn arrows_bind_more_than_comparisons() {
    let text = "{\"o\":{\"a\":{\"b\":5},\"l\":[7,8]}}\n{\"o\":{\"a\":{\"b\":6}}}\n";
    let sql = "SELECT (o->'a'->'b') + 1 AS n, o->'a'->>'b' AS s, o->'l'->1 AS l, lower(o->>'a') AS a FROM t \
        WHERE o->'a'->'b' = 5 AND o->'l'->0 IN (7) OR o->>'x' = '1' ORDER BY o->'a'->'b'";
    assert_eq!(rows(sql, text), [r#"{"n":6,"s":"5","l":8,"a":"{\"b\":5}"}"#]);
}

#[test]
fn records_that_are_not_objects_are_the_column_value() {
    assert_eq!(
        rows("SELECT value, value * 2 AS twice FROM t WHERE value > 1 ORDER BY value DESC", "1\n2\n3\n"),
        [r#"{"value":3,"twice":6}"#, r#"{"value":2,"twice":4}"#]
    );
    let texts = "\"an apple\"\n\"a pear\"\n\"two apples\"\n[\"apple\"]\n";
    assert_eq!(rows("SELECT * FROM t LIMIT 1", texts), [r#"{"value":"an apple"}"#]);
    assert_eq!(
        rows("SELECT value FROM t WHERE value LIKE '%apple%' AND length(value) > 9", texts),
        [r#"{"value":"two apples"}"#]
    );
    assert_eq!(
        rows("SELECT value[1] AS f, count(*) AS n FROM t GROUP BY 1 ORDER BY n", texts),
        [r#"{"f":"apple","n":1}"#, r#"{"f":null,"n":3}"#]
    );
    // Beside objects, it is the whole record.
    assert_eq!(
        rows("SELECT value, value->'value' AS v FROM t", "\"a\"\n{\"value\":1}\n"),
        [r#"{"value":"a","v":null}"#, r#"{"value":{"value":1},"v":1}"#]
    );
}

#[test]
fn integers_are_exact_and_numbers_keep_their_type() {
    let text = "{\"id\":12345678901234567890}\n{\"id\":12345678901234567891}\n";
    assert_eq!(
        rows("SELECT sum(id) AS s, max(id) AS m FROM t", text),
        [r#"{"s":24691357802469135781,"m":12345678901234567891}"#]
    );
    assert_eq!(rows("SELECT count(DISTINCT id) AS n FROM t WHERE id <> 12345678901234567891", text), [r#"{"n":1}"#]);
    assert_eq!(
        rows("SELECT 1 + 1 AS a, 1 + 1.0 AS b, 7 / 2 AS c, 7 // 2 AS d, 1 / 0 AS e, 2 ^ 3 AS f", ""),
        [r#"{"a":2,"b":2.0,"c":3.5,"d":3,"e":null,"f":8.0}"#]
    );
}

#[test]
fn functions_have_the_values_of_duckdb_at_their_edges() {
    assert_eq!(
        rows(
            "SELECT split_part('éab', '', 1) AS a, split_part('éab', '', -1) AS b, split_part('éab', '', 0) AS c, \
             split_part('a b', ' ', 0) AS d, split_part('a b', ' ', -3) AS e",
            "{}\n"
        ),
        [r#"{"a":"é","b":"b","c":"","d":"","e":""}"#]
    );
    assert_eq!(
        rows("SELECT 5.5 // 2 AS a, -7.5 // 2 AS b, -7 // 2 AS c, 7 // 2.0 AS d, 1.5 // 0 AS e", "{}\n"),
        [r#"{"a":2.75,"b":-3.75,"c":-3,"d":3.5,"e":null}"#]
    );
    assert_eq!(
        rows(
            "SELECT date_trunc('century', DATE '2000-06-01') AS a, date_trunc('century', DATE '1999-06-01') AS b, \
             date_diff('century', DATE '1999-12-31', DATE '2000-01-01') AS c, century(DATE '2000-01-01') AS d, \
             CAST(CAST('2024-05-31T10:00:00.50Z' AS TIMESTAMP) AS VARCHAR) AS e",
            "{}\n"
        ),
        [r#"{"a":"2000-01-01","b":"1900-01-01","c":1,"d":20,"e":"2024-05-31 10:00:00.5"}"#]
    );
}

#[test]
fn a_text_is_compared_with_a_number_as_a_number() {
    let text = "{\"v\":\"10\"}\n{\"v\":9}\n{\"v\":\"x\"}\n";
    let (found, notes) = answer("SELECT v FROM t WHERE v > 8", &[Lines { name: "t", text }]).unwrap();
    assert_eq!(found, [r#"{"v":"10"}"#, r#"{"v":9}"#]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(rows("SELECT v FROM t WHERE v IN (10, 'x')", text), [r#"{"v":"10"}"#, r#"{"v":"x"}"#]);
}

#[test]
fn in_finds_what_is_equal() {
    let text = r#"{"v":true}
{"v":false}
{"v":"true"}
{"v":"yes"}
{"v":"x"}
{"v":1}
{"v":1.0}
{"v":"1"}
{"v":"1.0"}
{"v":" 1 "}
{"v":0}
{"v":1.5}
{"v":"1.50"}
{"v":"2024-05-31"}
{"v":"2024-05-31T00:00:00Z"}
{"v":"2024-05-31 00:00:00"}
{"v":[1]}
{"v":"[1]"}
"#;
    let mut equal = 0;
    let dates = ["DATE '2024-05-31'".to_owned(), "TIMESTAMP '2024-05-31 00:00:00'".to_owned()];
    let values = text.lines().map(|line| {
        let value = line.trim_start_matches("{\"v\":").trim_end_matches('}').replace('"', "'");
        if value == "[1]" { "CAST('[1]' AS JSON)".to_owned() } else { value }
    });
    for value in values.chain(dates) {
        let sql = format!(
            "SELECT v, v = {value} IS TRUE AS same, v IN ({value}) AS i, NOT v NOT IN ({value}, 'other') AS n, \
             v IN (SELECT {value}) AS s, {value} IN (v) AS o FROM t"
        );
        for row in rows(&sql, text) {
            let row: serde_json::Value = serde_json::from_str(&row).unwrap();
            for column in ["i", "n", "s"] {
                assert_eq!(row["same"], row[column], "{value}: {row}");
            }
            assert_eq!(row["same"] == true, row["o"] == true, "{value}: {row}");
            equal += usize::from(row["same"] == true);
        }
    }
    assert!(equal > 50, "{equal}");
    let (found, _) =
        answer("SELECT v FROM t WHERE v NOT IN ('true') AND v IN (false)", &[Lines { name: "t", text }]).unwrap();
    assert_eq!(found, [r#"{"v":false}"#, r#"{"v":0}"#]);
}

#[test]
fn dates_are_texts() {
    let sql = "SELECT iata, year(owner.since) AS y, date_trunc('month', owner.since) AS m, strftime(owner.since, '%d.%m.%Y %H:%M') AS f, \
        owner.since < DATE '1949-01-01' AS early FROM t WHERE owner IS NOT NULL ORDER BY 2";
    assert_eq!(
        rows(sql, AIRPORTS),
        [
            r#"{"iata":"JFK","y":1948,"m":"1948-07-01 00:00:00","f":"01.07.1948 12:30","early":true}"#,
            r#"{"iata":"SEA","y":1949,"m":"1949-07-01","f":"09.07.1949 00:00","early":false}"#,
        ]
    );
    assert_eq!(
        rows("SELECT epoch_ms(0) AS a, to_timestamp(86399.5) AS b, extract(epoch FROM '1970-01-02') AS c", ""),
        [r#"{"a":"1970-01-01 00:00:00","b":"1970-01-01 23:59:59.5","c":86400.0}"#]
    );
}

const TIMES: &str = r#"{"id":1,"t":"2024-05-31T09:00:00Z","d":"2024-05-31"}
{"id":2,"t":"2024-05-31T23:00:00.500Z","d":"2024-05-31"}
{"id":3,"t":"2024-05-30 10:00:00","d":"2024-05-30"}
{"id":4,"t":"2024-05-31T00:00:00","d":"2024-06-01"}
"#;

/// The ids of the rows of `TIMES` for which a condition holds.
fn ids_where(condition: &str) -> String {
    let sql = format!("SELECT id FROM t WHERE {condition} ORDER BY id");
    let (rows, notes) = answer(&sql, &[Lines { name: "t", text: TIMES }]).unwrap();
    assert!(notes.is_empty(), "{condition}: {notes:?}");
    rows.concat().chars().filter(char::is_ascii_digit).collect()
}

#[test]
fn texts_are_compared_with_dates_and_timestamps_as_points_in_time() {
    for (condition, ids) in [
        ("t < TIMESTAMP '2024-05-31 12:00:00'", "134"),
        ("t <= DATE '2024-05-31'", "34"),
        ("t > '2024-05-31 00:00'::TIMESTAMP", "12"),
        ("t BETWEEN TIMESTAMP '2024-05-31 00:00:00' AND TIMESTAMP '2024-05-31 23:59:59'", "124"),
        ("t IN (TIMESTAMP '2024-05-31 09:00:00', TIMESTAMP '2024-05-30T10:00:00Z')", "13"),
        ("t IN (SELECT CAST(t AS TIMESTAMP) FROM t WHERE id = 2)", "2"),
        ("t NOT IN (DATE '2024-05-31')", "123"),
        ("date_trunc('hour', t) = t", "134"),
        ("date_trunc('day', t) = DATE '2024-05-31'", "124"),
        ("d = date_trunc('day', t)", "123"),
        ("CAST(d AS DATE) = t", ""),
        ("t IS NOT DISTINCT FROM TIMESTAMP '2024-05-31T00:00'", "4"),
        ("nullif(date_trunc('day', t), DATE '2024-05-31') IS NULL", "124"),
        ("CASE date_trunc('day', t) WHEN DATE '2024-05-30' THEN true END", "3"),
        ("greatest(CAST(d AS DATE), CAST(t AS TIMESTAMP)) = CAST(t AS TIMESTAMP)", "123"),
        ("greatest(t, TIMESTAMP '2024-05-31 12:00:00') = t", "2"),
        ("least('9', 10) = 9", "1234"),
        ("CAST(t AS TIMESTAMP) = (SELECT max(CAST(t AS TIMESTAMP)) FROM t)", "2"),
        ("d IN (SELECT day FROM (SELECT date_trunc('day', t) AS day FROM t) AS x)", "123"),
        ("DATE '2024-05-31' = TIMESTAMP '2024-05-31 00:00:00'", "1234"),
        ("TRY_CAST('x' AS DATE) IS NULL", "1234"),
    ] {
        assert_eq!(ids_where(condition), ids, "{condition}");
    }
    let sql =
        "SELECT a.id, b.id FROM t AS a JOIN t AS b ON date_trunc('day', a.t) = CAST(b.d AS TIMESTAMP) ORDER BY 1, 2";
    assert_eq!(rows(sql, TIMES).len(), 7);
    let sql = "SELECT min(CAST(t AS TIMESTAMP)) AS a, max(CAST(t AS DATE)) AS b, DATE '2024-05-31' || '!' AS c FROM t";
    assert_eq!(rows(sql, TIMES), [r#"{"a":"2024-05-30 10:00:00","b":"2024-05-31","c":"2024-05-31!"}"#]);
}

#[test]
fn a_text_that_is_no_date_is_not_compared_with_one() {
    let text = "{\"t\":\"soon\"}\n{\"t\":\"2024-05-31\"}\n";
    let sql = "SELECT t FROM t WHERE t < TIMESTAMP '2024-06-01 00:00:00'";
    let (rows, notes) = answer(sql, &[Lines { name: "t", text }]).unwrap();
    assert_eq!(rows, [r#"{"t":"2024-05-31"}"#]);
    assert!(matches!(notes.as_slice(), [note] if note.contains("not a date")), "{notes:?}");
}

#[test]
fn timestamps_in_texts_are_the_same_however_they_are_spelled() {
    for (condition, ids) in [
        ("t BETWEEN '2024-05-31 00:00:00' AND '2024-05-31 23:59:59'", "124"),
        ("t = '2024-05-31 09:00:00'", "1"),
        ("t = '2024-05-31 23:00:00.5+00:00'", "2"),
        ("t IN ('2024-05-31 09:00:00', '2024-05-30T10:00:00.000Z')", "13"),
        ("t < '2024-05-31 00:00:00.001'", "34"),
        // A date is a text that timestamps of its day begin with.
        ("t >= '2024-05-31' AND t < '2024-06'", "124"),
        ("t = '2024-05-31'", ""),
    ] {
        assert_eq!(ids_where(condition), ids, "{condition}");
    }
    let text = "{\"t\":\"2024-05-31T09:00:00Z\"}\n{\"t\":\"2024-05-31 10:00:00\"}\n{\"t\":\"2024-05-31 09:00:00\"}\n\
        {\"t\":\"2024-05-31T09:00:00 ERROR\"}\n{\"t\":\"2024-05-31\"}\n";
    let sql = "SELECT t, count(*) AS n FROM t GROUP BY t ORDER BY t";
    assert_eq!(
        rows(sql, text),
        [
            r#"{"t":"2024-05-31","n":1}"#,
            r#"{"t":"2024-05-31T09:00:00Z","n":2}"#,
            r#"{"t":"2024-05-31 10:00:00","n":1}"#,
            r#"{"t":"2024-05-31T09:00:00 ERROR","n":1}"#,
        ]
    );
}

#[test]
fn units_of_time_have_short_names() {
    let sql = "SELECT date_diff('ms', '2024-01-01T00:00:00', '2024-01-01T00:00:01.5') AS a, \
        date_diff('us', '2024-01-01T00:00:00', '2024-01-01T00:00:00.25') AS b, \
        date_diff('m', '2024-01-01T00:00:00', '2024-01-01T00:03:00') AS c, \
        date_diff('mins', '2024-01-01T00:00:00', '2024-01-01T00:03:00') AS d, \
        date_trunc('ms', '2024-01-01T00:00:01.2345') AS e, date_part('msec', '2024-01-01T00:00:01.5') AS f";
    assert_eq!(rows(sql, "{}\n"), [r#"{"a":1500,"b":250000,"c":3,"d":3,"e":"2024-01-01 00:00:01.234","f":1500}"#]);
}

#[test]
fn an_alias_is_a_name_where_no_field_has_it() {
    let sql = "SELECT upper(state) AS s, count(*) AS n FROM t WHERE s <> 'NY' GROUP BY s HAVING n > 1";
    assert_eq!(rows(sql, AIRPORTS), [r#"{"s":"AK","n":2}"#]);
    // The field comes before the alias, except in ORDER BY.
    assert_eq!(
        rows("SELECT 'x' AS state, count(*) AS n FROM t GROUP BY state ORDER BY n DESC LIMIT 1", AIRPORTS),
        [r#"{"state":"x","n":2}"#]
    );
    assert_eq!(rows("SELECT lower(nothing) AS nothing FROM t LIMIT 1", AIRPORTS), [r#"{"nothing":null}"#]);
}

#[test]
fn tables_are_joined_by_their_names() {
    let people =
        Lines { name: "people", text: "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":\"b\"}\n{\"id\":null}\n" };
    let orders =
        Lines { name: "result.orders", text: "{\"id\":7,\"person\":1,\"sum\":5}\n{\"id\":8,\"person\":1,\"sum\":6}\n" };
    let tables = [people, orders];
    let rows = |sql: &str| answer(sql, &tables).unwrap().0;
    assert_eq!(
        rows(
            "SELECT name, sum(sum) AS total FROM People p LEFT JOIN \"result.orders\" o ON p.id = o.person GROUP BY name ORDER BY total NULLS FIRST, name"
        ),
        [r#"{"name":"b","total":null}"#, r#"{"name":null,"total":null}"#, r#"{"name":"a","total":11}"#]
    );
    assert_eq!(
        rows("SELECT * FROM people JOIN result.orders o ON o.person = people.id AND o.sum > 5"),
        [r#"{"id":1,"name":"a","id_1":8,"person":1,"sum":6}"#]
    );
    assert_eq!(
        rows("SELECT p.id, q.id FROM people p, people q WHERE p.id = q.id AND p.id > 1"),
        [r#"{"id":2,"id_1":2}"#]
    );
    assert_eq!(
        rows("SELECT * FROM people JOIN people AS q USING (id) WHERE id = 1"),
        [r#"{"id":1,"name":"a","name_1":"a"}"#]
    );
}

#[test]
fn keys_of_different_types_are_joined_as_they_compare() {
    let numbers = Lines { name: "a", text: "{\"n\":7}\n{\"n\":8.0}\n{\"n\":1}\n{\"n\":null}\n" };
    let mixed = r#"{"k":"7"}
{"k":"8"}
{"k":7}
{"k":"7.0"}
{"k":" 8 "}
{"k":true}
{"k":"true"}
{"k":"07-1"}
{"k":null}
{"k":"2024-05-31"}
{"k":"2024-05-31T00:00:00Z"}
{"k":"2024-05-31 00:00:00.0"}
"#;
    let tables = [numbers, Lines { name: "c", text: mixed }, Lines { name: "d", text: mixed }];
    let rows = |sql: &str| answer(sql, &tables).unwrap().0;
    let joined = rows("SELECT n, k FROM a JOIN c ON a.n = c.k");
    assert_eq!(
        joined,
        [
            r#"{"n":7,"k":"7"}"#,
            r#"{"n":7,"k":7}"#,
            r#"{"n":7,"k":"7.0"}"#,
            r#"{"n":8.0,"k":"8"}"#,
            r#"{"n":8.0,"k":" 8 "}"#,
            r#"{"n":1,"k":true}"#,
        ]
    );
    assert_eq!(rows("SELECT n, k FROM a, c WHERE c.k = a.n"), joined);
    // The same pairs as without keys.
    for (keys, pairs) in [
        ("SELECT c.k, d.k AS l FROM c JOIN d ON c.k = d.k", "SELECT c.k, d.k AS l FROM c JOIN d ON NOT c.k <> d.k"),
        (
            "SELECT c.k, d.k AS l FROM c JOIN d USING (k)",
            "SELECT c.k, d.k AS l FROM c CROSS JOIN d WHERE NOT c.k <> d.k",
        ),
        ("SELECT n, k FROM c LEFT JOIN a ON n = k", "SELECT n, k FROM c LEFT JOIN a ON n <= k AND n >= k"),
        (
            "SELECT c.k, d.k AS l FROM c JOIN d ON TRY_CAST(c.k AS DATE) = d.k",
            "SELECT c.k, d.k AS l FROM c JOIN d ON TRY_CAST(c.k AS DATE) <= d.k AND d.k <= TRY_CAST(c.k AS DATE)",
        ),
    ] {
        assert_eq!(rows(keys), rows(pairs), "{keys}");
    }
}

#[test]
fn keys_that_cannot_be_compared_are_said() {
    let numbers = Lines { name: "a", text: "{\"id\":1}\n" };
    let texts = |text| Lines { name: "b", text };
    let sql = "SELECT * FROM a JOIN b ON a.id = b.id";
    let (rows, notes) = answer(sql, &[numbers, texts("{\"id\":\"x\"}\n")]).unwrap();
    assert!(rows.is_empty() && notes.len() == 1, "{notes:?}");
    let numbers = Lines { name: "a", text: "{\"id\":1}\n" };
    let (rows, notes) = answer(sql, &[numbers, texts("{\"id\":\"1\"}\n{\"id\":\"2\"}\n")]).unwrap();
    assert!(rows.len() == 1 && notes.is_empty(), "{notes:?}");
    let codes = Lines { name: "a", text: "{\"id\":\"A1\"}\n" };
    let (rows, notes) = answer(sql, &[codes, texts("{\"id\":\"1\"}\n")]).unwrap();
    assert!(rows.is_empty() && notes.is_empty(), "{notes:?}");
}

#[test]
fn queries_in_queries_reach_fields_of_all_columns() {
    let sql = "WITH north AS (SELECT * FROM t WHERE lat > 60), long AS (SELECT *, runways[1].length AS l FROM north) \
        SELECT state, max(l) AS l, max(tags[1]) AS tag FROM (SELECT * FROM long ORDER BY lat LIMIT 2) AS x GROUP BY state";
    assert_eq!(rows(sql, AIRPORTS), [r#"{"state":"AK","l":3800,"tag":"hub"}"#]);
    let sql = "SELECT iata FROM t WHERE lat = (SELECT max(lat) FROM t) OR state IN (SELECT state FROM t GROUP BY state HAVING min(lat) < 41)";
    assert_eq!(rows(sql, AIRPORTS), [r#"{"iata":"FAI"}"#, r#"{"iata":"JFK"}"#]);
    let sql = "SELECT iata, lat FROM (SELECT * FROM t UNION ALL SELECT * FROM t) AS u WHERE state = 'NY'";
    assert_eq!(rows(sql, AIRPORTS), [r#"{"iata":"JFK","lat":40.63}"#; 2]);
}

#[test]
fn scanning_ends_when_no_more_rows_are_wanted() {
    // The second line is not JSON.
    assert_eq!(rows("SELECT a FROM t LIMIT 1", "{\"a\":1}\n{\"a\":\n"), [r#"{"a":1}"#]);
}
