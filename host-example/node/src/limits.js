import { DEFAULTS } from "./defaults.js";

const { wallTimeMs, memoryBytes, tableElements, instances, writtenBytes, files } = DEFAULTS.limits;
const { openFiles, nameBytes, crossingBytes, logBytes } = DEFAULTS.limits;

/** Limits of one policy call, with the defaults of the Rust host. */
export const LIMITS = Object.freeze({
    wallTimeMs,
    memoryBytes,
    tableElements,
    instances,
    writtenBytes,
    files,
    openFiles,
    nameBytes,
    crossingBytes,
    logBytes,
});

/** `LIMITS`, overridden by the given ones. */
export function withLimits(given = {}) {
    for (const [name, value] of Object.entries(given)) {
        if (!(name in LIMITS)) {
            throw new TypeError(`limits.${name}: no such limit; there are ${Object.keys(LIMITS).join(", ")}`);
        }
        if (!Number.isSafeInteger(value) || value < 1) {
            throw new TypeError(`limits.${name}: expected a whole number of at least 1, found ${value}`);
        }
    }
    return { ...LIMITS, ...given };
}
