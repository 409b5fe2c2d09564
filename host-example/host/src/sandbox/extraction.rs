//! Calls into a component that answers questions.

use std::fmt;
use std::fs::File;

use wasmtime::Trap;
use wasmtime_wasi::filesystem::{FsPerms, WasiFilesystemCtx};

use super::bindings::extraction::LroExtractPre;
use super::bindings::extraction::exports::lro::filter::lro_query::{Answer, Budget, ExtractError, Question, Source};
use super::bindings::lro::filter::types::Query;
use super::call::{CallError, Cost, Run};
use super::limits::Limits;
use super::permits::{PoolPermit, PoolPermits};
use super::state::CallState;
use crate::ahead::Incoming;
use crate::job;

/// A compiled component that answers queries, with its imports resolved.
#[derive(Clone)]
pub struct PreparedExtraction {
    pub(super) pre: LroExtractPre<CallState>,
    pub(super) wasi: WasiFilesystemCtx,
    pub(super) permits: PoolPermits,
}

impl fmt::Debug for PreparedExtraction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PreparedExtraction").finish_non_exhaustive()
    }
}

/// The answer of a component or its error, and the cost of the call.
pub(crate) type Answered<T> = Result<(Result<T, ExtractError>, Cost), CallError>;

impl PreparedExtraction {
    /// Asks a question about files in `directories`, to which sources refer by number. The component sees no other part of
    /// the file system, and cannot write. Blocks.
    ///
    /// # Errors
    /// When the component fails or exceeds a limit. The inner error is the component's answer.
    pub fn extract(
        &self,
        limits: &Limits,
        directories: Vec<File>,
        sources: &[Source],
        question: &Question,
        budget: Budget,
    ) -> Result<(Result<Answer, ExtractError>, Cost), CallError> {
        job::finish(self.extract_async(limits, directories, Incoming::default(), sources, question, budget))
    }

    /// As [`PreparedExtraction::extract`]; what is incoming is not read again. Blocks from the start, and yields once a tick.
    pub(crate) async fn extract_async(
        &self,
        limits: &Limits,
        directories: Vec<File>,
        incoming: Incoming,
        sources: &[Source],
        question: &Question,
        budget: Budget,
    ) -> Answered<Answer> {
        let permit = self.permits.question(limits.wait).await?;
        let mut run = self.run(limits, directories, permit)?;
        run.store.data_mut().incoming = incoming;
        self.answer(run, sources, question, budget).await
    }

    async fn answer(&self, mut run: Run, sources: &[Source], question: &Question, budget: Budget) -> Answered<Answer> {
        let answered = async {
            let component = self.pre.instantiate_async(&mut run.store).await?;
            component.lro_filter_lro_query().call_extract(&mut run.store, sources, question, budget).await
        };
        let answered = answered.await;
        explained(&run, answered)
    }

    /// Permits for instances that answer one query together: up to `most`, as many as there are processors that have nothing else to
    /// run; none if there are not two. Blocks from the start.
    pub(crate) async fn permits(&self, limits: &Limits, most: u64) -> Result<Vec<PoolPermit>, CallError> {
        self.permits.together(most, limits.wait).await
    }

    /// Asks a question about a part of a file. Blocks from the start, and yields once a tick.
    pub(crate) async fn ask_part(
        &self,
        permit: PoolPermit,
        limits: &Limits,
        directory: File,
        source: Source,
        question: &Question,
        budget: Budget,
    ) -> Answered<Answer> {
        let run = self.run(limits, vec![directory], permit)?;
        self.answer(run, &[source], question, budget).await
    }

    /// Finds what a query asks for in a part of a file. Blocks from the start, and yields once a tick.
    pub(crate) async fn extract_part(
        &self,
        permit: PoolPermit,
        limits: &Limits,
        directory: File,
        source: Source,
        query: &Query,
    ) -> Answered<Vec<u8>> {
        let mut run = self.run(limits, vec![directory], permit)?;
        let answered = async {
            let component = self.pre.instantiate_async(&mut run.store).await?;
            component.lro_filter_lro_query().call_extract_part(&mut run.store, &source, query).await
        };
        let answered = answered.await;
        explained(&run, answered)
    }

    /// Answers a query from what was found in all parts of a file. Blocks from the start, and yields once a tick.
    pub(crate) async fn merge_parts(
        &self,
        limits: &Limits,
        directory: File,
        source: &Source,
        query: &Query,
        parts: &[Vec<u8>],
        budget: Budget,
    ) -> Answered<Answer> {
        let permit = self.permits.question(limits.wait).await?;
        let mut run = self.run(limits, vec![directory], permit)?;
        let answered = async {
            let component = self.pre.instantiate_async(&mut run.store).await?;
            component.lro_filter_lro_query().call_merge_parts(&mut run.store, source, query, parts, budget).await
        };
        let answered = answered.await;
        explained(&run, answered)
    }

    fn run(&self, limits: &Limits, directories: Vec<File>, permit: PoolPermit) -> Result<Run, CallError> {
        let directories = directories.into_iter().map(|directory| (directory, FsPerms::ReadOnly)).collect();
        Run::new(self.pre.engine(), &self.wasi, limits, directories, false, permit)
    }
}

fn explained<T>(run: &Run, answered: wasmtime::Result<Result<T, ExtractError>>) -> Answered<T> {
    let answer = answered.map_err(|error| match error.downcast_ref() {
        // The component's shadow stack is at the start of its memory, and safe Rust cannot get out of bounds otherwise.
        Some(Trap::MemoryOutOfBounds) => CallError::Stack,
        _ => run.explain(&error),
    })?;
    Ok((answer, run.cost()))
}
