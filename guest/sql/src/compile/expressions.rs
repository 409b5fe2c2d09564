//! Expressions.

use std::rc::Rc;

use sqlparser::ast::{self, BinaryOperator, Expr, UnaryOperator};

use super::names::Scope;
use super::{Compiler, constant, functions};
use crate::Error;
use crate::evaluate::{Function, Type, Unit, cast};
use crate::plan::{Expression, Name};
use crate::set::Set;

/// A call.
pub(super) fn call<const N: usize>(function: Function, arguments: [Expression; N]) -> Expression {
    Expression::Call(function, arguments.into())
}

fn negated_if(negated: bool, expression: Expression) -> Expression {
    if negated { call(Function::Not, [expression]) } else { expression }
}

/// A CAST; of a constant, such as `DATE '2024-05-31'`, its value, so that it is not read for each row.
fn cast_to(to: Type, or_null: bool, value: Expression) -> Expression {
    match &value {
        Expression::Value(constant) if !constant.is_null() => cast(constant, to).map(Expression::Value).ok(),
        _ => None,
    }
    .unwrap_or_else(|| call(Function::Cast { to, or_null }, [value]))
}

impl<'a> Compiler<'a> {
    pub(super) fn expression(&mut self, syntax: &'a Expr, scope: &mut Scope<'a>) -> Result<Expression, Error> {
        self.deeper(|compiler| compiler.shallow(syntax, scope))
    }

    pub(super) fn expressions(
        &mut self,
        syntax: impl IntoIterator<Item = &'a Expr>,
        scope: &mut Scope<'a>,
    ) -> Result<Vec<Expression>, Error> {
        syntax.into_iter().map(|syntax| self.expression(syntax, scope)).collect()
    }

