//! Method names of the protocol.

/// Begins a session, in revisions before 2026-07-28.
pub const INITIALIZE: &str = "initialize";
/// Asks a server for its capabilities, from revision 2026-07-28 on.
pub const DISCOVER: &str = "server/discover";
/// Asks whether the other side lives, in revisions before 2026-07-28.
pub const PING: &str = "ping";
/// Sets the least severe log messages that the client wants, in revisions before 2026-07-28.
pub const SET_LEVEL: &str = "logging/setLevel";
/// Lists tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Lists resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Asks for notifications about a resource, in revisions before 2026-07-28.
pub const SUBSCRIBE: &str = "resources/subscribe";
/// Ends such notifications.
pub const UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Lists templates of resources.
pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
/// Lists prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// Gets a prompt.
pub const PROMPTS_GET: &str = "prompts/get";
/// Asks the client for an answer of its model.
pub const SAMPLING: &str = "sampling/createMessage";
/// Asks the client for input of its user.
pub const ELICITATION: &str = "elicitation/create";
/// Asks the client for the roots of its files.
pub const ROOTS_LIST: &str = "roots/list";
/// Asks for an address to download a file from: proposal SEP-2631.
pub const AUTHORIZE_DOWNLOAD: &str = "files/authorizeDownload";
/// Lists interceptors: proposal SEP-2624.
pub const INTERCEPTORS_LIST: &str = "interceptors/list";
/// Invokes an interceptor: proposal SEP-2624.
pub const INTERCEPTOR_INVOKE: &str = "interceptor/invoke";
/// Gets the state of a task, and from revision 2026-07-28 on its result.
pub const TASKS_GET: &str = "tasks/get";
/// Waits for the result of a task, in revision 2025-11-25.
pub const TASKS_RESULT: &str = "tasks/result";
/// Lists tasks, in revision 2025-11-25.
pub const TASKS_LIST: &str = "tasks/list";
/// Cancels a task.
pub const TASKS_CANCEL: &str = "tasks/cancel";
/// Answers what a task asks for, from revision 2026-07-28 on.
pub const TASKS_UPDATE: &str = "tasks/update";
/// Opens a stream of notifications that the server does not end, from revision 2026-07-28 on.
pub const LISTEN: &str = "subscriptions/listen";
/// Notification: the client is ready.
pub const INITIALIZED: &str = "notifications/initialized";
/// Notification: a request is cancelled.
pub const CANCELLED: &str = "notifications/cancelled";
/// A part of the result of `tools/call` before its end, as SEP-2998 proposes it.
pub const PARTIAL_RESULT: &str = "notifications/tools/partial_result";
/// Notification: a resource has changed.
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// Notification: progress of a request.
pub const PROGRESS: &str = "notifications/progress";
/// Notification: which notifications a stream that [`LISTEN`] opens will have.
pub const SUBSCRIPTION_ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// Notification: the state of a task has changed, in revision 2025-11-25.
pub const TASK_STATUS_2025: &str = "notifications/tasks/status";
/// Notification: the state of a task has changed, from revision 2026-07-28 on.
pub const TASK_STATUS: &str = "notifications/tasks";

/// Prefix of the methods of tasks.
pub(crate) const TASKS: &str = "tasks/";
