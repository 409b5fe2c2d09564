// An MCP server on standard streams that knows revision 2026-07-28 alone.
//
//     node modern.mjs MODULES
//
// MODULES is the folder in which `@modelcontextprotocol/server` is installed.

import { createRequire } from 'node:module';

const installed = createRequire(`${process.argv[2]}/`);
const { Server, inputRequired } = installed('@modelcontextprotocol/server');
const { serveStdio } = installed('@modelcontextprotocol/server/stdio');

const SCHEMA = { type: 'object', properties: { text: { type: 'string' } } };
const TOOLS = ['echo', 'large', 'ask', 'steps'].map(name => ({ name, inputSchema: SCHEMA }));
const RECORDS = Array.from({ length: 2_000 }, (_, id) => ({ id, name: `record ${id}`, even: id % 2 === 0 }));
const QUESTION = { message: 'Go on?', requestedSchema: { type: 'object', properties: {} } };
const ALL = { messages: [{ role: 'user', content: { type: 'text', text: 'Say something.' } }], maxTokens: 10 };

function text(text) {
    return { content: [{ type: 'text', text }] };
}

async function call({ params }, context) {
    const request = context.mcpReq;
    switch (params.name) {
        case 'large':
            return { content: [{ type: 'text', text: 'records' }], structuredContent: { items: RECORDS } };
        case 'ask': {
            const answers = request.inputResponses;
            if (!answers) {
                return inputRequired({
                    inputRequests: {
                        question: inputRequired.elicit(QUESTION),
                        roots: inputRequired.listRoots(),
                        model: inputRequired.createMessage(ALL)
                    },
                    requestState: 'asked'
                });
            }
            return text(JSON.stringify([answers.question.action, answers.roots.roots.length, answers.model.model]));
        }
        case 'steps': {
            const progressToken = request._meta?.progressToken;
            for (const progress of [1, 2]) {
                await request.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 2 } });
                // The SDK 1.x drops progress that comes at once with the answer.
                await new Promise(done => setTimeout(done, 100));
            }
            return text('done');
        }
        default:
            return text(params.arguments?.text ?? '');
    }
}

serveStdio(
    () => {
        const capabilities = { tools: { listChanged: true }, resources: {}, prompts: {} };
        const server = new Server({ name: 'modern', version: '1.0.0' }, { capabilities, instructions: 'Only modern.' });
        server.setRequestHandler('tools/list', () => ({ tools: TOOLS }));
        server.setRequestHandler('tools/call', call);
        server.setRequestHandler('resources/list', () => ({ resources: [{ uri: 'test://note', name: 'note' }] }));
        server.setRequestHandler('resources/read', ({ params }) => ({ contents: [{ uri: params.uri, text: 'a note' }] }));
        server.setRequestHandler('prompts/list', () => ({ prompts: [{ name: 'greet' }] }));
        server.setRequestHandler('prompts/get', () => ({ messages: [{ role: 'user', content: { type: 'text', text: 'Hi' } }] }));
        return server;
    },
    { legacy: 'reject' }
);
