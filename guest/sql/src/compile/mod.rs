//! Syntax tree to plan: queries.

mod aggregates;
mod expressions;
mod from;
mod functions;
mod names;
mod select;

use sqlparser::ast;

use crate::parse::{DEPTH_MAX, nesting, parse};
use crate::plan::{Body, Expression, Joined, Name, Order, Query, Rows, Select, Union};
use crate::{Error, Value};

/// How often a query may say SELECT, each use of a WITH counted: 100.
pub const QUERIES_MAX: usize = 100;

/// A table that a query may name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Its names, the one that errors show first. Upper and lower case are the same where that is unambiguous.
    pub names: Vec<String>,
    /// Names of fields that its first records have. They decide which table an unqualified name belongs to.
    pub fields: Vec<String>,
    /// Whether its records are not objects: then `value` is the whole record.
    pub is_scalar: bool,
}

/// A query that can be run.
#[derive(Clone, Debug)]
pub struct Statement {
    pub(crate) query: Query,
    /// Subqueries of expressions, and whether they are sets for IN or single values.
    pub(crate) subqueries: Vec<(Query, bool)>,
}

impl Statement {
    /// Reads a query over these tables.
    ///
    /// # Errors
    /// All but [`Error::Value`], [`Error::Damaged`] and [`Error::Scan`].
    pub fn read(sql: &str, tables: &[Table]) -> Result<Self, Error> {
        let syntax = parse(sql)?;
        let mut compiler =
            Compiler { tables, ctes: Vec::new(), subqueries: Vec::new(), places: Vec::new(), queries: 0, depth: 0 };
        let query = compiler.query(&syntax)?;
        Ok(Self { query, subqueries: compiler.subqueries })
    }
}

struct Compiler<'a> {
    tables: &'a [Table],
    /// The WITH queries in scope. Each one sees those before it.
    ctes: Vec<(&'a str, &'a ast::Query)>,
    subqueries: Vec<(Query, bool)>,
    /// Where the subqueries stand. An expression that is compiled twice, for a key of GROUP BY and as output, has one.
    places: Vec<&'a ast::Query>,
    queries: usize,
    depth: usize,
}

impl<'a> Compiler<'a> {
    /// Does something one level deeper.
    fn deeper<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        // An expression in brackets is two levels for the parser.
        if self.depth >= 2 * DEPTH_MAX {
            return Err(nesting());
        }
        self.depth += 1;
        let result = work(self);
        self.depth -= 1;
        result
    }

    fn query(&mut self, syntax: &'a ast::Query) -> Result<Query, Error> {
        self.deeper(|compiler| {
            let outer = compiler.ctes.len();
            let query = compiler.query_with(syntax);
            compiler.ctes.truncate(outer);
            query
        })
    }

    fn query_with(&mut self, syntax: &'a ast::Query) -> Result<Query, Error> {
        let ast::Query {
            with,
            body,
            order_by,
            limit_clause,
            fetch,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = syntax;
        if fetch.is_some() {
            return Err(Error::unsupported("FETCH", "use LIMIT"));
        }
        let has_others = !locks.is_empty() || for_clause.is_some() || settings.is_some() || format_clause.is_some();
        if has_others || !pipe_operators.is_empty() {
            return Err(Error::unsupported("a clause after LIMIT", "end the query there"));
        }
        if let Some(with) = with {
            if with.recursive {
                return Err(Error::unsupported("WITH RECURSIVE", "use WITH"));
            }
            for cte in &with.cte_tables {
                if !cte.alias.columns.is_empty() {
                    return Err(Error::unsupported(
                        "a list of columns after the name in WITH",
                        "name them in its SELECT with AS",
                    ));
                }
                self.ctes.push((&cte.alias.name.value, &cte.query));
            }
        }
        let order_by = order_expressions(order_by.as_ref())?;
        let (offset, limit) = limits(limit_clause.as_ref())?;
        let (body, order) = self.body(body, order_by)?;
        Ok(Query { body, order, offset, limit })
    }

    fn body(
        &mut self,
        syntax: &'a ast::SetExpr,
        order_by: &'a [ast::OrderByExpr],
    ) -> Result<(Body, Vec<Order>), Error> {
        match syntax {
            ast::SetExpr::Select(select) => {
                let (select, order) = self.select(select, order_by)?;
                Ok((Body::Select(Box::new(select)), order))
            }
            ast::SetExpr::Query(query) => {
                let body = Body::Select(Box::new(all_of(self.query(query)?)));
                let order = output_order(body_names(&body), order_by)?;
                Ok((body, order))
            }
            ast::SetExpr::SetOperation { left, op, set_quantifier, right } => {
                let body = self.deeper(|compiler| compiler.union(left, *op, *set_quantifier, right))?;
                let order = output_order(body_names(&body), order_by)?;
                Ok((body, order))
            }
            ast::SetExpr::Values(_) => Err(Error::unsupported("VALUES", "use SELECT … UNION ALL SELECT …")),
            _ => Err(Error::unsupported("a statement that changes data", "use SELECT")),
        }
    }

    fn union(
        &mut self,
        left: &'a ast::SetExpr,
        operator: ast::SetOperator,
        quantifier: ast::SetQuantifier,
        right: &'a ast::SetExpr,
    ) -> Result<Body, Error> {
        if operator != ast::SetOperator::Union {
            return Err(Error::unsupported(operator.to_string(), "use WHERE … IN (SELECT …) or NOT IN (SELECT …)"));
        }
        let distinct = match quantifier {
            ast::SetQuantifier::All => false,
            ast::SetQuantifier::None | ast::SetQuantifier::Distinct => true,
            _ => return Err(Error::unsupported("UNION BY NAME", "name the columns in the same order, with UNION ALL")),
        };
        let mut side = |syntax| {
            let (body, order) = self.body(syntax, &[])?;
            Ok::<_, Error>(Query { body, order, offset: 0, limit: None })
        };
        let (left, right) = (side(left)?, side(right)?);
        let names = left.names().to_vec();
        let is_open = |name: &Name| matches!(name, Name::Members(_));
        let same = names.len() == right.names().len()
            && names.iter().zip(right.names()).all(|(left, right)| is_open(left) == is_open(right));
        if !same {
            return Err(Error::invalid(
                "the sides of UNION have different columns: name the same number of them on both sides, or * on both",
            ));
        }
        let columns = (0..names.len()).map(|column| (column, column)).collect();
        Ok(Body::Union(Box::new(Union { left, right, distinct, names, columns })))
    }
}

