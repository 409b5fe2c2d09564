//! Reads a query from JSON, in the spellings that models write where they have one meaning.

use std::str::FromStr;

use serde::de::{Deserialize, Deserializer, Error};
use serde_json::value::RawValue;

use super::document::{Kind, Known, Members, Node, QueryError};
use super::operator::{Comparison, OPERATORS, Operand};
use super::{Aggregate, AggregateKind, Condition, Group, Query, Selection, SortKey, expression};

/// Most levels of conditions inside conditions.
pub(super) const DEPTH_MAX: usize = 64;

/// The members of a query.
const QUERY: &Known = &[
    ("where", &[]),
    ("group", &[]),
    ("group_by", &[]),
    ("aggregates", &["aggregate"]),
    ("select", &[]),
    ("distinct", &[]),
    ("sort", &["order_by", "sort_by"]),
    ("sample", &[]),
    ("count", &[]),
    ("offset", &[]),
    ("limit", &[]),
    ("ignore_case", &[]),
];

const CONDITION: &Known = &[
    ("field", &[]),
    ("op", &["operator"]),
    ("value", &[]),
    ("ignore_case", &[]),
    ("parameter", &[]),
    ("all", &["and"]),
    ("any", &["or"]),
    ("not", &[]),
];

const SELECTION: &Known = &[("field", &[]), ("as", &["alias", "name"])];

const SORT_KEY: &Known = &[("field", &[]), ("descending", &["desc"]), ("order", &["direction"])];

const GROUP: &Known = &[("by", &[]), ("aggregates", &["aggregate"])];

const AGGREGATE: &Known = &[("kind", &["function"]), ("field", &[]), ("as", &["alias", "name"])];

/// The forms of a condition, for errors.
const CONDITION_FORMS: &str = "a condition {\"field\": …, \"op\": …, \"value\": …}, {\"all\": […]}, {\"any\": […]}, \
                               {\"not\": …}, or a text such as \"age > 30 and state == 'open'\"";

impl Query {
    /// Reads the JSON object of a query.
    ///
    /// # Errors
    /// When a member is not known, or a value is not of the expected form.
    pub fn read(json: &str) -> Result<Self, QueryError> {
        query(&mut members(&Node::parse(json)?, &[])?)
    }
}

/// The members of a query, beside others of the same object.
pub fn members<'a>(node: &Node<'a>, others: &[&Known]) -> Result<Members<'a>, QueryError> {
    node.members("a query such as {\"where\": […], \"select\": […]}", &[others, &[QUERY]].concat())
}

/// Takes the members of a query.
pub fn query(members: &mut Members<'_>) -> Result<Query, QueryError> {
    let ignore_case = members.boolean("ignore_case")?;
    let mut conditions = members.take("where").map_or(Ok(Vec::new()), |node| conditions(&node))?;
    if ignore_case {
        conditions.iter_mut().for_each(Condition::ignore_case);
    }
    Ok(Query {
        conditions,
        group: whole_group(members)?,
        select: members.take("select").map_or(Ok(Vec::new()), |node| selections(&node))?,
        distinct: members.boolean("distinct")?,
        sort: members.take("sort").map_or(Ok(Vec::new()), |node| sort_keys(&node))?,
        sample: members.take("sample").map(|node| node.count()).transpose()?,
        count: members.boolean("count")?,
        offset: members.take("offset").map_or(Ok(0), |node| node.count())?,
        limit: members.take("limit").map(|node| node.count()).transpose()?,
    })
}

/// One condition or several, of which all must hold.
fn conditions(node: &Node<'_>) -> Result<Vec<Condition>, QueryError> {
    match node.kind() {
        Kind::Array => node.elements()?.iter().map(|node| condition(node, 0)).collect(),
        Kind::Text => {
            let text = node.text()?;
            match text.trim_ascii_start().as_bytes().first() {
                None => Ok(Vec::new()),
                // JSON inside a text.
                Some(b'[' | b'{') => conditions(&node.inner(&text)?),
                Some(_) => Ok(vec![expression(node, 0)?]),
            }
        }
        _ => match condition(node, 0)? {
            Condition::All(all) if all.is_empty() => Ok(all),
            one => Ok(vec![one]),
        },
    }
}

