/**
 * A policy for logs: writes a text larger than the threshold unchanged to a file, and shows in the descriptor how many
 * of its lines match a pattern, and the first of them. Everything else stays in the reply.
 */

import { getDirectories } from "wasi:filesystem/preopens@0.2.12";

/** Defaults of `custom`: a regular expression, and the number of matching lines to show of a text. */
const DEFAULTS = { pattern: "ERROR|WARN", lines: 20 };

/** Most matching lines that `custom` can request. */
const LINES_MAX = 1000;

/** Bytes read at a time. The engine collects larger slices too late. */
const SLICE_BYTES = 64 * 1024;

/** Most UTF-16 units of a line that are searched. A longer line is written whole, but its rest is not searched. */
const SEARCHED_UNITS_MAX = 64 * 1024;

/** Most characters shown of a line. */
const SHOWN_CHARACTERS_MAX = 200;

/** Most characters of a file name that come from the name of a part. */
const NAME_CHARACTERS_MAX = 48;

const ENCODER = new TextEncoder();

/** The bytes of a slice: one buffer for all, because the engine collects buffers of this size late. */
const BUFFER = new Uint8Array(SLICE_BYTES);

// The generated bindings decode each slice, and would drop a byte order mark at its beginning; this decoder keeps it.
const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });
const { decode } = TextDecoder.prototype;
TextDecoder.prototype.decode = (bytes) => decode.call(DECODER, bytes);

/** The two calls of the contract. They throw a `policy-error`. */
export const lroFilter = {
    inspectResult(call, payload) {
        const { settings } = call;
        readCustom(settings.custom);
        if (settings.mode === "never" || call.isError) {
            return { tag: "pass" };
        }
        const isPlanned = (part, index) =>
            part.kind === "text" && (settings.mode === "always" || isLarger(payload, index, part.size, settings.threshold));
        const parts = payload.parts().map((part, index) => ({ tag: isPlanned(part, index) ? "text" : "keep" }));
        if (parts.every(({ tag }) => tag === "keep")) {
            return { tag: "pass" };
        }
        switch (settings.action) {
            case "truncate":
                return { tag: "truncate", val: { limit: settings.truncateLimit, suffix: settings.truncateSuffix } };
            case "reject":
                return { tag: "reject", val: settings.advice || `The result of \`${call.tool}\` is too large. Ask for less.` };
            default:
                return { tag: "offload", val: { parts } };
        }
    },

    writeSections(call, payload, plan) {
        const custom = readCustom(call.settings.custom);
        const parts = payload.parts();
        if (plan.parts.length !== parts.length) {
            throw { tag: "invalid", val: `plan: ${plan.parts.length} parts of ${parts.length}` };
        }
        const [preopened] = getDirectories();
        if (preopened === undefined) {
            throw { tag: "io", val: "no directory is preopened" };
        }
        const logs = [];
        for (const [index, { tag }] of plan.parts.entries()) {
            if (tag === "text") {
                const name = freeName(parts[index].name, logs);
                logs.push(writeLog(payload, { index, ...parts[index], name }, preopened[0], custom));
            } else if (tag !== "keep") {
                throw { tag: "invalid", val: `plan: part ${index} as ${tag}; this policy writes texts` };
            }
        }
        return {
            content: describe(call, logs, custom),
            files: logs.map(fileOf),
            offloadedTokens: logs.reduce((sum, { tokens }) => sum + tokens, 0n),
            notes: [],
        };
    },
};

/** The settings of this policy, its pattern compiled. */
function readCustom(text) {
    const invalid = (reason) => ({ tag: "invalid", val: `custom: ${reason}` });
    let given;
    try {
        given = JSON.parse(text ?? "{}");
    } catch (error) {
        throw invalid(`not JSON: ${error.message}`);
    }
    if (typeof given !== "object" || given === null || Array.isArray(given)) {
        throw invalid(`must be an object such as ${JSON.stringify(DEFAULTS)}`);
    }
    const unknown = Object.keys(given).find((key) => !Object.hasOwn(DEFAULTS, key));
    if (unknown !== undefined) {
        throw invalid(`no member ${JSON.stringify(unknown)}; there are "pattern" and "lines"`);
    }
    const { pattern, lines } = { ...DEFAULTS, ...given };
    if (typeof pattern !== "string") {
        throw invalid('"pattern" must be a string');
    }
    if (!Number.isInteger(lines) || lines < 0 || lines > LINES_MAX) {
        throw invalid(`"lines" must be a whole number from 0 to ${LINES_MAX}`);
    }
    try {
        return { pattern: new RegExp(pattern, "u"), lines };
    } catch (error) {
        throw invalid(`"pattern": ${error.message}`);
    }
}

