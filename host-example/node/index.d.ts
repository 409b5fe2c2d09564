/** Writes large tool results of an MCP server to files, and gives the model a short descriptor. */

/** A `CallToolResult` of the Model Context Protocol; other members are preserved. */
export interface ToolResult {
    content?: unknown[];
    structuredContent?: unknown;
    isError?: boolean;
    _meta?: Record<string, unknown>;
    [member: string]: unknown;
}

/** The call whose result is filtered. */
export interface Call {
    /** Name of the tool. */
    tool: string;
    /** The client's session, any text. */
    session?: string;
    /** The request, such as the arguments of the call: repeated in the header line of each JSONL file. */
    query?: unknown;
    /** The tenant of the result. Default: that of the filter. */
    tenant?: string;
    /** Abilities of whoever reads this descriptor. Default: those of the filter. */
    abilities?: Abilities;
}

/** What the reader of a descriptor can use; guidance and recipes name only these. */
export interface Abilities {
    /** A shell on the same disk. */
    shell?: boolean;
    /** The tool `lro_extract`. */
    extractTool?: boolean;
    /** The tool `lro_read`. */
    readTool?: boolean;
}

/** A section to be written. */
export interface SectionRule {
    /** JSON Pointer such as `/data/items`, or a plain top-level key. The empty string is the whole value. */
    key: string;
    /** Beginning of the file name. Default: the last step of the key. */
    filenamePrefix?: string;
    /** JSON Schema of a line. Default: inferred. */
    schema?: string | object;
    /** Summaries to show besides the count. Default: the policy chooses. */
    summaries?: { kind: "count" | "range" | "top-values" | "distinct"; field?: string }[];
    /** Commands to show before the policy's own; `{file}` stands for the quoted path of the section's file. */
    recipes?: { name: string; description: string; command: string }[];
}

/** Settings of a policy. */
export interface Settings {
    /** When the action applies to a result. Default: `by-size`. */
    mode?: "by-size" | "always" | "never";
    /** The action applies to results larger than this. Default: 50,000. */
    threshold?: number;
    /** Unit of `threshold` and `truncateLimit`. Default: `characters`. */
    unit?: "bytes" | "characters" | "tokens";
    /** A named threshold instead of `threshold` and `unit`: 1,600 or 25,000 tokens. */
    preset?: "1600-tokens" | "25k";
    /** The action. Default: `offload`. */
    action?: "offload" | "truncate" | "reject";
    /** Sections to write. Default: the policy finds them. */
    sections?: SectionRule[];
    /** JSON Pointers or plain top-level keys whose values are repeated in the descriptor. */
    inlineKeys?: string[];
    /** Most bytes of any other value that stays inline in the descriptor. Default: 512. */
    inlineLimit?: number;
    /** Whether schemas and summaries are inferred. Default: true. */
    infer?: boolean;
    /** `type` in the header line of each JSONL file. Default: `mcp_lro`. */
    headerType?: string;
    /** Key of the result whose value identifies the session in file names. */
    sessionKey?: string;
    /** Level of detail of a descriptor. Default: `standard`. */
    level?: "pointer" | "standard" | "full";
    /** Field names of a descriptor. Default: `sections`. */
    dialect?: "sections" | "specification";
    /** Most characters of a descriptor. Default: 40,000. */
    descriptorLimit?: number;
    /** Size of a truncated result, its suffix included. Default: that of `threshold`. */
    truncateLimit?: number;
    /** Text after the cut of a truncated result. */
    truncateSuffix?: string;
    /** Advice of a rejected result. Default: the policy's. */
    advice?: string;
    /** What happens to images and sounds: `keep` leaves them in the result, within the bounds. Default: `keep`. */
    images?: "keep" | "offload";
    /** Most images and sounds that stay in the result. Default: 20. */
    imagesMax?: number;
    /** Most bytes of all images and sounds together that stay in the result. Default: 8 MiB. */
    imagesBytes?: number;
    /** Policy-specific settings: text, or any other value as JSON. */
    custom?: unknown;
}

/** Limits of one result, and of one question. */
export interface Limits {
    /** Milliseconds from the start of the call until its thread is ended. Default: 30,000. */
    wallTimeMs?: number;
    /** Bytes of linear memory of the policy, or of a question, in whole pages of 64 KiB. Default: 64 MiB. */
    memoryBytes?: number;
    /**
     * Bytes of linear memory of each of the two components around the policy, which hold the result: one and a quarter to two times its
     * JSON. Default: 1 GiB.
     */
    heldBytes?: number;
    /** Elements of a table. Default: 100,000. */
    tableElements?: number;
    /** Core instances of the policy. Default: 16. */
    instances?: number;
    /** Bytes written to files, gaps included. Default: 4 GiB. */
    writtenBytes?: number;
    /** Files created. Default: 256. */
    files?: number;
    /** Files and listings held open at the same time, the directory included; files that a question has open. Default: 64. */
    openFiles?: number;
    /** Bytes of the name of a file. Default: 128. */
    nameBytes?: number;
}

/** When a policy is parked, and for how long. */
export interface Breaker {
    /** Failures in a row that park it. Default: 5. */
    failures?: number;
    /** Milliseconds until it is tried again; doubled with each failure of such a try. Default: 1,000. */
    pauseMs?: number;
    /** Most milliseconds of such a time. Default: 60,000. */
    pauseMaxMs?: number;
}