fn body_names(body: &Body) -> &[Name] {
    match body {
        Body::Select(select) => &select.names,
        Body::Union(union) => &union.names,
    }
}

/// All columns of a query in brackets.
fn all_of(query: Query) -> Select {
    let names = query.names().to_vec();
    let outputs = (0..names.len()).map(|column| Expression::Column(0, column)).collect();
    let from = vec![Joined::first(None, Rows::Query(Box::new(query)))];
    Select { from, filter: None, group: None, having: None, outputs, names, distinct: false }
}

impl Joined {
    fn first(name: Option<String>, rows: Rows) -> Self {
        Self { name, rows, is_left: false, keys: Vec::new(), condition: None }
    }
}

fn order_expressions(order_by: Option<&ast::OrderBy>) -> Result<&[ast::OrderByExpr], Error> {
    match order_by.map(|order_by| &order_by.kind) {
        None => Ok(&[]),
        Some(ast::OrderByKind::Expressions(expressions)) => Ok(expressions),
        Some(ast::OrderByKind::All(_)) => Err(Error::unsupported("ORDER BY ALL", "name the columns")),
    }
}

/// Offset and limit.
fn limits(clause: Option<&ast::LimitClause>) -> Result<(u64, Option<u64>), Error> {
    let number = |expression: &ast::Expr| match expression {
        ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, _), .. }) => {
            text.parse().map_err(|_| Error::invalid(format!("LIMIT and OFFSET take a whole number, not {text}")))
        }
        other => Err(Error::unsupported(format!("LIMIT or OFFSET {other}"), "write a number")),
    };
    match clause {
        None => Ok((0, None)),
        Some(ast::LimitClause::OffsetCommaLimit { offset, limit }) => Ok((number(offset)?, Some(number(limit)?))),
        Some(ast::LimitClause::LimitOffset { limit, offset, limit_by }) => {
            if !limit_by.is_empty() {
                return Err(Error::unsupported("LIMIT BY", "use GROUP BY, or LIMIT of the whole result"));
            }
            let offset = offset.as_ref().map_or(Ok(0), |offset| number(&offset.value))?;
            Ok((offset, limit.as_ref().map(number).transpose()?))
        }
    }
}

/// An order of results by their names and positions.
fn output_order(names: &[Name], order_by: &[ast::OrderByExpr]) -> Result<Vec<Order>, Error> {
    let column = |syntax: &ast::OrderByExpr| match output_column(names, &syntax.expr)? {
        Some(column) => Ok(ordered(column, syntax)),
        None => Err(Error::unsupported(
            format!("ORDER BY {} of a UNION or a query in brackets", syntax.expr),
            "order by a selected column or its number, or write SELECT * FROM (…) ORDER BY …",
        )),
    };
    order_by.iter().map(column).collect()
}

/// The column of results that an expression of ORDER BY or GROUP BY names, by its name or position.
fn output_column(names: &[Name], expression: &ast::Expr) -> Result<Option<usize>, Error> {
    match expression {
        ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, _), .. }) => {
            let before = text.parse::<usize>().ok().and_then(|position| position.checked_sub(1));
            match before.filter(|column| *column < names.len()) {
                Some(column) if names.iter().take(column + 1).any(|name| matches!(name, Name::Members(_))) => {
                    Err(Error::unsupported(format!("position {text} with *"), "name the column"))
                }
                Some(column) => Ok(Some(column)),
                None => Err(Error::invalid(format!("position {text}: the selected columns are 1 to {}", names.len()))),
            }
        }
        ast::Expr::Identifier(name) => Ok(names.iter().position(|there| there.is(&name.value))),
        _ => Ok(None),
    }
}

/// Nulls come last unless the order says otherwise.
fn ordered(column: usize, syntax: &ast::OrderByExpr) -> Order {
    let descending = matches!(syntax.options.sort, Some(ast::OrderBySort::Desc));
    Order { column, descending, nulls_first: syntax.options.nulls_first == Some(true) }
}

/// A constant.
fn constant(value: &ast::Value) -> Result<Value, Error> {
    Ok(match value {
        ast::Value::Null => Value::Null,
        ast::Value::Boolean(boolean) => Value::Boolean(*boolean),
        ast::Value::Number(text, _) => {
            let plain = text.replace('_', "");
            crate::value::number(&plain).ok_or_else(|| Error::Syntax(format!("`{text}` is not a number")))?
        }
        ast::Value::SingleQuotedString(text)
        | ast::Value::EscapedStringLiteral(text)
        | ast::Value::NationalStringLiteral(text) => Value::text(text.as_str()),
        other => return Err(Error::unsupported(other.to_string(), "write a text in single quotes, or a number")),
    })
}
