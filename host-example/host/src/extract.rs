//! Questions about an offload: typed queries, jq programs, stored queries, searches, and lines by their numbers; SQL about
//! several.
//!
//! The component `guest/extract` answers them in the sandbox, or `guest/extract-sql`, which is loaded at the first query
//! in SQL. It sees these published offloads, read-only. Meanwhile the host compares the files with their checksums, and
//! returns no answer if one has changed.

mod answer;
mod export;
mod files;
mod fit;
mod schema;
mod search;
mod sql;

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

pub use lro_contract::query::{
    Aggregate, AggregateKind, Condition, Group, Operator, Query, QueryError, Selection, SortKey, Test,
};
use serde_json::value::RawValue;

pub use self::answer::{Answer, Cut, Failures};
pub use self::search::{HITS_MAX, LineRange, Pattern, Search};
pub use self::sql::{Sql, TABLES_MAX, Tables};
use crate::ahead::{Giver, ahead};
use crate::job::{self, Job};
use crate::policy::{BuiltIn, CompileCache, LoadError};
use crate::sandbox::bindings::extraction::exports::lro::filter::lro_query as component;
use crate::sandbox::{CallError, Cost, Limits, PreparedExtraction, Sandbox, types};
use crate::store::{FileKind, FileRecord, Offload, Reader, StoreError};

/// The component of `guest/extract`: typed queries, jq programs and searches.
pub const EXTRACT_COMPONENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lro_extract.wasm"));

/// The component of `guest/extract-sql`.
pub const SQL_COMPONENT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/lro_extract_sql.wasm"));

/// Default of [`Budget::bytes`].
pub const ANSWER_BYTES_DEFAULT: u32 = 20_000;
/// Default of [`Budget::tokens`].
pub const ANSWER_TOKENS_DEFAULT: u32 = 8_000;
/// Maximum size of an answer in bytes, whatever the budget: half of the default of [`Limits::crossing_bytes`].
pub const ANSWER_BYTES_MAX: u32 = 4 << 20;
/// Maximum number of results that a query may ask for, and maximum size of a sample.
pub const RESULTS_MAX: u32 = 100_000;

/// Maximum size of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Maximum bytes of its lines.
    pub bytes: u32,
    /// Maximum estimated tokens of its lines.
    pub tokens: u32,
}

impl Budget {
    /// At most [`ANSWER_BYTES_MAX`].
    fn capped(self) -> Self {
        Self { bytes: self.bytes.min(ANSWER_BYTES_MAX), ..self }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: ANSWER_BYTES_DEFAULT, tokens: ANSWER_TOKENS_DEFAULT }
    }
}

/// A question about an offload.
#[derive(Clone, Debug)]
pub enum Question {
    /// A typed query.
    Query(Query),
    /// A jq program.
    Jq(Jq),
    /// A search.
    Search(Search),
    /// Lines of a text, or records, by their numbers.
    Lines(LineRange),
}

/// A jq program.
#[derive(Clone, Debug, Default)]
pub struct Jq {
    /// The program.
    pub filter: String,
    /// Whether to run it once over the array of all records instead of once per record.
    pub slurp: bool,
    /// Variables: `$name`, any JSON value.
    pub arguments: BTreeMap<String, Box<RawValue>>,
    /// Results to skip. With `slurp`, the results before and on the page together have at most [`ANSWER_BYTES_MAX`] bytes.
    pub offset: u64,
    /// Maximum number of results, from 1 to [`RESULTS_MAX`]. Default: as many as fit.
    pub limit: Option<u32>,
}

