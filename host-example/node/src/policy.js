/** A policy in a folder from `build.js`, and the threads that run its calls. */

import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";

import { HOLDING_MEMORIES, bounded } from "./bounds.js";
import { BREAKER, Breaker } from "./breaker.js";
import { CallError } from "./error.js";
import { SIGNATURE_BYTES_MAX, verified } from "./signature.js";
import { Threads } from "./threads.js";

/** Least milliseconds for what is not bounded by the limit of a call: a thread may have to be started. */
const CHECK_MS = 10_000;

/** The signature of a folder: of the list that `sha256sum policy.*` prints in it. */
const SIGNATURE = "SHA256SUMS.minisig";

/**
 * Reads and compiles a policy, or another component with that `name`: the URL of its module, its core modules by name, the
 * digest of both, and what its signature `claims`. All of it is read once, so that a folder may change while its policy runs.
 *
 * With `keys`, one of them must have signed it, for this tenant.
 */
export async function load(folder, limits, { name = "policy", holding = HOLDING_MEMORIES, sha256, keys = [], tenant } = {}) {
    // First, as a writer that replaces both writes it last: a new signature never meets an old policy.
    const signature = keys.length > 0 ? await signatureIn(folder) : undefined;
    const isPart = (file) => file.startsWith(`${name}.`) && /(js|wasm)$/.test(file);
    const names = (await readdir(folder).catch(() => [])).filter(isPart).sort();
    if (!names.includes(`${name}.js`)) {
        throw new Error(
            `no ${name} in ${folder}: build the default one with \`make packages\`, ` +
                "or your own with `node build.js POLICY.wasm FOLDER`",
        );
    }
    const files = new Map();
    for (const file of names) {
        files.set(file, await readFile(join(folder, file)));
    }
    const sums = sumsOf(files);
    const digest = sha256Of(sums);
    if (sha256 !== undefined && digest !== String(sha256).toLowerCase()) {
        throw new Error(`the policy in ${folder} has the digest ${digest}, not ${sha256}`);
    }
    const claims = keys.length > 0 ? verified(Buffer.from(sums), signature, keys, tenant) : {};
    const modules = {};
    for (const [module, bytes] of bounded(files, limits, holding)) {
        modules[module] = await WebAssembly.compile(bytes);
    }
    const url = `data:text/javascript;base64,${files.get(`${name}.js`).toString("base64")}`;
    return { url, modules, digest, claims };
}

/** The files and their SHA-256, as `sha256sum policy.*` prints them in the folder, in the order of the locale `C`. */
function sumsOf(files) {
    return [...files].map(([name, bytes]) => `${sha256Of(bytes)}  ${name}\n`).join("");
}

function sha256Of(bytes) {
    return createHash("sha256").update(bytes).digest("hex");
}

/** The text of the signature in a folder. */
async function signatureIn(folder) {
    const path = join(folder, SIGNATURE);
    const found = await stat(path).catch((error) => {
        if (error.code === "ENOENT") {
            throw new Error(`policy is not signed: it needs a signature beside it (\`${SIGNATURE}\`)`);
        }
        throw error;
    });
    if (!found.isFile() || found.size > SIGNATURE_BYTES_MAX) {
        throw new Error(`${path} is not a file of at most ${SIGNATURE_BYTES_MAX} bytes`);
    }
    return readFile(path, "utf8");
}

/** Runs calls of one policy, each in a new instance, in at most `size` threads that are reused between calls. */
export class Policy {
    #loaded;
    #limits;
    #threads;
    #breaker;
    #users = 0;
    /** Ends `retire`; `undefined` before it. */
    #retired;

    /**
     * `breaker` are its settings, `warn` gets what operators should know, `conditions` are `sha256`, `keys` and `tenant` of `load`;
     * `accept` gets what the signature claims, and throws when it does not do.
     */
    constructor(folder, size, limits, { breaker = BREAKER, warn = () => {}, accept = () => {}, ...conditions } = {}) {
        this.#breaker = new Breaker(breaker, warn);
        this.#threads = new Threads(new URL("./worker.js", import.meta.url), size);
        this.#limits = limits;
        this.#loaded = this.#load(folder, conditions, accept);
        // `ready` and `call` report the error.
        this.#loaded.catch(() => {});
    }

    /** Waits until the policy is loaded, and returns its digest. Throws when it cannot be used. */
    async ready() {
        return (await this.#loaded).digest;
    }

    /** What its signature says: nothing, if it could not be loaded. */
    async claims() {
        return this.#loaded.then(({ claims }) => claims, () => ({}));
    }

    /** Begins to use the policy, so that it is not closed until `leave`. */
    enter() {
        this.#users += 1;
    }

    /** Ends what `enter` began. */
    leave() {
        this.#users -= 1;
        this.#closeUnused();
    }

    /** Closes the policy when nothing uses it any more. */
    retire() {
        return new Promise((resolve) => {
            this.#retired = resolve;
            this.#closeUnused();
        });
    }

    #closeUnused() {
        if (this.#retired !== undefined && this.#users === 0) {
            this.close().then(this.#retired);
        }
    }

    /**
     * The `reply` of `wit/adapter/filter.wit` to a result, as JSON. The files of an offload are in the new directory `path`.
     *
     * Throws a `CallError` when the call does not end well, or the policy is parked, and a `TypeError` when settings or result are
     * invalid. What is the fault of the policy counts.
     */
    async filter(request, result, path) {
        const isTrial = this.#breaker.admit();
        try {
            const job = { name: "filterUndigested", args: [request], path };
            const reply = await this.#call(job, this.#limits.wallTimeMs, result);
            if (reply.failure === undefined) {
                this.#breaker.succeeded(isTrial);
            } else if (reply.failure.falseAnswer) {
                this.#breaker.failed(isTrial);
            }
            return reply;
        } catch (error) {
            if (error instanceof CallError && error.isFault) {
                this.#breaker.failed(isTrial);
            }
            throw error;
        }
    }

    /** The reply to a result that could not be filtered. Throws as `filter` does. */
    async failed(request, result, reason, wrote) {
        return this.#call({ name: "failed", args: [request, reason, wrote] }, this.#patience(), result);
    }

    async #call(job, wallTimeMs, result) {
        return this.#threads.run(await this.#loaded, job, wallTimeMs, result);
    }

    /** Milliseconds for what the policy does not do. */
    #patience() {
        return Math.max(CHECK_MS, this.#limits.wallTimeMs);
    }

    /** Ends the threads; running calls fail. */
    async close() {
        await this.#threads.close();
    }

    async #load(folder, conditions, accept) {
        const loaded = { ...(await load(folder, this.#limits, conditions)), limits: this.#limits };
        accept(loaded.claims);
        try {
            const check = { name: "check", args: ["{}"] };
            await this.#threads.run(loaded, check, this.#patience());
        } catch (error) {
            throw new Error(`the policy in ${folder} ${error.message}`);
        }
        return loaded;
    }
}
