/**
 * A policy for logs: when the texts of a result are together larger than the threshold, it writes them to a file, and
 * shows in the descriptor how many of their lines match a pattern, and the first of them. Texts that are JSON objects
 * become records instead. A few small texts beside larger ones stay in the reply, and so does everything else.
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

/** Most texts of up to `inline-limit` bytes that stay in the reply beside larger ones. */
const SMALL_MAX = 8;

/** Longest JSON object, in bytes, that becomes a record: it is held in memory to be checked. A longer one is a text. */
const RECORD_BYTES_MAX = 16n * 1024n;

/** What is planned for the first text and for the first record, which the others join. */
const TEXT = { tag: "text" };
const RECORDS = { tag: "sections", val: [{ pointer: "", shape: "value", name: "records" }] };

const ENCODER = new TextEncoder();
const LINE_FEED = ENCODER.encode("\n");

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
        const all = partsOf(payload);
        if (settings.mode === "by-size" && !areLarger(payload, all.filter(isText), settings.threshold)) {
            return { tag: "pass" };
        }
        const parts = plan(payload, all, settings);
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
        const parts = partsOf(payload);
        if (plan.parts.length !== parts.length) {
            throw { tag: "invalid", val: `plan: ${plan.parts.length} parts of ${parts.length}` };
        }
        const [preopened] = getDirectories();
        if (preopened === undefined) {
            throw { tag: "io", val: "no directory is preopened" };
        }
        const writer = { call, payload, directory: preopened[0], custom };
        const files = [];
        for (const { tag, members } of plannedFiles(plan, parts)) {
            if (tag === "text") {
                files.push(...writeLog(writer, members));
            } else if (tag === "sections") {
                files.push(writeRecords(writer, members));
            } else {
                throw { tag: "invalid", val: `plan: ${tag}; this policy writes texts and records` };
            }
        }
        return {
            content: describe(call, files, custom),
            files: files.map(({ entry }) => entry),
            offloadedTokens: files.reduce((sum, { tokens }) => sum + tokens, 0n),
            notes: [],
        };
    },
};

/** The parts of a result, each with its index. */
function partsOf(payload) {
    return payload.parts().map((part, index) => ({ index, ...part }));
}

function isText({ kind }) {
    return kind === "text";
}

/** What becomes of each part: records go to one file, other texts to another. */
function plan(payload, parts, { mode, inlineLimit }) {
    const isSmall = (part) => isText(part) && part.complete && part.size <= BigInt(inlineLimit);
    const [texts, small] = [parts.filter(isText).length, parts.filter(isSmall).length];
    const keepsSmall = mode === "by-size" && small <= SMALL_MAX && small < texts;
    const first = new Map();
    return parts.map((part) => {
        if (!isText(part) || (keepsSmall && isSmall(part))) {
            return { tag: "keep" };
        }
        const planned = isRecord(payload, part) ? RECORDS : TEXT;
        if (first.has(planned)) {
            return { tag: "joined", val: first.get(planned) };
        }
        first.set(planned, part.index);
        return planned;
    });
}

/** Whether a text is a JSON object, short enough to be checked. One with a name is a text, because a record has no place for it. */
function isRecord(payload, part) {
    if (part.name !== undefined || part.mediaType !== undefined || !part.complete || part.size > RECORD_BYTES_MAX) {
        return false;
    }
    const text = Array.from(slices(payload, part), (slice) => slice.text).join("");
    if (!text.trimStart().startsWith("{")) {
        return false;
    }
    try {
        JSON.parse(text);
        return true;
    } catch {
        return false;
    }
}

/** What is planned for each file, and the parts that go there. */
function plannedFiles(plan, parts) {
    const files = new Map();
    for (const [index, { tag, val }] of plan.parts.entries()) {
        if (tag === "joined") {
            const file = files.get(val);
            if (file === undefined) {
                throw { tag: "invalid", val: `plan: part ${index} joins part ${val}` };
            }
            file.members.push(parts[index]);
        } else if (tag !== "keep") {
            files.set(index, { tag, members: [parts[index]] });
        }
    }
    return files.values();
}

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

