//! One job that runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{Id, Message};
use lro_host::store::Ulid;
use parking_lot::{Mutex, MutexGuard};
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::input::{Input, InputLimits, Question};
use super::parts::Parts;

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

impl Progress {
    /// Reads a progress notification; `None` if it has no number.
    pub(crate) fn read(notification: &Message) -> Option<Self> {
        let number = |key| serde_json::from_slice(&notification.value(&["params", key])?).ok();
        let message = notification.value(&["params", "message"]);
        let message = message.and_then(|message| serde_json::from_slice::<String>(&message).ok()).map(|mut text| {
            text.truncate(text.floor_char_boundary(MESSAGE_BYTES_MAX));
            text
        });
        Some(Self { progress: number("progress")?, total: number("total"), message, at: Instant::now() })
    }
}

/// A job that runs, or whose cancellation the server has not answered yet.
#[derive(Debug)]
pub(crate) struct RunningJob {
    pub(crate) handle: Ulid,
    pub(crate) call: JobCall,
    /// What has come of its result.
    pub(crate) parts: Arc<Parts>,
    state: Mutex<State>,
    /// Notified when the state changes.
    changed: Notify,
    /// Held while a record is written, so that the last state is the last record.
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    has_ended: bool,
    canceled: Option<Canceled>,
    progress: Option<Progress>,
    input: Input,
    changes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Canceled {
    at: Instant,
    /// Whether the server knows.
    is_sent: bool,
}

impl RunningJob {
    pub(super) fn new(parts: Arc<Parts>, call: JobCall) -> Self {
        parts.begin();
        Self {
            handle: parts.handle,
            call,
            parts,
            state: Mutex::default(),
            changed: Notify::new(),
            turn: Mutex::default(),
        }
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

    /// How long it has run, since its call began.
    pub(crate) fn age(&self) -> Duration {
        self.parts.begun.elapsed()
    }

    pub(crate) fn is_canceled(&self) -> bool {
        self.state.lock().canceled.is_some()
    }

    /// Cancels the job. `is_sent` says whether the server gets a cancellation anyway.
    pub(crate) fn cancel(&self, is_sent: bool) {
        self.change(|state| {
            state.canceled.get_or_insert(Canceled { at: Instant::now(), is_sent });
        });
    }

    /// Keeps a request of the server for input.
    pub(super) fn ask(&self, question: Question, limits: InputLimits) {
        self.change(|state| state.input.ask(question, limits));
    }

    /// Keeps the requests for input of a result.
    ///
    /// # Errors
    /// When they are too many, or one is too large.
    pub(super) fn ask_all(&self, questions: Vec<Question>, limits: InputLimits) -> Result<(), String> {
        self.change(|state| state.input.ask_all(questions, limits))
    }

    /// Waits for the input that a result asks for: the results of all of its requests, by their keys.
    ///
    /// # Errors
    /// Why a client does not give it.
    pub(crate) async fn given(&self) -> Result<BTreeMap<String, Box<RawValue>>, String> {
        loop {
            // Before the look, so that no change comes between the two.
            let changed = self.changed.notified();
            if let Some(given) = self.state.lock().input.take_given() {
                return given;
            }
            changed.await;
        }
    }

    /// Waits until a client cancels the job.
    pub(crate) async fn canceled(&self) {
        loop {
            let changed = self.changed.notified();
            if self.is_canceled() {
                return;
            }
            changed.await;
        }
    }

    /// Takes back the requests for input of a result.
    pub(crate) fn take_back(&self) {
        self.change(|state| state.input.take_back());
    }

    /// Takes back a request for input that the server has canceled.
    pub(crate) fn withdraw(&self, id: &Id) {
        self.change(|state| state.input.withdraw(id));
    }

    /// The input that the server waits for.
    pub(crate) fn questions(&self) -> Vec<Question> {
        self.state.lock().input.questions().to_vec()
    }

    /// Whether the server waits for input.
    pub(super) fn asks(&self) -> bool {
        !self.state.lock().input.questions().is_empty()
    }

    /// Gives input: the results of requests of the server, by their keys.
    ///
    /// # Errors
    /// A key that no request has.
    pub(crate) fn give(&self, results: &BTreeMap<String, Box<RawValue>>) -> Result<(), String> {
        self.change(|state| state.input.give(results))
    }

    /// As [`RunningJob::give`], without the results that no request asks for.
    pub(crate) fn give_known(&self, results: &BTreeMap<String, Box<RawValue>>) {
        self.change(|state| state.input.give_known(results));
    }

    /// Gives input: the response of a client to the request of this number.
    pub(crate) fn respond(&self, number: u64, response: &Message) {
        self.change(|state| state.input.respond(number, response));
    }

    /// The responses to requests for input that the server is to get now. Those nobody answered in this time get an error.
    pub(crate) fn take_responses(&self, patience: Duration) -> Vec<Bytes> {
        let mut state = self.state.lock();
        let responses = state.input.take(patience);
        state.changes += responses.len() as u64;
        responses
    }

    /// How often what clients see of the job has changed.
    pub(crate) fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        state.changes += 1;
        let changed = change(&mut state);
        drop(state);
        self.changed.notify_waiters();
        changed
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

    /// Keeps the progress of the server, in place of the one before.
    pub(crate) fn report(&self, progress: Progress) {
        self.change(|state| state.progress = Some(progress));
    }

    pub(crate) fn progress(&self) -> Option<Progress> {
        self.state.lock().progress.clone()
    }
}
