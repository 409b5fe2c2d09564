//! Compares what a policy on trial would decide with what the current policy decided.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::convert::check_plan;
use super::documents::write_from;
use super::{FilterError, Outcome, Running, Truncation};
use crate::job;
use crate::policy::{Comparison, Digest};
use crate::sandbox::types::PlannedPart;
use crate::sandbox::{Payload, Verdict};
use crate::store::{FileRecord, OffloadRecord, Ulid};

/// The decision of a policy, as far as it depends on the policy alone; or the kind of a failure that is the policy's
/// fault.
pub(super) type Decided = Result<Choice, &'static str>;

/// A verdict and its output.
#[derive(PartialEq, Eq)]
pub(super) struct Choice {
    verdict: String,
    /// The descriptor as the policy wrote it; empty unless the verdict is `offload`.
    descriptor: String,
    kept: Vec<bool>,
    /// Size and digest of each file.
    files: BTreeMap<String, (u64, Option<Digest>)>,
}

/// The decision; `None` if it did not depend on the policy alone.
pub(super) fn decided(outcome: &Outcome, failure: Option<&FilterError>) -> Option<Decided> {
    match (failure, outcome) {
        (Some(error), _) => error.is_fault_of_policy().then(|| Err(error.kind())),
        (None, Outcome::Pass) => Some(Ok(Choice::plain("pass".to_owned()))),
        (None, Outcome::Reject(advice)) => Some(Ok(Choice::rejected(advice))),
        (None, Outcome::Truncate { truncation, .. }) => Some(Ok(Choice::truncated(truncation))),
        (None, Outcome::Offload(offloaded)) => Some(Ok(Choice::written(offloaded.offload.record(), &offloaded.kept))),
        (None, Outcome::Fail(_)) => None,
    }
}

/// Runs a policy on a result that has already been answered, and discards its output. The payload begins with so many parts of
/// the result itself.
pub(super) fn compare(running: &Running<'_>, payload: (&Arc<Payload>, usize), old: &Decided) -> Comparison {
    match (choose(running, payload), old) {
        (Ok(new), Ok(old)) => old.difference(&new).map_or(Comparison::Same, Comparison::Different),
        (Ok(_), Err(kind)) => Comparison::Different(format!("succeeds where the current policy fails ({kind})")),
        (Err(error), Err(kind)) if error.kind() == *kind => Comparison::Same,
        (Err(error), _) => Comparison::Failed(error.to_string()),
    }
}

fn choose(running: &Running<'_>, (payload, own_parts): (&Arc<Payload>, usize)) -> Result<Choice, FilterError> {
    let Running { filter, policy, request, call, .. } = *running;
    let (verdict, _) = policy.prepared().inspect(&filter.limits, call, payload)?;
    let mut plan = match verdict {
        Verdict::Pass => return Ok(Choice::plain("pass".to_owned())),
        Verdict::Reject(advice) => return Ok(Choice::rejected(&advice)),
        Verdict::Truncate(truncation) => return Ok(Choice::truncated(&truncation.into())),
        Verdict::Offload(plan) => plan,
    };
    write_from(&mut plan, own_parts);
    check_plan(&plan).map_err(FilterError::Answer)?;
    // The call keeps its id, and so the path in the descriptor stays the same; only the directory differs.
    let id = Ulid::generate().map_err(FilterError::Random)?;
    let staging = filter.store.as_ref().map_err(Arc::clone)?.stage(&request.tenant, id)?;
    let mut written = job::finish(running.write(payload, &plan, staging))?;
    written.staging.check(&mut written.record)?;
    let kept: Vec<_> = plan.parts.iter().take(own_parts).map(|part| matches!(part, PlannedPart::Keep)).collect();
    Ok(Choice::written(&written.record, &kept))
}

impl Choice {
    fn plain(verdict: String) -> Self {
        Self { verdict, descriptor: String::new(), kept: Vec::new(), files: BTreeMap::new() }
    }

    fn rejected(advice: &str) -> Self {
        Self::plain(format!("reject with {advice:?}"))
    }

    fn truncated(truncation: &Truncation) -> Self {
        Self::plain(format!("truncate with {truncation:?}"))
    }

    fn written(record: &OffloadRecord, kept: &[bool]) -> Self {
        let known = |file: &FileRecord| (file.name.clone(), (file.bytes, file.sha256));
        Self {
            verdict: "offload".to_owned(),
            descriptor: record.descriptor.get().to_owned(),
            kept: kept.to_vec(),
            files: record.files.iter().map(known).collect(),
        }
    }

    /// Describes the first difference to another choice.
    fn difference(&self, new: &Self) -> Option<String> {
        if self.verdict != new.verdict {
            return Some(format!("verdict: {}, not {}", new.verdict, self.verdict));
        }
        let names = self.files.keys().chain(new.files.keys());
        let mut differing = names.filter(|name| self.files.get(*name) != new.files.get(*name));
        if let Some(name) = differing.next() {
            return Some(format!("file `{name}`"));
        }
        if self.descriptor != new.descriptor {
            return Some("descriptor".to_owned());
        }
        (self.kept != new.kept).then(|| "parts that stay in the reply".to_owned())
    }
}