/** Whether a text is larger than a size. Bytes bound the other units from above; reads only until this is decided. */
function isLarger(payload, index, bytes, { amount, unit }) {
    if (unit === "bytes" || bytes <= amount) {
        return bytes > amount;
    }
    let characters = 0;
    let quarters = 0;
    for (const slice of slices(payload, index)) {
        const size = measure(slice);
        characters += size.characters;
        quarters += size.quarters;
        if ((unit === "tokens" ? tokensOf(quarters) : BigInt(characters)) > amount) {
            return true;
        }
    }
    return false;
}

/** The slices of a text from its beginning, as text and as bytes; the bytes are valid until the next slice. */
function* slices(payload, index) {
    for (let offset = 0n; ; ) {
        const text = read(payload, index, offset);
        if (text === "") {
            return;
        }
        const bytes = BUFFER.subarray(0, ENCODER.encodeInto(text, BUFFER).written);
        yield { text, bytes };
        offset += BigInt(bytes.length);
    }
}

function read(payload, index, offset) {
    try {
        return payload.readText(index, offset, SLICE_BYTES);
    } catch (error) {
        throw { tag: "read", val: error.payload };
    }
}

/** Characters of a slice, and quarters of a token as `size-unit` of the contract counts them: both from first bytes alone. */
function measure({ text, bytes }) {
    if (bytes.length === text.length) {
        return { characters: bytes.length, quarters: bytes.length };
    }
    let characters = 0;
    let quarters = 0;
    // By index: an iterator is many times slower in an engine without a compiler.
    for (let at = 0; at < bytes.length; at += 1) {
        const byte = bytes[at];
        if ((byte & 0xc0) !== 0x80) {
            characters += 1;
            // U+2000 and U+0300 begin with these bytes.
            quarters += byte >= 0xe2 ? 4 : byte >= 0xcc ? 2 : 1;
        }
    }
    return { characters, quarters };
}

function tokensOf(quarters) {
    return BigInt(Math.ceil(quarters / 4));
}

/** Writes a text to a file; returns its entry. */
function writeLog(payload, { index, name, size, mediaType }, directory, { pattern, lines }) {
    const file = create(directory, `${name}.txt`);
    const search = new Search(pattern, lines);
    let offset = 0n;
    let quarters = 0;
    for (const slice of slices(payload, index)) {
        append(file, slice.bytes, offset);
        offset += BigInt(slice.bytes.length);
        quarters += measure(slice).quarters;
        search.push(slice.text);
    }
    search.finish();
    if (offset !== size) {
        throw { tag: "io", val: `${name}.txt: ${offset} bytes of ${size}` };
    }
    return { index, name, mediaType, bytes: size, tokens: tokensOf(quarters), search };
}

/** Finds the matching lines of a text slice by slice. */
class Search {
    /** Lines seen. */
    count = 0;
    /** Lines that matched. */
    matches = 0;
    /** The first of those, each as `NUMBER: LINE`. */
    shown = [];
    /** The beginning of a line that ends in a later slice. */
    #open = "";

    constructor(pattern, shownMax) {
        this.pattern = pattern;
        this.shownMax = shownMax;
    }

    push(text) {
        let start = 0;
        for (let end = text.indexOf("\n"); end !== -1; end = text.indexOf("\n", start)) {
            this.#extend(text, start, end);
            this.#close();
            start = end + 1;
        }
        this.#extend(text, start, text.length);
    }

    /** Ends the last line, if it has no line break. */
    finish() {
        if (this.#open !== "") {
            this.#close();
        }
    }

