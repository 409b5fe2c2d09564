//! Functions by their names.

use lro_json::path;
use sqlparser::ast::Expr;

use super::aggregates::AGGREGATES;
use super::constant;
use super::expressions::unit;
use crate::evaluate::{Function, Type, Unit};
use crate::{Error, Value};

/// Most arguments of a function that takes any number.
const ANY: usize = usize::MAX;

/// Functions for errors: the usual name of each.
const NAMES: &str = "lower, upper, trim, ltrim, rtrim, length, substr, left, right, replace, reverse, concat, concat_ws, contains, \
    starts_with, ends_with, strpos, split_part, lpad, rpad, coalesce, nullif, ifnull, if, greatest, least, abs, round, floor, \
    ceil, trunc, sqrt, power, mod, sign, year, quarter, month, week, day, hour, minute, second, dayofweek, dayofyear, epoch, \
    date_trunc, date_part, date_diff, strftime, to_timestamp, epoch_ms, json_extract";

/// A function, and how many arguments it takes.
pub(super) fn named(name: &str) -> Result<(Function, usize, usize), Error> {
    let both = Function::Trim { start: true, end: true };
    Ok(match name {
        "lower" | "lcase" => (Function::Lower, 1, 1),
        "upper" | "ucase" => (Function::Upper, 1, 1),
        "trim" | "btrim" => (both, 1, 2),
        "ltrim" => (Function::Trim { start: true, end: false }, 1, 2),
        "rtrim" => (Function::Trim { start: false, end: true }, 1, 2),
        "length" | "len" | "char_length" | "character_length" | "array_length" | "json_array_length" | "list_count" => {
            (Function::Length, 1, 1)
        }
        "substr" | "substring" | "mid" => (Function::Substring, 2, 3),
        "left" => (Function::Left, 2, 2),
        "right" => (Function::Right, 2, 2),
        "replace" => (Function::Replace, 3, 3),
        "reverse" => (Function::Reverse, 1, 1),
        "concat" => (Function::Concat, 1, ANY),
        "concat_ws" => (Function::ConcatWith, 2, ANY),
        "contains" | "list_contains" | "array_contains" | "list_has" => (Function::Contains, 2, 2),
        "starts_with" | "startswith" | "prefix" => (Function::StartsWith, 2, 2),
        "ends_with" | "endswith" | "suffix" => (Function::EndsWith, 2, 2),
        "strpos" | "instr" | "position" => (Function::Position, 2, 2),
        "split_part" => (Function::SplitPart, 3, 3),
        "lpad" => (Function::Pad { left: true }, 2, 3),
        "rpad" => (Function::Pad { left: false }, 2, 3),
        "coalesce" => (Function::Coalesce, 1, ANY),
        "ifnull" | "nvl" => (Function::Coalesce, 2, 2),
        "nullif" => (Function::NullIf, 2, 2),
        "if" | "iff" => (Function::Case, 3, 3),
        "greatest" => (Function::Greatest, 1, ANY),
        "least" => (Function::Least, 1, ANY),
        "abs" => (Function::Abs, 1, 1),
        "round" => (Function::Round, 1, 2),
        "floor" => (Function::Floor, 1, 1),
        "ceil" | "ceiling" => (Function::Ceil, 1, 1),
        "trunc" => (Function::Truncate, 1, 1),
        "sqrt" => (Function::Sqrt, 1, 1),
        "sign" => (Function::Sign, 1, 1),
        "power" | "pow" => (Function::Power, 2, 2),
        "mod" => (Function::Modulo, 2, 2),
        "date" => (Function::Cast { to: Type::Date, or_null: false }, 1, 1),
        "strftime" => (Function::DateText, 2, 2),
        "to_timestamp" => (Function::FromEpoch { per_second: 1 }, 1, 1),
        "epoch_ms" | "make_timestamp_ms" => (Function::FromEpoch { per_second: 1000 }, 1, 1),
        "dayofweek" | "weekday" => (Function::DatePart(Unit::DayOfWeek), 1, 1),
        "isodow" => (Function::DatePart(Unit::IsoDayOfWeek), 1, 1),
        "dayofyear" => (Function::DatePart(Unit::DayOfYear), 1, 1),
        "year" | "quarter" | "month" | "week" | "weekofyear" | "day" | "dayofmonth" | "hour" | "minute" | "second"
        | "epoch" | "decade" | "century" => (Function::DatePart(unit(name)?), 1, 1),
        _ => return Err(unknown(name)),
    })
}

