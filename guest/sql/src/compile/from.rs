//! FROM: tables and joins.

use sqlparser::ast::{self, JoinConstraint, JoinOperator, TableFactor};
use sqlparser::keywords::ALL_KEYWORDS;

use super::names::{Scope, steps};
use super::{Compiler, Table};
use crate::Error;
use crate::evaluate::Function;
use crate::plan::{Expression, Joined, Rows};

impl<'a> Compiler<'a> {
    pub(super) fn from(&mut self, syntax: &'a [ast::TableWithJoins], scope: &mut Scope<'a>) -> Result<(), Error> {
        if syntax.is_empty() {
            scope.from.push(Joined::first(None, Rows::One));
        }
        for table in syntax {
            let joined = self.table(&table.relation)?;
            scope.push(joined)?;
            for join in &table.joins {
                self.join(join, scope)?;
            }
        }
        Ok(())
    }

    fn table(&mut self, syntax: &'a TableFactor) -> Result<Joined, Error> {
        let (rows, name, alias) = match syntax {
            TableFactor::Table { name, args: Some(_), .. } => {
                return Err(Error::unsupported(format!("the table function {name}"), "name a section of the offload"));
            }
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                return Err(Error::unsupported("TABLESAMPLE", "use LIMIT"));
            }
            TableFactor::Table { version: Some(_), .. } | TableFactor::Table { json_path: Some(_), .. } => {
                return Err(Error::unsupported("a version or path after a table's name", "name the table alone"));
            }
            TableFactor::Table { name, alias, .. } => {
                let name = object_name(name);
                (self.named(&name)?, Some(name), alias)
            }
            TableFactor::Derived { lateral: true, .. } => {
                return Err(Error::unsupported("LATERAL", "use JOIN … ON"));
            }
            TableFactor::Derived { subquery, alias, .. } => (Rows::Query(Box::new(self.query(subquery)?)), None, alias),
            TableFactor::NestedJoin { .. } => {
                return Err(Error::unsupported("a join in brackets", "write the joins one after another"));
            }
            TableFactor::UNNEST { .. } => return Err(unnest("UNNEST")),
            other => return Err(Error::unsupported(format!("FROM {other}"), "name a section, or use a subquery")),
        };
        if let Some(alias) = alias
            && !alias.columns.is_empty()
        {
            return Err(Error::unsupported(
                "a list of columns after a table's name",
                "name columns with AS in a SELECT",
            ));
        }
        Ok(Joined::first(alias.as_ref().map(|alias| alias.name.value.clone()).or(name), rows))
    }

    /// The rows of a WITH query or of a table.
    fn named(&mut self, name: &str) -> Result<Rows, Error> {
        if let Some(index) = self.ctes.iter().rposition(|(there, _)| there.eq_ignore_ascii_case(name)) {
            // It sees those before it only.
            let later = self.ctes.split_off(index);
            let query = match later.first() {
                Some((_, query)) => self.query(query),
                None => Err(Error::invalid("a WITH query is missing")),
            };
            self.ctes.extend(later);
            return Ok(Rows::Query(Box::new(query?)));
        }
        let position = |is: &dyn Fn(&String) -> bool| self.tables.iter().position(|table| table.names.iter().any(is));
        let found = position(&|there| there == name).or_else(|| position(&|there| there.eq_ignore_ascii_case(name)));
        match found {
            Some(table) => Ok(Rows::Table(table, Vec::new())),
            None => Err(Error::UnknownTable { name: name.to_owned(), tables: spelled(self.tables) }),
        }
    }

    fn join(&mut self, syntax: &'a ast::Join, scope: &mut Scope<'a>) -> Result<(), Error> {
        let (constraint, is_left) = match &syntax.join_operator {
            JoinOperator::Join(on) | JoinOperator::Inner(on) | JoinOperator::CrossJoin(on) => (on, false),
            JoinOperator::Left(on) | JoinOperator::LeftOuter(on) => (on, true),
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => {
                return Err(Error::unsupported("RIGHT JOIN", "exchange the tables and use LEFT JOIN"));
            }
            JoinOperator::FullOuter(_) => {
                return Err(Error::unsupported(
                    "FULL JOIN",
                    "use LEFT JOIN, and UNION ALL for the rows of the other table",
                ));
            }
            _ => return Err(Error::unsupported("this kind of join", "use JOIN, LEFT JOIN, or IN (SELECT …)")),
        };
        let mut joined = self.table(&syntax.relation)?;
        joined.is_left = is_left;
        scope.push(joined)?;
        let number = scope.from.len() - 1;
        let condition = match constraint {
            JoinConstraint::None => None,
            JoinConstraint::Natural => return Err(Error::unsupported("NATURAL JOIN", "use USING (column)")),
            JoinConstraint::On(condition) => {
                scope.no_aggregates = Some("ON");
                Some(self.expression(condition, scope)?)
            }
            JoinConstraint::Using(columns) => {
                let mut keys = Vec::new();
                for column in columns {
                    let name = object_name(column);
                    keys.push(self.using(&name, number, scope)?);
                    scope.using.push(name);
                }
                if let Some(joined) = scope.from.get_mut(number) {
                    joined.keys = keys;
                }
                None
            }
        };
        let Some(joined) = scope.from.get_mut(number) else { return Ok(()) };
        let mut others = Vec::new();
        for part in condition.map(conjuncts).unwrap_or_default() {
            match equality(part, number) {
                Ok(key) => joined.keys.push(key),
                Err(other) => others.push(other),
            }
        }
        joined.condition = match others.len() {
            0 => None,
            _ => Some(Expression::Call(Function::And, others)),
        };
        Ok(())
    }

    fn using(&mut self, name: &str, number: usize, scope: &mut Scope<'a>) -> Result<(Expression, Expression), Error> {
        let missing = || Error::invalid(format!("USING: no table before has the column `{name}`"));
        let steps = steps(&[ast::Ident::new(name)]);
        let mut found = Vec::new();
        for table in (0..=number).rev() {
            let Some(joined) = scope.from.get_mut(table) else { continue };
            if let Some((column, rest)) = joined.rows.column(self.tables, &steps)? {
                found.push(Expression::Column(table, column).at(&rest));
            }
            // Of the tables before, the nearest.
            if found.len() == 2 {
                break;
            }
        }
        let mut found = found.into_iter();
        match (found.next(), found.next()) {
            (Some(right), Some(left)) => Ok((left, right)),
            _ => Err(missing()),
        }
    }
}

