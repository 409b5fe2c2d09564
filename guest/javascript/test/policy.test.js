import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { access, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import test, { after, before } from "node:test";
import { promisify } from "node:util";

const LRO = process.env.LRO ?? "lro";
const POLICY = join(import.meta.dirname, "../log-policy.wasm");
const SERVER = join(import.meta.dirname, "server.js");

/** Bytes of a slice. */
const SLICE = 64 * 1024;

const run = promisify(execFile);
let scratch;
let environment;

before(async () => {
    await access(POLICY).catch(() => assert.fail("log-policy.wasm is not there: run `npm run build`"));
    await run(LRO, ["--version"]).catch((error) =>
        assert.fail(`${error.message}; \`make build\` in the repository builds it, the variable LRO says where it is`),
    );
    scratch = await mkdtemp(join(tmpdir(), "log-policy-"));
    // The first load compiles a whole engine, which takes longer than the limit on a busy machine.
    environment = { ...process.env, MCP_LRO_LOADING_COMPILE_MS: "300000", MCP_LRO_FSYNC: "never", MCP_LRO_DIR: join(scratch, "offloads") };
    await asked(["gateway", "--policy", POLICY, "--", process.execPath, SERVER]);
});

after(() => rm(scratch, { recursive: true, force: true }));

/** Runs the host without input and returns its output. */
async function asked(flags) {
    const running = run(LRO, flags, { env: environment, maxBuffer: 1 << 28 });
    running.child.stdin.end();
    return running;
}

/** The report of `lro offload --json` on a text. */
async function offload(text, flags = []) {
    const path = join(scratch, "log.txt");
    await writeFile(path, text);
    const { stdout } = await asked(["offload", "--json", "--as", "text", "--failure", "closed", "--policy", POLICY, ...flags, path]).catch((error) => error);
    const report = JSON.parse(stdout);
    const file = report.files?.[0] && (await readFile(report.files[0].path));
    return { ...report, file, summary: report.descriptor?.summary.log };
}

/** A log of at least `bytes` bytes. Every thousandth line is an error. */
function log(bytes) {
    const lines = [];
    for (let [size, number] = [0, 1]; size < bytes; number += 1) {
        const line = `2026-11-20T09:30:00Z ${number % 1000 === 0 ? "ERROR" : "INFO"} request ${number} of ümlaut → 漢字 😀\n`;
        size += Buffer.byteLength(line);
        lines.push(line);
    }
    return lines.join("");
}

test("the host takes it, and it imports nothing that gives anything but files", async () => {
    const { stdout } = await asked(["policy", "check", POLICY, "--json"]);
    const { imports } = JSON.parse(stdout);
    const effective = imports.filter((name) => !/^wasi:(cli|io|clocks|random)\//.test(name));
    assert.deepEqual(effective.map((name) => name.split("@")[0]), ["lro:filter/types", "wasi:filesystem/preopens", "wasi:filesystem/types"]);
});

test("a small log passes, and a large one is in a file byte for byte", async () => {
    assert.equal((await offload(log(1000))).verdict, "pass");
    const text = `\uFEFF${log(30 * SLICE)}no line feed at the end\0`;
    const { verdict, file, summary, files } = await offload(text);
    assert.equal(verdict, "offload");
    assert.ok(file.equals(Buffer.from(text)));
    const lines = text.split("\n");
    const matching = lines.flatMap((line, index) => (line.includes("ERROR") ? [`${index + 1}: ${line}`] : []));
    assert.deepEqual(summary, { lines: lines.length, bytes: file.length, matches: matching.length, first: matching.slice(0, 20) });
    assert.equal(files[0].records, lines.length);
});

test("a byte order mark at the beginning of a slice is kept", async () => {
    const text = `${"x".repeat(SLICE)}\uFEFF${"y".repeat(SLICE)}`;
    assert.ok((await offload(text)).file.equals(Buffer.from(text)));
});

test("a line that lies in two slices is found, once", async () => {
    const before = `${"x".repeat(63)}\n`.repeat(SLICE / 64 - 1);
    for (const inside of [0, 1, 3, 5, 6]) {
        const padding = "-".repeat(SLICE - before.length - inside);
        const { summary } = await offload(`${before}${padding}ERROR here\nlast\n`);
        assert.deepEqual([summary.matches, summary.lines], [1, before.length / 64 + 2], `${inside}`);
    }
});

test("custom chooses the lines, and the descriptor keeps to its limit", async () => {
    const text = log(20 * SLICE);
    const chosen = await offload(text, ["--custom", '{"pattern": "request \\\\d+00 of", "lines": 2}']);
    assert.deepEqual(chosen.summary.first.map((line) => line.split(":")[0]), ["100", "200"]);
    const all = '{"pattern": "", "lines": 1000}';
    const { descriptor, summary } = await offload(text, ["--custom", all, "--descriptor-limit", "3000"]);
    const characters = [...JSON.stringify(descriptor)].length;
    assert.ok(characters <= 3000 && characters > 2500, `${characters}`);
    assert.equal(summary.matches, summary.lines);
    assert.match((await offload(text, ["--descriptor-limit", "100"])).error, /descriptor-limit/);
});

test("an invalid custom is refused, however small the result", async () => {
    for (const [custom, reason] of [
        ["ERROR", /not JSON/],
        ["[]", /must be an object/],
        ['{"patern": "x"}', /no member "patern"/],
        ['{"pattern": "("}', /"pattern": /],
        ['{"pattern": 3}', /must be a string/],
        ['{"lines": -1}', /from 0 to 1000/],
        ['{"lines": 1e9}', /from 0 to 1000/],
    ]) {
        const { verdict, error } = await offload("a small log", ["--custom", custom]);
        assert.equal(verdict, "fail", custom);
        assert.match(error, /custom: /);
        assert.match(error, reason);
    }
});

test("errors, structured content and images stay as they are", async () => {
    const text = log(100_000);
    assert.equal((await offload(text, ["--error"])).verdict, "pass");
    const path = join(scratch, "result.json");
    const kept = { type: "image", mimeType: "image/png", data: "A".repeat(100_000) };
    const result = { content: [{ type: "text", text }, kept], structuredContent: { lines: Array(30_000).fill(1) } };
    await writeFile(path, JSON.stringify(result));
    const { stdout } = await asked(["offload", "--policy", POLICY, path]);
    const reply = JSON.parse(stdout);
    assert.deepEqual(reply.content[1], kept);
    assert.deepEqual(reply.structuredContent, result.structuredContent);
    const { files } = JSON.parse(reply.content[0].text);
    assert.equal(await readFile(files.log, "utf8"), text);
});

test("20,000 blocks are one log, its outline and one section of records", async () => {
    const texts = Array.from({ length: 20_000 }, (_, id) => (id % 2 === 0 ? `line ${id}: ${id === 4000 ? "ERROR" : "é"}` : JSON.stringify({ id, name: "漢" })));
    const image = { type: "image", mimeType: "image/png", data: "AAAA" };
    const path = join(scratch, "blocks.json");
    const content = [image, ...texts.map((text) => ({ type: "text", text }))];
    await writeFile(path, JSON.stringify({ content, _meta: { trace: 7 } }));
    const { stdout } = await asked(["offload", "--json", "--failure", "closed", "--policy", POLICY, path]).catch((error) => error);
    const { files, descriptor, reply } = JSON.parse(stdout);
    assert.deepEqual(files.map(({ section, records }) => [section, records]), [["log", 10_000], ["blocks", 10_000], ["records", 10_000]]);
    const [log, blocks, records] = await Promise.all(files.map(async (file) => (await readFile(file.path, "utf8")).split("\n")));
    assert.deepEqual(log, texts.filter((_, index) => index % 2 === 0));
    assert.deepEqual(records.slice(1, -1), texts.filter((_, index) => index % 2 === 1));
    assert.deepEqual(JSON.parse(blocks[2001]), { block: 4001, line: 2001, lines: 1, offset: Buffer.byteLength(log.slice(0, 2000).join("\n")) + 1, bytes: 16 });
    assert.deepEqual(descriptor.summary.log.first, ["2001: line 4000: ERROR"]);
    const { content: left, _meta } = JSON.parse(reply);
    assert.deepEqual([left.length, left[0], _meta], [2, image, { trace: 7 }]);
});

test("a running gateway swaps from the default policy to this one", async (t) => {
    const config = join(scratch, "lro.toml");
    await writeFile(config, '[gateway]\nmetrics-listen = "127.0.0.1:0"\nadmin-token = "env:ADMIN"\n[loading]\ncompile-ms = 300_000\n');
    const flags = ["gateway", "--config", config, "--", process.execPath, SERVER];
    const gateway = spawn(LRO, flags, { env: { ...environment, ADMIN: "secret" }, stdio: "pipe" });
    const ended = once(gateway, "exit");
    t.after(() => {
        gateway.kill();
        // Until then, it may write where the hook after all tests removes.
        return ended;
    });
    const lines = (stream) => createInterface({ input: stream })[Symbol.asyncIterator]();
    const [answers, errors] = [lines(gateway.stdout), lines(gateway.stderr)];
    const next = async (stream) => {
        const { value, done } = await stream.next();
        assert.ok(!done, "the gateway has ended");
        return value;
    };
    let address;
    while (address === undefined) {
        address = (await next(errors)).match(/metrics on (.*)\/metrics/)?.[1];
    }
    let id = 0;
    const ask = async (method, params) => {
        id += 1;
        gateway.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
        for (;;) {
            const message = JSON.parse(await next(answers));
            if (message.id === id) {
                return message.result;
            }
        }
    };
    const descriptor = async () => JSON.parse((await ask("tools/call", { name: "log", arguments: {} })).content[0].text);

    await ask("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } });
    gateway.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
    assert.equal((await descriptor()).pattern, undefined);
    environment.LRO_ADMIN_TOKEN = "secret";
    await asked(["policy", "load", "default", POLICY, "--gateway", address]);
    const { pattern, summary, handle } = await descriptor();
    assert.deepEqual([pattern, summary.log.matches, summary.log.lines], ["ERROR|WARN", 10, 10_000]);
    assert.match(summary.log.first[1], /^1001: line 1000: ERROR$/);
    assert.match(handle, /^[0-9A-Z]{26}$/);
});
