/** A policy in a folder from `build.js`, and the threads that run its calls. */

import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Worker } from "node:worker_threads";

import { bounded } from "./bounds.js";
import { CallError } from "./error.js";

/** JavaScript memory of a thread, besides linear memory and the result. */
const HEAP_MB = 256;

/** Least milliseconds for what is not bounded by the limit of a call: a thread may have to be started. */
const CHECK_MS = 10_000;

/**
 * Reads and compiles a policy: the URL of its module, its core modules by name, and the digest of both. All of it is read once,
 * so that a folder may change while its policy runs.
 */
export async function load(folder, limits, sha256) {
    const names = (await readdir(folder).catch(() => [])).filter((name) => /^policy\..*(js|wasm)$/.test(name)).sort();
    if (!names.includes("policy.js")) {
        throw new Error(
            `no policy in ${folder}: build the default one with \`make packages\`, ` +
                "or your own with `node build.js POLICY.wasm FOLDER`",
        );
    }
    const files = new Map();
    for (const name of names) {
        files.set(name, await readFile(join(folder, name)));
    }
    const digest = digestOf(files);
    if (sha256 !== undefined && digest !== String(sha256).toLowerCase()) {
        throw new Error(`the policy in ${folder} has the digest ${digest}, not ${sha256}`);
    }
    const modules = {};
    for (const [name, bytes] of bounded(files, limits)) {
        modules[name] = await WebAssembly.compile(bytes);
    }
    const url = `data:text/javascript;base64,${files.get("policy.js").toString("base64")}`;
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
    #size;
    #threads = 0;
    #idle = [];
    #waiting = [];
    #running = new Set();
    #users = 0;
    /** Ends `retire`; `undefined` before it. */
    #retired;

    constructor(folder, size, limits, sha256) {
        this.#size = size;
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
        return this.#run(await this.#loaded, job, [job.args[1].buffer], wallTimeMs);
    }

    /** Milliseconds for what the policy does not do. */
    #patience() {
        return Math.max(CHECK_MS, this.#limits.wallTimeMs);
    }

    /** Ends the threads; running calls fail. */
    async close() {
        this.#size = 0;
        for (const { reject } of this.#waiting.splice(0)) {
            reject(new CallError("was closed"));
        }
        await Promise.all([...this.#idle.splice(0), ...this.#running].map((worker) => worker.terminate()));
    }

    async #load(folder, sha256) {
        const loaded = { ...(await load(folder, this.#limits, sha256)), limits: this.#limits };
        try {
            const check = { name: "check", args: ["{}"] };
            await this.#run(loaded, check, [], this.#patience());
        } catch (error) {
            throw new Error(`the policy in ${folder} ${error.message}`);
        }
        return loaded;
    }

    async #run(loaded, job, transfer, wallTimeMs) {
        const worker = await this.#acquire(loaded);
        this.#running.add(worker);
        worker.ref();
        let isAlive = true;
        try {
            return await conversation(worker, job, transfer, wallTimeMs);
        } catch (error) {
            isAlive = error.isThreadAlive;
            throw error;
        } finally {
            this.#running.delete(worker);
            this.#release(worker, isAlive);
        }
    }

    /** A free thread; a waiting call replaces a thread that died. */
    async #acquire(loaded) {
        if (this.#size === 0) {
            throw new CallError("was closed");
        }
        if (this.#idle.length > 0) {
            return this.#idle.pop();
        }
        if (this.#threads < this.#size) {
            this.#threads += 1;
            return this.#start(loaded);
        }
        const worker = await new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
        return worker ?? this.#start(loaded);
    }

    #start(workerData) {
        const worker = new Worker(new URL("./worker.js", import.meta.url), {
            workerData,
            env: {},
            execArgv: [],
            // Its standard output may be a server's connection.
            stdout: true,
            resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
        });
        worker.on("error", () => {});
        return worker;
    }

    #release(worker, isAlive) {
        worker.unref();
        const next = this.#waiting.shift();
        if (next !== undefined) {
            next.resolve(isAlive ? worker : undefined);
        } else if (isAlive && this.#size > 0) {
            this.#idle.push(worker);
        } else {
            this.#threads -= 1;
        }
    }
}

/** Gives a thread its job and waits for the answer, within the time limit. */
function conversation(worker, job, transfer, wallTimeMs) {
    return new Promise((resolve, reject) => {
        let wrote = false;
        const settle = (end) => {
            clearTimeout(timer);
            worker.off("message", receive).off("error", die).off("exit", die);
            end();
        };
        const fail = (error, isThreadAlive) => settle(() => reject(Object.assign(error, { isThreadAlive })));
        const expire = async () => {
            worker.off("message", receive).off("error", die).off("exit", die);
            // Until then the thread may still write to the directory.
            await worker.terminate();
            fail(new CallError(`took longer than ${wallTimeMs} ms (limit wall-time-ms)`, wrote), false);
        };
        const die = (reason) => {
            const isMemory = reason?.code === "ERR_WORKER_OUT_OF_MEMORY";
            const why = isMemory ? `needed more than ${HEAP_MB} MiB of JavaScript memory` : "failed: its thread ended";
            fail(new CallError(why, wrote), false);
        };
        const receive = ({ answer, error, wrote: isWriting }) => {
            if (isWriting) {
                wrote = true;
            } else if (error === undefined) {
                settle(() => resolve(answer));
            } else {
                fail(raised(error), true);
            }
        };
        worker.postMessage(job, transfer);
        worker.on("message", receive).on("error", die).on("exit", die);
        const timer = setTimeout(expire, wallTimeMs);
    });
}

/** The error of a thread. */
function raised({ message, wrote, isInvalid, code }) {
    if (isInvalid) {
        return new TypeError(message);
    }
    return code === undefined ? new CallError(message, wrote) : Object.assign(new Error(message), { code });
}
