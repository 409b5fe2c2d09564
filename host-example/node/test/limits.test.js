import assert from "node:assert/strict";
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { parse } from "@bytecodealliance/jco";

import { filterFor, freshPath, textResult, transpiled } from "./support.js";

const HOSTILE = transpiled("lro_test_policies");
const RESULT = textResult("x".repeat(100_000));
const CALL = { tool: "hostile" };

/** What there is in a directory besides those of tenants. */
function left(directory) {
    return readdirSync(directory, { recursive: true }).filter((path) => path !== "default");
}

/** The reply when a policy behaves like this; checks that it leaves no file. */
async function reply(test, custom, options = {}) {
    const directory = freshPath();
    const filter = filterFor(test, { policy: HOSTILE, directory, custom, failure: "closed", ...options });
    const answer = await filter.apply(CALL, RESULT);
    assert.deepEqual(left(directory), []);
    return answer;
}

// Each ends with what the failure mode says, and names the limit.
const CASES = [
    ["inspect-loop", /took longer than 300 ms \(limit wall-time-ms\)/, { wallTimeMs: 300 }],
    ["loop", /took longer than 300 ms \(limit wall-time-ms\)/, { wallTimeMs: 300 }],
    ["sync", /took longer than 300 ms \(limit wall-time-ms\)/, { wallTimeMs: 300 }],
    ["list", /took longer than 300 ms \(limit wall-time-ms\)/, { wallTimeMs: 300 }],
    ["inspect-read", /took longer than 300 ms \(limit wall-time-ms\)/, { wallTimeMs: 300 }],
    ["read-bytewise", /took longer than 300 ms \(limit wall-time-ms\)/, { wallTimeMs: 300 }],
    ["inspect-memory", /of 16777216 bytes of memory \(limit memory-bytes\)/, { memoryBytes: 16 * 1024 ** 2 }],
    ["memory", /of 16777216 bytes of memory \(limit memory-bytes\)/, { memoryBytes: 16 * 1024 ** 2 }],
    ["stack", /the policy (ran out of stack|failed: .*out of bounds)/],
    ["inspect-trap", /the policy failed: /],
    ["trap", /the policy failed: /],
    ["many-files:11", /created more than 10 files \(limit files\)/, { files: 10 }],
    ["hold-files:11", /held more than 10 files open at the same time \(limit open-files\)/, { openFiles: 10 }],
    ["hold-listings:11", /held more than 10 files open at the same time \(limit open-files\)/, { openFiles: 10 }],
    ["hold-directories:11", /held more than 10 files open at the same time \(limit open-files\)/, { openFiles: 10 }],
    ["many-bytes:2000000", /wrote more than 1000000 bytes \(limit written-bytes\)/, { writtenBytes: 1_000_000 }],
    [
        "many-bytes-silently:2000000",
        /wrote more than 1000000 bytes \(limit written-bytes\)/,
        { writtenBytes: 1_000_000 },
    ],
    ["sparse:2000000", /wrote more than 1000000 bytes \(limit written-bytes\)/, { writtenBytes: 1_000_000 }],
    ["big-descriptor:9000000", /a descriptor over its limit/],
    ["big-descriptor:50000", /a descriptor over its limit/],
    ["lie-size", /a false account of its files/],
    ["lie-absent", /a false account of its files/],
    ["lie-unlisted", /a false account of its files/],
    ["lie-twice", /a false account of its files/],
    ["lie-name", /a false account of its files/],
    ["lie-not-json", /a descriptor that is not a JSON object/],
    ["lie-not-object", /a descriptor that is not a JSON object/],
    ["lie-nan", /a descriptor that is not a JSON object/],
    ["rude-error:1", /refused: \ufffd\[2J/],
    ["unheard-of", /refused: invalid settings or plan: custom: no behaviour `unheard-of`/],
];

for (const [custom, expected, limits] of CASES) {
    test(`a policy that does \`${custom}\``, async (t) => {
        const { content, isError } = await reply(t, custom, { limits });
        assert.equal(isError, true);
        assert.match(content[0].text, /^the result could not be filtered: the policy /);
        assert.match(content[0].text, expected);
        assert.ok(!content[0].text.includes("\u001b"));
    });
}

test("with `open` a result passes when the policy fails first, and is truncated when it fails to write", async (t) => {
    assert.equal(await reply(t, "inspect-trap", { failure: "open" }), RESULT);
    const written = await reply(t, "trap", { failure: "open" });
    assert.ok(JSON.stringify(written).length <= 50_000);
    assert.match(written.content.at(-1).text, /^The result could not be written to files \(the policy failed: /);
    const late = await reply(t, "loop", { failure: "open", limits: { wallTimeMs: 300 } });
    assert.match(late.content.at(-1).text, /^The result could not be written to files \(the policy took longer than/);
    assert.equal(await reply(t, "inspect-loop", { failure: "open", limits: { wallTimeMs: 1 } }), RESULT);
    const truncated = await reply(t, "inspect-trap", { failure: "truncate" });
    assert.ok(JSON.stringify(truncated).length <= 50_000);
});

test("while a policy loops, the event loop is free and other calls go on", async (t) => {
    const filter = filterFor(t, { policy: HOSTILE, custom: "inspect-loop", limits: { wallTimeMs: 3000 }, threads: 1 });
    const other = filterFor(t);
    await other.apply(CALL, textResult("warm"));
    let [isOver, turns] = [false, 0];
    const timer = setInterval(() => (turns += 1), 5);
    const looping = filter.apply(CALL, RESULT).then(() => (isOver = true));
    assert.deepEqual(await other.apply(CALL, textResult("hello")), textResult("hello"));
    assert.equal(isOver, false);
    await looping;
    clearInterval(timer);
    // An event loop that is held takes one turn, at the end.
    assert.ok(turns > 20, `the event loop took ${turns} turns`);
});

test("a filter works again after its thread was ended", async (t) => {
    const filter = filterFor(t, { policy: HOSTILE, custom: "inspect-loop", limits: { wallTimeMs: 200 }, threads: 1 });
    for (const reply of await Promise.all([1, 2, 3].map(() => filter.apply(CALL, RESULT)))) {
        assert.equal(reply, RESULT);
    }
});

test("nothing of a call is left for the next one", async (t) => {
    const filter = filterFor(t, { policy: HOSTILE, custom: "inspect-remember", threads: 1 });
    const first = await filter.apply(CALL, RESULT);
    assert.deepEqual(await filter.apply(CALL, RESULT), first);
    const none = filterFor(t, { policy: HOSTILE, custom: "inspect-directories" });
    assert.equal((await none.apply(CALL, RESULT)).content[0].text, "0");
});

test("a slice past the end is empty, one of no part is an error", async (t) => {
    const filter = filterFor(t, { policy: HOSTILE, custom: "read-past-the-end" });
    const { content } = await filter.apply(CALL, RESULT);
    assert.deepEqual(JSON.parse(content[0].text), { told: [true, true, true, true, true] });
});

test("a policy cannot reach what lies outside its directory", async (t) => {
    const directory = freshPath();
    for (const custom of ["write-outside", "spellings", "names"]) {
        const filter = filterFor(t, { policy: HOSTILE, directory, custom, failure: "closed" });
        const { content } = await filter.apply(CALL, RESULT);
        assert.ok(content[0].text.length > 0);
        for (const name of ["escaped.txt", "outside.txt"]) {
            assert.equal(existsSync(join(directory, name)), false);
            assert.equal(existsSync(join(directory, "..", name)), false);
        }
        for (const path of readdirSync(directory, { recursive: true })) {
            assert.match(path, /^default(\/[0-9A-HJKMNP-TV-Z]{26}(\/[A-Za-z0-9._-]+)?)?$/);
        }
    }
});

test("too much is not written, and a result that is too large is an error of its own", async (t) => {
    const sparse = await reply(t, "sparse-files:9", { limits: { writtenBytes: 1 << 20 } });
    assert.match(sparse.content[0].text, /limit written-bytes/);
    const limits = { heldBytes: 4 * 1024 ** 2 };
    const large = textResult("x".repeat(20_000_000));
    const filter = filterFor(t, { limits, failure: "closed" });
    const { content, isError } = await filter.apply(CALL, large);
    assert.equal(isError, true);
    assert.match(content[0].text, /^the result could not be filtered: the policy failed: .*limit held-bytes/);
    assert.deepEqual(await filter.apply(CALL, textResult("small")), textResult("small"));
    assert.equal(await filterFor(t, { limits }).apply(CALL, large), large);
});

test("a component that asks for more than a policy may have is refused by name", async (t) => {
    const refused = [
        ['(component (import "other:own/thing@1.0.0" (instance (export "f" (func)))))', /imports `other:own\/thing@1\.0\.0`/],
        ["(component)", /exports `lro:filter\/lro-filter` in no version that this package runs: it is not a policy/],
        ["(module)", /is not a WebAssembly component/],
    ];
    for (const [text, message] of refused) {
        const path = `${freshPath()}.wasm`;
        writeFileSync(path, await parse(text));
        assert.throws(() => transpiled(path), message);
    }
    const absent = filterFor(t, { policy: freshPath() });
    await assert.rejects(absent.apply(CALL, RESULT), { message: /make packages/ });
});

/** The folder of the default policy with another module in the place of its largest. */
async function withModule(fields) {
    const folder = transpiled("lro_policy");
    writeFileSync(join(folder, "policy.core7.wasm"), await parse(`(module ${fields})`));
    return folder;
}

test("a module that asks for more than a limit is refused", async (t) => {
    const refused = [
        ["(memory 2000)", /needs 2000 pages of memory at its start, more than 1024 \(limit memory-bytes\)/],
        ["(table 200000 funcref)", /needs 200000 elements of a table at its start, .*\(limit table-elements\)/],
        ["(memory 1) (memory 1) (memory 1)", /has 3 memories, more than 2/],
        ["(memory i64 1)", /64-bit memory or table, which cannot be limited/],
    ];
    for (const [fields, message] of refused) {
        const filter = filterFor(t, { policy: await withModule(fields) });
        await assert.rejects(filter.apply(CALL, RESULT), { message });
    }
});
