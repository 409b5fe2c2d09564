/**
 * Offloads in a bucket of R2: `offloads/TENANT/HANDLE/FILE`, and `keys/TENANT`, what signs cursors. The manifest comes last, and
 * an offload without one is not there.
 */

import { timeOf } from "../node/src/ulid.js";
import { STAGING_MS, bytesOf, expiryOf, isExpired, surplus } from "./room.js";

const MANIFEST = "manifest.json";

/** Most objects that are removed at once. */
const REMOVED_AT_ONCE = 1000;

/** Condition of a write: there is no object with this key. */
const ABSENT = { onlyIf: { etagDoesNotMatch: "*" } };

export class BucketStore {
    #bucket;
    #bounds;

    constructor(bucket, bounds) {
        this.#bucket = bucket;
        this.#bounds = bounds;
    }

    async publish(tenant, id, files) {
        await this.#makeRoom(tenant, bytesOf(files));
        const put = async ({ name, bytes }) => {
            if ((await this.#bucket.put(prefixOf(tenant, id) + name, bytes, ABSENT)) === null) {
                throw Object.assign(new Error(`${id} is there already`), { code: "EEXIST" });
            }
        };
        await Promise.all(files.filter(({ name }) => name !== MANIFEST).map(put));
        await Promise.all(files.filter(({ name }) => name === MANIFEST).map(put));
    }

    async find(tenant, id) {
        const prefix = prefixOf(tenant, id);
        const objects = isExpired(id, this.#bounds) ? [] : await this.#listed(prefix);
        const files = objects.map(({ key, size }) => ({ name: key.slice(prefix.length), size }));
        if (!files.some(({ name }) => name === MANIFEST)) {
            return undefined;
        }
        const read = async (name, offset, length) => {
            const object = await this.#bucket.get(prefix + name, { range: { offset, length } });
            if (object === null) {
                throw Object.assign(new Error(`${id} was removed while it was read`), { code: "ENOENT" });
            }
            return new Uint8Array(await object.arrayBuffer());
        };
        return { expires: expiryOf(id, this.#bounds), isIntact: true, files, read };
    }

    async cursorKey(tenant) {
        const key = `keys/${encodeURIComponent(tenant)}`;
        await this.#bucket.put(key, crypto.getRandomValues(new Uint8Array(32)), ABSENT);
        return new Uint8Array(await (await this.#bucket.get(key)).arrayBuffer());
    }

    /** Removes what has expired, what calls left that were ended, and the oldest offloads of a tenant where others need room. */
    async #makeRoom(tenant, bytes) {
        const parent = prefixOf(tenant);
        // Handles are in the order of their times, and so is the list.
        const found = new Map();
        for (const { key, size } of await this.#listed(parent)) {
            const [id, name] = key.slice(parent.length).split("/");
            const offload = found.get(id) ?? { id, bytes: 0, keys: [], isWhole: false };
            offload.bytes += size;
            offload.keys.push(key);
            offload.isWhole ||= name === MANIFEST;
            found.set(id, offload);
        }
        const isOver = ({ id, isWhole }) =>
            isExpired(id, this.#bounds) || (!isWhole && timeOf(id) + STAGING_MS <= Date.now());
        const all = [...found.values()];
        const kept = all.filter((offload) => !isOver(offload));
        const oldest = surplus(kept, bytes, this.#bounds.tenantBytes, this.#bounds.offloads);
        const removed = all.filter((offload) => isOver(offload) || oldest.includes(offload.id));
        const keys = removed.flatMap((offload) => offload.keys);
        // The manifests first: then nobody finds a part.
        await this.#remove(keys.filter((key) => key.endsWith(`/${MANIFEST}`)));
        await this.#remove(keys.filter((key) => !key.endsWith(`/${MANIFEST}`)));
    }

    async #remove(keys) {
        for (let at = 0; at < keys.length; at += REMOVED_AT_ONCE) {
            await this.#bucket.delete(keys.slice(at, at + REMOVED_AT_ONCE));
        }
    }

    /** All objects whose keys begin with `prefix`, in the order of their keys. */
    async #listed(prefix) {
        const objects = [];
        let page = {};
        do {
            page = await this.#bucket.list({ prefix, cursor: page.cursor });
            objects.push(...page.objects);
        } while (page.truncated);
        return objects;
    }
}

/** Where the files of an offload are, or all of a tenant. Tenants are any text, and none is the beginning of another's keys. */
function prefixOf(tenant, id) {
    return `offloads/${encodeURIComponent(tenant)}/${id === undefined ? "" : `${id}/`}`;
}
