//! SQL over sections of one or several offloads.

use std::collections::BTreeSet;

use super::{Answer, Budget, ExtractError, Extractor, RESULTS_MAX, component, files};
use crate::job;
use crate::store::Offload;

/// Maximum number of tables of a query.
pub const TABLES_MAX: usize = 16;

/// A query in SQL; `wit/lro-query.wit` describes the subset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sql {
    /// The query.
    pub query: String,
    /// Rows of its result to skip.
    pub offset: u64,
    /// Maximum number of rows, from 1 to [`RESULTS_MAX`]. Default: as many as fit.
    pub limit: Option<u32>,
}

/// Sections of an offload that a query may name as tables.
#[derive(Clone, Debug)]
pub struct Tables {
    /// The offload.
    pub offload: Offload,
    /// The section. Default: the only one with records, or all if there are several and `name` is not given.
    pub section: Option<String>,
    /// The name of the table. Default: that of its section.
    pub name: Option<String>,
}

impl Extractor {
    /// Answers a query about the sections of `tables`. Blocks.
    ///
    /// # Errors
    /// See the variants of [`ExtractError`].
    pub fn sql(&self, tables: &[Tables], sql: &Sql, budget: Budget) -> Result<Answer, ExtractError> {
        job::finish(self.answer_sql(tables, sql, budget))
    }

    /// As [`Extractor::sql`], for use inside a [`Job`](job::Job): it reads files, so it yields first.
    pub(crate) async fn answer_sql(
        &self,
        tables: &[Tables],
        sql: &Sql,
        budget: Budget,
    ) -> Result<Answer, ExtractError> {
        job::pause().await;
        if sql.limit.is_some_and(|limit| limit == 0 || limit > RESULTS_MAX) {
            return Err(ExtractError::Invalid(format!("limit: must be between 1 and {RESULTS_MAX}")));
        }
        let (mut sources, mut names) = (Vec::new(), Vec::new());
        let (mut readers, mut directories) = (Vec::new(), Vec::new());
        for Tables { offload, section, name } in tables {
            let found = files::tables(offload, section.as_deref(), name.is_some())?;
            if sources.len() + found.len() > TABLES_MAX {
                let message = format!("more than {TABLES_MAX} tables: name only the sections that the query needs");
                return Err(ExtractError::Invalid(message));
            }
            let directory = u32::try_from(directories.len()).unwrap_or(u32::MAX);
            for file in found {
                names.push(name.clone().unwrap_or_else(|| file.section.clone()));
                readers.push(offload.open(&file.name)?);
                sources.push(component::Source { directory, ..file.into() });
            }
            directories.push(offload.directory()?);
        }
        let mut seen = BTreeSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(name.to_lowercase())) {
            return Err(ExtractError::Invalid(format!("two tables are named `{name}`: give each a name of its own")));
        }
        let asked = component::Sql { query: sql.query.clone(), tables: names, offset: sql.offset, limit: sql.limit };
        let budget = budget.capped();
        let asked = component::Question::Sql(asked);
        let (answer, cost) = self.call(&self.sql.get()?, readers, directories, &sources, &asked, budget).await?;
        Ok(Answer { cost, ..Answer::of_sql(answer, sql, budget)? })
    }
}