    fn shallow(&mut self, syntax: &'a Expr, scope: &mut Scope<'a>) -> Result<Expression, Error> {
        match syntax {
            Expr::Identifier(name) => self.column(std::slice::from_ref(name), scope),
            Expr::CompoundIdentifier(names) => self.column(names, scope),
            Expr::CompoundFieldAccess { root, access_chain } => self.access(root, access_chain, scope),
            Expr::Nested(inner) => self.expression(inner, scope),
            Expr::Value(value) => constant(&value.value).map(Expression::Value),
            Expr::BinaryOp { left, op, right } => self.binary(syntax, left, op, right, scope),
            Expr::UnaryOp { op, expr } => {
                let value = self.expression(expr, scope)?;
                match op {
                    UnaryOperator::Plus => Ok(value),
                    UnaryOperator::Minus => Ok(call(Function::Negate, [value])),
                    UnaryOperator::Not | UnaryOperator::BangNot => Ok(call(Function::Not, [value])),
                    other => Err(Error::unsupported(format!("the operator {other}"), "use + - * / // % or a function")),
                }
            }
            Expr::IsNull(value) => Ok(call(Function::IsNull, [self.expression(value, scope)?])),
            Expr::IsNotNull(value) => Ok(negated_if(true, call(Function::IsNull, [self.expression(value, scope)?]))),
            Expr::IsTrue(value) => Ok(call(Function::IsTrue, [self.expression(value, scope)?])),
            Expr::IsNotTrue(value) => Ok(negated_if(true, call(Function::IsTrue, [self.expression(value, scope)?]))),
            Expr::IsFalse(value) => Ok(call(Function::IsFalse, [self.expression(value, scope)?])),
            Expr::IsNotFalse(value) => Ok(negated_if(true, call(Function::IsFalse, [self.expression(value, scope)?]))),
            Expr::IsDistinctFrom(left, right) => {
                Ok(negated_if(true, self.call_of(Function::Same, [&**left, &**right], scope)?))
            }
            Expr::IsNotDistinctFrom(left, right) => self.call_of(Function::Same, [&**left, &**right], scope),
            Expr::Between { expr, negated, low, high } => {
                let from = self.call_of(Function::GreaterEqual, [&**expr, &**low], scope)?;
                let to = self.call_of(Function::LessEqual, [&**expr, &**high], scope)?;
                Ok(negated_if(*negated, call(Function::And, [from, to])))
            }
            Expr::InList { expr, list, negated } => {
                let value = self.expression(expr, scope)?;
                Ok(negated_if(*negated, self.in_list(value, list, scope)?))
            }
            Expr::InSubquery { expr, subquery, negated } => {
                let value = self.expression(expr, scope)?;
                let number = self.subquery(subquery, true)?;
                Ok(negated_if(*negated, call(Function::InSubquery(number), [value])))
            }
            Expr::Subquery(query) => Ok(Expression::Subquery(self.subquery(query, false)?)),
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                let like = self.like([expr, pattern], escape_char.as_deref(), false, scope)?;
                Ok(negated_if(*negated, like))
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                let like = self.like([expr, pattern], escape_char.as_deref(), true, scope)?;
                Ok(negated_if(*negated, like))
            }
            Expr::Case { operand, conditions, else_result, .. } => {
                let mut arguments = Vec::new();
                for when in conditions {
                    arguments.push(match operand {
                        Some(operand) => self.call_of(Function::Equal, [&**operand, &when.condition], scope)?,
                        None => self.expression(&when.condition, scope)?,
                    });
                    arguments.push(self.expression(&when.result, scope)?);
                }
                if let Some(otherwise) = else_result {
                    arguments.push(self.expression(otherwise, scope)?);
                }
                Ok(Expression::Call(Function::Case, arguments))
            }
            Expr::Cast { kind, expr, data_type, format: None } => {
                let or_null = matches!(kind, ast::CastKind::TryCast | ast::CastKind::SafeCast);
                let value = self.expression(expr, scope)?;
                Ok(cast_to(type_of(data_type)?, or_null, value))
            }
            Expr::TypedString(typed) => {
                let text = Expression::Value(constant(&typed.value.value)?);
                Ok(cast_to(type_of(&typed.data_type)?, false, text))
            }
            Expr::Extract { field, expr, .. } => {
                let function = Function::DatePart(unit(&field.to_string())?);
                self.call_of(function, [&**expr], scope)
            }
            Expr::Ceil { expr, field } => self.floor_or_ceil(Function::Ceil, expr, field, scope),
            Expr::Floor { expr, field } => self.floor_or_ceil(Function::Floor, expr, field, scope),
            Expr::Position { expr, r#in } => self.call_of(Function::Position, [&**r#in, &**expr], scope),
            Expr::Substring { expr, substring_from, substring_for, .. } => {
                let mut arguments = vec![self.expression(expr, scope)?];
                arguments.push(match substring_from {
                    Some(from) => self.expression(from, scope)?,
                    None => Expression::Value(crate::Value::Integer(1)),
                });
                if let Some(length) = substring_for {
                    arguments.push(self.expression(length, scope)?);
                }
                Ok(Expression::Call(Function::Substring, arguments))
            }
            Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
                let (start, end) = match trim_where {
                    Some(ast::TrimWhereField::Leading) => (true, false),
                    Some(ast::TrimWhereField::Trailing) => (false, true),
                    Some(ast::TrimWhereField::Both) | None => (true, true),
                };
                let mut arguments = vec![self.expression(expr, scope)?];
                let characters = trim_what.as_deref().or_else(|| trim_characters.as_ref()?.first());
                if let Some(characters) = characters {
                    arguments.push(self.expression(characters, scope)?);
                }
                Ok(Expression::Call(Function::Trim { start, end }, arguments))
            }
            Expr::Function(function) => self.function(function, scope),
            other => Err(unsupported(other)),
        }
    }

    /// A call of some arguments.
    fn call_of<const N: usize>(
        &mut self,
        function: Function,
        arguments: [&'a Expr; N],
        scope: &mut Scope<'a>,
    ) -> Result<Expression, Error> {
        Ok(Expression::Call(function, self.expressions(arguments, scope)?))
    }

    fn binary(
        &mut self,
        syntax: &'a Expr,
        left: &'a Expr,
        operator: &BinaryOperator,
        right: &'a Expr,
        scope: &mut Scope<'a>,
    ) -> Result<Expression, Error> {
        let function = match operator {
            BinaryOperator::And => return self.chain(Function::And, syntax, operator, scope),
            BinaryOperator::Or => return self.chain(Function::Or, syntax, operator, scope),
            BinaryOperator::StringConcat => return self.chain(Function::Join, syntax, operator, scope),
            BinaryOperator::Eq => Function::Equal,
            BinaryOperator::NotEq => Function::NotEqual,
            BinaryOperator::Lt => Function::Less,
            BinaryOperator::LtEq => Function::LessEqual,
            BinaryOperator::Gt => Function::Greater,
            BinaryOperator::GtEq => Function::GreaterEqual,
            BinaryOperator::Plus => Function::Add,
            BinaryOperator::Minus => Function::Subtract,
            BinaryOperator::Multiply => Function::Multiply,
            BinaryOperator::Divide => Function::Divide,
            BinaryOperator::DuckIntegerDivide => Function::IntegerDivide,
            BinaryOperator::Modulo => Function::Modulo,
            BinaryOperator::PGExp | BinaryOperator::BitwiseXor => Function::Power,
            BinaryOperator::Arrow | BinaryOperator::LongArrow => {
                let inside = self.expression(left, scope)?.at(&functions::json_path(right)?);
                let is_text = *operator == BinaryOperator::LongArrow;
                return Ok(if is_text {
                    call(Function::Cast { to: Type::Text, or_null: false }, [inside])
                } else {
                    inside
                });
            }
            BinaryOperator::Regexp
            | BinaryOperator::PGRegexMatch
            | BinaryOperator::PGRegexIMatch
            | BinaryOperator::PGRegexNotMatch
            | BinaryOperator::PGRegexNotIMatch => {
                let instead = "use LIKE or ILIKE, or the operator `matches` of a typed query";
                return Err(Error::unsupported("a regular expression", instead));
            }
            other => {
                let instead = "use + - * / // % ^ || = <> < <= > >= AND OR, or a function";
                return Err(Error::unsupported(format!("the operator {other}"), instead));
            }
        };
        self.call_of(function, [left, right], scope)
    }

    /// A chain of one operator as one call, however long it is.
    fn chain(
        &mut self,
        function: Function,
        syntax: &'a Expr,
        operator: &BinaryOperator,
        scope: &mut Scope<'a>,
    ) -> Result<Expression, Error> {
        let (mut rights, mut left) = (Vec::new(), syntax);
        while let Expr::BinaryOp { left: next, op, right } = left
            && op == operator
        {
            rights.push(&**right);
            left = next;
        }
        let first = self.expression(left, scope)?;
        let mut arguments = vec![first];
        arguments.extend(self.expressions(rights.into_iter().rev(), scope)?);
        Ok(Expression::Call(function, arguments))
    }

    /// IN of constants as a set, of other expressions as equalities.
    fn in_list(&mut self, value: Expression, list: &'a [Expr], scope: &mut Scope<'a>) -> Result<Expression, Error> {
        let list = self.expressions(list, scope)?;
        let (mut set, mut others) = (Set::default(), Vec::new());
        for item in list {
            match item {
                Expression::Value(constant) => set.insert(&constant),
                Expression::Call(Function::Negate, arguments) => match arguments.as_slice() {
                    [Expression::Value(crate::Value::Integer(integer))] => set.insert(&crate::Value::Integer(-integer)),
                    [Expression::Value(crate::Value::Double(double))] => set.insert(&crate::Value::Double(-double)),
                    _ => others
                        .push(call(Function::Equal, [value.clone(), Expression::Call(Function::Negate, arguments)])),
                },
                other => others.push(call(Function::Equal, [value.clone(), other])),
            }
        }
        let constants = call(Function::In(Rc::new(set)), [value]);
        if others.is_empty() {
            return Ok(constants);
        }
        others.insert(0, constants);
        Ok(Expression::Call(Function::Or, others))
    }

    /// Compiles a subquery of an expression; returns its number.
    fn subquery(&mut self, syntax: &'a ast::Query, is_set: bool) -> Result<usize, Error> {
        if let Some(number) = self.places.iter().position(|place| std::ptr::eq(*place, syntax)) {
            return Ok(number);
        }
        let query = self.query(syntax)?;
        if !matches!(query.names(), [Name::Plain(_)]) {
            return Err(Error::invalid("a subquery in an expression selects one column"));
        }
        self.places.push(syntax);
        self.subqueries.push((query, is_set));
        Ok(self.subqueries.len() - 1)
    }

    fn like(
        &mut self,
        sides: [&'a Expr; 2],
        escape: Option<&'a Expr>,
        ignore_case: bool,
        scope: &mut Scope<'a>,
    ) -> Result<Expression, Error> {
        let arguments = self.expressions(sides.into_iter().chain(escape), scope)?;
        Ok(Expression::Call(Function::Like { ignore_case }, arguments))
    }

    fn floor_or_ceil(
        &mut self,
        function: Function,
        value: &'a Expr,
        field: &ast::CeilFloorKind,
        scope: &mut Scope<'a>,
    ) -> Result<Expression, Error> {
        match field {
            ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) => self.call_of(function, [value], scope),
            _ => Err(Error::unsupported("floor or ceil with a unit", "use round(x, digits) or date_trunc('unit', x)")),
        }
    }

    /// `column.name`, `column['name']` and `column[1]`.
    fn access(
        &mut self,
        root: &'a Expr,
        chain: &[ast::AccessExpr],
        scope: &mut Scope<'a>,
    ) -> Result<Expression, Error> {
        let mut steps = Vec::new();
        for access in chain {
            match access {
                ast::AccessExpr::Dot(Expr::Identifier(name)) => steps.push(name.value.clone()),
                ast::AccessExpr::Subscript(ast::Subscript::Index { index }) => steps.push(functions::element(index)?),
                other => return Err(Error::unsupported(other.to_string(), "write column.name or column[1]")),
            }
        }
        Ok(self.expression(root, scope)?.at(&steps))
    }
}