/** Whether these parts together are larger than a size. Bytes bound the other units from above; reads only until this is decided. */
function areLarger(payload, parts, { amount, unit }) {
    if (parts.every(({ complete }) => complete) && parts.reduce((sum, { size }) => sum + size, 0n) <= amount) {
        return false;
    }
    const total = { bytes: 0, characters: 0, quarters: 0 };
    for (const part of parts) {
        for (const slice of slices(payload, part)) {
            const { characters, quarters } = measure(slice);
            total.bytes += slice.bytes.length;
            total.characters += characters;
            total.quarters += quarters;
            if ((unit === "tokens" ? tokensOf(total.quarters) : BigInt(total[unit])) > amount) {
                return true;
            }
        }
    }
    return false;
}

/** The slices of a text from its beginning, as text and as bytes; the bytes are valid until the next slice. */
function* slices(payload, { index, size, complete }) {
    for (let offset = 0n; !complete || offset !== size; ) {
        const text = read(payload, index, offset);
        if (text === "" && complete) {
            throw { tag: "io", val: `part ${index}: ${offset} bytes of ${size}` };
        }
        if (text === "") {
            return;
        }
        const bytes = encoded(text);
        yield { text, bytes };
        offset += BigInt(bytes.length);
    }
}

/** The bytes of a slice, valid until the next call. */
function encoded(text) {
    return BUFFER.subarray(0, ENCODER.encodeInto(text, BUFFER).written);
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

/**
 * Writes texts one after another, each from the beginning of a line, and their outline `blocks`: where each is in the file,
 * and its name. A single text without a name has no outline.
 */
function writeLog({ call, payload, directory, custom }, members) {
    const output = new Output(directory, "log.txt");
    const search = new Search(custom.pattern, custom.lines);
    let quarters = 0;
    const blocks = members.map((part) => {
        if (search.isOpen) {
            output.append(LINE_FEED);
            search.push("\n");
        }
        const [offset, lines] = [output.bytes, search.lines];
        for (const slice of slices(payload, part)) {
            output.append(slice.bytes);
            search.push(slice.text);
            quarters += measure(slice).quarters;
        }
        const place = { line: lines + 1, lines: search.lines - lines, offset, bytes: output.bytes - offset };
        return { block: part.index, ...place, name: part.name, media_type: part.mediaType };
    });
    search.finish();
    const log = { entry: output.entry(members, "text", search.count), tokens: tokensOf(quarters), search };
    if (members.length === 1 && blocks[0].name === undefined && blocks[0].media_type === undefined) {
        return [log];
    }
    const outline = createRecords(directory, call, "blocks");
    for (const block of blocks) {
        outline.append(ENCODER.encode(`${JSON.stringify(block)}\n`));
    }
    const entry = { ...outline.entry(members, "records", blocks.length), origin: "outline", derivedFrom: log.entry.name };
    return [log, { entry, tokens: 0n }];
}

/** Writes JSON objects, each as a line. In strings, line breaks are escaped, so this changes only white space. */
function writeRecords({ call, payload, directory }, members) {
    const output = createRecords(directory, call, "records");
    let quarters = 0;
    for (const part of members) {
        for (const slice of slices(payload, part)) {
            quarters += measure(slice).quarters;
            output.append(encoded(slice.text.replace(/[\n\r]/g, " ")));
        }
        output.append(LINE_FEED);
    }
    const entry = { ...output.entry(members, "records", members.length), pointer: "", shape: "value" };
    return { entry, tokens: tokensOf(quarters) };
}

/** Creates a file of records, which begins with a header line. */
function createRecords(directory, { settings, tool }, section) {
    const output = new Output(directory, `${section}.jsonl`);
    output.append(ENCODER.encode(`${JSON.stringify({ type: settings.headerType, operation: tool, section })}\n`));
    return output;
}

/** A file that is written in large pieces, because the cost of a call into the host is not that of its bytes. */
class Output {
    /** Bytes appended. */
    bytes = 0;
    #name;
    #file;
    #pending = new Uint8Array(SLICE_BYTES);
    #filled = 0;

    constructor(directory, name) {
        this.#name = name;
        try {
            this.#file = directory.openAt({}, name, { create: true, exclusive: true }, { write: true });
        } catch (error) {
            throw failed(error, name);
        }
    }

    append(bytes) {
        for (let rest = bytes; rest.length > 0; ) {
            const piece = rest.subarray(0, SLICE_BYTES - this.#filled);
            this.#pending.set(piece, this.#filled);
            this.#filled += piece.length;
            this.bytes += piece.length;
            rest = rest.subarray(piece.length);
            if (this.#filled === SLICE_BYTES) {
                this.#flush();
            }
        }
    }

    /** Ends the file; returns its entry in the answer. */
    entry(members, kind, records) {
        this.#flush();
        const name = this.#name;
        return {
            name,
            kind,
            section: name.slice(0, name.indexOf(".")),
            parts: Uint32Array.from(members, ({ index }) => index),
            origin: "content",
            mediaType: kind === "text" ? "text/plain" : "application/jsonl",
            records: BigInt(records),
            bytes: BigInt(this.bytes),
            queries: [],
        };
    }

    #flush() {
        const start = this.bytes - this.#filled;
        try {
            for (let done = 0; done < this.#filled; ) {
                const rest = this.#pending.subarray(done, this.#filled);
                const written = Number(this.#file.write(rest, BigInt(start + done)));
                if (written === 0) {
                    throw { payload: "io" };
                }
                done += written;
            }
        } catch (error) {
            throw failed(error, this.#name);
        }
        this.#filled = 0;
    }
}

/** Finds the matching lines of a text slice by slice. */
class Search {
    /** Lines ended. */
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

    /** Whether the last line may go on. */
    get isOpen() {
        return this.#open !== "";
    }

    /** Lines begun. */
    get lines() {
        return this.count + (this.isOpen ? 1 : 0);
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
        if (this.isOpen) {
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

/** The `policy-error` for an `error-code` of the file system. */
function failed({ payload: code }, what) {
    const isFull = ["insufficient-space", "quota", "file-too-large"].includes(code);
    return isFull ? { tag: "no-space" } : { tag: "io", val: `${what}: ${code}` };
}

/** The descriptor. The matching lines get the characters that everything else leaves. */
function describe(call, files, { pattern }) {
    const { reader: { abilities }, settings } = call;
    const bySection = (value) => Object.fromEntries(files.map((file) => [file.entry.section, value(file)]));
    const summary = ({ entry, search }, first) => {
        const [records, bytes] = [Number(entry.records), Number(entry.bytes)];
        return search === undefined ? { records, bytes } : { lines: records, bytes, matches: search.matches, first };
    };
    const log = files.find(({ search }) => search !== undefined);
    const content = (first) =>
        JSON.stringify({
            offloaded: true,
            ...(abilities.shell && !abilities.readTool ? {} : { handle: call.id }),
            files: bySection(({ entry }) => `${call.shownPath}/${entry.name}`),
            pattern: log && pattern.source,
            summary: bySection((file) => summary(file, first)),
            guidance: guidance(abilities, log),
        });
    const room = settings.descriptorLimit - content([]).length;
    if (room < 0) {
        throw { tag: "limit", val: `descriptor-limit: ${-room} characters more are needed` };
    }
    return content(fitting(log?.search.shown ?? [], room));
}

/** The first texts that fit as elements of a JSON array. */
function fitting(texts, room) {
    const end = texts.findIndex((text) => (room -= JSON.stringify(text).length + 1) < 0);
    return end === -1 ? texts : texts.slice(0, end);
}

function guidance({ shell, readTool }, log) {
    return [
        "The result was too large and is in files.",
        ...(log ? ["`first` are the first lines that match `pattern`, with their numbers."] : []),
        ...(shell ? ["Search them with `grep -n`, read around a line with `sed -n`; do not read one whole. Line 1 of a .jsonl file is a header."] : []),
        ...(readTool ? ["Page with `lro_read` on the handle."] : []),
        ...(shell || readTool ? [] : ["Nothing here can read them: tell the user the handle, or ask for less."]),
    ].join(" ");
}
