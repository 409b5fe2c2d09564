import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import test from "node:test";

import { Client, InMemoryTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { McpServer, Server, createMcpHandler } from "@modelcontextprotocol/server";
import { GUIDANCE, TEMPLATE, TOOLS } from "lro-filter";

import { withDirectories } from "../src/directories.js";
import { Store } from "../src/store.js";
import { LRO, TARGET, filterFor, freshPath, recordsResult, served } from "./support.js";

const SDK = join(TARGET, "test-data/mcp/node_modules/@modelcontextprotocol/sdk/dist/esm");
const { records } = recordsResult(3000).structuredContent;

/** A server with a tool of 3,000 records. */
function serverFor(filter) {
    const server = filter.attach(new McpServer({ name: "test", version: "1.0.0" }, { instructions: "Be brief." }));
    server.registerTool("records", {}, async () => recordsResult(3000));
    return server;
}

/** A client of version 2 of the SDK. */
async function connected(t, transport, versionNegotiation) {
    const client = new Client({ name: "test", version: "1.0.0" }, { versionNegotiation });
    await client.connect(transport);
    t.after(() => client.close());
    return client;
}

/** A client in this process, of a server with this filter. */
async function clientOf(t, filter, server = serverFor(filter)) {
    const [near, far] = InMemoryTransport.createLinkedPair();
    await server.connect(far);
    return connected(t, near);
}

/** The structured content of a call that must not fail. */
async function answerOf(client, name, args = {}) {
    const result = await client.callTool({ name, arguments: args });
    assert.ok(!result.isError, result.content[0].text);
    return result.structuredContent;
}

const CLIENTS = {
    "of version 2": async (t, filter) => {
        const { fetch } = createMcpHandler(() => serverFor(filter));
        return connected(t, new StreamableHTTPClientTransport(await served(t, fetch)));
    },
    "of the revision 2026-07-28": async (t, filter) => {
        const { fetch } = createMcpHandler(() => serverFor(filter));
        const transport = new StreamableHTTPClientTransport(await served(t, fetch));
        const client = await connected(t, transport, { mode: "auto" });
        assert.equal(client.getNegotiatedProtocolVersion(), "2026-07-28");
        return client;
    },
    "of version 1": async (t, filter) => {
        const { McpServer } = await import(`${SDK}/server/mcp.js`);
        const { WebStandardStreamableHTTPServerTransport } = await import(`${SDK}/server/webStandardStreamableHttp.js`);
        const { Client } = await import(`${SDK}/client/index.js`);
        const { StreamableHTTPClientTransport } = await import(`${SDK}/client/streamableHttp.js`);
        const server = filter.attach(new McpServer({ name: "test", version: "1.0.0" }, { instructions: "Be brief." }));
        server.registerTool("records", {}, async () => recordsResult(3000));
        const far = new WebStandardStreamableHTTPServerTransport({ sessionIdGenerator: () => crypto.randomUUID() });
        await server.connect(far);
        const client = new Client({ name: "test", version: "1.0.0" });
        await client.connect(new StreamableHTTPClientTransport(await served(t, (request) => far.handleRequest(request))));
        t.after(() => client.close());
        return client;
    },
};

for (const [name, connect] of Object.entries(CLIENTS)) {
    // How many, which, what else is there, then all of it.
    test(`a client over HTTP, ${name}, asks about an offload and reads it, without a shell`, async (t) => {
        const directory = freshPath();
        const client = await connect(t, filterFor(t, { directory }));
        assert.equal(client.getInstructions(), `Be brief.\n\n${GUIDANCE}`);
        const { tools } = await client.listTools();
        assert.deepEqual(tools.map((tool) => tool.name), ["records", "lro_extract", "lro_read"]);
        assert.deepEqual(tools[1].inputSchema, TOOLS[0].inputSchema);
        assert.deepEqual((await client.listResourceTemplates()).resourceTemplates, [TEMPLATE]);
        assert.deepEqual((await client.listResources()).resources, []);

        const descriptor = await answerOf(client, "records");
        assert.equal(descriptor.jq_recipes, undefined);
        assert.ok(!JSON.stringify(descriptor).includes(directory));
        const about = { handle: descriptor.handle, section: "records" };
        const ask = async (question) => (await answerOf(client, "lro_extract", { ...about, ...question })).results;
        assert.deepEqual(await ask({ where: "score > 12", count: true }), [{ count: 90 }]);
        assert.deepEqual(await ask({ sort: "-id", select: "id", limit: 2 }), [{ id: 2999 }, { id: 2998 }]);
        assert.equal((await ask({ group: "score", limit: 200 })).length, 100);
        for (const call of Object.values(descriptor.recipes)) {
            assert.ok((await answerOf(client, "lro_extract", call)).total > 0);
        }

        const read = [];
        for (let cursor; cursor !== null;) {
            const page = await answerOf(client, "lro_read", { ...about, cursor });
            read.push(...page.records);
            cursor = page.next;
        }
        assert.deepEqual(read, records);
        const uri = `lro://${descriptor.handle}/records?offset=2990&limit=5`;
        const { contents } = await client.readResource({ uri });
        assert.deepEqual(contents[0].text.trimEnd().split("\n").map((line) => JSON.parse(line)), records.slice(2990, 2995));
    });
}

test("what cannot be answered is said", async (t) => {
    const directory = freshPath();
    const client = await clientOf(t, filterFor(t, { directory }));
    const { handle } = await answerOf(client, "records");
    const errorOf = async (name, args) => {
        const { isError, content } = await client.callTool({ name, arguments: args });
        assert.ok(isError);
        return content[0].text;
    };
    const unknown = "01K00000000000000000000000";
    assert.match(await errorOf("lro_extract", { handle, section: "records", where: "nope == 1" }), /no record has the field/);
    assert.match(await errorOf("lro_extract", { handle: unknown, count: true }), /there is no offload/);
    assert.match(await errorOf("lro_extract", { handle: "../default", count: true }), /is not a handle/);
    assert.match(await errorOf("lro_read", { handle, section: "records", cursor: "x" }), /invalid cursor/);
    await assert.rejects(client.readResource({ uri: `lro://${unknown}/records` }), /there is no offload/);
    await assert.rejects(client.readResource({ uri: "lro://nothing" }), /there is no resource lro:\/\/nothing/);
    await assert.rejects(client.readResource({ uri: "file:///a" }), /there is no resource file:\/\/\/a/);
    await assert.rejects(client.request({ method: "prompts/list" }), /Method not found/);

    const file = join(directory, "default", handle, "records.jsonl");
    writeFileSync(file, "{}\n");
    assert.match(await errorOf("lro_read", { handle, section: "records" }), /has changed/);
    rmSync(file);
    symlinkSync("/etc/passwd", file);
    assert.match(await errorOf("lro_read", { handle, section: "records" }), /cannot be read/);
    // Clients see no path.
    writeFileSync(join(directory, ".cursor-key"), "short");
    const reason = await errorOf("lro_read", { handle, section: "records" });
    assert.equal(reason, "the offload could not be read: the server warns why");
});

test("a question ends at its limits, and the next one is answered", async (t) => {
    const client = await clientOf(t, filterFor(t, { threads: 1, limits: { wallTimeMs: 2000 } }));
    const { handle } = await answerOf(client, "records");
    const about = { handle, section: "records" };
    for (const [jq, expected] of [
        ["last(range(1e12))", /^the question took longer than 2000 ms \(limit wall-time-ms\): ask for less$/],
        ["def f: 1 + f; f", /^the question .*: ask for less$/],
    ]) {
        const { isError, content } = await client.callTool({ name: "lro_extract", arguments: { ...about, jq } });
        assert.ok(isError);
        assert.match(content[0].text, expected);
    }
    assert.deepEqual((await answerOf(client, "lro_extract", { ...about, count: true })).results, [{ count: 3000 }]);
});

test("abilities say which tools there are", async (t) => {
    for (const [abilities, expected] of [[{ shell: true }, []], [{ readTool: true }, ["lro_read"]]]) {
        const client = await clientOf(t, filterFor(t, { abilities }));
        assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), ["records", ...expected]);
        const descriptor = await answerOf(client, "records");
        assert.equal(descriptor.jq_recipes !== undefined, abilities.shell === true);
        assert.equal(client.getInstructions().includes(GUIDANCE), expected.length > 0);
        assert.equal(client.getServerCapabilities().resources !== undefined, expected.length > 0);
        const call = { name: "lro_extract", arguments: { handle: descriptor.handle, count: true } };
        const isRefused = await client.callTool(call).then(({ isError }) => isError, () => true);
        assert.ok(isRefused);
    }
    const descriptor = await answerOf(await clientOf(t, filterFor(t)), "records");
    assert.ok(descriptor.jq_recipes !== undefined && descriptor.files.records !== undefined);
});