/// A unit or part of dates by its name.
pub(super) fn unit(name: &str) -> Result<Unit, Error> {
    Unit::of(name).ok_or_else(|| {
        let instead = "use year, quarter, month, week, day, hour, minute, second, dow, doy or epoch";
        Error::unsupported(format!("the unit {name}"), instead)
    })
}

fn type_of(data_type: &ast::DataType) -> Result<Type, Error> {
    let name = data_type.to_string().to_uppercase();
    let word = name.split(|character: char| !character.is_ascii_alphanumeric()).next().unwrap_or_default();
    Ok(match word {
        "BOOLEAN" | "BOOL" => Type::Boolean,
        "TINYINT" | "SMALLINT" | "INT" | "INTEGER" | "BIGINT" | "HUGEINT" | "INT2" | "INT4" | "INT8" | "INT16"
        | "INT32" | "INT64" | "INT128" | "UTINYINT" | "USMALLINT" | "UINTEGER" | "UBIGINT" | "UINT32" | "UINT64"
        | "LONG" | "SIGNED" => Type::Integer,
        "DOUBLE" | "FLOAT" | "FLOAT4" | "FLOAT8" | "FLOAT64" | "REAL" | "DECIMAL" | "NUMERIC" | "DEC" => Type::Double,
        "VARCHAR" | "TEXT" | "STRING" | "CHAR" | "CHARACTER" | "NVARCHAR" | "BPCHAR" => Type::Text,
        "DATE" => Type::Date,
        "TIMESTAMP" | "TIMESTAMPTZ" | "DATETIME" => Type::Timestamp,
        "JSON" => Type::Json,
        _ => {
            let instead = "use BOOLEAN, BIGINT, DOUBLE, VARCHAR, DATE, TIMESTAMP or JSON";
            return Err(Error::unsupported(format!("the type {name}"), instead));
        }
    })
}

