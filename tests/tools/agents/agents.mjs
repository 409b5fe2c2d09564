// The hooks in the real agents: each is set up by `lro setup --hooks`, is told by a model of a few lines to call a tool of its own
// and one of an MCP server, runs it, and must give its model the descriptor in place of the result. Nothing leaves this machine.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { argv0, env } from "node:process";

import { model } from "./model.mjs";

const { LRO, TEST_DATA } = env;
const AGENTS = join(TEST_DATA, "agents");
const platform = { x64: "linux-x64", arm64: "linux-arm64" }[process.arch];
const machine = { x64: "x86_64", arm64: "aarch64" }[process.arch];
const LINES = 60_000;
const server = join(TEST_DATA, "mcp/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");

const write = (path, value) => {
    mkdirSync(join(path, ".."), { recursive: true });
    writeFileSync(path, typeof value === "string" ? value : JSON.stringify(value));
};

/** Each agent: its program, its configuration for the model and the server, and its tools. */
const agents = {
    claude: {
        run: (home, url) => ({
            command: [join(AGENTS, `claude-code-${platform}/claude`), "-p", "go", "--dangerously-skip-permissions", "--mcp-config", join(home, "mcp.json")],
            env: {
                ANTHROPIC_BASE_URL: url,
                ANTHROPIC_API_KEY: "none",
                CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
                DISABLE_AUTOUPDATER: "1",
                ENABLE_TOOL_SEARCH: "false",
                IS_SANDBOX: "1",
            },
        }),
        configure: (home, files) => write(join(home, "mcp.json"), { mcpServers: { files } }),
        folder: ".claude",
        shell: (command) => ({ name: "Bash", arguments: { command, description: "count" } }),
        read: (path) => ({ name: "Read", arguments: { file_path: path, limit: 9000 } }),
        mcp: (path) => ({ name: "mcp__files__read_text_file", arguments: { path } }),
    },
    codex: {
        run: (home, url) => ({
            command: [
                join(AGENTS, `codex/vendor/${machine}-unknown-linux-musl/bin/codex`), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
                "--dangerously-bypass-hook-trust", "-c", `model_providers.local.base_url="${url}/v1"`, "go",
            ],
            env: { CODEX_HOME: join(home, ".codex"), LOCAL_KEY: "none" },
        }),
        configure: (home, { command, args }) =>
            write(
                join(home, ".codex/config.toml"),
                `model = "model"\nmodel_provider = "local"\n[model_providers.local]\nname = "local"\nbase_url = ""\n` +
                    `env_key = "LOCAL_KEY"\nwire_api = "responses"\n[analytics]\nenabled = false\n` +
                    `[mcp_servers.files]\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`,
            ),
        folder: ".codex",
        // It cuts what its shell prints before hooks see it.
        mcp: (path) => ({ name: "read_text_file", namespace: "mcp__files", arguments: { path } }),
    },
    copilot: {
        run: (home, url) => ({
            command: [join(AGENTS, `copilot-${platform}/copilot`), "-p", "go", "--allow-all"],
            env: {
                COPILOT_OFFLINE: "true",
                COPILOT_AUTO_UPDATE: "false",
                COPILOT_MODEL: "model",
                COPILOT_PROVIDER_BASE_URL: `${url}/v1`,
                COPILOT_PROVIDER_API_KEY: "none",
            },
        }),
        configure: (home, files) =>
            write(join(home, ".copilot/mcp-config.json"), { mcpServers: { files: { type: "local", tools: ["*"], ...files } } }),
        folder: ".copilot",
        shell: (command) => ({ name: "bash", arguments: { command, description: "count", mode: "sync" } }),
        mcp: (path) => ({ name: "files-read_text_file", arguments: { path } }),
    },
    gemini: {
        run: (home, url) => ({
            command: [argv0, join(AGENTS, "gemini-cli/bundle/gemini.js"), "-p", "go", "-y", "-m", "model", "--skip-trust"],
            env: { GEMINI_API_KEY: "none", GOOGLE_GEMINI_BASE_URL: url },
        }),
        configure: (home, files) =>
            write(join(home, ".gemini/settings.json"), {
                security: { auth: { selectedType: "gemini-api-key" } },
                privacy: { usageStatisticsEnabled: false },
                mcpServers: { files: { ...files, trust: true } },
            }),
        folder: ".gemini",
        shell: (command) => ({ name: "run_shell_command", arguments: { command, description: "count" } }),
        mcp: (path) => ({ name: "mcp_files_read_text_file", arguments: { path } }),
    },
    opencode: {
        run: (home, url) => ({
            command: [join(AGENTS, `opencode-${platform}/bin/opencode`), "run", "go"],
            env: { MODEL_URL: `${url}/v1`, OPENCODE_DISABLE_AUTOUPDATE: "1", OPENCODE_DISABLE_MODELS_FETCH: "1" },
        }),
        configure: (home, { command, args }) =>
            write(join(home, ".config/opencode/opencode.json"), {
                autoupdate: false,
                share: "disabled",
                model: "local/model",
                small_model: "local/model",
                provider: {
                    local: {
                        npm: "@ai-sdk/openai-compatible",
                        options: { baseURL: "{env:MODEL_URL}", apiKey: "none" },
                        models: { model: { name: "model", tool_call: true, limit: { context: 200000, output: 8000 } } },
                    },
                },
                mcp: { files: { type: "local", command: [command, ...args] } },
            }),
        folder: ".config/opencode",
        shell: (command) => ({ name: "bash", arguments: { command, description: "count" } }),
        mcp: (path) => ({ name: "files_read_text_file", arguments: { path } }),
    },
};

