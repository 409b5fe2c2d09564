/**
 * Offloads as the component that reads them sees them: `wasi:filesystem`, a directory under each handle, with its files.
 *
 * The component cannot wait. Where it wants bytes that a store has yet to send, it is ended, `Offloads.arrived` gets them, and the
 * question is asked again.
 */

import { Descriptor } from "../node/src/descriptor.js";

/** Bytes that the first read of a part of a file gets. One that goes on where it ended gets the rest of the file. */
const FIRST_BYTES = 1024 ** 2;

/** The offloads `{ handle, files, read }` that a question is about. */
export class Offloads {
    #files = new Map();
    #offloads;
    /** The read that ended the component: of this file, from this offset on. */
    #missing;

    constructor(offloads) {
        this.#offloads = offloads;
        for (const { handle, files, read } of offloads) {
            for (const { name, size } of files) {
                this.#files.set(`${handle}/${name}`, { name, size, read, pieces: [] });
            }
        }
    }

    /** What the component imports. */
    imports() {
        const getDirectories = () => this.#offloads.map(({ handle }) => [new Directory(this, handle), handle]);
        return { "wasi:filesystem/preopens": { getDirectories }, "wasi:filesystem/types": { Descriptor } };
    }

    /** Gets the bytes whose absence ended the component; `false` if something else did. */
    async arrived() {
        if (this.#missing === undefined) {
            return false;
        }
        const { file, offset } = this.#missing;
        this.#missing = undefined;
        const goesOn = file.pieces.some((piece) => piece.offset + piece.bytes.length === offset);
        const length = Math.min(goesOn ? Infinity : FIRST_BYTES, file.size - offset);
        file.pieces.push({ offset, bytes: await file.read(file.name, offset, length) });
        return true;
    }

    /** The file of an offload. */
    file(handle, name) {
        return this.#files.get(`${handle}/${name}`);
    }

    /** Up to `length` bytes of a file. Throws where they are not there yet. */
    bytes(file, offset, length) {
        if (offset >= file.size) {
            return new Uint8Array();
        }
        const piece = file.pieces.find((piece) => piece.offset <= offset && offset < piece.offset + piece.bytes.length);
        if (piece === undefined) {
            this.#missing = { file, offset };
            throw new Error(`bytes of ${file.name} are yet to come`);
        }
        return piece.bytes.subarray(offset - piece.offset, offset - piece.offset + length);
    }
}

class Directory extends Descriptor {
    #offloads;
    #handle;

    constructor(offloads, handle) {
        super();
        this.#offloads = offloads;
        this.#handle = handle;
    }

    openAt(_pathFlags, name, openFlags, { write, mutateDirectory }) {
        if (write || mutateDirectory || Object.values(openFlags).includes(true)) {
            throw "read-only";
        }
        const found = this.#offloads.file(this.#handle, name);
        if (found === undefined) {
            throw "no-entry";
        }
        return new File(this.#offloads, found);
    }
}

class File extends Descriptor {
    #offloads;
    #file;

    constructor(offloads, file) {
        super();
        this.#offloads = offloads;
        this.#file = file;
    }

    read(length, offset) {
        const bytes = this.#offloads.bytes(this.#file, Number(offset), Number(length));
        return [bytes, Number(offset) + bytes.length >= this.#file.size];
    }
}
