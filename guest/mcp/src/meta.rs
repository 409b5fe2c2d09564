//! Keys of the protocol in the metadata `_meta`.

/// Beginning of the keys of the protocol.
pub const PREFIX: &str = "io.modelcontextprotocol/";
/// The revision; in every request from revision 2026-07-28 on.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Name and version of the client; in every request from revision 2026-07-28 on.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// What the client can do; in every request from revision 2026-07-28 on.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The least severe log messages that the client wants; in requests from revision 2026-07-28 on.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// Name and version of the server, in its answer to `server/discover`.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Id of the request `subscriptions/listen` that a notification or response belongs to; from revision 2026-07-28 on.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The task that a result or a request for input belongs to, in revision 2025-11-25.
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
