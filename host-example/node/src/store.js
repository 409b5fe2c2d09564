/**
 * A private directory of offloads: each is a directory `TENANT/ULID`, published by one rename and removed when it has expired.
 * The layout is that of the lro-filter host, which may use the same root.
 */

import { createHash, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { link, lstat, mkdir, open, readFile, readdir, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { getuid } from "node:process";

import { CallError } from "./error.js";
import { isUlid, timeOf, ulid } from "./ulid.js";

const STAGING = ".staging-";
const REMOVING = ".removing-";

/** File with an offload's own time to live, in seconds. */
const TIME_TO_LIVE = ".ttl-seconds";

/** File with the key that signs cursors, which all processes that use the root share. */
const CURSOR_KEY = ".cursor-key";
const CURSOR_KEY_BYTES = 32;

/** Most bytes of the name of a tenant's directory. */
const TENANT_BYTES_MAX = 64;

/** A directory that is not published after this time belongs to a dead process. */
const STAGING_MS = 3_600_000;

/** Time between two sweeps. */
const SWEEP_MS = 60_000;

/** The offloads in one directory. Several processes may use the same. */
export class Store {
    #root;
    #limits;
    #sweptAt = -Infinity;
    /** Settles when the last offload was published, or not. */
    #published = Promise.resolve();

    constructor(root, limits) {
        this.#root = root;
        this.#limits = limits;
    }

    /**
     * Opens a store in a directory, which is created with mode 0700 when it is missing. `limits` are `timeToLiveMs`, and the
     * bytes of a file, `quotaFile`, and of all offloads of a tenant, `quotaTenant`.
     */
    static async open(directory, limits) {
        await mkdir(directory, { recursive: true, mode: 0o700 });
        const root = await realpath(directory);
        const { uid, mode } = await stat(root);
        if (uid !== getuid?.() || (mode & 0o022) !== 0) {
            throw new Error(`${root} belongs to another user, or others can write to it: choose a private directory`);
        }
        return new Store(root, limits);
    }

    /** Absolute path of an offload once it is published. */
    path(tenant, id) {
        return join(this.#root, safeName(tenant), id);
    }

    /** Absolute path of an offload while it is written, beside the published ones. */
    staging(tenant, id) {
        return join(this.#root, safeName(tenant), `${STAGING}${id}`);
    }

    /** The `path` of an offload, and when it `expires`, in milliseconds since 1970; `undefined` if it is not there. */
    async find(tenant, id) {
        const path = this.path(tenant, id);
        const found = isUlid(id) ? await lstat(path).catch(() => undefined) : undefined;
        if (!found?.isDirectory()) {
            return undefined;
        }
        const expires = timeOf(id) + (await this.#timeToLive(path));
        return { path, expires: Math.min(expires, Number.MAX_SAFE_INTEGER) };
    }

    /** The key that signs cursors, made by the first who needs it. Throws when others have access to it. */
    async cursorKey() {
        const path = join(this.#root, CURSOR_KEY);
        try {
            return await keyIn(path);
        } catch (error) {
            if (error.code !== "ENOENT") {
                throw error;
            }
        }
        // It appears with all its bytes, and another process may be as far.
        const made = join(this.#root, `.new-${ulid()}.tmp`);
        await writeFile(made, randomBytes(CURSOR_KEY_BYTES), { flag: "wx", mode: 0o600 });
        try {
            await link(made, path);
        } catch (error) {
            if (error.code !== "EEXIST") {
                throw error;
            }
        } finally {
            await rm(made, { force: true });
        }
        return keyIn(path);
    }

    /** Syncs the files of an offload to the disk, makes room for them, and publishes them. Throws when a quota is exceeded. */
    async publish(tenant, id, files) {
        const { quotaFile, quotaTenant } = this.#limits;
        const sizes = files.map(({ bytes }) => Number(bytes));
        const needed = sizes.reduce((sum, size) => sum + size, 0);
        if (Math.max(...sizes) > quotaFile) {
            throw new CallError(`wrote a file of more than ${quotaFile} bytes (quota-file)`, true);
        }
        if (needed > quotaTenant) {
            throw new CallError(`wrote more than ${quotaTenant} bytes (quota-tenant)`, true);
        }
        const staging = this.staging(tenant, id);
        await Promise.all(files.map(({ name }) => sync(join(staging, name))));
        await sync(staging);
        // In turn, so that no two count on the same room.
        const published = this.#published.then(async () => {
            await makeRoom(dirname(staging), quotaTenant - needed);
            await rename(staging, this.path(tenant, id));
        });
        this.#published = published.catch(() => {});
        await published;
        await sync(dirname(staging));
    }

    /** Removes an unpublished offload. What cannot be removed is left to `sweep`. */
    async discard(tenant, id) {
        await rm(this.staging(tenant, id), { recursive: true, force: true }).catch(() => {});
    }

    /** Removes expired offloads and leftovers of crashes, at most once per `SWEEP_MS`. */
    async sweep(now = Date.now()) {
        if (now - this.#sweptAt < SWEEP_MS) {
            return;
        }
        this.#sweptAt = now;
        for (const entry of await readdir(this.#root, { withFileTypes: true })) {
            if (entry.isDirectory() && !entry.name.startsWith(".")) {
                await this.#sweepTenant(join(this.#root, entry.name), now);
            }
        }
    }

    async #sweepTenant(parent, now) {
        for (const name of await readdir(parent)) {
            const id = name.replace(/^\.[a-z]+-/, "");
            if (!isUlid(id)) {
                continue;
            }
            const age = now - timeOf(id);
            const isExpired = name === id && age >= (await this.#timeToLive(join(parent, id)));
            const isLeft = name === REMOVING + id || (name === STAGING + id && age >= STAGING_MS);
            if (isExpired || isLeft) {
                await remove(parent, name, id);
            }
        }
    }

    /** An offload of the lro-filter host may have a time of its own. */
    async #timeToLive(path) {
        const text = await readFile(join(path, TIME_TO_LIVE), "latin1").catch(() => "");
        return /^\d+\s*$/.test(text) ? Number(text) * 1000 : this.#limits.timeToLiveMs;
    }
}

/** Removes the oldest offloads of a tenant, until the others have at most so many bytes. */
async function makeRoom(parent, bytesMax) {
    const ids = (await readdir(parent)).filter(isUlid).sort();
    const sizes = await Promise.all(ids.map((id) => bytesOf(join(parent, id))));
    let held = sizes.reduce((sum, size) => sum + size, 0);
    for (const [index, id] of ids.entries()) {
        if (held <= bytesMax) {
            break;
        }
        await remove(parent, id, id);
        held -= sizes[index];
    }
}

async function bytesOf(path) {
    try {
        const names = await readdir(path);
        const sizes = await Promise.all(names.map(async (name) => (await stat(join(path, name))).size));
        return sizes.reduce((sum, size) => sum + size, 0);
    } catch {
        // Another process removed it.
        return 0;
    }
}

/** Renames an offload before removing it, so that readers never see part of it. */
async function remove(parent, name, id) {
    const removing = join(parent, REMOVING + id);
    if (name !== REMOVING + id) {
        // Another process may have removed it.
        await rename(join(parent, name), removing).catch(() => {});
    }
    await rm(removing, { recursive: true, force: true });
}

/** The name of the directory of a tenant: that of the lro-filter host, distinct for distinct texts. */
function safeName(text) {
    if (text === "") {
        return "none";
    }
    if (text !== "none" && /^[A-Za-z0-9_-]{1,64}$/.test(text) && !/-[0-9a-f]{8}$/.test(text)) {
        return text;
    }
    const kept = [...text].map((character) => (/[A-Za-z0-9_-]/.test(character) ? character : "_"));
    const digest = createHash("sha256").update(text).digest("hex").slice(0, 8);
    return `${kept.slice(0, TENANT_BYTES_MAX - 9).join("")}-${digest}`;
}

async function keyIn(path) {
    const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
        const { mode, size } = await file.stat();
        if ((mode & 0o077) !== 0 || size !== CURSOR_KEY_BYTES) {
            throw new Error(`${path}: others have access to it, or it has not ${CURSOR_KEY_BYTES} bytes: remove it`);
        }
        return await file.readFile();
    } finally {
        await file.close();
    }
}

async function sync(path) {
    const file = await open(path, constants.O_RDONLY);
    try {
        await file.sync();
    } finally {
        await file.close();
    }
}
