//! SQL over sections of one or several offloads.

use lro_reading::{Table, sql_tables};

use super::{Answer, Budget, ExtractError, Extractor, Sql, component};
use crate::job;
use crate::store::Offload;
use crate::store::directory::Directory;

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
        let directories = tables.iter().map(|table| table.offload.copied()).collect::<Result<Vec<_>, _>>()?;
        let (mut sources, mut names, mut readers) = (Vec::new(), Vec::new(), Vec::new());
        for Table { offload: index, file, name } in found {
            let (Some(Tables { offload, .. }), Some(opened)) = (tables.get(index), directories.get(index)) else {
                continue;
            };
            let directory = u32::try_from(index).unwrap_or(u32::MAX);
            names.push(name);
            readers.push(offload.open_in(opened, &file.name)?);
            sources.push(component::Source { directory, ..file.into() });
        }
        let asked = component::Sql { query: sql.query.clone(), tables: names, offset: sql.offset, limit: sql.limit };
        let directories = directories.into_iter().map(Directory::into_file).collect::<Result<Vec<_>, _>>()?;
        let budget = budget.capped();
        let asked = component::Question::Sql(asked);
        let (answer, _) = self.call(&self.sql.get()?, readers, directories, &sources, &asked, budget).await?;
        Ok(answer.of_sql(sql, budget)?)
    }
}
