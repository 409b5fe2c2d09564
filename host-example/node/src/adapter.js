/** Calls of the default composed component in this thread: quick ones, in which no policy takes part. */

import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

// Missing? `make packages` puts it there.
import { instantiate } from "../component/policy.js";
import { called } from "./component.js";
import { LIMITS } from "./limits.js";
import { NO_DIRECTORY } from "./output.js";

const NODE_LEAST = 22;

if (Number.parseInt(process.versions.node, 10) < NODE_LEAST) {
    const why = "before, WebAssembly has one memory";
    throw new Error(`lro-filter needs Node ${NODE_LEAST} or later (${why}); this is ${process.version}`);
}

/** Folder of the default policy. */
export const FOLDER = fileURLToPath(new URL("../component/", import.meta.url));

let modules;

function call(name, ...args) {
    modules ??= Object.fromEntries(
        readdirSync(FOLDER)
            .filter((name) => /^policy\..*wasm$/.test(name))
            .map((name) => [name, new WebAssembly.Module(readFileSync(`${FOLDER}${name}`))]),
    );
    return called({ instantiate, modules }, LIMITS, name, args, { imports: NO_DIRECTORY }).answer;
}

/** Throws a `TypeError` that names an invalid setting. */
export function checkSettings(settings) {
    call("check", settings);
}

/**
 * The output schema, a JSON Schema, of a tool whose results are filtered: its own results, descriptors and truncated
 * results satisfy it.
 */
export function offloadable(schema) {
    return widened({ tools: [{ name: "tool", inputSchema: { type: "object" }, outputSchema: schema }] }).tools[0].outputSchema;
}

/** The result of `tools/list` with such output schemas. */
export function widened(list) {
    return JSON.parse(call("toolsList", "{}", JSON.stringify(list), []));
}
