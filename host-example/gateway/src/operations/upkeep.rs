//! What a gateway does beside its messages: it tells `lro status` of itself, and removes what has expired.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime};

use crate::operations::status::{About, Status, Writer};
use crate::tenants::rules::Rules;
use lro_host::store::Store;

/// How often a gateway tells of itself, if there is something new.
const STATUS_PERIOD: Duration = Duration::from_secs(1);

/// Longest time between two sweeps of the store. One takes time in proportion to what is held.
const SWEEP_PERIOD_MAX: Duration = Duration::from_secs(60);

/// A thread. Dropped, it ends, and nothing tells of the gateway any more.
#[derive(Debug)]
pub struct Upkeep {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Starts it. Without a store there is nothing to do.
    pub fn start(rules: &Arc<Rules>, about: About) -> Self {
        let Ok(store) = rules.filter.store.clone() else { return Self { stop: None, thread: None } };
        let (stop, stopped) = mpsc::channel();
        let rules = Arc::clone(rules);
        let run = move || {
            let mut teller = Teller { store: store.clone(), writer: None, about, told: None, has_failed: false };
            let time_to_live = Duration::from_secs(rules.config.ttl_seconds.get());
            let (period, mut swept) = (time_to_live.min(SWEEP_PERIOD_MAX), Instant::now());
            loop {
                teller.tell(&rules);
                if swept.elapsed() >= period {
                    sweep(&store);
                    swept = Instant::now();
                }
                match stopped.recv_timeout(STATUS_PERIOD) {
                    Err(RecvTimeoutError::Timeout) => {}
                    Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        let started = thread::Builder::new().name("lro-upkeep".into()).spawn(run);
        let started = started.inspect_err(|error| tracing::warn!(%error, "no thread for the upkeep of the store"));
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

fn sweep(store: &Store) {
    if let Err(error) = store.sweep(SystemTime::now()) {
        tracing::warn!(error = &error as &dyn std::error::Error, "the store cannot be swept");
    }
}

/// Writes what is new.
struct Teller {
    store: Store,
    writer: Option<Writer>,
    about: About,
    told: Option<Status>,
    /// Whether the last attempt failed, which is said once.
    has_failed: bool,
}

impl Teller {
    fn tell(&mut self, rules: &Rules) {
        let status = Status::of(&self.about, &rules.metrics);
        if self.told.as_ref() == Some(&status) {
            return;
        }
        let written = self.write(&status);
        if let Err(error) = &written {
            self.writer = None;
            if !self.has_failed {
                tracing::warn!(%error, "`lro status` will not show this gateway, as its directory cannot be written");
            }
        }
        self.has_failed = written.is_err();
        self.told = written.is_ok().then_some(status);
    }

    fn write(&mut self, status: &Status) -> io::Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none.insert(Writer::new(&self.store)?),
        };
        writer.write(status)
    }
}
