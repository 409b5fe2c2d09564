/** Offloads as the component that reads them sees them: `wasi:filesystem`, a directory under each handle, with its files. */

import { Descriptor } from "../node/src/descriptor.js";

class Directory extends Descriptor {
    #files;

    constructor(files) {
        super();
        this.#files = files;
    }

    openAt(_pathFlags, name, openFlags, { write, mutateDirectory }) {
        if (write || mutateDirectory || Object.values(openFlags).includes(true)) {
            throw "read-only";
        }
        const found = this.#files.find((file) => file.name === name);
        if (found === undefined) {
            throw "no-entry";
        }
        return new File(found.bytes);
    }
}

class File extends Descriptor {
    #bytes;

    constructor(bytes) {
        super();
        this.#bytes = bytes;
    }

    read(length, offset) {
        const [start, end] = [Number(offset), Number(offset + length)];
        return [this.#bytes.subarray(start, end), end >= this.#bytes.length];
    }
}

/** What the component imports, to read these offloads, `{ handle, files }`. */
export function directories(offloads) {
    const getDirectories = () => offloads.map(({ handle, files }) => [new Directory(files), handle]);
    return { "wasi:filesystem/preopens": { getDirectories }, "wasi:filesystem/types": { Descriptor } };
}
