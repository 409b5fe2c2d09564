//! Tools that work in the background, as tasks that the client polls.

use std::time::Duration;

use rmcp::model::{CallToolResult, ClientCapabilities, CreateTaskResult, ErrorData};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::call::{Call, Outcome, accepted, ask, failure, form, text, typed};
use crate::rounds::{NAME, greeting, name, name_form};

/// Poll interval for clients, in milliseconds.
const POLL_INTERVAL: u64 = 100;

/// Longest duration of the slow tool.
const LONGEST: f64 = 3600.0;

/// Greets at once, never as a task.
pub(crate) fn greet(call: &Call) -> Outcome {
    Ok(greeting(call.text("name")).into())
}

/// Takes a given number of seconds; the client waits for the result if it does not support tasks or the duration is 0.
pub(crate) async fn compute(call: &Call, tasks: &TaskManager) -> Outcome {
    let time = Duration::from_secs_f64(call.number("seconds").clamp(0.0, LONGEST));
    let label = call.text("label").to_owned();
    if time.is_zero() || !call.capabilities().supports_tasks() {
        sleep(time).await;
        return Ok(computed(&label).into());
    }
    start(call, tasks, async move |context| {
        tokio::select! {
            () = context.cancelled() => Err(TaskExit::Cancelled),
            () = sleep(time) => Ok(computed(&label)),
        }
    })
}

/// Works for a second, then reports that it failed.
pub(crate) fn fail(call: &Call, tasks: &TaskManager) -> Outcome {
    start(call, tasks, async |_| {
        sleep(Duration::from_secs(1)).await;
        Ok(failure("The job failed, as it always does"))
    })
}

/// Fails without a result.
pub(crate) fn break_down(call: &Call, tasks: &TaskManager) -> Outcome {
    start(call, tasks, async |_| Err(ErrorData::internal_error("The job broke, as it always does", None).into()))
}

/// Asks the user whether a file may be deleted, and deletes nothing.
pub(crate) fn confirm(call: &Call, tasks: &TaskManager) -> Outcome {
    let file = call.text("filename").to_owned();
    start(call, tasks, async move |context| {
        let question = form(&format!("Delete {file}?"), "confirm", "boolean");
        let answer = context.request_input("confirm", typed(question)?).await?;
        let outcome = if accepted(&answer, "confirm") == Some(&json!(true)) { "would be deleted" } else { "is kept" };
        Ok(text(format!("{file} {outcome}")))
    })
}

/// Asks the user two questions at the same time.
pub(crate) fn ask_twice(call: &Call, tasks: &TaskManager) -> Outcome {
    start(call, tasks, async |context| {
        let first = context.request_input("first", typed(name_form())?);
        let second = context.request_input("second", typed(form("Are you sure?", "confirm", "boolean"))?);
        let (first, second) = tokio::try_join!(first, second)?;
        let sure = accepted(&second, "confirm") == Some(&json!(true));
        let name = accepted(&first, "name").and_then(Value::as_str).unwrap_or("Nobody");
        Ok(text(format!("{name} is {}sure", if sure { "" } else { "not " })))
    })
}

/// Asks for a name in a round before the task begins, and greets in the task.
pub(crate) fn greet_later(call: &Call, tasks: &TaskManager) -> Outcome {
    require_tasks(call)?;
    let Some(name) = name(call).map(str::to_owned) else {
        return Ok(ask(json!({NAME: name_form()}), None)?.into());
    };
    start(call, tasks, async move |_| Ok(greeting(&name)))
}

/// Starts a task for a client that supports tasks.
fn start<Work, Running>(call: &Call, tasks: &TaskManager, work: Work) -> Outcome
where
    Work: FnOnce(TaskContext) -> Running,
    Running: Future<Output = Result<CallToolResult, TaskExit>> + Send + 'static,
{
    require_tasks(call)?;
    let options = TaskOptions::new().with_poll_interval_ms(POLL_INTERVAL);
    let task = tasks.spawn(options, |context| Box::pin(work(context)));
    Ok(CreateTaskResult::new(task).into())
}

fn require_tasks(call: &Call) -> Result<(), ErrorData> {
    if call.capabilities().supports_tasks() {
        return Ok(());
    }
    let needed = ClientCapabilities::builder().enable_tasks().build();
    Err(ErrorData::missing_required_client_capability(needed))
}

fn computed(label: &str) -> CallToolResult {
    text(format!("Computed {label}"))
}
