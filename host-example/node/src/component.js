/**
 * Runs one call of a policy in a component that jco transpiled, in a new instance that sees one tool result and at most
 * one directory. Uses neither the disk nor threads, so that it runs wherever the component does.
 */

import { CallError } from "./error.js";
import { filesystem } from "./filesystem.js";
import { ToolResult, withDirectText } from "./parts.js";

// jco's output tries this function three times for each instance, whether it needs it or not; where it is missing, each
// error costs milliseconds.
WebAssembly.promising ??= (exported) => exported;

/** The exports of a policy, by version of the contract, the newest first. */
const EXPORTS = ["lro:filter/lro-filter@0.2.0", "lro:filter/lro-filter@0.1.0"];

/** Imports by their names without version; rejects those that a policy may not have. */
function imports(directory, limits) {
    const { types, preopens, usage } = filesystem(directory, limits);
    const known = {
        "lro:filter/types": { ToolResult },
        "wasi:filesystem/types": types,
        "wasi:filesystem/preopens": preopens,
    };
    const get = (_, name) => {
        const found = known[name.split("@")[0]];
        if (found === undefined) {
            throw new CallError(
                `cannot be used: it imports \`${name}\`, and may import only ${Object.keys(known).join(", ")}`,
            );
        }
        return found;
    };
    return { imports: new Proxy(known, { get }), usage };
}

/**
 * Creates an instance and calls it.
 *
 * `policy` is `{ instantiate, modules }`: the function from jco, and the compiled core modules by name. `ask` receives
 * the exported interface and the tool result; its return value is returned, and every exception becomes a `CallError`.
 */
function run(policy, parts, directory, limits, ask) {
    const { imports: imported, usage } = imports(directory, limits);
    const memories = [];
    const made = new Set();
    const instantiateCore = (module, core) => {
        if (made.has(module) || made.size >= limits.instances) {
            throw new CallError(`has more than ${limits.instances} instances, or one module twice (limit instances)`);
        }
        made.add(module);
        const instance = new WebAssembly.Instance(
            module,
            withDirectText(core, parts, () => instance.exports),
        );
        memories.push(...Object.values(instance.exports).filter((value) => value instanceof WebAssembly.Memory));
        return instance;
    };
    try {
        const component = policy.instantiate((name) => policy.modules[name], imported, instantiateCore);
        const filter = EXPORTS.map((name) => component[name]).find((found) => found !== undefined);
        if (filter === undefined) {
            throw new CallError(`cannot be used: it exports neither \`${EXPORTS.join("` nor `")}\``);
        }
        const answer = ask(filter, new ToolResult(parts));
        if (usage.refused !== undefined) {
            throw new CallError(usage.refused);
        }
        return answer;
    } catch (error) {
        if (usage.refused !== undefined) {
            throw new CallError(usage.refused);
        }
        throw failure(error, memories, limits);
    }
}

/** Creates an instance only to check it: throws when the policy exceeds its limits or is not a policy. */
export function check(policy, limits) {
    run(policy, [], undefined, limits, () => undefined);
}

/** The verdict on a result. */
export function inspect(policy, call, parts, limits) {
    const verdict = run(policy, parts, undefined, limits, (filter, result) => filter.inspectResult(call, result));
    if (verdict.tag === "reject") {
        verdict.val = head(verdict.val, call.settings.descriptorLimit);
    }
    return verdict;
}

/** Writes the planned parts to a directory; returns the descriptor. */
export function write(policy, call, parts, plan, directory, limits) {
    const ask = (filter, result) => filter.writeSections(call, result, plan);
    const descriptor = run(policy, parts, directory, limits, ask);
    if (descriptor.content.length > limits.crossingBytes) {
        throw new CallError(`passed more than ${limits.crossingBytes} bytes in one step (limit crossing-bytes)`);
    }
    return descriptor;
}

/** A text cut to a number of characters, with `…` in place of the rest. */
function head(text, characters) {
    if (text.length <= characters) {
        return text;
    }
    const all = Array.from(text.slice(0, 2 * characters + 2));
    return all.length <= characters ? text : `${all.slice(0, characters).join("")}…`;
}

function failure(error, memories, limits) {
    if (error instanceof CallError) {
        return error;
    }
    if (Object.hasOwn(error, "payload")) {
        return new CallError(`refused: ${oneLine(describe(error.payload), limits.logBytes)}`, error.payload);
    }
    if (error instanceof RangeError && /stack/.test(error.message)) {
        return new CallError("ran out of stack");
    }
    const message = oneLine(String(error.message), limits.logBytes);
    if (error instanceof WebAssembly.RuntimeError) {
        const used = memories.reduce((sum, memory) => sum + memory.buffer.byteLength, 0);
        return new CallError(
            `failed: ${message}, with ${used} of ${limits.memoryBytes} bytes of memory (limit memory-bytes)`,
        );
    }
    return new CallError(`failed: ${message}`);
}

function describe({ tag, val }) {
    switch (tag) {
        case "invalid":
            return `invalid settings or plan: ${val}`;
        case "read":
            return `a part could not be read: ${val.tag}`;
        case "no-space":
            return "no space left for its output";
        case "io":
            return `its output could not be written: ${val}`;
        case "limit":
            return `limit ${val}`;
        default:
            return String(val);
    }
}

/**
 * The beginning of a policy's text on one line, so that it cannot move a cursor or forge a log line.
 */
function oneLine(text, bytes) {
    const line = text.slice(0, bytes).replace(/\p{Cc}/gu, "\u{FFFD}");
    return text.length > bytes ? `${line}…` : line;
}
