//! Background work of a gateway: publishes its status for `lro status`, keeps the history, and removes expired offloads.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use lro_host::store::Store;

use crate::metrics::{ToolDay, day_of};
use crate::operations::history;
use crate::operations::status::{About, Status, Writer};
use crate::tenants::rules::Rules;

/// How often the status is published, if it has changed.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time between two sweeps of the store. The time a sweep takes is proportional to the number of offloads.
const SWEEP_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// The background thread. Dropping it stops the thread and removes the status.
#[derive(Debug)]
pub struct Upkeep {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Starts the thread. Without a store there is nothing to do.
    pub fn start(rules: &Arc<Rules>, about: About) -> Self {
        let Ok(store) = rules.filter.store.clone() else { return Self { stop: None, thread: None } };
        let (stop, stopped) = mpsc::channel();
        let rules = Arc::clone(rules);
        let run = move || {
            let mut reporter =
                StatusReporter { store: store.clone(), writer: None, about, reported: None, has_failed: false };
            let (interval, mut swept) = (rules.config.time_to_live_min().min(SWEEP_INTERVAL_MAX), Instant::now());
            let history_days = rules.config.gateway.history_days.get();
            remove_history_before(&store, history_days);
            loop {
                record_past_days(&store, &rules);
                reporter.report(&rules);
                if swept.elapsed() >= interval {
                    sweep(&store, interval);
                    remove_history_before(&store, history_days);
                    swept = Instant::now();
                }
                match stopped.recv_timeout(STATUS_INTERVAL) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            // The status file goes first, so that nothing is counted twice.
            drop(reporter);
            append_to_history(&store, &rules.metrics.days());
        };
        let started = thread::Builder::new().name("lro-upkeep".into()).spawn(run);
        let started =
            started.inspect_err(|error| tracing::warn!(%error, "cannot start the thread that maintains the store"));
        Self { stop: Some(stop), thread: started.ok() }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn sweep(store: &Store, interval: Duration) {
    if let Err(error) = store.sweep_in_turn(SystemTime::now(), interval) {
        tracing::warn!(error = &error as &dyn std::error::Error, "cannot sweep the store");
    }
}

fn remove_history_before(store: &Store, days: u32) {
    if let Err(error) = history::remove_before(store, days) {
        tracing::warn!(%error, "cannot remove old days from the history");
    }
}

/// Moves the counts of days that have ended to the history.
fn record_past_days(store: &Store, rules: &Rules) {
    let today = day_of(SystemTime::now());
    let past = rules.metrics.days_before(&today);
    if !past.is_empty() && append_to_history(store, &past) {
        rules.metrics.forget_days_before(&today);
    }
}

/// Returns whether it could.
fn append_to_history(store: &Store, counts: &[ToolDay]) -> bool {
    let appended = history::append(store, counts);
    appended.inspect_err(|error| tracing::warn!(%error, "cannot write the history of `lro status --days`")).is_ok()
}

/// Publishes the status when it has changed.
struct StatusReporter {
    store: Store,
    writer: Option<Writer>,
    about: About,
    reported: Option<Status>,
    /// Whether the last attempt failed. Only the first failure in a row is logged.
    has_failed: bool,
}

impl StatusReporter {
    fn report(&mut self, rules: &Rules) {
        let status = Status::of(&self.about, &rules.metrics);
        if self.reported.as_ref() == Some(&status) {
            return;
        }
        let written = self.write(&status);
        if let Err(error) = &written {
            self.writer = None;
            if !self.has_failed {
                tracing::warn!(%error, "`lro status` will not show this gateway: cannot write its status file");
            }
        }
        self.has_failed = written.is_err();
        self.reported = written.is_ok().then_some(status);
    }

    fn write(&mut self, status: &Status) -> io::Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(Writer::new(&self.store)?),
        };
        writer.write(status)
    }
}
