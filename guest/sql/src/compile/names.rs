//! Which column of which table a name is.

use lro_json::path::{self, Step};
use sqlparser::ast;

use super::{Compiler, Table};
use crate::Error;
use crate::plan::{Aggregate, Body, Expression, Joined, Name, Query, Rows};
use crate::write::SCALAR_KEY;

/// What names in a SELECT can be.
#[derive(Default)]
pub(super) struct Scope<'a> {
    pub(super) from: Vec<Joined>,
    /// Columns of USING, which are the same in both tables.
    pub(super) using: Vec<String>,
    /// Names of selected expressions.
    pub(super) aliases: Vec<(&'a str, &'a ast::Expr)>,
    pub(super) aggregates: Vec<Aggregate>,
    /// The clause that takes no aggregates, if this is one.
    pub(super) no_aggregates: Option<&'static str>,
}

/// Whether a table has a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Has {
    No,
    /// Its first records do not have it.
    Perhaps,
    Yes,
}

/// The steps of a column: names joined by dots, or a JSON Pointer in double quotes.
pub(super) fn steps(parts: &[ast::Ident]) -> Vec<String> {
    let mut steps = Vec::new();
    for part in parts {
        match part.quote_style {
            Some(_) if part.value.starts_with('/') => {
                let keys = path::steps(&part.value).into_iter();
                steps.extend(keys.map(|step| String::from_utf8_lossy(&step.key).into_owned()));
            }
            _ => steps.push(part.value.clone()),
        }
    }
    steps
}

impl<'a> Compiler<'a> {
    /// The column of these names: `column`, `table.column`, and values inside it.
    pub(super) fn column(&mut self, parts: &'a [ast::Ident], scope: &mut Scope<'a>) -> Result<Expression, Error> {
        if let Some((first, rest @ [_, ..])) = parts.split_first()
            && let Some(table) = scope.table(&first.value)
        {
            return self.column_of(table, &steps(rest), scope);
        }
        let steps = steps(parts);
        let Some(first) = steps.first() else { return Err(Error::invalid("a name is empty")) };
        let tables = self.tables;
        let with = |scope: &Scope<'_>, has: Has| -> Vec<usize> {
            let found = scope.from.iter().enumerate().filter(|(_, joined)| joined.rows.has(tables, first) == has);
            found.map(|(table, _)| table).collect()
        };
        let certain = with(scope, Has::Yes);
        let candidates = if certain.is_empty() {
            if let [alias] = parts
                && let Some(index) = scope.aliases.iter().position(|(name, _)| *name == alias.value)
            {
                // Without itself, as in `upper(name) AS name`.
                let alias = scope.aliases.remove(index);
                let expression = self.expression(alias.1, scope);
                scope.aliases.insert(index, alias);
                return expression;
            }
            with(scope, Has::Perhaps)
        } else {
            certain
        };
        match candidates.as_slice() {
            [table] => self.column_of(*table, &steps, scope),
            [table, ..] if scope.using.contains(first) => self.column_of(*table, &steps, scope),
            [] => Err(self.unknown(&path::spelled(&steps), &scope.from)),
            several => {
                let name = path::spelled(&steps);
                let spelled = several.iter().filter_map(|table| scope.from.get(*table)?.name.clone());
                let spelled: Vec<String> = spelled.map(|table| format!("{table}.{name}")).collect();
                Err(Error::invalid(format!(
                    "the column `{name}` may be of several tables: write {}",
                    spelled.join(" or ")
                )))
            }
        }
    }

    fn column_of(&mut self, table: usize, steps: &[String], scope: &mut Scope<'a>) -> Result<Expression, Error> {
        let found = match scope.from.get_mut(table) {
            Some(joined) => joined.rows.column(self.tables, steps)?,
            None => None,
        };
        match found {
            Some((column, rest)) => Ok(Expression::Column(table, column).at(&rest)),
            None => Err(self.unknown(&path::spelled(steps), &scope.from)),
        }
    }

    fn unknown(&self, name: &str, from: &[Joined]) -> Error {
        let mut columns = Vec::new();
        from.iter().for_each(|joined| joined.rows.columns(self.tables, &mut columns));
        Error::UnknownColumn { name: name.to_owned(), columns }
    }
}

impl Scope<'_> {
    /// The table with this name.
    pub(super) fn table(&self, name: &str) -> Option<usize> {
        let is = |joined: &Joined| joined.name.as_ref().is_some_and(|there| there.eq_ignore_ascii_case(name));
        self.from.iter().position(is)
    }

    /// The name of a column in an error.
    pub(super) fn spelled(&self, table: usize, column: usize) -> String {
        let steps = |steps: &Vec<Step>| {
            let keys: Vec<String> = steps.iter().map(|step| String::from_utf8_lossy(&step.key).into_owned()).collect();
            if keys.is_empty() { "*".to_owned() } else { path::spelled(&keys) }
        };
        match self.from.get(table).map(|joined| &joined.rows) {
            Some(Rows::Table(_, fields)) => fields.get(column).map(steps).unwrap_or_default(),
            Some(Rows::Query(query)) => match query.names().get(column) {
                Some(Name::Plain(name)) => name.clone(),
                _ => "*".to_owned(),
            },
            _ => String::new(),
        }
    }
}