/// Why a question could not be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// A file could not be read, or has changed since it was published.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The offload has several sections, and the question names none.
    #[error("the offload has several sections: name one of {}", listed(.0))]
    Ambiguous(Vec<String>),
    /// The offload has no records.
    #[error(
        "the offload has no records to query: search it, with `search` of `lro_extract` or `lro extract --search`, or use \
         `lro_read` or `lro read` to read it in pages"
    )]
    NoRecords,
    /// The offload has no records but those of the outline with this name.
    #[error(
        "the offload has no records to query: search it, with `search` of `lro_extract` or `lro extract --search`, or \
         name the section `{0}` to query its outline"
    )]
    OnlyOutline(String),
    /// The named section has no records.
    #[error(
        "the section `{0}` has no records to query: search it, with `search` of `lro_extract` or `lro extract --search`"
    )]
    NotRecords(String),
    /// The offload has neither text nor records.
    #[error("the offload has only bytes; use `lro_read` or `lro read` to read it in pages")]
    NoText,
    /// No section of this name can answer the question.
    #[error("there is no section `{name}` to ask this about; there are {}", listed(.sections))]
    Section {
        /// The requested name.
        name: String,
        /// The sections that can.
        sections: Vec<String>,
    },
    /// There is no stored query of this name.
    #[error("there is no recipe `{name}`; there are {}", listed(.names))]
    Stored {
        /// The requested name.
        name: String,
        /// The existing names.
        names: Vec<String>,
    },
    /// The stored query does not have a given parameter.
    #[error("the recipe `{name}` has no such parameter; there are {}", listed(.parameters))]
    Parameter {
        /// The stored query.
        name: String,
        /// Its parameters.
        parameters: Vec<String>,
    },
    /// The call into the component failed.
    #[error("the query {0}")]
    Call(CallError),
    /// The query is invalid.
    #[error("invalid query: {0}")]
    Invalid(String),
    /// The search, or the range of lines, is invalid.
    #[error("invalid search: {0}")]
    InvalidSearch(String),
    /// No record has this field.
    #[error("no record has the field `{field}`; there are {}", listed(.near))]
    UnknownField {
        /// The field.
        field: String,
        /// Existing fields, the most similar first.
        near: Vec<String>,
    },
    /// The jq program does not compile.
    #[error("syntax error in the jq program at byte {offset}: {message}")]
    Syntax {
        /// Offset in the program, in bytes.
        offset: u64,
        /// The syntax error.
        message: String,
    },
    /// The jq program failed on every record.
    #[error("the jq program failed on all {} records; on record {}: {}", .0.records, .0.first, .0.message)]
    Failed(Failures),
    /// The query exceeded a limit of the component.
    #[error("the query exceeded the limit {0}")]
    Limit(String),
    /// The component could not read the file.
    #[error("the file could not be read: {0}")]
    Read(String),
    /// A line is not JSON.
    #[error("record {0} is not JSON")]
    Damaged(u64),
    /// An answer that has to be whole has more results than fit into one.
    #[error(
        "the answer is larger than one may be, and would not be complete: {results} of its {total} results are at most \
         {RESULTS_MAX} results ({HITS_MAX} hits) of {ANSWER_BYTES_MAX} bytes; set a limit, return less per result, or ask for \
         records as they stand in the file, which may be any number: without grouping, sorting, distinct results and `slurp`"
    )]
    Incomplete {
        /// Results that fit.
        results: u64,
        /// All results.
        total: u64,
    },
    /// Results could not be written.
    #[error("cannot write the results: {0}")]
    Write(#[from] std::io::Error),
    /// The component for SQL could not be loaded.
    #[error("SQL cannot be answered, as its component was not loaded: {0}")]
    Load(#[from] LoadError),
    /// The component returned an inconsistent answer.
    #[error("invalid answer from the component: {0}")]
    Answer(&'static str),
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

/// Answers questions about offloads. Clones share their state.
#[derive(Clone, Debug)]
pub struct Extractor {
    prepared: PreparedExtraction,
    /// Loaded at the first query in SQL.
    sql: Arc<BuiltIn<PreparedExtraction>>,
    limits: Limits,
}

impl Extractor {
    /// Loads the built-in component for all questions but SQL; that for SQL, which costs as much to compile, is loaded at the
    /// first query. Without a cache, they are compiled in every process.
    ///
    /// # Errors
    /// [`LoadError::Compile`] if the component does not compile here.
    pub fn new(sandbox: &Sandbox, cache: Option<CompileCache>, limits: Limits) -> Result<Self, LoadError> {
        let prepare = Sandbox::prepare_extraction;
        let prepared = BuiltIn::new(sandbox, EXTRACT_COMPONENT, cache.clone(), prepare).get()?;
        let sql = BuiltIn::new(sandbox, SQL_COMPONENT, cache, prepare);
        Ok(Self { prepared, sql: Arc::new(sql), limits })
    }

    /// Answers a question about a section; `section` may be `None` if there is only one. A search without a section is about
    /// all sections, but those that were made from others, such as the records of a text. Blocks; asynchronous callers use
    /// [`Extractor::ask_async`].
    ///
    /// A query that only counts all records is answered from the manifest.
    ///
    /// # Errors
    /// See the variants of [`ExtractError`].
    pub fn ask(
        &self,
        offload: &Offload,
        section: Option<&str>,
        question: &Question,
        budget: Budget,
    ) -> Result<Answer, ExtractError> {
        job::finish(self.answer(offload, section, question, budget))
    }

    /// As [`Extractor::ask`], for use inside a [`Job`]: it reads files, so it yields first.
    pub(crate) async fn answer(
        &self,
        offload: &Offload,
        section: Option<&str>,
        question: &Question,
        budget: Budget,
    ) -> Result<Answer, ExtractError> {
        job::pause().await;
        let files = files::files(offload, section, question)?;
        let (asked, notes) = match (question, files.as_slice()) {
            (Question::Query(query), [file]) if query.counts_all() => return Ok(Answer::of_count(file.records)),
            (Question::Query(query), files) => {
                let schema = files.first().and_then(|file| file.schema.as_deref());
                let (query, notes) = fit::fit(query, schema);
                (component::Question::Query((&query).into()), notes)
            }
            (Question::Jq(jq), _) => (component::Question::Jq(jq.into()), Vec::new()),
            (Question::Search(search), _) => (component::Question::Search(search.into()), Vec::new()),
            (Question::Lines(range), _) => (component::Question::Lines((*range).into()), Vec::new()),
        };
        if let (Question::Jq(jq), [file]) = (question, files.as_slice())
            && jq.offset > 0
            && !jq.slurp
        {
            return self.page(offload, file, jq, budget).await;
        }
        let asked_budget = answer::asked_budget(question, budget)?;
        let readers = files.iter().map(|file| offload.open(&file.name)).collect::<Result<Vec<_>, _>>()?;
        let directory = offload.directory()?;
        let sources: Vec<_> = files.iter().copied().map(component::Source::from).collect();
        let called = self.call(&self.prepared, readers, vec![directory], &sources, &asked, asked_budget);
        let (answer, cost) = called.await?;
        let mut answer = Answer::of_contract(answer, question, asked_budget, budget)?;
        answer.notes.extend(notes);
        Ok(Answer { cost, ..answer })
    }

    /// Calls a component while the files are verified.
    async fn call(
        &self,
        prepared: &PreparedExtraction,
        readers: Vec<Reader>,
        directories: Vec<File>,
        sources: &[component::Source],
        question: &component::Question,
        budget: Budget,
    ) -> Result<(component::Answer, Cost), ExtractError> {
        let budget = component::Budget { bytes: budget.bytes, tokens: budget.tokens };
        // Several files may be read at the same time, and one could wait for another.
        let (giver, ahead) = match readers.as_slice() {
            [only] => {
                let (giver, ahead) = ahead(&only.record().name, only.record().digest_from);
                (giver, Some(ahead))
            }
            _ => (Giver::nobody(), None),
        };
        let verifying = Verification::start(readers, giver);
        let answered = prepared.extract_async(&self.limits, directories, ahead, sources, question, budget).await;
        // If a file has changed, that explains any other error.
        verifying.end()?;
        let (answer, cost) = answered.map_err(ExtractError::Call)?;
        let answer = answer.map_err(|error| ExtractError::of_contract(error, question))?;
        Ok((answer, cost))
    }

    /// As [`Extractor::ask`], on tokio's blocking threads. Dropping the future cancels the question.
    ///
    /// # Errors
    /// As [`Extractor::ask`].
    pub async fn ask_async(
        &self,
        offload: Offload,
        section: Option<String>,
        question: Question,
        budget: Budget,
    ) -> Result<Answer, ExtractError> {
        let extractor = self.clone();
        let job = Job::new(async move { extractor.answer(&offload, section.as_deref(), &question, budget).await });
        job.finish_on_tokio().await.unwrap_or(Err(ExtractError::Answer("it panicked")))
    }
}

/// Verification of files on another thread while a question about them is answered. A cancelled question waits for its
/// end, so that such threads do not accumulate. An only file is read once, for both.
struct Verification {
    readers: Arc<Vec<Reader>>,
    /// `None` if no thread could be started.
    thread: Option<JoinHandle<Result<(), StoreError>>>,
}

impl Verification {
    fn start(readers: Vec<Reader>, giver: Giver) -> Self {
        let readers = Arc::new(readers);
        let shared = Arc::clone(&readers);
        let verify = move || match shared.as_slice() {
            [only] => only.verify_and_give(giver),
            several => several.iter().try_for_each(Reader::verify),
        };
        let thread = thread::Builder::new().name("lro-verify".into()).spawn(verify).ok();
        Self { readers, thread }
    }

    fn end(mut self) -> Result<(), ExtractError> {
        let verified = match self.thread.take() {
            Some(thread) => {
                thread.join().map_err(|_| ExtractError::Answer("a panic during the verification of the files"))?
            }
            None => self.readers.iter().try_for_each(Reader::verify),
        };
        Ok(verified?)
    }
}

impl Drop for Verification {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Looks up a stored query. Returns it with the name of its file.
///
/// `parameters` override the values of the query's parameters of the same names.
///
/// # Errors
/// [`ExtractError::Stored`] and [`ExtractError::Parameter`], with the existing names.
pub fn stored_query<'a>(
    offload: &'a Offload,
    name: &str,
    parameters: &BTreeMap<String, Box<RawValue>>,
) -> Result<(&'a str, Query), ExtractError> {
    let queries = || offload.record().files.iter().flat_map(|file| file.queries.iter().map(move |query| (file, query)));
    let Some((file, found)) = queries().find(|(_, query)| query.name == name) else {
        let names = queries().map(|(_, query)| query.name.clone()).collect();
        return Err(ExtractError::Stored { name: name.to_owned(), names });
    };
    let mut query: Query = serde_json::from_str(found.query.get())
        .map_err(|error| ExtractError::Invalid(format!("the recipe `{name}`: {error}")))?;
    query.set(parameters).map_err(|parameters| ExtractError::Parameter { name: name.to_owned(), parameters })?;
    Ok((&file.name, query))
}

impl ExtractError {
    /// The error of the component about this question.
    fn of_contract(error: component::ExtractError, question: &component::Question) -> Self {
        match (error, question) {
            (
                component::ExtractError::Invalid(text),
                component::Question::Search(_) | component::Question::Lines(_),
            ) => Self::InvalidSearch(text),
            (component::ExtractError::Invalid(text), _) => Self::Invalid(text),
            (component::ExtractError::UnknownField(unknown), _) => {
                Self::UnknownField { field: unknown.field, near: unknown.near }
            }
            (component::ExtractError::Syntax(syntax), _) => {
                Self::Syntax { offset: syntax.offset, message: syntax.message }
            }
            (component::ExtractError::Failed(failures), _) => Self::Failed(failures.into()),
            (component::ExtractError::Limit(text), _) => Self::Limit(text),
            (component::ExtractError::Io(text), _) => Self::Read(text),
            (component::ExtractError::Damaged(record), _) => Self::Damaged(record),
        }
    }
}

impl From<&FileRecord> for component::Source {
    fn from(file: &FileRecord) -> Self {
        let kind = match file.kind {
            FileKind::Records => types::FileKind::Records,
            FileKind::Text => types::FileKind::Text,
            FileKind::Value => types::FileKind::Value,
            FileKind::Bytes => types::FileKind::Bytes,
        };
        let (name, section) = (file.name.clone(), file.section.clone());
        Self { name, directory: 0, section, kind, start: file.digest_from, bytes: file.bytes, records: file.records }
    }
}

impl Jq {
    fn check_limit(&self) -> Result<(), ExtractError> {
        match self.limit {
            Some(limit) if limit == 0 || limit > RESULTS_MAX => {
                Err(ExtractError::Invalid(format!("limit: must be between 1 and {RESULTS_MAX}")))
            }
            _ => Ok(()),
        }
    }
}

impl From<&Jq> for component::Jq {
    fn from(jq: &Jq) -> Self {
        let mut arguments = Vec::with_capacity(jq.arguments.len());
        for (name, value) in &jq.arguments {
            arguments.push(component::Argument { name: name.clone(), value: value.get().to_owned() });
        }
        Self { filter: jq.filter.clone(), slurp: jq.slurp, arguments }
    }
}
