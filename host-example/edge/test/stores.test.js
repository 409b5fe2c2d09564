/** What each store promises, in workerd, with the simulator of R2 that Miniflare has. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import test, { after } from "node:test";
import { setTimeout as passed } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { Miniflare } from "miniflare";
import workerd from "workerd";

const EDGE = fileURLToPath(new URL("..", import.meta.url));
const TARGET = process.env.CARGO_TARGET_DIR ?? join(EDGE, "../../target");
const CLIENT = join(TARGET, "test-data/mcp/node_modules/@modelcontextprotocol/client/dist/index.mjs");
const TOKEN = "the-token";
const TENANTS = '{"acme":"token-a","other":"token-b"}';
const scratch = mkdtempSync(join(tmpdir(), "lro-edge-stores-"));

after(() => rmSync(scratch, { recursive: true, force: true }));

const STORES = {
    memory: {},
    "R2": { r2Buckets: { OFFLOAD_BUCKET: "offloads" } },
    "Durable Objects": { durableObjects: { OFFLOAD_OBJECTS: { className: "OffloadObject", useSQLite: true } } },
};

const KEPT = ["R2", "Durable Objects"];

let states = 0;

/** A folder for what a runtime keeps. */
function stateOf() {
    states += 1;
    return join(scratch, `state-${states}`);
}

/** Starts the worker with a store, whose state is in a folder. */
async function started(context, store, { bindings, state = stateOf() } = {}) {
    const runtime = new Miniflare({
        modules: true,
        modulesRoot: join(EDGE, ".."),
        modulesRules: [
            { type: "CompiledWasm", include: ["**/*.wasm"] },
            { type: "ESModule", include: ["**/*.js"] },
        ],
        scriptPath: join(EDGE, "test/counting-worker.js"),
        compatibilityDate: "2026-07-01",
        compatibilityFlags: ["nodejs_compat"],
        bindings: { TOKEN, TENANTS, ...bindings },
        r2Persist: join(state, "r2"),
        durableObjectsPersist: join(state, "objects"),
        ...STORES[store],
    });
    let isRunning = true;
    const stop = async () => {
        await (isRunning && runtime.dispose());
        isRunning = false;
    };
    context.after(stop);
    return { address: String(await runtime.ready).replace(/\/$/, ""), runtime, state, stop };
}

function records(count) {
    return Array.from({ length: count }, (_, id) => ({ id, name: `näme ${id}`, text: "x".repeat(40) }));
}

/** What becomes of a result with so many records. */
async function filtered(address, count, token) {
    const structuredContent = { records: records(count) };
    const response = await fetch(`${address}/filter?tool=search`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "lro-settings": '{"threshold":1000}' },
        body: JSON.stringify({ content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent }),
    });
    return response.json();
}

/** The handle of a result that was offloaded, and the links to its files. */
async function offloaded(address, count, token = "token-a") {
    const { content, structuredContent: descriptor } = await filtered(address, count, token);
    assert.equal(descriptor?.offloaded, true, JSON.stringify(content));
    return { handle: descriptor.handle, links: content.filter(({ type }) => type === "resource_link") };
}

async function connected(context, address, token = "token-a") {
    const { Client, StreamableHTTPClientTransport } = await import(CLIENT);
    const client = new Client({ name: "test", version: "1.0.0" });
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${address}/mcp`), { requestInit }));
    context.after(() => client.close());
    return client;
}

async function answerOf(client, name, args) {
    const result = await client.callTool({ name, arguments: args });
    assert.ok(!result.isError, JSON.stringify(result.content));
    return result.structuredContent;
}

const counted = async (client, handle) => (await answerOf(client, "lro_extract", { handle, count: true })).results;

/** Whether an offload is there: its file, and an answer about it. */
async function isThere(client, { handle, links }, token = "token-a") {
    const { status } = await fetch(links[0].uri, { headers: { authorization: `Bearer ${token}` } });
    const { isError, content } = await client.callTool({ name: "lro_extract", arguments: { handle, count: true } });
    assert.equal(status === 200, !isError, `${status}, ${content[0].text}`);
    assert.ok(!isError || /there is no offload/.test(content[0].text), content[0].text);
    return !isError;
}

test("each store keeps an offload, and no other tenant reaches it", async (t) => {
    const [large, given] = [30_000, records(30_000)];
    for (const store of Object.keys(STORES)) {
        await t.test(store, async (t) => {
            const { address } = await started(t, store);
            const { handle, links } = await offloaded(address, large);
            const own = await connected(t, address);
            assert.deepEqual(await counted(own, handle), [{ count: large }]);
            const { contents } = await own.readResource({ uri: `lro://${handle}/records?offset=29990&limit=5` });
            const lines = contents[0].text.trimEnd().split("\n").map((line) => JSON.parse(line));
            assert.deepEqual(lines, given.slice(29_990, 29_995));

            const [{ uri, size }] = links;
            const get = (address, token) => fetch(address, { headers: { authorization: `Bearer ${token}` } });
            const file = await get(uri, "token-a");
            assert.equal(file.headers.get("content-length"), String(size));
            const [, ...written] = (await file.text()).trimEnd().split("\n");
            assert.deepEqual(written, given.map((record) => JSON.stringify(record)));
            assert.equal((await get(uri, TOKEN)).status, 200);
            const [unnamed] = uri.split("?");
            for (const [address, token] of [[uri, "token-b"], [unnamed, "token-b"], [unnamed, TOKEN]]) {
                assert.equal((await get(address, token)).status, 404);
            }
            const other = await connected(t, address, "token-b");
            const refused = await other.callTool({ name: "lro_extract", arguments: { handle, count: true } });
            const missing = `there is no offload ${handle} of this tenant: call the tool again that made it`;
            assert.equal(refused.content[0].text, missing);
        });
    }
});

