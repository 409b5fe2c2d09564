/** A thread that makes calls, one after another, and writes the files of an offload to a directory. */

import { parentPort, workerData } from "node:worker_threads";

import { called } from "./component.js";
import { Hashes } from "./hashes.js";
import { serve } from "./jobs.js";
import { NO_DIRECTORY, withDirectory } from "./output.js";
import { received } from "./pieces.js";

const { url, modules, limits } = workerData;
const { instantiate } = await import(url);
const hashes = new Hashes();

function answered({ name, args, text, path }) {
    const given = text === undefined ? args : args.toSpliced(1, 0, received(text));
    const call = (imports) => called({ instantiate, modules }, limits, name, given, { wrote, imports });
    if (path === undefined) {
        return call(NO_DIRECTORY).answer;
    }
    return withDirectory(path, hashes, (imports, sha256) => {
        const { answer, digested } = call(imports);
        // Node has the instructions of the processor for it, which a component has not.
        return answer.outcome === "offload" ? digested(answer.files.map(sha256)) : answer;
    });
}

function wrote() {
    parentPort.postMessage({ wrote: true });
}

serve(answered);
