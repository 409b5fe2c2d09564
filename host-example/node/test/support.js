import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { fileURLToPath } from "node:url";

import { Filter } from "lro-filter";

/** The target directory of cargo. */
export const TARGET = process.env.CARGO_TARGET_DIR ?? fileURLToPath(new URL("../../../target", import.meta.url));
/** The command of the Rust host, of `make build`. */
export const LRO = join(TARGET, "release/lro");

const BUILD = fileURLToPath(new URL("../build.js", import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), "lro-filter-"));
let number = 0;

after(() => rmSync(scratch, { recursive: true, force: true }));

/** A new path in a temporary directory of the test. */
export function freshPath() {
    number += 1;
    return join(scratch, String(number));
}

/** A folder with a transpiled component: one that cargo built, by name, or the file at a path. */
export function transpiled(component) {
    const source = component.includes("/")
        ? component
        : join(TARGET, "wasm32-unknown-unknown/component", `${component}.wasm`);
    const folder = freshPath();
    execFileSync(process.execPath, [BUILD, source, folder], { stdio: ["ignore", "ignore", "pipe"] });
    return folder;
}

/** A filter in a fresh directory, closed after the test. */
export function filterFor(test, options = {}) {
    const filter = new Filter({ directory: freshPath(), ...options });
    test.after(() => filter.close());
    return filter;
}

/** A result with one text block. */
export function textResult(text) {
    return { content: [{ type: "text", text }] };
}

/** Records, and the result of a tool that returns them as FastMCP and the SDKs do. */
export function recordsResult(count) {
    const records = Array.from({ length: count }, (_, id) => ({ id, name: `näme ${id}`, score: (id % 100) / 8 }));
    const structuredContent = { records, total: count };
    return { content: [{ type: "text", text: JSON.stringify(structuredContent, null, 2) }], structuredContent };
}
