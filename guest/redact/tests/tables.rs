//! Cells of secret columns, by the name of their column: in JSON, in JSON and Python literals inside text, and in HTML.

#![expect(clippy::unwrap_used, reason = "these are tests")]

use lro_redact::{MATCH_BYTES_MAX, REPLACEMENT, Redactor, Rules};
use lro_text::{Form, Reader, tabular};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

fn redact(text: &str, is_json: bool, slice: usize) -> String {
    let rules = Rules::default();
    let rules = rules.with_table(text).filter(|_| is_json).unwrap_or(rules);
    let (mut redactor, mut out, mut rest) = (Redactor::new(&rules, is_json), String::new(), text);
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.ceil_char_boundary(slice.min(rest.len())));
        redactor.push(piece, &mut out);
        rest = after;
    }
    redactor.finish(&mut out);
    out
}

/// A text with what stands between `«` and `»`, and with a replacement in its place.
fn marked(text: &str, replacement: &str) -> (String, String) {
    let (mut whole, mut wanted) = (String::new(), String::new());
    for piece in text.split_inclusive(['«', '»']) {
        let plain = piece.trim_end_matches(['«', '»']);
        whole.push_str(plain);
        wanted.push_str(if piece.ends_with('»') { replacement } else { plain });
    }
    (whole, wanted)
}

/// In slices of any length, a JSON document loses the marked values.
fn values_go(document: &str) {
    let (whole, wanted) = marked(document, "\"[redacted]\"");
    for slice in (1..80).chain([usize::MAX]) {
        assert_eq!(redact(&whole, true, slice), wanted, "in slices of {slice}");
    }
}

/// In slices of any length, a text loses what is marked, alone and as a string of JSON.
fn cells_go(text: &str) {
    let (whole, wanted) = marked(text, REPLACEMENT);
    let quoted = (serde_json::to_string(&whole).unwrap(), serde_json::to_string(&wanted).unwrap());
    for slice in (1..80).chain([usize::MAX]) {
        assert_eq!(redact(&whole, false, slice), wanted, "in slices of {slice}");
        assert_eq!(redact(&quoted.0, true, slice), quoted.1, "in slices of {slice}");
    }
}

