// Drives the TypeScript SDK 1.x client; see steps.mjs.

import { ANSWERS, CAPABILITIES, installed, run } from './steps.mjs';

const { Client } = installed('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = installed('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = installed('@modelcontextprotocol/sdk/client/streamableHttp.js');
const schemas = installed('@modelcontextprotocol/sdk/types.js');

const REQUESTS = {
    'elicitation/create': schemas.ElicitRequestSchema,
    'roots/list': schemas.ListRootsRequestSchema,
    'sampling/createMessage': schemas.CreateMessageRequestSchema
};

function transport({ command, env, url }) {
    if (url) {
        return new StreamableHTTPClientTransport(new URL(url));
    }
    const [program, ...args] = command;
    return new StdioClientTransport({ command: program, args, env });
}

// All pages of a list. This client only keeps the validators of the output schemas of the last page.
async function all(list, key) {
    const items = [];
    for (let cursor; ; ) {
        const page = await list({ cursor });
        items.push(...page[key]);
        cursor = page.nextCursor;
        if (!cursor) {
            return items;
        }
    }
}

await run(async description => {
    const capabilities = { ...CAPABILITIES, ...description.capabilities };
    const client = new Client({ name: 'lro-tests-sdk1', version: '1.0.0' }, { capabilities });
    for (const [method, reply] of Object.entries(ANSWERS)) {
        client.setRequestHandler(REQUESTS[method], reply);
    }
    await client.connect(transport(description));
    const steps = {
        tools: () => all(page => client.listTools(page), 'tools'),
        call: (params, options) => client.callTool(params, undefined, options),
        task: async params => {
            const messages = [];
            for await (const message of client.experimental.tasks.callToolStream(params)) {
                messages.push(message.error ? { ...message, error: message.error.message } : message);
            }
            return messages;
        },
        resources: () => all(page => client.listResources(page), 'resources'),
        templates: () => all(page => client.listResourceTemplates(page), 'resourceTemplates'),
        read: params => client.readResource(params),
        prompts: () => all(page => client.listPrompts(page), 'prompts'),
        prompt: params => client.getPrompt(params),
        complete: params => client.complete(params),
        ping: () => client.ping()
    };
    const about = {
        server: client.getServerVersion(),
        capabilities: client.getServerCapabilities(),
        instructions: client.getInstructions() ?? null
    };
    return { about: { ok: about }, steps, close: () => client.close() };
});