    #extend(text, start, end) {
        this.#open += text.slice(start, Math.min(end, start + SEARCHED_UNITS_MAX - this.#open.length));
    }

    #close() {
        const line = this.#open;
        this.#open = "";
        this.count += 1;
        if (this.pattern.test(line)) {
            this.matches += 1;
            if (this.shown.length < this.shownMax) {
                this.shown.push(`${this.count}: ${beginning(line)}`);
            }
        }
    }
}

/** The beginning of a line, cut between characters: half a surrogate pair would not be JSON. */
function beginning(line) {
    const characters = [...line.slice(0, 2 * SHOWN_CHARACTERS_MAX).trimEnd()];
    return characters.slice(0, SHOWN_CHARACTERS_MAX).join("");
}

function create(directory, name) {
    try {
        return directory.openAt({}, name, { create: true, exclusive: true }, { write: true });
    } catch (error) {
        throw failed(error, name);
    }
}

function append(file, bytes, offset) {
    try {
        for (let done = 0; done < bytes.length; ) {
            const written = Number(file.write(bytes.subarray(done), offset + BigInt(done)));
            if (written === 0) {
                throw { payload: "io" };
            }
            done += written;
        }
    } catch (error) {
        throw failed(error, "writing");
    }
}

/** The `policy-error` for an `error-code` of the file system. */
function failed({ payload: code }, what) {
    const isFull = ["insufficient-space", "quota", "file-too-large"].includes(code);
    return isFull ? { tag: "no-space" } : { tag: "io", val: `${what}: ${code}` };
}

/** A name for a file and its section: safe characters of the end of a part's name, and a number if it is taken. */
function freeName(partName, logs) {
    const last = (partName ?? "").split(/[/:]/).findLast((step) => step !== "") ?? "log";
    const name = last.replace(/\.txt$/, "").replace(/[^A-Za-z0-9_-]/g, "_").slice(0, NAME_CHARACTERS_MAX) || "log";
    const isTaken = (candidate) => logs.some((log) => log.name === candidate);
    let candidate = name;
    for (let number = 2; isTaken(candidate); number += 1) {
        candidate = `${name}-${number}`;
    }
    return candidate;
}

/** The descriptor. Each log gets an equal share of the characters that the counts leave for lines. */
function describe(call, logs, { pattern }) {
    const { reader: { abilities }, settings } = call;
    const entries = (value) => Object.fromEntries(logs.map((log) => [log.name, value(log)]));
    const content = (lines) =>
        JSON.stringify({
            offloaded: true,
            ...(abilities.shell && !abilities.readTool ? {} : { handle: call.id }),
            files: entries(({ name }) => `${call.shownPath}/${name}.txt`),
            pattern: pattern.source,
            summary: entries(({ bytes, search, name }) => ({
                lines: search.count,
                bytes: Number(bytes),
                matches: search.matches,
                first: lines.get(name) ?? [],
            })),
            guidance: guidance(abilities),
        });
    const room = settings.descriptorLimit - content(new Map()).length;
    if (room < 0) {
        throw { tag: "limit", val: `descriptor-limit: ${-room} characters more are needed` };
    }
    const share = Math.floor(room / logs.length);
    return content(new Map(logs.map(({ name, search }) => [name, fitting(search.shown, share)])));
}

/** The first texts that fit as elements of a JSON array. */
function fitting(texts, room) {
    const end = texts.findIndex((text) => (room -= JSON.stringify(text).length + 1) < 0);
    return end === -1 ? texts : texts.slice(0, end);
}

function guidance({ shell, readTool }) {
    return [
        "The log was too large and is in a file, unchanged; `first` are the first lines that match `pattern`, with their numbers.",
        ...(shell ? ["Search it with `grep -n`, read around a line with `sed -n`; do not read it whole."] : []),
        ...(readTool ? ["Page with `lro_read` on the handle."] : []),
        ...(shell || readTool ? [] : ["Nothing here can read it: tell the user the handle, or ask for less."]),
    ].join(" ");
}

/** The entry of a file in the answer. */
function fileOf({ index, name, mediaType, bytes, search }) {
    return {
        name: `${name}.txt`,
        kind: "text",
        section: name,
        parts: Uint32Array.of(index),
        origin: "content",
        mediaType: mediaType ?? "text/plain",
        records: BigInt(search.count),
        bytes,
        queries: [],
    };
}
