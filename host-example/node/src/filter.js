import { cpus } from "node:os";
import { resolve } from "node:path";
import { emitWarning } from "node:process";
import { fileURLToPath } from "node:url";

import { callRecord, checkCall } from "./call.js";
import { DEFAULTS } from "./defaults.js";
import { LIMITS, withLimits } from "./limits.js";
import { FAILURE_MODES, afterFailure, answered, checkDescriptor, reason } from "./outcome.js";
import { Policy } from "./policy.js";
import { encoded, takeApart } from "./result.js";
import { SETTING_NAMES, checkNames, expect, policySettings } from "./settings.js";
import { Store } from "./store.js";
import { ulid } from "./ulid.js";

const POLICY = fileURLToPath(new URL("../component/", import.meta.url));
const NAMES = ["directory", "policy", "sha256", "ttlSeconds", "failure", "threads", "abilities", "limits", ...SETTING_NAMES];
const ABILITIES = ["shell", "extractTool", "readTool"];
const THREADS_MAX = 2;

/** Filters tool results by a policy. `index.d.ts` documents the options. */
export class Filter {
    #settings;
    #failure;
    #abilities;
    #limits;
    #threads;
    #policy;
    /** Policies that were swapped and still have calls. */
    #retiring = new Set();
    /** Settles when the last swap has, whether it failed or not. */
    #swapped = Promise.resolve();
    #isClosed = false;
    #store;

    constructor(options = {}) {
        checkNames(options, NAMES, "Filter");
        const {
            directory,
            policy = POLICY,
            sha256,
            ttlSeconds = DEFAULTS.ttlSeconds,
            failure = DEFAULTS.failure,
            abilities = { shell: true },
        } = options;
        const { threads = Math.min(THREADS_MAX, cpus().length), limits } = options;
        expect(typeof directory === "string", "directory", "the path of a private directory for the files", directory);
        expect(
            Number.isSafeInteger(ttlSeconds) && ttlSeconds >= 1,
            "ttlSeconds",
            "a whole number of at least 1",
            ttlSeconds,
        );
        expect(FAILURE_MODES.includes(failure), "failure", FAILURE_MODES.join(", "), failure);
        expect(Number.isSafeInteger(threads) && threads >= 1, "threads", "a whole number of at least 1", threads);
        checkNames(abilities, ABILITIES, "abilities");
        this.#settings = policySettings(options);
        this.#failure = failure;
        this.#abilities = abilities;
        this.#limits = limits === undefined ? LIMITS : withLimits(limits);
        this.#threads = threads;
        this.#policy = new Policy(resolve(policy), threads, this.#limits, sha256);
        this.#store = Store.open(resolve(directory), ttlSeconds * 1000);
        // `apply` reports the error.
        this.#store.then(sweep, () => {});
    }

    /** The `CallToolResult` to send in place of `result`. */
    async apply(call, result) {
        checkCall(call);
        const taken = takeApart(result);
        if (taken === undefined) {
            return result;
        }
        const store = await this.#store;
        // One policy for the verdict and the files.
        const policy = this.#policy;
        policy.enter();
        try {
            await policy.ready();
            return await this.#answer(call, result, taken, store, policy);
        } finally {
            policy.leave();
        }
    }

    /**
     * Uses another policy for the results from now on, and returns its digest. A result that the policy before has begun
     * stays with it to its end. Throws when it cannot be used: nothing changes.
     */
    async swap(policy, { sha256 } = {}) {
        expect(typeof policy === "string", "policy", "a folder of a policy that `build.js` transpiled", policy);
        // In turn, so that of two swaps the later one lasts.
        const swapped = this.#swapped.then(() => this.#swap(resolve(policy), sha256));
        this.#swapped = swapped.catch(() => {});
        return swapped;
    }

    async #swap(folder, sha256) {
        const next = new Policy(folder, this.#threads, this.#limits, sha256);
        try {
            const digest = await next.ready();
            if (this.#isClosed) {
                throw new Error("the filter was closed");
            }
            const old = this.#policy;
            this.#policy = next;
            this.#retiring.add(old);
            old.retire().then(() => this.#retiring.delete(old));
            return digest;
        } catch (error) {
            await next.close();
            throw error;
        }
    }

    async #answer(call, result, taken, store, policy) {
        const id = ulid();
        const record = callRecord(call, id, result.isError === true, store.path(id), this.#abilities, this.#settings);
        let verdict;
        try {
            const answer = await policy.call(record, encoded(taken.parts), store.staging(id));
            ({ verdict } = answer);
            if (verdict.tag === "offload") {
                checkDescriptor(answer.descriptor, this.#settings);
                await store.publish(id, answer.descriptor.files);
                sweep(store);
            }
            return answered(result, taken, verdict, answer.descriptor);
        } catch (error) {
            const wrote = verdict?.tag === "offload" || error.wrote === true;
            if (wrote) {
                await store.discard(id);
            }
            const why = reason(error);
            warn(`${call.tool}: ${why}`);
            return afterFailure(result, taken, this.#failure, wrote, why, this.#settings);
        }
    }

    /** Ends the threads. Running calls fail; files stay until they expire. */
    async close() {
        this.#isClosed = true;
        await Promise.all([this.#policy, ...this.#retiring].map((policy) => policy.close()));
    }
}

/** Removes expired offloads in the background. */
function sweep(store) {
    store.sweep().catch((error) => warn(`expired files could not be removed: ${error.message}`));
}

function warn(message) {
    emitWarning(message, "LroFilterWarning");
}
