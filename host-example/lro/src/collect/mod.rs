//! `lro collect`: calls a tool of a server for all pages of its list, and keeps them as one offload or as a file.

mod document;
mod lines;

use std::env;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::builder::PossibleValuesParser;
use clap::error::ErrorKind;
use clap::{Args, value_parser};
use indicatif::{ProgressBar, ProgressStyle};
use lro_gateway::Gateway;
use lro_gateway::collect::{CollectError, Collected, Collector, Count, Ended, Kept, arguments_of, error_text, summary};
use lro_gateway::settings::{CollectSettings, Config, DecisionMode, UpstreamUrl};
use lro_host::job;
use lro_host::mcp::{self, Following, Message, ToolPage};
use lro_json::write::thousands;
use lro_json::{SyntaxError, members};
use lro_system::files::real_path;
use tempfile::TempPath;
use tokio::sync::Notify;

use self::document::Document;
use self::lines::LinesFile;
use crate::exit::Exit;
use crate::flags::{Ability, CallArguments, InputForm};
use crate::handle::HandleArguments;
use crate::offload;
use crate::output::Terminal;
use crate::server::{self, Server};
use crate::signals::Signals;

const EXAMPLES: &str = "Examples:
  lro collect --tool list_orders -- my-server --verbose
  lro collect --tool search --arguments '{\"query\": \"late\"}' --upstream https://mcp.example.com/mcp
  lro collect --tool list_events --style offset --concurrency 4 --output events.jsonl -- my-server
  lro collect --tool list_events --resume events.jsonl -- my-server
  lro extract $(lro collect --handle --tool list_orders -- my-server) --group-by state --aggregate count

Exit codes:
  0  all pages
  1  error, or not all pages: what came is kept, and --resume goes on
  2  usage or configuration";

/// How often the line of progress is drawn.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Call a tool for all pages of its list, and keep them as one offload
///
/// The server is a command after `--`, or an endpoint of Streamable HTTP (--upstream). How its pages follow one another is found in the
/// first page and the schema of the tool, or set: by the flags below, or in the table `collect` of the tool. Prints the descriptor
/// of the offload, as `lro offload` does. What came before an early end or an interruption (Ctrl-C, SIGTERM) is kept. Of a process
/// that is killed (SIGKILL) only --output keeps something: all pages but the one in flight.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Name of the tool
    #[arg(long, value_name = "NAME")]
    tool: String,
    /// Arguments of the first call
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = object)]
    arguments: String,
    /// Streamable HTTP endpoint, in place of a command
    #[arg(long, visible_alias = "url", value_name = "URL", conflicts_with = "command", value_parser = url)]
    upstream: Option<UpstreamUrl>,
    #[command(flatten)]
    pages: PageFlags,
    /// Write the records to this file, one a line, in place of an offload; only you can read it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file if there is one
    #[arg(long, requires = "output")]
    force: bool,
    /// Go on with what came before an early end: the file, or the offload, whose records become part of another
    #[arg(long, value_name = "FILE|HANDLE", conflicts_with = "output")]
    resume: Option<String>,
    /// Print only the handle
    #[arg(long, conflicts_with = "output")]
    handle: bool,
    /// Tenant that owns the offload
    #[arg(long, value_name = "NAME", default_value = "default")]
    tenant: String,
    /// Command and arguments of a server that uses standard input and output; options of lro go before it
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The settings of the table `collect`.
#[derive(Args)]
#[command(next_help_heading = "Pages")]
struct PageFlags {
    /// What selects a page
    #[arg(long, value_name = "STYLE", value_parser = PossibleValuesParser::new(["auto", "cursor", "page", "offset", "link"]))]
    style: Option<String>,
    /// The argument of the tool for it
    #[arg(long, value_name = "NAME")]
    argument: Option<String>,
    /// Where a page says what is next: the cursor, the link, the number, or whether there is one
    #[arg(long, value_name = "POINTER")]
    next: Option<String>,
    /// Where a page has its records
    #[arg(long, value_name = "POINTER")]
    items: Option<String>,
    /// Where a page has the number of all records
    #[arg(long, value_name = "POINTER")]
    total: Option<String>,
    /// Maximum number of pages [default: 10000]
    #[arg(long, value_name = "NUMBER")]
    pages_max: Option<NonZeroU32>,
    /// Maximum bytes of all records [default: 268435456]
    #[arg(long, value_name = "BYTES")]
    bytes_max: Option<NonZeroU64>,
    /// Maximum milliseconds of all [default: no limit]
    #[arg(long, value_name = "NUMBER")]
    milliseconds_max: Option<NonZeroU64>,
    /// Milliseconds between an answer and the next request [default: 0]
    #[arg(long, value_name = "NUMBER")]
    pause_ms: Option<u64>,
    /// Requests at a time where pages are numbered [default: 1]
    #[arg(long, value_name = "NUMBER", value_parser = value_parser!(u32).range(1..=64))]
    concurrency: Option<u32>,
}

