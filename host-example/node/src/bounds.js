/** Limits the memories and tables of core modules: writes the limits into a module before it is compiled. */

import { Reader, joined, number } from "./bytes.js";

const PAGE_BYTES = 65_536;
const TABLE_SECTION = 4;
const MEMORY_SECTION = 5;
const REFERENCES = [0x70, 0x6f];

/** Memories of the components around a policy, which come first: the one that holds result and files, and the adapter. */
export const HOLDING_MEMORIES = 2;

/** Memories of the others: of the policy, and of the bridge before one of the contract 0.1.0. */
const POLICY_MEMORIES_MAX = 2;

/**
 * The core modules among the files `[name, bytes]` of a transpiled component, with limits on their memories and tables; the first
 * `holding` memories have the limit `heldBytes`. Throws when a module requires more at its start.
 */
export function bounded(files, limits, holding = HOLDING_MEMORIES) {
    let memories = 0;
    const memory = () => {
        memories += 1;
        const isHolding = memories <= holding;
        return isHolding
            ? { most: Math.floor(limits.heldBytes / PAGE_BYTES), name: "held-bytes" }
            : { most: Math.floor(limits.memoryBytes / PAGE_BYTES), name: "memory-bytes" };
    };
    const table = () => ({ most: limits.tableElements, name: "table-elements" });
    // Their numbers are in the order of the components.
    const numberOf = ([name]) => Number(/(\d*)\.wasm$/.exec(name)[1]);
    const modules = [...files].filter(([name]) => name.endsWith(".wasm"));
    modules.sort((one, other) => numberOf(one) - numberOf(other));
    const found = modules.map(([name, bytes]) => [name, limited(bytes, memory, table)]);
    const ofPolicy = memories - holding;
    if (ofPolicy > POLICY_MEMORIES_MAX) {
        throw new Error(`the policy has ${ofPolicy} memories, more than ${POLICY_MEMORIES_MAX}`);
    }
    return found;
}

/** A module whose memories and tables have the limits that `memory` and `table` give, one after the other. */
function limited(bytes, memory, table) {
    const reader = new Reader(bytes, 8);
    const pieces = [bytes.subarray(0, 8)];
    while (!reader.isAtEnd()) {
        const start = reader.at;
        const [id, size] = [reader.byte(), reader.number()];
        const end = reader.at + size;
        if (id === MEMORY_SECTION || id === TABLE_SECTION) {
            const count = reader.number();
            const entries = [];
            for (let index = 0; index < count; index += 1) {
                const type = id === TABLE_SECTION ? [reference(reader)] : [];
                entries.push(...type, ...entry(reader, id === TABLE_SECTION ? table() : memory()));
            }
            const body = [...number(count), ...entries];
            pieces.push(Uint8Array.from([id, ...number(body.length), ...body]));
        } else {
            pieces.push(bytes.subarray(start, end));
        }
        reader.at = end;
    }
    return joined(pieces);
}

/** The type of a table's elements. */
function reference(reader) {
    const found = reader.byte();
    if (!REFERENCES.includes(found)) {
        throw new Error("a core module has a table of a kind that cannot be limited");
    }
    return found;
}

/** The least and the most of a memory or a table. */
function entry(reader, { most, name }) {
    const flags = reader.byte();
    if (flags > 1) {
        throw new Error("a core module has a shared or 64-bit memory or table, which cannot be limited");
    }
    const least = reader.number();
    const own = flags === 1 ? reader.number() : Infinity;
    if (least > most) {
        const unit = name === "table-elements" ? "elements of a table" : "pages of memory";
        throw new Error(`a core module needs ${least} ${unit} at its start, more than ${most} (limit ${name})`);
    }
    return [1, ...number(least), ...number(Math.min(own, most))];
}
