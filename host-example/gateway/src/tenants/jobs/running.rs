//! One job that runs.

use std::time::{Duration, Instant};

use lro_host::mcp::Message;
use lro_host::store::Ulid;
use parking_lot::{Mutex, MutexGuard};

/// Length at which the message of a progress notification is cut, in bytes.
const MESSAGE_BYTES_MAX: usize = 512;

/// How long an answer of the server to a canceled job is waited for, to say whether it went on.
const CANCELED_MAX: Duration = Duration::from_secs(60);

/// The call that a job began with.
#[derive(Clone, Debug)]
pub(crate) struct JobCall {
    pub(crate) tenant: String,
    pub(crate) tool: String,
    /// The arguments as JSON, if they are kept.
    pub(crate) arguments: Option<String>,
}

/// What the server said last about its progress.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) progress: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
    pub(crate) at: Instant,
}

/// A job that runs, or whose cancellation the server has not answered yet.
#[derive(Debug)]
pub(crate) struct RunningJob {
    pub(crate) handle: Ulid,
    pub(crate) call: JobCall,
    begun: Instant,
    state: Mutex<State>,
    /// Held while a record is written, so that the last state is the last record.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    has_ended: bool,
    canceled: Option<Canceled>,
    progress: Option<Progress>,
}

#[derive(Clone, Copy, Debug)]
struct Canceled {
    at: Instant,
    /// Whether the server knows.
    is_sent: bool,
}

impl RunningJob {
    pub(super) fn new(handle: Ulid, call: JobCall) -> Self {
        Self { handle, call, begun: Instant::now(), state: Mutex::default(), turn: Mutex::default() }
    }

    /// Waits for the turn to write the record.
    pub(super) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Whether it has ended, and its record is written or about to be.
    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().has_ended
    }

    /// Ends the job. Returns whether it had not ended.
    pub(super) fn set_ended(&self) -> bool {
        !std::mem::replace(&mut self.state.lock().has_ended, true)
    }

    /// How long it has run.
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.state.lock().canceled.is_some()
    }

    /// Cancels the job. `is_sent` says whether the server gets a cancellation anyway.
    pub(crate) fn cancel(&self, is_sent: bool) {
        self.state.lock().canceled.get_or_insert(Canceled { at: Instant::now(), is_sent });
    }

    /// Whether the server must get a cancellation now. Returns true once.
    pub(crate) fn take_cancellation(&self) -> bool {
        let mut state = self.state.lock();
        state.canceled.as_mut().is_some_and(|canceled| !std::mem::replace(&mut canceled.is_sent, true))
    }

    /// Whether the server has had its time to answer a cancellation.
    pub(crate) fn is_given_up(&self) -> bool {
        self.state.lock().canceled.is_some_and(|canceled| canceled.at.elapsed() > CANCELED_MAX)
    }

    /// Keeps a progress notification, in place of the one before.
    pub(crate) fn report(&self, notification: &Message) {
        let number = |key| serde_json::from_slice(&notification.value(&["params", key])?).ok();
        let Some(progress) = number("progress") else { return };
        let message = notification.value(&["params", "message"]);
        let message = message.and_then(|message| serde_json::from_slice::<String>(&message).ok()).map(|mut text| {
            text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
            text
        });
        self.set_progress(Progress { progress, total: number("total"), message, at: Instant::now() });
    }

    /// Keeps how far it is, in place of what was known before.
    pub(crate) fn set_progress(&self, progress: Progress) {
        self.state.lock().progress = Some(progress);
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        self.state.lock().progress.clone()
    }
}
