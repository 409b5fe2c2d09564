import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

import { freshPath } from "./support.js";

const EXAMPLES = fileURLToPath(new URL("../examples/", import.meta.url));

async function connected(context, directory) {
    const client = new Client({ name: "test", version: "1.0.0" });
    const args = [`${EXAMPLES}server.js`, directory];
    await client.connect(new StdioClientTransport({ command: process.execPath, args, stderr: "pipe" }));
    context.after(() => client.close());
    return client;
}

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
});
