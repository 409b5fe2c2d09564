//! Stands in front of an MCP server: every tool result passes the policy, all else goes through byte for byte.
//!
//! A [`Session`] is one client's view: it knows which answer belongs to which request and says what becomes of each
//! message. The faces, such as [`stdio`], move messages between clients and servers and know no more of them than that.
//!
//! # What is filtered
//!
//! What answers a `tools/call` is filtered or refused, and so is whatever a lenient client could take for such an answer:
//!
//! | message of the server | what becomes of it |
//! |---|---|
//! | result of `tools/call`, in any revision | filtered; what is not of the protocol in it is shown to the policy too: unknown members of the result, of a content block and of the message, a `toolResult`, a result that is no object |
//! | result of a task: in `tasks/result`, `tasks/get` and `notifications/tasks` | filtered |
//! | result that answers nothing that was asked, as far as is known | filtered as the result of an unknown tool |
//! | any other result with `content` or `structuredContent` in it | filtered as the result of an unknown tool |
//! | `input_required`, and the task that a call became | goes on as it is, if it has only the members that the protocol gives it |
//! | a message that readers disagree about (see [`Fault`](lro_host::mcp::Fault)), or a result with two members of one name | refused: an error that says why for each request that waits for it |
//! | a batch | each message as if it came alone; one of more than [`BATCH_MESSAGES_MAX`](lro_host::mcp::BATCH_MESSAGES_MAX) messages, or with a batch in it, is refused |
//! | the text of a failed HTTP request to call a tool | filtered as the text of a tool's error |
//!
//! Ids are compared by value, so `1.0` answers `1`, and `"1"` does when nothing else is waiting under that name. Byte order
//! marks are taken off. Of a body over HTTP the content type only says whether it is an event stream; gzip is undone, whether
//! or not it was asked for, within the limit of a message. Other encodings and charsets, and UTF-16, are refused.
//!
//! Not filtered: results of other requests, such as `resources/read`, `prompts/get` and lists; notifications other than those
//! about tasks; requests of the server, such as `sampling/createMessage`; JSON-RPC errors; the members that the protocol gives
//! a question or a task, such as `statusMessage`. Results for a tool whose `mode` is `never` are shown to the policy all the
//! same. With `enabled = false` nothing is filtered or refused, and `audit` changes nothing.

mod faces;
mod headers;
mod listener;
mod metrics;
mod operations;
mod session;
pub mod settings;
mod tenants;
mod upstream;

pub use faces::{http, stdio};
pub use metrics::{LABELS_MAX, Metrics, Snapshot, Traffic, Verdicts};
pub use operations::admin::{Change, PolicyStatus, TrialStatus};
pub use operations::upkeep::Upkeep;
pub use operations::{Operations, OperationsError, OperatorTokens, status};
pub use session::own::{OwnCall, Produced};
pub use session::{Filtering, FromClient, FromServer, QUERY_BYTES_MAX, Refused, Session, Who};
pub use tenants::Tenants;
pub use tenants::rules::Rules;
pub use tenants::waiting::CALLS_MAX;
pub use upstream::{Endpoint, EndpointError, Launch, Upstream};
