// Shared by the runners in JavaScript: arguments, a scratch folder, and the report on the vectors of replies.

import { createHash } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { isDeepStrictEqual } from "node:util";

const MEASURED = "records-100000.json";
const WARM_UP = 1;
const RUNS = 5;

/** The request of the vectors of replies, as in `tests/composed`. */
export const REQUEST = {
    id: "01M8490HTVFQBCBZEZZHXGSEJT",
    tenant: "tests",
    session: "s 1",
    tool: "list items",
    query: '{"q":"x"}',
    shownPath: "/offloads",
    abilities: { shell: true },
};

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
 * Prints the report. `filtered(request, result)` gives `{ outcome, reply, files }` for a result as JSON, with size and digest
 * of each file; `timed(request, result)` the milliseconds of another one, `peakBytes()` the peak memory, and `more()` further members
 * of the report.
 */
export async function report({ runtime, component, vectors, inputs, filtered, timed, peakBytes, more }) {
    const found = { runtime, component: sha256(readFileSync(component)), passed: 0, failed: [], milliseconds: null };
    for (const file of readdirSync(vectors).filter((name) => name.endsWith(".json")).sort()) {
        const reason = await difference(JSON.parse(readFileSync(join(vectors, file), "utf8")), filtered);
        if (reason === undefined) {
            found.passed += 1;
        } else {
            found.failed.push({ vector: basename(file, ".json"), reason });
        }
    }
    const records = join(inputs, MEASURED);
    if (existsSync(records)) {
        const result = `{"content":[],"structuredContent":${readFileSync(records, "utf8")}}`;
        const times = [];
        for (let index = 0; index < WARM_UP + RUNS; index += 1) {
            times.push(await timed({ ...REQUEST, settings: "{}" }, result));
        }
        found.milliseconds = Math.round(median(times.slice(WARM_UP)) * 10) / 10;
    }
    found.peak_bytes = peakBytes();
    Object.assign(found, await more());
    console.log(JSON.stringify(found));
    process.exitCode = found.failed.length === 0 ? 0 : 1;
}

/** SHA-256 in hexadecimal digits. */
export function sha256(bytes) {
    return createHash("sha256").update(bytes).digest("hex");
}

/** The first difference between the replies to a vector and what it says; undefined without one. */
async function difference({ result, cases }, filtered) {
    for (const { settings, ...expected } of cases) {
        const found = await filtered({ ...REQUEST, settings: JSON.stringify(settings) }, result);
        for (const name of ["outcome", "reply", "files"]) {
            if (!isDeepStrictEqual(found[name], expected[name])) {
                return `${JSON.stringify(settings)}: ${name}: ${JSON.stringify(found[name])?.slice(0, 500)}`;
            }
        }
    }
    return undefined;
}

/** The median of an odd number of times. */
function median(times) {
    return times.sort((one, other) => one - other)[(times.length - 1) / 2];
}
