//! Offloads a result with the texts of its documents.

use std::sync::Arc;

use lro_jsonl::Measure;

use super::{FilterError, Offloaded, Running};
use crate::sandbox::types::PlannedPart;
use crate::sandbox::{Cost, Part, Payload, Plan, Verdict};

impl Running<'_> {
    /// Offloads the result with the texts of its documents, and if that fails, without them.
    ///
    /// A result that passes, is truncated or rejected never gets here, so that a text changes nothing but what can be asked
    /// about.
    pub(super) async fn offload_with_documents(
        &self,
        payload: &mut Arc<Payload>,
        plan: &Plan,
    ) -> Result<(Offloaded, Cost), FilterError> {
        if let Some((with_texts, plan)) = self.with_documents(payload).await {
            match self.offload(&with_texts, &plan).await {
                Ok((mut offloaded, cost)) => {
                    let own_parts = payload.parts().len();
                    offloaded.kept.truncate(own_parts);
                    // What was not in the reply saves nothing.
                    let added: u64 = with_texts.parts().iter().skip(own_parts).map(tokens).sum();
                    offloaded.offloaded_tokens = offloaded.offloaded_tokens.saturating_sub(added);
                    *payload = with_texts;
                    return Ok((offloaded, cost));
                }
                Err(error) => tracing::warn!(tool = self.call.tool, %error, "the texts of documents are left out"),
            }
        }
        self.offload(payload, plan).await
    }

    /// The payload with the texts of its documents, and a plan for it. `None` without texts, or if the policy would not offload
    /// it.
    async fn with_documents(&self, payload: &Arc<Payload>) -> Option<(Arc<Payload>, Plan)> {
        let Self { filter, policy, call, .. } = *self;
        let texts = filter.documents.as_ref()?.texts(payload).await;
        if texts.is_empty() {
            return None;
        }
        let with_texts = Arc::new(Payload::new([payload.parts(), &texts].concat()));
        match policy.prepared().inspect_async(&filter.limits, call, &with_texts).await {
            Ok((Verdict::Offload(mut plan), _)) => {
                write_from(&mut plan, payload.parts().len());
                Some((with_texts, plan))
            }
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(tool = call.tool, %error, "the texts of documents are left out");
                None
            }
        }
    }
}

/// The estimated tokens of a text.
fn tokens(part: &Part) -> u64 {
    let mut measure = Measure::text();
    measure.push(&part.clone().into_text().unwrap_or_default());
    measure.tokens()
}

/// Plans to write the parts from this one on: they are not in the reply, so none of them can stay there.
pub(super) fn write_from(plan: &mut Plan, first: usize) {
    for part in plan.parts.iter_mut().skip(first) {
        if matches!(part, PlannedPart::Keep) {
            *part = PlannedPart::Text;
        }
    }
}
