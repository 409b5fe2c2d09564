/**
 * Filters tool results, serves the files behind them, and answers questions about them.
 *
 *     POST /filter?tool=NAME       a CallToolResult → the CallToolResult that goes on
 *     GET /offloads/HANDLE/FILE    a file of an offload
 *     POST /mcp                    MCP: the tools `lro_extract` and `lro_read`, and offloads as resources
 *
 * Further parameters are `tenant`, and for `/filter` `session` and `query`; settings are JSON in the header `lro-settings`.
 * Every request needs a token, in the header `authorization: Bearer TOKEN`: that of the binding `TOKEN`, which is good for all
 * tenants, or that of a tenant in `TENANTS`.
 */

import { joined } from "../node/src/bytes.js";
import { called } from "../node/src/component.js";
import { CallError } from "../node/src/error.js";
import { DEFAULT_TENANT, requestOf, settingsJson } from "../node/src/settings.js";
import { ulid } from "../node/src/ulid.js";
import { modules } from "./component/modules.js";
import { instantiate } from "./component/policy.js";
import { filtered } from "./filtered.js";
import { LIMITS } from "./limits.js";
import { answer } from "./mcp.js";
import { boundsOf } from "./room.js";
import { storeOf, streamed } from "./stores.js";

export { OffloadObject } from "./object.js";

const FILE = /^\/offloads\/([0-9A-Z]{26})\/([A-Za-z0-9._-]+)$/;
const POLICY = { instantiate, modules };

export default {
    async fetch(request, env) {
        const { refusal, tenant } = await authorized(request, env);
        if (refusal !== undefined) {
            return refusal;
        }
        let store;
        try {
            store = storeOf(env);
        } catch (error) {
            return problem(503, error.message);
        }
        const url = new URL(request.url);
        const named = url.searchParams.get("tenant") ?? tenant ?? DEFAULT_TENANT;
        const [, id, name] = FILE.exec(url.pathname) ?? [];
        if (request.method === "GET" && id !== undefined) {
            // The files of another tenant are not there.
            return tenant === undefined || named === tenant ? serve(store, named, id, name) : notFound();
        }
        if (tenant !== undefined && named !== tenant) {
            return problem(403, "the token is that of another tenant");
        }
        if (request.method === "POST" && url.pathname === "/filter") {
            return filter(request, url, env, named, store);
        }
        if (url.pathname === "/mcp") {
            return answer(request, store, named);
        }
        return problem(404, "POST /filter?tool=NAME, GET a file of an offload, or use MCP at /mcp");
    },
};

