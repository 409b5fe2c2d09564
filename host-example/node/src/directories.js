/**
 * What the component that reads offloads sees of the disk, as `wasi:filesystem`: directories under names, and the files in them.
 * There is nothing else to reach: no links, no directories in directories, and no writing.
 */

import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { join } from "node:path";

import { Descriptor } from "./descriptor.js";

/** Without waiting for a writer, should a file be a pipe. */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/** Most bytes of one read. */
const READ_BYTES = 1024 ** 2;

/** Names in a directory, without `.` and `..`. */
export const NAME = /^(?!\.{1,2}$)[^/\0]+$/;

/** Codes of errors by those of Node; any other is `io`. */
const CODES = {
    ENOENT: "no-entry",
    ELOOP: "loop",
    EACCES: "access",
    EPERM: "not-permitted",
    EEXIST: "exist",
    EISDIR: "is-directory",
    ENAMETOOLONG: "name-too-long",
    EROFS: "read-only",
    EFBIG: "file-too-large",
    ENOSPC: "insufficient-space",
    EDQUOT: "quota",
    EMFILE: "quota",
    ENFILE: "quota",
};

class Directory extends Descriptor {
    #path;
    #files;
    #filesMax;

    constructor(path, files, filesMax) {
        super();
        this.#path = path;
        this.#files = files;
        this.#filesMax = filesMax;
    }

    openAt(_pathFlags, name, openFlags, { write, mutateDirectory }) {
        if (write || mutateDirectory || Object.values(openFlags).includes(true)) {
            throw "read-only";
        }
        if (!NAME.test(name)) {
            throw "not-permitted";
        }
        if (this.#files.size >= this.#filesMax) {
            throw "quota";
        }
        return new File(attempt(() => openSync(join(this.#path, name), FLAGS)), this.#files);
    }
}

export class File extends Descriptor {
    #files;

    constructor(number, files) {
        super();
        this.number = number;
        this.#files = files;
        files.add(this);
        if (!attempt(() => fstatSync(number).isFile())) {
            this[Symbol.dispose]();
            throw "not-permitted";
        }
    }

    read(length, offset) {
        const bytes = Buffer.allocUnsafe(Number(length < READ_BYTES ? length : BigInt(READ_BYTES)));
        const count = attempt(() => readSync(this.number, bytes, 0, bytes.length, offset));
        return [bytes.subarray(0, count), count < bytes.length];
    }

    [Symbol.dispose]() {
        if (this.#files.delete(this)) {
            closeSync(this.number);
        }
    }
}

/**
 * Calls `use` with what a component from jco imports, to read the directories `[name, path]` with at most so many files open;
 * closes them at the end.
 */
export function withDirectories(directories, filesMax, use) {
    const files = new Set();
    const getDirectories = () => directories.map(([name, path]) => [new Directory(path, files, filesMax), name]);
    try {
        return use(importsOf(getDirectories));
    } finally {
        for (const file of files) {
            file[Symbol.dispose]();
        }
    }
}

/** What a component from jco imports to reach directories; `types` are the classes beside that of their descriptors. */
export function importsOf(getDirectories, types = {}) {
    return { "wasi:filesystem/preopens": { getDirectories }, "wasi:filesystem/types": { Descriptor, ...types } };
}

/** What an action returns; throws the code of its error. */
export function attempt(action) {
    try {
        return action();
    } catch (error) {
        throw CODES[error.code] ?? "io";
    }
}
