/** SHA-256 of files, computed by another thread while this one writes them. The thread is started when it is needed. */

import { MessageChannel, Worker, receiveMessageOnPort } from "node:worker_threads";

/** JavaScript memory of the thread, which holds one block of a file. */
const HEAP_MB = 32;

export class Hashes {
    #thread;
    #port;
    #answers = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    #begun = 0;
    #answered = 0;
    #isClear = true;

    /** The number of a new digest, of no bytes so far. */
    begin() {
        this.#begun += 1;
        return this.#begun;
    }

    /** Adds the bytes `from` to `to` of a file, which it has already. A digest is of one file, wherever that is later. */
    add(number, path, from, to) {
        this.#thread ??= this.#start();
        this.#thread.postMessage({ number, path, from, to });
        this.#isClear = false;
    }

    /** Waits for a digest. Throws when the file could not be read. */
    digest(number) {
        this.#thread.postMessage({ number });
        Atomics.wait(this.#answers, 0, this.#answered);
        this.#answered += 1;
        const { digest, code } = receiveMessageOnPort(this.#port).message;
        if (code !== undefined) {
            throw Object.assign(new Error("a file cannot be read again"), { code });
        }
        return digest;
    }

    /** Forgets the digests that nobody waited for. */
    clear() {
        if (!this.#isClear) {
            this.#thread.postMessage({});
            this.#isClear = true;
        }
    }

    #start() {
        const { port1, port2 } = new MessageChannel();
        this.#port = port1;
        const thread = new Worker(new URL("./hash-worker.js", import.meta.url), {
            workerData: { port: port2, answers: this.#answers },
            transferList: [port2],
            env: {},
            execArgv: [],
            stdout: true,
            resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
        });
        // It ends with the thread that it serves.
        thread.unref();
        return thread;
    }
}
