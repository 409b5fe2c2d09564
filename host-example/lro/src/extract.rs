//! `lro extract`: answers one question about an offload.

use std::sync::Arc;

use anyhow::bail;
use clap::builder::TypedValueParser;
use clap::{ArgGroup, Args, value_parser};
use lro_gateway::settings::{Config, DecisionMode};
use lro_host::extract::{
    ANSWER_BYTES_MAX, Aggregate, Answer, Budget, Condition, Cut, Group, Jq, Query, QueryError, Question, RESULTS_MAX,
    Search, Selection, SortKey, Test, stored_query,
};
use lro_host::filter::Outcome;
use lro_host::store::{Offload, Store};
use serde_json::value::RawValue;

use crate::destination::Destination;
use crate::exit::Exit;
use crate::format::{Format, into_lines};
use crate::handle::HandleArguments;
use crate::host;
use crate::output::{self, Terminal};
use crate::rows::Rows;
use crate::search::{self, SearchArguments};

const EXAMPLES: &str = "Examples:
  lro extract HANDLE --where 'category eq billing' --where 'score > 0.9' --select id,title
  lro extract HANDLE --where 'score > 0.9 and (state == \"open\" or not title contains \"draft\")'
  lro extract HANDLE --where 'title contains error' --ignore-case --count
  lro extract HANDLE --group-by category --aggregate count,avg:score --sort=-count --format table
  lro extract HANDLE --where '{\"any\": [{\"field\": \"id\", \"op\": \"lt\", \"value\": 9}, {\"field\": \"note\", \"op\": \"is_null\"}]}'
  lro extract HANDLE --jq 'select(.score > $least) | .id' --arg least=0.9
  lro extract HANDLE --search 'connection refused' -i -C 2
  lro extract HANDLE --search 'time(d )?out' --regex --count
  lro extract HANDLE --search 'how are orders retried' --rank --limit 5
  lro extract HANDLE --lines 120:160
  lro extract HANDLE --lines -20:
  lro extract HANDLE --where 'score > 0.9' --format csv --output scores.csv
  lro extract HANDLE --format parquet --output rows.parquet
  lro extract HANDLE --recipes
  lro extract HANDLE --recipe orders_where --param status=failed

A field is written `owner.name`, or as a JSON Pointer `/owner/name`; a name with spaces is in double quotes. Operators: eq ne \
lt le gt ge in contains starts-with ends-with matches exists is-null, and = != < <= > >=. With `and`, `or`, `not` and brackets, \
a value is JSON or in single quotes; in a single condition, a value that is not JSON is a text. A missing field fails every \
test; null is equal to null only.";

/// The flags of a typed query, which conflict with those that give a whole query.
const PARTS: [&str; 7] = ["conditions", "select", "sort", "group_by", "aggregate", "distinct", "sample"];

/// The flags that give a whole question with which `--ignore-case` and `--count` do not go.
const OTHERS: [&str; 4] = ["json_query", "jq", "recipe", "recipes"];

/// Answer a question about an offload: a typed query, a search, a jq program, or a recipe
///
/// The question is answered in a sandbox that sees only this offload, and files that have changed are refused. Without a
/// question, prints the first 50 records.
#[derive(Args)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("whole").conflicts_with_all(PARTS))]
pub(crate) struct Arguments {
    #[command(flatten)]
    handle: HandleArguments,

