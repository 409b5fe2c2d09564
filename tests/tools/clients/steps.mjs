// Shared by the drivers of the two TypeScript clients.
//
// A driver reads one JSON object per line and answers each with one line, {"ok": …} or {"error": …}, until its input
// ends. The first line says how to connect: {"command": ["program", "argument", …], "env": {…}} or {"url": "http://…"},
// and optionally "era", and "capabilities" beside those below. Each later line has one member, the name of a step: {"call": {"name": …, "arguments": {…}}}. A
// last member "progress": true adds the progress notifications of the server. "timeout" is the time of a call in milliseconds,
// which begins anew with each of them.

import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

// The folder in which the clients are installed, which is not that of this file.
export const installed = createRequire(`${process.env.MCP_MODULES}/`);

// Answers input requests of the server: each kind has one fixed answer.
export const CAPABILITIES = { elicitation: { form: {} }, roots: {}, sampling: {} };
export const ANSWERS = {
    'elicitation/create': () => ({ action: 'decline' }),
    'roots/list': () => ({ roots: [{ uri: 'file:///nowhere', name: 'nowhere' }] }),
    'sampling/createMessage': request => ({
        model: 'none',
        role: 'assistant',
        content: { type: 'text', text: `${request.params.messages.length} messages read` }
    })
};

// `connect` gets the first line and returns what to answer it with, the steps by name, and how to end.
export async function run(connect) {
    const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
    const { value: first } = await lines.next();
    const session = await answer(async () => {
        const { about, ...session } = await connect(JSON.parse(first));
        return [session, about];
    });
    if (!session) {
        process.exit(1);
    }
    for await (const line of lines) {
        await answer(async () => [true, await step(session.steps, JSON.parse(line))]);
    }
    await session.close();
    process.exit(0);
}

async function step(steps, { progress, timeout, ...rest }) {
    const [[name, argument]] = Object.entries(rest);
    if (!steps[name]) {
        throw new Error(`there is no step ${name}`);
    }
    const options = timeout ? { timeout, resetTimeoutOnProgress: true } : undefined;
    if (!progress) {
        return { ok: await steps[name](argument, options) };
    }
    const told = [];
    return { ok: await steps[name](argument, { ...options, onprogress: one => told.push(one) }), progress: told };
}

async function answer(work) {
    let [done, line] = [undefined, undefined];
    try {
        [done, line] = await work();
    } catch (error) {
        line = { error: { name: error.name, code: error.code, message: error.message, data: error.data } };
    }
    await new Promise(written => process.stdout.write(`${JSON.stringify(line)}\n`, written));
    return done;
}