impl PageFlags {
    /// The settings of the tool, with the flags in place of what they set.
    fn over(&self, settings: CollectSettings) -> anyhow::Result<CollectSettings> {
        let Self { argument, next, items, total, .. } = self;
        let style = self.style.as_ref().map(|style| serde_json::from_value(style.as_str().into())).transpose()?;
        Ok(CollectSettings {
            style: style.unwrap_or(settings.style),
            argument: argument.clone().or(settings.argument),
            next: next.clone().or(settings.next),
            items: items.clone().or(settings.items),
            total: total.clone().or(settings.total),
            pages_max: self.pages_max.unwrap_or(settings.pages_max),
            bytes_max: self.bytes_max.unwrap_or(settings.bytes_max),
            milliseconds_max: self.milliseconds_max.or(settings.milliseconds_max),
            pause_ms: self.pause_ms.unwrap_or(settings.pause_ms),
            concurrency: self.concurrency.and_then(NonZeroU32::new).unwrap_or(settings.concurrency),
        })
    }
}

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    let settings = arguments.pages.over(config.collect(&arguments.tool).cloned().unwrap_or_default())?;
    let (target, call, earlier) = target(arguments, config)?;
    let interrupted = interruption()?;
    // The pages are put together here.
    let gateway = server::forwarding(config, arguments.upstream.clone(), &arguments.command)?;
    let mut keeping = Keeping { target, count: earlier, last: None, progress: progress() };
    let collected = job::finish(async {
        tokio::select! {
            biased;
            () = interrupted.notified() => None,
            collected = collect(gateway, &arguments.tool, call, &settings, |kept| keeping.keep(kept, earlier)) => {
                Some(collected)
            }
        }
    });
    keeping.progress.finish_and_clear();
    let end = keeping.end(collected.transpose()?, &settings, earlier)?;
    finish(arguments, config, end, terminal)
}

