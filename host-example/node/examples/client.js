// Calls the tool of the example server, prints the reply, reads the file behind it, and asks about it: node
// examples/client.js DIRECTORY

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [directory = "offloads"] = process.argv.slice(2);
const server = fileURLToPath(new URL("server.js", import.meta.url));
const client = new Client({ name: "example", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command: process.execPath, args: [server, directory] }));

for (const count of [3, 20_000]) {
    // The client checks the structured content against the tool's output schema.
    const result = await client.callTool({ name: "readings", arguments: { count } });
    console.log(`${count} readings:`, result.content[0].text, "\n");
    const { offloaded, handle, files } = result.structuredContent;
    if (offloaded) {
        const [header, first, second] = readFileSync(files.readings, "utf8").split("\n");
        console.log([files.readings, header.trim(), first, second, "…"].join("\n"));
        // So does a client that has no shell.
        const question = { handle, section: "readings", where: "value > 99", count: true };
        const answer = await client.callTool({ name: "lro_extract", arguments: question });
        console.log("over 99:", answer.structuredContent.results[0].count);
    }
}
await client.close();
