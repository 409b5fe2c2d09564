import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
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

/** Serves what a function of `Request` answers, over HTTP until the end of the test; returns the URL. */
export async function served(test, answer) {
    const server = createServer(async (request, response) => {
        const { method, headers, url } = request;
        const body = method === "POST" ? Readable.toWeb(request) : undefined;
        const reply = await answer(new Request(`http://127.0.0.1${url}`, { method, headers, body, duplex: "half" }));
        response.writeHead(reply.status, Object.fromEntries(reply.headers));
        await pipeline(reply.body ?? [], response);
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    test.after(() => server.close().closeAllConnections());
    return new URL(`http://127.0.0.1:${server.address().port}/mcp`);
}
