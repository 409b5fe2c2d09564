// The worker in which `edge.mjs` runs the vectors: the policy, the file system and the contract of the edge example.
//
// POST / with a vector, including large texts, returns the answer and the files; GET / repeats the last write.

import { MemoryDirectory } from "../../host-example/edge/memory.js";
import { policy } from "../../host-example/edge/policy.js";
import { answer, partsOf, writeAgain } from "./vectors.mjs";

let vector;
let parts;

export default {
    async fetch(request) {
        if (request.method === "GET") {
            writeAgain(policy, vector, parts, new MemoryDirectory());
            return new Response("");
        }
        vector = await request.json();
        parts = partsOf(vector);
        const directory = new MemoryDirectory();
        const answered = answer(policy, vector, parts, directory);
        const files = {};
        for (const [name, file] of directory.files) {
            files[name] = { bytes: file.size(), sha256: await sha256(file.bytes()) };
        }
        return Response.json({ answered, files });
    },
};

async function sha256(bytes) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
