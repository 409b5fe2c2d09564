/**
 * The tools `lro_extract` and `lro_read`, and offloads as resources, wherever offloads are kept and the component of
 * `guest/reader` runs.
 */

import { CallError, ReadError } from "./error.js";

/** Code of the error for a resource that is not there. */
export const MISSING_RESOURCE = -32_002;

/** Most that an answer may have: bytes and estimated tokens of results, and bytes of a page. */
const BOUNDS = { answerBytes: 20_000, answerTokens: 8000, pageBytes: 1024 ** 2 };

/**
 * Answers questions about the offloads of a store, which has `find(tenant, handle)`, an offload with the time when it `expires`
 * in milliseconds since 1970, and whether it `isIntact`: whether the store keeps every byte as it was written; and
 * `cursorKey(tenant)`.
 */
export class Questions {
    #ask;
    #warn;

    /**
     * `ask(name, args, offloads)` gives the answer of a function of `wit/adapter/reading.wit`, which may read these offloads:
     * what the store found, with its `handle`. `warn` gets the reasons that clients must not see.
     */
    constructor(ask, warn) {
        this.#ask = ask;
        this.#warn = warn;
    }

    /** The result of a call of a tool about the offloads of a tenant in a store. Throws a `ReadError`, a protocol error. */
    async call(store, tenant, tool, args = {}) {
        const asked = [tool, JSON.stringify(args)];
        try {
            const handles = await this.#ask("handles", asked, []);
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
            const handle = await this.#ask("resourceHandle", [uri], []);
            const read = async () => this.#about(await store, tenant, [handle], "readResource", [uri, isModern]);
            return handle === undefined ? undefined : JSON.parse(await read());
        } catch (error) {
            throw new ReadError(MISSING_RESOURCE, this.#reason(error));
        }
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
            offloads: found.map(({ handle, expires, isIntact = false }) => {
                return { handle, expires: BigInt(expires), intact: isIntact };
            }),
            now: BigInt(Date.now()),
            cursorKey: await store.cursorKey(tenant),
            ...BOUNDS,
        };
        return this.#ask(name, [caller, ...args], found);
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
