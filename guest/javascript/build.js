/** Builds the component: node build.js writes `log-policy.wasm`. */

import { rename, writeFile } from "node:fs/promises";
import { chdir } from "node:process";

import { componentize } from "@bytecodealliance/componentize-js";

// Relative paths, so that the component holds no path of this machine, and a folder may have a space in its name.
chdir(import.meta.dirname);

const { component } = await componentize({
    sourcePath: "policy.js",
    witPath: "../../wit",
    worldName: "lro-policy",
    // A policy does not need these, and the host does not provide them.
    disableFeatures: ["random", "stdio", "clocks", "http", "fetch-event"],
});

// By rename, because a gateway that watches the file must not read half of it.
await writeFile("log-policy.wasm.new", component);
await rename("log-policy.wasm.new", "log-policy.wasm");
console.log(`log-policy.wasm: ${component.length} bytes`);
