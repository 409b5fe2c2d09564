//! `lro extract`: one question about what was offloaded.

use std::sync::Arc;

use anyhow::bail;
use clap::builder::TypedValueParser;
use clap::{ArgGroup, Args, ValueEnum, value_parser};
use lro_gateway::settings::{Config, DecisionMode};
use lro_host::extract::{
    ANSWER_BYTES_MAX, Aggregate, AggregateKind, Answer, Budget, Condition, Cut, Group, Jq, Operator, Query, Question,
    RESULTS_MAX, Selection, SortKey, Test, stored_query,
};
use lro_host::filter::Outcome;
use lro_host::store::{Offload, Store};
use serde_json::value::RawValue;

use crate::exit::Exit;
use crate::handle::HandleArguments;
use crate::output::{self, Terminal};
use crate::{host, table};

const EXAMPLES: &str = "Examples:
  lro extract HANDLE --where 'category eq billing' --where 'score > 0.9' --select id,title
  lro extract HANDLE --where 'title contains error' --ignore-case --count
  lro extract HANDLE --group-by category --aggregate count,avg:score --sort=-count --format table
  lro extract HANDLE --where '{\"any\": [{\"field\": \"id\", \"op\": \"lt\", \"value\": 9}, {\"field\": \"note\", \"op\": \"is_null\"}]}'
  lro extract HANDLE --jq 'select(.score > $least) | .id' --arg least=0.9
  lro extract HANDLE --recipes
  lro extract HANDLE --recipe orders_where --param status=failed

A field is written `owner.name`, or as a JSON Pointer `/owner/name`. Operators: eq ne lt le gt ge in contains starts-with
matches exists is-null, and = != < <= > >=. A value that is JSON is taken as such, anything else as a text. A missing field
fails every test; null is equal to null only.";

/// The flags that make up a typed query: whole questions take none of them.
const PARTS: [&str; 9] =
    ["conditions", "ignore_case", "select", "sort", "group_by", "aggregate", "distinct", "count", "sample"];

/// Answer a question about the records of an offload: a typed query, a jq program, or a recipe
///
/// The question is answered in a sandbox that sees this offload only, after its SHA-256 was checked. Without a question the
/// first 50 records are printed.
#[derive(Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("whole").conflicts_with_all(PARTS))]
pub(crate) struct Arguments {
    #[command(flatten)]
    handle: HandleArguments,

    /// Condition `FIELD OPERATOR VALUE`, or one as JSON; all that are given must hold
    #[arg(long = "where", value_name = "CONDITION", value_parser = condition, help_heading = "Typed query")]
    conditions: Vec<Given>,
    /// Upper and lower case are the same in every condition that is not JSON
    #[arg(short, long, help_heading = "Typed query")]
    ignore_case: bool,
    /// Fields of each result: FIELD or FIELD=NAME
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', help_heading = "Typed query")]
    select: Vec<String>,
    /// Order: FIELD, or -FIELD for descending
    #[arg(
        long,
        value_name = "FIELDS",
        value_delimiter = ',',
        allow_hyphen_values = true,
        help_heading = "Typed query"
    )]
    sort: Vec<String>,
    /// One result for each group of equal values: FIELD or FIELD=NAME
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', help_heading = "Typed query")]
    group_by: Vec<String>,
    /// Values of each group: count, or KIND:FIELD with sum, min, max, avg or count, and =NAME if wanted
    #[arg(long, value_name = "VALUES", value_delimiter = ',', value_parser = aggregate, help_heading = "Typed query")]
    aggregate: Vec<Aggregate>,
    /// Leave out results equal to one before
    #[arg(long, help_heading = "Typed query")]
    distinct: bool,
    /// Print only the number of results
    #[arg(long, help_heading = "Typed query")]
    count: bool,
    /// So many results, spread by chance but the same every time
    #[arg(long, value_name = "NUMBER", value_parser = some_results(), help_heading = "Typed query")]
    sample: Option<u32>,
    /// Skip so many results; also of a query as JSON, and of a recipe
    #[arg(long, value_name = "NUMBER", conflicts_with = "jq", help_heading = "Typed query")]
    offset: Option<u64>,
    /// Most results [default: 50]; also of a query as JSON, and of a recipe
    #[arg(
        long,
        value_name = "NUMBER",
        conflicts_with = "jq",
        value_parser = some_results(),
        help_heading = "Typed query"
    )]
    limit: Option<u32>,
    /// The whole query as JSON
    #[arg(long, value_name = "JSON", group = "whole", value_parser = json_query, help_heading = "Typed query")]
    json_query: Option<Query>,

    /// jq program, run once a record
    #[arg(long, value_name = "PROGRAM", group = "whole", help_heading = "jq")]
    jq: Option<String>,
    /// Run the program once, over the array of all records
    #[arg(long, requires = "jq", help_heading = "jq")]
    slurp: bool,
    /// A variable of the program: NAME=VALUE
    #[arg(long = "arg", value_name = "NAME=VALUE", requires = "jq", value_parser = named_value, help_heading = "jq")]
    arguments: Vec<NamedValue>,

    /// Run a recipe of the descriptor by name
    #[arg(long, value_name = "NAME", group = "whole", help_heading = "Recipes")]
    recipe: Option<String>,
    /// A value in the place of the recipe's own: NAME=VALUE
    #[arg(
        long = "param",
        value_name = "NAME=VALUE",
        requires = "recipe",
        value_parser = named_value,
        help_heading = "Recipes"
    )]
    parameters: Vec<NamedValue>,
    /// List the recipes
    #[arg(long, group = "whole", help_heading = "Recipes")]
    recipes: bool,

    /// How results are printed
    #[arg(long, value_name = "FORM", default_value = "lines")]
    format: Format,
    /// Offload the answer again and print its descriptor
    #[arg(long)]
    offload_answer: bool,
}

