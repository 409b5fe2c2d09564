/** What `build.js` bundles into one module, which the edge can load. */

export { Server, createMcpHandler } from "@modelcontextprotocol/server";
export { version } from "./package.json";
