import { cpus } from "node:os";
import { resolve } from "node:path";
import { emitWarning } from "node:process";

import { FOLDER, checkSettings } from "./adapter.js";
import { attach } from "./attach.js";
import { BREAKER } from "./breaker.js";
import { DEFAULTS } from "./defaults.js";
import { CallError } from "./error.js";
import { LIMITS, withDefaults } from "./limits.js";
import { Policy } from "./policy.js";
import { Reader } from "./reader.js";
import { DEFAULT_TENANT, checkAbilities, expect, requestOf, settingsJson } from "./settings.js";
import { expectNotOlder, keyOf } from "./signature.js";
import { Store } from "./store.js";
import { ulid } from "./ulid.js";

const THREADS_MAX = 2;

/** Filters tool results by a policy. `index.d.ts` documents the options. */
export class Filter {
    #settings;
    #failure;
    #abilities;
    #tenant;
    #limits;
    #breaker;
    #keys;
    #threads;
    #policy;
    /** Policies that were swapped and still have calls. */
    #retiring = new Set();
    /** Settles when the last swap has, whether it failed or not. */
    #swapped = Promise.resolve();
    #isClosed = false;
    #store;
    #reader;

    constructor(options = {}) {
        const {
            directory,
            policy = FOLDER,
            sha256,
            policyKeys = [],
            tenant = DEFAULT_TENANT,
            ttlSeconds = DEFAULTS.ttlSeconds,
            quotaFile = DEFAULTS.quotaFile,
            quotaTenant = DEFAULTS.quotaTenant,
            abilities,
            threads = Math.min(THREADS_MAX, cpus().length),
            limits,
            breaker,
            ...settings
        } = options;
        expect(typeof directory === "string", "directory", "the path of a private directory for the files", directory);
        for (const [name, value] of Object.entries({ ttlSeconds, quotaFile, quotaTenant, threads })) {
            expect(Number.isSafeInteger(value) && value >= 1, name, "a whole number of at least 1", value);
        }
        expect(typeof tenant === "string", "tenant", "a text", tenant);
        expect(Array.isArray(policyKeys), "policyKeys", "a list of public keys of minisign", policyKeys);
        checkAbilities(abilities);
        this.#tenant = tenant;
        this.#keys = policyKeys.map(keyOf);
        this.#breaker = withDefaults("breaker", BREAKER, breaker);
        this.#limits = withDefaults("limits", LIMITS, limits);
        this.#settings = settingsJson(settings, this.#limits);
        checkSettings(this.#settings);
        this.#failure = settings.failure ?? DEFAULTS.failure;
        this.#abilities = abilities;
        this.#threads = threads;
        this.#policy = this.#policyIn(resolve(policy), { sha256 });
        this.#store = Store.open(resolve(directory), { timeToLiveMs: ttlSeconds * 1000, quotaFile, quotaTenant });
        this.#reader = new Reader(threads, this.#limits, warn);
        // `apply` reports the error.
        this.#store.then(sweep, () => {});
    }

    /** The `CallToolResult` to send in place of `result`. */
    async apply(call, result) {
        const request = requestOf(call, this.#tenant);
        const text = JSON.stringify(result) ?? "null";
        const store = await this.#store;
        // One policy for the verdict and the files.
        const policy = this.#policy;
        policy.enter();
        try {
            await policy.ready();
            const { tenant: signed = request.tenant } = await policy.claims();
            if (signed !== request.tenant) {
                throw new Error(`the policy is signed for the tenant \`${signed}\`, not for \`${request.tenant}\``);
            }
            const reply = await this.#reply(request, text, store, policy);
            if (reply.failure !== undefined) {
                warn(`${call.tool}: ${reply.failure.reason}`);
            }
            return reply.toolResult === undefined ? result : JSON.parse(reply.toolResult);
        } finally {
            policy.leave();
        }
    }

    /** Filters the tools of a server of the TypeScript SDK that are registered from now on; returns the server. */
    attach(server, { tenant = this.#tenant } = {}) {
        expect(typeof tenant === "string", "tenant", "a text", tenant);
        attach(this, server, tenant, this.#abilities);
        return server;
    }

    /** Whether there is an offload with this handle. */
    async hasOffload(handle, { tenant = this.#tenant } = {}) {
        return typeof handle === "string" && (await (await this.#store).find(tenant, handle)) !== undefined;
    }

    /** The result of a call of `lro_extract` or `lro_read`. */
    async callTool(tool, args, { tenant = this.#tenant } = {}) {
        return this.#reader.call(this.#store, tenant, tool, args);
    }

    /** The result of `resources/read` of a section; `undefined` for the URI of anything else. */
    async readResource(uri, { tenant = this.#tenant, isModern = false } = {}) {
        return this.#reader.resource(this.#store, tenant, uri, isModern);
    }

    /**
     * Uses another policy for the results from now on, and returns its digest. A result that the policy before has begun
     * stays with it to its end. `allowOlder` takes one whose signature states an earlier version. Throws when it cannot be used:
     * nothing changes.
     */
    async swap(policy, { sha256, allowOlder = false } = {}) {
        expect(typeof policy === "string", "policy", "a folder of a policy that `build.js` transpiled", policy);
        // In turn, so that of two swaps the later one lasts.
        const swapped = this.#swapped.then(() => this.#swap(resolve(policy), sha256, allowOlder));
        this.#swapped = swapped.catch(() => {});
        return swapped;
    }

    async #swap(folder, sha256, allowOlder) {
        const serving = allowOlder ? {} : await this.#policy.claims();
        const next = this.#policyIn(folder, { sha256, accept: (claims) => expectNotOlder(claims, serving) });
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

    /** A policy, which is loaded in the background. The default one is part of this package, and needs neither signature nor version. */
    #policyIn(folder, { sha256, accept }) {
        const isSigned = this.#keys.length > 0 && folder !== resolve(FOLDER);
        const conditions = isSigned ? { sha256, accept, keys: this.#keys, tenant: this.#tenant } : { sha256 };
        return new Policy(folder, this.#threads, this.#limits, { breaker: this.#breaker, warn, ...conditions });
    }

    /** The `reply` of `wit/adapter/filter.wit`. */
    async #reply(call, text, store, policy) {
        const id = ulid();
        const shownPath = store.path(call.tenant, id);
        const abilities = call.abilities ?? this.#abilities ?? { shell: true };
        const request = { ...call, id, shownPath, abilities, settings: this.#settings };
        let failure;
        try {
            const reply = await policy.filter(request, text, store.staging(call.tenant, id));
            if (reply.outcome === "offload") {
                await store.publish(call.tenant, id, reply.files);
                sweep(store);
            }
            return reply;
        } catch (error) {
            if (error instanceof TypeError) {
                throw error;
            }
            failure = error;
        }
        await store.discard(call.tenant, id);
        const [why, wrote] = [reason(failure), failure.wrote ?? true];
        try {
            return await policy.failed(request, text, why, wrote);
        } catch {
            // Such as a result for which there is no memory, so that no part of it can be shown.
            const passes = this.#failure === "open" && !wrote;
            return { failure: { reason: why }, toolResult: passes ? undefined : JSON.stringify(rejected(why)) };
        }
    }

    /** Ends the threads. Running calls fail; files stay until they expire. */
    async close() {
        this.#isClosed = true;
        await Promise.all([this.#policy, ...this.#retiring, this.#reader].map((running) => running.close()));
    }
}

/** Why a call failed, for people. Contains no paths, which clients must not see. */
function reason(error) {
    return error instanceof CallError
        ? `the policy ${error.message}`
        : `the files could not be kept: ${error.code ?? "error"}`;
}

/** The error of a tool in the place of a result. */
function rejected(why) {
    return { content: [{ type: "text", text: `the result could not be filtered: ${why}` }], isError: true };
}

/** Removes expired offloads in the background. */
function sweep(store) {
    store.sweep().catch((error) => warn(`expired files could not be removed: ${error.message}`));
}

function warn(message) {
    emitWarning(message, "LroFilterWarning");
}
