// Limits of clients as their packages have them: compared with the profiles of `lro clients`, and applied, by their own code where
// that can be taken out, to what these clients get of results.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { argv0, env } from "node:process";

const { LRO, TEST_DATA } = env;
const CLIENTS = join(TEST_DATA, "clients");
const require = createRequire(join(TEST_DATA, "mcp/package.json"));
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

/** The text of a file of a package; bytes of a program as Latin-1. */
function source(...path) {
    return readFileSync(join(CLIENTS, ...path), "latin1");
}

/** The groups of an expression that a text must match. */
function found(text, expression, what) {
    const match = text.match(expression);
    assert.ok(match, `${what} is not there: has the package changed?`);
    return match.slice(1);
}

function number(text, expression, what) {
    return Number(found(text, expression, what)[0].replaceAll("_", ""));
}

/** A name of JavaScript in an expression. */
function escaped(name) {
    return name.replaceAll("$", "\\$");
}

const gemini = source("gemini-cli-core/dist/src/config/config.js");
const geminiCharacters = number(gemini, /DEFAULT_TRUNCATE_TOOL_OUTPUT_THRESHOLD = ([\d_e]+);/, "Gemini CLI's threshold");

const qwen = source("qwen-code/cli.js");
const qwenCharacters = number(qwen, /DEFAULT_TRUNCATE_TOOL_OUTPUT_THRESHOLD = ([\d_e]+);/, "Qwen Code's threshold");
const qwenLines = number(qwen, /DEFAULT_TRUNCATE_TOOL_OUTPUT_LINES = ([\d_e]+);/, "Qwen Code's lines");
const [qwenCode] = found(qwen, /(async function truncateAndSaveToFile\([\s\S]+?\n\})\n/, "Qwen Code's truncation");

