/**
 * Published files, `{ name, bytes }`, of at most `totalBytes` together: removes the oldest first, and those older than
 * `timeToLiveMs`.
 */
export class MemoryStore {
    #offloads = new Map();
    #bytes = 0;
    #totalBytes;
    #timeToLiveMs;

    constructor(totalBytes, timeToLiveMs) {
        this.#totalBytes = totalBytes;
        this.#timeToLiveMs = timeToLiveMs;
    }

    /** Publishes files under a handle. Throws `ENOSPC` when they exceed `totalBytes`. */
    publish(id, files) {
        const bytes = files.reduce((sum, file) => sum + file.bytes.length, 0);
        if (bytes > this.#totalBytes) {
            throw Object.assign(new Error("no room"), { code: "ENOSPC" });
        }
        this.#expire();
        for (const oldest of this.#offloads.keys()) {
            if (this.#bytes + bytes <= this.#totalBytes) {
                break;
            }
            this.#remove(oldest);
        }
        this.#offloads.set(id, { files, bytes, expires: Date.now() + this.#timeToLiveMs });
        this.#bytes += bytes;
    }

    /** A published file, unless it was removed. */
    get(id, name) {
        this.#expire();
        return this.#offloads.get(id)?.files.find((file) => file.name === name);
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