/// Collects the pages of a tool, of the server behind a gateway.
async fn collect(
    gateway: Gateway,
    tool: &str,
    arguments: String,
    settings: &CollectSettings,
    keep: impl FnMut(&Kept<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<Collected> {
    let server = Server::start(gateway).await?;
    let schema = server.input_schema(tool).await?;
    let collector = Collector {
        settings,
        schema: Some(&schema),
        time_max: settings.milliseconds_max.map(|milliseconds| Duration::from_millis(milliseconds.get())),
        bytes_max: settings.bytes_max.get(),
        ask: |arguments: &str| server.call(tool, arguments),
    };
    collector.run(arguments, keep).await.map_err(|error| match error {
        CollectError::Keep(error) => error,
        error => anyhow!("{error}"),
    })
}

/// The error about a command line: one without a tool may have its options behind `--`, where they are the server's.
pub(crate) fn explained(error: clap::Error) -> clap::Error {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let is_collect = arguments.first().is_some_and(|command| command == "collect");
    let mut of_server = arguments.iter().skip_while(|argument| *argument != "--");
    let is_tool =
        |argument: &OsString| argument.to_str().is_some_and(|text| text == "--tool" || text.starts_with("--tool="));
    match error.kind() {
        ErrorKind::MissingRequiredArgument if is_collect && of_server.any(is_tool) => clap::Error::raw(
            ErrorKind::MissingRequiredArgument,
            "`--tool` stands behind `--`, where all options are the server's\n\n  tip: options of lro go before it: \
             lro collect --tool NAME --arguments JSON -- SERVER ARGS\n",
        ),
        _ => error,
    }
}

/// Checks that a text is a JSON object.
pub(crate) fn object(text: &str) -> Result<String, SyntaxError> {
    members(text).map(|_| text.to_owned())
}

pub(crate) fn url(text: &str) -> Result<UpstreamUrl, &'static str> {
    UpstreamUrl::try_from(text.to_owned())
}

/// Where the records go, the arguments of the first call, and what is there already.
fn target(arguments: &Arguments, config: &Config) -> anyhow::Result<(Target, String, Count)> {
    let first = arguments.arguments.clone();
    let Some(resume) = &arguments.resume else {
        let target = match &arguments.output {
            Some(path) => Target::Lines(LinesFile::create(path, arguments.force)?),
            None => Target::Document(Box::new(Document::create()?)),
        };
        return Ok((target, first, Count::default()));
    };
    let (target, next, count) = if LinesFile::can_go_on(Path::new(resume)) {
        let (file, position) = LinesFile::reopen(Path::new(resume))?;
        (Target::Lines(file), position.next.get().to_owned(), position.count)
    } else {
        let store = crate::host::store(config)?;
        if real_path(Path::new(resume)).is_ok_and(|path| path.is_file() && !path.starts_with(store.root())) {
            bail!("{resume} is complete, or has no {resume}.resume, which says where to go on");
        }
        let handle = HandleArguments { offload: resume.clone(), section: None, tenant: arguments.tenant.clone() };
        let (offload, _) = handle.find(&store)?;
        let (document, next, count) = Document::after(offload)?;
        (Target::Document(Box::new(document)), next, count)
    };
    let changes: Vec<(String, String)> = members(&next)?
        .iter()
        .map(|member| Ok((serde_json::from_str(member.key)?, member.value.to_owned())))
        .collect::<serde_json::Result<_>>()?;
    Ok((target, mcp::with_arguments(&first, &changes), count))
}

/// Is notified when a signal asks for the end. A second one ends the process.
fn interruption() -> anyhow::Result<Arc<Notify>> {
    let interrupted = Arc::new(Notify::new());
    let (mut signals, notify) = (Signals::of_ends()?, Arc::clone(&interrupted));
    std::thread::Builder::new().spawn(move || {
        signals.next();
        notify.notify_one();
        signals.next();
        std::process::exit(Exit::Error as i32)
    })?;
    Ok(interrupted)
}

/// A line of progress, on a terminal.
fn progress() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    let bar = ProgressBar::no_length().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.set_message("connecting");
    bar.enable_steady_tick(PROGRESS_INTERVAL);
    bar
}

/// Where records go.
enum Target {
    Lines(LinesFile),
    Document(Box<Document>),
}

/// The pages so far.
struct Keeping {
    target: Target,
    count: Count,
    /// The last page that was kept, and what follows it.
    last: Option<(ToolPage, Following)>,
    progress: ProgressBar,
}

/// What became of a collection.
struct End {
    result: Kind,
    count: Count,
    /// Why it is not whole.
    ended: Option<Ended>,
    /// Whether the rest can be asked for.
    goes_on: bool,
}

enum Kind {
    /// A file of lines.
    File(PathBuf),
    /// A document, to be offloaded.
    Document(TempPath),
}