/** The truncation of Qwen Code: its own function, with the modules of Node that it imports under other names. */
async function qwenTruncates(text) {
    const [fs, path] = [/(\w+)\.mkdir\(/, /(\w+)\.basename\(/].map((name) => found(qwenCode, name, "a module")[0]);
    const modules = [{ mkdir() {}, writeFile() {} }, { basename, join }];
    const truncate = new Function(fs, path, `${qwenCode}; return truncateAndSaveToFile;`)(...modules);
    return (await truncate(text, "result", tmpdir(), qwenCharacters, qwenLines)).content !== text;
}

const profiles = new Map(JSON.parse(execFileSync(LRO, ["clients", "--json"])).map((known) => [known.client, known.profile]));

/** What a client is taken for. */
function profile(client) {
    const known = profiles.get(client);
    assert.ok(known, `${client} has no profile`);
    return known;
}

function same(client, key, expected) {
    assert.equal(profile(client)[key], expected, `${client}: ${key}`);
    console.log(`${client}: ${key} = ${expected}, as its package has it`);
}

same("Gemini CLI", "text-limit", geminiCharacters);
same("Gemini CLI", "text-unit", "characters");
same("Qwen Code", "text-limit", qwenCharacters);
same("Qwen Code", "text-unit", "characters");
same("Qwen Code", "text-lines", qwenLines);

// Programs are for this platform alone.
const platform = { x64: "linux-x64", arm64: "linux-arm64" }[process.arch];
if (process.platform === "linux" && platform) {
    const opencode = source(`opencode-${platform}`, "bin/opencode");
    const names = found(opencode, /MAX_LINES:\(\)=>([\w$]+),MAX_BYTES:\(\)=>([\w$]+)/, "opencode's limits");
    const [lines, bytes] = names.map(escaped);
    const values = found(opencode, new RegExp(`[ ,]${lines}=(\\d+),${bytes}=(\\d+)`), "opencode's limits").map(Number);
    same("opencode", "text-lines", values[0]);
    same("opencode", "text-limit", values[1]);
    same("opencode", "text-unit", "bytes");

    const claude = source(`claude-code-${platform}`, "claude");
    // The share of the estimate above which it counts, the tokens of an image, and the most tokens, in one declaration.
    same("Claude Code", "text-limit", number(claude, /[ ,][\w$]+=0\.5,[\w$]+=1600,[\w$]+=(\d+)/, "Claude Code's tokens"));
    same("Claude Code", "text-unit", "tokens");
    const [most] = found(claude, /persistenceThresholdCeiling:[\w$]+\?([\w$]+):void 0/, "Claude Code's characters");
    const declared = new RegExp(`[ ,]${escaped(most)}=([\\de]+)[,;]`);
    same("Claude Code", "declared-size", number(claude, declared, "Claude Code's characters"));

    const codex = source("codex", "vendor", { x64: "x86_64", arm64: "aarch64" }[process.arch] + "-unknown-linux-musl", "bin/codex");
    const policies = [...codex.matchAll(/"truncation_policy": \{([^}]+)\}/g)].map(([, policy]) => JSON.parse(`{${policy}}`));
    assert.ok(policies.length > 0, "Codex's truncation policies are not there: has the package changed?");
    // No token is shorter than a byte.
    const smallest = Math.min(...policies.map(({ limit }) => limit));
    const { "text-limit": taken, "text-unit": unit } = profile("Codex");
    assert.ok(unit === "bytes" && taken <= smallest, `Codex: ${taken} ${unit}, and its package has ${smallest}`);
    const modes = [...new Set(policies.map(({ mode }) => mode))].join(", ");
    console.log(`Codex: text-limit = ${taken} bytes, its package has ${smallest} ${modes} for ${policies.length} models, each of at least a byte`);
}

// What clients get, from a real server.
const folder = realpathSync(mkdtempSync(join(tmpdir(), "limits-")));
const contents = {
    "short-lines.log": Array.from({ length: 2_400 }, (_, line) => `line ${line}\n`).join(""),
    "records.json": JSON.stringify(Array.from({ length: 4_000 }, (_, id) => ({ id, name: `name ${id}`, value: id * 7 }))),
    "one-line.txt": "z".repeat(60_000),
    "small.txt": "a few words\n".repeat(20),
};
for (const [name, text] of Object.entries(contents)) writeFileSync(join(folder, name), text);
const server = [argv0, join(TEST_DATA, "mcp/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"), folder];

/** A client of this name, of the server itself or behind a gateway. */
async function connected(name, behind) {
    const command = behind ? [LRO, "gateway", "--dir", join(folder, "offloads"), "--", ...server] : server;
    const client = new Client({ name, version: "1.0.0" });
    await client.connect(new StdioClientTransport({ command: command[0], args: command.slice(1), stderr: "ignore" }));
    return client;
}

const textOf = (result) => result.content.filter(({ type }) => type === "text").map(({ text }) => text);

const RULES = [
    { name: "gemini-cli-mcp-client-files", cuts: (texts) => texts.some((text) => text.length > geminiCharacters) },
    { name: "qwen-cli-mcp-client-files", cuts: async (texts) => (await Promise.all(texts.map(qwenTruncates))).some(Boolean) },
    {
        name: "opencode",
        cuts(texts) {
            const all = texts.join("\n\n");
            const { "text-lines": lines, "text-limit": bytes } = profile("opencode");
            return all.split("\n").length > lines || Buffer.byteLength(all) > bytes;
        },
    },
];

for (const { name, cuts } of RULES) {
    let cut = 0;
    const direct = await connected(name, false);
    const gateway = await connected(name, true);
    for (const file of Object.keys(contents)) {
        const call = { name: "read_text_file", arguments: { path: join(folder, file) } };
        cut += await cuts(textOf(await direct.callTool(call)));
        const texts = textOf(await gateway.callTool(call));
        assert.ok(!(await cuts(texts)), `${name} cuts what it gets of ${file}: ${texts[0].slice(0, 200)}`);
        if (texts[0].startsWith('{"offloaded":true')) {
            const { handle, files } = JSON.parse(texts[0]);
            const section = Object.keys(files ?? {})[0];
            const page = await gateway.callTool({ name: "lro_read", arguments: { handle, section, bytes: 1_000_000 } });
            assert.ok(!page.isError, `${name}, ${file}: ${JSON.stringify(page).slice(0, 300)}`);
            assert.ok(!(await cuts(textOf(page))), `${name} cuts a page of ${file}`);
        } else {
            assert.equal(texts[0], contents[file], `${name}: ${file} changed`);
        }
    }
    await Promise.all([direct.close(), gateway.close()]);
    assert.ok(cut >= 2, `${name} cuts nothing without the gateway: the rule is not its own`);
    console.log(`${name}: ${cut} of ${Object.keys(contents).length} results cut without the gateway, none behind it`);
}
rmSync(folder, { recursive: true });
