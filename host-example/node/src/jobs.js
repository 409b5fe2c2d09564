/** The end of a thread that takes jobs, one after another. */

import { parentPort } from "node:worker_threads";

import { CallError } from "./error.js";

/** Answers each job with what `answered` returns or throws. */
export function serve(answered) {
    parentPort.on("message", (job) => {
        try {
            parentPort.postMessage({ answer: answered(job) });
        } catch (error) {
            const isInvalid = error instanceof TypeError;
            // Messages of other errors contain the path of the directory.
            const code = error instanceof CallError || isInvalid ? undefined : (error.code ?? "error");
            parentPort.postMessage({ error: { message: error.message, wrote: error.wrote, isInvalid, code } });
        }
    });
}
