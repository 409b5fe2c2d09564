//! Jobs whose call the server has not answered with a result yet, but with a question or a task: the gateway goes on with its
//! own requests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::job::{Job as Work, pause};
use lro_host::mcp::{Id, Message};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::server_task::ServerTask;
use super::{asks_for_input, outcome_of};
use crate::clock::Clock;
use crate::session::Session;
use crate::session::collect::CollectState;
use crate::session::decision::{Filtering, FromServer};
use crate::session::own_request::own_id;
use crate::session::pending::Call;
use crate::tenants::jobs::{Outcome, Question, RunningJob};

/// Pause before a call that needs no input is sent again: the server asks for the time in between.
const ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// What a client answers the questions with, and what it gives back as it is, in the parameters of the next call.
const RESPONSES: &str = "inputResponses";
const STATE: &str = "requestState";

/// A result that asks for input, as from revision 2026-07-28 on.
struct InputRequired {
    questions: Vec<Question>,
    /// What the server wants back, as JSON.
    state: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InputRequiredResult {
    #[serde(default)]
    input_requests: BTreeMap<String, InputRequest>,
    request_state: Option<Box<RawValue>>,
}

/// A request for input, without an id.
#[derive(Deserialize)]
pub(super) struct InputRequest {
    method: String,
    params: Option<Box<RawValue>>,
}

impl InputRequest {
    /// The question of a client's answer by this key.
    ///
    /// # Errors
    /// When no client could answer it.
    pub(super) fn question(self, key: String) -> Result<Question, String> {
        Question::of_result(key, self.method, self.params)
    }
}

impl InputRequired {
    /// # Errors
    /// When no client could answer it.
    fn read(answer: &Message) -> Result<Self, String> {
        let result = answer.result().unwrap_or_default();
        let read: InputRequiredResult = serde_json::from_slice(&result)
            .map_err(|error| format!("its result `input_required` is invalid: {error}"))?;
        let questions = read.input_requests.into_iter().map(|(key, request)| request.question(key));
        Ok(Self { questions: questions.collect::<Result<_, _>>()?, state: read.request_state })
    }
}

/// Whether the gateway goes on after this answer of the server to the call of a job.
pub(super) fn goes_on(answer: &Message, call: &Call) -> bool {
    asks_for_input(answer) || ServerTask::created(answer, call).is_some()
}

impl Session {
    /// Goes on with a job after an answer that is no result. If the call has not been answered yet, its client gets the
    /// descriptor.
    pub(super) fn continue_job(
        self: &Arc<Self>,
        answer: Message,
        call: Call,
        job: Arc<RunningJob>,
        is_answered: bool,
    ) -> Filtering {
        let (bytes, id) = (answer.bytes().clone(), answer.id());
        // The server has its request behind it, and the session keeps the job.
        let call = Call { collect: Some(Arc::<CollectState>::default()), job: Some(Arc::clone(&job)), ..call };
        id.iter().for_each(|id| self.remember(id.clone(), call.clone()));
        let begun = id.clone().filter(|_| !is_answered).map(|id| self.begun(&id, &call, &job));
        let (session, ended, running) = (Arc::clone(self), Arc::clone(self), Arc::clone(&job));
        let recorded = (Arc::clone(self), Arc::clone(&job));
        let run = async move { session.pursue(answer, &call, &running).await };
        self.rules.collectors.spawn(run, move |outcome| {
            id.iter().for_each(|id| ended.forget(id));
            ended.end_job(&job, outcome.unwrap_or_else(|error| Outcome::Unanswered(error.to_string())));
        });
        let record = async move {
            let Some(begun) = begun else { return FromServer::Nothing };
            // Writing the record blocks.
            pause().await;
            if let Ok(store) = &recorded.0.rules.filter.store {
                recorded.0.rules.jobs.record_begin(store, &recorded.1);
            }
            FromServer::Pass(begun)
        };
        Filtering { message: bytes, job: Work::new(record), is_answered }
    }

    /// Goes on until the job has ended.
    async fn pursue(self: &Arc<Self>, answer: Message, call: &Call, job: &RunningJob) -> Outcome {
        let clock = match Clock::get() {
            Ok(clock) => clock,
            Err(error) => return Outcome::Unanswered(format!("the gateway cannot start a thread: {error}")),
        };
        let seconds = self.rules.config.gateway.job_seconds_max.get();
        let rest = Duration::from_secs(seconds).saturating_sub(job.age());
        let pursued = clock.until(Instant::now().checked_add(rest), self.rounds(&clock, answer, call, job)).await;
        let late = || Outcome::Unanswered(format!("it took longer than {seconds} seconds (gateway.job-seconds-max)"));
        pursued.unwrap_or_else(late)
    }