fn unknown(name: &str) -> Error {
    let instead = match name {
        "now" | "current_date" | "current_timestamp" | "today" | "getdate" => {
            "there is no clock: write the date as a text"
        }
        "random" | "rand" => "use `sample` of a typed query",
        "regexp_matches" | "regexp_replace" | "regexp_extract" | "regexp_full_match" => {
            "use LIKE, contains, replace or split_part, or a typed query with `matches`"
        }
        "unnest" | "json_each" | "explode" | "generate_series" | "range" => {
            "read elements by number, such as items[1], or use jq, such as .items[]"
        }
        "row_number" | "rank" | "dense_rank" | "lag" | "lead" => "use GROUP BY, or ORDER BY with LIMIT",
        "string_agg" | "group_concat" | "listagg" | "list" | "array_agg" => {
            "select the values with ORDER BY, or use jq with slurp"
        }
        "median" | "quantile" | "quantile_cont" | "percentile_cont" | "mode" => {
            "use ORDER BY x LIMIT 1 OFFSET n, with n from count(*)"
        }
        "stddev" | "stddev_samp" | "stddev_pop" | "variance" | "var_samp" | "var_pop" => {
            "use sqrt(avg(x*x) - avg(x)*avg(x))"
        }
        "arg_max" | "max_by" | "arg_min" | "min_by" => {
            "use ORDER BY x DESC LIMIT 1, or WHERE x = (SELECT max(x) FROM …)"
        }
        _ => return Error::unsupported(format!("the function {name}"), &format!("there are {AGGREGATES}, {NAMES}")),
    };
    Error::unsupported(name, instead)
}

/// A function whose first argument is the name of a unit.
pub(super) fn with_unit(name: &str, arguments: &[&Expr]) -> Result<Option<Function>, Error> {
    let (function, count): (fn(Unit) -> Function, _) = match name {
        "date_trunc" | "datetrunc" => (Function::DateTrunc, 2),
        "date_part" | "datepart" => (Function::DatePart, 2),
        "date_diff" | "datediff" => (Function::DateDiff, 3),
        _ => return Ok(None),
    };
    match arguments.split_first() {
        Some((Expr::Value(first), rest)) if rest.len() == count - 1 => match constant(&first.value)? {
            Value::Text(name) => unit(&name).map(|unit| Some(function(unit))),
            _ => Err(Error::invalid(format!("{name} begins with a unit such as 'month'"))),
        },
        _ => Err(Error::invalid(format!("{name} takes {count} arguments and begins with a unit such as 'month'"))),
    }
}

/// The steps of `'name'`, `'$.a.b[0]'`, `'/a/b/0'` or a number of an element from 0.
pub(super) fn json_path(syntax: &Expr) -> Result<Vec<String>, Error> {
    let wrong =
        || Error::unsupported(format!("the path {syntax}"), "write 'name', '$.a.b[0]' or '/a/b/0', or column.name");
    let Expr::Value(value) = syntax else { return Err(wrong()) };
    let text = match constant(&value.value)? {
        Value::Integer(index) => return Ok(vec![index.to_string()]),
        Value::Text(text) => text,
        _ => return Err(wrong()),
    };
    if text.starts_with('/') {
        let keys = path::steps(&text).into_iter();
        return Ok(keys.map(|step| String::from_utf8_lossy(&step.key).into_owned()).collect());
    }
    let Some(inside) = text.strip_prefix('$') else { return Ok(vec![text.to_string()]) };
    let plain = inside.replace('[', ".").replace(']', "");
    Ok(plain.split('.').filter(|step| !step.is_empty()).map(str::to_owned).collect())
}

/// The step of `['name']`, or of `[1]`, the first element.
pub(super) fn element(index: &Expr) -> Result<String, Error> {
    let Expr::Value(value) = index else {
        return Err(Error::unsupported(format!("the index {index}"), "write a number from 1, or a name in quotes"));
    };
    match constant(&value.value)? {
        Value::Text(name) => Ok(name.to_string()),
        Value::Integer(number) if number > 0 => Ok((number - 1).to_string()),
        _ => Err(Error::invalid(format!("the index {index} is not a name or a number from 1"))),
    }
}
