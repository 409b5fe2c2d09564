//! The arguments of the tools.

use std::collections::BTreeMap;

use lro_contract::manifest::OffloadRecord;
use lro_contract::query::document::{Known, Members, Node};
use lro_contract::query::{Query, QueryError, read as query};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::sql::{self, TableArguments};
use super::{EXTRACT_TOOL, Failure, READ_TOOL, search};
use crate::{Jq, Question, QuestionError, Sql, Start, stored_query};

/// Arguments of `lro_extract` that are not part of the typed query.
const EXTRACT: &Known = &[
    ("handle", &[]),
    ("section", &[]),
    ("search", &[]),
    ("regex", &[]),
    ("words", &[]),
    ("rank", &[]),
    ("before", &[]),
    ("after", &[]),
    ("context", &[]),
    ("lines", &[]),
    ("sql", &[]),
    ("from", &[]),
    ("jq", &[]),
    ("slurp", &[]),
    ("args", &[]),
    ("recipe", &[]),
    ("params", &[]),
];

/// Arguments of `lro_read`.
const READ: &Known = &[
    ("handle", &[]),
    ("section", &[]),
    ("from", &[]),
    ("offset", &[]),
    ("cursor", &[]),
    ("limit", &[]),
    ("bytes", &[]),
];

/// What stands in the place of `handle` where files are asked about.
const FILE: &Known = &[("file", &["path"])];

/// Values by name, any JSON.
type Values = BTreeMap<String, Box<RawValue>>;

/// The arguments of `lro_extract`.
#[derive(Clone, Debug)]
pub enum ExtractArguments {
    /// About one offload.
    One {
        /// The handle of the offload.
        handle: String,
        /// The section, if it is named.
        section: Option<String>,
        /// What is asked.
        asked: Asked,
    },
    /// About named tables.
    Tables {
        /// The query.
        sql: Sql,
        /// The tables, at least one.
        from: Vec<TableArguments>,
    },
}

/// What is asked.
#[derive(Clone, Debug)]
pub enum Asked {
    /// A question about one section, or a search of all.
    Question(Question),
    /// A query about the sections with records.
    Sql(Sql),
    /// A stored query.
    Recipe(Recipe),
}

/// A stored query by its name, and what overrides its own values.
#[derive(Clone, Debug)]
pub struct Recipe {
    name: String,
    parameters: Values,
    offset: Option<u64>,
    limit: Option<u32>,
}

impl Recipe {
    /// The query of this name that an offload has, and the section that it is about.
    ///
    /// # Errors
    /// When the offload has no such query, for the model.
    pub fn question(&self, offload: &OffloadRecord) -> Result<(Option<String>, Question), QuestionError> {
        let (file, query) = stored_query(offload, &self.name, &self.parameters)?;
        let (offset, limit) = (self.offset.unwrap_or(query.offset), self.limit.or(query.limit));
        Ok((Some(file.to_owned()), Question::Query(Query { offset, limit, ..query })))
    }
}

/// The arguments of `lro_read`.
#[derive(Clone, Debug)]
pub struct ReadArguments {
    /// The handle of the offload.
    pub handle: String,
    /// The section, if it is named.
    pub section: Option<String>,
    /// Where the page begins.
    pub start: Start,
    /// Most records or lines.
    pub limit: Option<u32>,
    /// Most bytes.
    pub bytes: Option<u32>,
}

/// Reads the arguments of `lro_extract`.
///
/// # Errors
/// What is wrong, for the model.
pub fn extract(arguments: &str) -> Result<ExtractArguments, Failure> {
    let mut members = query::members(&Node::parse(arguments)?, &[EXTRACT])?;
    if let Some(from) = sql::tables(&mut members)? {
        return match asked(members)? {
            (None, Asked::Sql(sql)) => Ok(ExtractArguments::Tables { sql, from }),
            (Some(_), Asked::Sql(_)) => Err(Failure::Tool("name the `section` in each element of `from`".to_owned())),
            _ => Err(Failure::Tool("`from` goes with `sql` only".to_owned())),
        };
    }
    let handle = handle(&mut members)?;
    let (section, asked) = asked(members)?;
    Ok(ExtractArguments::One { handle, section, asked })
}

/// Reads the arguments of `lro_extract` without `handle`: the section, and what is asked.
///
/// # Errors
/// What is wrong, for the model.
pub fn question(arguments: &str) -> Result<(Option<String>, Asked), Failure> {
    let mut members = query::members(&Node::parse(arguments)?, &[EXTRACT])?;
    if let Some(other) = ["handle", "from"].into_iter().find(|name| members.take(name).is_some()) {
        return Err(Failure::Tool(format!("the question is about the result of this call: leave out `{other}`")));
    }
    asked(members)
}

/// Checks the names of the arguments of a tool of a server where `file`, or `path`, may stand in the place of `handle`.
///
/// # Errors
/// A name is not known, or nothing says what is asked about.
pub fn check_names_with_file(tool: &str, arguments: &str) -> Result<(), Failure> {
    let node = Node::parse(arguments)?;
    let mut members = match tool {
        READ_TOOL => node.members("an object such as {\"file\": …}", &[FILE, READ])?,
        _ => query::members(&node, &[FILE, EXTRACT])?,
    };
    let names = members.names();
    let is_named = says_what(&names);
    // What `from` is in a page is a number.
    let tables = members.take("from").filter(|_| tool != READ_TOOL);
    if let Some(tables) = tables {
        return sql::check_names(&tables, FILE, is_named);
    }
    match is_named {
        true => Ok(()),
        false => Err(Failure::Tool(
            "`file` is missing: pass the path of a file as `lro_files` lists it, or the member `handle` of a descriptor"
                .to_owned(),
        )),
    }
}

