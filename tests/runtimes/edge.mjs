// Runs the vectors in workerd: node edge.mjs COMPONENT.wasm VECTORS_DIR INPUTS_DIR
//
// The time is that of a request with one call of `write-sections`, including its instance and files in memory, measured
// around the request: a clock inside stands still while code runs. The memory is that of workerd.

import { execFileSync, spawn } from "node:child_process";
import { cpSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { prepared, report } from "./runner.mjs";
import { difference } from "./vectors.mjs";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const EDGE = join(HERE, "../../host-example/edge");
const COMPONENT = "host-example/edge/component";

/** The worker and its imports, without the component. */
const MODULES = [
    "tests/runtimes/edge-worker.mjs",
    "tests/runtimes/vectors.mjs",
    "host-example/edge/memory.js",
    "host-example/edge/policy.js",
    ...["component", "defaults", "error", "filesystem", "limits", "parts"].map(
        (name) => `host-example/node/src/${name}.js`,
    ),
];

const { component, vectors, inputs, scratch } = prepared("edge.mjs");
const workerd = createRequire(join(EDGE, "package.json"))("workerd");

const { server, address } = await start();
try {
    await report({
        runtime: `workerd ${workerd.version}, jco ${version("node/node_modules/@bytecodealliance/jco")}`,
        component,
        vectors,
        tried,
        timed,
        peakBytes,
    });
} finally {
    server.kill();
}

async function tried(vector) {
    const withInput = ({ input, ...part }) =>
        input === undefined ? part : { ...part, text: readFileSync(join(inputs, input), "utf8") };
    const body = JSON.stringify({ ...vector, parts: vector.parts.map(withInput) });
    const response = await fetch(address, { method: "POST", body });
    const text = await response.text();
    if (!response.ok) {
        return `status ${response.status}: ${text.slice(0, 500)}`;
    }
    const { answered, files } = JSON.parse(text);
    return difference(vector, answered, files);
}

/** The worker writes the last vector again. */
async function timed() {
    const start = performance.now();
    await (await fetch(address)).text();
    return performance.now() - start;
}

function peakBytes() {
    const [, kilobytes] = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"));
    return Number(kilobytes) * 1024;
}

/** Lays out the worker and starts workerd on a free port. */
async function start() {
    const folder = join(scratch, COMPONENT);
    const stdio = ["ignore", "ignore", "inherit"];
    execFileSync(process.execPath, [join(EDGE, "build.js"), component, folder], { stdio });
    MODULES.forEach((name) => cpSync(join(HERE, "../..", name), join(scratch, name)));
    const made = readdirSync(folder).filter((name) => /\.(js|wasm)$/.test(name));
    writeFileSync(join(scratch, "config.capnp"), config([...MODULES, ...made.map((name) => `${COMPONENT}/${name}`)]));
    const server = spawn(workerd.default, ["serve", "config.capnp", "--control-fd=3"], {
        cwd: scratch,
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

function version(folder) {
    return JSON.parse(readFileSync(join(HERE, "../../host-example", folder, "package.json"), "utf8")).version;
}
