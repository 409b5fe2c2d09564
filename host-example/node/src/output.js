/**
 * What the component that holds the files of a policy sees of the disk, as `wasi:filesystem`: the directory of one offload, in which
 * it makes files, writes and reads them.
 */

import { createHash } from "node:crypto";
import { constants, ftruncateSync, mkdirSync, openSync, readFileSync, renameSync, rmSync, unlinkSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";

import { Descriptor } from "./descriptor.js";
import { File, NAME, attempt, importsOf } from "./directories.js";
import { CallError } from "./error.js";

const FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;

/** Least bytes that are worth to be given to another thread. */
const HASHED_BYTES = 1024 ** 2;

const LINE_FEED = 10;

/** A list of no files: what a directory holds before its first file is made. */
class DirectoryEntryStream {
    readDirectoryEntry() {
        return undefined;
    }
}

/** The directory of an offload, made with its first file. */
class Directory extends Descriptor {
    #path;
    #hashes;
    #isMade = false;
    #open = new Set();
    #files = new Map();

    constructor(path, hashes) {
        super();
        this.#path = path;
        this.#hashes = hashes;
    }

    readDirectory() {
        if (this.#isMade) {
            throw "unsupported";
        }
        return new DirectoryEntryStream();
    }

    openAt(_pathFlags, name, { create, exclusive }) {
        if (!create || !exclusive) {
            throw "unsupported";
        }
        const path = this.#at(name);
        if (!this.#isMade) {
            // An error of it ends the call: it is not the policy's.
            makeDirectory(this.#path);
            this.#isMade = true;
        }
        const file = new WrittenFile(attempt(() => openSync(path, FLAGS, 0o600)), this.#open, path, this.#hashes);
        this.#files.set(name, file);
        return file;
    }

    renameAt(old, _directory, name) {
        const [from, path] = [this.#at(old), this.#at(name)];
        attempt(() => renameSync(from, path));
        const file = this.#files.get(old);
        this.#files.delete(old);
        this.#files.set(name, file);
        file.renamed(path);
    }

    unlinkFileAt(name) {
        const path = this.#at(name);
        attempt(() => unlinkSync(path));
        this.#files.delete(name);
    }

    /** The SHA-256 of a file of an answer. */
    sha256({ name, bytes, digestFrom }) {
        const file = this.#files.get(name);
        if (file === undefined) {
            throw new CallError(`wrote \`${name}\` elsewhere: it was built by another version of build.js, build it again`, true);
        }
        return file.sha256(Number(digestFrom), Number(bytes));
    }

    #at(name) {
        if (!NAME.test(name)) {
            throw "not-permitted";
        }
        return join(this.#path, name);
    }

    /** Closes the files, and removes the directory unless it is `kept`. */
    end(isKept) {
        for (const file of this.#open) {
            file[Symbol.dispose]();
        }
        this.#hashes.clear();
        if (this.#isMade && !isKept) {
            rmSync(this.#path, { recursive: true, force: true });
        }
    }
}

/** A file of an offload, whose digest is computed as it is written in order. */
class WrittenFile extends File {
    #path;
    #hashes;
    #digest;
    /** Where the bytes of the digest begin: behind the header line, once it is known. */
    #from;
    /** Up to where they are given to `#hashes`. */
    #hashed;
    #end = 0;
    #isInOrder = true;

    constructor(file, open, path, hashes) {
        super(file, open);
        this.#path = path;
        this.#hashes = hashes;
        this.#digest = hashes.begin();
        this.#from = path.endsWith(".jsonl") ? undefined : 0;
        this.#hashed = this.#from;
    }

    write(bytes, offset) {
        const at = Number(offset);
        const count = attempt(() => writeSync(this.number, bytes, 0, bytes.length, at));
        this.#note(bytes.subarray(0, count), at);
        // Frees its memory: left to the garbage collector, the blocks make it run twice as often.
        bytes.buffer.transfer(0);
        return count;
    }

    setSize(bytes) {
        attempt(() => ftruncateSync(this.number, Number(bytes)));
        this.#isInOrder = false;
    }

    /** Notes that the file has another name. */
    renamed(path) {
        this.#path = path;
        this.#isInOrder = false;
    }

    /** The SHA-256 of the bytes `from` to `end`. */
    sha256(from, end) {
        if (end < HASHED_BYTES) {
            return createHash("sha256").update(readFileSync(this.#path).subarray(from, end)).digest();
        }
        if (!this.#isInOrder || this.#from !== from || this.#end !== end) {
            this.#digest = this.#hashes.begin();
            [this.#hashed, this.#end] = [from, end];
        }
        this.#hash();
        return this.#hashes.digest(this.#digest);
    }

    /** Takes note of bytes that were written. */
    #note(bytes, at) {
        const end = at + bytes.length;
        if (at !== this.#end) {
            // A header line may be completed in place.
            this.#isInOrder &&= end <= this.#from;
            return;
        }
        this.#end = end;
        if (this.#from === undefined) {
            const feed = bytes.indexOf(LINE_FEED);
            this.#from = feed < 0 ? undefined : at + feed + 1;
            this.#hashed = this.#from;
        }
        if (this.#isInOrder && end - this.#hashed >= HASHED_BYTES) {
            this.#hash();
        }
    }

    #hash() {
        this.#hashes.add(this.#digest, this.#path, this.#hashed, this.#end);
        this.#hashed = this.#end;
    }
}

/** Makes the directory of an offload, and that of its tenant, whose parent must be there. */
function makeDirectory(path) {
    try {
        mkdirSync(dirname(path), { mode: 0o700 });
    } catch (error) {
        if (error.code !== "EEXIST") {
            throw error;
        }
    }
    mkdirSync(path, { mode: 0o700 });
}

/** What a component from jco imports that writes nothing. */
export const NO_DIRECTORY = importsOf(() => [], { DirectoryEntryStream });

/**
 * Calls `use` with what a component from jco imports to write the files of an offload to the new directory `path`, and with what
 * returns the SHA-256 of a file of its answer. The directory is made when it is written to, and stays with the reply of an offload only.
 */
export function withDirectory(path, hashes, use) {
    const directory = new Directory(path, hashes);
    let reply;
    try {
        const imports = importsOf(() => [[directory, "/"]], { DirectoryEntryStream });
        reply = use(imports, (file) => directory.sha256(file));
        return reply;
    } finally {
        directory.end(reply?.outcome === "offload");
    }
}
