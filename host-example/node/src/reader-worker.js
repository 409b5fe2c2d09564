/** A thread that makes calls of the component that reads offloads, each in a new instance: `wit/adapter/reading.wit`. */

import { workerData } from "node:worker_threads";

import { failure } from "./component.js";
import { withDirectories } from "./directories.js";
import { serve } from "./jobs.js";

const READING = "lro:adapter/reading@0.1.0";

const { url, modules, limits } = workerData;
const { instantiate } = await import(url);

/** The answer of the function `name`: `ok`, or a protocol error `err`. */
function answered({ name, args, directories }) {
    const memories = [];
    const core = (module, imports) => {
        const instance = new WebAssembly.Instance(module, imports);
        memories.push(...Object.values(instance.exports).filter((value) => value instanceof WebAssembly.Memory));
        return instance;
    };
    const used = () => {
        const most = Math.max(0, ...memories.map((memory) => memory.buffer.byteLength));
        return `${most} of ${limits.memoryBytes} bytes of memory (limit memory-bytes)`;
    };
    const call = (imports) => instantiate((module) => modules[module], imports, core)[READING][name](...args);
    try {
        return { ok: withDirectories(directories, limits.openFiles, call) };
    } catch (error) {
        if (Object.hasOwn(error, "payload")) {
            return { err: error.payload };
        }
        throw failure(error, limits, false, used);
    }
}

serve(answered);
