//! The environment variables, and the keys that they and the flags of the command set.

/// Prefix of all variables.
pub const VARIABLE_PREFIX: &str = "MCP_LRO_";
/// The variable that names the TOML file; the flag is `--config`. Without both, no file is read.
pub const CONFIG_VARIABLE: &str = "MCP_LRO_CONFIG";
/// The key of [`CONFIG_VARIABLE`].
pub const CONFIG_KEY: &str = "config";
/// The table of the gateway. Its flags belong to the subcommand `gateway` alone, and omit the name of the table.
pub const GATEWAY_TABLE: &str = "gateway";

/// How to parse the text of a variable or a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {
    /// A text, taken literally.
    Text,
    /// One of `true`, `false`, `1`, `0`, `yes`, `no`, `on`, `off`, in any case.
    Boolean,
    /// A whole number in decimal digits.
    Integer,
    /// Texts separated by commas; the empty text is the empty list.
    List,
}

/// A key that a variable and a flag can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The variable: [`VARIABLE_PREFIX`] and the key in upper snake case.
    pub name: &'static str,
    /// The key in the TOML file, with a `.` after the name of a table.
    pub key: &'static str,
    /// How to parse the text.
    pub form: ValueForm,
    /// One line of help.
    pub help: &'static str,
}

impl Variable {
    /// Returns the flag without the `--`: the key without [`GATEWAY_TABLE`], with `-` for each `.`.
    pub fn flag(&self) -> String {
        flag_name(self.key)
    }

    /// Whether the flag belongs to the subcommand `gateway` alone.
    pub fn is_gateway(&self) -> bool {
        gateway_key(self.key).is_some()
    }
}

/// The flag of a key, without the `--`.
pub(super) fn flag_name(key: &str) -> String {
    gateway_key(key).unwrap_or(key).replace('.', "-")
}

/// A key of the gateway within its table.
fn gateway_key(key: &str) -> Option<&str> {
    key.strip_prefix(GATEWAY_TABLE)?.strip_prefix('.')
}

const fn variable(name: &'static str, key: &'static str, form: ValueForm, help: &'static str) -> Variable {
    Variable { name, key, form, help }
}