fn condition(node: &Node<'_>, depth: usize) -> Result<Condition, QueryError> {
    if depth == DEPTH_MAX {
        return Err(node.unexpected(&format!("at most {DEPTH_MAX} levels of conditions")));
    }
    match node.kind() {
        Kind::Object => {}
        Kind::Text => return expression(node, depth),
        _ => return Err(node.unexpected(CONDITION_FORMS)),
    }
    let entries = node.entries(CONDITION_FORMS)?;
    let is_known = |written: &str| CONDITION.iter().any(|(name, others)| *name == written || others.contains(&written));
    if !entries.iter().any(|(name, _)| is_known(name)) {
        let tests = entries.iter().map(|(field, node)| tests_of_field(field, node));
        return Ok(Condition::joined(tests.collect::<Result<Vec<_>, _>>()?.concat(), Condition::All));
    }
    let mut members = node.members(CONDITION_FORMS, &[CONDITION])?;
    let all = |node: &Node<'_>| -> Result<Vec<Condition>, QueryError> {
        node.elements()?.iter().map(|node| condition(node, depth + 1)).collect()
    };
    let read = match (members.take("all"), members.take("any"), members.take("not")) {
        (None, None, None) => test(&mut members, node)?,
        (Some(node), None, None) => Condition::All(all(&node)?),
        (None, Some(node), None) => Condition::Any(all(&node)?),
        (None, None, Some(node)) => Condition::Not(Box::new(condition(&node, depth + 1)?)),
        _ => return Err(members.conflict("one of `all`, `any` and `not`".to_owned())),
    };
    match members.names().as_slice() {
        [] => Ok(read),
        names => Err(members.conflict(format!("`{}` does not go with `all`, `any` or `not`", names.join("`, `")))),
    }
}

fn expression(node: &Node<'_>, depth: usize) -> Result<Condition, QueryError> {
    expression::parse(&node.text()?, depth).map_err(|error| error.at(&node.place))
}

/// Takes the members of a test.
fn test(members: &mut Members<'_>, node: &Node<'_>) -> Result<Condition, QueryError> {
    let (Some(field), Some(op)) = (members.take("field"), members.take("op")) else {
        return Err(node.unexpected(CONDITION_FORMS));
    };
    let comparison = comparison(&op.text()?, &op.place)?;
    let operand = Operand {
        value: members.take_any("value").map(|node| node.json().to_owned()),
        ignore_case: members.boolean("ignore_case")?,
        parameter: members.text("parameter")?,
    };
    // A null for an operator that takes no value is not a value.
    let value = operand.value.filter(|value| value.get() != "null" || !comparison.takes_nothing());
    comparison.condition(field.text()?, Operand { value, ..operand }).map_err(|expected| node.unexpected(expected))
}

fn comparison(written: &str, place: &str) -> Result<Comparison, QueryError> {
    Comparison::of(written).ok_or_else(|| QueryError::unknown(place, "operator", written, OPERATORS.to_vec()))
}

/// The tests of `field: value` or `field: {operator: value, …}`.
fn tests_of_field(field: &str, node: &Node<'_>) -> Result<Vec<Condition>, QueryError> {
    let of = |comparison: Comparison, node: &Node<'_>| {
        let operand = Operand { value: Some(node.json().to_owned()), ..Operand::default() };
        comparison.condition(field.to_owned(), operand).map_err(|expected| node.unexpected(expected))
    };
    match node.kind() {
        Kind::Object => {
            let entries = node.entries("an object")?;
            if entries.is_empty() {
                return Err(node.unexpected("a value, or {operator: value}"));
            }
            entries.iter().map(|(written, node)| of(comparison(written, &node.place)?, node)).collect()
        }
        Kind::Array => Err(node.unexpected("a value, or {\"in\": […]} or {\"eq\": […]}")),
        Kind::Text | Kind::Null | Kind::Other => Ok(vec![of(comparison("eq", &node.place)?, node)?]),
    }
}

