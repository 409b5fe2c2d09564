//! Calls that wait for the end of a job, in this process or in another gateway of the same store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lro_host::store::{JobState, Store, Ulid};

use crate::session::Session;
use crate::settings::StorePlace;
use crate::tenants::jobs::RunningJob;
use crate::tenants::rules::Rules;

/// How often the record of a job is read that runs in another process.
const ELSEWHERE_INTERVAL: Duration = Duration::from_millis(500);

/// The same where each look is two or three requests to a bucket.
const BUCKET_INTERVAL: Duration = Duration::from_secs(2);

/// A job that a call waits for.
#[derive(Clone, Debug)]
pub(in crate::session) enum Awaited {
    /// It runs in this process. The call goes on when the job asks for input, too.
    Here(Arc<RunningJob>),
    /// As [`Awaited::Here`], but the call waits for the end.
    End(Arc<RunningJob>),
    /// It runs in another gateway.
    Elsewhere(Ulid),
}

impl Session {
    /// Calls `wake` when the call may go on, or at the deadline.
    pub(in crate::session) fn wait_for(&self, job: Awaited, deadline: Instant, wake: impl FnOnce() + Send + 'static) {
        match job {
            Awaited::Here(job) => self.rules.jobs.wait(&job, deadline, wake),
            Awaited::End(job) => self.rules.jobs.wait_for_end(&job, deadline, wake),
            Awaited::Elsewhere(job) => {
                wait_elsewhere(&self.rules, self.tenant().to_owned(), job, deadline, Box::new(wake));
            }
        }
    }
}

/// Reads the record of the job now and then. Holds no thread meanwhile.
fn wait_elsewhere(rules: &Arc<Rules>, tenant: String, job: Ulid, deadline: Instant, wake: Box<dyn FnOnce() + Send>) {
    let is_in_bucket = matches!(rules.config.store, Some(StorePlace::Bucket(_)));
    let interval = if is_in_bucket { BUCKET_INTERVAL } else { ELSEWHERE_INTERVAL };
    let (next, shared) = (deadline.min(Instant::now() + interval), Arc::clone(rules));
    rules.jobs.wait_until(job, next, move || {
        let rules = Arc::clone(&shared);
        shared.workers.run(move |_| {
            let runs = rules.filter.store.as_ref().is_ok_and(|store| runs_elsewhere(store, &tenant, job));
            match runs && Instant::now() < deadline {
                true => wait_elsewhere(&rules, tenant, job, deadline, wake),
                false => wake(),
            }
        });
    });
}

/// Whether a job of this tenant runs in another gateway. Blocks.
pub(super) fn runs_elsewhere(store: &Store, tenant: &str, job: Ulid) -> bool {
    store.job(tenant, job, 0).is_ok_and(|record| record.state == JobState::Running { is_own: false })
}