/// Every variable, in the order of the documentation. Tables with an entry for each of several things, such as
/// `sections`, `tools` and `gateway.tokens`, have none.
#[rustfmt::skip]
pub const VARIABLES: &[Variable] = &[
    variable(CONFIG_VARIABLE, CONFIG_KEY, ValueForm::Text, "TOML file to read"),
    variable("MCP_LRO_ENABLED", "enabled", ValueForm::Boolean, "whether results are filtered; off, every result passes unchanged"),
    variable("MCP_LRO_DIR", "dir", ValueForm::Text, "root of the output directories"),
    variable("MCP_LRO_TTL_SECONDS", "ttl-seconds", ValueForm::Integer, "age in seconds at which an offload expires"),
    variable("MCP_LRO_FSYNC", "fsync", ValueForm::Boolean, "whether publishing an offload waits for the disk"),
    variable("MCP_LRO_FAILURE", "failure", ValueForm::Text, "what the client gets when a policy fails: open, closed, truncate"),
    variable("MCP_LRO_QUOTA_FILE", "quota-file", ValueForm::Integer, "maximum bytes of one file"),
    variable("MCP_LRO_QUOTA_TENANT", "quota-tenant", ValueForm::Integer, "maximum disk usage of one tenant in bytes"),
    variable("MCP_LRO_QUOTA_TOTAL", "quota-total", ValueForm::Integer, "maximum disk usage of all offloads in bytes"),
    variable("MCP_LRO_POLICY", "policy", ValueForm::Text, "path of a policy component"),
    variable("MCP_LRO_POLICY_SHA256", "policy-sha256", ValueForm::Text, "SHA-256 the policy component must have"),
    variable("MCP_LRO_MODE", "mode", ValueForm::Text, "when the policy acts on a result: by-size, always, never"),
    variable("MCP_LRO_THRESHOLD", "threshold", ValueForm::Integer, "size above which the policy acts on a result"),
    variable("MCP_LRO_UNIT", "unit", ValueForm::Text, "unit of the threshold: bytes, characters, tokens"),
    variable("MCP_LRO_PRESET", "preset", ValueForm::Text, "threshold and unit by name: 1600-tokens, 25k"),
    variable("MCP_LRO_ACTION", "action", ValueForm::Text, "what the policy does with a large result: offload, truncate, reject"),
    variable("MCP_LRO_INLINE_KEYS", "inline-keys", ValueForm::List, "keys repeated in the descriptor"),
    variable("MCP_LRO_INLINE_LIMIT", "inline-limit", ValueForm::Integer, "maximum bytes of any other value kept inline"),
    variable("MCP_LRO_INFER", "infer", ValueForm::Boolean, "whether schemas and summaries are inferred"),
    variable("MCP_LRO_HEADER_TYPE", "header-type", ValueForm::Text, "`type` in the header line of a JSONL file"),
    variable("MCP_LRO_SESSION_KEY", "session-key", ValueForm::Text, "key of the result that replaces the session in file names"),
    variable("MCP_LRO_LEVEL", "level", ValueForm::Text, "detail of a descriptor: pointer, standard, full"),
    variable("MCP_LRO_DIALECT", "dialect", ValueForm::Text, "field names of a descriptor: sections, specification"),
    variable("MCP_LRO_DESCRIPTOR_LIMIT", "descriptor-limit", ValueForm::Integer, "maximum characters of a descriptor"),
    variable("MCP_LRO_TRUNCATE_LIMIT", "truncate-limit", ValueForm::Integer, "size of a truncated result"),
    variable("MCP_LRO_TRUNCATE_SUFFIX", "truncate-suffix", ValueForm::Text, "text appended to a truncated result"),
    variable("MCP_LRO_ADVICE", "advice", ValueForm::Text, "advice of a rejected result"),
    variable("MCP_LRO_CUSTOM", "custom", ValueForm::Text, "settings passed to the policy"),
    variable("MCP_LRO_SCHEMA", "schema", ValueForm::Text, "what to do with output schemas of tools: rewrite, strip, shape, block"),
    variable("MCP_LRO_POLICY_KEYS", "policy-keys", ValueForm::List, "minisign public keys, one of which must have signed the policy"),
    variable("MCP_LRO_POLICY_DIR", "policy-dir", ValueForm::Text, "directory of policies by tenant, TENANT.wasm"),
    variable("MCP_LRO_POLICY_KEEP", "policy-keep", ValueForm::Text, "private directory for the last good policies"),
    variable("MCP_LRO_LOADING_COMPONENT_BYTES", "loading.component-bytes", ValueForm::Integer, "maximum bytes of a policy component"),
    variable("MCP_LRO_LOADING_COMPILE_MS", "loading.compile-ms", ValueForm::Integer, "maximum milliseconds to compile a policy"),
    variable("MCP_LRO_LOADING_COMPILE_MEMORY_BYTES", "loading.compile-memory-bytes", ValueForm::Integer, "maximum bytes of memory to compile a policy"),
    variable("MCP_LRO_ADMISSION_CALLS", "admission.calls", ValueForm::Integer, "concurrent calls of one tenant"),
    variable("MCP_LRO_ADMISSION_WAITING", "admission.waiting", ValueForm::Integer, "calls of one tenant that may wait"),
    variable("MCP_LRO_ADMISSION_WAIT_MS", "admission.wait-ms", ValueForm::Integer, "milliseconds that a call may wait for its turn"),
    variable("MCP_LRO_ADMISSION_QUESTIONS", "admission.questions", ValueForm::Integer, "questions of one tenant that may wait"),
    variable("MCP_LRO_BREAKER_FAILURES", "breaker.failures", ValueForm::Integer, "consecutive failures that park a policy"),
    variable("MCP_LRO_BREAKER_PAUSE_MS", "breaker.pause-ms", ValueForm::Integer, "milliseconds until a parked policy is tried again"),
    variable("MCP_LRO_BREAKER_PAUSE_MAX_MS", "breaker.pause-max-ms", ValueForm::Integer, "maximum milliseconds until a parked policy is tried again"),
    variable("MCP_LRO_TRIAL_CALLS", "trial.calls", ValueForm::Integer, "results on which to compare a new policy with the current one"),
    variable("MCP_LRO_TRIAL_SECONDS", "trial.seconds", ValueForm::Integer, "seconds for which to compare a new policy with the current one"),
    variable("MCP_LRO_TRIAL_PROMOTE", "trial.promote", ValueForm::Boolean, "whether a new policy that decides alike replaces the current one"),
    variable("MCP_LRO_LIMITS_WALL_TIME_MS", "limits.wall-time-ms", ValueForm::Integer, "wall time of one call of a policy, in milliseconds"),
    variable("MCP_LRO_LIMITS_WAIT_MS", "limits.wait-ms", ValueForm::Integer, "milliseconds that a call may wait for a slot of the process"),
    variable("MCP_LRO_LIMITS_MEMORY_BYTES", "limits.memory-bytes", ValueForm::Integer, "memory of a policy, in bytes"),
    variable("MCP_LRO_LIMITS_TABLE_ELEMENTS", "limits.table-elements", ValueForm::Integer, "table elements of a policy"),
    variable("MCP_LRO_LIMITS_INSTANCES", "limits.instances", ValueForm::Integer, "core instances of a policy"),
    variable("MCP_LRO_LIMITS_WRITTEN_BYTES", "limits.written-bytes", ValueForm::Integer, "bytes written in one call"),
    variable("MCP_LRO_LIMITS_FILES", "limits.files", ValueForm::Integer, "files created in one call"),
    variable("MCP_LRO_LIMITS_NAME_BYTES", "limits.name-bytes", ValueForm::Integer, "bytes of the name of a file"),
    variable("MCP_LRO_LIMITS_OPEN_FILES", "limits.open-files", ValueForm::Integer, "files open at the same time in one call"),
    variable("MCP_LRO_LIMITS_CROSSING_BYTES", "limits.crossing-bytes", ValueForm::Integer, "bytes passed between host and policy in one step"),
    variable("MCP_LRO_LIMITS_LOG_BYTES", "limits.log-bytes", ValueForm::Integer, "bytes of a policy's text in the log"),
    variable("MCP_LRO_LIMITS_FUEL", "limits.fuel", ValueForm::Integer, "instructions of one call; not counted unless set"),
    variable("MCP_LRO_QUERY_WALL_TIME_MS", "query.wall-time-ms", ValueForm::Integer, "wall time of one query, in milliseconds"),
    variable("MCP_LRO_QUERY_MEMORY_BYTES", "query.memory-bytes", ValueForm::Integer, "memory of one query, in bytes"),
    variable("MCP_LRO_QUERY_ANSWER_BYTES", "query.answer-bytes", ValueForm::Integer, "bytes of an answer"),
    variable("MCP_LRO_QUERY_ANSWER_TOKENS", "query.answer-tokens", ValueForm::Integer, "estimated tokens of an answer"),
    variable("MCP_LRO_GATEWAY_LISTEN", "gateway.listen", ValueForm::Text, "address and port to serve HTTP on; without it, stdio"),
    variable("MCP_LRO_GATEWAY_UPSTREAM", "gateway.upstream", ValueForm::Text, "URL of the HTTP server behind the gateway"),
    variable("MCP_LRO_GATEWAY_ENV", "gateway.env", ValueForm::List, "variables to pass to the server besides the usual ones; `*` matches any text"),
    variable("MCP_LRO_GATEWAY_ENV_ALL", "gateway.env-all", ValueForm::Boolean, "whether the server gets all variables but the gateway's own; default on stdio"),
    variable("MCP_LRO_GATEWAY_ISOLATE", "gateway.isolate", ValueForm::Boolean, "whether to hide the gateway's directories from the server"),
    variable("MCP_LRO_GATEWAY_USER", "gateway.user", ValueForm::Text, "user that the server runs as: a name, or UID:GID"),
    variable("MCP_LRO_GATEWAY_SERVER_LOG_BYTES", "gateway.server-log-bytes", ValueForm::Integer, "maximum bytes per minute of one server's stderr in the log"),
    variable("MCP_LRO_GATEWAY_PATH", "gateway.path", ValueForm::Text, "path of the gateway over HTTP"),
    variable("MCP_LRO_GATEWAY_ALLOWED_HOSTS", "gateway.allowed-hosts", ValueForm::List, "hosts to accept requests for besides the local ones"),
    variable("MCP_LRO_GATEWAY_ALLOWED_ORIGINS", "gateway.allowed-origins", ValueForm::List, "origins to accept requests from besides local ones"),
    variable("MCP_LRO_GATEWAY_TENANT", "gateway.tenant", ValueForm::Text, "tenant of a client without a token"),
    variable("MCP_LRO_GATEWAY_METRICS_LISTEN", "gateway.metrics-listen", ValueForm::Text, "address and port of /metrics and /healthz"),
    variable("MCP_LRO_GATEWAY_MESSAGE_BYTES", "gateway.message-bytes", ValueForm::Integer, "maximum bytes of one message"),
    variable("MCP_LRO_GATEWAY_MESSAGE_MEMORY", "gateway.message-memory", ValueForm::Integer, "bytes beyond which a message is kept in a file"),
    variable("MCP_LRO_GATEWAY_MESSAGE_DISK", "gateway.message-disk", ValueForm::Integer, "maximum bytes of one tenant's messages in files"),
    variable("MCP_LRO_GATEWAY_CALL_TIMEOUT_MS", "gateway.call-timeout-ms", ValueForm::Integer, "milliseconds without a response or progress after which a call fails"),
    variable("MCP_LRO_GATEWAY_START_TIMEOUT_MS", "gateway.start-timeout-ms", ValueForm::Integer, "maximum milliseconds for the handshake of a restarted server"),
    variable("MCP_LRO_GATEWAY_HEADER_BYTES", "gateway.header-bytes", ValueForm::Integer, "maximum bytes of the headers of one request"),
    variable("MCP_LRO_GATEWAY_FORWARD_HEADERS", "gateway.forward-headers", ValueForm::List, "further headers of clients to forward to the server"),
    variable("MCP_LRO_GATEWAY_CONNECTIONS", "gateway.connections", ValueForm::Integer, "maximum open HTTP connections"),
    variable("MCP_LRO_GATEWAY_METRICS_CONNECTIONS", "gateway.metrics-connections", ValueForm::Integer, "maximum open connections of /metrics and /healthz"),
    variable("MCP_LRO_GATEWAY_REQUESTS", "gateway.requests", ValueForm::Integer, "maximum concurrent HTTP requests"),
    variable("MCP_LRO_GATEWAY_STREAMS", "gateway.streams", ValueForm::Integer, "maximum concurrent HTTP streams without an end"),
    variable("MCP_LRO_GATEWAY_SESSIONS", "gateway.sessions", ValueForm::Integer, "maximum concurrent legacy HTTP sessions"),
    variable("MCP_LRO_GATEWAY_MEMORY_BYTES", "gateway.memory-bytes", ValueForm::Integer, "maximum bytes of messages in memory"),
    variable("MCP_LRO_GATEWAY_HEADER_TIMEOUT_MS", "gateway.header-timeout-ms", ValueForm::Integer, "maximum milliseconds to receive the head of a request"),
    variable("MCP_LRO_GATEWAY_BODY_TIMEOUT_MS", "gateway.body-timeout-ms", ValueForm::Integer, "milliseconds in which a client must send 1 KiB of a body"),
    variable("MCP_LRO_GATEWAY_WRITE_TIMEOUT_MS", "gateway.write-timeout-ms", ValueForm::Integer, "milliseconds in which a client must read 1 KiB of a response"),
    variable("MCP_LRO_GATEWAY_SESSION_IDLE_SECONDS", "gateway.session-idle-seconds", ValueForm::Integer, "seconds without a request after which a session ends"),
    variable("MCP_LRO_GATEWAY_SHUTDOWN_MS", "gateway.shutdown-ms", ValueForm::Integer, "milliseconds to wait for calls in flight at shutdown"),
    variable("MCP_LRO_GATEWAY_AUDIT", "gateway.audit", ValueForm::Boolean, "record decisions, and change nothing"),
    variable("MCP_LRO_GATEWAY_SESSION_BUDGET", "gateway.session-budget", ValueForm::Integer, "estimated tokens of results that a session gets inline"),
    variable("MCP_LRO_GATEWAY_SESSION_FLOOR", "gateway.session-floor", ValueForm::Integer, "estimated tokens of a result that passes beyond the budget"),
];
