// Runs the vectors of replies in workerd: node edge.mjs COMPONENT.wasm VECTORS_DIR INPUTS_DIR
//
// The policy counts its instructions, as at the edge. The time is that of a request in which the worker filters a result
// that it has, from its JSON to the reply and the files in memory, measured around the request: a clock inside stands still
// while code runs. The memory is that of workerd.

import { execFileSync, spawn } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { REQUEST, prepared, report } from "./runner.mjs";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const EDGE = join(ROOT, "host-example/edge");
const JCO = join(ROOT, "host-example/node/node_modules/@bytecodealliance/jco/package.json");
const COMPONENT = "host-example/edge/component";

/** The worker and its imports, without the component. */
const MODULES = [
    "tests/runtimes/edge-worker.mjs",
    "host-example/edge/filtered.js",
    "host-example/edge/limits.js",
    ...["bytes", "component", "defaults", "error", "limits"].map((name) => `host-example/node/src/${name}.js`),
];

const { component, vectors, inputs, scratch } = prepared("edge.mjs");
const workerd = createRequire(join(EDGE, "package.json"))("workerd");

const { server, address } = await start(component);
try {
    await report({
        runtime: `workerd ${workerd.version}, jco ${JSON.parse(readFileSync(JCO, "utf8")).version}`,
        component,
        vectors,
        inputs,
        filtered,
        timed,
        peakBytes,
        more: async () => ({ looped_milliseconds: await looped() }),
    });
} finally {
    server.kill();
}

async function asked(options, of = address) {
    const response = await fetch(of, options);
    const text = await response.text();
    if (!response.ok) {
        throw new Error(`status ${response.status}: ${text.slice(0, 500)}`);
    }
    return text;
}

async function filtered(request, result) {
    return JSON.parse(await asked({ method: "POST", body: JSON.stringify({ request, result }) }));
}

async function timed(request, result) {
    await asked({ method: "PUT", body: result, headers: { request: JSON.stringify(request) } });
    const start = performance.now();
    await asked({});
    return performance.now() - start;
}

/** Milliseconds until a policy that loops has ended: it has executed as many instructions as it may. */
async function looped() {
    const worker = await start(join(dirname(component), "lro_test_policies.wasm"), "looped");
    try {
        const request = { ...REQUEST, settings: JSON.stringify({ custom: "inspect-loop", mode: "always" }) };
        const body = JSON.stringify({ request, result: '{"content":[{"type":"text","text":"x"}]}' });
        const start = performance.now();
        const { status } = await fetch(worker.address, { method: "POST", body });
        const time = performance.now() - start;
        if (status !== 500) {
            throw new Error("a policy that loops answered");
        }
        await asked({ method: "POST", body: body.replace("inspect-loop", "honest") }, worker.address);
        return time;
    } finally {
        worker.server.kill();
    }
}

function peakBytes() {
    const [, kilobytes] = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"));
    return Number(kilobytes) * 1024;
}

/** Lays out the worker with a component, in a folder of the temporary one, and starts workerd on a free port. */
async function start(component, name = "worker") {
    const place = join(scratch, name);
    const folder = join(place, COMPONENT);
    mkdirSync(dirname(folder), { recursive: true });
    const stdio = ["ignore", "ignore", "inherit"];
    execFileSync(process.execPath, [join(EDGE, "build.js"), component, folder], { stdio });
    MODULES.forEach((name) => cpSync(join(ROOT, name), join(place, name)));
    const made = readdirSync(folder).filter((name) => /^(policy\..*(js|wasm)|modules\.js)$/.test(name));
    writeFileSync(join(place, "config.capnp"), config([...MODULES, ...made.map((name) => `${COMPONENT}/${name}`)]));
    const server = spawn(workerd.default, ["serve", "config.capnp", "--control-fd=3"], {
        cwd: place,
        stdio: ["ignore", "inherit", "inherit", "pipe"],
    });
    for await (const line of server.stdio[3]) {
        const { event, port } = JSON.parse(line);
        if (event === "listen") {
            return { server, address: `http://127.0.0.1:${port}/` };
        }
    }
    throw new Error("workerd did not start");
}

function config(names) {
    const module = (name) => `(name = "${name}", ${name.endsWith(".wasm") ? "wasm" : "esModule"} = embed "${name}")`;
    return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [ (name = "vectors", worker = (
    compatibilityDate = "2026-11-01",
    modules = [ ${names.map(module).join(", ")} ],
  )) ],
  sockets = [ (name = "http", address = "127.0.0.1:0", http = (), service = "vectors") ],
);
`;
}
