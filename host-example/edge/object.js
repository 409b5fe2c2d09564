/** Offloads in Durable Objects, one for each tenant, with the database that each of them has. */

import { DurableObject } from "cloudflare:workers";

import { joined } from "../node/src/bytes.js";
import { timeOf } from "../node/src/ulid.js";
import { STAGING_MS, boundsOf, bytesOf, expiryOf, isExpired, surplus } from "./room.js";

/** Bytes of a file in one row; a row has at most 2 MB. */
const ROW_BYTES = 1024 ** 2;

/** Most bytes of one call of an object, which has at most 32 MiB. */
const CALL_BYTES = 8 * ROW_BYTES;

/** The store, for the worker. */
export class ObjectStore {
    #namespace;
    #bounds;

    constructor(namespace, bounds) {
        this.#namespace = namespace;
        this.#bounds = bounds;
    }

    async publish(tenant, id, files) {
        const object = this.#of(tenant);
        // What never has room is not sent.
        surplus([], bytesOf(files), this.#bounds.tenantBytes);
        for (const { name, bytes } of files) {
            for (let at = 0; at < bytes.length; at += CALL_BYTES) {
                // A view would take all bytes of its buffer along.
                await object.keep(id, name, at, bytes.slice(at, at + CALL_BYTES));
            }
        }
        const listed = files.map(({ name, bytes }) => ({ name, size: bytes.length }));
        if (!(await object.publish(id, listed))) {
            throw Object.assign(new Error(`the rows of ${id} are not those of its files`), { code: "EIO" });
        }
    }

    async find(tenant, id) {
        const object = this.#of(tenant);
        const found = await object.find(id);
        const read = async (name, offset, length) => {
            const pieces = [];
            for (let at = offset; at < offset + length; at += CALL_BYTES) {
                pieces.push(await object.read(id, name, at, Math.min(CALL_BYTES, offset + length - at)));
            }
            if (pieces.includes(undefined)) {
                throw Object.assign(new Error(`${id} was removed while it was read`), { code: "ENOENT" });
            }
            return joined(pieces);
        };
        return found && { ...found, isIntact: true, read };
    }

    cursorKey(tenant) {
        return this.#of(tenant).cursorKey();
    }

    #of(tenant) {
        return this.#namespace.get(this.#namespace.idFromName(tenant));
    }
}

/** The offloads of one tenant. The row of an offload comes after those of its files, and without it they are not there. */
export class OffloadObject extends DurableObject {
    #bounds;
    #sql;

    constructor(context, env) {
        super(context, env);
        this.#bounds = boundsOf(env);
        this.#sql = context.storage.sql;
        this.#sql.exec(`
            CREATE TABLE IF NOT EXISTS offloads (id TEXT PRIMARY KEY, files TEXT NOT NULL, bytes INTEGER NOT NULL);
            CREATE TABLE IF NOT EXISTS pieces (id TEXT, name TEXT, at INTEGER, bytes BLOB NOT NULL, PRIMARY KEY (id, name, at));
            CREATE TABLE IF NOT EXISTS secrets (name TEXT PRIMARY KEY, bytes BLOB NOT NULL);
        `);
    }

    /** Keeps a part of a file of an offload that is not published. */
    async keep(id, name, offset, bytes) {
        for (let at = 0; at < bytes.length; at += ROW_BYTES) {
            const piece = bytes.slice(at, at + ROW_BYTES);
            this.#sql.exec("INSERT INTO pieces VALUES (?, ?, ?, ?)", id, name, offset + at, piece);
        }
        if ((await this.ctx.storage.getAlarm()) === null) {
            await this.ctx.storage.setAlarm(this.#nextSweep());
        }
    }

    /**
     * Publishes an offload, and removes what has expired and the oldest ones where it needs room; `false` if what was kept of it
     * is not these files.
     */
    publish(id, files) {
        const bytes = files.reduce((sum, { size }) => sum + size, 0);
        const { held } = this.#sql.exec("SELECT sum(length(bytes)) AS held FROM pieces WHERE id = ?", id).one();
        if (held !== bytes) {
            return false;
        }
        this.#sweep();
        const kept = this.#sql.exec("SELECT id, bytes FROM offloads ORDER BY id").toArray();
        surplus(kept, bytes, this.#bounds.tenantBytes, this.#bounds.offloads).forEach((id) => this.#remove(id));
        this.#sql.exec("INSERT INTO offloads VALUES (?, ?, ?)", id, JSON.stringify(files), bytes);
        return true;
    }

    find(id) {
        const [found] = this.#sql.exec("SELECT files FROM offloads WHERE id = ?", id);
        if (found === undefined || isExpired(id, this.#bounds)) {
            return undefined;
        }
        return { files: JSON.parse(found.files), expires: expiryOf(id, this.#bounds) };
    }

    /** Bytes of a file of an offload; `undefined` if it is not there. */
    read(id, name, offset, length) {
        const rows = this.#sql.exec(
            "SELECT at, bytes FROM pieces WHERE id = ? AND name = ? AND at > ? AND at < ? ORDER BY at",
            ...[id, name, offset - ROW_BYTES, offset + length],
        );
        const parts = [];
        for (const { at, bytes } of rows) {
            parts.push(new Uint8Array(bytes).subarray(Math.max(offset - at, 0), offset + length - at));
        }
        const found = joined(parts);
        return found.length === length ? found : undefined;
    }

    cursorKey() {
        const random = crypto.getRandomValues(new Uint8Array(32));
        this.#sql.exec("INSERT OR IGNORE INTO secrets VALUES ('cursor', ?)", random);
        const { bytes } = this.#sql.exec("SELECT bytes FROM secrets WHERE name = 'cursor'").one();
        return new Uint8Array(bytes);
    }

    async alarm() {
        this.#sweep();
        const { left } = this.#sql.exec("SELECT count(*) AS left FROM pieces").one();
        if (left > 0) {
            await this.ctx.storage.setAlarm(this.#nextSweep());
        }
    }

    /** When the next offload expires, or the files of a call that was ended are removed. */
    #nextSweep() {
        const { id } = this.#sql.exec("SELECT min(id) AS id FROM offloads").one();
        const expires = id === null ? Infinity : expiryOf(id, this.#bounds);
        return Math.min(expires, Date.now() + Math.min(STAGING_MS, this.#bounds.timeToLiveMs));
    }

    /** Removes offloads that have expired, and the files of calls that were ended. */
    #sweep() {
        const published = this.#sql.exec("SELECT id FROM offloads").toArray().map(({ id }) => id);
        for (const { id } of this.#sql.exec("SELECT DISTINCT id FROM pieces").toArray()) {
            const isLeft = !published.includes(id) && timeOf(id) + STAGING_MS <= Date.now();
            if (isExpired(id, this.#bounds) || isLeft) {
                this.#remove(id);
            }
        }
    }

    #remove(id) {
        this.#sql.exec("DELETE FROM offloads WHERE id = ?", id);
        this.#sql.exec("DELETE FROM pieces WHERE id = ?", id);
    }
}
