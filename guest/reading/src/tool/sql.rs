//! The arguments of a query in SQL.

use lro_contract::query::document::{Known, Members, Node};

use super::Failure;
use super::arguments::says_what;
use crate::Sql;

/// Members of an element of `from`.
const TABLE: &Known = &[("handle", &[]), ("section", &[]), ("as", &["alias", "name"])];

/// The form of an element of `from`, for errors.
const TABLE_FORM: &str = "a table such as {\"handle\": …, \"section\": …, \"as\": …}";

/// One section, or all with records of an offload.
#[derive(Clone, Debug)]
pub struct TableArguments {
    /// The handle of the offload.
    pub handle: String,
    /// The section, if it is named.
    pub section: Option<String>,
    /// The name of the table, if it has one.
    pub name: Option<String>,
}

/// Takes a query in SQL. Fails if other members are left then.
pub(super) fn take(members: &mut Members<'_>) -> Result<Option<Sql>, Failure> {
    let Some(query) = members.text("sql")? else { return Ok(None) };
    let offset = members.take("offset").map_or(Ok(0), |node| node.count())?;
    let limit = members.take("limit").map(|node| node.count()).transpose()?;
    let others = members.names();
    if !others.is_empty() {
        return Err(Failure::Tool(format!("`sql` goes without {}: write it in the query", others.join(", "))));
    }
    Ok(Some(Sql { query, offset, limit }))
}

/// Takes the tables of `from`. A handle beside it is that of those without one.
pub(super) fn tables(members: &mut Members<'_>) -> Result<Option<Vec<TableArguments>>, Failure> {
    let Some(from) = members.take("from") else { return Ok(None) };
    let common = members.text("handle")?;
    let mut tables = Vec::new();
    for table in from.elements()? {
        let mut table = table.members(TABLE_FORM, &[TABLE])?;
        let (section, name) = (table.text("section")?, table.text("as")?);
        let handle = match (table.text("handle")?, &common) {
            (Some(handle), _) => handle,
            (None, Some(common)) => common.clone(),
            (None, None) => return Err(Failure::Tool("an element of `from` has no `handle`".to_owned())),
        };
        tables.push(TableArguments { handle, section, name });
    }
    if tables.is_empty() {
        return Err(Failure::Tool("`from` is empty: name the tables of `sql`".to_owned()));
    }
    Ok(Some(tables))
}

/// Checks the names in `from` where `file` may stand in the place of `handle`. `is_named` says that one stands beside it.
pub(super) fn check_names(from: &Node<'_>, file: &Known, is_named: bool) -> Result<(), Failure> {
    for table in from.elements()? {
        let names = table.members(TABLE_FORM, &[file, TABLE])?.names();
        if !is_named && !says_what(&names) {
            return Err(Failure::Tool("an element of `from` has neither `file` nor `handle`".to_owned()));
        }
    }
    Ok(())
}
