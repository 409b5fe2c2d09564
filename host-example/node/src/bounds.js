/**
 * Limits the memory and tables of core modules: writes the limits into a module before it is compiled.
 */

const PAGE_BYTES = 65_536;
const TABLE_SECTION = 4;
const MEMORY_SECTION = 5;
const REFERENCES = [0x70, 0x6f];

/**
 * The bytes of a core module with `memoryBytes` and `tableElements` as the maximum of its memory and its tables, and
 * the number of memories it defines. Throws when the module requires more at its start.
 */
export function bounded(bytes, limits) {
    const reader = new Reader(bytes, 8);
    const pieces = [bytes.subarray(0, 8)];
    let memories = 0;
    while (!reader.isAtEnd()) {
        const start = reader.at;
        const [id, size] = [reader.byte(), reader.number()];
        const end = reader.at + size;
        if (id === MEMORY_SECTION || id === TABLE_SECTION) {
            const count = reader.number();
            memories += id === MEMORY_SECTION ? count : 0;
            const most = id === MEMORY_SECTION ? Math.floor(limits.memoryBytes / PAGE_BYTES) : limits.tableElements;
            const entries = [];
            for (let index = 0; index < count; index += 1) {
                entries.push(...entry(reader, id, most));
            }
            const body = [...number(count), ...entries];
            pieces.push(Uint8Array.from([id, ...number(body.length), ...body]));
        } else {
            pieces.push(bytes.subarray(start, end));
        }
        reader.at = end;
    }
    return { bytes: joined(pieces), memories };
}

/** One memory or table, limited. */
function entry(reader, id, most) {
    const written = [];
    if (id === TABLE_SECTION) {
        const reference = reader.byte();
        if (!REFERENCES.includes(reference)) {
            throw new Error("a core module has a table of a kind that cannot be limited");
        }
        written.push(reference);
    }
    const flags = reader.byte();
    if (flags > 1) {
        throw new Error("a core module has a shared or 64-bit memory or table, which cannot be limited");
    }
    const least = reader.number();
    const own = flags === 1 ? reader.number() : Infinity;
    if (least > most) {
        const what =
            id === MEMORY_SECTION ? `${most * PAGE_BYTES} bytes of memory (limit memory-bytes)` : `a table of ${most}`;
        throw new Error(`a core module needs more than ${what} at its start`);
    }
    return [...written, 1, ...number(least), ...number(Math.min(own, most))];
}

function joined(pieces) {
    const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
        whole.set(piece, at);
        at += piece.length;
    }
    return whole;
}

/** An unsigned LEB128. */
function number(value) {
    const bytes = [];
    do {
        const low = value % 128;
        value = Math.floor(value / 128);
        bytes.push(value > 0 ? low + 128 : low);
    } while (value > 0);
    return bytes;
}

class Reader {
    #bytes;

    constructor(bytes, at) {
        this.#bytes = bytes;
        this.at = at;
    }

    isAtEnd() {
        return this.at >= this.#bytes.length;
    }

    byte() {
        return this.#bytes[this.at++];
    }

    number() {
        let value = 0;
        for (let factor = 1; ; factor *= 128) {
            const byte = this.byte();
            if (byte === undefined) {
                throw new Error("a core module ends too early");
            }
            value += (byte % 128) * factor;
            if (byte < 128) {
                return value;
            }
        }
    }
}