impl Keeping {
    /// Keeps a page, after those that were there `earlier`.
    fn keep(&mut self, kept: &Kept<'_>, earlier: Count) -> anyhow::Result<()> {
        self.count = earlier.plus(kept.count);
        match &mut self.target {
            Target::Lines(file) => file.keep(kept, self.count)?,
            Target::Document(document) => document.keep(kept)?,
        }
        let total = kept.total.map(|total| format!(" of {}", thousands(total))).unwrap_or_default();
        let Count { pages, records } = self.count;
        self.progress.set_message(format!("page {}, {}{total} records", thousands(pages), thousands(records)));
        self.last = Some((kept.page.clone(), kept.following.clone()));
        Ok(())
    }

    /// Ends the collection, which was interrupted if it has no end of its own.
    fn end(mut self, collected: Option<Collected>, settings: &CollectSettings, earlier: Count) -> anyhow::Result<End> {
        let (last, following, ended) = match collected {
            Some(Collected::Pages { last, following, ended, .. }) => (last, following, ended),
            Some(Collected::Single(answer)) => (self.single(&answer, settings, earlier)?, Following::End, None),
            None => {
                let (last, following) = self.last.take().context("interrupted before the first page")?;
                (last, following, Some(Ended::Cancelled))
            }
        };
        let goes_on = ended.is_some() && next_of(&following).is_some();
        let result = match self.target {
            Target::Lines(file) => {
                if !goes_on {
                    file.end()?;
                }
                Kind::File(file.path.clone())
            }
            Target::Document(document) => {
                Kind::Document(document.end(&last, &summary(self.count, ended.as_ref(), &following))?)
            }
        };
        Ok(End { result, count: self.count, ended, goes_on })
    }

    /// Keeps the only page.
    fn single(&mut self, answer: &Message, settings: &CollectSettings, earlier: Count) -> anyhow::Result<ToolPage> {
        if let Some(text) = error_text(answer) {
            bail!("{}", server::said(&text));
        }
        let page = ToolPage::of(answer, settings.items.as_deref());
        let page = page.context("the result has no list, or an empty one: --items says where it is")?;
        let count = Count { pages: 1, records: page.count as u64 };
        self.keep(&Kept { page: &page, count, total: None, following: &Following::End }, earlier)?;
        Ok(page)
    }
}

/// The arguments that continue, as a JSON object.
fn next_of(following: &Following) -> Option<String> {
    match following {
        Following::Page(changes) => Some(arguments_of(changes)),
        Following::End | Following::Unknown => None,
    }
}

/// Offloads a document, and says what is there.
fn finish(arguments: &Arguments, config: &Config, end: End, terminal: &Terminal) -> anyhow::Result<Exit> {
    let End { result, count: Count { pages, records }, ended, goes_on } = end;
    let again = match &result {
        Kind::File(path) => {
            terminal.message(&format!("{} records in {}", thousands(records), path.display()));
            format!("--resume {}", path.display())
        }
        Kind::Document(path) => {
            let call = CallArguments {
                file: Some(path.to_path_buf()),
                form: Some(InputForm::Json),
                tool: arguments.tool.clone(),
                session: None,
                tenant: arguments.tenant.clone(),
                query: Some(arguments.arguments.clone()),
                error: false,
                reader: vec![Ability::Shell],
            };
            let mut config = config.clone();
            (config.enabled, config.mode) = (true, DecisionMode::Always);
            let exit = offload::run(&offload::Arguments::new(call, arguments.handle), &config, terminal)?;
            if exit != Exit::Success {
                return Ok(exit);
            }
            "--resume HANDLE".to_owned()
        }
    };
    let Some(ended) = ended else { return Ok(Exit::Success) };
    let reason = if ended == Ended::Cancelled { "interrupted".to_owned() } else { ended.to_string() };
    terminal.warning(&format!("not all pages, only {}: {reason}", thousands(pages)));
    if goes_on {
        terminal.hint(&format!("the same command with {again} goes on"));
    }
    Ok(Exit::Error)
}