    /// Condition `FIELD OPERATOR VALUE`, several with `and`, `or`, `not`, or JSON; if repeated, all must hold
    #[arg(long = "where", value_name = "CONDITION", value_parser = condition, help_heading = "Typed query")]
    conditions: Vec<ConditionArgument>,
    /// Ignore case in all conditions that are not JSON, or in the search
    #[arg(short, long, conflicts_with_all = OTHERS, help_heading = "Typed query")]
    ignore_case: bool,
    /// Fields of each result: FIELD or FIELD=NAME
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', help_heading = "Typed query")]
    select: Vec<String>,
    /// Order: FIELD, and -FIELD or `FIELD desc` for descending
    #[arg(
        long,
        value_name = "FIELDS",
        value_delimiter = ',',
        allow_hyphen_values = true,
        value_parser = sort_key,
        help_heading = "Typed query"
    )]
    sort: Vec<SortKey>,
    /// One result per group of equal values: FIELD or FIELD=NAME
    #[arg(long, value_name = "FIELDS", value_delimiter = ',', help_heading = "Typed query")]
    group_by: Vec<String>,
    /// Values of each group: count, or KIND:FIELD with sum, min, max, avg or count; optionally =NAME
    #[arg(long, value_name = "VALUES", value_delimiter = ',', value_parser = aggregate, help_heading = "Typed query")]
    aggregate: Vec<Aggregate>,
    /// Omit duplicate results
    #[arg(long, help_heading = "Typed query")]
    distinct: bool,
    /// Print only the number of results, or of hits of the search
    #[arg(long, conflicts_with_all = OTHERS, help_heading = "Typed query")]
    count: bool,
    /// Return a sample of this many results, random but the same every time
    #[arg(long, value_name = "NUMBER", value_parser = result_count(), help_heading = "Typed query")]
    sample: Option<u32>,
    /// Skip this many results; also applies to --search, --json-query, --recipe and --jq
    #[arg(long, value_name = "NUMBER", help_heading = "Typed query")]
    offset: Option<u64>,
    /// Maximum number of results [default: 50, of a search 20]; also applies to --search, --json-query, --recipe and --jq
    #[arg(long, value_name = "NUMBER", value_parser = result_count(), help_heading = "Typed query")]
    limit: Option<u32>,
    /// The whole query as JSON
    #[arg(long, value_name = "JSON", group = "whole", value_parser = json_query, help_heading = "Typed query")]
    json_query: Option<Query>,

    #[command(flatten)]
    search: SearchArguments,

    /// jq program, run once per record
    #[arg(long, value_name = "PROGRAM", group = "whole", help_heading = "jq")]
    jq: Option<String>,
    /// Run the program once, over the array of all records
    #[arg(long, requires = "jq", help_heading = "jq")]
    slurp: bool,
    /// Variable of the program: NAME=VALUE
    #[arg(long = "arg", value_name = "NAME=VALUE", requires = "jq", value_parser = named_value, help_heading = "jq")]
    arguments: Vec<NamedValue>,

    /// Run a recipe of the descriptor by name
    #[arg(long, value_name = "NAME", group = "whole", help_heading = "Recipes")]
    recipe: Option<String>,
    /// Override a value of the recipe: NAME=VALUE
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

    /// Output format
    #[arg(long, value_name = "FORM", default_value = "jsonl")]
    format: Format,
    #[command(flatten)]
    destination: Destination,
    /// Offload the answer again and print its descriptor
    #[arg(long, conflicts_with = "output")]
    offload_answer: bool,
}

/// A condition on the command line.
#[derive(Clone)]
enum ConditionArgument {
    /// `FIELD OPERATOR VALUE`, or an expression.
    Text(Condition),
    /// `FIELD OPERATOR TEXT`, where the text has a word that would join conditions if it were in quotes.
    Doubtful(Condition, String),
    Json(Condition),
}

/// `NAME=VALUE`, any JSON value.
type NamedValue = (String, Box<RawValue>);

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    arguments.format.check(arguments.destination.path().is_some())?;
    let store = host::store(config)?;
    let (offload, section) = arguments.handle.find(&store)?;
    if arguments.recipes {
        return recipes(&offload, arguments);
    }
    let (section, question) = arguments.question(&offload, section)?;
    let (extractor, section, destination) = (host::extractor(config)?, section.as_deref(), &arguments.destination);
    if arguments.offload_answer {
        let (question, budget) = (unlimited(question), Budget { bytes: ANSWER_BYTES_MAX, tokens: u32::MAX });
        let answer = extractor.ask(&offload, section, &question, budget)?;
        report(arguments, &question, &answer, terminal);
        return offload_again(arguments, config, store, answer);
    }
    // The usual budget is for what a model reads.
    let (mut rows, answer) = destination.rows(|out| match destination.is_whole() {
        true => Ok(extractor.export(&offload, section, &question, out)?),
        false => into_lines(extractor.ask(&offload, section, &question, Budget::from(&config.query))?, out),
    })?;
    destination.write(|out| arguments.format.write_answer(&mut rows, &answer, out))?;
    report(arguments, &question, &answer, terminal);
    Ok(Exit::Success)
}

