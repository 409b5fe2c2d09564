//! Heartbeats: progress that the gateway reports while a call is silent, so that the client's own timeout does not end it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{Id, method};
use serde::Serialize;
use serde_json::value::RawValue;

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

/// A call of the tool for jobs that waits.
#[derive(Debug)]
pub(in crate::session) struct WaitingCall {
    beat: Beat,
    job: Arc<RunningJob>,
    until: Instant,
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
    fn next(&mut self, reported: Option<&Progress>) -> Option<Heartbeat> {
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
        let (method, params) = (method::PROGRESS, serde_json::to_string(&params).ok()?);
        let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#).into();
        Some(Heartbeat { token: self.token.clone(), message })
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

/// A progress notification of the gateway.
#[derive(Debug)]
pub(crate) struct Heartbeat {
    /// The progress token of the client.
    pub(crate) token: Id,
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
        let beat = Beat::new(token.clone(), every);
        self.state().waiting.insert(id.clone(), WaitingCall { beat, job: Arc::clone(job), until });
    }

    /// Ends the heartbeat of a call of the tool for jobs.
    pub(in crate::session) fn end_waiting(&self, id: &Id) {
        self.state().waiting.remove(id);
    }

    /// When the next heartbeat of any call is due; in the past if it is overdue.
    pub(crate) fn next_beat(&self) -> Option<Instant> {
        let state = self.state();
        let of_calls = state.calls.values().flatten().filter_map(Call::awaited_beat).map(Beat::due);
        of_calls.chain(state.waiting.values().map(|waiting| waiting.beat.due())).min()
    }

    /// When the next heartbeat of the request with this id is due.
    pub(crate) fn next_beat_of(&self, id: &Id) -> Option<Instant> {
        let state = self.state();
        let of_call = || Some(state.calls.get(id)?.front()?.awaited_beat()?.due());
        state.waiting.get(id).map(|waiting| waiting.beat.due()).or_else(of_call)
    }

    /// The heartbeats that are due.
    pub(crate) fn heartbeats(&self) -> Vec<Heartbeat> {
        let (mut state, now) = (self.state(), Instant::now());
        // A call that was given up leaves its entry behind.
        state.waiting.retain(|_, waiting| waiting.until > now);
        let of_waiting: Vec<Heartbeat> = state.waiting.values_mut().filter_map(WaitingCall::next).collect();
        let of_calls = state.calls.values_mut().flatten().filter_map(Call::next_beat);
        of_calls.chain(of_waiting).collect()
    }

    /// The heartbeat of the request with this id, if it is due.
    pub(crate) fn heartbeat_of(&self, id: &Id) -> Option<Bytes> {
        let mut state = self.state();
        let of_waiting = state.waiting.get_mut(id).and_then(WaitingCall::next);
        let beat = of_waiting.or_else(|| state.calls.get_mut(id)?.front_mut()?.next_beat())?;
        Some(beat.message)
    }
}

impl Call {
    /// The heartbeat, unless the client has its answer, or the gateway has yet to decide about the call.
    fn awaited_beat(&self) -> Option<&Beat> {
        self.beat.as_ref().filter(|_| self.beats())
    }

    fn next_beat(&mut self) -> Option<Heartbeat> {
        let beats = self.beats();
        self.beat.as_mut().filter(|_| beats)?.next(self.reported.as_ref())
    }

    fn beats(&self) -> bool {
        self.job.is_none() && self.is_forwarded
    }
}

impl WaitingCall {
    fn next(&mut self) -> Option<Heartbeat> {
        self.beat.next(self.job.progress().as_ref())
    }
}
