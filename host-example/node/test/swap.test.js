import assert from "node:assert/strict";
import { execSync } from "node:child_process";
import { cpSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { filterFor, freshPath, textResult, transpiled } from "./support.js";

const PLAIN = transpiled("lro_policy");
const REDACT = transpiled("lro_redact");
const HOSTILE = transpiled("lro_test_policies");
const ITEMS = Array.from({ length: 3_000 }, (_, id) => ({ id, secret: `word ${id}` }));
const RESULT = { content: [{ type: "text", text: "see items" }], structuredContent: { items: ITEMS } };
const OPTIONS = { custom: { fields: ["secret"] }, failure: "closed" };
const CALL = { tool: "secrets" };

/** What is in the place of the secrets of an offloaded result. */
function secrets(answer) {
    const path = answer.structuredContent?.files?.items;
    assert.ok(path, JSON.stringify(answer).slice(0, 500));
    const lines = readFileSync(path, "utf8").trimEnd().split("\n").slice(1);
    return new Set(lines.map((line) => JSON.parse(line).secret.split(" ")[0]));
}

const digestOf = (folder) => execSync("sha256sum policy.* | sha256sum", { cwd: folder }).toString().split(" ")[0];

// No call fails, none is lost, and each is of one policy from its verdict to its files.
test("calls go on while policies are swapped", async (context) => {
    const directory = freshPath();
    const filter = filterFor(context, { ...OPTIONS, policy: PLAIN, directory });
    const done = [];
    let isOver = false;
    const calls = Array.from({ length: 4 }, async () => {
        while (!isOver) {
            done.push(secrets(await filter.apply(CALL, RESULT)));
        }
    });
    for (let number = 0; number < 8; number += 1) {
        const policy = number % 2 === 0 ? REDACT : PLAIN;
        assert.equal(await filter.swap(policy), digestOf(policy));
        assert.equal(secrets(await filter.apply(CALL, RESULT)).has("word"), policy === PLAIN, `swap ${number}`);
    }
    isOver = true;
    await Promise.all(calls);
    assert.ok(done.length >= 4);
    assert.deepEqual([...new Set(done.map((found) => found.size))], [1], "a call of two policies");
    assert.equal(readdirSync(join(directory, "default")).filter((name) => !name.startsWith(".")).length, done.length + 8);
});

test("what cannot be used changes nothing", async (context) => {
    const filter = filterFor(context, { ...OPTIONS, policy: PLAIN });
    const empty = freshPath();
    const wrong = "0".repeat(64);
    await assert.rejects(filter.swap(empty), /no policy in/);
    await assert.rejects(filter.swap(REDACT, { sha256: wrong }), new RegExp(`not ${wrong}`));
    await assert.rejects(filter.swap(7), /policy/);
    const broken = freshPath();
    cpSync(REDACT, broken, { recursive: true });
    writeFileSync(join(broken, "policy.js"), "export const instantiate = 7;");
    await assert.rejects(filter.swap(broken), /the policy in/);
    assert.ok(secrets(await filter.apply(CALL, RESULT)).has("word"));
    assert.equal(await filter.swap(REDACT, { sha256: digestOf(REDACT).toUpperCase() }), digestOf(REDACT));
    assert.ok(!secrets(await filter.apply(CALL, RESULT)).has("word"));
    const pinned = filterFor(context, { policy: PLAIN, sha256: wrong });
    await assert.rejects(pinned.apply(CALL, RESULT), new RegExp(`not ${wrong}`));
    // A good policy in the place of one that never loaded.
    await pinned.swap(PLAIN);
    assert.ok(secrets(await pinned.apply(CALL, RESULT)).has("word"));
});

test("a running call ends with its policy, and of two swaps the later one lasts", async (context) => {
    const options = { policy: HOSTILE, custom: "loop", failure: "closed", limits: { wallTimeMs: 1_500 } };
    const filter = filterFor(context, options);
    const running = filter.apply(CALL, textResult("x".repeat(100_000)));
    await Promise.all([filter.swap(REDACT), filter.swap(PLAIN)]);
    assert.ok((await filter.apply(CALL, RESULT)).structuredContent.offloaded);
    assert.match((await running).content[0].text, /took longer than 1500 ms/);
    assert.ok(secrets(await filter.apply(CALL, RESULT)).has("word"));
});

test("the folder of a policy may change while it runs", async (context) => {
    const folder = freshPath();
    cpSync(PLAIN, folder, { recursive: true });
    const filter = filterFor(context, { ...OPTIONS, policy: folder, threads: 3 });
    assert.ok(secrets(await filter.apply(CALL, RESULT)).has("word"));
    rmSync(folder, { recursive: true });
    // More threads than have been started.
    const answers = await Promise.all(Array.from({ length: 6 }, () => filter.apply(CALL, RESULT)));
    assert.ok(answers.every((answer) => secrets(answer).has("word")));
});

test("a filter that was closed is not swapped", async (context) => {
    const filter = filterFor(context, { policy: PLAIN });
    await filter.close();
    await assert.rejects(filter.swap(REDACT), /closed/);
});
