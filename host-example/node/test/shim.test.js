import assert from "node:assert/strict";
import { mkdirSync, readFileSync, readdirSync } from "node:fs";
import test from "node:test";

import { WASIShim } from "@bytecodealliance/preview2-shim/instantiation";

import { callRecord } from "../src/call.js";
import { write } from "../src/component.js";
import { Directory } from "../src/files.js";
import { LIMITS } from "../src/limits.js";
import { load } from "../src/policy.js";
import { encoded, takeApart } from "../src/result.js";
import { policySettings } from "../src/settings.js";
import { ulid } from "../src/ulid.js";
import { freshPath, transpiled } from "./support.js";

test("on jco's preview2-shim with a preopened directory the policy writes the same bytes", async () => {
    const { url, modules } = await load(transpiled("lro_policy"), LIMITS);
    const { instantiate } = await import(url);
    const structuredContent = { records: Array.from({ length: 5000 }, (_, id) => ({ id, name: `record ${id}` })) };
    const parts = encoded(takeApart({ structuredContent }).parts);
    const call = callRecord({ tool: "search" }, ulid(), false, "/shown", { shell: true }, policySettings({}));
    const section = { pointer: "/records", shape: "elements", name: "records" };
    const plan = { parts: [{ tag: "sections", val: [section] }] };

    const [own, shims] = [freshPath(), freshPath()];
    [own, shims].forEach((path) => mkdirSync(path));
    const descriptor = write({ instantiate, modules }, call, parts, plan, new Directory(own), LIMITS);

    class ToolResult {
        parts() {
            return [{ kind: "structured", size: BigInt(parts[0].bytes.length) }];
        }

        // All of it is ASCII.
        readText(_, offset, length) {
            return Buffer.from(parts[0].bytes).toString("latin1", Number(offset), Number(offset) + length);
        }
    }
    const shim = new WASIShim({ sandbox: { preopens: { "/": shims } } }).getImportObject();
    const names = ["wasi:filesystem/types", "wasi:filesystem/preopens"];
    const imports = {
        "lro:filter/types": { ToolResult },
        ...Object.fromEntries(names.map((name) => [name, shim[name]])),
    };
    const { lroFilter } = instantiate((name) => modules[name], imports);
    assert.deepEqual(lroFilter.writeSections(call, new ToolResult(), plan), descriptor);
    assert.deepEqual(readdirSync(shims), ["records.jsonl"]);
    assert.deepEqual(readFileSync(`${shims}/records.jsonl`), readFileSync(`${own}/records.jsonl`));
});
