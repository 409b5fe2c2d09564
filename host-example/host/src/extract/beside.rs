//! Work on another thread while a question is answered.

use std::thread::{self, JoinHandle};

use super::{ExtractError, QuestionError};

/// Work on another thread. A cancelled question waits for its end, so that such threads do not accumulate.
pub(super) struct Beside<T>(Option<JoinHandle<T>>);

impl<T: Send + 'static> Beside<T> {
    /// `None` if no thread could be started.
    pub(super) fn start(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Option<Self> {
        Some(Self(Some(thread::Builder::new().name(name.into()).spawn(work).ok()?)))
    }

    /// Waits for its end.
    pub(super) fn end(mut self) -> Result<T, ExtractError> {
        let ended = self.0.take().and_then(|thread| thread.join().ok());
        ended.ok_or_else(|| QuestionError::Answer("a panic while the files were read").into())
    }
}

impl<T> Drop for Beside<T> {
    fn drop(&mut self) {
        if let Some(thread) = self.0.take() {
            let _ = thread.join();
        }
    }
}
