import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test, { after } from "node:test";
import { fileURLToPath } from "node:url";

import workerd from "workerd";

const EDGE = fileURLToPath(new URL("..", import.meta.url));
const TARGET = process.env.CARGO_TARGET_DIR ?? join(EDGE, "../../target");
/** The client of the TypeScript SDK, in its versions 2 and 1. */
const CLIENT = join(TARGET, "test-data/mcp/node_modules/@modelcontextprotocol/client/dist/index.mjs");
const CLIENT_1 = join(TARGET, "test-data/mcp/node_modules/@modelcontextprotocol/sdk/dist/esm/client");
const TOKEN = "the-token";
const AUTHORIZATION = { authorization: `Bearer ${TOKEN}` };
const scratch = mkdtempSync(join(tmpdir(), "lro-edge-"));

after(() => rmSync(scratch, { recursive: true, force: true }));

/** Starts workerd with the worker's own configuration, on a free port; `change` edits its text. */
async function started(context, { policy, change = (text) => text, token = TOKEN, tenants = "" } = {}) {
    let folder = EDGE;
    if (policy !== undefined) {
        folder = join(scratch, policy, "edge");
        for (const name of readdirSync(EDGE).filter((name) => name.endsWith(".js"))) {
            cpSync(join(EDGE, name), join(folder, name));
        }
        cpSync(join(EDGE, "../node/src"), join(scratch, policy, "node/src"), { recursive: true });
        const component = join(TARGET, "wasm32-unknown-unknown/component", `${policy}.wasm`);
        execFileSync(process.execPath, [join(EDGE, "build.js"), component, join(folder, "component")], {
            stdio: "ignore",
        });
    }
    const file = join(folder, `test-${process.pid}-${Date.now()}.capnp`);
    const text = readFileSync(join(EDGE, "config.capnp"), "utf8").replace("127.0.0.1:8809", "127.0.0.1:0");
    writeFileSync(file, change(text));
    const server = spawn(workerd.default, ["serve", file, "--control-fd=3"], {
        stdio: ["ignore", "ignore", "pipe", "pipe"],
        env: { ...process.env, LRO_EDGE_TOKEN: token, LRO_EDGE_TENANTS: tenants },
    });
    context.after(() => server.kill());
    let errors = "";
    server.stderr.on("data", (data) => (errors += data));
    for await (const line of server.stdio[3]) {
        rmSync(file);
        return { address: `http://127.0.0.1:${JSON.parse(line).port}`, server };
    }
    rmSync(file);
    throw new Error(`workerd did not start: ${errors}`);
}

async function filtered(address, result, settings, parameters = "tool=search") {
    const headers = { ...AUTHORIZATION, ...(settings && { "lro-settings": JSON.stringify(settings) }) };
    const response = await fetch(`${address}/filter?${parameters}`, {
        method: "POST",
        headers,
        body: JSON.stringify(result),
    });
    return { status: response.status, body: await response.json() };
}

function recordsResult(count) {
    const records = Array.from({ length: count }, (_, id) => ({ id, name: `näme ${id}`, text: "x".repeat(40) }));
    const structuredContent = { records };
    return { content: [{ type: "text", text: JSON.stringify(structuredContent) }], structuredContent };
}

const get = (address) => fetch(address, { headers: AUTHORIZATION });

/** A client of the worker over HTTP, with a token. */
async function connected(context, address, { token = TOKEN, parameters = "", mode } = {}) {
    const { Client, StreamableHTTPClientTransport } = await import(CLIENT);
    const client = new Client({ name: "test", version: "1.0.0" }, { versionNegotiation: mode && { mode } });
    const requestInit = { headers: { authorization: `Bearer ${token}` } };
    await client.connect(new StreamableHTTPClientTransport(new URL(`${address}/mcp${parameters}`), { requestInit }));
    context.after(() => client.close());
    return client;
}

/** The structured content of a call that must not fail. */
async function answerOf(client, name, args) {
    const result = await client.callTool({ name, arguments: args });
    assert.ok(!result.isError, JSON.stringify(result.content));
    return result.structuredContent;
}

