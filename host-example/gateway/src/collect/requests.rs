//! Requests for pages that are under way at the same time, answered in their order.

use std::collections::VecDeque;
use std::pin::Pin;

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use lro_host::mcp::Message;

use super::Ended;

/// A request under way, which gives its answer. Dropping it gives it up.
pub(super) type Asking<'a> = Pin<Box<dyn Future<Output = Result<Message, Ended>> + Send + 'a>>;

/// The requests and their arguments.
#[derive(Default)]
pub(super) struct Requests<'a> {
    arguments: VecDeque<String>,
    answers: FuturesOrdered<Asking<'a>>,
}

impl<'a> Requests<'a> {
    /// Number of requests.
    pub(super) fn count(&self) -> usize {
        self.arguments.len()
    }

    /// Whether the first has these arguments.
    pub(super) fn begin_with(&self, arguments: &str) -> bool {
        self.arguments.front().is_some_and(|first| first == arguments)
    }

    /// Adds a request after all others.
    pub(super) fn push(&mut self, arguments: String, asking: Asking<'a>) {
        self.arguments.push_back(arguments);
        self.answers.push_back(asking);
    }

    /// The answer to the first request; `None` without any.
    pub(super) async fn next(&mut self) -> Option<Result<Message, Ended>> {
        let answer = self.answers.next().await?;
        self.arguments.pop_front();
        Some(answer)
    }
}
