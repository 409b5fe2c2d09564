//! Notifies subscribers that the lists of tools and prompts changed.
//!
//! The lists never change: the test is that notifications arrive, and only for subscribers.

use rmcp::model::ErrorData;
use rmcp::service::SubscriptionContext;
use tokio::sync::watch;

use crate::call::internal;

/// Number of changes of the lists.
#[derive(Clone, Copy, Default)]
struct Counts {
    tools: u64,
    prompts: u64,
}

/// Publishes changes.
#[derive(Default)]
pub(crate) struct Changes(watch::Sender<Counts>);

impl Changes {
    pub(crate) fn change_tools(&self) {
        self.0.send_modify(|counts| counts.tools += 1);
    }

    pub(crate) fn change_prompts(&self) {
        self.0.send_modify(|counts| counts.prompts += 1);
    }

    /// Watches for changes from now on.
    pub(crate) fn watch(&self) -> Watch {
        let receiver = self.0.subscribe();
        let seen = *receiver.borrow();
        Watch { receiver, seen }
    }
}

/// Receives the changes since its creation.
#[derive(Clone)]
pub(crate) struct Watch {
    receiver: watch::Receiver<Counts>,
    seen: Counts,
}

impl Watch {
    /// Forwards every change that `subscription` covers until the client ends it.
    pub(crate) async fn report(mut self, subscription: &SubscriptionContext) -> Result<(), ErrorData> {
        loop {
            self.report_new(subscription).await?;
            tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                changed = self.receiver.changed() => changed.map_err(internal)?,
            }
        }
    }

    async fn report_new(&mut self, subscription: &SubscriptionContext) -> Result<(), ErrorData> {
        let counts = *self.receiver.borrow_and_update();
        let (accepted, sink) = (subscription.accepted(), subscription.sink());
        if counts.tools != self.seen.tools && accepted.tools_list_changed == Some(true) {
            sink.notify_tool_list_changed().await.map_err(internal)?;
        }
        if counts.prompts != self.seen.prompts && accepted.prompts_list_changed == Some(true) {
            sink.notify_prompt_list_changed().await.map_err(internal)?;
        }
        self.seen = counts;
        Ok(())
    }
}