    async fn rounds(self: &Arc<Self>, clock: &Clock, mut answer: Message, call: &Call, job: &RunningJob) -> Outcome {
        let rounds = self.rules.config.gateway.input_rounds;
        for _ in 0..rounds.get() {
            if !goes_on(&answer, call) {
                return match answer.result() {
                    Some(_) => outcome_of(&Message::read(self.filter(answer, call).await)),
                    None => outcome_of(&answer),
                };
            }
            let next = match ServerTask::created(&answer, call) {
                Some(task) => self.followed(clock, task, call, job).await,
                None => tokio::select! {
                    biased;
                    next = self.input_round(clock, &answer, call, job) => next.map_err(Outcome::Failed),
                    () = job.canceled() => Err(Outcome::Unanswered("it was canceled while it waited".to_owned())),
                },
            };
            answer = match next {
                Ok(next) => next,
                Err(outcome) => return outcome,
            };
        }
        Outcome::Failed(format!(
            "the server asked for input {rounds} times, which is the most that a job waits for (gateway.input-rounds)"
        ))
    }

    /// Waits for the input that an answer asks for, and sends the call again with it. Returns the next answer.
    ///
    /// # Errors
    /// Why the job cannot go on.
    async fn input_round(
        self: &Arc<Self>,
        clock: &Clock,
        answer: &Message,
        call: &Call,
        job: &RunningJob,
    ) -> Result<Message, String> {
        let failed =
            |reason: String| format!("the server asked for input with the result `input_required`, but {reason}");
        let Some(message) = call.detachment.as_ref().and_then(|detachment| detachment.message.as_ref()) else {
            let most = self.rules.config.gateway.job_call_bytes;
            let text = format!(
                "the call has more than {most} bytes (gateway.job-call-bytes) or is of a revision without such results"
            );
            return Err(failed(text));
        };
        let InputRequired { questions, state } = InputRequired::read(answer).map_err(failed)?;
        let given = if questions.is_empty() {
            clock.sleep(ROUND_INTERVAL).await;
            BTreeMap::new()
        } else {
            self.input(clock, questions, job).await.map_err(failed)?
        };
        let request = |id: &Id| with_input(&Message::read(message.clone()), id, given, state);
        let id = own_id();
        let request = request(&id).ok_or_else(|| failed("the call cannot be sent again".to_owned()))?;
        let send = self.send().ok_or_else(|| failed("the server is not connected".to_owned()))?;
        self.ask_own(&send, id, request).await
    }

    /// Waits until clients have answered the questions of a job.
    ///
    /// # Errors
    /// Why there are no answers.
    pub(super) async fn input(
        &self,
        clock: &Clock,
        questions: Vec<Question>,
        job: &RunningJob,
    ) -> Result<BTreeMap<String, Box<RawValue>>, String> {
        self.rules.jobs.ask_all(job, questions, self.input_limits())?;
        let seconds = self.rules.config.gateway.job_input_seconds.get();
        let until = Instant::now().checked_add(Duration::from_secs(seconds));
        let late = || Err(format!("no client gave it within {seconds} s (gateway.job-input-seconds)"));
        let given = clock.until(until, job.given()).await.unwrap_or_else(late);
        given.inspect_err(|_| job.take_back())
    }
}

/// The call once more, with input.
fn with_input(
    call: &Message,
    id: &Id,
    given: BTreeMap<String, Box<RawValue>>,
    state: Option<Box<RawValue>>,
) -> Option<Bytes> {
    let mut params: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&call.value(&["params"])?).ok()?;
    // The client may have answered an earlier question itself.
    params.remove(RESPONSES);
    params.remove(STATE);
    if !given.is_empty() {
        params.insert(RESPONSES.to_owned(), serde_json::value::to_raw_value(&given).ok()?);
    }
    params.extend(state.map(|state| (STATE.to_owned(), state)));
    let params = serde_json::to_vec(&params).ok()?;
    Some(Message::read(Message::read(call.with_bytes(&["params"], &params)).with_id(id)).bytes().clone())
}
