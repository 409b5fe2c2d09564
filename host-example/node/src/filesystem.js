/**
 * `wasi:filesystem` for a policy: one directory with only files, and the limits of the call on every operation that
 * creates or writes. Links, directories, times and streams are rejected.
 *
 * The directory behind it comes from `files.js` or `memory.js`. A path is the name of a file; `./a`, a second name of
 * `a`, is rejected.
 */

import { CallError } from "./error.js";

const DISPOSE = Symbol.dispose ?? Symbol.for("dispose");
const READ_BYTES_MAX = 1024 ** 2;
const SAFE_NAME = /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/;

const NOT_PERMITTED = ["createDirectoryAt", "removeDirectoryAt", "linkAt", "symlinkAt", "readlinkAt"];
const UNSUPPORTED = [
    "setSize",
    "setTimes",
    "setTimesAt",
    "readViaStream",
    "writeViaStream",
    "appendViaStream",
    "metadataHash",
    "metadataHashAt",
];

const CODES = {
    EACCES: "access",
    EDQUOT: "quota",
    EEXIST: "exist",
    EFBIG: "file-too-large",
    EISDIR: "is-directory",
    ELOOP: "loop",
    EMFILE: "insufficient-memory",
    ENAMETOOLONG: "name-too-long",
    ENFILE: "insufficient-memory",
    ENOENT: "no-entry",
    ENOSPC: "insufficient-space",
    ENOTDIR: "not-directory",
    EPERM: "not-permitted",
    EROFS: "read-only",
};

/** Runs an operation of the directory; converts its error to the contract's code. */
function attempt(operation) {
    try {
        return operation();
    } catch (error) {
        throw CODES[error.code] ?? "io";
    }
}

function checkName(name) {
    if (name === "." || name === ".." || name.includes("/") || name.includes("\0")) {
        throw "not-permitted";
    }
}

/**
 * The file system of one call: the imports `types` and `preopens`, and `usage`, whose `refused` names the first limit
 * that was exceeded, however the policy handled it. Without a directory nothing is preopened.
 */
export function filesystem(directory, limits) {
    const usage = { writtenBytes: 0, created: 0, open: 0, refused: undefined };

    function refuse(what) {
        usage.refused ??= what;
        throw "quota";
    }

    function checkNewName(name) {
        checkName(name);
        // In bytes; every allowed character is one byte.
        if (name.length > limits.nameBytes) {
            throw "name-too-long";
        }
        if (!SAFE_NAME.test(name)) {
            throw "not-permitted";
        }
    }

    function hold(open) {
        if (usage.open >= limits.openFiles) {
            refuse(`held more than ${limits.openFiles} files open at the same time (limit open-files)`);
        }
        const opened = open();
        usage.open += 1;
        return opened;
    }

    /** Accounts for a write. A gap before it counts too, because readers read the whole file. */
    function count(file, offset, length) {
        const end = offset + length;
        usage.writtenBytes += Math.max(length, end - file.end);
        if (usage.writtenBytes > limits.writtenBytes) {
            refuse(`wrote more than ${limits.writtenBytes} bytes (limit written-bytes)`);
        }
        file.end = Math.max(file.end, end);
    }

    /** The preopened directory, or an open file of it. */
    class Descriptor {
        #file;
        #flags;
        #released = false;

        constructor(file, flags) {
            this.#file = file;
            this.#flags = flags;
        }

        openAt(_pathFlags, name, openFlags, flags) {
            checkName(name);
            this.#checkDirectory();
            if (openFlags.directory) {
                throw "not-directory";
            }
            if (openFlags.create) {
                checkNewName(name);
                if (usage.created >= limits.files) {
                    refuse(`created more than ${limits.files} files (limit files)`);
                }
                usage.created += 1;
            }
            const { create, exclusive, truncate } = openFlags;
            const how = { create, exclusive, truncate, write: Boolean(flags.write) || truncate };
            const opened = hold(() => attempt(() => directory.open(name, how)));
            return new Descriptor({ opened, end: attempt(() => opened.size()) }, flags);
        }

        write(bytes, offset) {
            this.#checkFile();
            if (!this.#flags.write) {
                throw "not-permitted";
            }
            if (bytes.length > limits.crossingBytes) {
                throw new CallError(
                    `passed more than ${limits.crossingBytes} bytes in one step (limit crossing-bytes)`,
                );
            }
            count(this.#file, Number(offset), bytes.length);
            return BigInt(attempt(() => this.#file.opened.write(bytes, Number(offset))));
        }

        read(length, offset) {
            this.#checkFile();
            const most = Number(length < READ_BYTES_MAX ? length : READ_BYTES_MAX);
            const bytes = attempt(() => this.#file.opened.read(most, Number(offset)));
            return [bytes, bytes.length === 0 && most > 0];
        }

        stat() {
            if (this.#file === undefined) {
                return { type: "directory", linkCount: 1n, size: 0n };
            }
            return { type: "regular-file", linkCount: 1n, size: BigInt(attempt(() => this.#file.opened.size())) };
        }

        statAt(_pathFlags, name) {
            checkName(name);
            this.#checkDirectory();
            const opened = attempt(() => directory.open(name, {}));
            try {
                return { type: "regular-file", linkCount: 1n, size: BigInt(attempt(() => opened.size())) };
            } finally {
                opened.close();
            }
        }

        renameAt(old, other, name) {
            checkName(old);
            checkNewName(name);
            this.#checkDirectory();
            other.#checkDirectory();
            attempt(() => directory.rename(old, name));
        }

        unlinkFileAt(name) {
            checkName(name);
            this.#checkDirectory();
            attempt(() => directory.remove(name));
        }

        readDirectory() {
            this.#checkDirectory();
            return new DirectoryEntryStream(hold(() => attempt(() => directory.names())));
        }

        getFlags() {
            return this.#flags;
        }

        getType() {
            return this.#file === undefined ? "directory" : "regular-file";
        }

        isSameObject(other) {
            return other === this;
        }

        /** Ignored: the host decides on publishing whether to sync files to the disk. */
        sync() {}

        syncData() {}

        advise() {}

        [DISPOSE]() {
            if (!this.#released) {
                this.#released = true;
                usage.open -= 1;
                this.#file?.opened.close();
            }
        }

        #checkDirectory() {
            if (this.#file !== undefined) {
                throw "not-directory";
            }
        }

        #checkFile() {
            if (this.#file === undefined) {
                throw "is-directory";
            }
        }
    }

    for (const name of NOT_PERMITTED) {
        Descriptor.prototype[name] = () => {
            throw "not-permitted";
        };
    }
    for (const name of UNSUPPORTED) {
        Descriptor.prototype[name] = () => {
            throw "unsupported";
        };
    }

    class DirectoryEntryStream {
        #names;
        #released = false;

        constructor(names) {
            this.#names = names[Symbol.iterator]();
        }

        readDirectoryEntry() {
            const { done, value } = this.#names.next();
            return done ? undefined : { type: "regular-file", name: value };
        }

        [DISPOSE]() {
            if (!this.#released) {
                this.#released = true;
                usage.open -= 1;
            }
        }
    }

    function getDirectories() {
        if (directory === undefined) {
            return [];
        }
        return [[hold(() => new Descriptor(undefined, { read: true, write: true, mutateDirectory: true })), "/"]];
    }

    const types = { Descriptor, DirectoryEntryStream, filesystemErrorCode: () => undefined };
    return { types, preopens: { getDirectories }, usage };
}
