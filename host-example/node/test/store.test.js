import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import {
    chmodSync, existsSync, mkdirSync, readdirSync, realpathSync, rmSync, statSync, symlinkSync, writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";
import { fileURLToPath } from "node:url";

import { Store } from "../src/store.js";
import { timeOf, ulid } from "../src/ulid.js";
import { filterFor, freshPath, recordsResult } from "./support.js";

const CALL = { tool: "search" };
const LIMITS = { timeToLiveMs: 60_000, quotaFile: 2 ** 30, quotaTenant: 2 ** 32 };

test("an offload is found with the end of its time, and a link is none", async () => {
    const store = await Store.open(freshPath(), LIMITS);
    const [own, lasting, link] = [ulid(), ulid(), ulid()];
    for (const id of [own, lasting]) {
        mkdirSync(store.path("a", id), { recursive: true, mode: 0o700 });
    }
    writeFileSync(join(store.path("a", lasting), ".ttl-seconds"), "600\n");
    symlinkSync(store.path("a", own), store.path("a", link));
    assert.deepEqual(await store.find("a", own), { path: store.path("a", own), expires: timeOf(own) + 60_000 });
    assert.equal((await store.find("a", lasting)).expires, timeOf(lasting) + 600_000);
    for (const [tenant, id] of [["a", link], ["a", ulid()], ["b", own], ["a", `../a/${own}`], ["a", ""]]) {
        assert.equal(await store.find(tenant, id), undefined);
    }
});

test("files are gone when they have expired, and what a crash left too", async () => {
    const root = freshPath();
    const store = await Store.open(root, LIMITS);
    const [published, lasting] = [ulid(), ulid()];
    for (const id of [published, lasting]) {
        mkdirSync(store.staging("a/b", id), { recursive: true, mode: 0o700 });
        writeFileSync(join(store.staging("a/b", id), "a.txt"), "a");
        await store.publish("a/b", id, [{ name: "a.txt", bytes: 1n }]);
    }
    // As the host writes it for some tools.
    writeFileSync(join(store.path("a/b", lasting), ".ttl-seconds"), "600\n");
    const tenant = dirname(store.path("a/b", published));
    assert.equal(tenant, join(realpathSync(root), "a_b-c14cddc0"));
    mkdirSync(store.staging("a/b", ulid()));
    mkdirSync(join(tenant, `.removing-${ulid()}`));
    mkdirSync(join(tenant, `.staging-${ulid()}-${ulid()}`));
    mkdirSync(join(root, ".owners"));

    await store.sweep();
    assert.equal(readdirSync(tenant).length, 4);
    assert.ok(existsSync(join(store.path("a/b", published), "a.txt")));
    await store.sweep(Date.now() + 61_000);
    assert.ok(!existsSync(store.path("a/b", published)) && existsSync(store.path("a/b", lasting)));
    await store.sweep(Date.now() + 2 * 3_600_000);
    // Only a process of the host knows whether the other one lives.
    assert.match(readdirSync(tenant).join(), /^\.staging-[0-9A-Z]{26}-[0-9A-Z]{26}$/);
});

test("an offload that has expired is removed by a later call", async (t) => {
    const directory = freshPath();
    const first = filterFor(t, { directory, ttlSeconds: 1 });
    const { structuredContent } = await first.apply(CALL, recordsResult(2000));
    assert.ok(existsSync(structuredContent.files.records));
    await new Promise((resolve) => setTimeout(resolve, 1100));
    const second = filterFor(t, { directory, ttlSeconds: 1 });
    await second.apply(CALL, recordsResult(2000));
    await new Promise((resolve) => setTimeout(resolve, 200));
    assert.ok(!existsSync(structuredContent.files.records));
    assert.equal(readdirSync(join(directory, "default")).length, 1);
});

test("the oldest offloads make room for others, and what exceeds a quota alone is not kept", async (t) => {
    const directory = freshPath();
    const tenant = join(directory, "default");
    const options = { directory, quotaTenant: 400_000, failure: "closed" };
    const filter = filterFor(t, options);
    const kept = [];
    for (let index = 0; index < 4; index += 1) {
        const { structuredContent } = await filter.apply(CALL, recordsResult(3000));
        kept.push(dirname(structuredContent.files.records));
    }
    assert.deepEqual(kept.map((path) => existsSync(path)), [false, false, true, true]);
    const other = await filter.apply({ ...CALL, tenant: "other" }, recordsResult(3000));
    assert.ok(existsSync(other.structuredContent.files.records) && existsSync(kept[2]));
    const large = await filter.apply(CALL, recordsResult(20_000));
    assert.match(large.content[0].text, /wrote more than 400000 bytes \(quota-tenant\)/);
    const small = filterFor(t, { ...options, quotaFile: 100_000 });
    assert.match((await small.apply(CALL, recordsResult(3000))).content[0].text, /\(quota-file\)/);
    assert.deepEqual(readdirSync(tenant).length, 2);
    const replies = await Promise.all([1, 2, 3, 4].map(() => filter.apply(CALL, recordsResult(3000))));
    assert.ok(replies.every(({ structuredContent }) => structuredContent.offloaded));
    assert.equal(readdirSync(tenant).length, 2);
});

test("a directory that others can write to is refused", async (t) => {
    const directory = freshPath();
    mkdirSync(directory);
    chmodSync(directory, 0o777);
    const filter = filterFor(t, { directory });
    await assert.rejects(filter.apply(CALL, recordsResult(10)), { message: /others can write to it/ });
});

test("a process that is killed at any moment leaves whole offloads only", async () => {
    const directory = freshPath();
    const program = `
        import { Filter } from "lro-filter";
        const filter = new Filter({ directory: ${JSON.stringify(directory)}, threads: 2 });
        const records = Array.from({ length: 20_000 }, (_, id) => ({ id, text: "x".repeat(50) }));
        const call = () => filter.apply({ tool: "t" }, { content: [], structuredContent: { records } });
        for (;;) {
            await Promise.all([call(), call()]);
            process.stdout.write("another two");
        }`;
    for (let round = 0; round < 5; round += 1) {
        const cwd = fileURLToPath(new URL("..", import.meta.url));
        const child = spawn(process.execPath, ["--input-type=module", "-e", program], {
            cwd,
            stdio: ["ignore", "pipe", "inherit"],
        });
        await new Promise((resolve) => child.stdout.once("data", resolve));
        await new Promise((resolve) => setTimeout(resolve, 30 * round));
        child.kill("SIGKILL");
        await new Promise((resolve) => child.once("exit", resolve));
    }
    const tenant = join(directory, "default");
    const published = readdirSync(tenant).filter((name) => !name.startsWith("."));
    assert.ok(published.length > 0);
    const sizes = published.map((name) => {
        assert.deepEqual(readdirSync(join(tenant, name)), [".records.jsonl.index", "manifest.json", "records.jsonl"]);
        return statSync(join(tenant, name, "records.jsonl")).size;
    });
    assert.equal(new Set(sizes).size, 1);
    const store = await Store.open(directory, { ...LIMITS, timeToLiveMs: 3_600_000 });
    await store.sweep(Date.now() + 2 * 3_600_000);
    assert.deepEqual(readdirSync(tenant), []);
});

test("when files cannot be kept, the failure mode decides and no path is told", async (t) => {
    const directory = freshPath();
    const filter = filterFor(t, { directory, failure: "closed" });
    await filter.apply(CALL, recordsResult(1));
    rmSync(directory, { recursive: true });
    const reply = await filter.apply(CALL, recordsResult(2000));
    assert.equal(reply.isError, true);
    assert.match(reply.content[0].text, /^the result could not be filtered: /);
    assert.ok(!reply.content[0].text.includes(directory));
});
