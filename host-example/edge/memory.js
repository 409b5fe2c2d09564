/** Offloads in the memory of the isolate, gone with it. */

import { bytesOf, expiryOf, isExpired, surplus } from "./room.js";

export class MemoryStore {
    #bounds;
    #cursorKey;
    /** By handle; the oldest first. */
    #offloads = new Map();

    constructor(bounds) {
        this.#bounds = bounds;
    }

    publish(tenant, id, files) {
        const bytes = bytesOf(files);
        const { totalBytes, tenantBytes, offloads } = this.#bounds;
        this.#expire();
        const all = [...this.#offloads.values()];
        const own = all.filter((offload) => offload.tenant === tenant);
        const removed = surplus(own, bytes, Math.min(tenantBytes, totalBytes), offloads);
        const left = all.filter((offload) => !removed.includes(offload.id));
        [...removed, ...surplus(left, bytes, totalBytes)].forEach((id) => this.#offloads.delete(id));
        this.#offloads.set(id, { id, tenant, files, bytes });
    }

    find(tenant, id) {
        this.#expire();
        const found = this.#offloads.get(id);
        if (found?.tenant !== tenant) {
            return undefined;
        }
        const bytesIn = (name) => found.files.find((file) => file.name === name).bytes;
        return {
            expires: expiryOf(id, this.#bounds),
            isIntact: true,
            files: found.files.map(({ name, bytes }) => ({ name, size: bytes.length })),
            read: (name, offset, length) => bytesIn(name).subarray(offset, offset + length),
        };
    }

    cursorKey() {
        this.#cursorKey ??= crypto.getRandomValues(new Uint8Array(32));
        return this.#cursorKey;
    }

    #expire() {
        for (const id of this.#offloads.keys()) {
            if (isExpired(id, this.#bounds)) {
                this.#offloads.delete(id);
            }
        }
    }
}
