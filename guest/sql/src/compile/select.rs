//! One SELECT.

use std::collections::HashSet;

use sqlparser::ast::{self, SelectItem};

use super::names::Scope;
use super::{Compiler, QUERIES_MAX, from, ordered, output_column};
use crate::Error;
use crate::plan::{Expression, Grouping, Name, Order, Rows, Select};
use crate::write::unused;

impl<'a> Compiler<'a> {
    pub(super) fn select(
        &mut self,
        syntax: &'a ast::Select,
        order_by: &'a [ast::OrderByExpr],
    ) -> Result<(Select, Vec<Order>), Error> {
        self.queries += 1;
        if self.queries > QUERIES_MAX {
            let message =
                format!("sql-queries: the query has more than {QUERIES_MAX} times SELECT, each use of a WITH counted");
            return Err(Error::Limit(message));
        }
        refuse_others(syntax)?;
        let distinct = match &syntax.distinct {
            None | Some(ast::Distinct::All) => false,
            Some(ast::Distinct::Distinct) => true,
            Some(ast::Distinct::On(_)) => {
                return Err(Error::unsupported("DISTINCT ON", "use GROUP BY with min or max"));
            }
        };
        let mut scope = Scope::default();
        self.from(&syntax.from, &mut scope)?;
        scope.aliases = aliases(&syntax.projection);
        let filter = match &syntax.selection {
            Some(filter) => {
                scope.no_aggregates = Some("WHERE");
                let filter = self.expression(filter, &mut scope)?;
                scope.add_keys(&filter);
                Some(filter)
            }
            None => None,
        };
        let group_keys = self.group_keys(&syntax.group_by, &syntax.projection, &mut scope)?;
        scope.no_aggregates = None;
        let mut outputs = Vec::new();
        for item in &syntax.projection {
            self.item(item, &mut scope, &mut outputs)?;
        }
        let having = syntax.having.as_ref().map(|having| self.expression(having, &mut scope)).transpose()?;
        let (names, mut outputs): (Vec<Name>, Vec<Expression>) = named_once(outputs).into_iter().unzip();
        let mut order = Vec::new();
        for key in order_by {
            let column = self.order_column(key, &names, &mut outputs, &mut scope)?;
            if distinct && column >= names.len() {
                return Err(Error::invalid(format!("ORDER BY {} of SELECT DISTINCT: select it too", key.expr)));
            }
            order.push(ordered(column, key));
        }
        let keys = group_keys.unwrap_or_else(|| {
            // GROUP BY ALL: what has no aggregate.
            outputs.iter().take(names.len()).filter(|output| !has_aggregate(output)).cloned().collect()
        });
        let is_grouped = !keys.is_empty() || !scope.aggregates.is_empty() || having.is_some();
        let mut select = Select { from: Vec::new(), filter, group: None, having, outputs, names, distinct };
        if is_grouped {
            let grouped = |output: &Expression| grouped(output, &keys, &scope);
            select.outputs = select.outputs.iter().map(grouped).collect::<Result<_, _>>()?;
            select.having = select.having.as_ref().map(grouped).transpose()?;
            select.group = Some(Grouping { keys, aggregates: std::mem::take(&mut scope.aggregates) });
        }
        select.from = scope.from;
        Ok((select, order))
    }

