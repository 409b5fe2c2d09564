//! One call into a component that reads documents.

use std::fmt;

use wasmtime_wasi::filesystem::WasiFilesystemCtx;

use super::bindings::document::LroDocumentPre;
use super::bindings::document::exports::lro::document::reader::{DocumentError, Extracted};
use super::call::{CallError, Run};
use super::limits::Limits;
use super::permits::PoolPermits;
use super::state::CallState;

/// A compiled component that reads documents, with its exports resolved.
#[derive(Clone)]
pub struct PreparedDocumentReader {
    pub(super) pre: LroDocumentPre<CallState>,
    pub(super) wasi: WasiFilesystemCtx,
    pub(super) permits: PoolPermits,
}

impl fmt::Debug for PreparedDocumentReader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PreparedDocumentReader").finish_non_exhaustive()
    }
}

impl PreparedDocumentReader {
    /// The text of a document, at most `text_bytes_max` bytes. No directory is preopened. Blocks from the start, and yields
    /// once a tick.
    ///
    /// # Errors
    /// When the component fails or exceeds a limit. The inner error is the component's answer.
    pub(crate) async fn extract(
        &self,
        limits: &Limits,
        document: &[u8],
        text_bytes_max: u32,
    ) -> Result<Result<Extracted, DocumentError>, CallError> {
        let permit = self.permits.call(limits.wait).await?;
        let mut run = Run::new(self.pre.engine(), &self.wasi, limits, Vec::new(), false, permit)?;
        let answered = async {
            let component = self.pre.instantiate_async(&mut run.store).await?;
            component.lro_document_reader().call_extract(&mut run.store, document, text_bytes_max).await
        };
        answered.await.map_err(|error| run.explain(&error))
    }
}