/** Options of a filter. */
export interface Options extends Settings {
    /**
     * Directory for files, `TENANT/HANDLE` in it: private, created with mode 0700 when it is missing. The `lro` command and
     * other hosts may use the same.
     */
    directory: string;
    /** Folder of a policy that `build.js` transpiled. Default: the default policy. */
    policy?: string;
    /**
     * Digest that the policy must have: what `sha256sum policy.* | sha256sum` prints in its folder
     * in a shell with `LC_ALL=C`, 64 hexadecimal digits.
     * Default: none is asked for.
     */
    sha256?: string;
    /**
     * minisign public keys, one of which must have signed the policy: what `sha256sum policy.*` prints in its folder is signed in
     * the file `SHA256SUMS.minisig` of the folder. The default policy needs no signature. Default: none is asked for.
     */
    policyKeys?: string[];
    /** Tenant of calls that name none, for which the policy must be signed if its signature names one. Default: `default`. */
    tenant?: string;
    /** Age in seconds at which files are removed. Default: 3,600. */
    ttlSeconds?: number;
    /** Most bytes of one file. Default: 1 GiB. */
    quotaFile?: number;
    /** Most bytes of all files of a tenant; the oldest offloads go first. Default: 4 GiB. */
    quotaTenant?: number;
    /**
     * What happens when the policy fails: `open` passes the result, or a truncated one when it cannot be written;
     * `truncate` always truncates; `closed` answers with an error. Default: `open`.
     */
    failure?: "open" | "truncate" | "closed";
    /** Threads in which policies run, and as many in which questions do. Default: 2, or 1 on a machine with one core. */
    threads?: number;
    /**
     * Abilities of the readers of descriptors, and so the tools that `attach` adds. Default: both tools for a server with
     * `attach`, and the shell except over HTTP; for `apply` alone the shell.
     */
    abilities?: Abilities;
    /** Limits of a call. */
    limits?: Limits;
    /** When a policy that fails repeatedly is parked: its calls then get the answer of `failure` at once. */
    breaker?: Breaker;
}

/** Filters tool results by a policy. */
export class Filter {
    /** Throws a `TypeError` that names an invalid option. The policy is loaded in the background. */
    constructor(options: Options);

    /**
     * The result to send in place of `result`, which is not modified.
     *
     * Throws when `result` is not a tool result, when the policy cannot be loaded, and when the directory is not
     * private. A failing policy does not throw: the failure mode decides, and the process warning `LroFilterWarning`
     * gives the reason.
     */
    apply<Result extends ToolResult>(call: Call, result: Result): Promise<Result>;

    /**
     * Filters the results of all tools of a server of the TypeScript SDK, an `McpServer` or its `Server`, and widens their output
     * schemas in `tools/list`; returns the server. Adds the tools `lro_extract` and `lro_read`, instructions about them, and the
     * resources `lro://HANDLE/SECTION`, about the offloads of the tenant: see `abilities`. A server that lists a tool of such a name
     * itself keeps it: no server of the filter lists those of the filter then, and no descriptor offers them. Throws when tools are
     * registered already, and resources, where it adds some. The default of `tenant` is that of the filter.
     */
    attach<Server extends object>(server: Server, options?: { tenant?: string }): Server;

    /**
     * The result of a call of `lro_extract` or `lro_read`, for servers without the SDK. What cannot be answered is an error of the
     * tool. Throws a `ReadError` for an unknown tool. The default of `tenant` is that of the filter.
     */
    callTool(tool: string, args?: object, options?: { tenant?: string }): Promise<ToolResult>;

    /**
     * The result of `resources/read`; `undefined` if the URI is not one of a section. `isModern` adds what the protocol has from
     * 2026-07-28 on. Throws a `ReadError` when there is no such section. The default of `tenant` is that of the filter.
     */
    readResource(
        uri: string,
        options?: { tenant?: string; isModern?: boolean },
    ): Promise<{ contents: unknown[]; [member: string]: unknown } | undefined>;

    /**
     * Uses another policy, a folder that `build.js` transpiled, for the results from now on, and returns its digest. A result
     * that the policy before has begun stays with it to its end. `sha256` is the digest that it must have; `allowOlder` takes one
     * whose signature states an earlier version.
     *
     * Throws when the policy cannot be used: nothing changes.
     */
    swap(policy: string, options?: { sha256?: string; allowOlder?: boolean }): Promise<string>;

    /** Ends the threads. They do not keep the process alive. */
    close(): Promise<void>;
}

/** A protocol error of a request to read: its `code` is that of JSON-RPC. */
export class ReadError extends Error {
    readonly code: number;
}

/** The definitions of `lro_extract` and `lro_read`, as in `tools/list`. */
export const TOOLS: { name: string; title: string; description: string; inputSchema: object; [member: string]: unknown }[];

/** Instructions about both tools for the model. */
export const GUIDANCE: string;

/** The template of the resources, as in `resources/templates/list`. */
export const TEMPLATE: { uriTemplate: string; name: string; title: string; description: string; [member: string]: unknown };

/**
 * The output schema, a JSON Schema, of a tool whose results are filtered: its own results, descriptors and truncated
 * results satisfy it. References to parts of itself stay true.
 */
export function offloadable(schema: object): object;

/**
 * The records of a JSONL file of an offload, in order, without the header line before them. The file is read as the
 * records are used.
 */
export function records(path: string): AsyncGenerator<unknown, void, void>;

/**
 * The items of all pages of a list, such as the tools of a server:
 *
 *     for await (const tool of listItems((cursor) => client.listTools({ cursor }), "tools"))
 *
 * `fetch` gets the cursor of a page, `undefined` for the first one, and returns its result; `member` names the list in
 * it. A page is fetched when the one before it is used up. Throws where the server repeats a cursor, as its list would
 * never end.
 */
export function listItems<Item = unknown>(
    fetch: (cursor?: string) => Promise<{ nextCursor?: string | null }>,
    member: string,
): AsyncGenerator<Item, void, void>;
