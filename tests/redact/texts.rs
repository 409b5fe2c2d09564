//! Secrets that a text names get nowhere, whatever kind of text it is, and however much of it.

use lro_tests::{always, settings};
use serde_json::json;

use crate::REPLACEMENT;
use crate::small::reply;

/// Kinds of texts: their name, beginning, and a line that is repeated.
const TEXTS: [(&str, &str, &str); 20] = [
    ("CSV", "id,user,password\n", "1,ada,s3cret\n"),
    ("CSV with quotes", "\"id\";\"api key\";\"token\"\n", "\"1\";\"x\";\"s3cret; \"\"s3cret\n\"\n"),
    ("TSV", "user\ttoken\n", "ada\ts3cret\n"),
    ("Markdown", "# Users\n\n| user | password |\n|---|---|\n", "| ada | s3cret |\n"),
    ("psql", " user |  password   | age\n------+-------------+-----\n", " ada  | s3cret      |  36\n"),
    ("MySQL", "+------+-------------+\n| user | password    |\n+------+-------------+\n", "| ada  | s3cret      |\n"),
    ("aligned", "NAME   PASSWORD       AGE\n", "ada    s3cret         36\n"),
    ("YAML", "", "- user: ada\n  password: s3cret\n  token:\n    a: s3cret\n"),
    ("JSON Lines", "", "{\"user\": \"ada\", \"password\": \"s3cret\"}\n"),
    (
        "JSON inside text",
        "Found these users:\n[{\"user\": \"bob\"}",
        ",\n{\"user\": \"ada\", \"password\": \"s3cret\"}",
    ),
    ("Python", "[{'user': 'bob'}", ", {'user': 'ada', 'password': 's3cret'}"),
    ("log", "", "2026-05-01T10:00:00Z INFO login user=ada password=s3cret ip=10.0.0.1\n"),
    ("log in brackets", "", "[2026-05-01 10:00:00] INFO token: s3cret, user: ada\n"),
    ("settings", "", "export API_KEY=s3cret\nPASSWORD=\"s3cret s3cret\"\nPORT=80\n"),
    ("padded words", "User   Password      Age Command\n", "ada    s3cret-s3cret 36  sh\n"),
    ("psql in blocks", "", "-[ RECORD 1 ]------\nuser     | ada\npassword | s3cret\n"),
    ("JSON table", "{\"columns\": [\"user\", \"password\"], \"rows\": [[\"bob\", null]", ",\n[\"ada\", \"s3cret\"]"),
    ("Python table", "Rows: [('user', 'password')", ", ('ada', 's3cret')"),
    ("HTML", "<table><tr><th>user</th><th>password</th></tr>\n", "<tr><td>ada</td><td>s3cret</td></tr>\n"),
    ("XML", "<users>", "<user><name>ada</name><password>s3cret</password></user>\n"),
];

#[test]
fn what_a_text_names_gets_nowhere() {
    for (name, head, line) in TEXTS {
        for (lines, settings) in [(3, settings()), (3, always()), (3_000, settings())] {
            let text = format!("{head}{}", line.repeat(lines));
            let of_text = json!({ "content": [{ "type": "text", "text": text }] });
            // As a server wraps it that has a schema.
            let wrapped =
                json!({ "content": [{ "type": "text", "text": text }], "structuredContent": { "result": text } });
            // As a server writes it that passes on any answer as JSON.
            let quoted = json!({ "content": [{ "type": "text", "text": json!(text).to_string() }] });
            for result in [of_text, wrapped, quoted] {
                let reply = reply(settings.clone(), &result).to_string();
                assert!(!reply.contains("s3cret"), "{name}: {reply:.3000}");
                assert!(lines > 3 || reply.contains(REPLACEMENT), "{name}: {reply:.3000}");
            }
        }
    }
}

#[test]
fn what_a_column_names_gets_nowhere() {
    for count in [3, 2_000] {
        let rows = vec![json!(["ada", "s3cret", 36]); count];
        let columns = json!([{"name": "user"}, {"name": "password"}, {"name": "age"}]);
        let with_header: Vec<_> = [json!(["user", "password", "age"])].into_iter().chain(rows.clone()).collect();
        for table in [
            json!({ "columns": columns, "rows": rows }),
            // Names behind the rows.
            json!({ "data": rows, "schema": { "fields": columns } }),
            json!({ "ok": true, "result": { "header": columns, "values": rows } }),
            json!(with_header),
            json!({ "password": vec!["s3cret"; count], "user": vec!["ada"; count] }),
        ] {
            let structured = json!({ "content": [], "structuredContent": { "table": table } });
            let text = json!({ "content": [{ "type": "text", "text": table.to_string() }] });
            for result in [structured, text] {
                let reply = reply(settings(), &result).to_string();
                assert!(!reply.contains("s3cret"), "{reply:.3000}");
                assert!(count > 3 || reply.contains(REPLACEMENT), "{reply:.3000}");
            }
        }
    }
}
