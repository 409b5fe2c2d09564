/**
 * Makes of a composed component, from `lro compose`, a folder that `new Filter({ policy: FOLDER })` and the edge load; and the
 * same of the component that reads offloads.
 */

import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { transpile } from "@bytecodealliance/jco";

/** What is changed in the output of jco for a policy. */
const CHANGES = [
    // Only asynchronous functions need this module, and the edge cannot compile it at run time.
    [
        "const _conditionalSuspending3I32ToVoidModule = new WebAssembly.Module(",
        "const _conditionalSuspending3I32ToVoidModule = () => new WebAssembly.Module(",
    ],
    // Each call asks the environment many times whether to tell of itself.
    ["if (!globalThis?.process?.env?.JCO_DEBUG) { return; }", "return;"],
];

/** Transpiles the bytes of a component into a folder, in the place of what is there under its name. */
export async function transpiled(component, folder, name = "policy") {
    const options = {
        name,
        instantiation: { tag: "sync" },
        noTypescript: true,
        wasiShim: false,
        // Components call each other: without it, every byte between two memories is a call of JavaScript.
        multiMemory: true,
    };
    const { files } = await transpile(component, options);
    if (name === "policy") {
        files["policy.js"] = CHANGES.reduce(changed, new TextDecoder().decode(files["policy.js"]));
    }
    await mkdir(folder, { recursive: true });
    for (const file of await readdir(folder)) {
        if (file.startsWith(`${name}.`) && /(js|wasm)$/.test(file)) {
            await rm(join(folder, file));
        }
    }
    await writeFile(join(folder, "package.json"), '{ "type": "module" }\n');
    for (const [file, bytes] of Object.entries(files).filter(([file]) => !file.endsWith(".d.ts"))) {
        await writeFile(join(folder, file), bytes);
    }
}

function changed(code, [before, after]) {
    if (code.split(before).length !== 2) {
        throw new Error("this version of jco is not known to transpile.js: install the one that package.json names");
    }
    return code.replace(before, () => after);
}