impl Scope<'_> {
    fn push(&mut self, joined: Joined) -> Result<(), Error> {
        if let Some(name) = &joined.name
            && self.table(name).is_some()
        {
            return Err(Error::invalid(format!("two tables are named `{name}`: give one another name with AS")));
        }
        self.from.push(joined);
        Ok(())
    }

    /// Makes equalities of WHERE keys of inner joins, so that `FROM a, b WHERE a.x = b.y` need not compare all pairs.
    pub(super) fn add_keys(&mut self, filter: &Expression) {
        for part in conjuncts(filter.clone()) {
            for number in 1..self.from.len() {
                if let Some(joined) = self.from.get_mut(number)
                    && !joined.is_left
                    && let Ok(key) = equality(part.clone(), number)
                {
                    joined.keys.push(key);
                }
            }
        }
    }
}

/// The parts of a condition that must all hold.
fn conjuncts(condition: Expression) -> Vec<Expression> {
    match condition {
        Expression::Call(Function::And, parts) => parts.into_iter().flat_map(conjuncts).collect(),
        other => vec![other],
    }
}

/// An equality as key: of the tables before one, and of that one.
fn equality(condition: Expression, number: usize) -> Result<(Expression, Expression), Expression> {
    let Expression::Call(Function::Equal, sides) = &condition else { return Err(condition) };
    let [left, right] = sides.as_slice() else { return Err(condition) };
    let is_here = |side: &Expression| tables(side).iter().all(|table| *table == number) && !tables(side).is_empty();
    let is_before = |side: &Expression| tables(side).iter().all(|table| *table < number) && !tables(side).is_empty();
    match () {
        () if is_before(left) && is_here(right) => Ok((left.clone(), right.clone())),
        () if is_here(left) && is_before(right) => Ok((right.clone(), left.clone())),
        () => Err(condition),
    }
}

/// The tables whose columns an expression has.
fn tables(expression: &Expression) -> Vec<usize> {
    let mut tables = Vec::new();
    expression.walk(&mut |part| {
        if let Expression::Column(table, _) = part {
            tables.push(*table);
        }
    });
    tables
}

/// A name of several parts, such as `result.items`.
pub(super) fn object_name(name: &ast::ObjectName) -> String {
    let part = |part: &ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(part) => part.value.clone(),
        other => other.to_string(),
    };
    name.0.iter().map(part).collect::<Vec<_>>().join(".")
}

/// The names of tables, as SQL writes them.
fn spelled(tables: &[Table]) -> Vec<String> {
    let is_plain = |name: &str| {
        let is_keyword = ALL_KEYWORDS.binary_search(&name.to_uppercase().as_str()).is_ok();
        !is_keyword
            && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let spelled =
        |name: &String| if is_plain(name) { name.clone() } else { format!("\"{}\"", name.replace('"', "\"\"")) };
    tables.iter().filter_map(|table| table.names.first()).map(spelled).collect()
}

/// The error for what makes rows of elements.
pub(super) fn unnest(what: &str) -> Error {
    Error::unsupported(
        what,
        "read elements by number, such as items[1], count them by `group_by`: \"items[].name\", or use jq, such as .items[]",
    )
}
