//! Requests of a server for input to a job: they wait for any client of the tenant when that of the call cannot be reached.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use lro_host::mcp::{self, Id, Message, meta};
use lro_host::store::Ulid;
use serde_json::json;

use crate::session::Session;
use crate::tenants::jobs::{INPUT_METHODS, InputLimits, Question, RunningJob};

/// How the ids of requests to clients begin; the handle of the job, and the number of the question there, follow.
const REQUEST_ID: &str = "lro-input";

/// Number of requests to clients so far, which makes their ids unique.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// What a server asks for in the course of a job, as requests to the client that waits for the result as a task, in
/// revision 2025-11-25.
#[derive(Debug)]
pub(super) struct InputRequests {
    /// The requests that the client answers.
    methods: Vec<&'static str>,
    /// Number of the last question that the client has.
    last: u64,
}

impl InputRequests {
    /// For the client of a session: one gets no request that it does not declare in its handshake.
    pub(super) fn of(session: &Session) -> Self {
        let handshake = session.handshake().map(|(initialize, _)| Message::read(initialize));
        let declares = |capability: &str| {
            let declared = |initialize: &Message| initialize.value(&["params", "capabilities", capability]);
            handshake.as_ref().and_then(declared).is_some_and(|declared| declared.starts_with(b"{"))
        };
        let methods = INPUT_METHODS.into_iter().filter(|(_, capability)| declares(capability));
        Self { methods: methods.map(|(method, _)| method).collect(), last: 0 }
    }

    /// The first question that the client does not have.
    fn question(&self, job: &RunningJob) -> Option<Question> {
        let is_next =
            |question: &Question| question.number > self.last && self.methods.contains(&question.method.as_str());
        job.questions().into_iter().find(is_next)
    }

    pub(super) fn has_next(&self, job: &RunningJob) -> bool {
        self.question(job).is_some()
    }

    /// The next request, if there is one that the client does not have.
    pub(super) fn next(&mut self, job: &RunningJob) -> Option<Bytes> {
        let Question { number, method, params, .. } = self.question(job)?;
        self.last = number;
        let count = REQUESTS.fetch_add(1, Ordering::Relaxed);
        let id = Id::own(&format!("{REQUEST_ID}-{}-{number}-{count}", job.handle));
        let params = Bytes::from(params.map_or("{}".to_owned(), |params| params.get().to_owned()));
        let task = json!({ "taskId": job.handle.to_string() }).to_string();
        let params = mcp::with_metadata(&params, meta::RELATED_TASK, &task);
        Some(mcp::request(&id, &method, &String::from_utf8_lossy(&params)))
    }
}

/// The job and the number of the question that a client answers with this response.
fn answered(response: &Message) -> Option<(Ulid, u64)> {
    let id: String = serde_json::from_str(response.id()?.json()).ok()?;
    let mut parts = id.strip_prefix(REQUEST_ID)?.strip_prefix('-')?.split('-');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl Session {
    /// Gives a job the response of a client to a request of the gateway. Returns whether it was one.
    pub(in crate::session) fn give_response(&self, response: &Message) -> bool {
        let asked = answered(response);
        let job = asked.and_then(|(job, number)| Some((self.rules.jobs.running(self.tenant(), job)?, number)));
        job.as_ref().map(|(job, number)| job.respond(*number, response)).is_some()
    }

    /// Keeps a request of the server for input as one of a job. `call` is the call that it came with; without one, it is
    /// taken to belong to the newest job of the session. Returns whether it did.
    pub(crate) fn ask_job(&self, request: &Message, call: Option<&Id>) -> bool {
        let Some(question) = Question::read(request) else { return false };
        let job = match call {
            Some(call) => self.job_of(call),
            None => self.jobs().into_iter().max_by_key(|job| job.handle),
        };
        job.iter().for_each(|job| self.rules.jobs.ask(job, question.clone(), self.input_limits()));
        job.is_some()
    }

    pub(super) fn input_limits(&self) -> InputLimits {
        let gateway = &self.rules.config.gateway;
        InputLimits { count: gateway.job_inputs.get(), bytes: gateway.job_input_bytes.get() }
    }

    /// Takes back a request for input that the server has canceled.
    pub(in crate::session) fn withdraw(&self, id: &Id) {
        self.jobs().iter().for_each(|job| job.withdraw(id));
    }

    /// What the server gets for its requests for input. To be called every now and then.
    pub(crate) fn responses(&self) -> Vec<Bytes> {
        self.jobs().iter().flat_map(|job| self.responses_of(job)).collect()
    }

    /// As [`Session::responses`], for one job.
    pub(crate) fn responses_of(&self, job: &RunningJob) -> Vec<Bytes> {
        job.take_responses(Duration::from_secs(self.rules.config.gateway.job_input_seconds.get()))
    }

    fn jobs(&self) -> Vec<Arc<RunningJob>> {
        self.state().calls.values().flatten().filter_map(|call| call.job.clone()).collect()
    }
}
