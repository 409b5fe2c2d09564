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

/** Bytes whose tokens are counted; those of the rest are extrapolated. */
const SAMPLE_BYTES = 64 * 1024;

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

const [OTHER, LETTER, DIGIT, SIGN, BREAK, TAB, SPACE] = [0, 1, 2, 3, 4, 5, 6];

/** A character beyond ASCII, from the code point on. */
const BEYOND_ASCII = [
    [0x80, 217], [0x100, 263], [0x300, 50], [0x370, 133], [0x400, 58], [0x450, 283], [0x530, 215], [0x590, 107],
    [0x600, 110], [0x900, 134], [0x980, 217], [0xa00, 318], [0xb00, 217], [0xe00, 180], [0xe80, 304], [0x1000, 101],
    [0x10a0, 137], [0x1100, 101], [0x1200, 302], [0x1e00, 287], [0x1f00, 133], [0x2000, 120], [0x2070, 172],
    [0x2500, 180], [0x25a0, 172], [0x3000, 90], [0x3040, 104], [0x3100, 101], [0xa000, 250], [0xac00, 143],
    [0xd7a4, 250], [0xf900, 101], [0xfb00, 250], [0xfe00, 90], [0x10000, 241],
];

const ASCII = Uint8Array.from({ length: 128 }, (_, code) => classOf(String.fromCharCode(code)));

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
    const tokens = new Tokens();
    let [bytes, characters] = [0, 0];
    for (const part of parts) {
        for (const slice of slices(payload, part)) {
            bytes += slice.bytes.length;
            if (unit === "characters") {
                characters += charactersOf(slice);
            } else if (unit === "tokens") {
                tokens.push(slice.text);
            }
            if (BigInt({ bytes, characters, tokens: tokens.count }[unit]) > amount) {
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

/** Characters of a slice, from first bytes alone. */
function charactersOf({ text, bytes }) {
    if (bytes.length === text.length) {
        return bytes.length;
    }
    let characters = 0;
    // By index: an iterator is many times slower in an engine without a compiler.
    for (let at = 0; at < bytes.length; at += 1) {
        characters += (bytes[at] & 0xc0) === 0x80 ? 0 : 1;
    }
    return characters;
}

/**
 * Writes texts one after another, each from the beginning of a line, and their outline `blocks`: where each is in the file,
 * and its name. A single text without a name has no outline.
 */
function writeLog({ call, payload, directory, custom }, members) {
    const output = new Output(directory, "log.txt");
    const search = new Search(custom.pattern, custom.lines);
    const tokens = new Tokens();
    const blocks = members.map((part) => {
        if (search.isOpen) {
            output.append(LINE_FEED);
            search.push("\n");
        }
        const [offset, lines] = [output.bytes, search.lines];
        for (const slice of slices(payload, part)) {
            output.append(slice.bytes);
            search.push(slice.text);
            tokens.sample(slice.text);
        }
        const place = { line: lines + 1, lines: search.lines - lines, offset, bytes: output.bytes - offset };
        return { block: part.index, ...place, name: part.name, media_type: part.mediaType };
    });
    search.finish();
    const log = { entry: output.entry(members, "text", search.count), tokens: tokens.of(output.bytes), search };
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
    const tokens = new Tokens();
    for (const part of members) {
        for (const slice of slices(payload, part)) {
            tokens.sample(slice.text);
            output.append(encoded(slice.text.replace(/[\n\r]/g, " ")));
        }
        output.append(LINE_FEED);
    }
    const entry = { ...output.entry(members, "records", members.length), pointer: "", shape: "value" };
    return { entry, tokens: tokens.of(output.bytes) };
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

function classOf(character) {
    if (/[A-Za-z]/.test(character)) {
        return LETTER;
    }
    return /[0-9]/.test(character) ? DIGIT : ({ " ": SPACE, "\t": TAB, "\r": BREAK, "\n": BREAK }[character] ?? SIGN);
}

/** The estimate of tokens that `size-unit` of the contract defines, in hundredths, of a text that is given in pieces. */
class Tokens {
    #hundredths = 0;
    #bytes = 0;
    #class = OTHER;
    #last = 0;
    /** Letters of the piece before the last letter. */
    #position = 0;
    /** Digits, or capitals, of the run so far. */
    #digits = 0;
    #capitals = 0;

    push(text) {
        for (let at = 0; at < text.length; at += 1) {
            const code = text.codePointAt(at);
            if (code > 0xffff) {
                at += 1;
            }
            this.#bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
            this.#hundredths += this.#next(code);
        }
        return this;
    }

    get count() {
        return Math.min(Math.ceil(this.#hundredths / 100), this.#bytes);
    }

    /** Adds a slice, unless the slices so far are enough of a sample. */
    sample(text) {
        if (this.#bytes < SAMPLE_BYTES) {
            this.push(text);
        }
    }

    /** Estimated tokens of so many bytes, of which this is a sample. */
    of(bytes) {
        return this.#bytes === 0 ? 0n : (BigInt(this.count) * BigInt(bytes) + BigInt(this.#bytes - 1)) / BigInt(this.#bytes);
    }

    #next(code) {
        const [before, last] = [this.#class, this.#last];
        const isLetter = code < 0x80 ? ASCII[code] === LETTER : code < 0x300 || (code >= 0x1e00 && code < 0x1f00);
        this.#class = isLetter ? LETTER : code < 0x80 ? ASCII[code] : OTHER;
        this.#last = code;
        if (isLetter) {
            return this.#letter(code, before, last) + beyondAscii(code);
        }
        this.#capitals = 0;
        const isFirst = this.#class !== before;
        return (before === LETTER && this.#position >= 3 && isVowel(last) ? 112 : 0) + this.#sign(code, isFirst, before, last);
    }

    #letter(code, before, last) {
        const isCapital = code >= 0x41 && code <= 0x5a;
        const isFirst = before !== LETTER || (isCapital && this.#capitals === 0);
        const wasT = before === LETTER && this.#position === 0 && isSmall(last, 0x74);
        this.#capitals = isCapital ? this.#capitals + 1 : 0;
        const second = this.#capitals === 2 ? 108 : 0;
        if (isFirst) {
            this.#position = 0;
            return second + (isSmall(code, 0x74) ? 30 : 115);
        }
        this.#position += 1;
        const isLonger = this.#position >= 16 && (code >= 0x80 || code !== last);
        const long = this.#position < 8 ? 0 : isLonger ? 60 : 30;
        return second + long + (wasT && !isSmall(code, 0x68) ? 85 : 0);
    }

    #sign(code, isFirst, before, last) {
        switch (this.#class) {
            case DIGIT: {
                this.#digits = isFirst ? 1 : this.#digits + 1;
                return (this.#digits % 3 === 1 ? 114 : 0) + (before === SPACE ? 85 : 0);
            }
            case SIGN:
                return isFirst ? 79 : code === last ? 16 : 11;
            case BREAK:
                return isFirst ? 110 : 6;
            case TAB:
                return 42;
            case SPACE:
                return isFirst ? 0 : 1;
            default:
                return beyondAscii(code);
        }
    }
}

/** Whether a letter is this small letter of ASCII, or its capital. */
function isSmall(code, small) {
    return code < 0x80 && (code | 0x20) === small;
}

function isVowel(code) {
    return isSmall(code, 0x61) || isSmall(code, 0x69) || isSmall(code, 0x6f) || isSmall(code, 0x75);
}

function beyondAscii(code) {
    if (code < 0x80) {
        return 0;
    }
    let [low, high] = [0, BEYOND_ASCII.length];
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        [low, high] = BEYOND_ASCII[middle][0] <= code ? [middle, high] : [low, middle];
    }
    return BEYOND_ASCII[low][1];
}