/** The error of a call that must fail. */
async function errorOf(client, name, args) {
    const { isError, content } = await client.callTool({ name, arguments: args });
    assert.equal(isError, true);
    return content[0].text;
}

const linksOf = (body) => body.content.filter((block) => block.type === "resource_link");

test("a large result becomes a descriptor with a handle, and its files are served", async (t) => {
    const { address } = await started(t);
    const result = recordsResult(2000);
    const { status, body } = await filtered(address, result, undefined, "tool=search&session=s&query=q");
    assert.equal(status, 200);
    const { offloaded, handle, files } = body.structuredContent;
    assert.equal(offloaded, true);
    assert.deepEqual(files, { records: "records-s.jsonl" });
    const [link] = linksOf(body);
    assert.equal(link.uri, `${address}/offloads/${handle}/records-s.jsonl`);
    const response = await get(link.uri);
    assert.equal(link.mimeType, "application/jsonl");
    assert.equal(response.headers.get("content-type"), "application/octet-stream");
    assert.equal(response.headers.get("content-disposition"), 'attachment; filename="records-s.jsonl"');
    assert.equal(response.headers.get("x-content-type-options"), "nosniff");
    const text = await response.text();
    assert.equal(Buffer.byteLength(text), link.size);
    const [header, ...lines] = text.trimEnd().split("\n");
    assert.equal(JSON.parse(header).query, "q");
    assert.deepEqual(
        lines,
        result.structuredContent.records.map((record) => JSON.stringify(record)),
    );
});

test("a small result passes, settings and failure modes are those of the header", async (t) => {
    const { address } = await started(t);
    const small = recordsResult(2);
    assert.deepEqual((await filtered(address, small)).body, small);
    const rejected = await filtered(address, small, { mode: "always", action: "reject", advice: "Ask for less." });
    assert.deepEqual(rejected.body, { content: [{ type: "text", text: "Ask for less." }], isError: true });
    const truncated = await filtered(address, recordsResult(2000), { threshold: 2000, action: "truncate" });
    assert.ok(JSON.stringify(truncated.body).length <= 2000);
    assert.equal(truncated.body.structuredContent.offloaded, false);
});

test("bad requests are told what is wrong", async (t) => {
    const { address } = await started(t, { change: (text) => text.replace('"33554432"', '"1000"') });
    const wrong = [
        [() => filtered(address, recordsResult(1), { treshold: 1 }), 400, /^`treshold` is not a setting$/],
        [
            () => filtered(address, recordsResult(1), { failure: "loud" }),
            400,
            /^`failure` is "loud": /,
        ],
        [() => filtered(address, recordsResult(1), { limits: { files: 1 } }), 400, /^`limits` are set where/],
        [() => filtered(address, recordsResult(1), undefined, ""), 400, /call\.tool: expected the name of the tool/],
        [() => filtered(address, "text"), 400, /^expected an object with `content`/],
        [() => filtered(address, recordsResult(100)), 413, /more than 1000 bytes \(BODY_BYTES\)/],
    ];
    for (const [ask, expected, message] of wrong) {
        const { status, body } = await ask();
        assert.equal(status, expected);
        assert.match(body.error, message);
    }
    for (const path of ["/", "/offloads/01K00000000000000000000000/records.jsonl", "/offloads/x/../worker.js"]) {
        assert.equal((await get(address + path)).status, 404);
    }
});

test("nobody is answered without the token", async (t) => {
    const { address } = await started(t);
    const [link] = linksOf((await filtered(address, recordsResult(2000))).body);
    for (const authorization of ["", TOKEN, `Basic ${TOKEN}`, "Bearer", "Bearer other", `Bearer ${TOKEN}s`]) {
        for (const ask of [[`${address}/filter?tool=search`, { method: "POST", body: "{}" }], [link.uri, {}]]) {
            const response = await fetch(ask[0], { ...ask[1], headers: authorization ? { authorization } : {} });
            assert.equal(response.status, 401, authorization);
            assert.equal(response.headers.get("www-authenticate"), "Bearer");
        }
    }
    const { address: open } = await started(t, { token: "" });
    const { status, body } = await filtered(open, recordsResult(2));
    assert.equal(status, 503);
    assert.match(body.error, /LRO_EDGE_TOKEN/);
});

