//! Why a query has no answer.

use lro_json::walk::Damaged;

/// Why a query has no answer. The messages say what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not SQL.
    #[error("SQL syntax: {0}")]
    Syntax(String),
    /// The text is SQL outside the subset.
    #[error("{what} is not supported: {instead}")]
    Unsupported {
        /// The part of the query.
        what: String,
        /// The nearest supported form.
        instead: String,
    },
    /// The query contradicts itself, for example with a column that is neither grouped nor aggregated.
    #[error("{0}")]
    Invalid(String),
    /// No table has this name.
    #[error("no table is named `{name}`; the tables are {}", .tables.join(", "))]
    UnknownTable {
        /// The name.
        name: String,
        /// Tables there are, as SQL writes them.
        tables: Vec<String>,
    },
    /// No table in FROM has this column.
    #[error("no column is named `{name}`; the columns are {}", .columns.join(", "))]
    UnknownColumn {
        /// The column.
        name: String,
        /// Columns there are, in no particular order.
        columns: Vec<String>,
    },
    /// A value that an operation cannot take, such as a text in a sum.
    #[error("{0}")]
    Value(String),
    /// A limit of this crate was met; names it.
    #[error("{0}")]
    Limit(String),
    /// A record is not JSON.
    #[error("a record is not JSON")]
    Damaged,
    /// The scan of a table failed; the caller knows why.
    #[error("a table could not be read")]
    Scan,
}

impl Error {
    pub(crate) fn unsupported(what: impl Into<String>, instead: &str) -> Self {
        Self::Unsupported { what: what.into(), instead: instead.to_owned() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid(message.into())
    }
}

impl From<Damaged> for Error {
    fn from(_: Damaged) -> Self {
        Self::Damaged
    }
}
