//! SQL over files: fields are found, unknown ones are named, limits and counts hold.

mod support;

use lro_answer::{Answer, Budget, ExtractError, FileKind, Question, Sql, TABLES_MAX, extract, extract_sql};
use support::{ROOMY, source};

const AIRPORTS: &str = r#"{"iata":"ADK","state":"AK","lat":61.17,"owner":{"name":"State"}}
{"iata":"FAI","state":"AK","lat":64.81,"owner":{"name":"State"}}
{"iata":"SEA","state":"WA","lat":47.44}
"#;

fn sql(query: &str, tables: &[&str]) -> Sql {
    Sql {
        query: query.to_owned(),
        tables: tables.iter().map(|name| (*name).to_owned()).collect(),
        offset: 0,
        limit: None,
    }
}

fn ask_tables(texts: &[&str], sql: Sql, budget: Budget) -> Result<Answer, ExtractError> {
    let sources: Vec<_> =
        texts.iter().enumerate().map(|(index, text)| source(index, FileKind::Records, text.as_bytes())).collect();
    // Reads of 7 bytes, so that records are cut anywhere.
    extract_sql(&sources, &sql, budget, &mut |index, offset, length| {
        Ok(texts[index].bytes().skip(offset as usize).take(7.min(length as usize)).collect())
    })
}

fn ask(query: &str) -> Result<Answer, ExtractError> {
    ask_tables(&[AIRPORTS], sql(query, &["airports"]), ROOMY)
}

#[test]
fn a_single_table_has_several_names() {
    for table in ["airports", "AIRPORTS", "records", "data", "t"] {
        let query =
            format!("SELECT state, count(*) AS n FROM {table} WHERE lat > 60 GROUP BY state ORDER BY n DESC LIMIT 5");
        let answer = ask(&query).unwrap();
        assert_eq!(answer.lines, "{\"state\":\"AK\",\"n\":2}\n", "{table}");
        assert_eq!((answer.total, answer.results, answer.examined), (1, 1, 3));
    }
}

#[test]
fn a_field_that_no_record_has_is_an_error_with_similar_names() {
    for query in [
        "SELECT stat FROM t",
        "SELECT iata FROM t WHERE stat = 'x'",
        "SELECT stat FROM t LIMIT 1",
        "SELECT count(stat) FROM t",
    ] {
        match ask(query).unwrap_err() {
            ExtractError::UnknownField(unknown) => {
                assert_eq!((unknown.field.as_str(), unknown.near[0].as_str()), ("stat", "state"), "{query}");
            }
            other => panic!("{query}: {other:?}"),
        }
    }
    // A field that the first record lacks is none.
    assert_eq!(ask("SELECT owner.name AS o FROM t ORDER BY o NULLS FIRST LIMIT 1").unwrap().lines, "{\"o\":null}\n");
    let ExtractError::UnknownField(unknown) = ask("SELECT stat FROM (SELECT state FROM t) AS s").unwrap_err() else {
        panic!("found");
    };
    assert_eq!(unknown.near, ["state"]);
}

#[test]
fn records_that_are_texts_are_the_column_value() {
    let texts = "\"an apple\"\n\"a pear\"\n";
    let ask = |query: &str| ask_tables(&[texts], sql(query, &["lines"]), ROOMY);
    let answer = ask("select value from records where value like '%apple%'").unwrap();
    assert_eq!(answer.lines, "{\"value\":\"an apple\"}\n");
    for query in ["SELECT line FROM records", "SELECT l.text FROM records AS l", "SELECT count(line) FROM records"] {
        match ask(query).unwrap_err() {
            ExtractError::UnknownField(unknown) => assert_eq!(unknown.near, ["value"], "{query}"),
            other => panic!("{query}: {other:?}"),
        }
    }
}

#[test]
fn an_argument_may_be_a_comparison() {
    for query in [
        "SELECT count_if(state = 'AK') AS n FROM t",
        "SELECT sum(if(state = 'AK', 1, 0)) AS n FROM t",
        "SELECT count(state = 'AK' OR null) AS n FROM t",
    ] {
        assert_eq!(ask(query).unwrap().lines, "{\"n\":2}\n", "{query}");
    }
}

#[test]
fn rows_are_paged_and_kept_to_the_budget() {
    let all = ask("SELECT iata FROM t").unwrap();
    assert_eq!((all.results, all.total), (3, 3));
    let page = Sql { offset: 1, limit: Some(1), ..sql("SELECT iata FROM t", &["t"]) };
    let page = ask_tables(&[AIRPORTS], page, ROOMY).unwrap();
    assert_eq!((page.lines.as_str(), page.total), ("{\"iata\":\"FAI\"}\n", 3));
    let budget = Budget { bytes: 20, tokens: 1000 };
    let cut = ask_tables(&[AIRPORTS], sql("SELECT iata FROM t", &["t"]), budget).unwrap();
    assert_eq!((cut.results, cut.total, cut.next_bytes), (1, 3, Some(15)));
}

#[test]
fn several_files_are_joined() {
    let states = "{\"code\":\"AK\",\"name\":\"Alaska\"}\n";
    let query = "SELECT a.iata, s.name FROM airports a LEFT JOIN states s ON a.state = s.code ORDER BY 1";
    let answer = ask_tables(&[AIRPORTS, states], sql(query, &["airports", "states"]), ROOMY).unwrap();
    assert_eq!(
        answer.lines,
        "{\"iata\":\"ADK\",\"name\":\"Alaska\"}\n{\"iata\":\"FAI\",\"name\":\"Alaska\"}\n{\"iata\":\"SEA\",\"name\":null}\n"
    );
    assert_eq!(answer.examined, 4);
}

#[test]
fn what_cannot_be_asked_is_an_error() {
    let damaged = ask_tables(&["{\"a\":1}\n{\"a\":\n"], sql("SELECT a FROM t", &["t"]), ROOMY);
    assert!(matches!(damaged, Err(ExtractError::Damaged(1))), "{damaged:?}");
    let text = source(0, FileKind::Text, b"hello\n");
    let read = &mut |_, _, _| Ok(b"hello\n".to_vec());
    let asked = extract_sql(std::slice::from_ref(&text), &sql("SELECT 1", &["t"]), ROOMY, read);
    assert!(matches!(asked, Err(ExtractError::Invalid(_))), "{asked:?}");
    let asked = extract(&[text], &Question::Sql(sql("SELECT 1", &["t"])), ROOMY, read);
    assert!(matches!(&asked, Err(ExtractError::Invalid(text)) if text.contains("lro-extract-sql")), "{asked:?}");
    let many = vec!["{}\n"; TABLES_MAX + 1];
    let names: Vec<String> = (0..many.len()).map(|number| format!("t{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert!(ask_tables(&many, sql("SELECT 1", &names), ROOMY).is_err());
    assert!(matches!(ask("SELECT rank() OVER () FROM t"), Err(ExtractError::Invalid(text)) if text.contains("OVER")));
    let long = format!("SELECT {} FROM t", "x".repeat(lro_sql::SQL_BYTES_MAX));
    assert!(matches!(ask(&long), Err(ExtractError::Limit(text)) if text.starts_with("sql-bytes")));
}
