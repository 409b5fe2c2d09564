/** An MCP server on standard streams whose one tool gives a log. */

import { createInterface } from "node:readline";

const text = Array.from({ length: 10_000 }, (_, number) => `line ${number}: ${number % 1000 === 0 ? "ERROR" : "INFO"}\n`).join("");
const RESULTS = {
    initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "logs", version: "1" } },
    ping: {},
    "tools/list": { tools: [{ name: "log", inputSchema: { type: "object" } }] },
    "tools/call": { content: [{ type: "text", text }] },
};

for await (const line of createInterface({ input: process.stdin })) {
    const { id, method } = JSON.parse(line);
    if (id !== undefined) {
        const answer = method in RESULTS ? { result: RESULTS[method] } : { error: { code: -32601, message: "no such method" } };
        process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, ...answer })}\n`);
    }
}
