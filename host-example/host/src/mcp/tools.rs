//! The tools `lro_extract` and `lro_read`, which read offloads: calls.
//!
//! An error that the model can mend by calling again is a tool error that says how. An unknown tool is a protocol error.

mod ask;

pub use ask::ToolQuestion;
use lro_reading::resource::ResourceUri;
use lro_reading::tool;
use lro_reading::tool::{
    Asked, ExtractArguments, Failure, TableArguments, answer_json, cursor_advice, expired_offload, id, missing_offload,
    only_file, page_result, result_of,
};
pub use lro_reading::tool::{
    EXTRACT_TOOL, INVALID_PARAMS, ProtocolError, READ_TOOL, RESOURCE_NOT_FOUND, check_names_with_file, definitions,
    guidance, question_schema, reads_offloads,
};

use crate::extract::{Budget, ExtractError, Extractor, Query, Question, Sql, Tables};
use crate::job;
use crate::read::{PageError, PageRequest, Pages};
use crate::store::{JobState, Offload, Store, StoreError, Ulid};

/// The tools for one store.
#[derive(Clone, Debug)]
pub struct Tools {
    store: Store,
    pages: Pages,
    extractor: Extractor,
    budget: Budget,
}

impl Tools {
    /// Creates the tools. `budget` limits each answer. While the store cannot be used, each call returns an error.
    pub fn new(store: Store, extractor: Extractor, budget: Budget) -> Self {
        Self { pages: Pages::of(store.clone()), store, extractor, budget }
    }

    /// These tools with at most so many bytes of data in an answer, a page or a resource, for clients that accept no more.
    pub fn at_most(&self, bytes: u32) -> Self {
        let budget = Budget { bytes: self.budget.bytes.min(bytes), ..self.budget };
        Self { budget, pages: self.pages.at_most(bytes), ..self.clone() }
    }

    /// Has another thread load what answers questions, because one may come soon. Only the first call has an effect.
    pub fn expect_questions(&self) {
        self.extractor.load_in_background();
    }

    /// Most bytes of data in a page.
    pub fn page_bytes_max(&self) -> u32 {
        self.pages.bytes_max()
    }

    /// Calls a tool for a tenant; `arguments` is the JSON object of the call. Returns the tool result as JSON, which
    /// may be a tool error. Blocks.
    ///
    /// # Errors
    /// Protocol errors only.
    pub fn call(&self, tenant: &str, tool: &str, arguments: &str) -> Result<String, ProtocolError> {
        job::finish(self.call_async(tenant, tool, arguments))
    }

