// Runs the vectors of replies in Node: node node.mjs COMPONENT.wasm VECTORS_DIR INPUTS_DIR
//
// The time is that of a whole result, from its JSON to the reply and the files in a directory, in a thread of the package.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { Filter } from "../../host-example/node/src/index.js";
import { LIMITS } from "../../host-example/node/src/limits.js";
import { Policy } from "../../host-example/node/src/policy.js";
import { prepared, report, sha256 } from "./runner.mjs";

const BUILD = fileURLToPath(new URL("../../host-example/node/build.js", import.meta.url));
const JCO = new URL("../../host-example/node/node_modules/@bytecodealliance/jco/package.json", import.meta.url);

const { component, vectors, inputs, scratch } = prepared("node.mjs");
const SWAPS = 8;
const CALLERS = 4;
const ITEMS = Array.from({ length: 2000 }, (_, id) => ({ id, secret: `word ${id}` }));
const RESULT = { content: [], structuredContent: { items: ITEMS } };

const folder = transpiled("policy", component);
const policy = new Policy(folder, 1, LIMITS);
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
    more: async () => ({ swap: await swapped(), looped_milliseconds: await looped(), read_back: await isReadBack() }),
});
await policy.close();

/** A folder with a component, transpiled. */
function transpiled(name, component) {
    execFileSync(process.execPath, [BUILD, component, join(scratch, name)], { stdio: ["ignore", "ignore", "inherit"] });
    return join(scratch, name);
}

/** A component beside the one that is measured, transpiled. */
function beside(name) {
    return transpiled(name, join(dirname(component), `lro_${name}.wasm`));
}

/** What became of calls while two policies took the place of each other, of which one replaces secrets. */
async function swapped() {
    const directory = join(scratch, "swapped");
    const redact = beside("redact");
    const options = { directory, policy: folder, custom: { fields: ["secret"] }, mode: "always", failure: "closed" };
    const filter = new Filter(options);
    const found = [];
    let isOver = false;
    /** What stands in the place of the secrets of a call; nothing if it failed. */
    const call = async () => {
        const path = (await filter.apply({ tool: "items" }, RESULT)).structuredContent?.files?.items;
        const lines = path === undefined ? [] : readFileSync(path, "utf8").trimEnd().split("\n").slice(1);
        found.push(new Set(lines.map((line) => JSON.parse(line).secret.split(" ")[0])));
    };
    const callers = Array.from({ length: CALLERS }, async () => {
        while (!isOver) {
            await call();
        }
    });
    for (let number = 0; number < SWAPS; number += 1) {
        await filter.swap(number % 2 === 0 ? redact : folder);
        await call();
    }
    isOver = true;
    await Promise.all(callers);
    await filter.close();
    const published = readdirSync(join(directory, "default")).filter((name) => !name.startsWith(".")).length;
    const failed = found.filter(({ size }) => size === 0).length;
    const mixed = found.filter(({ size }) => size > 1).length;
    return { calls: found.length, lost: Math.abs(found.length - published - failed), failed, mixed };
}

/** Milliseconds until a policy that loops has ended, with a limit of a second. */
async function looped() {
    const limits = { wallTimeMs: 1000 };
    const options = { policy: beside("test_policies"), custom: "inspect-loop", mode: "always", failure: "closed", limits };
    const filter = new Filter({ directory: join(scratch, "looped"), ...options });
    const start = performance.now();
    const { isError } = await filter.apply({ tool: "items" }, RESULT);
    const time = performance.now() - start;
    await filter.close();
    if (!isError) {
        throw new Error("a policy that loops answered");
    }
    return time;
}

/** Whether the tools of the package count the records of an offload. */
async function isReadBack() {
    const options = { policy: folder, mode: "always", abilities: { extractTool: true } };
    const filter = new Filter({ directory: join(scratch, "read"), ...options });
    const { handle } = (await filter.apply({ tool: "items" }, RESULT)).structuredContent;
    const answer = await filter.callTool("lro_extract", { handle, where: "id >= 500", count: true });
    await filter.close();
    return answer.structuredContent?.results?.[0]?.count === 1500;
}

async function filtered(request, result) {
    rmSync(path, { recursive: true, force: true });
    const { outcome, toolResult } = await policy.filter(request, result, path);
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
    await policy.filter(request, result, path);
    return performance.now() - start;
}
