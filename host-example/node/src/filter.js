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
const NAMES = ["directory", "policy", "ttlSeconds", "failure", "threads", "abilities", "limits", ...SETTING_NAMES];
const ABILITIES = ["shell", "extractTool", "readTool"];
const THREADS_MAX = 2;

/** Filters tool results by a policy. `index.d.ts` documents the options. */
export class Filter {
    #settings;
    #failure;
    #abilities;
    #limits;
    #policy;
    #store;

    constructor(options = {}) {
        checkNames(options, NAMES, "Filter");
        const {
            directory,
            policy = POLICY,
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
        this.#policy = new Policy(resolve(policy), threads, this.#limits);
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
        await this.#policy.ready();
        const id = ulid();
        const record = callRecord(call, id, result.isError === true, store.path(id), this.#abilities, this.#settings);
        let verdict;
        try {
            const answer = await this.#policy.call(record, encoded(taken.parts), store.staging(id));
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
        await this.#policy.close();
    }
}

/** Removes expired offloads in the background. */
function sweep(store) {
    store.sweep().catch((error) => warn(`expired files could not be removed: ${error.message}`));
}

function warn(message) {
    emitWarning(message, "LroFilterWarning");
}
