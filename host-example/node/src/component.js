/**
 * Calls components that jco transpiled, each time in a new instance: a composed one, by `wit/adapter/filter.wit`, and the one
 * that reads offloads, by `wit/adapter/reading.wit`. Uses neither the disk nor threads, so that it runs wherever they do.
 */

import { CallError, ReadError } from "./error.js";

// jco's output tries this function three times for each instance, whether it needs it or not; where it is missing, each
// error costs milliseconds.
WebAssembly.promising ??= (exported) => exported;

const FILTER = "lro:adapter/filter@0.1.0";
const MESSAGES = "lro:adapter/messages@0.1.0";
const FILES = "lro:adapter/files@0.1.0";
const READING = "lro:adapter/reading@0.1.0";

/** The function in which the component that holds the files lets the policy write. */
const OPEN = "lro:adapter/held@0.1.0#open";

/** The function in which a policy ends that counts its instructions, and has executed too many. */
export const EXHAUSTED = "lro_fuel_exhausted";

/** Core instances of the components around a policy. */
const OWN_INSTANCES = 32;

/** Characters of an error message. */
const MESSAGE_CHARACTERS_MAX = 4096;

/** Most bytes of a file in one piece. */
const PIECE_BYTES = 1024 ** 2;

/** The functions whose second argument is a message. */
const OF_MESSAGES = ["filter", "filterUndigested", "failed", "truncate"];

/**
 * Calls the function `name` of the interface `filter`; returns its answer, `files`, which `pieces` reads, and `digested`, which completes
 * the offload of `filterUndigested` with the digests of its files.
 *
 * `policy` is `{ instantiate, modules }`: the function from jco, and the compiled core modules by name. A result is its UTF-8, whole,
 * or in pieces with about how many bytes are `expected`. `wrote` is called when the policy is asked to write; `imports` is what the
 * component imports, if it is composed with files in a directory.
 *
 * Throws a `TypeError` when settings or result are not what they should be, and a `CallError` or an error of the system when the call
 * does not end well.
 */
export function called({ instantiate, modules }, limits, name, args, { wrote = () => {}, imports = {} } = {}) {
    const memories = [];
    const made = new Set();
    let isWriting = false;
    const core = (module, imports) => {
        if (made.has(module) || made.size >= limits.instances + OWN_INSTANCES) {
            throw new CallError(`has more than ${limits.instances} instances, or one module twice (limit instances)`);
        }
        made.add(module);
        const { exports } = new WebAssembly.Instance(module, imports);
        const isHolding = Object.keys(exports).some((exported) => exported.startsWith("lro:adapter/"));
        const found = Object.values(exports).filter((value) => value instanceof WebAssembly.Memory);
        memories.push(...found.map((memory) => ({ memory, isHolding })));
        const open = exports[OPEN];
        const opened = (...values) => {
            isWriting = true;
            wrote();
            return open(...values);
        };
        return { exports: open === undefined ? exports : { ...exports, [OPEN]: opened } };
    };
    const attempt = (action) => {
        try {
            return action();
        } catch (error) {
            if (Object.hasOwn(error, "payload")) {
                throw invalid(error.payload);
            }
            throw failure(error, limits, isWriting, () => used(memories, limits));
        }
    };
    return attempt(() => {
        const component = instantiate((name) => modules[name], imports, core);
        const [filter, messages, files] = [component[FILTER], component[MESSAGES], component[FILES]];
        if (filter === undefined || messages === undefined || files === undefined) {
            throw new CallError("was built by another version of build.js: build it again");
        }
        const given = OF_MESSAGES.includes(name) ? args.with(1, message(messages, args[1]).number()) : args;
        return { answer: filter[name](...given), files, digested: (digests) => attempt(() => filter.digested(digests)) };
    });
}

/**
 * The answer of the function `name` of the interface `reading`; `imports` are the directories of offloads, as `wasi:filesystem`.
 * Throws a `ReadError`, which is a protocol error, and a `CallError` when the call does not end well.
 */
export function answered({ instantiate, modules }, limits, name, args, imports) {
    const memories = [];
    const core = (module, imports) => {
        const instance = new WebAssembly.Instance(module, imports);
        memories.push(...Object.values(instance.exports).filter((value) => value instanceof WebAssembly.Memory));
        return instance;
    };
    const used = () => {
        const most = Math.max(0, ...memories.map((memory) => memory.buffer.byteLength));
        return `${most} of ${limits.memoryBytes} bytes of memory (limit memory-bytes)`;
    };
    try {
        return instantiate((module) => modules[module], imports, core)[READING][name](...args);
    } catch (error) {
        if (Object.hasOwn(error, "payload")) {
            throw new ReadError(error.payload.code, error.payload.message);
        }
        throw failure(error, limits, false, used);
    }
}

/** A message with these bytes, whole or in pieces. One that comes whole is held as it is. */
function message({ Message }, bytes) {
    const isWhole = bytes instanceof Uint8Array;
    const made = new Message(BigInt(isWhole ? bytes.length : bytes.expected));
    for (const piece of isWhole ? [bytes] : bytes) {
        made.append(piece);
    }
    return made;
}

/** The pieces of a file of an answer, `{ name, bytes }`. Who takes one may release it. */
export function* pieces(files, { name, bytes }) {
    for (let at = 0n; at < bytes; ) {
        const piece = files.readFile(name, at, PIECE_BYTES);
        if (!piece?.length) {
            throw new CallError(`wrote \`${name}\`, which cannot be read`, true);
        }
        at += BigInt(piece.length);
        yield piece;
    }
}

/** Why a call failed, which is not always the policy: errors of the system stay as they are. `memory` says how much of it was used. */
function failure(error, limits, wrote, memory) {
    if (error instanceof CallError || error.syscall !== undefined) {
        return error;
    }
    if (limits.fuel !== undefined && String(error.stack).includes(EXHAUSTED)) {
        return new CallError(`executed more than ${limits.fuel} instructions (limit fuel)`, wrote);
    }
    if (error instanceof RangeError && /stack/.test(error.message)) {
        return new CallError("ran out of stack", wrote);
    }
    const message = oneLine(String(error.message));
    if (error instanceof WebAssembly.RuntimeError) {
        return new CallError(`failed: ${message}, with ${memory()}`, wrote);
    }
    return new CallError(`failed: ${message}`, wrote);
}

/** How much memory a policy and the components around it used. */
function used(memories, limits) {
    const most = (held) => {
        const sizes = memories.map(({ memory, isHolding }) => (isHolding === held ? memory.buffer.byteLength : 0));
        return Math.max(0, ...sizes);
    };
    const own = `${most(false)} of ${limits.memoryBytes} bytes of memory (limit memory-bytes)`;
    return `${own} and ${most(true)} of ${limits.heldBytes} around it (limit held-bytes)`;
}

/** The error of an invalid request, which names a setting as options do. */
function invalid({ tag, val }) {
    const camel = (name) => name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
    return new TypeError(tag === "settings" ? val.replace(/^`[a-z-]+`/, camel) : val);
}

/** The beginning of a text on one line, so that it cannot move a cursor or forge a log line. */
function oneLine(text) {
    const line = text.slice(0, MESSAGE_CHARACTERS_MAX).replace(/\p{Cc}/gu, "\u{FFFD}");
    return text.length > MESSAGE_CHARACTERS_MAX ? `${line}…` : line;
}
