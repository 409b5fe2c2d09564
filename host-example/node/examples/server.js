// An MCP server on standard input and output whose tool returns more than a model should read:
// node examples/server.js DIRECTORY
//
// The one line that matters is that with `filter.attach`.

import { McpServer, fromJsonSchema } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { Filter } from "lro-filter";

const [directory = "offloads"] = process.argv.slice(2);
const filter = new Filter({ directory });

const inputSchema = {
    type: "object",
    properties: { count: { type: "integer", minimum: 0, maximum: 1_000_000 } },
    required: ["count"],
};
const outputSchema = {
    type: "object",
    properties: {
        readings: {
            type: "array",
            items: {
                type: "object",
                properties: { id: { type: "integer" }, sensor: { type: "string" }, value: { type: "number" } },
                required: ["id", "sensor", "value"],
            },
        },
    },
    required: ["readings"],
};

/** The tool without a filter. */
function readings({ count }) {
    const reading = (_, id) => ({ id, sensor: `sensor-${id % 12}`, value: ((id * 7919) % 1000) / 10 });
    const structuredContent = { readings: Array.from({ length: count }, reading) };
    return { content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent };
}

serveStdio(() => {
    const server = filter.attach(new McpServer({ name: "readings", version: "1.0.0" }));
    const config = {
        description: "The latest readings of all sensors",
        inputSchema: fromJsonSchema(inputSchema),
        outputSchema: fromJsonSchema(outputSchema),
    };
    server.registerTool("readings", config, async (query) => readings({ ...query }));
    return server;
});
