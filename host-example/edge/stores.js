/**
 * Where offloads are: in the memory of the worker, in a bucket of R2, or in a Durable Object for each tenant. Each store has
 *
 *     publish(tenant, id, files)   keeps files `{ name, bytes }` under a handle; `ENOSPC` where they never have room
 *     find(tenant, id)             an offload: its `files`, `{ name, size }`, `read(name, offset, length)`, when it `expires`, in
 *                                  milliseconds since 1970, and whether it `isIntact`, every byte as it was written; `undefined`
 *                                  where there is none
 *     cursorKey(tenant)            what signs cursors
 *
 * All of them may return promises. An offload is there with all its files or not at all.
 */

import { BucketStore } from "./bucket.js";
import { MemoryStore } from "./memory.js";
import { ObjectStore } from "./object.js";
import { boundsOf } from "./room.js";

/** Bytes of a file that are in memory at a time while it is sent. */
const PIECE_BYTES = 4 * 1024 ** 2;

/** The store of this isolate, where the worker has no other. */
let memory;

/** The store that the bindings of the worker name. Throws a `TypeError` when one of them is wrong. */
export function storeOf(env) {
    const { OFFLOAD_BUCKET: bucket, OFFLOAD_OBJECTS: objects } = env;
    const bounds = boundsOf(env);
    if (bucket !== undefined && objects !== undefined) {
        throw new TypeError("both OFFLOAD_BUCKET and OFFLOAD_OBJECTS are bound: a worker has one store");
    }
    if (bucket !== undefined) {
        return new BucketStore(bucket, bounds);
    }
    if (objects !== undefined) {
        return new ObjectStore(objects, bounds);
    }
    memory ??= new MemoryStore(bounds);
    return memory;
}

/** A file of an offload from its beginning to its end. */
export function streamed(offload, { name, size }) {
    const { readable, writable } = new FixedLengthStream(size);
    // Where the store fails, the client gets fewer bytes than it was told.
    const failed = (error) => console.warn(`${name} could not be sent: ${error.message}`);
    ReadableStream.from(piecesOf(offload, name, size)).pipeTo(writable).catch(failed);
    return readable;
}

async function* piecesOf(offload, name, size) {
    for (let at = 0; at < size; at += PIECE_BYTES) {
        yield await offload.read(name, at, Math.min(PIECE_BYTES, size - at));
    }
}
