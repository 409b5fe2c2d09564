#!/usr/bin/env node
/**
 * Puts a policy into a composed component, and transpiles it: node build.js [POLICY.wasm [FOLDER]]
 *
 * Without arguments, takes the default policy from cargo's target directory, and `component/`, where the component that reads
 * offloads goes too. `new Filter({ policy: FOLDER })` takes any other. `make packages` puts the composed components into
 * `component/`, one for each version of the contract.
 */

import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { Reader, joined, number } from "./src/bytes.js";
import { transpiled } from "./transpile.js";

const HEADER = [0x00, 0x61, 0x73, 0x6d, 0x0d, 0x00, 0x01, 0x00];
const COMPONENT_SECTION = 4;
const POLICY_EXPORT = "lro:filter/lro-filter";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(here, "../../target");
const built = join(target, "wasm32-unknown-unknown/component");
const [source = join(built, "lro_policy.wasm"), folder = join(here, "component")] = process.argv.slice(2);

try {
    await build(await bytesOf(source), folder);
    if (process.argv.length === 2) {
        await transpiled(await bytesOf(join(built, "lro_reader.wasm")), folder, "reader");
    }
    console.log(`${source} is in ${resolve(folder)}`);
} catch (error) {
    console.error(error.message);
    process.exitCode = 1;
}

async function build(policy, folder) {
    if (!HEADER.every((byte, index) => policy[index] === byte)) {
        throw new Error(`${source} is not a WebAssembly component`);
    }
    let reason;
    for (const name of ["lro_composed.wasm", "lro_composed_0_1.wasm"]) {
        try {
            return await transpiled(withPolicy(await bytesOf(join(here, "component", name)), policy), folder);
        } catch (error) {
            reason = error.message;
            if (!reason.includes(POLICY_EXPORT)) {
                break;
            }
        }
    }
    const [, missing] = /missing import named `(.*?)`/.exec(reason) ?? [];
    if (missing !== undefined) {
        throw new Error(`${source} imports \`${missing}\`, which no policy can have`);
    }
    const isNone = reason.includes(POLICY_EXPORT);
    const none = `exports \`${POLICY_EXPORT}\` in no version that this package runs: it is not a policy`;
    throw new Error(isNone ? `${source} ${none}` : `${source} cannot be used: ${reason}`);
}

/** A composed component with this policy, which is the last component in it. */
function withPolicy(composed, policy) {
    const reader = new Reader(composed, HEADER.length);
    let [start, end] = [0, 0];
    while (!reader.isAtEnd()) {
        const [at, id, size] = [reader.at, reader.byte(), reader.number()];
        reader.at += size;
        [start, end] = id === COMPONENT_SECTION ? [at, reader.at] : [start, end];
    }
    const section = Uint8Array.from([COMPONENT_SECTION, ...number(policy.length)]);
    return joined([composed.subarray(0, start), section, policy, composed.subarray(end)]);
}

async function bytesOf(path) {
    return readFile(path).catch((error) => {
        throw new Error(`${path} cannot be read (${error.code}): \`make packages\` builds what is needed`);
    });
}
