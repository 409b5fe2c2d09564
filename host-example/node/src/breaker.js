/** Parks a policy that fails repeatedly: its results get the answer of the failure mode at once, until a call tries it again. */

import { DEFAULTS } from "./defaults.js";
import { CallError } from "./error.js";

/** When a policy is parked, and for how long, with the defaults of the Rust host. */
export const BREAKER = Object.freeze({ ...DEFAULTS.breaker });

/** Counts the failures of one version of a policy. */
export class Breaker {
    #settings;
    #warn;
    #failures = 0;
    /** Above 0 while it is parked. */
    #pauseMs = 0;
    #until = 0;

    /** `warn` gets what operators should know. */
    constructor(settings, warn) {
        this.#settings = settings;
        this.#warn = warn;
    }

    /** Whether the call that now begins is the one that tries a parked policy again. Throws a `CallError` while it is parked. */
    admit() {
        if (this.#pauseMs === 0) {
            return false;
        }
        const left = this.#until - performance.now();
        if (left > 0) {
            throw new CallError(`is parked for ${Math.floor(left)} ms more after repeated failures`);
        }
        // If this call never ends, the next pause admits another one.
        this.#until = performance.now() + this.#pauseMs;
        return true;
    }

    /** Counts a call that `admit` let through. Of a parked policy only that which tries it counts. */
    succeeded(isTrial) {
        if (this.#pauseMs > 0 && !isTrial) {
            return;
        }
        if (this.#pauseMs > 0) {
            this.#warn("the policy works again");
        }
        this.#failures = 0;
        this.#pauseMs = 0;
    }

    /** As `succeeded`, of a call that failed by the fault of the policy. */
    failed(isTrial) {
        const { failures, pauseMs, pauseMaxMs } = this.#settings;
        if (this.#pauseMs > 0 && !isTrial) {
            return;
        }
        this.#failures += 1;
        if (this.#pauseMs === 0 && this.#failures < failures) {
            return;
        }
        this.#pauseMs = Math.min(this.#pauseMs * 2 || pauseMs, pauseMaxMs);
        this.#until = performance.now() + this.#pauseMs;
        this.#warn(`the policy is parked for ${this.#pauseMs} ms after repeated failures`);
    }
}
