/** Limits of one policy call; names, in camelCase, and defaults are those of the Rust host. */
export const LIMITS = Object.freeze({
    wallTimeMs: 30_000,
    memoryBytes: 64 * 1024 ** 2,
    tableElements: 100_000,
    instances: 16,
    writtenBytes: 4 * 1024 ** 3,
    files: 256,
    openFiles: 64,
    nameBytes: 128,
    crossingBytes: 8 * 1024 ** 2,
    logBytes: 4096,
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
