//! Calls that wait for a job without a thread.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use lro_host::store::Ulid;
use parking_lot::Mutex;

/// What a waiting call does next.
pub(super) type Wake = Box<dyn FnOnce() + Send>;

/// The waiting calls.
#[derive(Default)]
pub(super) struct Waiting(Mutex<Table>);

#[derive(Default)]
struct Table {
    /// By deadline; the number tells those of one instant apart.
    calls: BTreeMap<(Instant, u64), Call>,
    count: u64,
}

struct Call {
    job: Ulid,
    until: Until,
    wake: Wake,
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The end of the job.
    Ended,
    /// That the job asks for input, or its end.
    Asked,
}

impl fmt::Debug for Waiting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Waiting").field("calls", &self.0.lock().calls.len()).finish()
    }
}

impl Waiting {
    /// Adds a call, or wakes it at once if there is nothing to wait for. A job no longer `runs` before its calls are woken,
    /// so none is added too late.
    pub(super) fn add(&self, job: Ulid, deadline: Instant, until: Until, runs: impl FnOnce() -> bool, wake: Wake) {
        let mut table = self.0.lock();
        if runs() {
            table.count += 1;
            let key = (deadline, table.count);
            table.calls.insert(key, Call { job, until, wake });
            return;
        }
        drop(table);
        wake();
    }

    /// Wakes the calls that wait for a job, because it has ended.
    pub(super) fn wake(&self, job: Ulid) {
        self.wake_those(|_, call| call.job == job);
    }

    /// Wakes the calls that wait for a job, because it asks for input.
    pub(super) fn wake_asked(&self, job: Ulid) {
        self.wake_those(|_, call| call.job == job && call.until == Until::Asked);
    }

    /// Wakes the calls whose deadline has passed.
    pub(super) fn wake_until(&self, now: Instant) {
        let is_due = self.0.lock().calls.first_key_value().is_some_and(|((deadline, _), _)| *deadline <= now);
        if is_due {
            self.wake_those(|deadline, _| deadline <= now);
        }
    }

    /// Wakes all calls.
    pub(super) fn wake_all(&self) {
        self.wake_those(|_, _| true);
    }

    fn wake_those(&self, wanted: impl Fn(Instant, &Call) -> bool) {
        let is_wanted = |(deadline, _): &(Instant, u64), call: &mut Call| wanted(*deadline, call);
        // Waking takes other locks.
        let woken: Vec<_> = self.0.lock().calls.extract_if(.., is_wanted).collect();
        woken.into_iter().for_each(|(_, call)| (call.wake)());
    }
}
