//! Questions about an offload: typed queries, jq programs, stored queries, searches, and lines by their numbers; SQL about
//! several.
//!
//! The component `guest/extract` answers them in the sandbox, or `guest/extract-sql`, which is loaded at the first query
//! in SQL. It sees these published offloads, read-only. Meanwhile the host compares the files with their checksums, and
//! returns no answer if one has changed. Several instances answer a typed query or a jq program about a large file, where processors
//! are free.

mod beside;
mod convert;
mod export;
mod opened;
mod parts;
mod sql;

use std::sync::Arc;
use std::time::Instant;

pub use lro_contract::query::{
    Aggregate, AggregateKind, Condition, Group, Operator, Query, QueryError, Selection, SortKey, Test,
};
pub use lro_reading::{
    ANSWER_BYTES_DEFAULT, ANSWER_BYTES_MAX, ANSWER_TOKENS_DEFAULT, Answer, Budget, Cut, Failures, HITS_MAX, Jq,
    LineRange, Pattern, Question, QuestionError, RESULTS_MAX, Search, Sql, TABLES_MAX, stored_query,
};
use lro_reading::{asked_budget, files, fitted};

use self::convert::question_error;
use self::opened::Opened;
pub use self::parts::{INSTANCES_DEFAULT, PART_BYTES_MIN};
use self::parts::{Parts, is_divisible, rest_of};
pub use self::sql::Tables;
use crate::job::{self, Job};
use crate::policy::{BuiltIn, CompileCache, LoadError};
use crate::sandbox::bindings::extraction::exports::lro::filter::lro_query as component;
use crate::sandbox::{Answered, CallError, Cost, Limits, PreparedExtraction, Sandbox};
use crate::store::{Offload, StoreError};

/// The component of `guest/extract`: typed queries, jq programs and searches.
pub const EXTRACT_COMPONENT: &[u8] = component!("lro_extract.wasm");

/// The component of `guest/extract-sql`.
pub const SQL_COMPONENT: &[u8] = component!("lro_extract_sql.wasm");

