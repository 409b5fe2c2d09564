/** A policy in a folder from `build.js`, and the threads that run its calls. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";

import { bounded } from "./bounds.js";
import { CallError } from "./error.js";

/** JavaScript memory of a thread, besides linear memory and the result. */
const HEAP_MB = 256;

/** Reads and compiles a policy: the URL of its module, and its core modules by name. */
export async function load(folder, limits) {
    const names = await readdir(folder).catch(() => []);
    if (!names.includes("policy.js")) {
        throw new Error(
            `no policy in ${folder}: build the default one with \`make packages\`, ` +
                "or your own with `node build.js POLICY.wasm FOLDER`",
        );
    }
    const modules = {};
    let memories = 0;
    for (const name of names.filter((name) => name.endsWith(".wasm"))) {
        const core = bounded(await readFile(join(folder, name)), limits);
        memories += core.memories;
        modules[name] = await WebAssembly.compile(core.bytes);
    }
    if (memories > 1) {
        throw new Error(`the policy in ${folder} has ${memories} memories; one is allowed`);
    }
    return { url: pathToFileURL(join(folder, "policy.js")).href, modules };
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

    constructor(folder, size, limits) {
        this.#size = size;
        this.#limits = limits;
        this.#loaded = this.#load(folder);
        // `ready` and `call` report the error.
        this.#loaded.catch(() => {});
    }

    /** Waits until the policy is loaded. Throws when it cannot be used. */
    async ready() {
        await this.#loaded;
    }

    /**
     * Requests a verdict on parts and, when it is to offload, writes them to the new directory `path`. Returns `{
     * verdict, descriptor? }`. The bytes of the parts are moved to the thread.
     *
     * Throws a `CallError`, whose `wrote` says whether the verdict was to offload.
     */
    async call(call, parts, path) {
        const loaded = await this.#loaded;
        const buffers = new Set(parts.map((part) => part.bytes.buffer));
        return this.#run(loaded, { call, parts, path }, [...buffers]);
    }

    /** Ends the threads; running calls fail. */
    async close() {
        this.#size = 0;
        for (const { reject } of this.#waiting.splice(0)) {
            reject(new CallError("was closed"));
        }
        await Promise.all([...this.#idle.splice(0), ...this.#running].map((worker) => worker.terminate()));
    }

    async #load(folder) {
        const loaded = { ...(await load(folder, this.#limits)), limits: this.#limits };
        try {
            await this.#run(loaded, {}, []);
        } catch (error) {
            throw new Error(`the policy in ${folder} ${error.message}`);
        }
        return loaded;
    }

    async #run(loaded, job, transfer) {
        const worker = await this.#acquire(loaded);
        this.#running.add(worker);
        worker.ref();
        let isAlive = true;
        try {
            return await conversation(worker, job, transfer, this.#limits.wallTimeMs);
        } catch (error) {
            isAlive = error.isThreadAlive ?? true;
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

/** Gives a thread its job and waits for one answer per policy call, each within the time limit. */
function conversation(worker, job, transfer, wallTimeMs) {
    return new Promise((resolve, reject) => {
        let answer;
        let timer;
        const fail = (message, isThreadAlive) => {
            const error = new CallError(message);
            settle(() => reject(Object.assign(error, { isThreadAlive, wrote: answer?.verdict.tag === "offload" })));
        };
        const settle = (end) => {
            clearTimeout(timer);
            worker.off("message", receive).off("error", die).off("exit", die);
            end();
        };
        const expire = async () => {
            worker.off("message", receive).off("error", die).off("exit", die);
            // Until then the thread may still write to the directory.
            await worker.terminate();
            fail(`took longer than ${wallTimeMs} ms (limit wall-time-ms)`, false);
        };
        const die = (reason) => {
            const isMemory = reason?.code === "ERR_WORKER_OUT_OF_MEMORY";
            fail(isMemory ? `needed more than ${HEAP_MB} MiB of JavaScript memory` : "failed: its thread ended", false);
        };
        const receive = (message) => {
            clearTimeout(timer);
            if (message.error !== undefined) {
                fail(message.error, true);
                return;
            }
            answer = { ...answer, ...message };
            if (answer.verdict?.tag === "offload" && answer.descriptor === undefined) {
                timer = setTimeout(expire, wallTimeMs);
                return;
            }
            settle(() => resolve(answer));
        };
        worker.postMessage(job, transfer);
        worker.on("message", receive).on("error", die).on("exit", die);
        timer = setTimeout(expire, wallTimeMs);
    });
}