impl Arguments {
    /// Builds the question, and returns it with its section.
    fn question(&self, offload: &Offload, section: Option<String>) -> anyhow::Result<(Option<String>, Question)> {
        let fill = |search| {
            let (offset, limit) = (self.offset.unwrap_or(0), self.limit);
            Search { ignore_case: self.ignore_case, count: self.count, offset, limit, ..search }
        };
        if let Some(question) = self.search.question(fill) {
            return Ok((section, question));
        }
        if let Some(filter) = &self.jq {
            let arguments = self.arguments.iter().cloned().collect();
            let (offset, limit) = (self.offset.unwrap_or(0), self.limit);
            let jq = Jq { filter: filter.clone(), slurp: self.slurp, arguments, offset, limit };
            return Ok((section, Question::Jq(jq)));
        }
        let (section, query) = match (&self.recipe, &self.json_query) {
            (Some(name), _) => {
                let parameters = self.parameters.iter().cloned().collect();
                let (file, query) = stored_query(offload.record(), name, &parameters)?;
                (Some(file.to_owned()), query)
            }
            (None, Some(query)) => (section, query.clone()),
            (None, None) => (section, self.query()),
        };
        let (offset, limit) = (self.offset.unwrap_or(query.offset), self.limit.or(query.limit));
        Ok((section, Question::Query(Query { offset, limit, ..query })))
    }

    /// Builds the query from the flags.
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
            sort: self.sort.clone(),
            sample: self.sample,
            count: self.count,
            ..Query::default()
        }
    }

    fn condition(&self, given: &ConditionArgument) -> Condition {
        let (ConditionArgument::Text(condition)
        | ConditionArgument::Doubtful(condition, _)
        | ConditionArgument::Json(condition)) = given;
        let mut condition = condition.clone();
        if self.ignore_case && !matches!(given, ConditionArgument::Json(_)) {
            condition.ignore_case();
        }
        condition
    }
}

/// Parses a number of results.
fn result_count() -> impl TypedValueParser<Value = u32> {
    value_parser!(u32).range(1..=i64::from(RESULTS_MAX))
}

/// Parses JSON, an expression whose values are all JSON or in quotes, or else `FIELD OPERATOR VALUE`.
fn condition(text: &str) -> Result<ConditionArgument, QueryError> {
    let text = text.trim();
    if text.starts_with('{') {
        return Condition::read(text).map(ConditionArgument::Json);
    }
    if let Ok(condition) = Condition::of_expression(text) {
        return Ok(ConditionArgument::Text(condition));
    }
    let condition = Condition::of_words(text)?;
    let joins = |word: &&str| ["and", "or", "&&", "||"].iter().any(|join| join.eq_ignore_ascii_case(word));
    Ok(match &condition {
        Condition::Test(Test { value: Some(value), .. })
            if value.get().starts_with('"') && text.split_whitespace().any(|word| joins(&word)) =>
        {
            let note = format!("compared with the one text {}; in quotes, several values can be joined", value.get());
            ConditionArgument::Doubtful(condition, note)
        }
        _ => ConditionArgument::Text(condition),
    })
}

fn json_query(text: &str) -> Result<Query, QueryError> {
    Query::read(text)
}

fn named_value(text: &str) -> Result<NamedValue, &'static str> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), json_value(value)))
}

/// Parses JSON; takes anything else as a string.
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

fn sort_key(text: &str) -> Result<SortKey, String> {
    text.parse().map_err(|expected| format!("expected {expected}"))
}

fn aggregate(text: &str) -> Result<Aggregate, QueryError> {
    let (value, name) = named(text);
    Ok(Aggregate { name, ..value.parse()? })
}

/// Raises the default limit, for an answer that is offloaded.
fn unlimited(question: Question) -> Question {
    match question {
        Question::Query(query) => Question::Query(Query { limit: Some(query.limit.unwrap_or(RESULTS_MAX)), ..query }),
        Question::Search(search) => Question::Search(search::unlimited(search)),
        other @ (Question::Jq(_) | Question::Lines(_)) => other,
    }
}