/// Whether one of the arguments says what is asked about, where files are.
pub(super) fn says_what(names: &[&str]) -> bool {
    ["file", "handle"].iter().any(|name| names.contains(name))
}

fn asked(mut members: Members<'_>) -> Result<(Option<String>, Asked), Failure> {
    let section = members.text("section")?;
    if let Some(sql) = sql::take(&mut members)? {
        return Ok((section, Asked::Sql(sql)));
    }
    if let Some(question) = search::take(&mut members)? {
        return Ok((section, Asked::Question(question)));
    }
    let (jq, recipe) = (members.text("jq")?, members.text("recipe")?);
    let slurp = members.boolean("slurp")?;
    let arguments = values(&mut members, "args")?;
    let parameters = values(&mut members, "params")?;
    if jq.is_none() && (slurp || !arguments.is_empty()) {
        return Err(Failure::Tool("`slurp` and `args` go with `jq` only".to_owned()));
    }
    if recipe.is_none() && !parameters.is_empty() {
        return Err(Failure::Tool("`params` go with `recipe` only".to_owned()));
    }
    let asked = match (jq, recipe) {
        (Some(_), Some(_)) => return Err(Failure::Tool("give `jq` or `recipe`, not both".to_owned())),
        (None, None) => Asked::Question(Question::Query(query::query(&mut members)?)),
        (jq, recipe) => {
            let offset = members.take("offset").map(|node| node.count()).transpose()?;
            let limit = members.take("limit").map(|node| node.count()).transpose()?;
            let others = members.names();
            if !others.is_empty() {
                return Err(Failure::Tool(format!("`jq` and `recipe` go without {}", others.join(", "))));
            }
            match (jq, recipe) {
                (_, Some(name)) => Asked::Recipe(Recipe { name, parameters, offset, limit }),
                (filter, None) => {
                    let (filter, offset) = (filter.unwrap_or_default(), offset.unwrap_or(0));
                    Asked::Question(Question::Jq(Jq { filter, slurp, arguments, offset, limit }))
                }
            }
        }
    };
    Ok((section, asked))
}

/// Reads the arguments of `lro_read`.
///
/// # Errors
/// What is wrong, for the model.
pub fn read(arguments: &str) -> Result<ReadArguments, Failure> {
    let mut members = Node::parse(arguments)?.members("an object such as {\"handle\": …}", &[READ])?;
    let handle = handle(&mut members)?;
    let section = members.text("section")?;
    let from = members.take("from").map(|node| node.integer()).transpose()?;
    let offset = members.take("offset").map(|node| node.count()).transpose()?;
    let start = match (from, members.text("cursor")?) {
        (None, Some(cursor)) if offset.is_none() => Start::Cursor(cursor),
        (_, Some(_)) => {
            return Err(Failure::Tool("give `from`, with or without `offset`, or `cursor`, not both".to_owned()));
        }
        (from, None) => start(from.unwrap_or(0), offset)?,
    };
    let limit = members.take("limit").map(|node| node.count()).transpose()?;
    if limit == Some(0) {
        return Err(Failure::Tool("`limit` must be at least 1".to_owned()));
    }
    let bytes = members.take("bytes").map(|node| node.count()).transpose()?;
    Ok(ReadArguments { handle, section, start, limit, bytes })
}

/// Where a page begins: at a record, or at a byte of one.
fn start(from: i64, offset: Option<u64>) -> Result<Start, Failure> {
    let Some(offset) = offset else { return Ok(Start::of_number(from)) };
    let record = u64::try_from(from)
        .map_err(|_| Failure::Tool("`offset` goes with a `from` that counts from the beginning, from 0".to_owned()))?;
    Ok(Start::Within { record, offset })
}

fn handle(members: &mut Members<'_>) -> Result<String, Failure> {
    let missing = || Failure::Tool("`handle` is missing: pass the member `handle` of a descriptor".to_owned());
    members.text("handle")?.ok_or_else(missing)
}

fn values(members: &mut Members<'_>, name: &str) -> Result<Values, QueryError> {
    members.take(name).map_or(Ok(Values::new()), |node| node.map())
}

impl ReadArguments {
    /// The call that reads the same section with `from` or `cursor`: the name of the tool, and its arguments as JSON.
    pub(super) fn call(&self, start: &str, value: Value) -> String {
        let mut arguments = json!({ "handle": self.handle, start: value });
        if let Some(section) = &self.section {
            arguments["section"] = json!(section);
        }
        // A cursor carries the size of the page.
        if start == "from" {
            let sizes = [("limit", self.limit), ("bytes", self.bytes)];
            sizes.iter().filter_map(|(name, size)| Some((name, (*size)?))).for_each(|(name, size)| {
                arguments[name] = json!(size);
            });
        }
        format!("{READ_TOOL} {arguments}")
    }

    /// A call that searches the same section, as [`ReadArguments::call`] has it.
    pub(super) fn search_call(&self) -> String {
        let mut arguments = json!({ "handle": self.handle, "search": "…" });
        if let Some(section) = &self.section {
            arguments["section"] = json!(section);
        }
        format!("{EXTRACT_TOOL} {arguments}")
    }
}
