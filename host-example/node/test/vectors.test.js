import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { LIMITS } from "../src/limits.js";
import { Policy } from "../src/policy.js";
import { REQUEST } from "../../../tests/runtimes/runner.mjs";
import { TARGET, filterFor, freshPath, textResult, transpiled } from "./support.js";

const VECTORS = new URL("../../../tests/vectors/", import.meta.url);

/** A policy as the package loads it, closed after the test. */
function policyFor(test, folder) {
    const policy = new Policy(folder, 1, LIMITS);
    test.after(() => policy.close());
    return policy;
}

/** Size and digest of each file of a directory. */
function filesOf(path) {
    const names = existsSync(path) ? readdirSync(path) : [];
    const found = names.map((name) => {
        const bytes = readFileSync(join(path, name));
        return [name, { bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") }];
    });
    return Object.fromEntries(found);
}

async function compare(policy, vector, { settings, outcome, reply, files }) {
    const path = join(freshPath(), "offload");
    const request = { ...REQUEST, settings: JSON.stringify(settings) };
    const found = await policy.filter(request, vector.result, path);
    assert.deepEqual([found.outcome, found.toolResult ?? null], [outcome, reply], JSON.stringify(settings));
    assert.deepEqual(filesOf(path), files, JSON.stringify(settings));
}

/** Compares all replies with the vectors. */
async function compareAll(policy) {
    const folder = new URL("replies/", VECTORS);
    let cases = 0;
    for (const name of readdirSync(folder)) {
        const vector = JSON.parse(readFileSync(new URL(name, folder), "utf8"));
        for (const one of vector.cases) {
            await compare(policy, vector, one);
            cases += 1;
        }
    }
    assert.equal(cases, 50);
}

test("replies, files, manifests and indexes are the bytes of the vectors", async (t) => {
    await compareAll(policyFor(t, transpiled("lro_policy")));
});

const WASIP2 = join(TARGET, "wasm32-wasip2/component/lro_policy.wasm");

// `make runtimes` builds it.
test("a policy that imports what standard libraries import is no different", { skip: !existsSync(WASIP2) }, async (t) => {
    await compareAll(policyFor(t, transpiled(WASIP2)));
});

test("a policy frozen at 0.1.0 runs unchanged", async (t) => {
    const policy = policyFor(t, transpiled(fileURLToPath(new URL("../frozen/policy-0.1.0.wasm", VECTORS))));
    const records = Array.from({ length: 2000 }, (_, id) => ({ id, name: `name ${id}` }));
    const structured = JSON.stringify({ records });
    const result = `{"content":[],"structuredContent":${structured}}`;
    const path = join(freshPath(), "offload");
    const reply = await policy.filter({ ...REQUEST, settings: "{}" }, result, path);
    assert.equal(reply.outcome, "offload");
    assert.deepEqual(readdirSync(path), ["manifest.json", "structured.json"]);
    assert.equal(readFileSync(join(path, "structured.json"), "utf8"), structured);
});

const LOGS = fileURLToPath(new URL("../../../guest/javascript/log-policy.wasm", import.meta.url));

// `make runtimes` builds it.
test("a policy in JavaScript runs", { skip: !existsSync(LOGS) }, async (t) => {
    const filter = filterFor(t, { policy: transpiled(LOGS), failure: "closed" });
    const lines = Array.from({ length: 5000 }, (_, index) => `2026-11-20T09:30:00Z ${index % 50 ? "INFO" : "ERROR"} ${index}`);
    const reply = await filter.apply({ tool: "log" }, textResult(lines.join("\n")));
    const { files, summary } = JSON.parse(reply.content[0].text);
    assert.equal(summary.log.matches, 100);
    assert.equal(readFileSync(files.log, "utf8"), lines.join("\n"));
});
