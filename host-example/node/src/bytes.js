/** Reads and writes the sections of WebAssembly. */

/** An unsigned LEB128. */
export function number(value) {
    const bytes = [];
    do {
        const low = value % 128;
        value = Math.floor(value / 128);
        bytes.push(value > 0 ? low + 128 : low);
    } while (value > 0);
    return bytes;
}

/** One array of bytes after the other. */
export function joined(pieces) {
    const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
        whole.set(piece, at);
        at += piece.length;
    }
    return whole;
}

/** A place in bytes. */
export class Reader {
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

    /** An unsigned LEB128. */
    number() {
        let value = 0;
        for (let factor = 1; ; factor *= 128) {
            const byte = this.byte();
            if (byte === undefined) {
                throw new Error("a module or component ends too early");
            }
            value += (byte % 128) * factor;
            if (byte < 128) {
                return value;
            }
        }
    }
}