/// Fields, as a list, or as a text with commas between them.
fn selections(node: &Node<'_>) -> Result<Vec<Selection>, QueryError> {
    let plain = |field: &str| Selection { field: field.to_owned(), name: None };
    match node.kind() {
        Kind::Text => Ok(pieces(&node.text()?).map(plain).collect()),
        Kind::Array => node.elements()?.iter().map(selection).collect(),
        _ => Ok(vec![selection(node)?]),
    }
}

fn selection(node: &Node<'_>) -> Result<Selection, QueryError> {
    const FORMS: &str = "a field such as \"owner.name\", or {\"field\": …, \"as\": …}";
    if node.kind() == Kind::Text {
        return Ok(Selection { field: node.text()?, name: None });
    }
    let mut members = node.members(FORMS, &[SELECTION])?;
    let field = members.text("field")?.ok_or_else(|| members.unexpected(FORMS))?;
    Ok(Selection { field, name: members.text("as")? })
}

/// Pieces of a text between commas.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|piece| !piece.is_empty())
}

fn sort_keys(node: &Node<'_>) -> Result<Vec<SortKey>, QueryError> {
    match node.kind() {
        Kind::Text => pieces(&node.text()?).map(|piece| sort_text(piece, node)).collect(),
        Kind::Array => node.elements()?.iter().map(sort_key).collect(),
        _ => Ok(vec![sort_key(node)?]),
    }
}

fn sort_text(text: &str, node: &Node<'_>) -> Result<SortKey, QueryError> {
    text.parse().map_err(|expected: &str| node.unexpected(expected))
}

fn sort_key(node: &Node<'_>) -> Result<SortKey, QueryError> {
    const FORMS: &str = "a field such as \"age\" or \"-age\", or {\"field\": …, \"descending\": true}";
    if node.kind() == Kind::Text {
        return sort_text(&node.text()?, node);
    }
    let mut members = node.members(FORMS, &[SORT_KEY])?;
    let field = members.text("field")?.ok_or_else(|| members.unexpected(FORMS))?;
    if members.has("order") && members.has("descending") {
        return Err(members.conflict("`order` or `descending`, not both".to_owned()));
    }
    let descending = match members.take("order") {
        Some(node) => direction(&node.text()?).ok_or_else(|| node.unexpected("\"asc\" or \"desc\""))?,
        None => members.boolean("descending")?,
    };
    Ok(SortKey { field, descending })
}

/// Whether a direction is descending.
fn direction(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "desc" | "descending" => Some(true),
        "asc" | "ascending" => Some(false),
        _ => None,
    }
}

/// Reads `FIELD`, `-FIELD`, `FIELD desc` or `FIELD asc`.
impl FromStr for SortKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (minus, field) = match text.trim().strip_prefix('-') {
            Some(field) => (true, field),
            None => (false, text.trim()),
        };
        let directed = field.rsplit_once(char::is_whitespace).and_then(|(field, word)| Some((field, direction(word)?)));
        match directed {
            Some(_) if minus => Err("`-FIELD` or `FIELD desc`, not both"),
            Some((field, descending)) => Ok(Self { field: field.trim_end().to_owned(), descending }),
            None if field.is_empty() => Err("a field"),
            None => Ok(Self { field: field.to_owned(), descending: minus }),
        }
    }
}

/// The group of a query: `group`, or `group_by` and `aggregates` beside the other members.
fn whole_group(members: &mut Members<'_>) -> Result<Option<Group>, QueryError> {
    let (group, by, aggregates) = (members.take("group"), members.take("group_by"), members.take("aggregates"));
    let mut whole = match (&group, &by, &aggregates) {
        (None, None, None) => return Ok(None),
        (Some(_), Some(_), _) => return Err(members.conflict("`group` or `group_by`, not both".to_owned())),
        (Some(node), None, _) | (None, Some(node), _) => self::group(node)?,
        (None, None, Some(_)) => Group::default(),
    };
    if let Some(node) = aggregates {
        if !whole.aggregates.is_empty() {
            return Err(members.conflict("`aggregates` is there twice".to_owned()));
        }
        whole.aggregates = self::aggregates(&node)?;
    }
    Ok(Some(whole))
}

