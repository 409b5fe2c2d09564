//! Requests of a server for input to a job: they wait for any client of the tenant when that of the call cannot be reached.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lro_host::mcp::{Id, Message};

use crate::session::Session;
use crate::tenants::jobs::{Question, RunningJob};

impl Session {
    /// Keeps a request of the server for input as one of a job. `call` is the call that it came with; without one, it is
    /// taken to belong to the newest job of the session. Returns whether it did.
    pub(crate) fn ask_job(&self, request: &Message, call: Option<&Id>) -> bool {
        let Some(question) = Question::read(request) else { return false };
        let job = match call {
            Some(call) => self.job_of(call),
            None => self.jobs().into_iter().max_by_key(|job| job.handle),
        };
        job.iter().for_each(|job| self.rules.jobs.ask(job, question.clone()));
        job.is_some()
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
