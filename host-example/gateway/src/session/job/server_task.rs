//! Jobs whose call is a task at the server: the gateway follows the task in place of the client.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, Id, Message, TASKS_EXTENSION, meta, method};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::continued::InputRequest;
use crate::clock::Clock;
use crate::session::Session;
use crate::session::own_request::own_id;
use crate::session::pending::Call;
use crate::tenants::jobs::{Outcome, Progress, Question, RunningJob};

/// How often a task is asked for, where the server does not say.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Least and most time between two questions about a task, whatever the server says.
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(250);
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(30);

/// How long a canceled task may take to end, before nobody knows whether the server went on.
const CANCELED_MAX: Duration = Duration::from_secs(60);

/// A task as the server shows it, in the form of either revision.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServerTask {
    task_id: String,
    #[serde(default)]
    status: String,
    status_message: Option<String>,
    poll_interval: Option<f64>,
    poll_interval_ms: Option<f64>,
    #[serde(default)]
    input_requests: BTreeMap<String, InputRequest>,
    result: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

impl ServerTask {
    /// The task that the server has created instead of a result.
    pub(super) fn created(answer: &Message, call: &Call) -> Option<Self> {
        if answer.value(&super::RESULT_TYPE).is_some_and(|kind| kind == r#""task""#) {
            return serde_json::from_slice(&answer.result()?).ok();
        }
        let asked = call.detachment.as_ref().is_some_and(|detachment| detachment.asks_task);
        // Without having asked for one, this may be a result with such a member.
        serde_json::from_slice(&answer.value(&["result", "task"]).filter(|_| asked)?).ok()
    }

    fn interval(&self) -> Duration {
        let millis = self.poll_interval_ms.or(self.poll_interval).filter(|millis| *millis >= 0.0);
        let interval = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1_000.0).ok());
        interval.unwrap_or(POLL_INTERVAL).clamp(POLL_INTERVAL_MIN, POLL_INTERVAL_MAX)
    }

    fn has_ended(&self) -> bool {
        matches!(self.status.as_str(), "completed" | "failed" | "cancelled")
    }

    fn said(&self) -> String {
        self.status_message.as_ref().map(|message| format!(": {message}")).unwrap_or_default()
    }
}

/// Cancels a task at the server when nobody follows it any more.
struct Followed<'a> {
    session: &'a Arc<Session>,
    call: &'a Call,
    id: &'a str,
    has_ended: bool,
}

impl Drop for Followed<'_> {
    fn drop(&mut self) {
        let (Some(send), false) = (self.session.send(), self.has_ended) else { return };
        let id = own_id();
        if let Some(request) = request(self.call, &id, method::TASKS_CANCEL, self.id, None) {
            // Nobody reads the answer.
            let (answer, _) = mpsc::channel(1);
            self.session.expect_own(id, answer);
            send(request);
        }
    }
}

impl Session {
    /// Follows a task until it has ended. Returns the answer to the call.
    ///
    /// # Errors
    /// How the job has ended without one.
    pub(super) async fn followed(
        self: &Arc<Self>,
        clock: &Clock,
        task: ServerTask,
        call: &Call,
        job: &RunningJob,
    ) -> Result<Message, Outcome> {
        let id = task.task_id.clone();
        let mut guard = Followed { session: self, call, id: &id, has_ended: false };
        let answer = tokio::select! {
            biased;
            answer = self.follow_task(clock, task, call, job) => answer,
            () = job.canceled() => Err(self.cancel_task(clock, &id, call).await),
        };
        guard.has_ended = true;
        answer
    }

    async fn follow_task(
        self: &Arc<Self>,
        clock: &Clock,
        mut task: ServerTask,
        call: &Call,
        job: &RunningJob,
    ) -> Result<Message, Outcome> {
        let failed = |reason: String| Outcome::Failed(format!("the server runs the call as a task, but {reason}"));
        let id = task.task_id.clone();
        loop {
            if let Some(message) = task.status_message.clone().filter(|_| !task.has_ended()) {
                // The number is that of the last progress, as a task has none.
                let progress = job.progress().map_or(0.0, |last| last.progress);
                job.report(Progress { progress, total: None, message: Some(message), at: Instant::now() });
            }
            if !call.modern && (task.has_ended() || task.status == "input_required") {
                // In this revision the server asks, and answers, while this request waits.
                return self.result_of_task(clock, &id, call, job).await.map_err(failed);
            }
            if task.has_ended() {
                return ended(&task).map_err(failed);
            }
            if !task.input_requests.is_empty() {
                let requests = std::mem::take(&mut task.input_requests).into_iter();
                let questions =
                    requests.map(|(key, request)| request.question(key)).collect::<Result<Vec<Question>, _>>();
                let given = self.input(clock, questions.map_err(failed)?, job).await.map_err(failed)?;
                let given = to_raw_value(&given).ok().map(|given| ("inputResponses", given));
                self.ask_task(call, method::TASKS_UPDATE, &id, given).await.map_err(failed)?;
            }
            clock.sleep(task.interval()).await;
            task = self.state_of_task(call, &id).await.map_err(failed)?;
        }
    }

    /// Asks for the state of a task.
    async fn state_of_task(self: &Arc<Self>, call: &Call, id: &str) -> Result<ServerTask, String> {
        let answer = self.ask_task(call, method::TASKS_GET, id, None).await?;
        let result = answer.result().unwrap_or_default();
        serde_json::from_slice(&result).map_err(|error| format!("`tasks/get` answered no task: {error}"))
    }

