import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { McpServer } from "@modelcontextprotocol/server";

import { TARGET, filterFor, freshPath } from "./support.js";

const EXAMPLES = fileURLToPath(new URL("../examples/", import.meta.url));

async function connected(context, directory, args = [`${EXAMPLES}server.js`, directory]) {
    const client = new Client({ name: "test", version: "1.0.0" });
    const cwd = fileURLToPath(new URL("..", import.meta.url));
    await client.connect(new StdioClientTransport({ command: process.execPath, args, cwd, stderr: "pipe" }));
    context.after(() => client.close());
    return client;
}

/** A program whose server has a tool of 3,000 items, registered on `server` with the options `tool` and the function `items`. */
function program(directory, imports, server, end) {
    return `
        ${imports}
        import { Filter, offloadable } from "lro-filter";
        const filter = new Filter({ directory: ${JSON.stringify(directory)} });
        const structuredContent = { items: Array.from({ length: 3000 }, (_, id) => ({ id, text: "a long text" })) };
        const items = async () => ({ content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent });
        const item = { type: "object", properties: { id: { type: "integer" } }, required: ["id"] };
        const schema = { type: "object", properties: { items: { type: "array", items: item } }, required: ["items"] };
        ${server}
        ${end}`;
}

const SDK = join(TARGET, "test-data/mcp/node_modules/@modelcontextprotocol/sdk");

const PROGRAMS = {
    "with `apply` and `offloadable`": (directory) => program(
        directory,
        `import { McpServer, fromJsonSchema } from "@modelcontextprotocol/server";
         import { serveStdio } from "@modelcontextprotocol/server/stdio";`,
        `const server = new McpServer({ name: "test", version: "1.0.0" });
         const tool = { outputSchema: fromJsonSchema(offloadable(schema)) };
         server.registerTool("items", tool, async () => filter.apply({ tool: "items" }, await items()));`,
        "serveStdio(() => server);",
    ),
    "of version 1": (directory) => program(
        directory,
        `import { McpServer } from "${SDK}/dist/esm/server/mcp.js";
         import { StdioServerTransport } from "${SDK}/dist/esm/server/stdio.js";
         import { z } from "${SDK}/../../zod/index.js";`,
        `const server = filter.attach(new McpServer({ name: "test", version: "1.0.0" }));
         const outputSchema = { items: z.array(z.object({ id: z.number(), text: z.string() })) };
         server.registerTool("items", { outputSchema }, items);`,
        "await server.connect(new StdioServerTransport());",
    ),
};

for (const [name, of] of Object.entries(PROGRAMS)) {
    test(`a server ${name} answers with a descriptor that fits its schema`, async (t) => {
        const client = await connected(t, undefined, ["--input-type=module", "-e", of(freshPath())]);
        const { tools } = await client.listTools();
        assert.equal(tools[0].outputSchema.anyOf.length, 2);
        const { structuredContent } = await client.callTool({ name: "items" });
        assert.equal(structuredContent.summary.items.count, 3000);
        assert.equal(readFileSync(structuredContent.files.items, "utf8").trimEnd().split("\n").length, 3001);
    });
}

test("a server that has tools already is refused", async (t) => {
    const filter = filterFor(t, { threshold: 100 });
    const server = new McpServer({ name: "test", version: "1.0.0" });
    server.registerTool("a", {}, async () => ({ content: [] }));
    assert.throws(() => filter.attach(server), /a handler of tools\/list already: attach before the first tool/);
});

test("a server on the TypeScript SDK answers with a descriptor, and the file holds every record", async (t) => {
    const client = await connected(t, freshPath());
    const { tools } = await client.listTools();
    assert.equal(tools[0].outputSchema.anyOf.length, 2);
    const result = await client.callTool({ name: "readings", arguments: { count: 20_000 } });
    const { offloaded, files, summary } = result.structuredContent;
    assert.equal(offloaded, true);
    assert.equal(summary.readings.count, 20_000);
    assert.deepEqual(JSON.parse(result.content[0].text), result.structuredContent);
    assert.ok(JSON.stringify(result).length < 4000);

    const [header, ...lines] = readFileSync(files.readings, "utf8").trimEnd().split("\n");
    const { type, operation, count, query } = JSON.parse(header);
    assert.deepEqual(
        { type, operation, count, query },
        {
            type: "mcp_lro",
            operation: "readings",
            count: 20_000,
            query: '{"count":20000}',
        },
    );
    const expected = Array.from({ length: 20_000 }, (_, id) => {
        return `{"id":${id},"sensor":"sensor-${id % 12}","value":${((id * 7919) % 1000) / 10}}`;
    });
    assert.deepEqual(lines, expected);
    assert.equal(statSync(files.readings).mode & 0o777, 0o600);
    assert.equal(statSync(dirname(files.readings)).mode & 0o777, 0o700);
    assert.equal(statSync(dirname(dirname(files.readings))).mode & 0o777, 0o700);
});

test("what the server returns within the threshold goes through as it is", async (t) => {
    const client = await connected(t, freshPath());
    const result = await client.callTool({ name: "readings", arguments: { count: 2 } });
    const readings = [
        { id: 0, sensor: "sensor-0", value: 0 },
        { id: 1, sensor: "sensor-1", value: 91.9 },
    ];
    assert.deepEqual(result.structuredContent, { readings });
    assert.equal(result.content[0].text, JSON.stringify({ readings }));
});

test("the example client runs as the README says", () => {
    const output = execFileSync(process.execPath, [`${EXAMPLES}client.js`, freshPath()], { encoding: "utf8" });
    assert.match(output, /^20000 readings: \{"offloaded":true,/m);
    assert.match(output, /^\{"id":1,"sensor":"sensor-1","value":91\.9\}$/m);
    assert.match(output, /^over 99: 180$/m);
});
