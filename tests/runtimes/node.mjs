// Runs the vectors of replies in Node: node node.mjs COMPONENT.wasm VECTORS_DIR INPUTS_DIR
//
// The time is that of a whole result, from its JSON to the reply and the files in a directory, in a thread of the package.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { LIMITS } from "../../host-example/node/src/limits.js";
import { Policy } from "../../host-example/node/src/policy.js";
import { prepared, report, sha256 } from "./runner.mjs";

const BUILD = fileURLToPath(new URL("../../host-example/node/build.js", import.meta.url));
const JCO = new URL("../../host-example/node/node_modules/@bytecodealliance/jco/package.json", import.meta.url);

const { component, vectors, inputs, scratch } = prepared("node.mjs");
execFileSync(process.execPath, [BUILD, component, join(scratch, "policy")], { stdio: ["ignore", "ignore", "inherit"] });
const policy = new Policy(join(scratch, "policy"), 1, LIMITS);
await policy.ready();
const path = join(scratch, "tenant/offload");

await report({
    runtime: `Node ${process.versions.node}, jco ${JSON.parse(readFileSync(JCO, "utf8")).version}`,
    component,
    vectors,
    inputs,
    filtered,
    timed,
    peakBytes: () => process.resourceUsage().maxRSS * 1024,
});
await policy.close();

async function filtered(request, result) {
    rmSync(path, { recursive: true, force: true });
    const encoded = new TextEncoder().encode(result);
    const { outcome, toolResult } = await policy.filter(request, encoded, path);
    const names = existsSync(path) ? readdirSync(path) : [];
    const files = names.map((name) => {
        const bytes = readFileSync(join(path, name));
        return [name, { bytes: bytes.length, sha256: sha256(bytes) }];
    });
    return { outcome, reply: toolResult ?? null, files: Object.fromEntries(files) };
}

async function timed(request, result) {
    rmSync(path, { recursive: true, force: true });
    const start = performance.now();
    await policy.filter(request, new TextEncoder().encode(result), path);
    return performance.now() - start;
}
