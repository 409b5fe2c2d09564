import { LIMITS as DEFAULTS } from "../node/src/limits.js";

/** Limits of one result. `fuel` is the number of instructions that its policy may execute. */
export const LIMITS = Object.freeze({ ...DEFAULTS, heldBytes: 256 * 1024 ** 2, fuel: 4_000_000_000 });

/** Limits of one question. `fuel` is the number of calls of functions, returns and rounds of loops. */
export const QUESTION_LIMITS = Object.freeze({ ...LIMITS, fuel: 1_000_000_000 });