test("a server without tools has the own ones", async (t) => {
    const filter = filterFor(t);
    const client = await clientOf(t, filter, filter.attach(new McpServer({ name: "test", version: "1.0.0" })));
    assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), ["lro_extract", "lro_read"]);
    await assert.rejects(client.callTool({ name: "nope" }), { code: -32_602, message: /there is no tool nope/ });
    await assert.rejects(filter.callTool("nope"), { code: -32_602 });
});

test("tools and resources of a server stay beside the own ones, on their pages", async (t) => {
    const filter = filterFor(t);
    const server = filter.attach(new Server({ name: "test", version: "1.0.0" }, { capabilities: { tools: {}, resources: {} } }));
    const inputSchema = { type: "object" };
    server.setRequestHandler("tools/list", async ({ params }) => {
        const isFirst = params?.cursor === undefined;
        return { tools: [{ name: isFirst ? "a" : "b", inputSchema }], nextCursor: isFirst ? "next" : undefined };
    });
    server.setRequestHandler("tools/call", async ({ params }) => ({ content: [{ type: "text", text: params.name }] }));
    server.setRequestHandler("resources/read", async ({ params: { uri } }) => ({ contents: [{ uri, text: "its own" }] }));
    const client = await clientOf(t, filter, server);
    const namesOf = async (cursor) => {
        const { tools } = await client.request({ method: "tools/list", params: { cursor } });
        return tools.map(({ name }) => name);
    };
    assert.deepEqual(await namesOf(), ["a"]);
    assert.deepEqual(await namesOf("next"), ["b", "lro_extract", "lro_read"]);
    assert.equal((await client.callTool({ name: "a" })).content[0].text, "a");
    assert.equal((await client.readResource({ uri: "lro://nothing" })).contents[0].text, "its own");
    assert.equal((await client.readResource({ uri: "file:///a" })).contents[0].text, "its own");
    assert.deepEqual((await client.listResourceTemplates()).resourceTemplates, [TEMPLATE]);
});

