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

/** Numbers with these defaults, overridden by the given ones, of the option `what`. */
export function withDefaults(what, defaults, given = {}) {
    for (const [name, value] of Object.entries(given)) {
        if (!Object.hasOwn(defaults, name)) {
            throw new TypeError(`${what}.${name}: no such limit; there are ${Object.keys(defaults).join(", ")}`);
        }
        if (!Number.isSafeInteger(value) || value < 1) {
            throw new TypeError(`${what}.${name}: expected a whole number of at least 1, found ${value}`);
        }
    }
    return { ...defaults, ...given };
}
