/** A thread that runs calls of one policy, one after another. */

import { mkdirSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";

import { check, inspect, write } from "./component.js";
import { CallError } from "./error.js";
import { Directory } from "./files.js";

const { url, modules, limits } = workerData;
const { instantiate } = await import(url);
const policy = { instantiate, modules };

function answer({ call, parts, path }) {
    if (call === undefined) {
        check(policy, limits);
        return {};
    }
    const verdict = inspect(policy, call, parts, limits);
    if (verdict.tag !== "offload") {
        return { verdict };
    }
    parentPort.postMessage({ verdict });
    mkdirSync(path, { mode: 0o700 });
    return { descriptor: write(policy, call, parts, verdict.val, new Directory(path), limits) };
}

parentPort.on("message", (job) => {
    try {
        parentPort.postMessage(answer(job));
    } catch (error) {
        // Messages of other errors contain the path of the directory.
        const isOfCall = error instanceof CallError;
        parentPort.postMessage({
            error: isOfCall ? error.message : `has a directory that could not be made: ${error.code}`,
        });
    }
});
