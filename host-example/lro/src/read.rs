//! `lro read`: prints a page of an offload.

use std::io::Write;

use clap::Args;
use lro_gateway::settings::Config;
use lro_host::read::{PAGE_BYTES_MAX, PAGE_BYTES_MIN, PAGE_RECORDS_MAX, Page, PageContent, PageRequest, Pages, Start};
use lro_host::store::Offload;

use crate::exit::Exit;
use crate::format::Format;
use crate::handle::HandleArguments;
use crate::host;
use crate::output::{self, Terminal};
use crate::rows::Rows;

const EXAMPLES: &str = "Examples:
  lro read HANDLE
  lro read HANDLE --from 900000 --limit 10 --format table
  lro read HANDLE --from -10
  lro read HANDLE --cursor CURSOR
  lro read HANDLE --section notes --bytes 4000 --format json | jq -r .next

Records and lines are counted from 0, those of `lro extract --lines` and of hits from 1.
A record larger than the page is returned in parts.";

/// Print a page of an offload: records, lines of a text, or part of a binary file
///
/// The cursor of the next page is printed to stderr, or in the JSON. It is signed, valid for this offload only, and
/// expires with it.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    handle: HandleArguments,
    /// Number of the first record or line, from 0; -10 is the tenth from the end
    #[arg(long, value_name = "NUMBER", default_value_t = 0, allow_negative_numbers = true, conflicts_with = "cursor")]
    from: i64,
    /// Continue from this cursor
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
    /// Maximum number of records [default: as many as fit]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=i64::from(PAGE_RECORDS_MAX)))]
    limit: Option<u32>,
    /// Maximum bytes [default: 20000]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(i64::from(PAGE_BYTES_MIN)..=i64::from(PAGE_BYTES_MAX)))]
    bytes: Option<u32>,
    /// Output format
    #[arg(long, value_name = "FORM", default_value = "jsonl")]
    format: Format,
}

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    arguments.format.check(false)?;
    let store = host::store(config)?;
    let (offload, section) = arguments.handle.find(&store)?;
    let section = match section {
        Some(section) => section,
        None => only_section(&offload)?,
    };
    let request = PageRequest {
        tenant: arguments.handle.tenant.clone(),
        offload: offload.id(),
        section,
        start: arguments.cursor.clone().map_or(Start::of_number(arguments.from), Start::Cursor),
        bytes: arguments.bytes,
        records: arguments.limit,
    };
    let page = Pages::new(store)?.page(&request)?;
    let mut text = Vec::new();
    match (arguments.format, &page.content) {
        (Format::Json, _) => return output::json(&page).map(|()| Exit::Success),
        (format, PageContent::Records(records)) => format.write(&mut Rows::of(&lines(records))?, &page, &mut text)?,
        (_, PageContent::Text(part) | PageContent::Base64(part)) => writeln!(text, "{}", part.data)?,
    }
    output::data(&text)?;
    report_position(&page, terminal);
    Ok(Exit::Success)
}

fn only_section(offload: &Offload) -> anyhow::Result<String> {
    match offload.record().only_file() {
        Ok(file) => Ok(file.name.clone()),
        Err(sections) if sections.is_empty() => anyhow::bail!("the offload has no files"),
        Err(sections) => {
            anyhow::bail!("the offload has several sections: choose one with --section: {}", sections.join(", "))
        }
    }
}

fn lines(records: &[String]) -> String {
    records.iter().flat_map(|record| [record, "\n"]).collect()
}

/// Reports the position of the page and the next cursor on stderr.
fn report_position(page: &Page, terminal: &Terminal) {
    let Page { first, total, .. } = page;
    let position = match &page.content {
        PageContent::Records(records) => format!("records {} of {total}", span(*first, records.len() as u64)),
        PageContent::Text(part) | PageContent::Base64(part) => {
            let bytes = format!("bytes {} of {}", span(part.offset, part.bytes), part.record_bytes);
            if *total > 1 { format!("record {first} of {total}, {bytes}") } else { bytes }
        }
    };
    let next = page.next.as_ref().map_or("the end".to_owned(), |next| format!("--cursor {next}"));
    terminal.message(&format!("{position}; {next}"));
}

/// Formats the first and last index of a range.
fn span(first: u64, count: u64) -> String {
    format!("{first} to {}", (first + count).saturating_sub(1))
}
