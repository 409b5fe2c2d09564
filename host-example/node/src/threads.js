/** Threads that run jobs, one after another. */

import { Worker } from "node:worker_threads";

import { CallError } from "./error.js";
import { post } from "./pieces.js";

/** JavaScript memory of a thread, besides linear memory and the result. */
const HEAP_MB = 256;

/** Runs jobs in at most `size` threads of a script, which are reused between jobs and ended at the time limit. */
export class Threads {
    #script;
    #size;
    #started = 0;
    #idle = [];
    #waiting = [];
    #running = new Set();

    constructor(script, size) {
        this.#script = script;
        this.#size = size;
    }

    /** Ends the threads; running jobs fail. */
    async close() {
        this.#size = 0;
        for (const { reject } of this.#waiting.splice(0)) {
            reject(new CallError("was closed", false, false));
        }
        await Promise.all([...this.#idle.splice(0), ...this.#running].map((worker) => worker.terminate()));
    }

    /**
     * The answer to a job, which gets `text` if there is one. Throws a `CallError` when it does not end well, and a
     * `TypeError` when the job is invalid.
     */
    async run(data, job, wallTimeMs, text) {
        const worker = await this.#acquire(data);
        this.#running.add(worker);
        worker.ref();
        let isAlive = true;
        try {
            return await conversation(worker, job, wallTimeMs, text);
        } catch (error) {
            isAlive = error.isThreadAlive;
            throw error;
        } finally {
            this.#running.delete(worker);
            this.#release(worker, isAlive);
        }
    }

    /** A free thread; a waiting call replaces a thread that died. */
    async #acquire(data) {
        if (this.#size === 0) {
            throw new CallError("was closed", false, false);
        }
        if (this.#idle.length > 0) {
            return this.#idle.pop();
        }
        if (this.#started < this.#size) {
            this.#started += 1;
            return this.#start(data);
        }
        const worker = await new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
        return worker ?? this.#start(data);
    }

    #start(workerData) {
        const worker = new Worker(this.#script, {
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
            this.#started -= 1;
        }
    }
}

/** Gives a thread its job and waits for the answer, within the time limit. */
function conversation(worker, job, wallTimeMs, text) {
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
        worker.on("message", receive).on("error", die).on("exit", die);
        const timer = setTimeout(expire, wallTimeMs);
        if (text === undefined) {
            worker.postMessage(job);
        } else {
            post(worker, job, text);
        }
    });
}

/** The error of a thread. */
function raised({ message, wrote, isInvalid, code }) {
    if (isInvalid) {
        return new TypeError(message);
    }
    return code === undefined ? new CallError(message, wrote) : Object.assign(new Error(message), { code });
}
