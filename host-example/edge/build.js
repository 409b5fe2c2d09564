#!/usr/bin/env node
/**
 * Composes a policy that counts its instructions, and transpiles it for the edge, with the component that reads offloads:
 * node build.js [POLICY.wasm [FOLDER]]
 *
 * Without arguments, takes the default policy from cargo's target directory, and `component/`. The variable `LRO` names the
 * command `lro`, if it is not in cargo's target directory.
 *
 * Nothing can be compiled at run time at the edge. So the limits are written into the modules, and beside them a list of
 * the modules of the worker, for `config.capnp`, and those of each component, for the worker. The SDK for MCP becomes one module.
 */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "rolldown";

import { HOLDING_MEMORIES, bounded } from "../node/src/bounds.js";
import { transpiled } from "../node/transpile.js";
import { counted } from "./count.js";
import { LIMITS, QUESTION_LIMITS } from "./limits.js";

/** The worker's own modules, those that are made here, and those it has from the package for Node. */
const OWN = ["worker", "filtered", "stores", "memory", "bucket", "object", "room", "mcp", "directories", "limits"].map((name) => `${name}.js`);
const MADE = ["policy", "modules", "reader", "reader-modules", "sdk"].map((name) => `${name}.js`);
const OF_NODE = ["bytes", "component", "defaults", "descriptor", "error", "limits", "questions", "settings", "ulid"]
    .map((name) => `${name}.js`);

/** The core module of the component that reads; the others only connect it. */
const READER_CORE = "reader.core.wasm";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(here, "../../target");
const [source = join(target, "wasm32-unknown-unknown/component/lro_policy.wasm"), folder = join(here, "component")] =
    process.argv.slice(2);

await transpiled(composed(source), folder);
await transpiled(readFileSync(join(target, "wasm32-unknown-unknown/component/lro_reader.wasm")), folder, "reader");
const reader = join(folder, READER_CORE);
writeFileSync(reader, counted(readFileSync(reader), QUESTION_LIMITS.fuel));
const cores = [
    ...limited("policy", "modules.js", LIMITS, HOLDING_MEMORIES),
    ...limited("reader", "reader-modules.js", QUESTION_LIMITS, 0),
];
await build({
    input: join(here, "sdk.js"),
    platform: "neutral",
    resolve: { conditionNames: ["workerd", "import", "default"] },
    output: { file: join(folder, "sdk.js"), codeSplitting: false },
    logLevel: "warn",
});
writeFileSync(join(folder, "modules.capnp"), configuration(cores));
console.log(`${source} is in ${folder}`);

/** The composed component with a policy. */
function composed(source) {
    const scratch = mkdtempSync(join(tmpdir(), "lro-edge-build-"));
    try {
        const file = join(scratch, "composed.wasm");
        const lro = process.env.LRO ?? join(target, "release/lro");
        execFileSync(lro, ["compose", source, "--fuel", String(LIMITS.fuel), "-o", file], {
            stdio: ["ignore", "ignore", "inherit"],
        });
        return readFileSync(file);
    } finally {
        rmSync(scratch, { recursive: true });
    }
}

/** Writes limits into the core modules of a component, and their list into a file; returns their names. */
function limited(component, list, limits, holding) {
    const names = readdirSync(folder).filter((name) => name.startsWith(`${component}.`) && name.endsWith(".wasm"));
    const cores = bounded(names.map((name) => [name, readFileSync(join(folder, name))]), limits, holding);
    cores.forEach(([name, bytes]) => writeFileSync(join(folder, name), bytes));
    const ordered = cores.map(([name]) => name);
    writeFileSync(join(folder, list), modules(ordered));
    return ordered;
}

/** The compiled core modules by name. */
function modules(names) {
    const imports = names.map((name, index) => `import core${index} from "./${name}";`);
    const members = names.map((name, index) => `    "${name}": core${index},`);
    return [...imports, "", "export const modules = {", ...members, "};", ""].join("\n");
}

/** All modules of the worker. */
function configuration(names) {
    const code = (name, path) => `  (name = "${name}", esModule = embed "${path}"),`;
    return [
        'using Workerd = import "/workerd/workerd.capnp";',
        "",
        "const modules :List(Workerd.Worker.Module) = [",
        ...OWN.map((name) => code(`edge/${name}`, `../${name}`)),
        ...MADE.map((name) => code(`edge/component/${name}`, name)),
        ...OF_NODE.map((name) => code(`node/src/${name}`, `../../node/src/${name}`)),
        ...names.map((name) => `  (name = "edge/component/${name}", wasm = embed "${name}"),`),
        "];",
        "",
    ].join("\n");
}
