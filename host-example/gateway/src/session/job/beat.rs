//! What the gateway tells a client whose call waits: heartbeats, which are progress while the call is silent, so that the
//! client's own timeout does not end it, and the requests for input to a task whose result it waits for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, Id, method};
use serde::Serialize;
use serde_json::value::RawValue;

use super::input::InputRequests;
use crate::session::Session;
use crate::session::pending::{Call, RequestKind};
use crate::tenants::jobs::{Progress, RunningJob};

/// Progress before the server has reported any. It is below zero because progress has to rise, and many servers begin
/// at zero.
const BEGIN: f64 = -1e-6;

/// The part of a number by which a heartbeat is above the one before: less than a server's own steps, and more than what
/// clients lose when they read a number.
const STEP: f64 = 1e-9;

/// The part by which it comes nearer to zero before the server has reported any, so that it never gets there.
const STEP_BELOW_ZERO: f64 = 1e-3;

/// The heartbeat of a call.
#[derive(Clone, Debug)]
pub(in crate::session) struct Beat {
    /// The progress token of the client.
    token: Id,
    every: Duration,
    begun: Instant,
    /// When the client heard of the call last, and of which progress.
    last: Instant,
    progress: f64,
}

/// How often a job whose result is awaited is looked at for requests for input.
const INPUT_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A call that waits for a job.
#[derive(Debug)]
pub(in crate::session) struct WaitingCall {
    hears: Hears,
    job: Arc<RunningJob>,
    until: Instant,
}

/// What the client of a call hears while it waits.
#[derive(Debug)]
enum Hears {
    /// The progress of the job.
    Progress(Beat),
    /// What the server asks for.
    Input(InputRequests),
}

impl Beat {
    fn new(token: Id, every: Duration) -> Self {
        let now = Instant::now();
        Self { token, every, begun: now, last: now, progress: BEGIN }
    }

    fn due(&self) -> Instant {
        self.last + self.every
    }

    /// Notes progress of the server that the client gets.
    pub(in crate::session) fn hear(&mut self, progress: &Progress) {
        (self.last, self.progress) = (Instant::now(), progress.progress);
    }

    /// The notification, if it is time for one: the last report of the server, with a little more progress.
    fn next(&mut self, reported: Option<&Progress>) -> Option<Bytes> {
        if self.last.elapsed() < self.every {
            return None;
        }
        let above = above(self.progress);
        self.progress = reported.map_or(above, |reported| reported.progress.max(above));
        self.last = Instant::now();
        let running = || format!("still running after {} s", self.begun.elapsed().as_secs());
        let params = Params {
            token: serde_json::from_str(self.token.json()).ok()?,
            progress: self.progress,
            total: reported.and_then(|reported| reported.total),
            message: reported.map_or_else(|| Some(running()), |reported| reported.message.clone()),
        };
        Some(mcp::notification(method::PROGRESS, &serde_json::to_string(&params).ok()?))
    }
}

/// A number a little above another one.
fn above(progress: f64) -> f64 {
    let step = if progress < 0.0 { -progress * STEP_BELOW_ZERO } else { progress.max(1.0) * STEP };
    (progress + step).min(f64::MAX)
}

#[derive(Serialize)]
struct Params<'a> {
    #[serde(rename = "progressToken")]
    token: &'a RawValue,
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// A message of the gateway for the client of a call that waits: progress, or a request for input.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// The id of the call.
    pub(crate) call: Id,
    pub(crate) message: Bytes,
}

impl Session {
    /// The heartbeat of a call; `None` if its client asked for no progress, or its tool has no jobs.
    pub(in crate::session) fn beat_of(&self, call: &Call) -> Option<Beat> {
        let (RequestKind::Tool(tool), Some(token)) = (&call.kind, &call.progress) else { return None };
        let every = self.rules.config.gateway_tool(&tool.name).heartbeat().filter(|_| self.rules.announces())?;
        Some(Beat::new(token.clone(), every))
    }