// Both hosts sign with one key, and record offloads alike.
test("the lro command goes on where the tool stopped", async (t) => {
    const directory = freshPath();
    const filter = filterFor(t, { directory });
    const call = { tool: "search", tenant: "team a", abilities: { readTool: true } };
    const { handle } = (await filter.apply(call, recordsResult(3000))).structuredContent;
    const asked = { handle, section: "records", limit: 10 };
    const page = (await filter.callTool("lro_read", asked, { tenant: "team a" })).structuredContent;
    assert.deepEqual(page.records, records.slice(0, 10));
    const about = ["read", handle, "--section", "records", "--dir", directory, "--tenant", "team a"];
    const next = execFileSync(LRO, [...about, "--cursor", page.next], { encoding: "utf8" });
    assert.deepEqual(next.trimEnd().split("\n").map((line) => JSON.parse(line)), records.slice(10, 20));
    const { isError, content } = await filter.callTool("lro_read", asked);
    assert.ok(isError && content[0].text.includes("there is no offload"));
});

test("the tools read what the lro command offloaded", async (t) => {
    const [directory, input] = [freshPath(), freshPath()];
    writeFileSync(input, JSON.stringify(recordsResult(3000)));
    const output = execFileSync(LRO, ["offload", input, "--dir", directory, "--tenant", "default"], { encoding: "utf8" });
    const handle = basename(dirname(JSON.parse(output).structuredContent.files.records));
    const filter = filterFor(t, { directory });
    const answer = await filter.callTool("lro_extract", { handle, section: "records", where: "id >= 2990", count: true });
    assert.deepEqual(answer.structuredContent.results, [{ count: 10 }]);
    const { contents } = await filter.readResource(`lro://${handle}/records?offset=2999`);
    assert.deepEqual(JSON.parse(contents[0].text), records[2999]);
    assert.equal(await filter.readResource("file:///a"), undefined);
});

test("all who need the key of cursors get the same", async () => {
    const root = freshPath();
    const limits = { timeToLiveMs: 60_000, quotaFile: 2 ** 30, quotaTenant: 2 ** 32 };
    const stores = await Promise.all(Array.from({ length: 8 }, () => Store.open(root, limits)));
    const keys = await Promise.all(stores.map((store) => store.cursorKey()));
    assert.equal(new Set(keys.map((key) => key.toString("hex"))).size, 1);
    assert.equal(keys[0].length, 32);
    assert.deepEqual(readdirSync(root), [".cursor-key"]);
    assert.equal(statSync(join(root, ".cursor-key")).mode & 0o777, 0o600);
});

