/** A thread that makes calls, one after another, and writes the files of an offload to a directory. */

import { createHash } from "node:crypto";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";

import { called, pieces } from "./component.js";
import { serve } from "./jobs.js";
import { received } from "./pieces.js";

const { url, modules, limits } = workerData;
const { instantiate } = await import(url);

function answered({ name, args, text, path }) {
    const wrote = () => parentPort.postMessage({ wrote: true });
    const given = text === undefined ? args : args.toSpliced(1, 0, received(text));
    const { answer, files, digested } = called({ instantiate, modules }, limits, name, given, wrote);
    if (answer?.outcome !== "offload") {
        return answer;
    }
    makeDirectory(path);
    const written = (file) => write(join(path, file.name), pieces(files, file), Number(file.digestFrom));
    // Node has the instructions of the processor for it, which a component has not.
    const reply = digested(answer.files.map(written));
    if (reply.outcome === "offload") {
        reply.files.slice(answer.files.length).forEach(written);
    } else {
        // The manifest could not be written.
        rmSync(path, { recursive: true });
    }
    return reply;
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

/** Writes a file; returns the digest of its bytes from an offset on. */
function write(path, pieces, digestFrom) {
    const file = openSync(path, "wx", 0o600);
    const hash = createHash("sha256");
    let skipped = digestFrom;
    try {
        for (const piece of pieces) {
            hash.update(piece.subarray(skipped));
            skipped = Math.max(0, skipped - piece.length);
            for (let at = 0; at < piece.length; ) {
                at += writeSync(file, piece, at);
            }
            // Frees its memory: left to the garbage collector, the pieces make it run twice as often.
            piece.buffer.transfer(0);
        }
    } finally {
        closeSync(file);
    }
    return hash.digest();
}

serve(answered);