    /// Registers a call of the tool for jobs, with this progress token, that waits for a job.
    pub(in crate::session) fn begin_waiting(&self, id: &Id, token: &Id, job: &Arc<RunningJob>, until: Instant) {
        let Some(every) = self.rules.config.gateway_tool(&job.call.tool).heartbeat() else { return };
        let hears = Hears::Progress(Beat::new(token.clone(), every));
        self.state().waiting.insert(id.clone(), WaitingCall { hears, job: Arc::clone(job), until });
    }

    /// Registers a request that waits for the result of a job, and whose client gives input to it.
    pub(in crate::session) fn begin_giving(&self, id: &Id, job: &Arc<RunningJob>, until: Instant) {
        let hears = Hears::Input(InputRequests::of(self));
        self.state().waiting.insert(id.clone(), WaitingCall { hears, job: Arc::clone(job), until });
    }

    /// Forgets a call that waited for a job.
    pub(in crate::session) fn end_waiting(&self, id: &Id) {
        self.state().waiting.remove(id);
    }

    /// When the next heartbeat of any call is due; in the past if it is overdue.
    pub(crate) fn next_beat(&self) -> Option<Instant> {
        let state = self.state();
        let of_calls = state.calls.values().flatten().filter_map(Call::awaited_beat).map(Beat::due);
        of_calls.chain(state.waiting.values().map(WaitingCall::due)).min()
    }

    /// When the next heartbeat of the request with this id is due.
    pub(crate) fn next_beat_of(&self, id: &Id) -> Option<Instant> {
        let state = self.state();
        let of_call = || Some(state.calls.get(id)?.front()?.awaited_beat()?.due());
        state.waiting.get(id).map(WaitingCall::due).or_else(of_call)
    }

    /// The heartbeats that are due.
    pub(crate) fn heartbeats(&self) -> Vec<Heartbeat> {
        let (mut state, now) = (self.state(), Instant::now());
        // A call that was given up leaves its entry behind.
        state.waiting.retain(|_, waiting| waiting.until > now && !waiting.job.has_ended());
        let mut due = Vec::new();
        for (id, calls) in &mut state.calls {
            let messages = calls.iter_mut().filter_map(Call::next_beat);
            due.extend(messages.map(|message| Heartbeat { call: id.clone(), message }));
        }
        for (id, waiting) in &mut state.waiting {
            let messages = std::iter::from_fn(|| waiting.next());
            due.extend(messages.map(|message| Heartbeat { call: id.clone(), message }));
        }
        due
    }

    /// The heartbeat of the request with this id, if it is due.
    pub(crate) fn heartbeat_of(&self, id: &Id) -> Option<Bytes> {
        let mut state = self.state();
        let of_waiting = state.waiting.get_mut(id).and_then(WaitingCall::next);
        of_waiting.or_else(|| state.calls.get_mut(id)?.front_mut()?.next_beat())
    }
}

impl Call {
    /// The heartbeat, unless the client has its answer, or the gateway has yet to decide about the call.
    fn awaited_beat(&self) -> Option<&Beat> {
        self.beat.as_ref().filter(|_| self.beats())
    }

    fn next_beat(&mut self) -> Option<Bytes> {
        let beats = self.beats();
        self.beat.as_mut().filter(|_| beats)?.next(self.reported.as_ref())
    }

    fn beats(&self) -> bool {
        self.job.is_none() && self.is_forwarded
    }
}

impl WaitingCall {
    /// When the client hears something next; for input, when to look.
    fn due(&self) -> Instant {
        match &self.hears {
            Hears::Progress(beat) => beat.due(),
            Hears::Input(requests) if requests.has_next(&self.job) => Instant::now(),
            Hears::Input(_) => Instant::now() + INPUT_POLL_INTERVAL,
        }
    }

    /// The next message, if it is time for one.
    fn next(&mut self) -> Option<Bytes> {
        match &mut self.hears {
            Hears::Progress(beat) => beat.next(self.job.progress().as_ref()),
            Hears::Input(requests) => requests.next(&self.job),
        }
    }
}
