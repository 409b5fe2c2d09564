/**
 * Offloads, whose files are `{ name, bytes }`, of at most `totalBytes` together: removes the oldest first, and those older than
 * `timeToLiveMs`.
 */
export class MemoryStore {
    #offloads = new Map();
    #cursorKey;
    #bytes = 0;
    #totalBytes;
    #timeToLiveMs;

    constructor(totalBytes, timeToLiveMs) {
        this.#totalBytes = totalBytes;
        this.#timeToLiveMs = timeToLiveMs;
    }

    /** Publishes files of a tenant under a handle. Throws `ENOSPC` when they exceed `totalBytes`. */
    publish(tenant, id, files) {
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
        this.#offloads.set(id, { tenant, files, bytes, expires: Date.now() + this.#timeToLiveMs });
        this.#bytes += bytes;
    }

    /** An offload of a tenant, or of any, unless it was removed: its `files`, and when it `expires`, in milliseconds since 1970. */
    find(tenant, id) {
        this.#expire();
        const found = this.#offloads.get(id);
        return tenant === undefined || found?.tenant === tenant ? found : undefined;
    }

    /** What signs cursors. */
    cursorKey() {
        this.#cursorKey ??= crypto.getRandomValues(new Uint8Array(32));
        return this.#cursorKey;
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
