/** Files in memory: the directory that a policy writes to, and the store that serves its files. */

/** A directory for `filesystem.js`. */
export class MemoryDirectory {
    files = new Map();

    open(name, { create, exclusive, truncate }) {
        const found = this.files.get(name);
        if (found === undefined && !create) {
            throw { code: "ENOENT" };
        }
        if (found !== undefined && exclusive) {
            throw { code: "EEXIST" };
        }
        const file = found ?? new MemoryFile();
        if (truncate) {
            file.clear();
        }
        this.files.set(name, file);
        return file;
    }

    rename(old, name) {
        const file = this.#found(old);
        this.files.delete(old);
        this.files.set(name, file);
    }

    remove(name) {
        this.#found(name);
        this.files.delete(name);
    }

    names() {
        return [...this.files.keys()];
    }

    #found(name) {
        const file = this.files.get(name);
        if (file === undefined) {
            throw { code: "ENOENT" };
        }
        return file;
    }
}

class MemoryFile {
    #bytes = new Uint8Array(0);
    #size = 0;

    write(bytes, offset) {
        const end = offset + bytes.length;
        if (end > this.#bytes.length) {
            const grown = new Uint8Array(Math.max(end, 2 * this.#bytes.length));
            grown.set(this.bytes());
            this.#bytes = grown;
        }
        this.#bytes.set(bytes, offset);
        this.#size = Math.max(this.#size, end);
        return bytes.length;
    }

    read(length, offset) {
        return this.bytes().slice(offset, offset + length);
    }

    size() {
        return this.#size;
    }

    clear() {
        this.#bytes = new Uint8Array(0);
        this.#size = 0;
    }

    close() {}

    /** The content. */
    bytes() {
        return this.#bytes.subarray(0, this.#size);
    }
}

/** Published files of at most `totalBytes` together: removes the oldest first, and those older than `timeToLiveMs`. */
export class MemoryStore {
    #offloads = new Map();
    #bytes = 0;
    #totalBytes;
    #timeToLiveMs;

    constructor(totalBytes, timeToLiveMs) {
        this.#totalBytes = totalBytes;
        this.#timeToLiveMs = timeToLiveMs;
    }

    /**
     * Publishes the files `{ name }` of a directory under a handle. Throws `ENOSPC` when they exceed `totalBytes`.
     */
    publish(id, files, directory) {
        const kept = new Map(files.map(({ name }) => [name, { bytes: directory.files.get(name).bytes().slice() }]));
        const bytes = [...kept.values()].reduce((sum, file) => sum + file.bytes.length, 0);
        if (bytes > this.#totalBytes) {
            throw { code: "ENOSPC" };
        }
        this.#expire();
        for (const oldest of this.#offloads.keys()) {
            if (this.#bytes + bytes <= this.#totalBytes) {
                break;
            }
            this.#remove(oldest);
        }
        this.#offloads.set(id, { files: kept, bytes, expires: Date.now() + this.#timeToLiveMs });
        this.#bytes += bytes;
    }

    /** A published file, `{ bytes }`, unless it was removed. */
    get(id, name) {
        this.#expire();
        return this.#offloads.get(id)?.files.get(name);
    }

    #expire() {
        for (const [id, { expires }] of this.#offloads) {
            if (expires > Date.now()) {
                break;
            }
            this.#remove(id);
        }
    }

    #remove(id) {
        this.#bytes -= this.#offloads.get(id).bytes;
        this.#offloads.delete(id);
    }
}