fn group(node: &Node<'_>) -> Result<Group, QueryError> {
    const FORMS: &str = "a group such as {\"by\": […], \"aggregates\": […]}";
    let is_object = node.kind() == Kind::Object;
    if !is_object || node.entries(FORMS)?.iter().any(|(name, _)| name == "field") {
        return Ok(Group { by: selections(node)?, aggregates: Vec::new() });
    }
    let mut members = node.members(FORMS, &[GROUP])?;
    Ok(Group {
        by: members.take("by").map_or(Ok(Vec::new()), |node| selections(&node))?,
        aggregates: members.take("aggregates").map_or(Ok(Vec::new()), |node| aggregates(&node))?,
    })
}

fn aggregates(node: &Node<'_>) -> Result<Vec<Aggregate>, QueryError> {
    match node.kind() {
        Kind::Text => pieces(&node.text()?).map(|piece| aggregate_text(piece, &node.place)).collect(),
        Kind::Array => node.elements()?.iter().map(aggregate).collect(),
        _ => Ok(vec![aggregate(node)?]),
    }
}

fn aggregate(node: &Node<'_>) -> Result<Aggregate, QueryError> {
    const FORMS: &str =
        "an aggregate such as \"count\", \"sum:amount\", or {\"kind\": \"sum\", \"field\": …, \"as\": …}";
    if node.kind() == Kind::Text {
        return aggregate_text(&node.text()?, &node.place);
    }
    let mut members = node.members(FORMS, &[AGGREGATE])?;
    let kind = members.take("kind").ok_or_else(|| members.unexpected(FORMS))?;
    let kind = aggregate_kind(&kind.text()?, &kind.place)?;
    let field = members.text("field")?.filter(|field| !(kind == AggregateKind::Count && field == "*"));
    Ok(Aggregate { kind, field, name: members.text("as")? })
}

fn aggregate_kind(written: &str, place: &str) -> Result<AggregateKind, QueryError> {
    let lower = written.to_ascii_lowercase();
    let found = AggregateKind::ALL.into_iter().find(|kind| kind.name() == lower);
    let unknown =
        || QueryError::unknown(place, "aggregate", written, AggregateKind::ALL.map(AggregateKind::name).into());
    match lower.as_str() {
        "average" | "mean" => Ok(AggregateKind::Avg),
        _ => found.ok_or_else(unknown),
    }
}

/// Reads `count`, `KIND:FIELD` or `KIND(FIELD)`.
fn aggregate_text(text: &str, place: &str) -> Result<Aggregate, QueryError> {
    let in_brackets = || text.strip_suffix(')')?.split_once('(');
    let (kind, field) = match text.split_once(':').or_else(in_brackets) {
        Some((kind, field)) => (kind, Some(field.trim().to_owned())),
        None => (text, None),
    };
    let kind = aggregate_kind(kind.trim(), place)?;
    Ok(Aggregate { kind, field: field.filter(|field| !matches!(field.as_str(), "" | "*")), name: None })
}

/// Reads `count`, `KIND:FIELD` or `KIND(FIELD)`.
impl FromStr for Aggregate {
    type Err = QueryError;

    fn from_str(text: &str) -> Result<Self, QueryError> {
        aggregate_text(text.trim(), "")
    }
}

impl Condition {
    /// Reads the JSON object of a condition.
    ///
    /// # Errors
    /// As [`Query::read`].
    pub fn read(json: &str) -> Result<Self, QueryError> {
        condition(&Node::parse(json)?, 0)
    }

    /// Makes every test ignore case.
    pub fn ignore_case(&mut self) {
        let mut tests = Vec::new();
        self.tests(&mut tests);
        tests.into_iter().for_each(|test| test.ignore_case = true);
    }
}

impl<'de> Deserialize<'de> for Query {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        Self::read(json.get()).map_err(D::Error::custom)
    }
}