impl Rows {
    fn has(&self, tables: &[Table], name: &str) -> Has {
        match self {
            Self::Table(table, _) => match tables.get(*table) {
                Some(table) if table.fields.iter().any(|field| field == name) => Has::Yes,
                _ => Has::Perhaps,
            },
            Self::Query(query) => query.has(tables, name),
            Self::One => Has::No,
        }
    }

    /// The column of these steps, and the steps that are left inside it. Fields of records become columns when they are asked
    /// for.
    pub(super) fn column(&mut self, tables: &[Table], steps: &[String]) -> Result<Option<(usize, Vec<String>)>, Error> {
        match self {
            Self::Table(table, fields) => {
                let is_whole = matches!(steps, [only] if only == SCALAR_KEY)
                    && tables.get(*table).is_some_and(|table| table.is_scalar);
                let steps: Vec<Step> =
                    if is_whole { Vec::new() } else { steps.iter().cloned().map(Step::new).collect() };
                let column = fields.iter().position(|field| *field == steps).unwrap_or_else(|| {
                    fields.push(steps);
                    fields.len() - 1
                });
                Ok(Some((column, Vec::new())))
            }
            Self::Query(query) => query.column(tables, steps),
            Self::One => Ok(None),
        }
    }

    /// Names of its columns, as far as they are known.
    fn columns(&self, tables: &[Table], columns: &mut Vec<String>) {
        match self {
            Self::Table(table, _) => {
                columns.extend(tables.get(*table).into_iter().flat_map(|table| table.fields.clone()));
            }
            Self::Query(query) => {
                for name in query.names() {
                    match name {
                        Name::Plain(name) => columns.push(name.clone()),
                        Name::Members(_) => query.inner().for_each(|joined| joined.rows.columns(tables, columns)),
                    }
                }
            }
            Self::One => {}
        }
    }
}

impl Query {
    /// Tables of the first SELECT.
    fn inner(&self) -> impl Iterator<Item = &Joined> {
        let mut query = self;
        while let Body::Union(union) = &query.body {
            query = &union.left;
        }
        let select = match &query.body {
            Body::Select(select) => Some(select),
            Body::Union(_) => None,
        };
        select.into_iter().flat_map(|select| &select.from)
    }

    fn has(&self, tables: &[Table], name: &str) -> Has {
        if self.names().iter().any(|there| there.is(name)) {
            return Has::Yes;
        }
        match &self.body {
            Body::Union(union) => union.left.has(tables, name).max(union.right.has(tables, name)),
            Body::Select(select) => {
                let open =
                    select.names.iter().zip(&select.outputs).filter_map(|(there, output)| match (there, output) {
                        (Name::Members(except), Expression::Column(table, _))
                            if !except.iter().any(|other| other == name) =>
                        {
                            Some(select.from.get(*table)?.rows.has(tables, name))
                        }
                        _ => None,
                    });
                open.max().unwrap_or(Has::No)
            }
        }
    }

    fn column(&mut self, tables: &[Table], steps: &[String]) -> Result<Option<(usize, Vec<String>)>, Error> {
        let Some((first, rest)) = steps.split_first() else { return Ok(None) };
        if let Some(column) = self.names().iter().position(|name| name.is(first)) {
            return Ok(Some((column, rest.to_vec())));
        }
        match &mut self.body {
            Body::Union(union) => {
                let (left, right) = (union.left.column(tables, steps)?, union.right.column(tables, steps)?);
                let (Some((left, rest)), Some((right, other))) = (left, right) else { return Ok(None) };
                if rest != other {
                    return Err(Error::invalid(format!("name the column `{first}` on both sides of UNION")));
                }
                let column = union.columns.iter().position(|column| *column == (left, right)).unwrap_or_else(|| {
                    union.columns.push((left, right));
                    union.columns.len() - 1
                });
                Ok(Some((column, rest)))
            }
            Body::Select(select) => {
                let mut candidates = Vec::new();
                for (name, output) in select.names.iter().zip(&select.outputs) {
                    if let (Name::Members(except), Expression::Column(table, _)) = (name, output)
                        && !except.contains(first)
                        && let Some(joined) = select.from.get(*table)
                    {
                        candidates.push((joined.rows.has(tables, first), *table));
                    }
                }
                // The first of the tables that have it best, as `*` shows it.
                let best = candidates.iter().map(|(has, _)| *has).max();
                let Some((_, table)) = candidates.into_iter().find(|(has, _)| Some(*has) == best && *has != Has::No)
                else {
                    return Ok(None);
                };
                let Some(joined) = select.from.get_mut(table) else { return Ok(None) };
                let Some((column, rest)) = joined.rows.column(tables, steps)? else { return Ok(None) };
                let output = Expression::Column(table, column).at(&rest);
                let hidden = select.outputs.iter().position(|there| *there == output);
                let column = hidden.unwrap_or_else(|| {
                    select.outputs.push(output);
                    select.outputs.len() - 1
                });
                Ok(Some((column, Vec::new())))
            }
        }
    }
}