test("a tenant has its own token, and neither names another nor sees its files", async (t) => {
    const { address } = await started(t, { tenants: '{"acme":"token-a","other":"token-b"}' });
    const as = (token) => ({ headers: { authorization: `Bearer ${token}` } });
    const ask = (token, parameters = "") => {
        const body = JSON.stringify(recordsResult(2000));
        return fetch(`${address}/filter?tool=search${parameters}`, { method: "POST", body, ...as(token) });
    };
    const [link] = linksOf(await (await ask("token-a")).json());
    for (const [token, expected] of [["token-a", 200], [TOKEN, 200], ["token-b", 404], ["token-c", 401]]) {
        assert.equal((await fetch(link.uri, as(token))).status, expected, token);
    }
    assert.equal((await ask("token-a", "&tenant=acme")).status, 200);
    assert.equal((await ask("token-a", "&tenant=other")).status, 403);
    assert.equal((await ask(TOKEN, "&tenant=other")).status, 200);
    const [twice] = linksOf(await (await ask("token-a", "&tenant=acme&tenant=other")).json());
    assert.equal((await fetch(twice.uri, as("token-a"))).status, 200);
    assert.equal((await fetch(twice.uri, as("token-b"))).status, 404);
    // Without a token for all.
    const { address: closed } = await started(t, { token: "", tenants: '{"acme":"token-a"}' });
    assert.equal((await filtered(closed, recordsResult(2))).status, 401);
    for (const tenants of ["{", '{"acme":""}', '{"acme":7}']) {
        const { address: wrong } = await started(t, { tenants });
        const { status, body } = await filtered(wrong, recordsResult(2));
        assert.equal(status, 503);
        assert.match(body.error, /TENANTS/);
    }
});

test("files in memory are bounded: the oldest go first, and what is too large is truncated", async (t) => {
    const { address } = await started(t, { change: (text) => text.replace('"67108864"', '"400000"') });
    const links = [];
    for (let index = 0; index < 4; index += 1) {
        links.push(linksOf((await filtered(address, recordsResult(2000))).body)[0]);
    }
    const statuses = await Promise.all(links.map(async (link) => (await get(link.uri)).status));
    assert.deepEqual(statuses, [404, 404, 200, 200]);
    const { body } = await filtered(address, recordsResult(20_000));
    assert.equal(body.structuredContent.offloaded, false);
    assert.match(body.content.at(-1).text, /wrote more than 400000 bytes \(limit written-bytes\)/);
    assert.equal((await get(links[3].uri)).status, 200);
});

test("files expire", async (t) => {
    const { address } = await started(t, { change: (text) => text.replace('"3600"', '"2"') });
    // A busy machine may take longer for a result than it lasts.
    let link;
    do {
        [link] = linksOf((await filtered(address, recordsResult(2000))).body);
    } while ((await get(link.uri)).status !== 200);
    while ((await get(link.uri)).status !== 404) {
        await new Promise((resolve) => setTimeout(resolve, 100));
    }
});

test("a policy that misbehaves ends with what the failure mode says", async (t) => {
    const { address } = await started(t, { policy: "lro_test_policies" });
    const cases = [
        ["inspect-memory", /with \d+ of 67108864 bytes of memory \(limit memory-bytes\)/],
        ["memory", /with \d+ of 67108864 bytes of memory \(limit memory-bytes\)/],
        ["stack", /the policy (ran out of stack|failed: )/],
        ["trap", /the policy failed: /],
        ["many-files:300", /created more than 256 files \(limit files\)/],
        ["many-bytes:100000000", /wrote more than 67108864 bytes \(limit written-bytes\)/],
        ["lie-absent", /a false account of its files/],
        ["lie-not-json", /a descriptor that is not a JSON object/],
    ];
    for (const [custom, message] of cases) {
        const { body } = await filtered(address, recordsResult(10), { custom, failure: "closed" });
        assert.equal(body.isError, true, custom);
        assert.match(body.content[0].text, message, custom);
    }
    const { body } = await filtered(address, recordsResult(10), { custom: "inspect-trap" });
    assert.deepEqual(body, recordsResult(10));
});

