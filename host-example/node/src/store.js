/**
 * A private directory of offloads: each is a directory named by its ULID, published by one rename and removed when it
 * has expired.
 */

import { constants } from "node:fs";
import { lstat, mkdir, open, readdir, realpath, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { getuid } from "node:process";

import { checkFiles, falseAccount } from "./outcome.js";
import { isUlid, timeOf } from "./ulid.js";

const STAGING = ".staging-";
const REMOVING = ".removing-";

/** A directory that is not published after this time belongs to a dead process. */
const STAGING_MS = 3_600_000;

/** Time between two sweeps. */
const SWEEP_MS = 60_000;

/** The offloads in one directory. Several processes may use the same. */
export class Store {
    #root;
    #timeToLiveMs;
    #sweptAt = -Infinity;

    constructor(root, timeToLiveMs) {
        this.#root = root;
        this.#timeToLiveMs = timeToLiveMs;
    }

    /** Opens a store in a directory, which is created with mode 0700 when it is missing. */
    static async open(directory, timeToLiveMs) {
        await mkdir(directory, { recursive: true, mode: 0o700 });
        const root = await realpath(directory);
        const { uid, mode } = await stat(root);
        if (uid !== getuid?.() || (mode & 0o022) !== 0) {
            throw new Error(`${root} belongs to another user, or others can write to it: choose a private directory`);
        }
        return new Store(root, timeToLiveMs);
    }

    /** Absolute path of an offload once it is published. */
    path(id) {
        return join(this.#root, id);
    }

    /** Absolute path of an offload while it is written. */
    staging(id) {
        return join(this.#root, `${STAGING}${id}`);
    }

    /** Checks that the files are those of a descriptor, syncs them to the disk, and publishes them. */
    async publish(id, files) {
        const staging = this.staging(id);
        checkFiles(files, await readdir(staging));
        await Promise.all(files.map((file) => settle(join(staging, file.name), file)));
        await sync(staging);
        await rename(staging, this.path(id));
        await sync(this.#root);
    }

    /** Removes an unpublished offload. */
    async discard(id) {
        await rm(this.staging(id), { recursive: true, force: true });
    }

    /** Removes expired offloads and leftovers of crashes, at most once per `SWEEP_MS`. */
    async sweep(now = Date.now()) {
        if (now - this.#sweptAt < SWEEP_MS) {
            return;
        }
        this.#sweptAt = now;
        for (const name of await readdir(this.#root)) {
            const id = name.replace(/^\.[a-z]+-/, "");
            if (!isUlid(id)) {
                continue;
            }
            const age = now - timeOf(id);
            const isExpired = name === id && age >= this.#timeToLiveMs;
            const isLeft = name === REMOVING + id || (name === STAGING + id && age >= STAGING_MS);
            if (isExpired || isLeft) {
                await this.#remove(name, id);
            }
        }
    }

    /** Renames an offload before removing it, so that readers never see part of it. */
    async #remove(name, id) {
        const removing = join(this.#root, REMOVING + id);
        if (name !== REMOVING + id) {
            // Another process may have removed it.
            await rename(join(this.#root, name), removing).catch(() => {});
        }
        await rm(removing, { recursive: true, force: true });
    }
}

/** Checks a file against the policy's report, and syncs it to the disk. */
async function settle(path, { name, bytes }) {
    const found = await lstat(path);
    if (!found.isFile() || found.nlink !== 1 || BigInt(found.size) !== bytes) {
        throw falseAccount(name, "its size differs from the listed one, or it is not a regular file");
    }
    await sync(path);
}

async function sync(path) {
    const file = await open(path, constants.O_RDONLY);
    try {
        await file.sync();
    } finally {
        await file.close();
    }
}
