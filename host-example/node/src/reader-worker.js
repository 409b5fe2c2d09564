/** A thread that makes calls of the component that reads offloads. */

import { workerData } from "node:worker_threads";

import { answered } from "./component.js";
import { withDirectories } from "./directories.js";
import { ReadError } from "./error.js";
import { serve } from "./jobs.js";

const { url, modules, limits } = workerData;
const { instantiate } = await import(url);

/** The answer of the function `name`: `ok`, or a protocol error `err`. */
function told({ name, args, directories }) {
    const call = (imports) => answered({ instantiate, modules }, limits, name, args, imports);
    try {
        return { ok: withDirectories(directories, limits.openFiles, call) };
    } catch (error) {
        if (error instanceof ReadError) {
            return { err: { code: error.code, message: error.message } };
        }
        throw error;
    }
}

serve(told);