/// A condition as it was given.
#[derive(Clone)]
enum Given {
    Words(Test),
    Json(Condition),
}

/// `NAME=VALUE`, any JSON value.
type NamedValue = (String, Box<RawValue>);

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON value a line
    Lines,
    /// One line of JSON: {"results": […], "offset", "total", "left", "matched", "examined"}, and "cut", "next_bytes" and
    /// "failures" where there are such
    Json,
    /// Columns, for people
    Table,
}

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    let store = host::store(config)?;
    let (offload, section) = arguments.handle.find(&store)?;
    if arguments.recipes {
        return recipes(&offload, arguments.format);
    }
    let (section, question) = arguments.question(&offload, section)?;
    let budget = Budget::from(&config.query);
    if arguments.offload_answer {
        let budget = Budget { bytes: ANSWER_BYTES_MAX, tokens: u32::MAX };
        let answer = host::extractor(config)?.ask(&offload, section.as_deref(), &unlimited(question), budget)?;
        return offload_again(arguments, config, terminal, store, answer);
    }
    let answer = host::extractor(config)?.ask(&offload, section.as_deref(), &question, budget)?;
    match arguments.format {
        Format::Lines => output::data(answer.lines.as_bytes())?,
        Format::Json => output::json(&answer)?,
        Format::Table => output::text(&table::of_lines(&answer.lines))?,
    }
    tell(arguments, &answer, terminal);
    Ok(Exit::Success)
}

impl Arguments {
    /// The question, and the section it is about.
    fn question(&self, offload: &Offload, section: Option<String>) -> anyhow::Result<(Option<String>, Question)> {
        if let Some(filter) = &self.jq {
            let arguments = self.arguments.iter().cloned().collect();
            return Ok((section, Question::Jq(Jq { filter: filter.clone(), slurp: self.slurp, arguments })));
        }
        let (section, query) = match (&self.recipe, &self.json_query) {
            (Some(name), _) => {
                let parameters = self.parameters.iter().cloned().collect();
                let (file, query) = stored_query(offload, name, &parameters)?;
                (Some(file.to_owned()), query)
            }
            (None, Some(query)) => (section, query.clone()),
            (None, None) => (section, self.query()),
        };
        let (offset, limit) = (self.offset.unwrap_or(query.offset), self.limit.or(query.limit));
        Ok((section, Question::Query(Query { offset, limit, ..query })))
    }

    /// The query that the flags make up.
    fn query(&self) -> Query {
        let is_grouped = !self.group_by.is_empty() || !self.aggregate.is_empty();
        let group = || Group {
            by: self.group_by.iter().map(|text| selection(text)).collect(),
            aggregates: self.aggregate.clone(),
        };
        Query {
            conditions: self.conditions.iter().map(|given| self.condition(given)).collect(),
            group: is_grouped.then(group),
            select: self.select.iter().map(|text| selection(text)).collect(),
            distinct: self.distinct,
            sort: self.sort.iter().map(|text| sort_key(text)).collect(),
            sample: self.sample,
            count: self.count,
            ..Query::default()
        }
    }

    fn condition(&self, given: &Given) -> Condition {
        match given {
            Given::Words(test) => Condition::Test(Test { ignore_case: self.ignore_case, ..test.clone() }),
            Given::Json(condition) => condition.clone(),
        }
    }
}

/// A number of results that can be asked for.
fn some_results() -> impl TypedValueParser<Value = u32> {
    value_parser!(u32).range(1..=i64::from(RESULTS_MAX))
}

/// Reads `FIELD OPERATOR VALUE`, or JSON.
fn condition(text: &str) -> Result<Given, String> {
    let text = text.trim();
    if text.starts_with('{') {
        return serde_json::from_str(text).map(Given::Json).map_err(|error| error.to_string());
    }
    let (field, rest) = text.split_once(char::is_whitespace).ok_or("expected FIELD OPERATOR VALUE")?;
    let rest = rest.trim_start();
    let (operator, value) = match rest.split_once(char::is_whitespace) {
        Some((operator, value)) => (operator, Some(json_value(value.trim_start()))),
        None => (rest, None),
    };
    let op: Operator = serde_json::from_value(operator.into()).map_err(|error| format!("the operator: {error}"))?;
    Ok(Given::Words(Test { field: field.to_owned(), op, value, ignore_case: false, parameter: None }))
}

