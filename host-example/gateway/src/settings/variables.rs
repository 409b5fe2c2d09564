//! The variables of the environment, and the keys they and the flags of the command set.

/// What all variables begin with.
pub const VARIABLE_PREFIX: &str = "MCP_LRO_";
/// The variable that names the TOML file; the flag is `--config`. Without either, no file is read.
pub const CONFIG_VARIABLE: &str = "MCP_LRO_CONFIG";
/// The key of [`CONFIG_VARIABLE`].
pub const CONFIG_KEY: &str = "config";
/// The table of the gateway. Its flags belong to the subcommand `gateway` alone, and leave out the name of the table.
pub const GATEWAY_TABLE: &str = "gateway";

/// How the text of a variable or a flag is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueForm {
    /// As it is.
    Text,
    /// One of `true`, `false`, `1`, `0`, `yes`, `no`, `on`, `off`, in any case.
    Boolean,
    /// A whole number in decimal digits.
    Integer,
    /// Texts with commas between them; the empty text is the empty list.
    List,
}

/// A key that a variable and a flag can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The variable: [`VARIABLE_PREFIX`] and the key in upper snake case.
    pub name: &'static str,
    /// The key in the TOML file, with a `.` after the name of a table.
    pub key: &'static str,
    /// How the text is read.
    pub form: ValueForm,
    /// One line of help.
    pub help: &'static str,
}

impl Variable {
    /// The flag without the `--`: the key without [`GATEWAY_TABLE`], with `-` for each `.`.
    pub fn flag(&self) -> String {
        flag_name(self.key)
    }