test("a policy that loops ends, and the worker goes on", async (t) => {
    const { address } = await started(t, { policy: "lro_test_policies" });
    for (const custom of ["inspect-loop", "loop"]) {
        const { body } = await filtered(address, recordsResult(10), { custom, failure: "closed" });
        const reason = "the policy executed more than 4000000000 instructions (limit fuel)";
        const text = `the result could not be filtered: ${reason}`;
        assert.deepEqual(body, { content: [{ type: "text", text }], isError: true }, custom);
    }
    const { body } = await filtered(address, recordsResult(10), { custom: "loop" });
    assert.match(body.content.at(-1).text, /^The result could not be written to files \(the policy executed more than/);
    const { body: honest } = await filtered(address, recordsResult(10), { custom: "honest", failure: "closed" });
    assert.equal(honest.isError, undefined, JSON.stringify(honest));
});

test("what passes is not touched, and what is no text is refused", async (t) => {
    const { address } = await started(t);
    const ask = (body) => fetch(`${address}/filter?tool=search`, { method: "POST", headers: AUTHORIZATION, body });
    const exact = '{ "content" : [], "structuredContent": {"n": 1.0, "big": 12345678901234567890} }';
    assert.equal(await (await ask(exact)).text(), exact);
    const response = await ask(Buffer.from('{"content":[{"type":"text","text":"\xff"}]}', "latin1"));
    assert.equal(response.status, 400);
    assert.deepEqual(await response.json(), { error: "expected a tool result as JSON: not UTF-8 at byte 35" });
});

test("several calls at once get their own files", async (t) => {
    const { address } = await started(t);
    const replies = await Promise.all(
        Array.from({ length: 10 }, (_, index) => filtered(address, recordsResult(1000 + index))),
    );
    assert.equal(new Set(replies.map(({ body }) => body.structuredContent.handle)).size, 10);
    for (const [index, { body }] of replies.entries()) {
        const text = await (await get(linksOf(body)[0].uri)).text();
        assert.equal(text.trimEnd().split("\n").length, 1001 + index);
    }
});

const CLIENTS = {
    "2025-11-25": (t, address) => connected(t, address),
    "2026-07-28": (t, address) => connected(t, address, { mode: "auto" }),
    "2025-11-25, version 1 of the SDK": async (t, address) => {
        const { Client } = await import(join(CLIENT_1, "index.js"));
        const { StreamableHTTPClientTransport } = await import(join(CLIENT_1, "streamableHttp.js"));
        const client = new Client({ name: "test", version: "1.0.0" });
        const url = new URL(`${address}/mcp`);
        await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers: AUTHORIZATION } }));
        t.after(() => client.close());
        return client;
    },
};

