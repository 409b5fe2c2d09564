/** Filters a result by a composed component. */

import { called, pieces } from "../node/src/component.js";

/**
 * The `reply` of `wit/adapter/filter.wit` to a result as UTF-8, and the `files` of an offload, `{ name, bytes }`. Throws as `called` does.
 *
 * The runtime computes SHA-256, with instructions of the processor that a component has not.
 */
export async function filtered(policy, limits, request, result) {
    const { answer, files, digested } = called(policy, limits, "filterUndigested", [request, result]);
    if (answer.outcome !== "offload") {
        return { reply: answer, files: [] };
    }
    const read = (file) => ({ name: file.name, bytes: bytesOf(files, file) });
    const written = answer.files.map(read);
    const reply = digested(await Promise.all(answer.files.map((file, index) => sha256(written[index].bytes, file.digestFrom))));
    const added = reply.outcome === "offload" ? reply.files.slice(written.length) : [];
    return { reply, files: [...written, ...added.map(read)] };
}

/** The bytes of a file. Its pieces are freed at once, and not left to the garbage collector. */
function bytesOf(files, file) {
    const bytes = new Uint8Array(Number(file.bytes));
    let at = 0;
    for (const piece of pieces(files, file)) {
        bytes.set(piece, at);
        at += piece.length;
        piece.buffer.transfer(0);
    }
    return bytes;
}

async function sha256(bytes, from) {
    return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes.subarray(Number(from))));
}
