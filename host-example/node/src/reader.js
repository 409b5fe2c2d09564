/** Questions about offloads in directories, answered in threads. */

import { readFileSync } from "node:fs";

import { FOLDER } from "./adapter.js";
import { ReadError } from "./error.js";
import { load } from "./policy.js";
import { Questions } from "./questions.js";
import { Threads } from "./threads.js";

/** The definitions of the tools, instructions about them, and the template of the resources, of the Rust host. */
const shown = JSON.parse(readFileSync(new URL("./reading.json", import.meta.url), "utf8"));

export const TOOLS = shown.tools;
export const GUIDANCE = shown.guidance;
export const TEMPLATE = shown.template;

/** Reads offloads. The component is loaded with the first call. */
export class Reader extends Questions {
    #limits;
    #threads;
    #loaded;

    /** `warn` gets the reasons that clients must not see. */
    constructor(size, limits, warn) {
        super((...asked) => this.#ask(...asked), warn);
        this.#threads = new Threads(new URL("./reader-worker.js", import.meta.url), size);
        this.#limits = limits;
    }

    /** Ends the threads; running calls fail. */
    async close() {
        await this.#threads.close();
    }

    async #ask(name, args, offloads) {
        this.#loaded ??= load(FOLDER, this.#limits, { name: "reader", holding: 0 });
        const loaded = { ...(await this.#loaded), limits: this.#limits };
        const directories = offloads.map(({ handle, path }) => [handle, path]);
        const { ok, err } = await this.#threads.run(loaded, { name, args, directories }, this.#limits.wallTimeMs);
        if (err !== undefined) {
            throw new ReadError(err.code, err.message);
        }
        return ok;
    }
}
