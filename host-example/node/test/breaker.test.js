import assert from "node:assert/strict";
import { once } from "node:events";
import process from "node:process";
import test from "node:test";
import { setTimeout } from "node:timers/promises";

import { Filter } from "lro-filter";

import { filterFor, freshPath, textResult, transpiled } from "./support.js";

const PLAIN = transpiled("lro_policy");
const HOSTILE = transpiled("lro_test_policies");
const RESULT = textResult("x".repeat(100_000));
const CALL = { tool: "hostile" };
const LONG = 600_000;
const PARKED = /^the result could not be filtered: the policy is parked for \d+ ms more after repeated failures$/;

const filterOf = (test, custom, breaker, options = {}) =>
    filterFor(test, { policy: HOSTILE, custom, breaker, failure: "closed", threads: 1, ...options });

const textOf = async (filter) => (await filter.apply(CALL, RESULT)).content.at(-1).text;

for (const [custom, reason] of [
    ["trap", /the policy failed: /],
    ["inspect-loop", /the policy took longer than 1000 ms/],
    ["lie-not-json", /the policy answered with /],
]) {
    test(`a policy that does \`${custom}\` repeatedly is parked until another takes its place`, async (t) => {
        const breaker = { failures: 2, pauseMs: LONG, pauseMaxMs: LONG };
        const filter = filterOf(t, custom, breaker, { limits: { wallTimeMs: custom === "inspect-loop" ? 1000 : 30_000 } });
        for (let count = 0; count < 2; count += 1) {
            assert.match(await textOf(filter), reason);
        }
        assert.match(await textOf(filter), PARKED);
        // The same policy, of another version.
        await filter.swap(HOSTILE);
        assert.match(await textOf(filter), reason);
        await filter.swap(PLAIN);
        assert.match(await textOf(filter), /^\{"offloaded":true,/);
    });
}

test("each failure mode has its answer while a policy is parked", async (t) => {
    const breaker = { failures: 1, pauseMs: LONG, pauseMaxMs: LONG };
    const open = filterOf(t, "trap", breaker, { failure: "open" });
    const [[warning]] = await Promise.all([once(process, "warning"), textOf(open)]);
    assert.match(warning.message, /^the policy is parked for 600000 ms after repeated failures$/);
    assert.equal(await open.apply(CALL, RESULT), RESULT);
    const truncating = filterOf(t, "trap", breaker, { failure: "truncate" });
    await textOf(truncating);
    const truncated = await truncating.apply(CALL, RESULT);
    assert.ok(JSON.stringify(truncated).length <= 50_000);
});

test("a parked policy is tried again", async (t) => {
    const filter = filterOf(t, "trap", { failures: 2, pauseMs: 300, pauseMaxMs: 400 });
    const tried = async () => {
        for (;;) {
            const text = await textOf(filter);
            if (!text.includes("is parked")) {
                return text;
            }
            await setTimeout(20);
        }
    };
    for (let count = 0; count < 2; count += 1) {
        assert.match(await textOf(filter), /the policy failed: /);
    }
    for (let count = 0; count < 2; count += 1) {
        assert.match(await tried(), /the policy failed: /);
        assert.match(await textOf(filter), PARKED, "and no other one");
    }
});

test("what is not the fault of the policy does not park it", async (t) => {
    const breaker = { failures: 2, pauseMs: LONG, pauseMaxMs: LONG };
    for (const [custom, limits] of [
        ["no-such-behaviour", {}],
        ["many-files:99", { files: 9 }],
        ["many-bytes:3000000", { writtenBytes: 1_000_000 }],
    ]) {
        const filter = filterOf(t, custom, breaker, { limits });
        for (let count = 0; count < 4; count += 1) {
            assert.doesNotMatch(await textOf(filter), /parked/, custom);
        }
    }
});

test("settings of the breaker are checked", () => {
    for (const breaker of [{ failures: 0 }, { pauseMs: "1" }, { pause: 1 }]) {
        assert.throws(() => new Filter({ directory: freshPath(), breaker }), /^TypeError: breaker\./);
    }
});