fn json_query(text: &str) -> serde_json::Result<Query> {
    serde_json::from_str(text)
}

fn named_value(text: &str) -> Result<NamedValue, &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), json_value(value)))
}

/// A value that is JSON as such, anything else as a text.
fn json_value(text: &str) -> Box<RawValue> {
    let text_value = || RawValue::from_string(serde_json::Value::from(text).to_string());
    RawValue::from_string(text.to_owned()).or_else(|_| text_value()).unwrap_or_default()
}

fn selection(text: &str) -> Selection {
    let (field, name) = named(text);
    Selection { field, name }
}

fn named(text: &str) -> (String, Option<String>) {
    match text.split_once('=') {
        Some((field, name)) => (field.to_owned(), Some(name.to_owned())),
        None => (text.to_owned(), None),
    }
}

fn sort_key(text: &str) -> SortKey {
    match text.strip_prefix('-') {
        Some(field) => SortKey { field: field.to_owned(), descending: true },
        None => SortKey { field: text.to_owned(), descending: false },
    }
}

fn aggregate(text: &str) -> Result<Aggregate, String> {
    let (value, name) = named(text);
    let (kind, field) = match value.split_once(':') {
        Some((kind, field)) => (kind, Some(field.to_owned())),
        None => (value.as_str(), None),
    };
    let kind: AggregateKind =
        serde_json::from_value(kind.into()).map_err(|error| format!("expected KIND:FIELD: {error}"))?;
    Ok(Aggregate { kind, field, name })
}

/// As many results as an answer that is offloaded again may have.
fn unlimited(question: Question) -> Question {
    match question {
        Question::Query(query) => Question::Query(Query { limit: Some(query.limit.unwrap_or(RESULTS_MAX)), ..query }),
        jq => jq,
    }
}

/// Writes the answer to files of its own, whatever its size.
fn offload_again(
    arguments: &Arguments,
    config: &Config,
    terminal: &Terminal,
    store: Store,
    answer: Answer,
) -> anyhow::Result<Exit> {
    tell(arguments, &answer, terminal);
    let filter = host::filter(config, host::policy(config)?, Ok(store));
    let mut request = lro_host::filter::Request::new(&arguments.handle.tenant, "lro_extract");
    let mut settings = config.for_tool(&request.tool);
    settings.mode = DecisionMode::Always;
    request.settings = Arc::new(settings);
    let mut decision = filter.apply(&request, &Arc::new(answer.into_payload()?));
    match (decision.failure.take(), decision.outcome) {
        (None, Outcome::Offload(offloaded)) => {
            output::data(format!("{}\n", offloaded.descriptor).as_bytes())?;
            Ok(Exit::Success)
        }
        (Some(failure), _) => Err(failure.into()),
        (None, _) => bail!("the policy does not offload the answer"),
    }
}

/// What the lines of an answer do not say.
fn tell(arguments: &Arguments, answer: &Answer, terminal: &Terminal) {
    let Answer { results, offset, total, .. } = answer;
    let next = offset + results;
    match answer.cut {
        Some(Cut::Limit) => {
            terminal.message(&format!("{results} of {total} results; --offset {next} goes on, --limit takes more"));
        }
        Some(Cut::Budget(bytes)) if *results == 0 => terminal.warning(&format!(
            "the next of {total} results alone has {bytes} bytes: ask for less of it, or raise --query-answer-bytes and \
             --query-answer-tokens"
        )),
        Some(Cut::Budget(_)) => {
            let smaller = match arguments.jq {
                Some(_) => "a program that gives less has room for more".to_owned(),
                None => format!("--offset {next} goes on, --select makes them smaller"),
            };
            let again = if arguments.offload_answer { "" } else { ", --offload-answer writes all to files" };
            terminal.message(&format!("{results} of {total} results fit into the answer; {smaller}{again}"));
        }
        None => {}
    }
    if let Some(failures) = &answer.failures {
        terminal.warning(&format!(
            "the program failed on {} of {} records, first on record {}: {}",
            failures.records, answer.examined, failures.first, failures.message
        ));
    }
}

fn recipes(offload: &Offload, format: Format) -> anyhow::Result<Exit> {
    let queries = || offload.record().files.iter().flat_map(|file| &file.queries);
    match format {
        Format::Lines | Format::Json => queries().try_for_each(output::json)?,
        Format::Table => {
            let rows: Vec<(&str, String)> = queries().map(|one| (one.name.as_str(), one.description.clone())).collect();
            output::text(&output::columns(&rows))?;
        }
    }
    Ok(Exit::Success)
}