/// Offloads the answer, whatever its size.
fn offload_again(arguments: &Arguments, config: &Config, store: Store, answer: Answer) -> anyhow::Result<Exit> {
    let filter = host::filter(config, host::policy(config, &arguments.handle.tenant)?, Ok(store))?;
    let mut request = lro_host::filter::Request::new(&arguments.handle.tenant, "lro_extract");
    let mut settings = config.for_tool(&request.tool);
    settings.mode = DecisionMode::Always;
    request.settings = Arc::new(settings);
    request.time_to_live = config.gateway_tool(&request.tool).time_to_live();
    let mut decision = filter.apply(&request, &Arc::new(answer.into_payload()?));
    match (decision.failure.take(), decision.outcome) {
        (None, Outcome::Offload(offloaded)) => {
            output::data(format!("{}\n", offloaded.descriptor).as_bytes())?;
            Ok(Exit::Success)
        }
        (Some(failure), _) => Err(failure.into()),
        (None, _) => bail!("the policy did not offload the answer"),
    }
}

/// Reports on stderr what the lines of the answer do not say.
fn report(arguments: &Arguments, question: &Question, answer: &Answer, terminal: &Terminal) {
    report_notes(arguments, answer, terminal);
    report_rest(arguments, question, answer, terminal);
}

/// Reports what the question was taken to mean, where it says something else.
fn report_notes(arguments: &Arguments, answer: &Answer, terminal: &Terminal) {
    let doubts = arguments.conditions.iter().filter_map(|given| match given {
        ConditionArgument::Doubtful(_, note) => Some(note),
        ConditionArgument::Text(_) | ConditionArgument::Json(_) => None,
    });
    doubts.chain(&answer.notes).for_each(|note| terminal.message(&format!("note: {note}")));
}

/// Reports what is not in the answer.
fn report_rest(arguments: &Arguments, question: &Question, answer: &Answer, terminal: &Terminal) {
    let Answer { results, offset, total, .. } = answer;
    let next = match question {
        Question::Lines(range) => format!("--lines {}", range.behind(answer)),
        _ => format!("--offset {}", offset + results),
    };
    let smaller = match question {
        Question::Jq(_) => "return less per record",
        Question::Query(_) => "select fewer fields with --select",
        Question::Search(_) => "show less context",
        Question::Lines(_) => "ask for fewer lines",
    };
    match answer.cut {
        Some(Cut::Limit) if matches!(question, Question::Lines(_)) => {
            terminal.message(&format!("{results} of {total} lines; continue with {next}"));
        }
        Some(Cut::Limit) => {
            terminal.message(&format!("{results} of {total} results; continue with {next}, or raise --limit"));
        }
        Some(Cut::Budget(bytes)) if *results == 0 => terminal.warning(&format!(
            "the next of {total} results alone has {bytes} bytes: {smaller}, or raise --query-answer-bytes and \
            --query-answer-tokens"
        )),
        Some(Cut::Budget(_)) => {
            let again = if arguments.offload_answer {
                ""
            } else {
                ", or write more to a file with --output or --offload-answer"
            };
            terminal.message(&format!(
                "{results} of {total} results fit in the answer; continue with {next}, or {smaller}{again}"
            ));
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

fn recipes(offload: &Offload, arguments: &Arguments) -> anyhow::Result<Exit> {
    let queries: Vec<_> = offload.record().files.iter().flat_map(|file| &file.queries).collect();
    let lines =
        queries.iter().map(|query| Ok(serde_json::to_string(query)? + "\n")).collect::<anyhow::Result<String>>()?;
    arguments.destination.write(|out| match arguments.format {
        Format::Jsonl | Format::Json => Ok(out.write_all(lines.as_bytes())?),
        Format::Table => {
            let rows: Vec<_> = queries.iter().map(|one| (one.name.as_str(), one.description.clone())).collect();
            Ok(out.write_all(output::printable(&output::columns(&rows)).as_bytes())?)
        }
        format => format.write(&mut Rows::of(&lines)?, &queries, out),
    })?;
    Ok(Exit::Success)
}
