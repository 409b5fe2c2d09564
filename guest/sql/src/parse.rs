//! SQL text to a syntax tree, within limits.

use std::any::TypeId;

use sqlparser::ast::Query;
use sqlparser::dialect::{Dialect, DuckDbDialect};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Tokenizer};

use crate::Error;

/// Longest SQL text, in bytes: 64 KiB.
pub const SQL_BYTES_MAX: usize = 64 << 10;

/// Most nested expressions and queries. Parsing and evaluating them recurses, on a stack of 512 KiB in the sandbox.
pub const DEPTH_MAX: usize = 40;

/// Most operators, keywords and brackets of a query. A chain of operators nests as deep as it is long, also where the parser
/// does not recurse. Names, literals and commas are not counted, so lists may be long.
pub const OPERATORS_MAX: usize = 2000;

/// SQL as in `DuckDB`, except that `->` is an operator after a name too, which `DuckDbDialect` takes for a function there, and that
/// `=` in a call compares: `count_if(state = 'AK')`.
#[derive(Debug)]
struct Subset;

macro_rules! as_in_duckdb {
    ($($what:ident)*) => { $(fn $what(&self) -> bool { DuckDbDialect.$what() })* };
}

impl Dialect for Subset {
    // The parser asks for the type, too.
    fn dialect(&self) -> TypeId {
        TypeId::of::<DuckDbDialect>()
    }

    fn is_identifier_start(&self, character: char) -> bool {
        DuckDbDialect.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        DuckDbDialect.is_identifier_part(character)
    }

    as_in_duckdb! {
        allow_extract_single_quotes
        support_map_literal_syntax
        supports_array_typedef_with_brackets
        supports_bitwise_shift_operators
        supports_comma_separated_trim
        supports_dictionary_syntax
        supports_filter_during_aggregation
        supports_from_first_select
        supports_group_by_expr
        supports_named_fn_args_with_assignment_operator
        supports_notnull_operator
        supports_numeric_literal_underscores
        supports_order_by_all
        supports_select_wildcard_exclude
        supports_select_wildcard_replace
        supports_trailing_commas
    }
}

/// Parses one query.
pub(crate) fn parse(sql: &str) -> Result<Query, Error> {
    if sql.len() > SQL_BYTES_MAX {
        return Err(Error::Limit(format!("sql-bytes: the query is longer than {SQL_BYTES_MAX} bytes")));
    }
    let dialect = Subset;
    let tokens =
        Tokenizer::new(&dialect, sql).tokenize_with_location().map_err(|error| Error::Syntax(error.to_string()))?;
    if tokens.iter().filter(|token| is_operator(&token.token)).count() > OPERATORS_MAX {
        return Err(Error::Limit(format!(
            "sql-operators: the query has more than {OPERATORS_MAX} operators, keywords and brackets; use IN for many values"
        )));
    }
    let mut parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).with_tokens_with_locations(tokens);
    // Some other statements are parsed as parts of a query.
    if let Token::Word(word) = parser.peek_token().token
        && word.keyword != Keyword::NoKeyword
        && !begins_query(word.keyword)
    {
        return Err(Error::unsupported(word.value.to_uppercase(), "a query begins with SELECT or WITH"));
    }
    let query = parser.parse_query().map_err(|error| match error {
        ParserError::RecursionLimitExceeded => nesting(),
        ParserError::ParserError(message) | ParserError::TokenizerError(message) => Error::Syntax(message),
    })?;
    while parser.consume_token(&Token::SemiColon) {}
    match parser.peek_token().token {
        Token::EOF => Ok(*query),
        Token::Word(word) if begins_query(word.keyword) => {
            Err(Error::unsupported("a second statement", "ask one query at a time"))
        }
        other => Err(Error::Syntax(format!("unexpected `{other}` after the query"))),
    }
}

/// The error for a query that is nested too deeply.
pub(crate) fn nesting() -> Error {
    Error::Limit(format!("sql-depth: the query is nested more than {DEPTH_MAX} deep; use WITH, or IN for many values"))
}

fn begins_query(keyword: Keyword) -> bool {
    matches!(keyword, Keyword::SELECT | Keyword::WITH | Keyword::FROM | Keyword::VALUES)
}

fn is_operator(token: &Token) -> bool {
    match token {
        Token::Whitespace(_) | Token::Comma | Token::Number(..) | Token::SingleQuotedString(_) => false,
        Token::Word(word) => word.keyword != Keyword::NoKeyword,
        _ => true,
    }
}
