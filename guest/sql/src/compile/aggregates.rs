//! Calls of functions and aggregates.

use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments};

use super::names::Scope;
use super::{Compiler, functions};
use crate::Error;
use crate::plan::{Aggregate, AggregateKind, Expression};

impl<'a> Compiler<'a> {
    pub(super) fn function(&mut self, syntax: &'a ast::Function, scope: &mut Scope<'a>) -> Result<Expression, Error> {
        let name = syntax.name.to_string().replace('"', "").to_lowercase();
        if syntax.over.is_some() {
            let instead = "use GROUP BY, and JOIN with the groups, or ORDER BY with LIMIT";
            return Err(Error::unsupported("a window function (OVER)", instead));
        }
        if !syntax.within_group.is_empty() || syntax.null_treatment.is_some() {
            return Err(Error::unsupported(format!("{name} with WITHIN GROUP or NULLS"), "leave it out"));
        }
        let (arguments, distinct) = arguments(&name, &syntax.args)?;
        if let Some(kind) = aggregate_kind(&name) {
            return self.aggregate(&name, kind, &arguments, distinct, syntax.filter.as_deref(), scope);
        }
        if distinct || syntax.filter.is_some() {
            return Err(Error::invalid(format!("DISTINCT and FILTER go with aggregates, not with {name}")));
        }
        let arguments = arguments
            .into_iter()
            .map(|argument| argument.ok_or_else(|| Error::invalid(format!("`*` goes with count, not with {name}"))));
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        if let Some(function) = functions::with_unit(&name, &arguments)? {
            let arguments = self.expressions(arguments.into_iter().skip(1), scope)?;
            return Ok(Expression::Call(function, arguments));
        }
        if matches!(name.as_str(), "json_extract" | "json_extract_string" | "json_value")
            && let [value, path] = arguments.as_slice()
        {
            return Ok(self.expression(value, scope)?.at(&functions::json_path(path)?));
        }
        let (function, least, most) = functions::named(&name)?;
        if !(least..=most).contains(&arguments.len()) {
            let count = if least == most { least.to_string() } else { format!("{least} or more") };
            return Err(Error::invalid(format!("{name} takes {count} arguments, not {}", arguments.len())));
        }
        Ok(Expression::Call(function, self.expressions(arguments, scope)?))
    }

    /// Adds an aggregate. `arguments` are `None` for `*`.
    fn aggregate(
        &mut self,
        name: &str,
        kind: AggregateKind,
        arguments: &[Option<&'a Expr>],
        distinct: bool,
        filter: Option<&'a Expr>,
        scope: &mut Scope<'a>,
    ) -> Result<Expression, Error> {
        if let Some(clause) = scope.no_aggregates {
            let instead = if clause == "WHERE" { ": use HAVING, or a subquery" } else { "" };
            return Err(Error::invalid(format!("{name} is an aggregate, which {clause} does not take{instead}")));
        }
        // Aggregates do not nest.
        scope.no_aggregates = Some("an aggregate");
        let argument = match arguments {
            [] | [None] if name == "count" => Ok(None),
            [Some(argument)] => self.expression(argument, scope).map(Some),
            _ => Err(Error::invalid(format!("{name} takes one argument, not {}", arguments.len()))),
        };
        let filter = filter.map(|filter| self.expression(filter, scope)).transpose();
        scope.no_aggregates = None;
        let (mut argument, mut filter) = (argument?, filter?);
        if name == "count_if" {
            filter = argument.take();
        }
        let aggregate = Aggregate { kind, distinct, argument, filter };
        let number = scope.aggregates.iter().position(|other| *other == aggregate).unwrap_or_else(|| {
            scope.aggregates.push(aggregate);
            scope.aggregates.len() - 1
        });
        Ok(Expression::Aggregate(number))
    }
}

fn aggregate_kind(name: &str) -> Option<AggregateKind> {
    Some(match name {
        "count" | "count_if" => AggregateKind::Count,
        "sum" => AggregateKind::Sum,
        "avg" | "mean" => AggregateKind::Average,
        "min" => AggregateKind::Least,
        "max" => AggregateKind::Greatest,
        "any_value" | "first" => AggregateKind::Any,
        _ => return None,
    })
}

/// The arguments of a call, `None` for `*`, and whether DISTINCT is before them.
fn arguments<'a>(name: &str, syntax: &'a FunctionArguments) -> Result<(Vec<Option<&'a Expr>>, bool), Error> {
    let list = match syntax {
        FunctionArguments::None => return Ok((Vec::new(), false)),
        FunctionArguments::List(list) => list,
        FunctionArguments::Subquery(_) => {
            return Err(Error::unsupported(format!("a subquery as the argument of {name}"), "put it in FROM or WITH"));
        }
    };
    if !list.clauses.is_empty() {
        return Err(Error::unsupported(format!("a clause inside {name}(…)"), "leave it out"));
    }
    let argument = |argument: &'a FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expression)) => Ok(Some(expression)),
        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => Ok(None),
        other => Err(Error::unsupported(other.to_string(), "write arguments without names")),
    };
    let arguments = list.args.iter().map(argument).collect::<Result<_, _>>()?;
    Ok((arguments, list.duplicate_treatment == Some(ast::DuplicateTreatment::Distinct)))
}

/// Names of aggregates, for errors.
pub(super) const AGGREGATES: &str = "count, count_if, sum, avg, min, max, any_value";
