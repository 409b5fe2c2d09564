/** A thread that makes calls, one after another, and writes the files of an offload to a directory. */

import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";

import { called, pieces } from "./component.js";
import { serve } from "./jobs.js";

const { url, modules, limits } = workerData;
const { instantiate } = await import(url);

function answered({ name, args, path }) {
    const wrote = () => parentPort.postMessage({ wrote: true });
    const { answer, files } = called({ instantiate, modules }, limits, name, args, wrote);
    if (answer?.files?.length > 0) {
        makeDirectory(path);
        answer.files.forEach((file) => write(join(path, file.name), pieces(files, file)));
    }
    return answer;
}

/** Makes the directory of an offload, and that of its tenant, whose parent must be there. */
function makeDirectory(path) {
    try {
        mkdirSync(dirname(path), { mode: 0o700 });
    } catch (error) {
        if (error.code !== "EEXIST") {
            throw error;
        }
    }
    mkdirSync(path, { mode: 0o700 });
}

function write(path, pieces) {
    const file = openSync(path, "wx", 0o600);
    try {
        for (const piece of pieces) {
            for (let at = 0; at < piece.length; ) {
                at += writeSync(file, piece, at);
            }
        }
    } finally {
        closeSync(file);
    }
}

serve(answered);
