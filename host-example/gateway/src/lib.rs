//! A gateway in front of an MCP server. Every tool result passes through the policy; all other messages are forwarded
//! byte for byte.
//!
//! A [`Session`] is one client's view of a server: it matches responses to requests and decides what happens to each
//! message. The faces, such as [`stdio`], only move messages between clients and servers.
//!
//! # What is filtered
//!
//! Responses to `tools/call` are filtered or refused, and so is anything that a lenient client could take for such a
//! response:
//!
//! | message from the server | action |
//! |---|---|
//! | result of `tools/call`, in any revision | filtered; the policy also sees what the protocol does not define: unknown members of the result, of a content block and of the message, a `toolResult`, a result that is not an object |
//! | result of a task, in `tasks/result`, `tasks/get` and `notifications/tasks` | filtered |
//! | result that matches no known request | filtered as the result of an unknown tool |
//! | any other result that contains `content` or `structuredContent` | filtered as the result of an unknown tool |
//! | `input_required`, and the task that a call created | forwarded unchanged if it has only the members that the protocol defines |
//! | a message that parsers disagree about (see [`Fault`](lro_host::mcp::Fault)), or a result with duplicate members | refused: each pending request it could answer gets an error that says why |
//! | a batch | each message as if it were sent alone; a batch of more than [`BATCH_MESSAGES_MAX`](lro_host::mcp::BATCH_MESSAGES_MAX) messages, or one that contains a batch, is refused |
//! | the body of a failed HTTP request that calls a tool | filtered as the text of a tool error |
//!
//! Ids are compared by value, so `1.0` answers `1`; `"1"` does too when no other request is pending under that id. Byte
//! order marks are removed. Over HTTP, the content type only decides whether a body is an event stream. gzip is decoded
//! whether or not it was requested, up to the limit of a message; other content encodings and charsets, and UTF-16, are
//! refused.
//!
//! Not filtered: results of other requests, such as `resources/read`, `prompts/get` and lists; notifications that are
//! not about tasks; requests from the server, such as `sampling/createMessage`; JSON-RPC errors; and the members that
//! the protocol defines for an input request or a task, such as `statusMessage`. Results of a tool whose `mode` is
//! `never` are still shown to the policy. With `enabled = false` nothing is filtered or refused, and `audit` changes
//! nothing.

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
pub use session::own::{OwnCall, OwnOutcome};
pub use session::{Filtering, FromClient, FromServer, QUERY_BYTES_MAX, Refused, Session, SessionOwner};
pub use tenants::Tenants;
pub use tenants::rules::Rules;
pub use tenants::waiting::CALLS_MAX;
pub use upstream::{Endpoint, EndpointError, Launch, Upstream};