#[test]
fn tables_of_json() {
    values_go(
        r#"{"columns":["id","password","n"],"rows":[[7,«"x"»,1],[8,«null»,2],[],[9],[1,«{"a":["]"]}»,"y"]],"password":«1»}"#,
    );
    values_go(
        "{ \"fields\" : [ \"token\" , \"a\" ] ,\n \"values\" : [ [ «1.5e3» , 2 ] ,\n [ «\"a]\\\"\"» , [ 3 ] ] ] , \"n\" : [ [ «4» ] , [ ] ] }",
    );
    values_go(r#"{"header":[{"name":"id","type":"password"},{"type":"x","name":"API-Key"}],"data":[[1,«2»],[3,«4»]]}"#);
    values_go(r#"{"schema":{"n":[[5]],"fields":[{"name":"p\u0061ssword"},{"name":"b"}]},"records":[[«1»,2]]}"#);
    values_go(
        r#"{"result":[{"columnNames":["secret"],"rows":[[«1»]]},{"column_names":["a"],"rows":[["token","b"],["c","d"]]}]}"#,
    );
    values_go(r#"[["id","password"],[1,«"x"»],[2,«"y"»,3],"z",{"a":[["user","token"],["ada",«"t"»]]}]"#);
    values_go(
        "{\"a\":[\n  [\n    \"id\",\n    \"token\"\n  ],\n  [\n    1,\n    «\"x\"»\n  ]\n]}\n[[\"secret\"],[«1»]]",
    );
    values_go(
        r#"{"columns":["a","b"],"rows":[["password","token"],["x","y"]],"c":[[1,"password"],[2,"x"]],"d":{"e":[[["token","b"],[«1»,2]]]}}"#,
    );
    // Names behind the rows, as the policy recognizes them.
    values_go(r#"{"rows":[[7,«"x"»,1],[8,«"y"»,2]],"columns":["id","password","n"]}"#);
    values_go(r#"{"ok":true,"data":{"values":[[«7»,"x"],[«8»,"y"]],"fields":[{"name":"token"},{"name":"n"}]}}"#);
    // Arrays side by side.
    values_go(r#"{"password":«["a","b"]»,"user":["ada","bob"]}"#);
    // A name too long for a key is one of a header all the same.
    values_go(&format!(r#"[["{}","password"],["a",«"x"»]]"#, "long ".repeat(100)));
}

#[test]
fn tables_of_json_in_text() {
    cells_go(
        "Found 2 rows:\n{\"columns\": [\"id\", \"password\"], \"rows\": [[1, \"«x y»\"], [2, \"«z»\"]]}\nBye [[token, x]].\n",
    );
    cells_go(r#"[["id","token"],[1,"«a\"b»"],[2,"«c]»"]] and "fields": ["a"], then [["user","secret"],["ada","«x»"]]"#);
    cells_go("{'columns': ['id', 'password'], 'rows': [(1, '«x»'), (datetime.date(2026, 5, 1), '«it\\'s»')]}");
    cells_go("[('user', 'token'), ('ada', '«t»')]\n");
    cells_go(
        "{\"schema\": {\"fields\": [{\"name\": \"password\"}, {\"name\": \"b\"}]}, \"data\": [[\"«1»\", [\"x\"]]]}",
    );
    for (text, wanted) in [
        (
            "x {\"columns\":[\"token\",\"b\"],\"rows\":[[12,1],[{\"a\":[1]},2],[f(1),None]]}",
            "x {\"columns\":[\"token\",\"b\"],\"rows\":[[\"[redacted]\",1],[\"[redacted]\",2],[\"[redacted]\",None]]}",
        ),
        ("[['a", "[['a"),
        ("[[\"token\",\"b\"],[1", "[[\"token\",\"b\"],[\"[redacted]\""),
    ] {
        for slice in (1..80).chain([usize::MAX]) {
            assert_eq!(redact(text, false, slice), wanted, "in slices of {slice}");
        }
    }
}

#[test]
fn tables_of_html() {
    cells_go(
        "<p>Users</p><table><tr><th>id</th><th>password</th></tr><tr><td>1</td><td>«hunter2»</td></tr></table><p>password</p>",
    );
    cells_go(
        "<TABLE border=1>\n<THEAD>\n<TR>\n<TH>User<TH align=\"a>b\"> <b>API&#45;Key</b> \n<TBODY>\n<TR>\n<TD>ada\n<TD>\n «<i>x</i>\n y\n»<TR><TD>bob<TD></TABLE>\n",
    );
    cells_go(
        "<tr><th>token</th>\n<th>n</th>\n</tr>\n<tr><td>«t»</td>\n<td>1</td>\n</tr>\n<tr><td>«u»</td><td>2</td></tr>",
    );
    cells_go("<table><tr><td>password</td><td>user</td></tr><tr><td>«x»</td><td>ada</td></tr></table>");
    cells_go(
        "<table><tr><th>user</th><td>ada</td></tr><tr><th>password</th><td>«x»</td></tr><tr><th>mail</th><td>y</td></tr></table>",
    );
    cells_go(
        "<table><tr><th colspan=\"2\">Name</th><th>secret</th></tr><tr><td>a</td><td>b</td><td>«c»</td></tr><tr><td colspan=2>a</td><td>«c»</td></tr></table>",
    );
    cells_go(
        "<table><tr><th>a<!-- <th>x --></th><th>token<script>'<th>'</script></th></tr><tr><td><table><tr><th>secret</th></tr><tr><td>«1»</td></tr></table></td><td>«<table><tr><td>2</td><td>3</td></tr></table>»</td></tr><tr><td>4 < 5</td><td>«6 < 7 <- 8»</td></tr></table> <td>x</td>",
    );
    for text in [
        "<table><tr><th>tokens</th></tr><tr><td>password</td></tr></table>",
        "<table><tr><td",
        "<th>password</th><td>x</td>",
        "a < b <tr <<table",
    ] {
        cells_go(text);
    }
}

/// Rows and cells across the boundaries at which a long text is decided.
#[test]
fn long_tables() {
    let cell = "s3cret ".repeat(MATCH_BYTES_MAX / 3);
    for (head, row, end) in [
        ("<table><tr><th>user</th><th>token</th></tr>", "<tr><td>ada</td><td>«s3cret»</td></tr>", "</table>"),
        ("Found: {'columns': ['user', 'token'], 'rows': [", "('ada', '«s3cret»'), ", "]}"),
    ] {
        for rows in [row.repeat(4 * MATCH_BYTES_MAX / row.len()), row.replace("s3cret", &cell).repeat(3)] {
            let (whole, wanted) = marked(&format!("{head}{rows}{end}"), REPLACEMENT);
            let quoted = (json!(whole).to_string(), json!(wanted).to_string());
            for slice in [997, 5000, MATCH_BYTES_MAX, usize::MAX] {
                assert!(redact(&whole, false, slice) == wanted, "{head} in slices of {slice}");
                assert!(redact(&quoted.0, true, slice) == quoted.1, "{head} in slices of {slice}");
            }
        }
    }
}

/// Every cell of a secret column becomes the replacement; all else stays.
fn naive(value: &Value, columns: Option<&[bool]>) -> Value {
    let redacted = || Value::from(REPLACEMENT);
    match value {
        Value::Object(members) => {
            let mut columns: Option<Vec<bool>> = None;
            let redact = |(key, value): (&String, &Value)| {
                let wanted = match value {
                    _ if key == "password" => redacted(),
                    Value::Array(_) if !NAMES.contains(&key.as_str()) => naive(value, columns.as_deref()),
                    _ => naive(value, None),
                };
                if NAMES.contains(&key.as_str()) {
                    columns = names(value).or(columns.take());
                }
                (key.clone(), wanted)
            };
            Value::Object(members.iter().map(redact).collect())
        }
        Value::Array(rows) => {
            let header = rows.first().and_then(Value::as_array).filter(|first| !first.is_empty());
            let header = header.filter(|first| first.iter().all(Value::is_string) && columns.is_none());
            let in_header = header.and_then(|_| names(&rows[0]));
            let columns = columns.or(in_header.as_deref());
            let row = |(index, row): (usize, &Value)| match (row, columns) {
                (Value::Array(_), _) if index == 0 && header.is_some() => row.clone(),
                (Value::Array(cells), Some(columns)) => {
                    let cells = cells.iter().enumerate().map(|(column, cell)| {
                        if columns.get(column) == Some(&true) { redacted() } else { naive(cell, None) }
                    });
                    Value::Array(cells.collect())
                }
                (row, _) => naive(row, None),
            };
            Value::Array(rows.iter().enumerate().map(row).collect())
        }
        other => other.clone(),
    }
}

const NAMES: [&str; 3] = ["columns", "fields", "schema"];

/// Which of the columns that a value names are secret.
fn names(value: &Value) -> Option<Vec<bool>> {
    match value {
        Value::Array(names) => {
            let name = |name: &Value| name.as_str().or_else(|| name.get("name")?.as_str()).map(str::to_owned);
            Some(names.iter().map(|column| matches!(name(column).as_deref(), Some("password" | "API-Key"))).collect())
        }
        Value::Object(schema) => schema.get("columns").and_then(names),
        _ => None,
    }
}

fn name() -> impl Strategy<Value = String> {
    select(vec!["id", "password", "API-Key", "n, [x]", "a \"b\""]).prop_map(str::to_owned)
}

/// Names of columns in one of their spellings.
fn columns() -> impl Strategy<Value = Value> {
    (prop::collection::vec(name(), 1..4), 0..3).prop_map(|(names, spelling)| {
        let objects: Vec<Value> =
            names.iter().map(|name| json!({"type": "password", "name": name, "n": [1]})).collect();
        match spelling {
            0 => json!(names),
            1 => json!(objects),
            _ => json!({"n": [[1]], "columns": objects}),
        }
    })
}

/// JSON with tables anywhere; the names before the rows.
fn document() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        2 => name().prop_map(Value::from),
        1 => "[a-z ,:{}\\[\\]\"'\\\\]{1,8}".prop_map(Value::from),
        1 => (-5..100_000).prop_map(Value::from),
        1 => select(vec![Value::Null, true.into(), json!([]), json!({})]),
    ];
    leaf.prop_recursive(4, 60, 5, |inner| {
        let rows = prop::collection::vec(prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from), 1..4);
        let table =
            (select(NAMES.to_vec()), columns(), rows.clone(), inner.clone()).prop_map(|(key, columns, rows, other)| {
                let mut table = Map::new();
                table.insert("other".to_owned(), other.clone());
                table.insert(key.to_owned(), columns);
                table.insert("beside".to_owned(), other);
                table.insert("rows".to_owned(), rows.into());
                Value::Object(table)
            });
        let with_header = (prop::collection::vec(name(), 1..4), rows).prop_map(|(names, mut rows)| {
            rows.insert(0, json!(names));
            Value::Array(rows)
        });
        prop_oneof![
            table,
            with_header,
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            (inner.clone(), inner).prop_map(|(one, other)| json!({"user": one, "columns of": other})),
        ]
    })
}

/// JSON with white space between tokens and escapes in the values.
fn spelled(value: &Value, white: &str) -> String {
    let list = |items: Vec<String>, open: &str, close: &str| match items.as_slice() {
        [] => format!("{open}{close}"),
        items => format!("{open}{white}{}{white}{close}", items.join(&format!("{white},{white}"))),
    };
    match value {
        Value::Object(members) => {
            let member =
                |(key, value): (&String, &Value)| format!("{}{white}:{white}{}", json!(key), spelled(value, white));
            list(members.iter().map(member).collect(), "{", "}")
        }
        Value::Array(values) => list(values.iter().map(|value| spelled(value, white)).collect(), "[", "]"),
        other if white.is_empty() => other.to_string(),
        other => other.to_string().replace('p', "\\u0070"),
    }
}

/// A table of HTML, with marks around its secret cells.
fn html() -> impl Strategy<Value = String> {
    let cell = || select(vec!["ada", "x <b>y</b>", "4 &lt; 5", "<!-- <td> -->z", "a<br/>b", "password"]);
    let rows = prop::collection::vec(prop::collection::vec(cell(), 3), 1..5);
    let style =
        (any::<bool>(), any::<bool>(), any::<bool>(), select(vec!["", " ", "\n  "]), select(vec!["", " class='a>b'"]));
    (rows, 0_usize..3, style).prop_map(|(rows, secret, (closes, in_head, is_upper, white, attributes))| {
        let tag = |name: &str| {
            let name = if is_upper { name.to_uppercase() } else { name.to_owned() };
            format!("<{name}{attributes}>{white}")
        };
        let close = |name: &str| if closes { format!("</{name}>{white}") } else { String::new() };
        let mut text = tag("table") + &if in_head { tag("thead") } else { String::new() } + &tag("tr");
        for (column, name) in ["id", "name", "n"].into_iter().enumerate() {
            let name = if column == secret { "<i>api&#95;key</i>" } else { name };
            text.extend([&tag("th"), name, &close("th")]);
        }
        text += &close("tr");
        text += &if in_head { close("thead") } else { String::new() };
        for row in rows {
            text += &tag("tr");
            for (column, cell) in row.into_iter().enumerate() {
                text += &tag("td");
                text += &if column == secret { format!("«{cell}»") } else { cell.to_owned() };
                text += &close("td");
            }
            text += &close("tr");
        }
        text + "</table>"
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn cells_of_json(document in document(), white in select(vec!["", " ", "\n\t"]), slice in 1_usize..90) {
        let (text, wanted) = (spelled(&document, white), spelled(&naive(&document, None), white));
        prop_assert_eq!(&redact(&text, true, slice), &wanted, "{}", text);
        // Inside a text, and that in a string.
        let (text, wanted) = (format!("Found this:\n\n{text}"), format!("Found this:\n\n{wanted}"));
        prop_assert_eq!(&redact(&text, false, slice), &wanted, "{}", text);
        prop_assert_eq!(redact(&json!(text).to_string(), true, slice), json!(wanted).to_string());
    }

    /// Whatever the policy recognizes as a table has lost its secret columns.
    #[test]
    fn cells_of_tables_that_the_policy_recognizes(
        columns in columns(), secret in "[a-z]{1,30}", count in 2_usize..40, keys in select(vec![("columns", "rows"), ("schema", "data"), ("fields", "values")]),
        is_first: bool, is_inside: bool, slice in 1_usize..300,
    ) {
        let known = names(&columns).unwrap();
        let row: Vec<String> = known.iter().map(|is_secret| if *is_secret { format!("s3cret {secret}") } else { secret.clone() }).collect();
        let (names, rows) = (columns.to_string(), json!(vec![row; count]).to_string());
        let (name, member) = keys;
        let table = if is_first { format!("{{\"{name}\":{names},\"{member}\":{rows}}}") } else { format!("{{\"{member}\":{rows},\"{name}\":{names}}}") };
        let text = if is_inside { format!("{{\"ok\":true,\"result\":{table}}}") } else { table };
        let redacted = redact(&text, true, slice);
        prop_assert!(tabular(&text).is_none() || !redacted.contains("s3cret"), "{}", redacted);
        if let Some(found) = tabular(&redacted) {
            let mut lines = Vec::new();
            let mut out = |bytes: &[u8]| { lines.extend_from_slice(bytes); Ok::<(), std::convert::Infallible>(()) };
            let mut reader = Reader::new(&Form::Tabular(found));
            reader.push(&redacted, &mut out).unwrap();
            prop_assert_eq!(reader.finish(&mut out).unwrap().records, count as u64);
            for line in String::from_utf8(lines).unwrap().lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                for (value, is_secret) in record.as_object().unwrap().values().zip(&known) {
                    prop_assert_eq!(value == REPLACEMENT, *is_secret, "{}", line);
                }
            }
        }
    }

    #[test]
    fn cells_of_html(table in html(), before in select(vec!["", "# Users\n\n", "<p>a | b<p>\n"]), slice in 1_usize..90) {
        let (whole, wanted) = marked(&format!("{before}{table}<p>password"), REPLACEMENT);
        prop_assert_eq!(&redact(&whole, false, slice), &wanted, "{}", whole);
        let (whole, wanted) = (json!(whole).to_string(), json!(wanted).to_string());
        prop_assert_eq!(&redact(&whole, true, slice), &wanted);
    }
}