test("nothing but files of the directories can be opened", () => {
    const [directory, outside] = [freshPath(), freshPath()];
    execFileSync("mkdir", [directory]);
    writeFileSync(outside, "secret");
    writeFileSync(join(directory, "a"), "abc");
    symlinkSync(outside, join(directory, "link"));
    execFileSync("mkfifo", [join(directory, "pipe")]);
    execFileSync("mkdir", [join(directory, "folder")]);
    const openFiles = () => readdirSync("/proc/self/fd").length;
    const before = openFiles();
    withDirectories([["name", directory]], 2, (imports) => {
        const [[opened, name]] = imports["wasi:filesystem/preopens"].getDirectories();
        assert.equal(name, "name");
        const codeOf = (action) => {
            try {
                action();
            } catch (code) {
                return code;
            }
        };
        const open = (path, flags = {}, openFlags = {}) => opened.openAt({}, path, openFlags, { read: true, ...flags });
        for (const [path, code] of [
            ["link", "loop"], ["pipe", "not-permitted"], ["folder", "not-permitted"], ["none", "no-entry"],
            [`../${basename(outside)}`, "not-permitted"], ["..", "not-permitted"], [".", "not-permitted"],
            ["", "not-permitted"], [outside, "not-permitted"], ["a\0", "not-permitted"],
        ]) {
            assert.equal(codeOf(() => open(path)), code, path);
        }
        assert.equal(codeOf(() => open("a", { write: true })), "read-only");
        assert.equal(codeOf(() => open("b", {}, { create: true })), "read-only");
        assert.equal(codeOf(() => opened.read(1n, 0n)), "not-permitted");
        const file = open("a");
        const read = [file.read(2n, 0n), file.read(9n, 2n)].map(([bytes, isEnd]) => [String(bytes), isEnd]);
        assert.deepEqual(read, [["ab", false], ["c", true]]);
        assert.equal(codeOf(() => file.openAt({}, "a", {}, {})), "not-permitted");
        open("a");
        assert.equal(codeOf(() => open("a")), "quota");
        file[Symbol.dispose]();
        open("a");
    });
    assert.equal(openFiles(), before);
});

// As in the gateway: the server's own tool stays, and no list has a name twice, whatever page it is on.
test("a tool of the server with the same name is its own", async (t) => {
    const filter = filterFor(t);
    const server = filter.attach(new Server({ name: "test", version: "1.0.0" }, { capabilities: {} }));
    const tool = (name) => ({ name, inputSchema: { type: "object" } });
    const pages = { first: { tools: [tool("lro_extract")], nextCursor: "last" }, last: { tools: [tool("records")] } };
    server.setRequestHandler("tools/list", async ({ params }) => pages[params?.cursor ?? "first"]);
    server.setRequestHandler("tools/call", async ({ params: { name } }) => {
        return name === "records" ? recordsResult(3000) : { content: [{ type: "text", text: "the server has it" }] };
    });
    const client = await clientOf(t, filter, server);
    const before = await answerOf(client, "records");
    assert.ok(JSON.stringify(before).includes("lro_extract"));
    const names = [];
    for (const cursor of [undefined, "last"]) {
        names.push(...(await client.request({ method: "tools/list", params: { cursor } })).tools.map(({ name }) => name));
    }
    assert.deepEqual(names, ["lro_extract", "records"]);
    const call = (args) => client.callTool({ name: "lro_extract", arguments: args });
    assert.equal((await call({ handle: "07" })).content[0].text, "the server has it");
    // What was offered before the list was known goes on.
    assert.deepEqual((await call({ handle: before.handle, count: true })).structuredContent.results, [{ count: 3000 }]);
    assert.ok(!JSON.stringify(await answerOf(client, "records")).includes("lro_extract"));
});

test("each server has the offloads of its tenant", async (t) => {
    const filter = filterFor(t, { tenant: "acme" });
    const serverOf = (options) => {
        const server = filter.attach(new McpServer({ name: "test", version: "1.0.0" }), options);
        server.registerTool("records", {}, async () => recordsResult(3000));
        return server;
    };
    const acme = await clientOf(t, filter, serverOf());
    const other = await clientOf(t, filter, serverOf({ tenant: "other" }));
    for (const [owner, stranger] of [[acme, other], [other, acme]]) {
        const { handle } = await answerOf(owner, "records");
        const question = { handle, count: true };
        assert.deepEqual((await answerOf(owner, "lro_extract", question)).results, [{ count: 3000 }]);
        assert.equal((await stranger.callTool({ name: "lro_extract", arguments: question })).isError, true);
        const uri = `lro://${handle}/records?limit=1`;
        assert.equal((await owner.readResource({ uri })).contents.length, 1);
        await assert.rejects(stranger.readResource({ uri }));
    }
});
