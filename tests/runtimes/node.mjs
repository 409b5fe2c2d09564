// Runs the vectors in Node: node node.mjs COMPONENT.wasm VECTORS_DIR INPUTS_DIR
//
// The time is that of one call of `write-sections`, its instance and real files included.

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

import { Directory } from "../../host-example/node/src/files.js";
import { LIMITS } from "../../host-example/node/src/limits.js";
import { load } from "../../host-example/node/src/policy.js";
import { MEASURED, answer, difference, median, partsOf, writeAgain } from "./vectors.mjs";

const BUILD = fileURLToPath(new URL("../../host-example/node/build.js", import.meta.url));
const WARM_UP = 1;
const RUNS = 5;

const [component, vectors, inputs] = process.argv.slice(2);
if (inputs === undefined) {
    console.error("usage: node node.mjs COMPONENT.wasm VECTORS_DIR INPUTS_DIR");
    process.exit(2);
}
const scratch = mkdtempSync(join(tmpdir(), "lro-vectors-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));

execFileSync(process.execPath, [BUILD, component, join(scratch, "policy")], { stdio: ["ignore", "ignore", "inherit"] });
const { url, modules } = await load(join(scratch, "policy"), LIMITS);
const { instantiate } = await import(url);
const policy = { instantiate, modules };

const report = {
    runtime: `Node ${process.versions.node}, jco ${jcoVersion()}`,
    component: createHash("sha256").update(readFileSync(component)).digest("hex"),
    passed: 0,
    failed: [],
    milliseconds: null,
};
for (const file of readdirSync(vectors)
    .filter((name) => name.endsWith(".json"))
    .sort()) {
    const vector = JSON.parse(readFileSync(join(vectors, file), "utf8"));
    const name = basename(file, ".json");
    const parts = partsOf(vector, (input) => new Uint8Array(readFileSync(join(inputs, input))));
    const reason = inDirectory((path) =>
        difference(vector, answer(policy, vector, parts, new Directory(path)), filesOf(path)),
    );
    if (reason === undefined) {
        report.passed += 1;
    } else {
        report.failed.push({ vector: name, reason });
    }
    if (name === MEASURED && reason === undefined) {
        const times = Array.from({ length: WARM_UP + RUNS }, () => inDirectory((path) => timed(vector, parts, path)));
        report.milliseconds = Math.round(median(times.slice(WARM_UP)) * 10) / 10;
    }
}
report.peak_bytes = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify(report));
process.exitCode = report.failed.length === 0 ? 0 : 1;

function inDirectory(action) {
    const path = mkdtempSync(join(scratch, "files-"));
    try {
        return action(path);
    } finally {
        rmSync(path, { recursive: true });
    }
}

function timed(vector, parts, path) {
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