    /// As [`Tools::call`]. Blocks from the start, and yields once a tick.
    ///
    /// # Errors
    /// Protocol errors only.
    pub async fn call_async(&self, tenant: &str, tool: &str, arguments: &str) -> Result<String, ProtocolError> {
        let answered = match tool {
            EXTRACT_TOOL => self.extract(tenant, arguments).await,
            READ_TOOL => self.read(tenant, arguments),
            _ => Err(Failure::unknown_tool(tool)),
        };
        answered.or_else(Failure::answer)
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Reads a resource of a tenant. Returns the result of `resources/read` as JSON. Blocks.
    ///
    /// # Errors
    /// When the URI is invalid or its resource does not exist. The code depends on the revision: `modern` from
    /// 2026-07-28 on.
    pub fn resource(&self, tenant: &str, uri: &str, modern: bool) -> Result<String, ProtocolError> {
        let failed = |message: String| ProtocolError::missing_resource(message, modern);
        let wanted = ResourceUri::parse(uri).map_err(failed)?;
        let offload = self.store.find(tenant, wanted.offload);
        let offload = offload.map_err(|error| failed(client_message(tenant, &error)))?;
        let page = |request: &PageRequest| self.pages.page(request);
        let read = wanted.read(uri, tenant, offload.record(), self.pages.bytes_max(), modern, page);
        read.map_err(|error| match error {
            PageError::Store(error) => failed(client_message(tenant, &error)),
            error => failed(error.to_string()),
        })
    }

    async fn extract(&self, tenant: &str, arguments: &str) -> Result<String, Failure> {
        let (handle, section, asked) = match tool::extract(arguments)? {
            ExtractArguments::Tables { sql, from } => return self.sql(tenant, &sql, from).await,
            ExtractArguments::One { handle, section, asked } => (handle, section, asked),
        };
        let offload = self.find(tenant, &handle)?;
        let json = self.answer_about(tenant, &offload, section, asked).await?;
        Ok(result_of(&json, &json))
    }

    /// The answer to a question about an offload, as JSON.
    async fn answer_about(
        &self,
        tenant: &str,
        offload: &Offload,
        section: Option<String>,
        asked: Asked,
    ) -> Result<String, Failure> {
        let (section, question) = match asked {
            Asked::Question(question) => (section, question),
            Asked::Recipe(recipe) => recipe.question(offload.record())?,
            Asked::Sql(sql) => {
                let tables = [Tables { offload: offload.clone(), section, name: None }];
                return self.answer_sql(tenant, &sql, &tables).await;
            }
        };
        let answered = self.extractor.answer(offload, section.as_deref(), &question, self.budget).await;
        let (answer, _) = answered.map_err(|error| extract_failure(tenant, &error))?;
        answer_json(&answer, &question, offload.growth())
    }

    async fn sql(&self, tenant: &str, sql: &Sql, from: Vec<TableArguments>) -> Result<String, Failure> {
        let mut tables = Vec::with_capacity(from.len());
        for TableArguments { handle, section, name } in from {
            tables.push(Tables { offload: self.find(tenant, &handle)?, section, name });
        }
        let json = self.answer_sql(tenant, sql, &tables).await?;
        Ok(result_of(&json, &json))
    }

    /// The answer to a query in SQL, as JSON.
    async fn answer_sql(&self, tenant: &str, sql: &Sql, tables: &[Tables]) -> Result<String, Failure> {
        let answer = self.extractor.answer_sql(tables, sql, self.budget).await;
        // What is left is asked for as with a typed query.
        let question = Question::Query(Query::default());
        let growth = tables.iter().find_map(|table| table.offload.growth());
        answer_json(&answer.map_err(|error| extract_failure(tenant, &error))?, &question, growth)
    }

    fn find(&self, tenant: &str, handle: &str) -> Result<Offload, Failure> {
        let id = id(handle)?;
        self.store.find(tenant, id).map_err(|error| self.find_failure(tenant, id, &error))
    }

    fn find_failure(&self, tenant: &str, handle: Ulid, error: &StoreError) -> Failure {
        let is_absent = matches!(error, StoreError::Expired { .. } | StoreError::NotFound { .. });
        let job = if is_absent { self.store.job(tenant, handle, 0).ok() } else { None };
        Failure::Tool(match (job.map(|job| job.state), error) {
            (Some(JobState::Running { .. }), _) => format!("nothing of the result of the job {handle} has come yet"),
            (Some(JobState::Ended | JobState::Lost), _) => {
                format!(
                    "the job {handle} has no offload: its result, or why it has none, is in the answer of the tool for jobs"
                )
            }
            (None, StoreError::Expired { .. }) => expired_offload(handle),
            (None, StoreError::NotFound { .. }) => missing_offload(handle),
            (None, error) => client_message(tenant, error),
        })
    }

    fn read(&self, tenant: &str, arguments: &str) -> Result<String, Failure> {
        let asked = tool::read(arguments)?;
        let id = id(&asked.handle)?;
        let section = match &asked.section {
            Some(section) => section.clone(),
            None => {
                let found = self.store.find(tenant, id);
                only_file(found.map_err(|error| self.find_failure(tenant, id, &error))?.record())?
            }
        };
        let bytes = asked.bytes.map(|bytes| bytes.min(tool::PAGE_BYTES_MAX));
        let start = asked.start.clone();
        let request =
            PageRequest { tenant: tenant.to_owned(), offload: id, section, start, bytes, records: asked.limit };
        let page = self.pages.page(&request).map_err(|error| match error {
            PageError::Cursor(error) => Failure::Tool(cursor_advice(error, &asked)),
            PageError::Store(error) => Failure::Tool(client_message(tenant, &error)),
            error => Failure::Tool(error.to_string()),
        })?;
        page_result(&page, &asked)
    }
}

/// Error message of the store for clients. The log has the full error.
pub(super) fn client_message(tenant: &str, error: &StoreError) -> String {
    if !matches!(error, StoreError::Expired { .. } | StoreError::NotFound { .. }) {
        tracing::warn!(tenant, error = error as &dyn std::error::Error, "cannot read an offload");
    }
    error.for_client()
}

fn extract_failure(tenant: &str, error: &ExtractError) -> Failure {
    Failure::Tool(match error {
        ExtractError::Store(error) => client_message(tenant, error),
        error => error.to_string(),
    })
}
