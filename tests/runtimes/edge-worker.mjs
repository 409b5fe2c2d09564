// The worker in which `edge.mjs` runs the vectors: the component and the limits of the worker of `host-example/edge`.
//
// POST / with `{ request, result }` answers `{ outcome, reply, files }`; PUT / with a result, then GET / filters it.

import { joined } from "../../host-example/node/src/bytes.js";
import { called, pieces } from "../../host-example/node/src/component.js";
import { modules } from "../../host-example/edge/component/modules.js";
import { instantiate } from "../../host-example/edge/component/policy.js";
import { LIMITS } from "../../host-example/edge/limits.js";

let kept;

export default {
    async fetch(http) {
        switch (http.method) {
            case "PUT":
                kept = [JSON.parse(http.headers.get("request")), new Uint8Array(await http.arrayBuffer())];
                return new Response("");
            case "GET":
                return new Response(filtered(...kept).answer.outcome);
            default: {
                const { request, result } = await http.json();
                return Response.json(await described(filtered(request, new TextEncoder().encode(result))));
            }
        }
    },
};

/** The answer, and the files in memory. */
function filtered(request, result) {
    const { answer, files } = called({ instantiate, modules }, LIMITS, "filter", [request, result]);
    return { answer, files: answer.files.map((file) => [file.name, joined([...pieces(files, file)])]) };
}

async function described({ answer, files }) {
    const digests = files.map(async ([name, bytes]) => [name, { bytes: bytes.length, sha256: await sha256(bytes) }]);
    const { outcome, toolResult: reply = null } = answer;
    return { outcome, reply, files: Object.fromEntries(await Promise.all(digests)) };
}

async function sha256(bytes) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
