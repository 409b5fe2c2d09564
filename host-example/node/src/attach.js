/** A filter around the tools of a server of the TypeScript SDK. */

import { widened } from "./adapter.js";

/** What becomes of the answer to a request, by its method. */
const CHANGES = {
    "tools/list": (_filter, _request, list) => widened(list),
    "tools/call": (filter, { params }, result, context) => {
        const call = { tool: params.name, query: params.arguments, session: context?.sessionId };
        return filter.apply(call, result);
    },
};

/** Filters the answers of a server, an `McpServer` or its `Server`, whose tools are registered later. */
export function attach(filter, server) {
    const protocol = server.server ?? server;
    for (const method of Object.keys(CHANGES)) {
        try {
            protocol.assertCanSetRequestHandler(method);
        } catch (cause) {
            const way = "attach before the first tool is registered, to a server without `capabilities.tools`";
            throw new Error(`the server has a handler of ${method} already: ${way}`, { cause });
        }
    }
    const set = protocol.setRequestHandler.bind(protocol);
    protocol.setRequestHandler = (method, ...others) => {
        // Version 1 of the SDK names the method in a schema.
        const change = CHANGES[method?.shape?.method?.value ?? method];
        if (change === undefined) {
            return set(method, ...others);
        }
        const handler = others.pop();
        const changed = async (request, context) => change(filter, request, await handler(request, context), context);
        return set(method, ...others, changed);
    };
}
