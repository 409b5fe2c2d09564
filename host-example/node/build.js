#!/usr/bin/env node
/**
 * Transpiles a policy with jco: node build.js [POLICY.wasm [FOLDER]]
 *
 * Without arguments, transpiles the default policy from cargo's target directory into `component/`. `new Filter({
 * policy: FOLDER })` takes any other.
 */

import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { transpile } from "@bytecodealliance/jco";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(here, "../../target");
const [source = join(target, "wasm32-unknown-unknown/component/lro_policy.wasm"), folder = join(here, "component")] =
    process.argv.slice(2);

const component = await readFile(source).catch((error) => {
    console.error(`${source} cannot be read (${error.code}): build it with \`make component\``);
    process.exit(1);
});
const options = { name: "policy", instantiation: { tag: "sync" }, noTypescript: true, wasiShim: false };
const { files } = await transpile(component, options);
await mkdir(folder, { recursive: true });
for (const name of await readdir(folder)) {
    if (/^policy\..*(js|wasm)$/.test(name)) {
        await rm(join(folder, name));
    }
}
await writeFile(join(folder, "package.json"), '{ "type": "module" }\n');
for (const [name, bytes] of Object.entries(files).filter(([name]) => !name.endsWith(".d.ts"))) {
    await writeFile(join(folder, name), bytes);
}
console.log(`${source} is in ${resolve(folder)}`);