fn unsupported(syntax: &Expr) -> Error {
    let (what, instead) = match syntax {
        Expr::Exists { .. } => ("EXISTS", "use x IN (SELECT …)"),
        Expr::SimilarTo { .. } | Expr::RLike { .. } => {
            ("a regular expression", "use LIKE or ILIKE, or the operator `matches` of a typed query")
        }
        Expr::Interval(_) => ("INTERVAL", "compare with a date that is written out, or use date_diff('day', a, b)"),
        Expr::AtTimeZone { .. } => ("AT TIME ZONE", "times are compared as written"),
        Expr::AnyOp { .. } | Expr::AllOp { .. } => ("ANY and ALL", "use IN, or contains(column, value) for arrays"),
        Expr::Tuple(_) | Expr::Array(_) | Expr::Struct { .. } | Expr::Dictionary(_) | Expr::Map(_) => {
            ("a list or structure", "name its values one by one")
        }
        Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_) => {
            ("ROLLUP, CUBE and GROUPING SETS", "use UNION ALL of several GROUP BY")
        }
        Expr::JsonAccess { .. } => ("the operator `:`", "write column.name"),
        other => {
            let text: String = other.to_string().chars().take(80).collect();
            return Error::unsupported(text, "use a column, a constant, an operator or a function");
        }
    };
    Error::unsupported(what, instead)
}
