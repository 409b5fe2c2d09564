/**
 * Filters tool results and serves the files behind them from memory.
 *
 *     POST /filter?tool=NAME       a CallToolResult → the CallToolResult that goes on
 *     GET /offloads/HANDLE/FILE    a file of an offload
 *
 * Further parameters are `session` and `query`; settings are JSON in the header `lro-settings`. Every request needs the
 * token of the binding `TOKEN`, in the header `authorization: Bearer TOKEN`.
 */

import { callRecord, checkCall } from "../node/src/call.js";
import { inspect, write } from "../node/src/component.js";
import { DEFAULTS } from "../node/src/defaults.js";
import { LIMITS } from "../node/src/limits.js";
import { FAILURE_MODES, afterFailure, answered, checkDescriptor, checkFiles, reason } from "../node/src/outcome.js";
import { encoded, takeApart } from "../node/src/result.js";
import { SETTING_NAMES, checkNames, expect, policySettings } from "../node/src/settings.js";
import { ulid } from "../node/src/ulid.js";
import { MemoryDirectory, MemoryStore } from "./memory.js";
import { policy } from "./policy.js";

const FILE = /^\/offloads\/([0-9A-Z]{26})\/([A-Za-z0-9._-]+)$/;
const NAMES = ["failure", ...SETTING_NAMES];

let store;

export default {
    async fetch(request, env) {
        const refusal = await refused(request, env.TOKEN);
        if (refusal !== undefined) {
            return refusal;
        }
        store ??= new MemoryStore(Number(env.TOTAL_BYTES), Number(env.TTL_SECONDS) * 1000);
        const url = new URL(request.url);
        if (request.method === "POST" && url.pathname === "/filter") {
            return filter(request, url, env);
        }
        const [, id, name] = FILE.exec(url.pathname) ?? [];
        if (request.method === "GET" && id !== undefined) {
            return serve(id, name);
        }
        return problem(404, "POST /filter?tool=NAME, or GET a file of an offload");
    },
};

/** The answer to a request without the token. */
async function refused(request, token) {
    if (!token) {
        return problem(503, "no token is set: set the variable LRO_EDGE_TOKEN, from which the binding TOKEN is taken");
    }
    const [, given] = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
    if (given !== undefined && (await isSame(given, token))) {
        return undefined;
    }
    const headers = { "www-authenticate": "Bearer" };
    return problem(401, "expected the token of this worker: authorization: Bearer TOKEN", headers);
}

/** Whether two texts are equal. Compares every byte of their digests, so that the time reveals nothing. */
async function isSame(one, other) {
    const digest = async (text) =>
        new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
    const [first, second] = [await digest(one), await digest(other)];
    return first.reduce((difference, byte, index) => difference | (byte ^ second[index]), 0) === 0;
}

/** Serves a file as a download, so that a browser cannot run its data on this origin. */
function serve(id, name) {
    const file = store.get(id, name);
    if (file === undefined) {
        return problem(404, "there is no such file, or it has expired: call the tool again");
    }
    const headers = {
        "content-type": "application/octet-stream",
        "content-disposition": `attachment; filename="${name}"`,
        "x-content-type-options": "nosniff",
        "cache-control": "private",
    };
    return new Response(file.bytes, { headers });
}

async function filter(request, url, env) {
    let call, settings, failure, result, taken;
    try {
        ({ call, settings, failure } = asked(request, url));
        result = JSON.parse(await body(request, Number(env.BODY_BYTES)));
        taken = takeApart(result);
    } catch (error) {
        return problem(error.status ?? 400, error.message);
    }
    return Response.json(
        taken === undefined ? result : decided(call, settings, failure, url.origin, result, taken, env),
    );
}

/** The parameters of a request. */
function asked(request, url) {
    const call = Object.fromEntries(url.searchParams);
    checkCall(call);
    const given = JSON.parse(request.headers.get("lro-settings") ?? "{}");
    checkNames(given, NAMES, "lro-settings");
    const { failure = DEFAULTS.failure } = given;
    expect(FAILURE_MODES.includes(failure), "failure", FAILURE_MODES.join(", "), failure);
    return { call, settings: policySettings(given), failure };
}

/** The body of a request of at most `bytesMax` bytes. */
async function body(request, bytesMax) {
    const chunks = [];
    let bytes = 0;
    for await (const chunk of request.body ?? []) {
        bytes += chunk.length;
        if (bytes > bytesMax) {
            throw Object.assign(new Error(`the result has more than ${bytesMax} bytes (BODY_BYTES)`), { status: 413 });
        }
        chunks.push(chunk);
    }
    return new Blob(chunks).text();
}

/** The result to send. Links to the files follow a descriptor: clients with the token may read them. */
function decided(call, settings, failure, origin, result, taken, env) {
    const id = ulid();
    const address = `${origin}/offloads/${id}`;
    // The reader has neither a shell with these files nor a tool that reads them, so the descriptor shows the handle.
    const record = callRecord(call, id, result.isError === true, address, {}, settings);
    const limits = { ...LIMITS, writtenBytes: Number(env.TOTAL_BYTES) };
    const parts = encoded(taken.parts);
    let verdict;
    try {
        verdict = inspect(policy, record, parts, limits);
        if (verdict.tag !== "offload") {
            return answered(result, taken, verdict);
        }
        const directory = new MemoryDirectory();
        const descriptor = write(policy, record, parts, verdict.val, directory, limits);
        checkDescriptor(descriptor, settings);
        checkFiles(descriptor.files, directory.names());
        store.publish(id, descriptor.files, directory);
        const reply = answered(result, taken, verdict, descriptor);
        reply.content.push(...descriptor.files.map((file) => link(address, file)));
        return reply;
    } catch (error) {
        const why = reason(error);
        console.warn(`${call.tool}: ${why}`);
        return afterFailure(result, taken, failure, verdict?.tag === "offload", why, settings);
    }
}

function link(address, { name, mediaType, bytes }) {
    return { type: "resource_link", uri: `${address}/${name}`, name, mimeType: mediaType, size: Number(bytes) };
}

function problem(status, message, headers = {}) {
    return Response.json({ error: message }, { status, headers });
}
