//! The environment variables, and the keys that they and the flags of the command set.

/// Prefix of all variables.
pub const VARIABLE_PREFIX: &str = "MCP_LRO_";
/// The key of the TOML file, for its variable and its flag. Without both, no file is read.
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
    /// A number of bytes in decimal digits.
    Bytes,
    /// Texts separated by commas; the empty text is the empty list.
    List,
}

/// A key that a variable and a flag can set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// The key in the TOML file, with a `.` after the name of a table.
    pub key: &'static str,
    /// How to parse the text.
    pub form: ValueForm,
    /// What it means, in one line of Markdown: the help of the flag, and the documentation.
    pub help: &'static str,
}

impl Variable {
    /// Returns the name of the variable: [`VARIABLE_PREFIX`] and the key in upper snake case.
    pub fn name(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.key.replace(['-', '.'], "_").to_uppercase())
    }

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

const fn variable(key: &'static str, form: ValueForm, help: &'static str) -> Variable {
    Variable { key, form, help }
}

/// Every key that a variable and a flag can set, in the order of the documentation.
#[rustfmt::skip]
pub const VARIABLES: &[Variable] = &[
    variable("mode", ValueForm::Text, "`by-size`: a result larger than the threshold is acted upon; `always`, `never`: whatever its size"),
    variable("threshold", ValueForm::Integer, "a larger result is acted upon, in `unit`; one of exactly this size is not"),
    variable("unit", ValueForm::Text, "`bytes`, `characters` (Unicode scalar values) or `tokens` (see `tokenizer`), of the compact JSON text"),
    variable("preset", ValueForm::Text, "`1600-tokens` or `25k`: sets `threshold` and `unit` together; one of them wins over a preset of the same or an earlier layer"),
    variable("tokenizer", ValueForm::Text, "how limits in tokens count: `estimate`, or exactly as `o200k` (GPT-4o and later) or `cl100k` (GPT-4); answers of queries and budgets are estimated"),
    variable("ceiling", ValueForm::Integer, "no answer to a call of a tool is larger on the wire, in `ceiling-unit`, whatever kind of answer it is; below 800 tokens, a descriptor may not fit"),
    variable("ceiling-unit", ValueForm::Text, "`bytes`, `characters` or `tokens` (see `tokenizer`), of the whole message"),
    variable("action", ValueForm::Text, "what the policy does with a result it acts upon: `offload`, `truncate` or `reject`"),
    variable("inline-keys", ValueForm::List, "JSON Pointers or top-level keys whose values the descriptor repeats, in this order"),
    variable("inline-limit", ValueForm::Bytes, "most bytes of one other value that stays inline in the descriptor"),
    variable("infer", ValueForm::Boolean, "whether schemas and summaries are inferred"),
    variable("header-type", ValueForm::Text, "`type` in the header line of each JSONL file"),
    variable("session-key", ValueForm::Text, "key of the result whose value stands in for the session in file names"),
    variable("level", ValueForm::Text, "how much a descriptor holds: `pointer`, `standard` or `full`"),
    variable("dialect", ValueForm::Text, "field names of a descriptor: `sections` or `specification`"),
    variable("descriptor-limit", ValueForm::Integer, "most characters of a descriptor, at any level"),
    variable("truncate-limit", ValueForm::Integer, "size of a truncated result in `unit`, JSON escapes included; none: the threshold"),
    variable("truncate-suffix", ValueForm::Text, "text after the cut of a truncated result"),
    variable("advice", ValueForm::Text, "advice of a rejected result; empty: the policy writes its own"),
    variable("images", ValueForm::Text, "`keep`: images and sounds stay in the reply, up to `images-max` and `images-bytes`; `offload`: they are bytes like any other"),
    variable("images-max", ValueForm::Integer, "most images and sounds that stay in the reply; 0: none"),
    variable("images-bytes", ValueForm::Bytes, "most bytes, decoded, of all images and sounds together that stay in the reply"),
    variable("custom", ValueForm::Text, "settings of the policy alone, by convention JSON"),
    variable("documents", ValueForm::Text, "`text`: the text of the PDF, DOCX, PPTX, ODT, ODP, XLSX, ODS and XLS documents of a result that is offloaded is written beside their bytes; `keep`: their bytes alone are"),
    variable("documents-wall-time-ms", ValueForm::Integer, "milliseconds in which the text of one document is read"),
    variable("documents-memory-bytes", ValueForm::Bytes, "linear memory in which the text of one document is read"),
    variable("schema", ValueForm::Text, "what the gateway does with the `outputSchema` of a tool: `rewrite`, `strip`, `shape` or `block`"),
    variable("tools-allow", ValueForm::List, "patterns of the tools that clients see and may call; empty: all"),
    variable("tools-deny", ValueForm::List, "patterns of the tools that clients neither see nor may call; it wins over `tools-allow`"),
    variable("resources.mode", ValueForm::Text, "answers to `resources/read`: `pass` unchanged; `offload`: the policy decides, with the settings of a tool `resources/read`; `refuse`: one above the threshold of that is an error"),
    variable("prompt-limit", ValueForm::Integer, "size in `unit` above which an answer to `prompts/get` is an error: a prompt is never cut; none: it passes"),
    variable("input-limit", ValueForm::Integer, "size in `unit` above which a request of the server for input, by sampling, elicitation or a result `input_required`, is refused; none: it passes"),
    variable("error-limit", ValueForm::Integer, "size in `unit` above which an error is cut to its beginning and end: a JSON-RPC error of the server, which loses its `data`, and the result of a tool with `isError`; none: JSON-RPC errors pass, and such results have the limits of others"),
    variable("description-limit", ValueForm::Integer, "size in `unit` above which the description of a tool is shortened in `tools/list`; `lro_read` and the resource `lro://tools/NAME` give the whole; none: it passes"),
    variable("dir", ValueForm::Text, "root of the output directories; the default is below `XDG_CACHE_HOME`, if that is set"),
    variable("store", ValueForm::Text, "where offloads lie: `dir:PATH`, which sets `dir`, or a bucket that gateways share, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`, with what is being written and copies in `dir`; none: `dir`"),
    variable("store-copies", ValueForm::Bytes, "with a bucket, most bytes on the disk in `dir`: copies of offloads, the oldest of which go first, and records of jobs; what is larger can be neither published nor queried"),
    variable("store-timeout-ms", ValueForm::Integer, "milliseconds of one request to the bucket, with its answer"),
    variable("store-retry-ms", ValueForm::Integer, "milliseconds from the first attempt of a request to the bucket on, after which it is not repeated any more; 0: it is not repeated"),
    variable("store-left-seconds", ValueForm::Integer, "seconds after which objects without a manifest, which a process that ended left in the bucket, are removed; publishing that takes half of it fails"),
    variable("store-keys", ValueForm::Text, "directory with the keys that offloads in the bucket are encrypted with: for each tenant a file `TENANT.key` with a line of 64 hexadecimal digits for each key, the first of which encrypts; none: they are not"),
    variable("store-lease-seconds", ValueForm::Integer, "with a bucket: seconds after which the jobs of a gateway that has ended are lost, and its older sessions go on at another; a gateway that has either writes an object three times in these"),
    variable("ttl-seconds", ValueForm::Integer, "age in seconds at which an offload expires"),
    variable("fsync", ValueForm::Text, "when an offload is synchronized to the disk: `before` it is published, so that a power failure loses nothing that was answered; `after`: at once, behind the answer; `never`: when the system does it"),
    variable("quota-file", ValueForm::Bytes, "most bytes of one file"),
    variable("quota-tenant", ValueForm::Bytes, "most bytes on the disk of all offloads and records of jobs of one tenant, whole blocks and inodes counted, or in a bucket of their objects; the oldest go first"),
    variable("quota-total", ValueForm::Bytes, "most bytes on the disk of all offloads and records of jobs, counted in the same way"),
    variable(CONFIG_KEY, ValueForm::Text, "TOML file to read: the variable `MCP_LRO_CONFIG` or the flag `--config`; it has no key in the file"),
    variable("enabled", ValueForm::Boolean, "off: every result passes unchanged"),
    variable("failure", ValueForm::Text, "answer when a policy fails: `open`, `closed` or `truncate`"),
    variable("policy", ValueForm::Text, "path of a policy component, or `oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]`, an artifact in an OCI registry; none: the built-in policy"),
    variable("policy-sha256", ValueForm::Text, "SHA-256 the policy component must have, 64 hexadecimal digits"),
    variable("policy-keys", ValueForm::List, "minisign public keys, one of which signed the policy component; empty: no signature is asked for"),
    variable("policy-dir", ValueForm::Text, "directory of policies by tenant, `TENANT.wasm`"),
    variable("policy-keep", ValueForm::Text, "private directory for the last good policies of one gateway: it starts with them when it finds bad ones, and can roll back"),
    variable("loading.component-bytes", ValueForm::Bytes, "most bytes of a policy component"),
    variable("loading.compile-ms", ValueForm::Integer, "milliseconds of processor time that compiling a policy takes, and that it waits for its turn"),
    variable("loading.compile-memory-bytes", ValueForm::Bytes, "bytes of address space of the process that compiles"),
    variable("loading.compile-cache-bytes", ValueForm::Bytes, "bytes of compiled code that are kept for later starts"),
    variable("loading.fetch-ms", ValueForm::Integer, "milliseconds in which a policy is pulled from a registry"),
    variable("loading.plain-http", ValueForm::List, "registries, as `HOST` or `HOST:PORT`, that are spoken to without TLS; those on this machine always are"),
    variable("breaker.failures", ValueForm::Integer, "failures in a row that park a policy"),
    variable("breaker.pause-ms", ValueForm::Integer, "milliseconds until a parked policy is tried again; doubled with each failure"),
    variable("breaker.pause-max-ms", ValueForm::Integer, "most milliseconds until a parked policy is tried again"),
    variable("trial.calls", ValueForm::Integer, "results on which a new policy is compared with the old one; none: without bound"),
    variable("trial.seconds", ValueForm::Integer, "seconds for which a new policy is compared with the old one; none: without bound"),
    variable("trial.promote", ValueForm::Boolean, "whether a new policy that decides alike takes over; otherwise it is dropped and the report says what differed"),
    variable("limits.wall-time-ms", ValueForm::Integer, "milliseconds of one call of a policy, waiting included"),
    variable("limits.wait-ms", ValueForm::Integer, "milliseconds that a call waits for one of the 256 places of the process; a result that finds none is truncated, or refused when `failure` is `closed`"),
    variable("limits.memory-bytes", ValueForm::Bytes, "linear memory of a policy; the default policy stays under 8 MiB"),
    variable("limits.table-elements", ValueForm::Integer, "elements of a table"),
    variable("limits.instances", ValueForm::Integer, "core instances, memories and tables, of each kind"),
    variable("limits.written-bytes", ValueForm::Bytes, "bytes written in one call, gaps included"),
    variable("limits.files", ValueForm::Integer, "files created in one call"),
    variable("limits.name-bytes", ValueForm::Bytes, "bytes of the name of a file; names of more than 128 bytes are refused at publishing"),
    variable("limits.open-files", ValueForm::Integer, "files held open at the same time, the directory included"),
    variable("limits.crossing-bytes", ValueForm::Bytes, "bytes that pass between host and policy in one step, such as a descriptor"),
    variable("limits.log-bytes", ValueForm::Bytes, "bytes of a policy's text in the log: an error, or all notes of a descriptor"),
    variable("limits.fuel", ValueForm::Integer, "instructions of one call, the same on every machine; none: not counted. Counting costs a fifth"),
    variable("query.wall-time-ms", ValueForm::Integer, "milliseconds of one query"),
    variable("query.memory-bytes", ValueForm::Bytes, "linear memory of one query; without `--slurp` it stays under 64 MiB"),
    variable("query.answer-bytes", ValueForm::Bytes, "bytes of an answer; a longer one is cut between results and says so"),
    variable("query.answer-tokens", ValueForm::Integer, "estimated tokens of an answer"),
    variable("query.instances", ValueForm::Integer, "instances that answer one question about a large file together, each within these limits and on a processor that has nothing else to run"),
    variable("query.waiting", ValueForm::Integer, "questions of one tenant that may wait for their turn; further ones are refused"),
    variable("admission.calls", ValueForm::Integer, "calls of one tenant that run at the same time"),
    variable("admission.waiting", ValueForm::Integer, "calls of one tenant that may wait for their turn"),
    variable("admission.wait-ms", ValueForm::Integer, "milliseconds that a call waits for its turn"),
    variable("gateway.listen", ValueForm::Text, "address and port to serve Streamable HTTP on; none: the gateway is served on stdio"),
    variable("gateway.tls-certificate", ValueForm::Text, "file with the certificate of `listen` and those that issued it, in PEM; none: no TLS"),
    variable("gateway.tls-key", ValueForm::Text, "file with its private key, in PEM; both files are read again when they change"),
    variable("gateway.upstream", ValueForm::Text, "URL of the Streamable HTTP server behind the gateway; none: a server is started"),
    variable("gateway.env", ValueForm::List, "variables of the gateway that the server gets besides the usual ones; `*` stands for any characters"),
    variable("gateway.env-all", ValueForm::Boolean, "whether the server gets all variables except the gateway's own and, with a bucket as `store`, those of its cloud; none: on stdio it does, with `listen` not"),
    variable("gateway.isolate", ValueForm::Boolean, "whether the server is kept from seeing the gateway's directories, where the system allows that"),
    variable("gateway.user", ValueForm::Text, "as whom the server runs: a name, or `UID:GID`; only root can choose. None: as the gateway"),
    variable("gateway.server-log-bytes", ValueForm::Bytes, "most bytes a minute of one server's standard error in the log"),
    variable("gateway.path", ValueForm::Text, "path of the gateway over HTTP"),
    variable("gateway.allowed-hosts", ValueForm::List, "hosts that requests may name besides the loopback names and the address listened on"),
    variable("gateway.allowed-origins", ValueForm::List, "origins that requests may have besides those on a loopback name"),
    variable("gateway.interceptor", ValueForm::Boolean, "proposal SEP-2624: the gateway answers `interceptors/list` and `interceptor/invoke` with its policy as a mutator of tool results"),
    variable("gateway.output-variants", ValueForm::Boolean, "proposal SEP-3279: the gateway serves clients of revision 2026-12-01 too, with results by audience: what the policy makes of them for models, whole for programs and people"),
    variable("gateway.file-transfer", ValueForm::Boolean, "proposal SEP-2631: clients that declare the capability `files` get file values and addresses of downloads; needs `listen`"),
    variable("gateway.public-url", ValueForm::Text, "URL under which clients reach the gateway, `https://…`: addresses of downloads begin with it; none: the address listened on, if only this machine reaches it"),
    variable("gateway.download-seconds", ValueForm::Integer, "seconds for which an address of a download is valid"),
    variable("gateway.tenant", ValueForm::Text, "tenant of a client without a token"),
    variable("gateway.jwt-issuer", ValueForm::Text, "authorization server whose tokens are taken, as they name it in `iss`; none: no JSON Web Tokens"),
    variable("gateway.jwt-audience", ValueForm::List, "what tokens for this gateway name in `aud`; one of these is enough"),
    variable("gateway.jwt-keys", ValueForm::Text, "URL or file of the issuer's public keys, a JSON Web Key Set"),
    variable("gateway.jwt-keys-seconds", ValueForm::Integer, "seconds after which the keys are read again; a token with an unknown key has them read at once"),
    variable("gateway.jwt-tenant-claim", ValueForm::Text, "claim of the tokens that names the tenant"),
    variable("gateway.metrics-listen", ValueForm::Text, "address and port of `/metrics`, `/healthz` and `/readyz`; none: none is served"),
    variable("gateway.message-bytes", ValueForm::Bytes, "most bytes of one message"),
    variable("gateway.message-memory", ValueForm::Bytes, "bytes beyond which a message is kept in a file"),
    variable("gateway.message-disk", ValueForm::Bytes, "most bytes of one tenant's messages in files"),
    variable("gateway.call-timeout-ms", ValueForm::Integer, "milliseconds without an answer or progress, after which a call gets an error"),
    variable("gateway.start-timeout-ms", ValueForm::Integer, "milliseconds for the handshake of a server that the gateway restarts"),
    variable("gateway.header-bytes", ValueForm::Bytes, "most bytes of the headers of one HTTP request"),
    variable("gateway.forward-headers", ValueForm::List, "further headers of clients that go upstream"),
    variable("gateway.connections", ValueForm::Integer, "most open HTTP connections; a new one takes the place of the one that has waited longest for a request"),
    variable("gateway.metrics-connections", ValueForm::Integer, "most open connections at `metrics-listen`"),
    variable("gateway.requests", ValueForm::Integer, "most HTTP requests at a time, at most half of `connections`"),
    variable("gateway.streams", ValueForm::Integer, "most HTTP streams without an end at a time, at most a quarter of `connections`"),
    variable("gateway.sessions", ValueForm::Integer, "most legacy HTTP sessions at a time, each with its own server process, and connections that are translated"),
    variable("gateway.memory-bytes", ValueForm::Bytes, "most bytes of messages in memory at a time; a message of more than 64 KiB that finds none left is kept in a file"),
    variable("gateway.history-days", ValueForm::Integer, "days that `lro status --days` can look back, today included"),
    variable("gateway.header-timeout-ms", ValueForm::Integer, "milliseconds that an HTTP connection is open without the whole head of a request"),
    variable("gateway.body-timeout-ms", ValueForm::Integer, "milliseconds in which a client sends 1 KiB of the body of a request"),
    variable("gateway.write-timeout-ms", ValueForm::Integer, "milliseconds in which a client reads 1 KiB of an answer"),
    variable("gateway.session-idle-seconds", ValueForm::Integer, "seconds without a request after which a legacy session ends, or the budget of a client without one begins anew"),
    variable("gateway.drain-ms", ValueForm::Integer, "milliseconds for which a gateway that is told to end still accepts HTTP connections, while `/readyz` fails; longer than a load balancer takes to notice"),
    variable("gateway.shutdown-ms", ValueForm::Integer, "milliseconds that calls in flight may take to end at shutdown"),
    variable("gateway.list-page-size", ValueForm::Integer, "most items in a page of the lists of tools, resources, templates and prompts of a server that does not page them; none: whole"),
    variable("gateway.translate", ValueForm::Text, "between generations of the protocol: `auto`, for clients whose handshake the server refuses; `always`, for clients without a handshake before servers that begin with one, too; `never`"),
    variable("gateway.translate-timeout-ms", ValueForm::Integer, "milliseconds without an answer after which a server is taken for one of the other generation"),
    variable("gateway.translate-held", ValueForm::Integer, "most messages of a connection that wait until its generation is known; further requests are refused, and other messages dropped"),
    variable("gateway.translate-waiting", ValueForm::Integer, "most translated calls of a connection that wait for input from their clients, and most requests for input of one call; further ones are refused to the server"),
    variable("gateway.audit", ValueForm::Boolean, "decide and record, change nothing"),
    variable("gateway.session-budget", ValueForm::Integer, "estimated tokens of results that a session gets inline; none: without bound"),
    variable("gateway.session-floor", ValueForm::Integer, "estimated tokens of a result that still passes beyond the budget"),
    variable("gateway.jobs-max", ValueForm::Integer, "most jobs of one tenant that run; further calls wait for their results"),
    variable("gateway.jobs-kept", ValueForm::Integer, "most jobs of one tenant that are kept after their end; the oldest go first"),
    variable("gateway.job-seconds-max", ValueForm::Integer, "seconds after which a job is canceled"),
    variable("gateway.job-input-seconds", ValueForm::Integer, "seconds that input for a job is waited for while no client can be reached; then its server gets an error"),
    variable("gateway.input-rounds", ValueForm::Integer, "how often a server may ask for input in one job, or in one call that is translated"),
    variable("gateway.job-inputs", ValueForm::Integer, "most requests for input of one job that wait for a client at a time"),
    variable("gateway.job-input-bytes", ValueForm::Bytes, "most bytes of one such request"),
    variable("gateway.job-call-bytes", ValueForm::Bytes, "most bytes of a call that is kept while its job runs, to be sent again with input"),
    variable("gateway.job-result-bytes", ValueForm::Bytes, "most bytes of the reply that is kept of a job; a larger one is offloaded"),
];

/// Every other key, and what it means: tables and lists with an entry for each of several things, and secrets.
#[rustfmt::skip]
pub const FILE_KEYS: &[(&str, &str)] = &[
    ("sections", "sections to write, `[[sections]]`; empty: the policy finds them"),
    ("resources.uris", "modes of resources by pattern of their URI, `[resources.uris]`"),
    ("tools", "overrides by name of the tool, `[tools.\"PATTERN\"]`"),
    ("clients", "overrides by name of the client, `[clients.\"PATTERN\"]`"),
    ("models", "context windows and tokenizers by name of the model, `[models.\"PATTERN\"]`"),
    ("tenants", "overrides by name of the tenant, `[tenants.NAME]`"),
    ("gateway.admin-token", "bearer token of who may change policies at `metrics-listen`: `env:NAME`, `file:PATH` or `sha256:DIGEST`; none: nobody may"),
    ("gateway.metrics-token", "bearer token of who may read the names of tenants at `metrics-listen` where that is not on loopback; the admin token works as well"),
    ("gateway.tokens", "bearer tokens by name of the tenant, in the same three forms; empty: every request is of the same tenant"),
    ("gateway.upstream-headers", "headers of each request upstream, by name: a text, or `env:NAME`"),
];
