//! Shared by the tests: tables in memory, read by a naive scan.

use lro_json::path::{self, Step};
use lro_sql::{Error, Flow, Statement, Table, Visit, write_row};

/// A table of JSON Lines.
pub(crate) struct Lines<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

/// The description of a table, with the fields of all its records.
pub(crate) fn table(lines: &Lines<'_>) -> Table {
    let mut fields = Vec::new();
    let mut is_scalar = false;
    for line in lines.text.lines() {
        match serde_json::from_str(line) {
            Ok(serde_json::Value::Object(record)) => fields.extend(record.keys().cloned()),
            _ => is_scalar = true,
        }
    }
    fields.sort();
    fields.dedup();
    Table { names: vec![lines.name.to_owned()], fields, is_scalar }
}

/// Calls `each` with the fields of every line.
pub(crate) fn scan(text: &str, fields: &[Vec<Step>], each: &mut Visit<'_>) -> Result<(), Error> {
    for line in text.lines() {
        let mut values = Vec::new();
        for field in fields {
            values.push(path::find(line.as_bytes(), 0, field)?.map(|at| &line.as_bytes()[at..]));
        }
        if each(&values)? == Flow::Stop {
            break;
        }
    }
    Ok(())
}

/// The rows of a query as lines, and its notes.
pub(crate) fn answer(sql: &str, tables: &[Lines<'_>]) -> Result<(Vec<String>, Vec<String>), Error> {
    let described: Vec<Table> = tables.iter().map(table).collect();
    let statement = Statement::read(sql, &described)?;
    let mut rows = Vec::new();
    let notes = statement.run(&mut |table, fields, each| scan(tables[table].text, fields, each), |row| {
        let mut line = String::new();
        write_row(&statement, row, &mut line)?;
        rows.push(line);
        Ok(Flow::More)
    })?;
    Ok((rows, notes))
}

/// The rows of a query over one table `t`.
pub(crate) fn rows(sql: &str, text: &str) -> Vec<String> {
    answer(sql, &[Lines { name: "t", text }]).unwrap().0
}

/// The error of a query over one table `t`.
pub(crate) fn error(sql: &str, text: &str) -> Error {
    answer(sql, &[Lines { name: "t", text }]).unwrap_err()
}