    /// The keys of GROUP BY; `None` for GROUP BY ALL.
    fn group_keys(
        &mut self,
        syntax: &'a ast::GroupByExpr,
        projection: &'a [SelectItem],
        scope: &mut Scope<'a>,
    ) -> Result<Option<Vec<Expression>>, Error> {
        scope.no_aggregates = Some("GROUP BY");
        let (expressions, modifiers) = match syntax {
            ast::GroupByExpr::All(modifiers) => (None, modifiers),
            ast::GroupByExpr::Expressions(expressions, modifiers) => (Some(expressions), modifiers),
        };
        if !modifiers.is_empty() {
            return Err(Error::unsupported(
                "GROUP BY with ROLLUP, CUBE or TOTALS",
                "use UNION ALL of several GROUP BY",
            ));
        }
        let Some(expressions) = expressions else { return Ok(None) };
        let mut keys = Vec::new();
        for expression in expressions {
            let expression = match expression {
                ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, _), .. }) => {
                    let before = text.parse::<usize>().ok().and_then(|position| position.checked_sub(1));
                    match before.and_then(|column| projection.get(column)) {
                        Some(
                            SelectItem::UnnamedExpr(expression) | SelectItem::ExprWithAlias { expr: expression, .. },
                        ) => expression,
                        _ => {
                            return Err(Error::invalid(format!(
                                "GROUP BY {text}: no selected column has this position"
                            )));
                        }
                    }
                }
                other => other,
            };
            keys.push(self.expression(expression, scope)?);
        }
        Ok(Some(keys))
    }

    fn item(
        &mut self,
        item: &'a SelectItem,
        scope: &mut Scope<'a>,
        outputs: &mut Vec<(Name, Expression)>,
    ) -> Result<(), Error> {
        match item {
            SelectItem::UnnamedExpr(expression) => {
                let name = Name::Plain(default_name(expression));
                outputs.push((name, self.expression(expression, scope)?));
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                // Without itself, as in `upper(name) AS name`.
                let own = scope.aliases.iter().position(|(name, _)| *name == alias.value);
                let own = own.map(|index| (index, scope.aliases.remove(index)));
                let compiled = self.expression(expr, scope);
                if let Some((index, own)) = own {
                    scope.aliases.insert(index, own);
                }
                outputs.push((Name::Plain(alias.value.clone()), compiled?));
            }
            SelectItem::Wildcard(options) => {
                let except = excluded(options)?;
                if matches!(scope.from.as_slice(), [only] if matches!(only.rows, Rows::One)) {
                    return Err(Error::invalid("SELECT * needs FROM"));
                }
                for table in 0..scope.from.len() {
                    let mut except = except.clone();
                    if table > 0 {
                        except.extend(scope.using.iter().cloned());
                    }
                    self.members(table, &except, scope, outputs)?;
                }
            }
            SelectItem::QualifiedWildcard(ast::SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let name = from::object_name(name);
                let except = excluded(options)?;
                let Some(table) = scope.table(&name) else {
                    let tables = scope.from.iter().filter_map(|joined| joined.name.clone()).collect();
                    return Err(Error::UnknownTable { name, tables });
                };
                self.members(table, &except, scope, outputs)?;
            }
            other => return Err(Error::unsupported(other.to_string(), "name the columns one by one")),
        }
        Ok(())
    }

    /// All columns of a table.
    fn members(
        &mut self,
        table: usize,
        except: &[String],
        scope: &mut Scope<'a>,
        outputs: &mut Vec<(Name, Expression)>,
    ) -> Result<(), Error> {
        let Some(joined) = scope.from.get_mut(table) else { return Ok(()) };
        if let Rows::Query(query) = &joined.rows {
            for (column, name) in query.names().iter().enumerate() {
                let name = match name {
                    Name::Plain(name) if except.contains(name) => continue,
                    Name::Plain(name) => Name::Plain(name.clone()),
                    Name::Members(others) => Name::Members([others, except].concat()),
                };
                outputs.push((name, Expression::Column(table, column)));
            }
        } else if let Some((column, _)) = joined.rows.column(self.tables, &[])? {
            outputs.push((Name::Members(except.to_vec()), Expression::Column(table, column)));
        }
        Ok(())
    }

    /// The output of a key of ORDER BY: one that is selected, or a hidden one.
    fn order_column(
        &mut self,
        key: &'a ast::OrderByExpr,
        names: &[Name],
        outputs: &mut Vec<Expression>,
        scope: &mut Scope<'a>,
    ) -> Result<usize, Error> {
        if key.with_fill.is_some() {
            return Err(Error::unsupported("WITH FILL", "leave it out"));
        }
        if let Some(column) = output_column(names, &key.expr)? {
            return Ok(column);
        }
        let expression = self.expression(&key.expr, scope)?;
        Ok(outputs.iter().position(|output| *output == expression).unwrap_or_else(|| {
            outputs.push(expression);
            outputs.len() - 1
        }))
    }
}

/// The names that expressions are selected as.
fn aliases(projection: &[SelectItem]) -> Vec<(&str, &ast::Expr)> {
    let mut aliases = Vec::new();
    for item in projection {
        if let SelectItem::ExprWithAlias { expr, alias } = item {
            aliases.push((alias.value.as_str(), expr));
        }
    }
    aliases
}

