/** An MCP server with the tools `lro_extract` and `lro_read`, and offloads as resources, over Streamable HTTP. */

import { answered } from "../node/src/component.js";
import { ReadError } from "../node/src/error.js";
import { MISSING_RESOURCE, Questions } from "../node/src/questions.js";
import { modules } from "./component/reader-modules.js";
import { instantiate } from "./component/reader.js";
import { Server, createMcpHandler, version } from "./component/sdk.js";
import { Offloads } from "./directories.js";
import { QUESTION_LIMITS } from "./limits.js";

const READER = { instantiate, modules };

const questions = new Questions(ask, (reason) => console.warn(reason));

/** The definitions of the tools, instructions about them, and the template of the resources: the component has them. */
let shown;

/** The answer to a request about the offloads of a tenant. */
export function answer(request, store, tenant) {
    return createMcpHandler(() => serverFor(store, tenant)).fetch(request);
}

/** The answer of the component about offloads. It is asked again whenever bytes that it wanted have come. */
async function ask(name, args, found) {
    const offloads = new Offloads(found);
    for (;;) {
        try {
            return asked(name, args, offloads);
        } catch (error) {
            if (!(await offloads.arrived())) {
                throw error;
            }
        }
    }
}

function asked(name, args, offloads = new Offloads([])) {
    return answered(READER, QUESTION_LIMITS, name, args, offloads.imports());
}

function serverFor(store, tenant) {
    shown ??= {
        tools: asked("tools", []).map((tool) => JSON.parse(tool)),
        instructions: asked("guidance", []),
        template: JSON.parse(asked("template", [])),
    };
    const { tools, instructions, template } = shown;
    const capabilities = { tools: {}, resources: {} };
    const server = new Server({ name: "lro-filter", version }, { capabilities, instructions });
    server.setRequestHandler("tools/list", () => ({ tools }));
    server.setRequestHandler("tools/call", ({ params }) => {
        if (!tools.some(({ name }) => name === params.name)) {
            throw new ReadError(-32_602, `there is no tool ${params.name}`);
        }
        return questions.call(store, tenant, params.name, params.arguments);
    });
    server.setRequestHandler("resources/list", () => ({ resources: [] }));
    server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: [template] }));
    server.setRequestHandler("resources/read", async ({ params: { uri } }, context) => {
        // Only clients from the revision 2026-07-28 on send an envelope.
        const isModern = context.mcpReq.envelope !== undefined;
        const found = await questions.resource(store, tenant, uri, isModern);
        if (found === undefined) {
            throw new ReadError(MISSING_RESOURCE, `there is no resource ${uri}`);
        }
        return found;
    });
    return server;
}
