import {
    closeSync,
    constants,
    fstatSync,
    openSync,
    readdirSync,
    readSync,
    renameSync,
    unlinkSync,
    writeSync,
} from "node:fs";
import { join } from "node:path";

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_TRUNC } = constants;

/** A directory of the disk, for `filesystem.js`. Links are not followed; new files have mode 0600. */
export class Directory {
    #path;

    constructor(path) {
        this.#path = path;
    }

    open(name, { create, exclusive, truncate, write }) {
        const flags =
            (write ? O_RDWR : O_RDONLY) |
            (create ? O_CREAT : 0) |
            (exclusive ? O_EXCL : 0) |
            (truncate ? O_TRUNC : 0) |
            (O_NOFOLLOW ?? 0);
        return new File(openSync(this.#at(name), flags, 0o600));
    }

    rename(old, name) {
        renameSync(this.#at(old), this.#at(name));
    }

    remove(name) {
        unlinkSync(this.#at(name));
    }

    names() {
        return readdirSync(this.#path);
    }

    #at(name) {
        return join(this.#path, name);
    }
}

class File {
    #descriptor;

    constructor(descriptor) {
        this.#descriptor = descriptor;
    }

    write(bytes, offset) {
        return writeSync(this.#descriptor, bytes, 0, bytes.length, offset);
    }

    read(length, offset) {
        const bytes = new Uint8Array(length);
        return bytes.subarray(0, readSync(this.#descriptor, bytes, 0, length, offset));
    }

    size() {
        return fstatSync(this.#descriptor).size;
    }

    close() {
        closeSync(this.#descriptor);
    }
}
