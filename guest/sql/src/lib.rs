//! Answers SQL queries over records of JSON in bounded memory.
//!
//! A table is a list of records that the caller scans: [`Statement::read`] finds out from the SQL which fields of which
//! tables are needed, and [`Statement::run`] asks for these only. Rows stream through conditions, joins and groups; held are
//! the tables on the right of joins, groups, the values of DISTINCT, and the rows that ORDER BY has to return, all together
//! in at most [`HELD_BYTES_MAX`] bytes.
//!
//! Nulls, three-valued logic, numbers and orders are those of `DuckDB`, with these differences: records have no schema, so
//! types belong to values; a field that a record lacks is null; names of fields are case-sensitive; division by zero is null;
//! decimal numbers are floating point numbers; dates in records are ISO 8601 texts, and so are those in results.
//!
//! | module | what it does |
//! |---|---|
//! | `parse` | SQL text to a syntax tree, within limits |
//! | `plan` | queries, as they are run |
//! | `compile` | syntax tree to plan: names, groups, functions |
//! | `value` | values: read from JSON, compared, written |
//! | `moment` | points in time: read and written |
//! | `evaluate` | expressions over a row |
//! | `aggregate`, `join`, `sort`, `set` | groups, joins, orders, and the values of IN |
//! | `memory` | what they may hold |
//! | `run` | a plan from beginning to end |
//! | `write` | rows as JSON |

mod aggregate;
mod compile;
mod error;
mod evaluate;
mod join;
mod memory;
mod moment;
mod parse;
mod plan;
mod run;
mod set;
mod sort;
mod value;
mod write;

pub use compile::{QUERIES_MAX, Statement, Table};
pub use error::Error;
pub use join::PAIRS_MAX;
pub use memory::HELD_BYTES_MAX;
pub use parse::{DEPTH_MAX, OPERATORS_MAX, SQL_BYTES_MAX};
pub use run::{Flow, Scan, Visit};
pub use value::Value;
pub use write::{SCALAR_KEY, write_row};