/// Why a question could not be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtractError {
    /// A file could not be read, or has changed since it was published.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The question is wrong, or is about something that the offload does not have.
    #[error(transparent)]
    Question(#[from] QuestionError),
    /// The call into the component failed.
    #[error("the query {}", .0.with_keys("query."))]
    Call(CallError),
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
    /// The component that answers could not be loaded.
    #[error("the question cannot be answered, as the component for it was not loaded: {0}")]
    Load(#[from] LoadError),
}

/// Answers questions about offloads. Clones share their state.
#[derive(Clone, Debug)]
pub struct Extractor {
    prepared: Arc<BuiltIn<PreparedExtraction>>,
    /// Loaded at the first query in SQL.
    sql: Arc<BuiltIn<PreparedExtraction>>,
    limits: Limits,
    instances: u32,
}

impl Extractor {
    /// Loads the built-in component for all questions but SQL; that for SQL, which costs as much to compile, is loaded at the
    /// first query. Without a cache, they are compiled in every process.
    ///
    /// # Errors
    /// [`LoadError::Compile`] if the component does not compile here.
    pub fn new(sandbox: &Sandbox, cache: Option<CompileCache>, limits: Limits) -> Result<Self, LoadError> {
        let extractor = Self::unloaded(sandbox, cache, limits);
        extractor.load()?;
        Ok(extractor)
    }

    /// As [`Extractor::new`], without loading: the first question does, or [`Extractor::load_in_background`] before it.
    pub fn unloaded(sandbox: &Sandbox, cache: Option<CompileCache>, limits: Limits) -> Self {
        let prepare = Sandbox::prepare_extraction;
        let prepared = Arc::new(BuiltIn::new(sandbox, EXTRACT_COMPONENT, cache.clone(), prepare));
        Self {
            prepared,
            sql: Arc::new(BuiltIn::new(sandbox, SQL_COMPONENT, cache, prepare)),
            limits,
            instances: INSTANCES_DEFAULT,
        }
    }

    /// How many instances may answer one question about a large file together, each within the limits and on a processor that has
    /// nothing else to run: a typed query, or a jq program without `slurp`. Default: [`INSTANCES_DEFAULT`]. With 1, or if the limits
    /// count instructions, one instance reads the whole file.
    #[must_use]
    pub fn with_instances(self, instances: u32) -> Self {
        Self { instances, ..self }
    }

    /// Waits until the component for all questions but SQL is loaded.
    ///
    /// # Errors
    /// [`LoadError::Compile`] if the component does not compile here.
    pub fn load(&self) -> Result<(), LoadError> {
        self.prepared.get().map(drop)
    }

    /// As [`Extractor::load`], without waiting: another thread loads the component, and a question waits for that. Only the first
    /// call has an effect.
    pub fn load_in_background(&self) {
        BuiltIn::get_in_background(&self.prepared);
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
        Ok(self.ask_with_cost(offload, section, question, budget)?.0)
    }

    /// As [`Extractor::ask`], with the cost of the calls into the component; zero without a call.
    ///
    /// # Errors
    /// As [`Extractor::ask`].
    pub fn ask_with_cost(
        &self,
        offload: &Offload,
        section: Option<&str>,
        question: &Question,
        budget: Budget,
    ) -> Result<(Answer, Cost), ExtractError> {
        job::finish(self.answer(offload, section, question, budget))
    }

    /// As [`Extractor::ask_with_cost`], for use inside a [`Job`]: it reads files, so it yields first.
    pub(crate) async fn answer(
        &self,
        offload: &Offload,
        section: Option<&str>,
        question: &Question,
        budget: Budget,
    ) -> Result<(Answer, Cost), ExtractError> {
        job::pause().await;
        let files = files(offload.record(), section, question)?;
        match (question, files.as_slice()) {
            (Question::Query(query), [file]) if query.counts_all() => {
                return Ok((Answer::of_count(file.records), Cost::default()));
            }
            (Question::Jq(jq), [file]) if jq.offset > 0 && !jq.slurp => {
                return self.page(offload, file, jq, budget).await;
            }
            _ => {}
        }
        let (fitted, notes) = fitted(question, &files);
        let asked = component::Question::from(&fitted);
        let asked_budget = asked_budget(question, budget)?;
        let about: Vec<_> = files.iter().map(|file| (offload, *file)).collect();
        let (answer, cost) = self.call(&self.prepared, Opened::open(&about)?, &asked, asked_budget).await?;
        let mut answer = answer.of_question(question, asked_budget, budget)?;
        answer.notes.extend(notes);
        Ok((answer, cost))
    }

    /// Calls a component while other threads copy and verify the files.
    async fn call(
        &self,
        component: &BuiltIn<PreparedExtraction>,
        mut opened: Opened,
        question: &component::Question,
        budget: Budget,
    ) -> Result<(Answer, Cost), ExtractError> {
        // No instance is held meanwhile.
        opened.wait();
        let prepared = component.get()?;
        let parts = match opened.only() {
            Some(file) if is_divisible(question) => Parts::of(&prepared, &self.limits, self.instances, file).await?,
            _ => None,
        };
        let begun = Instant::now();
        let together = match parts {
            Some(parts) => {
                // Nobody reads the whole file.
                drop(opened.incoming());
                parts.answer(question, budget.into()).await
            }
            None => None,
        };
        let asked = match together {
            Some(asked) => asked,
            None => {
                let (limits, directories, incoming) =
                    (rest_of(&self.limits, begun), opened.directories()?, opened.incoming());
                let asked =
                    prepared.extract_async(&limits, directories, incoming, &opened.sources, question, budget.into());
                let asked = asked.await.map_err(|error| match error {
                    CallError::Deadline(_) => CallError::Deadline(self.limits.wall_time),
                    error => error,
                });
                of_component(asked, question)
            }
        };
        // If a file did not come or has changed, that explains any other error.
        opened.end()?;
        let (answer, cost) = asked.map_err(ExtractError::Call)?;
        Ok((answer?, cost))
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
        job.finish_on_tokio()
            .await
            .unwrap_or(Err(QuestionError::Answer("it panicked").into()))
            .map(|(answer, _)| answer)
    }
}

/// An answer, or what is wrong with the question, and the cost of the calls; or why a call failed.
type Asked = Result<(Result<Answer, QuestionError>, Cost), CallError>;

fn of_component(answered: Answered<component::Answer>, question: &component::Question) -> Asked {
    answered.map(|(answer, cost)| (answer.map(Answer::from).map_err(|error| question_error(error, question)), cost))
}

/// Adds what an answer about the records that follow has counted.
fn add_counts(all: &mut Answer, next: Answer) {
    if let Some(Failures { records, first, message }) = next.failures {
        let first = all.examined + first;
        all.failures.get_or_insert(Failures { records: 0, first, message }).records += records;
    }
    all.total += next.total;
    all.matched += next.matched;
    all.examined += next.examined;
}

/// The answer of a jq program about all records, unless it failed on each.
fn unless_all_failed(answer: Answer) -> Result<Answer, QuestionError> {
    match answer.failures {
        Some(failures) if failures.records == answer.examined && answer.total == 0 => {
            Err(QuestionError::Failed(failures))
        }
        failures => Ok(Answer { failures, ..answer }),
    }
}