test("the oldest offloads of a tenant make room in each store", async (t) => {
    for (const store of Object.keys(STORES)) {
        await t.test(store, async (t) => {
            // Two of those of `acme` have so many bytes.
            const bindings = { TENANT_BYTES: "400000", TENANT_OFFLOADS: "3" };
            const { address } = await started(t, store, { bindings });
            for (const [token, count, expected] of [
                ["token-b", 20, [false, true, true, true]],
                ["token-a", 2000, [false, false, true, true]],
            ]) {
                const made = [];
                for (let index = 0; index < 4; index += 1) {
                    made.push(await offloaded(address, count, token));
                }
                const client = await connected(t, address, token);
                const there = [];
                for (const offload of made) {
                    there.push(await isThere(client, offload, token));
                }
                assert.deepEqual(there, expected);
            }
            const { structuredContent } = await filtered(address, 20_000, "token-a");
            assert.equal(structuredContent.offloaded, false);
        });
    }
});

test("a handle is answered after a restart, and a cursor goes on", async (t) => {
    for (const store of KEPT) {
        await t.test(store, async (t) => {
            const before = await started(t, store);
            const { handle } = await offloaded(before.address, 2000);
            const about = { handle, section: "records" };
            const client = await connected(t, before.address);
            const { records: first, next } = await answerOf(client, "lro_read", { ...about, limit: 10 });
            await client.close();
            await before.stop();
            const { address } = await started(t, store, { state: before.state });
            const again = await connected(t, address);
            assert.deepEqual(await counted(again, handle), [{ count: 2000 }]);
            const { records: second } = await answerOf(again, "lro_read", { ...about, cursor: next });
            assert.deepEqual([...first, ...second], records(20));
        });
    }
});

/** The handles in the databases of Durable Objects in a folder: those published, and those with files. */
function handlesIn(folder) {
    const names = readdirSync(folder, { recursive: true }).map(String);
    const files = names.filter((name) => name.endsWith(".sqlite") && !name.endsWith("metadata.sqlite"));
    const found = { published: new Map(), held: new Map() };
    for (const name of files) {
        const database = new DatabaseSync(join(folder, name));
        for (const { id, bytes } of database.prepare("SELECT id, bytes FROM offloads").all()) {
            found.published.set(id, bytes);
        }
        const sums = database.prepare("SELECT id, sum(length(bytes)) AS bytes FROM pieces GROUP BY id").all();
        sums.forEach(({ id, bytes }) => found.held.set(id, bytes));
        database.close();
    }
    return found;
}

test("what has expired is not found in R2, and the next offload of the tenant removes it", async (t) => {
    const { address, runtime } = await started(t, "R2", { bindings: { TTL_SECONDS: "1" } });
    const expired = await offloaded(address, 2000);
    await passed(1100);
    assert.equal(await isThere(await connected(t, address), expired), false);
    const { handle } = await offloaded(address, 2000);
    const bucket = await runtime.getR2Bucket("OFFLOAD_BUCKET");
    const { objects } = await bucket.list({ prefix: "offloads/" });
    assert.ok(objects.length > 0);
    assert.ok(objects.every(({ key }) => key.startsWith(`offloads/acme/${handle}/`)));
});

test("what has expired is not found in a Durable Object, and its alarm removes it", async (t) => {
    const { address, state, stop } = await started(t, "Durable Objects", { bindings: { TTL_SECONDS: "1" } });
    const expired = await offloaded(address, 2000);
    await passed(1100);
    assert.equal(await isThere(await connected(t, address), expired), false);
    for (let tries = 0; handlesIn(state).held.size > 0; tries += 1) {
        assert.ok(tries < 100, "the alarm did not remove it");
        await passed(100);
    }
    await stop();
    assert.deepEqual(handlesIn(state), { published: new Map(), held: new Map() });
});