/** The `tenant` of the token of a request, `undefined` for that of all; or the `refusal` of a request without one. */
async function authorized(request, env) {
    const tokens = tokensOf(env);
    if (tokens === undefined) {
        return { refusal: problem(503, "the binding TENANTS is not a JSON object of tenants and their tokens") };
    }
    if (tokens.length === 0) {
        const way = "set the variable LRO_EDGE_TOKEN, from which the binding TOKEN is taken, or LRO_EDGE_TENANTS";
        return { refusal: problem(503, `no token is set: ${way}`) };
    }
    const [, given = ""] = /^Bearer +(\S+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
    // All of them, so that the time does not say which is the one.
    const found = await Promise.all(tokens.map(async ([, token]) => isSame(given, token)));
    const index = found.indexOf(true);
    if (index !== -1) {
        return { tenant: tokens[index][0] };
    }
    const headers = { "www-authenticate": "Bearer" };
    return { refusal: problem(401, "expected a token of this worker: authorization: Bearer TOKEN", headers) };
}

/** Each tenant and its token, `undefined` in the place of the tenant for that of all; `undefined` if they cannot be read. */
function tokensOf({ TOKEN, TENANTS }) {
    try {
        const tenants = Object.entries(JSON.parse(TENANTS || "{}"));
        const areTokens = tenants.every(([, token]) => typeof token === "string" && token !== "");
        return areTokens ? [...(TOKEN ? [[undefined, TOKEN]] : []), ...tenants] : undefined;
    } catch {
        return undefined;
    }
}

/** Whether two texts are equal. Compares every byte of their digests, so that the time reveals nothing. */
async function isSame(one, other) {
    const digest = async (text) =>
        new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
    const [first, second] = [await digest(one), await digest(other)];
    return first.reduce((difference, byte, index) => difference | (byte ^ second[index]), 0) === 0;
}

/** Serves a file as a download, so that a browser cannot run its data on this origin. */
async function serve(store, tenant, id, name) {
    const offload = await store.find(tenant, id);
    const file = offload?.files.find((file) => file.name === name);
    if (file === undefined) {
        return notFound();
    }
    const headers = {
        "content-type": "application/octet-stream",
        "content-disposition": `attachment; filename="${name}"`,
        "x-content-type-options": "nosniff",
        "cache-control": "private",
    };
    return new Response(streamed(offload, file), { headers });
}

function notFound() {
    return problem(404, "there is no such file, or it has expired: call the tool again");
}

async function filter(request, url, env, tenant, store) {
    const { totalBytes, tenantBytes, bodyBytes } = boundsOf(env);
    try {
        const limits = { ...LIMITS, writtenBytes: Math.min(totalBytes, tenantBytes) };
        const asked = requested(request, url, tenant, limits);
        const result = await body(request, bodyBytes);
        return new Response(await decided(asked, result, store), { headers: { "content-type": "application/json" } });
    } catch (error) {
        if (error instanceof TypeError || error instanceof SyntaxError) {
            return problem(error.status ?? 400, error.message);
        }
        throw error;
    }
}

/** The `request` of `wit/adapter/filter.wit`. */
function requested(request, url, tenant, limits) {
    // The tenant that was compared with the token, should the parameter be there twice.
    const call = requestOf({ ...Object.fromEntries(url.searchParams), tenant });
    const { limits: forbidden, ...settings } = JSON.parse(request.headers.get("lro-settings") ?? "{}");
    if (forbidden !== undefined) {
        throw new TypeError("`limits` are set where the worker is built");
    }
    const id = ulid();
    // The reader has no shell with these files, so the descriptor shows the handle.
    const shownPath = `${url.origin}/offloads/${id}`;
    const abilities = { extractTool: true, readTool: true };
    return { ...call, id, shownPath, abilities, settings: settingsJson(settings, limits) };
}

/** The body of a request, at most `bytesMax` bytes. */
async function body(request, bytesMax) {
    const chunks = [];
    let bytes = 0;
    for await (const chunk of request.body ?? []) {
        bytes += chunk.length;
        if (bytes > bytesMax) {
            const error = new TypeError(`the result has more than ${bytesMax} bytes (BODY_BYTES)`);
            throw Object.assign(error, { status: 413 });
        }
        chunks.push(chunk);
    }
    return joined(chunks);
}

/** The result to send. */
async function decided(request, result, store) {
    let reply;
    try {
        const found = await filtered(POLICY, LIMITS, request, result);
        reply = found.reply;
        if (reply.outcome === "offload") {
            await published(store, request, found.files);
            return linked(reply.toolResult, request, found.files);
        }
    } catch (error) {
        if (error instanceof TypeError) {
            throw error;
        }
        const isOfPolicy = error instanceof CallError;
        const reason = isOfPolicy ? `the policy ${error.message}` : `the files could not be kept: ${error.code}`;
        const { answer } = called(POLICY, LIMITS, "failed", [request, result, reason, error.wrote ?? true]);
        reply = answer;
    }
    if (reply.failure !== undefined) {
        console.warn(`${request.tool}: ${reply.failure.reason}`);
    }
    return reply.toolResult ?? result;
}

/** Publishes files. What is wrong with the store goes to the log, and to the client only the code. */
async function published(store, { tenant, id }, files) {
    try {
        await store.publish(tenant, id, files);
    } catch (error) {
        console.warn(`the files of ${id} could not be kept: ${error.message}`);
        throw Object.assign(new Error(error.message), { code: error.code ?? "EIO" });
    }
}

/** The reply with links to the files after the descriptor: clients with the token may read them. */
function linked(reply, { shownPath, tenant }, files) {
    const manifest = files.find(({ name }) => name === "manifest.json");
    const { record } = JSON.parse(new TextDecoder().decode(manifest.bytes));
    const whose = tenant === DEFAULT_TENANT ? "" : `?${new URLSearchParams({ tenant })}`;
    const links = record.files.map(({ name, media_type: mimeType, bytes: size }) => {
        return { type: "resource_link", uri: `${shownPath}/${name}${whose}`, name, mimeType, size };
    });
    const result = JSON.parse(reply);
    result.content.push(...links);
    return JSON.stringify(result);
}

function problem(status, message, headers = {}) {
    return Response.json({ error: message }, { status, headers });
}
