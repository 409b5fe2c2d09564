/** The tools `lro_extract` and `lro_read`, and offloads as resources, answered by the component of `guest/reader`. */

import { readFileSync } from "node:fs";

import { FOLDER } from "./adapter.js";
import { CallError, ReadError } from "./error.js";
import { load } from "./policy.js";
import { Threads } from "./threads.js";

/** The definitions of the tools, instructions about them, and the template of the resources, of the Rust host. */
const shown = JSON.parse(readFileSync(new URL("./reading.json", import.meta.url), "utf8"));

export const TOOLS = shown.tools;
export const GUIDANCE = shown.guidance;
export const TEMPLATE = shown.template;

/** Code of the error for a resource that is not there. */
export const MISSING_RESOURCE = -32_002;

/** Most that an answer may have: bytes and estimated tokens of results, and bytes of a page. */
const BOUNDS = { answerBytes: 20_000, answerTokens: 8000, pageBytes: 1024 ** 2 };

/** Reads offloads. The component is loaded with the first call. */
export class Reader {
    #limits;
    #threads;
    #loaded;
    #warn;

    /** `warn` gets the reasons that clients must not see. */
    constructor(size, limits, warn) {
        this.#threads = new Threads(new URL("./reader-worker.js", import.meta.url), size);
        this.#limits = limits;
        this.#warn = warn;
    }

    /** The result of a call of a tool about the offloads of a tenant in a store. Throws a `ReadError`, a protocol error. */
    async call(store, tenant, tool, args = {}) {
        const asked = [tool, JSON.stringify(args)];
        try {
            const handles = await this.#ask("handles", asked);
            return JSON.parse(await this.#about(await store, tenant, handles, "call", asked));
        } catch (error) {
            return { content: [{ type: "text", text: this.#reason(error) }], isError: true };
        }
    }

    /**
     * The result of `resources/read`; `undefined` if the URI is not one of a section. Its form is that of the revision 2026-07-28
     * if `isModern`. Throws a `ReadError`.
     */
    async resource(store, tenant, uri, isModern = false) {
        try {
            const handle = await this.#ask("resourceHandle", [uri]);
            const read = async () => this.#about(await store, tenant, [handle], "readResource", [uri, isModern]);
            return handle === undefined ? undefined : JSON.parse(await read());
        } catch (error) {
            throw new ReadError(MISSING_RESOURCE, this.#reason(error));
        }
    }

    /** Ends the threads; running calls fail. */
    async close() {
        await this.#threads.close();
    }

    /** The answer of a function that takes a caller. */
    async #about(store, tenant, handles, name, args) {
        const found = [];
        for (const handle of handles) {
            const offload = await store.find(tenant, handle);
            found.push(...(offload === undefined ? [] : [{ handle, ...offload }]));
        }
        const caller = {
            tenant,
            offloads: found.map(({ handle, expires }) => ({ handle, expires: BigInt(expires) })),
            now: BigInt(Date.now()),
            cursorKey: await store.cursorKey(),
            ...BOUNDS,
        };
        return this.#ask(name, [caller, ...args], found.map(({ handle, path }) => [handle, path]));
    }

    async #ask(name, args, directories = []) {
        this.#loaded ??= load(FOLDER, this.#limits, { name: "reader", holding: 0 });
        const loaded = { ...(await this.#loaded), limits: this.#limits };
        const { ok, err } = await this.#threads.run(loaded, { name, args, directories }, [], this.#limits.wallTimeMs);
        if (err !== undefined) {
            throw new ReadError(err.code, err.message);
        }
        return ok;
    }

    /** Why there is no answer, for clients, who see no paths. Throws protocol errors. */
    #reason(error) {
        if (error instanceof ReadError) {
            throw error;
        }
        if (error instanceof CallError) {
            return `the question ${error.message}: ask for less`;
        }
        this.#warn(`an offload could not be read: ${error.message}`);
        return `the offload could not be read: ${error.code ?? "the server warns why"}`;
    }
}
