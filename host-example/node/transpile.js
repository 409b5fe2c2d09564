/** Makes of a composed component, from `lro compose`, a folder that `new Filter({ policy: FOLDER })` and the edge load. */

import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { transpile } from "@bytecodealliance/jco";

/** The beginning of jco's function that writes a text into the memory of a component. */
const ENCODE = "function _utf8AllocateAndEncode(s, realloc, memory) {";

/** Lets it take UTF-8 too: a large result is then copied once instead of being measured, encoded and copied. */
const ENCODED = `${ENCODE}
    if (s instanceof Uint8Array) {
      const ptr = realloc(0, 0, 1, s.length);
      new Uint8Array(memory.buffer, ptr, s.length).set(s);
      return { ptr, len: s.length };
    }`;

/** Transpiles the bytes of a composed component into a folder, in the place of what is there. */
export async function transpiled(component, folder) {
    const options = {
        name: "policy",
        instantiation: { tag: "sync" },
        noTypescript: true,
        wasiShim: false,
        // Components call each other: without it, every byte between two memories is a call of JavaScript.
        multiMemory: true,
    };
    const { files } = await transpile(component, options);
    const code = new TextDecoder().decode(files["policy.js"]);
    if (!code.includes(ENCODE)) {
        throw new Error("this version of jco is not known to transpile.js: install the one that package.json names");
    }
    files["policy.js"] = code.replace(ENCODE, ENCODED);
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
}