test("files in R2 without a manifest are no offload, and the next one removes them when they are old", async (t) => {
    const { address, runtime } = await started(t, "R2");
    const whole = await offloaded(address, 2000);
    const bucket = await runtime.getR2Bucket("OFFLOAD_BUCKET");
    const prefix = `offloads/acme/${whole.handle}/`;
    const { objects } = await bucket.list({ prefix });
    const [old, recent] = ["01K00000000000000000000000", whole.handle.replace(/.{4}$/, "0000")];
    for (const id of [old, recent]) {
        for (const { key } of objects.filter(({ key }) => !key.endsWith("/manifest.json"))) {
            const file = await (await bucket.get(key)).arrayBuffer();
            await bucket.put(key.replace(whole.handle, id), file);
        }
    }
    const client = await connected(t, address);
    for (const handle of [old, recent]) {
        const links = [{ uri: whole.links[0].uri.replace(whole.handle, handle) }];
        assert.equal(await isThere(client, { handle, links }), false);
    }
    await offloaded(address, 2000);
    const left = (await bucket.list({ prefix: "offloads/acme/" })).objects.map(({ key }) => key.split("/")[2]);
    assert.deepEqual([left.includes(old), left.includes(recent)], [false, true]);
    assert.ok(await isThere(client, whole));
});

test("a page takes only its range from R2", async (t) => {
    const { address } = await started(t, "R2");
    const { handle, links } = await offloaded(address, 100_000);
    const client = await connected(t, address);
    const about = { handle, section: "records" };
    const { next } = await answerOf(client, "lro_read", { ...about, limit: 10 });
    const count = async () => Number(await (await fetch(`${address}/count`)).text());
    const before = await count();
    const { records: page } = await answerOf(client, "lro_read", { ...about, cursor: next });
    assert.deepEqual(page, records(20).slice(10));
    const taken = (await count()) - before;
    assert.ok(links[0].size > 7_000_000 && taken < 1_200_000, `${taken} of ${links[0].size} bytes`);
});

test("a killed workerd leaves whole offloads only, and goes on with them", async (t) => {
    const folder = join(stateOf(), "offloads");
    mkdirSync(folder, { recursive: true });
    const configuration = join(EDGE, `test-${process.pid}.capnp`);
    const text = readFileSync(join(EDGE, "durable.capnp"), "utf8");
    writeFileSync(configuration, text.replace("127.0.0.1:8809", "127.0.0.1:0").replace('path = "offloads"', `path = "${folder}"`));
    t.after(() => rmSync(configuration));
    const start = async () => {
        const server = spawn(workerd.default, ["serve", configuration, "--control-fd=3"], {
            stdio: ["ignore", "ignore", "ignore", "pipe"],
            env: { ...process.env, LRO_EDGE_TOKEN: TOKEN, LRO_EDGE_TENANTS: TENANTS },
        });
        t.after(() => server.kill("SIGKILL"));
        for await (const line of server.stdio[3]) {
            return { server, address: `http://127.0.0.1:${JSON.parse(line).port}` };
        }
        throw new Error("workerd did not start");
    };
    const answered = new Set();
    for (const count of [1, 3, 6]) {
        const { server, address } = await start();
        // It is killed when so many have been answered, among those that have not.
        let left = count;
        const asked = Array.from({ length: 12 }, async () => {
            const { handle } = await offloaded(address, 20_000);
            answered.add(handle);
            left -= 1;
            if (left === 0) {
                server.kill("SIGKILL");
            }
        });
        await Promise.allSettled(asked);
    }
    const { address } = await start();
    const client = await connected(t, address);
    for (const handle of answered) {
        assert.deepEqual(await counted(client, handle), [{ count: 20_000 }]);
    }
    const { published, held } = handlesIn(folder);
    assert.ok(published.size >= answered.size && answered.size >= 10);
    published.forEach((bytes, id) => assert.equal(held.get(id), bytes));
});

test("a worker with two stores, or with a bound that is no number, says so", async (t) => {
    const ask = async (options) => {
        const { address } = await started(t, ...options);
        const response = await fetch(`${address}/filter?tool=t`, { method: "POST", headers: { authorization: `Bearer ${TOKEN}` } });
        assert.equal(response.status, 503);
        return (await response.json()).error;
    };
    STORES.both = { ...STORES.R2, ...STORES["Durable Objects"] };
    assert.match(await ask(["both"]), /^both OFFLOAD_BUCKET and OFFLOAD_OBJECTS are bound/);
    for (const wrong of ["0", "-1", "many", "1.5"]) {
        const error = await ask(["memory", { bindings: { TENANT_OFFLOADS: wrong } }]);
        assert.equal(error, `the binding TENANT_OFFLOADS is "${wrong}": expected a whole number, at least 1`);
    }
});
