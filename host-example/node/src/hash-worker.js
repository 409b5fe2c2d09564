/** A thread that computes the SHA-256 of files while another writes them: the other end of `hashes.js`. */

import { createHash } from "node:crypto";
import { closeSync, constants, openSync, readSync } from "node:fs";
import { parentPort, workerData } from "node:worker_threads";

const BLOCK_BYTES = 256 * 1024;

const { port, answers } = workerData;
const block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
const begun = new Map();

parentPort.on("message", ({ number, path, from, to }) => {
    if (number === undefined) {
        begun.forEach((_, number) => end(number));
    } else if (path === undefined) {
        port.postMessage(end(number));
        Atomics.add(answers, 0, 1);
        Atomics.notify(answers, 0);
    } else {
        add(begunAt(number, path), from, to);
    }
});

function begunAt(number, path) {
    if (!begun.has(number)) {
        const digest = { hash: createHash("sha256") };
        attempt(digest, () => (digest.file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW)));
        begun.set(number, digest);
    }
    return begun.get(number);
}

function add(digest, from, to) {
    attempt(digest, () => {
        for (let at = from; at < to; ) {
            const count = readSync(digest.file, block, 0, Math.min(block.length, to - at), at);
            if (count === 0) {
                throw new Error("a file is shorter than what was written to it");
            }
            digest.hash.update(block.subarray(0, count));
            at += count;
        }
    });
}

/** Ends a digest; returns it, or the code of the error that prevents it. */
function end(number) {
    const { hash = createHash("sha256"), file, code } = begun.get(number) ?? {};
    begun.delete(number);
    if (file !== undefined) {
        closeSync(file);
    }
    return code === undefined ? { digest: hash.digest() } : { code };
}

/** Takes a step of a digest unless one before failed. */
function attempt(digest, step) {
    try {
        if (digest.code === undefined) {
            step();
        }
    } catch (error) {
        digest.code = error.code ?? "error";
    }
}
