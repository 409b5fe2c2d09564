//! `lro sql`: answers a query in SQL about one or several offloads.

use clap::{Args, value_parser};
use lro_gateway::settings::Config;
use lro_host::extract::{Answer, Budget, Cut, RESULTS_MAX, Sql, Tables};
use lro_host::store::{Store, Ulid};

use crate::destination::Destination;
use crate::exit::Exit;
use crate::format::{Format, into_lines};
use crate::handle::HandleArguments;
use crate::host;
use crate::output::Terminal;

const EXAMPLES: &str = "Examples:
  lro sql HANDLE 'SELECT state, count(*) AS n FROM records WHERE lat > 60 GROUP BY state ORDER BY n DESC LIMIT 5'
  lro sql HANDLE 'SELECT name, owner.name AS owner, \"/tags/0\" AS tag FROM products' --format table
  lro sql a=HANDLE b=HANDLE 'SELECT a.id, b.total FROM a JOIN b ON a.id = b.id'
  lro sql january=HANDLE/rows february=HANDLE/rows 'SELECT * FROM january UNION ALL SELECT * FROM february'

Tables are the sections of the offloads by their names, or by NAME; a single one is also named records, data and t. Fields are \
columns. The subset: SELECT with expressions, DISTINCT, JOIN, LEFT JOIN, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET, UNION, \
WITH, subqueries; values and orders are those of DuckDB.";

/// Answer a query in SQL about one or several offloads
///
/// The query is answered in a sandbox that sees only these offloads, and files that have changed are refused.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Offloads: a handle, a handle and a section, or a path, and possibly a name for the query
    #[arg(value_name = "[NAME=]HANDLE[/SECTION]", required = true)]
    tables: Vec<String>,
    /// The query
    #[arg(value_name = "QUERY")]
    query: String,
    /// Tenant that owns the offloads
    #[arg(long, value_name = "NAME", default_value = "default")]
    tenant: String,
    /// Skip this many rows of the result
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    offset: u64,
    /// Maximum number of rows [default: as many as fit]
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u32).range(1..=i64::from(RESULTS_MAX)))]
    limit: Option<u32>,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "jsonl")]
    format: Format,
    #[command(flatten)]
    destination: Destination,
}

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    arguments.format.check(arguments.destination.path().is_some())?;
    let store = host::store(config)?;
    let tables = arguments.tables.iter().map(|text| arguments.table(text, &store)).collect::<Result<Vec<_>, _>>()?;
    let sql = Sql { query: arguments.query.clone(), offset: arguments.offset, limit: arguments.limit };
    let (extractor, destination) = (host::extractor(config)?, &arguments.destination);
    let (mut rows, answer) = destination.rows(|out| match destination.is_whole() {
        true => Ok(extractor.export_sql(&tables, &sql, out)?),
        false => into_lines(extractor.sql(&tables, &sql, Budget::from(&config.query))?, out),
    })?;
    destination.write(|out| arguments.format.write_answer(&mut rows, &answer, out))?;
    answer.notes.iter().for_each(|note| terminal.message(&format!("note: {note}")));
    report_rest(&answer, terminal);
    Ok(Exit::Success)
}

impl Arguments {
    /// The sections that `[NAME=]HANDLE[/SECTION]` stands for.
    fn table(&self, text: &str, store: &Store) -> anyhow::Result<Tables> {
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let (name, place) = match text.split_once('=').filter(|(name, _)| is_name(name)) {
            Some((name, place)) => (Some(name.to_owned()), place),
            None => (None, text),
        };
        let (offload, section) = match place.split_once('/').filter(|(handle, _)| handle.parse::<Ulid>().is_ok()) {
            Some((handle, section)) => (handle, Some(section.to_owned())),
            None => (place, None),
        };
        let handle = HandleArguments { offload: offload.to_owned(), section, tenant: self.tenant.clone() };
        let (offload, section) = handle.find(store)?;
        Ok(Tables { offload, section, name })
    }
}

/// Reports what is not in the answer.
fn report_rest(answer: &Answer, terminal: &Terminal) {
    let Answer { results, offset, total, .. } = answer;
    let next = format!("continue with --offset {}", offset + results);
    match answer.cut {
        Some(Cut::Limit) => terminal.message(&format!("{results} of {total} rows; {next}, or raise --limit")),
        Some(Cut::Budget(bytes)) if *results == 0 => terminal.warning(&format!(
            "the next of {total} rows alone has {bytes} bytes: select fewer columns, or raise --query-answer-bytes and \
             --query-answer-tokens"
        )),
        Some(Cut::Budget(_)) => {
            terminal.message(&format!("{results} of {total} rows fit in the answer; {next}, or select fewer columns"));
        }
        None => {}
    }
}
