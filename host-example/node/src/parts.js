/**
 * The parts of one tool result, as a policy reads them: `{ kind, mediaType?, name?, bytes }`; `bytes` is UTF-8 except
 * in binary parts.
 */

const SLICE_BYTES_MAX = 1024 ** 2;
const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });

/** The module names under which core modules import `read-text`, by version of the contract. */
const TYPES = ["lro:filter/types@0.2.0", "lro:filter/types@0.1.0"];
const READ_TEXT = "[method]tool-result.read-text";

/** The resource `tool-result` of the contract. */
export class ToolResult {
    #parts;

    constructor(parts) {
        this.#parts = parts;
    }

    parts() {
        return this.#parts.map(({ kind, mediaType, name, bytes }) => {
            return { kind, mediaType, name, size: BigInt(bytes.length), complete: true };
        });
    }

    readText(part, offset, length) {
        return DECODER.decode(textSlice(this.#parts, part, offset, length));
    }

    readBytes(part, offset, length) {
        const bytes = bytesOf(this.#parts, part, true);
        return bytes.subarray(...slice(bytes, offset, length));
    }
}

/**
 * The imports of a core module with a `read-text` that copies the bytes of a slice directly into its memory. jco goes
 * through a string, whose characters it counts and encodes again, which takes two to three times as long for a large
 * result.
 *
 * The layout is that of the canonical ABI. Every other case falls back to jco. A call has only one tool result, so the
 * handle is ignored.
 */
export function withDirectText(core, parts, exportsOf) {
    const types = TYPES.find((name) => core?.[name] !== undefined);
    const indirect = core?.[types]?.[READ_TEXT];
    if (indirect === undefined) {
        return core;
    }
    const direct = (handle, part, offset, length, out) => {
        const { memory, cabi_realloc: allocate } = exportsOf();
        let text;
        try {
            text = textSlice(parts, part >>> 0, BigInt.asUintN(64, offset), length >>> 0);
        } catch {
            // jco lowers it as an error.
        }
        if (text === undefined || memory === undefined || allocate === undefined) {
            indirect(handle, part, offset, length, out);
            return;
        }
        const address = allocate(0, 0, 1, text.length) >>> 0;
        // The allocation may have replaced the buffer.
        new Uint8Array(memory.buffer, address, text.length).set(text);
        const result = new DataView(memory.buffer, out >>> 0, 16);
        result.setUint8(0, 0);
        result.setUint32(8, address, true);
        result.setUint32(12, text.length, true);
    };
    return { ...core, [types]: { ...core[types], [READ_TEXT]: direct } };
}

/** The bytes of a slice of a text; throws the contract's `read-error`. */
function textSlice(parts, part, offset, length) {
    const bytes = bytesOf(parts, part, false);
    const [start, end] = slice(bytes, offset, length);
    return bytes.subarray(...characters(bytes, start, end));
}

function bytesOf(parts, index, isBinary) {
    const part = parts[index];
    if (part === undefined) {
        throw { tag: "no-such-part" };
    }
    if ((part.kind === "binary") !== isBinary) {
        throw { tag: "wrong-kind" };
    }
    return part.bytes;
}

/** The range of at most `length` bytes from `offset` on. */
function slice(bytes, offset, length) {
    const start = offset < bytes.length ? Number(offset) : bytes.length;
    return [start, Math.min(bytes.length, start + Math.min(length, SLICE_BYTES_MAX))];
}

/** The same range without an incomplete character at its end, and with at least one character. */
function characters(bytes, start, end) {
    const isInside = (index) => (bytes[index] & 0xc0) === 0x80;
    if (isInside(start)) {
        let character = start;
        while (isInside(character)) {
            character -= 1;
        }
        throw { tag: "inside-character", val: BigInt(character) };
    }
    while (end > start && isInside(end)) {
        end -= 1;
    }
    if (end === start && start < bytes.length) {
        end += 1;
        while (isInside(end)) {
            end += 1;
        }
    }
    return [start, end];
}