    /// Whether its flag belongs to the subcommand `gateway` alone.
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

/// Every variable, in the order of the documentation. What is a table for each of several things, such as `sections`,
/// `tools` and `gateway.tokens`, has none.
#[rustfmt::skip]
pub const VARIABLES: &[Variable] = &[
    variable(CONFIG_VARIABLE, CONFIG_KEY, ValueForm::Text, "TOML file to read"),
    variable("MCP_LRO_ENABLED", "enabled", ValueForm::Boolean, "off: every result passes unchanged"),
    variable("MCP_LRO_DIR", "dir", ValueForm::Text, "root of the output directories"),
    variable("MCP_LRO_TTL_SECONDS", "ttl-seconds", ValueForm::Integer, "age in seconds at which an offload expires"),
    variable("MCP_LRO_FSYNC", "fsync", ValueForm::Boolean, "whether publishing an offload waits for the disk"),
    variable("MCP_LRO_FAILURE", "failure", ValueForm::Text, "answer when a policy fails: open, closed, truncate"),
    variable("MCP_LRO_QUOTA_FILE", "quota-file", ValueForm::Integer, "most bytes of one file"),
    variable("MCP_LRO_QUOTA_TENANT", "quota-tenant", ValueForm::Integer, "most bytes on the disk of all offloads of one tenant"),
    variable("MCP_LRO_QUOTA_TOTAL", "quota-total", ValueForm::Integer, "most bytes on the disk of all offloads"),
    variable("MCP_LRO_POLICY", "policy", ValueForm::Text, "path of a policy component"),
    variable("MCP_LRO_POLICY_SHA256", "policy-sha256", ValueForm::Text, "SHA-256 the policy component must have"),
    variable("MCP_LRO_MODE", "mode", ValueForm::Text, "when a result is acted upon: by-size, always, never"),
    variable("MCP_LRO_THRESHOLD", "threshold", ValueForm::Integer, "a larger result is acted upon"),
    variable("MCP_LRO_UNIT", "unit", ValueForm::Text, "unit of the threshold: bytes, characters, tokens"),
    variable("MCP_LRO_PRESET", "preset", ValueForm::Text, "threshold and unit by name: 1600-tokens, 25k"),
    variable("MCP_LRO_ACTION", "action", ValueForm::Text, "what is done: offload, truncate, reject"),
    variable("MCP_LRO_INLINE_KEYS", "inline-keys", ValueForm::List, "keys repeated in the descriptor"),
    variable("MCP_LRO_INLINE_LIMIT", "inline-limit", ValueForm::Integer, "most bytes of another value kept inline"),
    variable("MCP_LRO_INFER", "infer", ValueForm::Boolean, "whether schemas and summaries are inferred"),
    variable("MCP_LRO_HEADER_TYPE", "header-type", ValueForm::Text, "`type` in the header line of a JSONL file"),
    variable("MCP_LRO_SESSION_KEY", "session-key", ValueForm::Text, "key of the result that stands for the session"),
    variable("MCP_LRO_LEVEL", "level", ValueForm::Text, "how much a descriptor tells: pointer, standard, full"),
    variable("MCP_LRO_DIALECT", "dialect", ValueForm::Text, "field names of a descriptor: sections, specification"),
    variable("MCP_LRO_DESCRIPTOR_LIMIT", "descriptor-limit", ValueForm::Integer, "most characters of a descriptor"),
    variable("MCP_LRO_TRUNCATE_LIMIT", "truncate-limit", ValueForm::Integer, "size of a truncated result"),
    variable("MCP_LRO_TRUNCATE_SUFFIX", "truncate-suffix", ValueForm::Text, "text after the cut of a truncated result"),
    variable("MCP_LRO_ADVICE", "advice", ValueForm::Text, "advice of a rejected result"),
    variable("MCP_LRO_CUSTOM", "custom", ValueForm::Text, "settings of the policy alone"),
    variable("MCP_LRO_SCHEMA", "schema", ValueForm::Text, "output schema of a tool: rewrite, strip, shape, block"),
    variable("MCP_LRO_POLICY_KEYS", "policy-keys", ValueForm::List, "minisign public keys one of which signed the policy"),
    variable("MCP_LRO_POLICY_DIR", "policy-dir", ValueForm::Text, "directory of policies by tenant, TENANT.wasm"),
    variable("MCP_LRO_POLICY_KEEP", "policy-keep", ValueForm::Text, "private directory for the last good policies"),
    variable("MCP_LRO_LOADING_COMPONENT_BYTES", "loading.component-bytes", ValueForm::Integer, "bytes of a policy component"),
    variable("MCP_LRO_LOADING_COMPILE_MS", "loading.compile-ms", ValueForm::Integer, "milliseconds that compiling a policy takes"),
    variable("MCP_LRO_LOADING_COMPILE_MEMORY_BYTES", "loading.compile-memory-bytes", ValueForm::Integer, "bytes of memory that compiling a policy takes"),
    variable("MCP_LRO_ADMISSION_CALLS", "admission.calls", ValueForm::Integer, "calls of one tenant at a time"),
    variable("MCP_LRO_ADMISSION_WAITING", "admission.waiting", ValueForm::Integer, "calls of one tenant that may wait"),
    variable("MCP_LRO_ADMISSION_WAIT_MS", "admission.wait-ms", ValueForm::Integer, "milliseconds that a call waits for its turn"),
    variable("MCP_LRO_ADMISSION_QUESTIONS", "admission.questions", ValueForm::Integer, "questions of one tenant that may wait"),
    variable("MCP_LRO_BREAKER_FAILURES", "breaker.failures", ValueForm::Integer, "failures in a row that park a policy"),
    variable("MCP_LRO_BREAKER_PAUSE_MS", "breaker.pause-ms", ValueForm::Integer, "milliseconds until a parked policy is tried again"),
    variable("MCP_LRO_BREAKER_PAUSE_MAX_MS", "breaker.pause-max-ms", ValueForm::Integer, "most milliseconds until a parked policy is tried again"),
    variable("MCP_LRO_TRIAL_CALLS", "trial.calls", ValueForm::Integer, "results on which a new policy is compared with the old"),
    variable("MCP_LRO_TRIAL_SECONDS", "trial.seconds", ValueForm::Integer, "seconds for which a new policy is compared with the old"),
    variable("MCP_LRO_TRIAL_PROMOTE", "trial.promote", ValueForm::Boolean, "whether a new policy that decides alike takes over"),
    variable("MCP_LRO_LIMITS_WALL_TIME_MS", "limits.wall-time-ms", ValueForm::Integer, "wall time of one call of a policy"),
    variable("MCP_LRO_LIMITS_WAIT_MS", "limits.wait-ms", ValueForm::Integer, "milliseconds that a call waits for a place in the process"),
    variable("MCP_LRO_LIMITS_MEMORY_BYTES", "limits.memory-bytes", ValueForm::Integer, "memory of a policy"),
    variable("MCP_LRO_LIMITS_TABLE_ELEMENTS", "limits.table-elements", ValueForm::Integer, "table elements of a policy"),
    variable("MCP_LRO_LIMITS_INSTANCES", "limits.instances", ValueForm::Integer, "core instances of a policy"),
    variable("MCP_LRO_LIMITS_WRITTEN_BYTES", "limits.written-bytes", ValueForm::Integer, "bytes written in one call"),
    variable("MCP_LRO_LIMITS_FILES", "limits.files", ValueForm::Integer, "files created in one call"),
    variable("MCP_LRO_LIMITS_NAME_BYTES", "limits.name-bytes", ValueForm::Integer, "bytes of the name of a file"),
    variable("MCP_LRO_LIMITS_OPEN_FILES", "limits.open-files", ValueForm::Integer, "files open at the same time in one call"),
    variable("MCP_LRO_LIMITS_CROSSING_BYTES", "limits.crossing-bytes", ValueForm::Integer, "bytes passed in one step"),
    variable("MCP_LRO_LIMITS_LOG_BYTES", "limits.log-bytes", ValueForm::Integer, "bytes of a policy's text in the log"),
    variable("MCP_LRO_LIMITS_FUEL", "limits.fuel", ValueForm::Integer, "instructions of one call; not counted unless set"),
    variable("MCP_LRO_QUERY_WALL_TIME_MS", "query.wall-time-ms", ValueForm::Integer, "wall time of one query"),
    variable("MCP_LRO_QUERY_MEMORY_BYTES", "query.memory-bytes", ValueForm::Integer, "memory of one query"),
    variable("MCP_LRO_QUERY_ANSWER_BYTES", "query.answer-bytes", ValueForm::Integer, "bytes of an answer"),
    variable("MCP_LRO_QUERY_ANSWER_TOKENS", "query.answer-tokens", ValueForm::Integer, "estimated tokens of an answer"),
    variable("MCP_LRO_GATEWAY_LISTEN", "gateway.listen", ValueForm::Text, "address and port to serve HTTP on; without it, stdio"),
    variable("MCP_LRO_GATEWAY_UPSTREAM", "gateway.upstream", ValueForm::Text, "URL of the HTTP server behind the gateway"),
    variable("MCP_LRO_GATEWAY_ENV", "gateway.env", ValueForm::List, "variables that the server gets besides the usual ones; `*` is any text"),
    variable("MCP_LRO_GATEWAY_ENV_ALL", "gateway.env-all", ValueForm::Boolean, "whether the server gets all variables but the gateway's own; on stdio it does"),
    variable("MCP_LRO_GATEWAY_ISOLATE", "gateway.isolate", ValueForm::Boolean, "whether the server is kept from the gateway's directories"),
    variable("MCP_LRO_GATEWAY_USER", "gateway.user", ValueForm::Text, "as whom the server runs: a name, or UID:GID"),
    variable("MCP_LRO_GATEWAY_SERVER_LOG_BYTES", "gateway.server-log-bytes", ValueForm::Integer, "most bytes a minute of one server's stderr in the log"),
    variable("MCP_LRO_GATEWAY_PATH", "gateway.path", ValueForm::Text, "path of the gateway over HTTP"),
    variable("MCP_LRO_GATEWAY_ALLOWED_HOSTS", "gateway.allowed-hosts", ValueForm::List, "hosts that requests may name besides the local ones"),
    variable("MCP_LRO_GATEWAY_ALLOWED_ORIGINS", "gateway.allowed-origins", ValueForm::List, "origins that requests may have besides local ones"),
    variable("MCP_LRO_GATEWAY_TENANT", "gateway.tenant", ValueForm::Text, "tenant of a client without a token"),
    variable("MCP_LRO_GATEWAY_METRICS_LISTEN", "gateway.metrics-listen", ValueForm::Text, "address and port of /metrics and /healthz"),
    variable("MCP_LRO_GATEWAY_MESSAGE_BYTES", "gateway.message-bytes", ValueForm::Integer, "most bytes of one message"),
    variable("MCP_LRO_GATEWAY_MESSAGE_MEMORY", "gateway.message-memory", ValueForm::Integer, "bytes beyond which a message is kept in a file"),
    variable("MCP_LRO_GATEWAY_MESSAGE_DISK", "gateway.message-disk", ValueForm::Integer, "most bytes of one tenant's messages in files"),
    variable("MCP_LRO_GATEWAY_CALL_TIMEOUT_MS", "gateway.call-timeout-ms", ValueForm::Integer, "longest silence of a call, in milliseconds"),
    variable("MCP_LRO_GATEWAY_START_TIMEOUT_MS", "gateway.start-timeout-ms", ValueForm::Integer, "longest handshake of a restarted server, in milliseconds"),
    variable("MCP_LRO_GATEWAY_HEADER_BYTES", "gateway.header-bytes", ValueForm::Integer, "most bytes of the headers of one request"),
    variable("MCP_LRO_GATEWAY_FORWARD_HEADERS", "gateway.forward-headers", ValueForm::List, "further headers of clients that go upstream"),
    variable("MCP_LRO_GATEWAY_CONNECTIONS", "gateway.connections", ValueForm::Integer, "most open HTTP connections"),
    variable("MCP_LRO_GATEWAY_METRICS_CONNECTIONS", "gateway.metrics-connections", ValueForm::Integer, "most open connections of /metrics and /healthz"),
    variable("MCP_LRO_GATEWAY_REQUESTS", "gateway.requests", ValueForm::Integer, "most HTTP requests at a time"),
    variable("MCP_LRO_GATEWAY_STREAMS", "gateway.streams", ValueForm::Integer, "most HTTP streams without an end at a time"),
    variable("MCP_LRO_GATEWAY_SESSIONS", "gateway.sessions", ValueForm::Integer, "most legacy HTTP sessions at a time"),
    variable("MCP_LRO_GATEWAY_MEMORY_BYTES", "gateway.memory-bytes", ValueForm::Integer, "most bytes of messages in memory at a time"),
    variable("MCP_LRO_GATEWAY_HEADER_TIMEOUT_MS", "gateway.header-timeout-ms", ValueForm::Integer, "milliseconds of a connection without a request"),
    variable("MCP_LRO_GATEWAY_BODY_TIMEOUT_MS", "gateway.body-timeout-ms", ValueForm::Integer, "milliseconds for 1 KiB of the body of a request"),
    variable("MCP_LRO_GATEWAY_WRITE_TIMEOUT_MS", "gateway.write-timeout-ms", ValueForm::Integer, "milliseconds in which a client reads 1 KiB of an answer"),
    variable("MCP_LRO_GATEWAY_SESSION_IDLE_SECONDS", "gateway.session-idle-seconds", ValueForm::Integer, "age in seconds of the last request at which a session ends"),
    variable("MCP_LRO_GATEWAY_SHUTDOWN_MS", "gateway.shutdown-ms", ValueForm::Integer, "milliseconds for calls in flight at shutdown"),
    variable("MCP_LRO_GATEWAY_AUDIT", "gateway.audit", ValueForm::Boolean, "decide and record, change nothing"),
    variable("MCP_LRO_GATEWAY_SESSION_BUDGET", "gateway.session-budget", ValueForm::Integer, "estimated tokens of results that a session gets inline"),
    variable("MCP_LRO_GATEWAY_SESSION_FLOOR", "gateway.session-floor", ValueForm::Integer, "estimated tokens that still pass beyond the budget"),
];
