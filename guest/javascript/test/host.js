/** Stands in for the host where a test runs the policy without one: the directory is in memory. */

/** The files of the directory, by name. */
export const files = new Map();

const directory = {
    openAt(_, name, { exclusive }) {
        if (exclusive && files.has(name)) {
            throw { payload: "exist" };
        }
        files.set(name, Buffer.alloc(0));
        return {
            write(bytes, offset) {
                const before = files.get(name);
                if (BigInt(before.length) !== offset) {
                    throw { payload: "invalid-seek" };
                }
                // A host may write fewer bytes than requested.
                const written = bytes.subarray(0, 40_000);
                files.set(name, Buffer.concat([before, written]));
                return BigInt(written.length);
            },
        };
    },
};

export function getDirectories() {
    return [[directory, "/"]];
}
