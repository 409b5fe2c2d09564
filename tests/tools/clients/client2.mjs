// Drives the TypeScript client 2.x; see steps.mjs. "era" is `legacy`, `auto`, or a revision to insist on. Default: `auto`.

import { ANSWERS, CAPABILITIES, installed, run } from './steps.mjs';

const { Client, StreamableHTTPClientTransport } = installed('@modelcontextprotocol/client');
const { StdioClientTransport } = installed('@modelcontextprotocol/client/stdio');

function transport({ command, env, url }) {
    if (url) {
        return new StreamableHTTPClientTransport(new URL(url));
    }
    const [program, ...args] = command;
    return new StdioClientTransport({ command: program, args, env });
}

function negotiation(era = 'auto') {
    return { mode: ['legacy', 'auto'].includes(era) ? era : { pin: era } };
}

await run(async description => {
    const options = { capabilities: CAPABILITIES, versionNegotiation: negotiation(description.era) };
    const client = new Client({ name: 'lro-tests-client2', version: '1.0.0' }, options);
    for (const [method, reply] of Object.entries(ANSWERS)) {
        client.setRequestHandler(method, reply);
    }
    await client.connect(transport(description));
    // Without a cursor this client goes through all pages itself.
    const steps = {
        tools: async () => (await client.listTools()).tools,
        call: (params, options) => client.callTool(params, options),
        resources: async () => (await client.listResources()).resources,
        templates: async () => (await client.listResourceTemplates()).resourceTemplates,
        read: params => client.readResource(params),
        prompts: async () => (await client.listPrompts()).prompts,
        prompt: params => client.getPrompt(params),
        complete: params => client.complete(params),
        ping: () => client.ping()
    };
    const about = {
        server: client.getServerVersion(),
        capabilities: client.getServerCapabilities(),
        instructions: client.getInstructions() ?? null,
        revision: client.getNegotiatedProtocolVersion()
    };
    return { about: { ok: about }, steps, close: () => client.close() };
});
