import { DEFAULTS } from "./defaults.js";

const { wallTimeMs, memoryBytes, tableElements, instances, writtenBytes, files, openFiles, nameBytes } = DEFAULTS.limits;

/** Limits of one result, with the defaults of the Rust host; `heldBytes` is of this package. */
export const LIMITS = Object.freeze({
    wallTimeMs,
    memoryBytes,
    heldBytes: 1024 ** 3,
    tableElements,
    instances,
    writtenBytes,
    files,
    openFiles,
    nameBytes,
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
