/** A filter around the tools of a server of the TypeScript SDK, and its own tools and resources beside those of the server. */

import { widened } from "./adapter.js";
import { ReadError } from "./error.js";
import { MISSING_RESOURCE } from "./questions.js";
import { GUIDANCE, TEMPLATE, TOOLS } from "./reader.js";

const INVALID_PARAMS = -32_602;
const METHOD_NOT_FOUND = -32_601;

/** Filters with a server that lists a tool of the name of an own one: it keeps it. */
const CONFLICTS = new WeakSet();

/** The ability to use an own tool. */
const ABILITIES = { lro_extract: "extractTool", lro_read: "readTool" };

/** What a server answers that has no tools or no resources itself. */
const NOTHING = {
    "tools/list": () => ({ tools: [] }),
    "tools/call": ({ params }) => {
        throw new ReadError(INVALID_PARAMS, `there is no tool ${params?.name}`);
    },
    "resources/list": () => ({ resources: [] }),
    "resources/templates/list": () => ({ resourceTemplates: [] }),
    "resources/read": ({ params }) => {
        throw new ReadError(MISSING_RESOURCE, `there is no resource ${params?.uri}`);
    },
};

/**
 * Filters the answers of a server, an `McpServer` or its `Server`, whose tools are registered later, for a tenant. Without
 * `abilities` it has all own tools, and readers that do not come over HTTP also have a shell.
 */
export function attach(filter, server, tenant, abilities) {
    const protocol = server.server ?? server;
    const abilitiesOf = (context) => abilities ?? { shell: !isHttp(context), extractTool: true, readTool: true };
    const own = TOOLS.filter(({ name }) => abilitiesOf()[ABILITIES[name]]);
    const changes = { ...filtering(filter, tenant, own, abilitiesOf), ...(own.length > 0 ? reading(filter, tenant) : {}) };
    for (const method of Object.keys(changes)) {
        try {
            protocol.assertCanSetRequestHandler(method);
        } catch (cause) {
            const of = method.startsWith("tools") ? "tool" : "resource";
            const way = `attach before the first ${of} is registered, to a server without \`capabilities.${of}s\``;
            throw new Error(`the server has a handler of ${method} already: ${way}`, { cause });
        }
    }
    if (own.length > 0) {
        protocol.registerCapabilities({ tools: {}, resources: {} });
    }
    const set = protocol.setRequestHandler.bind(protocol);
    protocol.setRequestHandler = (method, ...others) => {
        // Version 1 of the SDK names the method in a schema.
        const change = changes[method?.shape?.method?.value ?? method];
        if (change === undefined) {
            return set(method, ...others);
        }
        const handler = others.pop();
        const changed = async (request, context) => change(request, async () => handler(request, context), context);
        return set(method, ...others, changed);
    };
    if (own.length > 0) {
        answerAlone(protocol, changes);
        instruct(protocol);
    }
}

/** What becomes of requests about tools, by their method; `next` gives the answer of the server. */
function filtering(filter, tenant, own, abilitiesOf) {
    const names = new Set(own.map(({ name }) => name));
    return {
        "tools/list": async (_request, next) => {
            const list = widened(await next());
            if (list.tools.some(({ name }) => names.has(name))) {
                CONFLICTS.add(filter);
            }
            return isLast(list) && !CONFLICTS.has(filter) ? { ...list, tools: [...list.tools, ...own] } : list;
        },
        "tools/call": async ({ params }, next, context) => {
            const { name: tool, arguments: query } = params ?? {};
            const hasConflict = CONFLICTS.has(filter);
            // Of two tools with one name, the own one has the calls about offloads of here.
            if (names.has(tool) && (!hasConflict || (await filter.hasOffload(query?.handle, { tenant })))) {
                return filter.callTool(tool, query, { tenant });
            }
            const result = await next();
            const given = abilitiesOf(context);
            const abilities = hasConflict ? { shell: given.shell } : given;
            return filter.apply({ tool, query, session: context?.sessionId, tenant, abilities }, result);
        },
    };
}

/** What becomes of requests about resources, by their method. */
function reading(filter, tenant) {
    return {
        "resources/templates/list": async (_request, next) => {
            const list = await next();
            return isLast(list) ? { ...list, resourceTemplates: [...list.resourceTemplates, TEMPLATE] } : list;
        },
        "resources/read": async ({ params }, next, context) => {
            const uri = params?.uri;
            // Only clients from the revision 2026-07-28 on send an envelope.
            const isModern = context?.mcpReq?.envelope !== undefined;
            const isOwn = typeof uri === "string" && uri.startsWith("lro://");
            const found = isOwn ? await filter.readResource(uri, { tenant, isModern }) : undefined;
            return found ?? next();
        },
    };
}

/** Answers the methods for which the server has no handler. */
function answerAlone(protocol, changes) {
    const fallback = protocol.fallbackRequestHandler;
    protocol.fallbackRequestHandler = async (request, context) => {
        const next = async () => {
            if (fallback !== undefined) {
                return fallback(request, context);
            }
            if (!Object.hasOwn(NOTHING, request.method)) {
                throw new ReadError(METHOD_NOT_FOUND, "Method not found");
            }
            return NOTHING[request.method](request);
        };
        const change = Object.hasOwn(changes, request.method) ? changes[request.method] : undefined;
        return change === undefined ? next() : change(request, next, context);
    };
}

/** Adds instructions about the own tools for the model. Neither version of the SDK has a method for it. */
function instruct(protocol) {
    protocol._instructions = [protocol._instructions, GUIDANCE].filter(Boolean).join("\n\n");
}

/** Whether a page of a list is the last. */
function isLast({ nextCursor }) {
    return nextCursor === undefined || nextCursor === null;
}

/** Whether a request came over HTTP, from what may be another machine: the versions 2 and 1 of the SDK. */
function isHttp(context) {
    return context?.http !== undefined || context?.requestInfo !== undefined;
}