test("clients of each revision ask three questions about an offload and read it", async (t) => {
    const { address } = await started(t);
    const { records } = recordsResult(2000).structuredContent;
    const { body } = await filtered(address, recordsResult(2000));
    const { handle, recipes } = body.structuredContent;
    const about = { handle, section: "records" };
    for (const [name, connect] of Object.entries(CLIENTS)) {
        await t.test(name, async (t) => {
            const client = await connect(t, address);
            assert.equal(client.getNegotiatedProtocolVersion?.() ?? "2025-11-25", name.slice(0, 10));
            assert.match(client.getInstructions(), /lro_extract/);
            const { tools } = await client.listTools();
            assert.deepEqual(tools.map((tool) => tool.name), ["lro_extract", "lro_read"]);
            const { resourceTemplates } = await client.listResourceTemplates();
            assert.equal(resourceTemplates[0].uriTemplate, "lro://{offload}/{section}{?offset,limit}");
            assert.deepEqual((await client.listResources()).resources, []);

            const ask = async (question) => (await answerOf(client, "lro_extract", { ...about, ...question })).results;
            assert.deepEqual(await ask({ where: "id >= 1990", count: true }), [{ count: 10 }]);
            assert.deepEqual(await ask({ sort: "-id", select: "id", limit: 2 }), [{ id: 1999 }, { id: 1998 }]);
            assert.deepEqual(await ask({ sql: "SELECT count(*) AS n FROM records WHERE id < 7" }), [{ n: 7 }]);
            assert.ok(Object.keys(recipes).length > 0);
            for (const call of Object.values(recipes)) {
                assert.ok((await answerOf(client, "lro_extract", call)).total > 0);
            }

            const read = [];
            for (let cursor; cursor !== null;) {
                const page = await answerOf(client, "lro_read", { ...about, cursor });
                read.push(...page.records);
                cursor = page.next;
            }
            assert.deepEqual(read, records);
            const { contents } = await client.readResource({ uri: `lro://${handle}/records?offset=1990&limit=5` });
            const lines = contents[0].text.trimEnd().split("\n");
            assert.deepEqual(lines.map((line) => JSON.parse(line)), records.slice(1990, 1995));
        });
    }
});

test("a handle of another tenant, and what is not there, is refused", async (t) => {
    const { address } = await started(t, { tenants: '{"acme":"token-a","other":"token-b"}' });
    const parameters = "tool=search&tenant=acme";
    const { handle } = (await filtered(address, recordsResult(2000), undefined, parameters)).body.structuredContent;
    const about = { handle, section: "records" };
    const own = await connected(t, address, { token: "token-a" });
    const { next } = await answerOf(own, "lro_read", { ...about, limit: 10 });
    const named = await connected(t, address, { parameters: "?tenant=acme" });
    assert.deepEqual((await answerOf(named, "lro_extract", { ...about, count: true })).results, [{ count: 2000 }]);
    for (const other of [await connected(t, address, { token: "token-b" }), await connected(t, address)]) {
        assert.match(await errorOf(other, "lro_extract", { ...about, count: true }), /there is no offload/);
        assert.match(await errorOf(other, "lro_read", { ...about, cursor: next }), /there is no offload/);
        await assert.rejects(other.readResource({ uri: `lro://${handle}/records` }), /there is no offload/);
    }
    await assert.rejects(connected(t, address, { token: "token-b", parameters: "?tenant=acme" }), /another tenant/);
    await assert.rejects(connected(t, address, { token: "token-c" }));

    assert.match(await errorOf(own, "lro_extract", { handle: "../acme", count: true }), /is not a handle/);
    assert.match(await errorOf(own, "lro_extract", { ...about, where: "nope == 1" }), /no record has the field/);
    assert.match(await errorOf(own, "lro_read", { ...about, cursor: "x" }), /invalid cursor/);
    await assert.rejects(own.callTool({ name: "nope" }), { code: -32_602, message: /there is no tool nope/ });
    await assert.rejects(own.readResource({ uri: "lro://nothing" }), /there is no resource lro:\/\/nothing/);
});

test("a question without end ends, and the worker goes on", async (t) => {
    const { address } = await started(t);
    const { handle } = (await filtered(address, recordsResult(2000))).body.structuredContent;
    const client = await connected(t, address);
    const about = { handle, section: "records" };
    const looped = await errorOf(client, "lro_extract", { ...about, jq: "last(range(1e12))" });
    assert.equal(looped, "the question executed more than 1000000000 instructions (limit fuel): ask for less");
    assert.match(await errorOf(client, "lro_extract", { ...about, jq: "def f: 1 + f; f" }), /^the question .*: ask for less$/);
    assert.match(await errorOf(client, "lro_extract", { ...about, jq: "[range(1e9)]" }), /^the question .*: ask for less$/);
    assert.deepEqual((await answerOf(client, "lro_extract", { ...about, count: true })).results, [{ count: 2000 }]);
});