/** Runs a program to its end, with nothing of this environment but the path. */
function finished([program, ...rest], cwd, variables) {
    return new Promise((resolve) => {
        const child = spawn(program, rest, { cwd, env: { PATH: env.PATH, ...variables }, stdio: ["ignore", "pipe", "pipe"] });
        let text = "";
        for (const output of [child.stdout, child.stderr]) output.setEncoding("utf8").on("data", (part) => (text += part));
        const late = setTimeout(() => child.kill("SIGKILL"), 120_000);
        child.on("close", (code) => {
            clearTimeout(late);
            resolve({ code, text });
        });
    });
}

/** The descriptor that the model got, out of what the agent sent to it. */
function descriptor(requests) {
    const sent = requests.find((request) => request.includes("offloaded")) ?? "";
    const path = sent.match(/[^"'\\ ]*\/lro-filter\/default\/[0-9A-Z]{26}\/[^"'\\ ]+/);
    return path && { path: path[0], sent };
}

const chosen = process.argv.slice(2);
for (const [name, agent] of Object.entries(agents).filter(([name]) => !chosen.length || chosen.includes(name))) {
    const home = realpathSync(mkdtempSync(join(tmpdir(), `lro-${name}-`)));
    const project = join(home, "project");
    mkdirSync(join(home, agent.folder), { recursive: true });
    const big = join(project, "big.txt");
    write(big, Array.from({ length: LINES }, (_, line) => `line ${line} of the file\n`).join(""));
    write(join(project, "small.txt"), "a few words\n");
    agent.configure(home, { command: argv0, args: [server, project] });
    const variables = { HOME: home, TMPDIR: tmpdir() };
    const lro = (...words) => execFileSync(LRO, words, { env: { PATH: env.PATH, ...variables }, stdio: ["ignore", "pipe", "pipe"] });
    lro("setup", "--hooks", "--yes");

    const command = `seq 1 ${LINES}`;
    const calls = {
        shell: agent.shell && { call: agent.shell(command), last: String(LINES) },
        read: agent.read && { call: agent.read(big), last: "line 8999 of the file" },
        mcp: { call: agent.mcp(big), last: `line ${LINES - 1} of the file` },
        small: { call: agent.mcp(join(project, "small.txt")) },
    };
    for (const [kind, { call, last }] of Object.entries(calls).filter(([, value]) => value)) {
        const mark = /big\.txt|small\.txt|seq 1 /;
        let ran;
        // An agent that has not reached the server yet has no such tool.
        for (let times = 0; times < 3 && !ran?.requests.some((request) => mark.test(request)); times++) {
            const { url, requests, close } = await model(call);
            const { command: line, env: more } = agent.run(home, url);
            ran = { requests, ...(await finished(line, project, { ...variables, ...more })) };
            close();
        }
        const { requests, code, text } = ran;
        const told = `${name}, ${kind}: exit code ${code}\n${text.slice(-2000)}\n${requests.at(-1)?.slice(-2000)}`;
        const got = descriptor(requests);
        if (kind === "small") {
            assert.ok(!got && requests.some((request) => request.includes("a few words")), told);
            console.log(`${name}: a small result is the model's as it is`);
            continue;
        }
        assert.ok(got, told);
        const kept = readFileSync(got.path, "utf8");
        assert.ok(kept.includes(last), `${name}, ${kind}: ${got.path} has not all of the result`);
        assert.ok(got.sent.length < 40_000, `${name}, ${kind}: the model got ${got.sent.length} characters`);
        const handle = got.path.split("/").at(-2);
        const found = lro("extract", handle, "--search", last, "--limit", "1");
        assert.ok(found.toString().includes(last), `${name}, ${kind}: ${found}`);
        console.log(`${name}: ${call.name} gave its model a descriptor; ${kept.length} bytes are kept, and found by lro extract`);
    }
    lro("setup", "--hooks", "--undo", "--yes");
    const left = readdirSync(home, { recursive: true }).filter((file) => !file.includes("project") && /lro-filter\.(js|json)$/.test(file));
    assert.deepEqual(left.filter((file) => existsSync(join(home, file))), [], `${name}: the hook is left`);
    rmSync(home, { recursive: true, force: true });
}
