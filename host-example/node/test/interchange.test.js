import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import test from "node:test";

import { records } from "lro-filter";

import { LRO, filterFor, freshPath, recordsResult } from "./support.js";

/** What the command of the Rust host prints. */
function lro(directory, ...args) {
    return execFileSync(LRO, args, { env: { ...process.env, MCP_LRO_DIR: directory }, encoding: "utf8" });
}

test("the lro command reads what the package writes, and asks about it", async (t) => {
    const directory = freshPath();
    const result = recordsResult(20_000);
    const reply = await filterFor(t, { directory }).apply({ tool: "search", tenant: "team a" }, result);
    const { files, jq_recipes: recipes } = reply.structuredContent;
    const handle = basename(dirname(files.records));
    const ask = (command, ...args) => lro(directory, command, handle, "--tenant", "team a", ...args);
    assert.equal(ask("extract", "--where", "id >= 19998", "--count"), '{"count":2}\n');
    const page = ask("read", "--from", "15000", "--limit", "2").trimEnd().split("\n").map((line) => JSON.parse(line));
    assert.deepEqual(page, result.structuredContent.records.slice(15_000, 15_002));
    const [recipe, shell] = Object.entries(recipes)[0];
    const first = (text) => JSON.parse(text.split("\n")[0]);
    const output = execFileSync("sh", ["-c", shell], { encoding: "utf8" });
    assert.deepEqual(first(ask("extract", "--recipe", recipe)), first(output));
});

test("what the lro command writes is of the same bytes, and is read and removed here", async (t) => {
    const directory = freshPath();
    const result = recordsResult(2000);
    const input = freshPath();
    writeFileSync(input, JSON.stringify(result));
    const filter = filterFor(t, { directory, ttlSeconds: 1 });
    const own = (await filter.apply({ tool: "search" }, result)).structuredContent.files.records;
    const other = JSON.parse(lro(directory, "offload", "--tool", "search", input)).structuredContent.files.records;
    assert.equal(dirname(dirname(own)), dirname(dirname(other)));
    const bodyOf = (path) => readFileSync(path, "utf8").replace(/^.*\n/, "");
    assert.equal(bodyOf(own), bodyOf(other));
    assert.deepEqual(readdirSync(dirname(own)), readdirSync(dirname(other)));

    const found = [];
    for await (const record of records(other)) {
        found.push(record);
    }
    assert.deepEqual(found, result.structuredContent.records);

    await new Promise((resolve) => setTimeout(resolve, 1100));
    filterFor(t, { directory, ttlSeconds: 1 });
    while (existsSync(dirname(other)) || existsSync(dirname(own))) {
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
    assert.ok(!existsSync(join(directory, "default", basename(dirname(own)))));
});
