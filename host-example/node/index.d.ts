/** Large tool results of an MCP server go to files, and a short descriptor to the model. */

/** A `CallToolResult` of the Model Context Protocol; other members than these stay as they are. */
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
    /** What was asked, such as the arguments of the call: repeated in the header line of each JSONL file. */
    query?: unknown;
    /** Whose result it is. Default: `default`. */
    tenant?: string;
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

/** What a policy is told. */
export interface Settings {
    /** When a result is acted upon. Default: `by-size`. */
    mode?: "by-size" | "always" | "never";
    /** A result larger than this is acted upon. Default: 50,000. */
    threshold?: number;
    /** Unit of `threshold` and `truncateLimit`. Default: `characters`. */
    unit?: "bytes" | "characters" | "tokens";
    /** A threshold with a name, in the place of `threshold` and `unit`: 1,600 or 25,000 tokens. */
    preset?: "1600-tokens" | "25k";
    /** What is done with a result that is acted upon. Default: `offload`. */
    action?: "offload" | "truncate" | "reject";
    /** Sections to write. Default: the policy finds them. */
    sections?: SectionRule[];
    /** JSON Pointers or plain top-level keys whose values are repeated in the descriptor. */
    inlineKeys?: string[];
    /** Most bytes of one other value that stays inline in the descriptor. Default: 512. */
    inlineLimit?: number;
    /** Whether schemas and summaries are inferred. Default: true. */
    infer?: boolean;
    /** `type` in the header line of each JSONL file. Default: `mcp_lro`. */
    headerType?: string;
    /** Key of the result whose value stands in for the session in file names. */
    sessionKey?: string;
    /** How much a descriptor tells. Default: `standard`. */
    level?: "pointer" | "standard" | "full";
    /** Field names of a descriptor. Default: `sections`. */
    dialect?: "sections" | "specification";
    /** Most characters of a descriptor. Default: 40,000. */
    descriptorLimit?: number;
    /** Size of a truncated result, its suffix included. Default: that of `threshold`. */
    truncateLimit?: number;
    /** Text after the cut of a truncated result. */
    truncateSuffix?: string;
    /** Advice of a rejected result. Default: the policy writes its own. */
    advice?: string;
    /** Settings of this policy alone: a text, or anything else as its JSON. */
    custom?: unknown;
}

/** Bounds of one call of a policy, of which a result takes up to two. */
export interface Limits {
    /** Milliseconds from the start of the call; its thread is ended then. Default: 30,000. */
    wallTimeMs?: number;
    /** Bytes of linear memory, in whole pages of 64 KiB. Default: 64 MiB. */
    memoryBytes?: number;
    /** Elements of a table. Default: 100,000. */
    tableElements?: number;
    /** Core instances. Default: 16. */
    instances?: number;
    /** Bytes written to files, gaps included. Default: 4 GiB. */
    writtenBytes?: number;
    /** Files created. Default: 256. */
    files?: number;
    /** Files and listings held open at the same time, the directory included. Default: 64. */
    openFiles?: number;
    /** Bytes of the name of a file. Default: 128. */
    nameBytes?: number;
    /** Bytes of one write, characters of a descriptor. Default: 8 MiB. */
    crossingBytes?: number;
    /** Characters of an error's text. Default: 4,096. */
    logBytes?: number;
}

/** Options of a filter. */
export interface Options extends Settings {
    /** Where files go: a private directory, which is made with mode 0700 when it is missing. */
    directory: string;
    /** Folder of a policy that `build.js` transpiled. Default: the default policy. */
    policy?: string;
    /** Age in seconds at which files are removed. Default: 3,600. */
    ttlSeconds?: number;
    /**
     * What happens when the policy fails: `open` passes the result, or a truncated one when it could not be written;
     * `truncate` always truncates; `closed` answers with an error. Default: `open`.
     */
    failure?: "open" | "truncate" | "closed";
    /** Threads in which policies run. Default: 2, or 1 on a machine with one core. */
    threads?: number;
    /** What the reader of a descriptor can use; guidance and recipes name nothing else. Default: `{ shell: true }`. */
    abilities?: { shell?: boolean; extractTool?: boolean; readTool?: boolean };
    /** Bounds of a call. */
    limits?: Limits;
}

/** Filters tool results by a policy. */
export class Filter {
    /** Throws a `TypeError` that names an option that makes no sense. The policy is loaded in the background. */
    constructor(options: Options);

    /**
     * The result that goes on in the place of `result`, which is not changed.
     *
     * Throws when `result` is no tool result, when the policy cannot be loaded, and when the directory is not a private
     * one. A policy that fails is no error here: the failure mode decides, and a process warning `LroFilterWarning`
     * tells why.
     */
    apply<Result extends ToolResult>(call: Call, result: Result): Promise<Result>;

    /** Ends the threads. They keep no process alive. */
    close(): Promise<void>;
}

/**
 * The output schema, a JSON Schema, of a tool whose results are filtered: its own results, descriptors and truncated
 * results satisfy it. Throws a `TypeError` when the schema refers to a place of itself outside `$defs` and
 * `definitions`.
 */
export function offloadable(schema: object): object;
