// Runs the vectors in Node: node node.mjs COMPONENT.wasm VECTORS_DIR INPUTS_DIR
//
// The time is that of one call of `write-sections`, including its instance and real files.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { Directory } from "../../host-example/node/src/files.js";
import { LIMITS } from "../../host-example/node/src/limits.js";
import { load } from "../../host-example/node/src/policy.js";
import { prepared, report } from "./runner.mjs";
import { answer, difference, partsOf, writeAgain } from "./vectors.mjs";

const BUILD = fileURLToPath(new URL("../../host-example/node/build.js", import.meta.url));

const { component, vectors, inputs, scratch } = prepared("node.mjs");
execFileSync(process.execPath, [BUILD, component, join(scratch, "policy")], { stdio: ["ignore", "ignore", "inherit"] });
const { url, modules } = await load(join(scratch, "policy"), LIMITS);
const { instantiate } = await import(url);
const policy = { instantiate, modules };

/** State of the last vector. */
let parts;

await report({
    runtime: `Node ${process.versions.node}, jco ${jcoVersion()}`,
    component,
    vectors,
    tried: (vector) => {
        parts = partsOf(vector, (input) => new Uint8Array(readFileSync(join(inputs, input))));
        return inDirectory((path) =>
            difference(vector, answer(policy, vector, parts, new Directory(path)), filesOf(path)),
        );
    },
    timed: (vector) => inDirectory((path) => timed(vector, path)),
    peakBytes: () => process.resourceUsage().maxRSS * 1024,
});

function inDirectory(action) {
    const path = mkdtempSync(join(scratch, "files-"));
    try {
        return action(path);
    } finally {
        rmSync(path, { recursive: true });
    }
}

function timed(vector, path) {
    const start = performance.now();
    writeAgain(policy, vector, parts, new Directory(path));
    return performance.now() - start;
}

function filesOf(path) {
    const entries = readdirSync(path).map((name) => {
        const bytes = readFileSync(join(path, name));
        return [name, { bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") }];
    });
    return Object.fromEntries(entries);
}

function jcoVersion() {
    const modules = join(BUILD, "../node_modules/@bytecodealliance/jco/package.json");
    return JSON.parse(readFileSync(modules, "utf8")).version;
}
