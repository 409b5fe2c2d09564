// The worker in which `edge.mjs` runs the vectors: the component and the limits of the worker of `host-example/edge`.
//
// POST / with `{ request, result }` answers `{ outcome, reply, files }`; PUT / with a result, then GET / filters it.

import { modules } from "../../host-example/edge/component/modules.js";
import { instantiate } from "../../host-example/edge/component/policy.js";
import { filtered } from "../../host-example/edge/filtered.js";
import { LIMITS } from "../../host-example/edge/limits.js";

const POLICY = { instantiate, modules };

let kept;

export default {
    async fetch(http) {
        switch (http.method) {
            case "PUT":
                kept = [JSON.parse(http.headers.get("request")), new Uint8Array(await http.arrayBuffer())];
                return new Response("");
            case "GET":
                return new Response((await filtered(POLICY, LIMITS, ...kept)).reply.outcome);
            default: {
                const { request, result } = await http.json();
                return Response.json(await described(await filtered(POLICY, LIMITS, request, new TextEncoder().encode(result))));
            }
        }
    },
};

async function described({ reply: { outcome, toolResult: reply = null }, files }) {
    const digests = files.map(async ({ name, bytes }) => [name, { bytes: bytes.length, sha256: await sha256(bytes) }]);
    return { outcome, reply, files: Object.fromEntries(await Promise.all(digests)) };
}

async function sha256(bytes) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
