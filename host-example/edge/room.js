/** How much is kept, and for how long. */

import { timeOf } from "../node/src/ulid.js";

/** What the bindings of the worker may set, and what counts where they do not. */
const DEFAULTS = {
    TOTAL_BYTES: 64 * 1024 ** 2,
    TENANT_BYTES: 1024 ** 3,
    TENANT_OFFLOADS: 1000,
    TTL_SECONDS: 3600,
    BODY_BYTES: 32 * 1024 ** 2,
};

/** Age at which files that are not published are those of a call that was ended. */
export const STAGING_MS = 600_000;

/** The bounds in the bindings of the worker. Throws a `TypeError` that names the one which is no number. */
export function boundsOf(env) {
    const [totalBytes, tenantBytes, offloads, seconds, bodyBytes] = Object.entries(DEFAULTS).map(([name, otherwise]) => {
        const value = Number(env[name] || otherwise);
        if (!Number.isSafeInteger(value) || value < 1) {
            throw new TypeError(`the binding ${name} is ${JSON.stringify(env[name])}: expected a whole number, at least 1`);
        }
        return value;
    });
    return { totalBytes, tenantBytes, offloads, timeToLiveMs: seconds * 1000, bodyBytes };
}

/** When an offload expires, in milliseconds since 1970: its handle has the time of the result. */
export function expiryOf(id, { timeToLiveMs }) {
    return timeOf(id) + timeToLiveMs;
}

/** Whether an offload has expired. */
export function isExpired(id, bounds) {
    return expiryOf(id, bounds) <= Date.now();
}

/** Bytes of files. */
export function bytesOf(files) {
    return files.reduce((sum, { bytes }) => sum + bytes.length, 0);
}

/**
 * The handles of those offloads `{ id, bytes }`, the oldest first, that have to go, for another of so many bytes to have room:
 * then there are at most `bytesMax` in `offloadsMax`. Throws `ENOSPC` where it never has.
 */
export function surplus(offloads, bytes, bytesMax, offloadsMax = Infinity) {
    if (bytes > bytesMax) {
        throw Object.assign(new Error(`the files have ${bytes} bytes, and the store holds ${bytesMax}`), { code: "ENOSPC" });
    }
    const removed = [];
    let held = offloads.reduce((sum, offload) => sum + offload.bytes, 0);
    for (const offload of offloads) {
        if (held + bytes <= bytesMax && offloads.length - removed.length < offloadsMax) {
            break;
        }
        held -= offload.bytes;
        removed.push(offload.id);
    }
    return removed;
}
