//! SQL over sections of one or several offloads.

use lro_reading::{Table, sql_tables};

use super::opened::Opened;
use super::{Answer, Budget, ExtractError, Extractor, Sql, component};
use crate::job;
use crate::store::Offload;

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
        let sections = tables
            .iter()
            .map(|Tables { offload, section, name }| (offload.record(), section.as_deref(), name.as_deref()));
        let found = sql_tables(sections, sql)?;
        let about = |table: &Table<'_>| tables.get(table.offload).map(|Tables { offload, .. }| offload);
        let files: Vec<_> = found.iter().filter_map(|table| Some((about(table)?, table.file))).collect();
        let opened = Opened::open(&files)?;
        let names = found.into_iter().map(|table| table.name).collect();
        let asked = component::Sql { query: sql.query.clone(), tables: names, offset: sql.offset, limit: sql.limit };
        let (asked, budget) = (component::Question::Sql(asked), budget.capped());
        let (answer, _) = self.call(&self.sql, opened, &asked, budget).await?;
        Ok(answer.of_sql(sql, budget)?)
    }
}
