/** A policy in a folder from `build.js`, and the threads that run its calls. */

import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { HOLDING_MEMORIES, bounded } from "./bounds.js";
import { Threads } from "./threads.js";

/** Least milliseconds for what is not bounded by the limit of a call: a thread may have to be started. */
const CHECK_MS = 10_000;

/**
 * Reads and compiles a policy, or another component with that `name`: the URL of its module, its core modules by name, and the
 * digest of both. All of it is read once, so that a folder may change while its policy runs.
 */
export async function load(folder, limits, { name = "policy", holding = HOLDING_MEMORIES, sha256 } = {}) {
    const isPart = (file) => file.startsWith(`${name}.`) && /(js|wasm)$/.test(file);
    const names = (await readdir(folder).catch(() => [])).filter(isPart).sort();
    if (!names.includes(`${name}.js`)) {
        throw new Error(
            `no ${name} in ${folder}: build the default one with \`make packages\`, ` +
                "or your own with `node build.js POLICY.wasm FOLDER`",
        );
    }
    const files = new Map();
    for (const file of names) {
        files.set(file, await readFile(join(folder, file)));
    }
    const digest = digestOf(files);
    if (sha256 !== undefined && digest !== String(sha256).toLowerCase()) {
        throw new Error(`the policy in ${folder} has the digest ${digest}, not ${sha256}`);
    }
    const modules = {};
    for (const [module, bytes] of bounded(files, limits, holding)) {
        modules[module] = await WebAssembly.compile(bytes);
    }
    const url = `data:text/javascript;base64,${files.get(`${name}.js`).toString("base64")}`;
    return { url, modules, digest };
}

/**
 * The SHA-256 of a list of the files and their SHA-256, as `sha256sum policy.* | sha256sum` prints it in the folder, in the
 * order of the locale `C`.
 */
function digestOf(files) {
    const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
    return sha256([...files].map(([name, bytes]) => `${sha256(bytes)}  ${name}\n`).join(""));
}

/** Runs calls of one policy, each in a new instance, in at most `size` threads that are reused between calls. */
export class Policy {
    #loaded;
    #limits;
    #threads;
    #users = 0;
    /** Ends `retire`; `undefined` before it. */
    #retired;

    constructor(folder, size, limits, sha256) {
        this.#threads = new Threads(new URL("./worker.js", import.meta.url), size);
        this.#limits = limits;
        this.#loaded = this.#load(folder, sha256);
        // `ready` and `call` report the error.
        this.#loaded.catch(() => {});
    }

    /** Waits until the policy is loaded, and returns its digest. Throws when it cannot be used. */
    async ready() {
        return (await this.#loaded).digest;
    }

    /** Begins to use the policy, so that it is not closed until `leave`. */
    enter() {
        this.#users += 1;
    }

    /** Ends what `enter` began. */
    leave() {
        this.#users -= 1;
        this.#closeUnused();
    }

    /** Closes the policy when nothing uses it any more. */
    retire() {
        return new Promise((resolve) => {
            this.#retired = resolve;
            this.#closeUnused();
        });
    }

    #closeUnused() {
        if (this.#retired !== undefined && this.#users === 0) {
            this.close().then(this.#retired);
        }
    }

    /**
     * The `reply` of `wit/adapter/filter.wit` to a result, whose JSON is moved to the thread as UTF-8. The files of an
     * offload are in the new directory `path`.
     *
     * Throws a `CallError` when the call does not end well, and a `TypeError` when settings or result are invalid.
     */
    async filter(request, result, path) {
        return this.#call({ name: "filter", args: [request, result], path }, this.#limits.wallTimeMs);
    }

    /** The reply to a result that could not be filtered. Throws as `filter` does. */
    async failed(request, result, reason, wrote) {
        return this.#call({ name: "failed", args: [request, result, reason, wrote] }, this.#patience());
    }

    async #call(job, wallTimeMs) {
        return this.#threads.run(await this.#loaded, job, [job.args[1].buffer], wallTimeMs);
    }

    /** Milliseconds for what the policy does not do. */
    #patience() {
        return Math.max(CHECK_MS, this.#limits.wallTimeMs);
    }

    /** Ends the threads; running calls fail. */
    async close() {
        await this.#threads.close();
    }

    async #load(folder, sha256) {
        const loaded = { ...(await load(folder, this.#limits, { sha256 })), limits: this.#limits };
        try {
            const check = { name: "check", args: ["{}"] };
            await this.#threads.run(loaded, check, [], this.#patience());
        } catch (error) {
            throw new Error(`the policy in ${folder} ${error.message}`);
        }
        return loaded;
    }
}
