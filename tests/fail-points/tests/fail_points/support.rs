//! Fail points and their actions, and policies that show which version answered.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{fs, thread};

use lro_host::filter::{Decision, Filter, Outcome};
use lro_host::policy::Slot;
use lro_host::settings::{FailureMode, PolicySettings};
use lro_tests::{always, filter_with, request, text};
pub(crate) use lro_tests::{signature, version};

/// Longest time of one step and its consequences: long enough for a busy machine, shorter than a deadlock.
const PATIENCE: Duration = Duration::from_secs(60);

/// Delay of a step.
pub(crate) const DELAY: Duration = Duration::from_millis(100);

/// A one-time action at a fail point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Error,
    Panic,
    Delay,
}

impl Action {
    pub(crate) const ALL: [Self; 3] = [Self::Error, Self::Panic, Self::Delay];

    fn text(self) -> &'static str {
        match self {
            Self::Error => "1*return",
            Self::Panic => "1*panic",
            Self::Delay => "1*sleep(100)",
        }
    }
}

/// Runs a job with an action at a fail point; returns the time taken.
pub(crate) fn with<T>(point: &str, action: Action, step: impl FnOnce() -> T) -> (T, Duration) {
    within(&format!("{action:?} at {point}"), || {
        fail::cfg(point, action.text()).unwrap();
        let started = Instant::now();
        let result = step();
        let took = started.elapsed();
        fail::remove(point);
        (result, took)
    })
}

/// Runs a job. When it does not end in time, the process ends, because a hanging thread cannot be ended.
pub(crate) fn within<T>(what: &str, step: impl FnOnce() -> T) -> T {
    let ((done, waiting), what) = (channel::<()>(), what.to_owned());
    let watchdog = thread::spawn(move || {
        if waiting.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            eprintln!("{what}: no end after {PATIENCE:?}");
            std::process::exit(101);
        }
    });
    let result = step();
    drop(done);
    watchdog.join().unwrap();
    result
}

/// A filter whose calls go through a slot.
pub(crate) fn filter(slot: Arc<Slot>, root: &Path) -> Filter {
    Filter { failure: FailureMode::Closed, ..filter_with(slot, root) }
}

/// Filters a result, which signs it.
pub(crate) fn sign(filter: &Filter) -> Decision {
    let settings = PolicySettings { custom: Some("sign".to_owned()), ..always() };
    filter.apply(&request(settings), &text("a result"))
}

/// The version that answers.
pub(crate) fn answers(filter: &Filter) -> String {
    let decision = sign(filter);
    let Outcome::Offload(offloaded) = &decision.outcome else { panic!("{decision:?}") };
    fs::read_to_string(offloaded.offload.path().join("signed.txt")).unwrap()
}

/// Waits for a condition. Panics when it takes too long.
pub(crate) fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE / 2, "waited for too long: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Paths below a directory that are neither published nor internal to the store.
pub(crate) fn leftovers(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let of = |entry: fs::DirEntry| match entry.file_name().to_string_lossy().into_owned() {
        name if name.starts_with(".staging-") || name.starts_with(".removing-") => vec![name],
        _ if entry.path().is_dir() => leftovers(&entry.path()),
        _ => Vec::new(),
    };
    entries.flat_map(of).collect()
}
