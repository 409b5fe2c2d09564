//! Names of methods.

/// Begins a session, in revisions before 2026-07-28.
pub const INITIALIZE: &str = "initialize";
/// Asks a server what it is, from revision 2026-07-28 on.
pub const DISCOVER: &str = "server/discover";
/// Lists tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Lists resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Lists templates of resources.
pub const RESOURCE_TEMPLATES_LIST: &str = "resources/templates/list";
/// Gets a prompt.
pub const PROMPTS_GET: &str = "prompts/get";
/// Asks for the state of a task, and for its result from revision 2026-07-28 on.
pub const TASKS_GET: &str = "tasks/get";
/// Waits for the result of a task, in revision 2025-11-25.
pub const TASKS_RESULT: &str = "tasks/result";
/// Asks for a stream that has no end of its own, from revision 2026-07-28 on.
pub const LISTEN: &str = "subscriptions/listen";
/// The client is ready.
pub const INITIALIZED: &str = "notifications/initialized";
/// A request is given up.
pub const CANCELLED: &str = "notifications/cancelled";
/// Progress of a request.
pub const PROGRESS: &str = "notifications/progress";
/// The state of a task has changed.
pub const TASK_STATUS: &str = "notifications/tasks";

/// What the methods about one task begin with.
pub(crate) const TASKS: &str = "tasks/";
