#!/usr/bin/env node
/**
 * Transpiles a policy for the edge: node build.js [POLICY.wasm [FOLDER]]
 *
 * As `build.js` of the Node example, but also writes the memory limit into the modules, because nothing can be compiled
 * at run time there.
 */

import { execFileSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { bounded } from "../node/src/bounds.js";
import { LIMITS } from "../node/src/limits.js";

const here = fileURLToPath(new URL(".", import.meta.url));
const target = process.env.CARGO_TARGET_DIR ?? join(here, "../../target");
const [source = join(target, "wasm32-unknown-unknown/component/lro_policy.wasm"), folder = join(here, "component")] =
    process.argv.slice(2);

execFileSync(process.execPath, [join(here, "../node/build.js"), source, resolve(folder)], { stdio: "inherit" });
for (const name of readdirSync(folder).filter((name) => name.endsWith(".wasm"))) {
    const path = join(folder, name);
    writeFileSync(path, bounded(readFileSync(path), LIMITS).bytes);
}
