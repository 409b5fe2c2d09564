/**
 * A private directory of offloads: each a directory named by its ULID, published by one rename, gone when it has
 * expired.
 */

import { constants } from "node:fs";
import { lstat, mkdir, open, readdir, realpath, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { getuid } from "node:process";

import { checkFiles, falseAccount } from "./outcome.js";
import { isUlid, timeOf } from "./ulid.js";

const STAGING = ".staging-";
const REMOVING = ".removing-";

/** A directory that is not published after this time belongs to a process that is gone. */
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

    /** Makes a store of a directory, which is made with mode 0700 when it is missing. */
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

    /** Checks that the files are those of a descriptor, waits until the disk has them, and publishes them. */
    async publish(id, files) {
        const staging = this.staging(id);
        checkFiles(files, await readdir(staging));
        await Promise.all(files.map((file) => settle(join(staging, file.name), file)));
        await sync(staging);
        await rename(staging, this.path(id));
        await sync(this.#root);
    }

    /** Removes what was not published. */
    async discard(id) {
        await rm(this.staging(id), { recursive: true, force: true });
    }

    /** Removes what has expired and what a crash left behind, if the last time was a while ago. */
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

    /** Nobody sees a part of an offload: it changes its name first. */
    async #remove(name, id) {
        const removing = join(this.#root, REMOVING + id);
        if (name !== REMOVING + id) {
            // Another process may have been faster.
            await rename(join(this.#root, name), removing).catch(() => {});
        }
        await rm(removing, { recursive: true, force: true });
    }
}

/** Compares a file with what the policy told of it, and waits until the disk has it. */
async function settle(path, { name, bytes }) {
    const found = await lstat(path);
    if (!found.isFile() || found.nlink !== 1 || BigInt(found.size) !== bytes) {
        throw falseAccount(name, "its size is not the listed one, or it is no plain file");
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