/// The name of an expression that is selected without one: of a column its last part, of others their SQL.
fn default_name(expression: &ast::Expr) -> String {
    match expression {
        ast::Expr::Identifier(name) => name.value.clone(),
        ast::Expr::CompoundIdentifier(parts) => parts.last().map(|part| part.value.clone()).unwrap_or_default(),
        other => other.to_string(),
    }
}

/// Gives names that are there twice a number.
fn named_once(outputs: Vec<(Name, Expression)>) -> Vec<(Name, Expression)> {
    let mut used = HashSet::new();
    let once = |(name, output)| match name {
        Name::Plain(name) => (Name::Plain(unused(&mut used, &name)), output),
        members => (members, output),
    };
    outputs.into_iter().map(once).collect()
}

fn excluded(options: &ast::WildcardAdditionalOptions) -> Result<Vec<String>, Error> {
    if options.opt_ilike.is_some() || options.opt_replace.is_some() || options.opt_rename.is_some() {
        return Err(Error::unsupported("* with ILIKE, REPLACE or RENAME", "use * EXCLUDE (…), or name the columns"));
    }
    let mut names = Vec::new();
    match &options.opt_exclude {
        Some(ast::ExcludeSelectItem::Single(name)) => names.push(from::object_name(name)),
        Some(ast::ExcludeSelectItem::Multiple(several)) => names.extend(several.iter().map(from::object_name)),
        None => {}
    }
    if let Some(except) = &options.opt_except {
        names.push(except.first_element.value.clone());
        names.extend(except.additional_elements.iter().map(|name| name.value.clone()));
    }
    Ok(names)
}

fn has_aggregate(expression: &Expression) -> bool {
    let mut has = false;
    expression.walk(&mut |part| has |= matches!(part, Expression::Aggregate(_)));
    has
}

/// An expression over rows of FROM as one over rows of groups.
fn grouped(expression: &Expression, keys: &[Expression], scope: &Scope<'_>) -> Result<Expression, Error> {
    if let Some(key) = keys.iter().position(|key| key == expression) {
        return Ok(Expression::Column(0, key));
    }
    match expression {
        Expression::Value(_) | Expression::Subquery(_) => Ok(expression.clone()),
        Expression::Aggregate(number) => Ok(Expression::Column(1, *number)),
        Expression::Call(function, arguments) => {
            let arguments =
                arguments.iter().map(|argument| grouped(argument, keys, scope)).collect::<Result<_, _>>()?;
            Ok(Expression::Call(function.clone(), arguments))
        }
        Expression::Column(table, column) => {
            let name = scope.spelled(*table, *column);
            Err(Error::invalid(format!(
                "the column `{name}` must be in GROUP BY, or in an aggregate such as any_value({name})"
            )))
        }
    }
}

/// Clauses outside the subset.
fn refuse_others(syntax: &ast::Select) -> Result<(), Error> {
    let clauses = [
        (syntax.projection.is_empty(), "FROM without SELECT", "write SELECT * FROM …"),
        (syntax.top.is_some(), "TOP", "use LIMIT"),
        (syntax.into.is_some(), "INTO", "use SELECT alone"),
        (!syntax.lateral_views.is_empty(), "LATERAL VIEW", "use jq for elements of arrays"),
        (syntax.prewhere.is_some(), "PREWHERE", "use WHERE"),
        (!syntax.connect_by.is_empty(), "CONNECT BY", "use JOIN"),
        (!syntax.cluster_by.is_empty() || !syntax.distribute_by.is_empty(), "CLUSTER BY", "use ORDER BY"),
        (!syntax.sort_by.is_empty(), "SORT BY", "use ORDER BY"),
        (syntax.qualify.is_some(), "QUALIFY", "use a subquery in FROM and WHERE"),
        (!syntax.named_window.is_empty(), "WINDOW", "use GROUP BY"),
        (syntax.exclude.is_some(), "EXCLUDE after the list", "write * EXCLUDE (…)"),
        (syntax.value_table_mode.is_some(), "AS STRUCT or AS VALUE", "leave it out"),
    ];
    match clauses.iter().find(|(is_there, ..)| *is_there) {
        Some((_, clause, instead)) => Err(Error::unsupported(*clause, instead)),
        None => Ok(()),
    }
}
