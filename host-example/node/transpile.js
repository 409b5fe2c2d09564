/**
 * Makes of a composed component, from `lro compose`, a folder that `new Filter({ policy: FOLDER })` and the edge load; and the
 * same of the component that reads offloads.
 */

import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { transpile } from "@bytecodealliance/jco";

/** In the output of jco: a module that only asynchronous functions need, and that the edge cannot compile at run time. */
const SUSPENDING = "const _conditionalSuspending3I32ToVoidModule = ";

/** In the output of jco: what each step tells the console if the environment asks for it, and puts together even if not. */
const LOG = "_debugLog(";

/** An operand of an instruction, in bytes as Latin-1. */
const OPERAND = "[\\x80-\\xff]*[\\x00-\\x7f]";

/** A loop that copies bytes one by one, at least one: so the modules between two components pass on a list of them. */
const LOOP = new RegExp(
    [
        String.raw`\x03\x40`, // loop
        String.raw`\x20(?<to>${OPERAND})\x20(?<from>${OPERAND})`, // local.get, twice
        String.raw`\x2d(?:\x40(?<source>${OPERAND})|\x00)\x00`, // i32.load8_u
        String.raw`\x3a(?:\x40(?<target>${OPERAND})|\x00)\x00`, // i32.store8
        String.raw`\x20\k<from>\x41\x01\x6a\x21\k<from>`, // from += 1
        String.raw`\x20\k<to>\x41\x01\x6a\x21\k<to>`, // to += 1
        String.raw`\x20(?<left>${OPERAND})\x41\x7f\x6a\x22\k<left>`, // left -= 1
        String.raw`\x0d\x00\x0b`, // br_if, end
    ].join(""),
    "gs",
);

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
        files["policy.js"] = changed(new TextDecoder().decode(files["policy.js"]));
        Object.assign(files, copyingCores(files));
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

/** The module that jco made for a policy, without what no policy needs. */
function changed(code) {
    if (code.split(SUSPENDING).length !== 2) {
        throw unknown();
    }
    return code.replace(SUSPENDING, `${SUSPENDING}() => `).replaceAll(LOG, `false && ${LOG}`);
}

/** The core modules among files, of which some copy lists of bytes. */
function copyingCores(files) {
    const cores = Object.entries(files).filter(([file]) => file.endsWith(".wasm"));
    const copied = cores.map(([file, bytes]) => [file, copying(bytes)]);
    if (copied.every(([file, bytes]) => bytes.equals(files[file]))) {
        throw unknown();
    }
    return Object.fromEntries(copied);
}

function unknown() {
    return new Error("this version of jco is not known to transpile.js: install the one that package.json names");
}

/** A core module with `memory.copy` in the place of such loops between two memories; `nop` fills up what is left of them. */
export function copying(bytes) {
    const code = Buffer.from(bytes).toString("latin1");
    const copied = code.replace(LOOP, (loop, ...found) => {
        const { to, from, left, source = "\x00", target = "\x00" } = found.at(-1);
        // In one memory, the places may overlap.
        if (source === target) {
            return loop;
        }
        const copy = `\x20${to}\x20${from}\x20${left}\xfc\x0a${target}${source}`;
        const moved = [to, from].map((place) => `\x20${place}\x20${left}\x6a\x21${place}`);
        return [copy, ...moved, `\x41\x00\x21${left}`].join("").padEnd(loop.length, "\x01");
    });
    return Buffer.from(copied, "latin1");
}