    /// Waits for the result of a task, and gives the server the input that it asks for meanwhile.
    async fn result_of_task(
        self: &Arc<Self>,
        clock: &Clock,
        id: &str,
        call: &Call,
        job: &RunningJob,
    ) -> Result<Message, String> {
        let give = async {
            loop {
                clock.sleep(POLL_INTERVAL_MIN).await;
                let send = self.send();
                self.responses_of(job)
                    .into_iter()
                    .for_each(|response| send.iter().for_each(|send| send(response.clone())));
            }
        };
        tokio::select! {
            answer = self.ask_task(call, method::TASKS_RESULT, id, None) => answer,
            () = give => Err("it has no result".to_owned()),
        }
    }

    /// Cancels a task, and waits for its end to say whether the server went on.
    async fn cancel_task(self: &Arc<Self>, clock: &Clock, id: &str, call: &Call) -> Outcome {
        let canceled = async {
            // One that has just ended cannot be canceled.
            drop(self.ask_task(call, method::TASKS_CANCEL, id, None).await);
            loop {
                let task = self.state_of_task(call, id).await?;
                if task.has_ended() {
                    return Ok(task);
                }
                clock.sleep(task.interval()).await;
            }
        };
        match clock.until(Some(Instant::now() + CANCELED_MAX), canceled).await {
            Some(Ok(task)) if task.status == "completed" => Outcome::Done(Bytes::new()),
            Some(Ok(task)) => Outcome::Failed(format!("the task at the server is {}{}", task.status, task.said())),
            Some(Err(reason)) => Outcome::Unanswered(reason),
            None => Outcome::Unanswered("the server has not ended its task".to_owned()),
        }
    }

    /// Sends a request about a task. Gives its answer.
    ///
    /// # Errors
    /// The error of the server, or why there is no answer.
    async fn ask_task(
        self: &Arc<Self>,
        call: &Call,
        method: &str,
        task: &str,
        more: Option<(&str, Box<RawValue>)>,
    ) -> Result<Message, String> {
        let id = own_id();
        let request = request(call, &id, method, task, more).ok_or("the call is too large to be followed")?;
        let send = self.send().ok_or("the server is not connected")?;
        let answer = self.ask_own(&send, id, request).await?;
        // The result of a task may be the error of its call.
        match answer.value(&["error", "message"]).filter(|_| method != method::TASKS_RESULT) {
            Some(error) => Err(format!("`{method}` failed: {}", String::from_utf8_lossy(&error))),
            None => Ok(answer),
        }
    }
}

/// The answer to the call of a task that has ended, as from revision 2026-07-28 on.
fn ended(task: &ServerTask) -> Result<Message, String> {
    let id = Id::own("ended");
    match (task.status.as_str(), &task.result, &task.error) {
        ("completed", Some(result), _) => Ok(Message::read(mcp::response(&id, result.get()))),
        ("failed", _, Some(error)) => {
            Ok(Message::read(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into()))
        }
        (status, ..) => Err(format!("it is {status} without a result{}", task.said())),
    }
}

/// A request about a task, with the metadata of its call; `None` if that was not kept.
fn request(call: &Call, id: &Id, method: &str, task: &str, more: Option<(&str, Box<RawValue>)>) -> Option<Bytes> {
    let task = to_raw_value(task).ok()?;
    own_request(call, id, method, more.into_iter().chain([("taskId", task)]))
}

/// A request of the gateway itself on behalf of a call, with the metadata of the call; `None` if that was not kept.
pub(super) fn own_request<'a>(
    call: &Call,
    id: &Id,
    method: &str,
    params: impl IntoIterator<Item = (&'a str, Box<RawValue>)>,
) -> Option<Bytes> {
    let mut params: BTreeMap<&str, Box<RawValue>> = params.into_iter().collect();
    if call.modern {
        let call = Message::read(call.detachment.as_ref()?.message.clone()?);
        let mut meta: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(&call.value(&["params", "_meta"])?).ok()?;
        meta.remove("progressToken");
        params.insert("_meta", to_raw_value(&meta).ok()?);
    }
    Some(mcp::request(id, method, &serde_json::to_string(&params).ok()?))
}

/// The call that asks the server for a task, in the way of its revision.
pub(in crate::session) fn asking(call: &Message, modern: bool) -> Option<Message> {
    let mut params: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&call.value(&["params"])?).ok()?;
    if modern {
        let mut metadata: BTreeMap<String, Box<RawValue>> = serde_json::from_str(params.get("_meta")?.get()).ok()?;
        let declared = metadata.get(meta::CLIENT_CAPABILITIES).map_or("{}", |declared| declared.get());
        let mut declared: Value = serde_json::from_str(declared).ok()?;
        let extensions = declared.as_object_mut()?.entry("extensions").or_insert_with(|| json!({}));
        extensions.as_object_mut()?.insert(TASKS_EXTENSION.to_owned(), json!({}));
        metadata.insert(meta::CLIENT_CAPABILITIES.to_owned(), to_raw_value(&declared).ok()?);
        params.insert("_meta".to_owned(), to_raw_value(&metadata).ok()?);
    } else {
        params.insert("task".to_owned(), RawValue::from_string("{}".to_owned()).ok()?);
    }
    Some(Message::read(call.with_bytes(&["params"], &serde_json::to_vec(&params).ok()?)))
}
