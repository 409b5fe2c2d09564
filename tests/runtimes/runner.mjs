// Shared by the runners in Node: arguments, a scratch folder, and the report on all vectors.

import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { MEASURED, median } from "./vectors.mjs";

const WARM_UP = 1;
const RUNS = 5;

/** The arguments `COMPONENT.wasm VECTORS_DIR INPUTS_DIR`, and a temporary folder, removed when the process ends. */
export function prepared(program) {
    const [component, vectors, inputs] = process.argv.slice(2);
    if (inputs === undefined) {
        console.error(`usage: node ${program} COMPONENT.wasm VECTORS_DIR INPUTS_DIR`);
        process.exit(2);
    }
    const scratch = mkdtempSync(join(tmpdir(), "lro-vectors-"));
    process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));
    return { component, vectors, inputs, scratch };
}

/**
 * Prints the report. `tried(vector)` returns the reason why a vector fails, `timed(vector)` the milliseconds of one
 * more write, `peakBytes()` the peak memory.
 */
export async function report({ runtime, component, vectors, tried, timed, peakBytes }) {
    const found = {
        runtime,
        component: createHash("sha256").update(readFileSync(component)).digest("hex"),
        passed: 0,
        failed: [],
        milliseconds: null,
    };
    const files = readdirSync(vectors).filter((name) => name.endsWith(".json"));
    for (const file of files.sort()) {
        const vector = JSON.parse(readFileSync(join(vectors, file), "utf8"));
        const name = basename(file, ".json");
        const reason = await tried(vector);
        if (reason !== undefined) {
            found.failed.push({ vector: name, reason });
            continue;
        }
        found.passed += 1;
        if (name === MEASURED) {
            const times = [];
            for (let index = 0; index < WARM_UP + RUNS; index += 1) {
                times.push(await timed(vector));
            }
            found.milliseconds = Math.round(median(times.slice(WARM_UP)) * 10) / 10;
        }
    }
    found.peak_bytes = peakBytes();
    console.log(JSON.stringify(found));
    process.exitCode = found.failed.length === 0 ? 0 : 1;
}
