// Shared by the runners of Node and of the edge runtime: the values of `tests/vectors` in jco's representation, and the
// comparison.

import { isDeepStrictEqual } from "node:util";

import { inspect, write } from "../../host-example/node/src/component.js";
import { LIMITS } from "../../host-example/node/src/limits.js";

export const MEASURED = "records-100000";

const ENCODER = new TextEncoder();
const VARIANTS = ["where", "parts"];
const WIDE = ["amount", "offset", "images-bytes"];

/** The record `call` or the record `plan` of a vector. */
export function toValue(json, key) {
    if (key === "abilities") {
        return Object.fromEntries(json.map((name) => [camel(name), true]));
    }
    if (Array.isArray(json)) {
        return json.map((item) => (VARIANTS.includes(key) ? toVariant(item) : toValue(item)));
    }
    if (typeof json === "object" && json !== null) {
        return Object.fromEntries(Object.entries(json).map(([name, value]) => [camel(name), toValue(value, name)]));
    }
    return WIDE.includes(key) ? BigInt(json) : json;
}

function toVariant(json) {
    if (typeof json === "string") {
        return { tag: json };
    }
    const [[tag, value]] = Object.entries(json);
    return { tag, val: tag === "all" || tag === "any" ? Uint32Array.from(value) : toValue(value) };
}

/** A verdict, a descriptor or an error as the JSON of a vector. */
export function toJson(value) {
    if (typeof value === "bigint") {
        return Number(value);
    }
    if (Array.isArray(value) || ArrayBuffer.isView(value)) {
        return Array.from(value, toJson);
    }
    if (typeof value !== "object" || value === null) {
        return value;
    }
    if (typeof value.tag === "string") {
        return value.val === undefined ? value.tag : { [value.tag]: toJson(value.val) };
    }
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return Object.fromEntries(members.map(([name, member]) => [kebab(name), toJson(member)]));
}

function camel(name) {
    return name.replace(/-(.)/g, (_, letter) => letter.toUpperCase());
}

function kebab(name) {
    return name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
}

/** The parts of a vector; `input` reads a large text by its name. */
export function partsOf(vector, input) {
    return vector.parts.map((part) => ({
        kind: part.kind,
        mediaType: part["media-type"],
        name: part.name,
        bytes: bytesOf(part, input),
    }));
}

function bytesOf(part, input) {
    if (part.input !== undefined) {
        return input(part.input);
    }
    if (part.base64 !== undefined) {
        return Uint8Array.from(atob(part.base64), (character) => character.charCodeAt(0));
    }
    return ENCODER.encode(part.text);
}

/**
 * The result of a policy on a vector: `verdict` or `error`, then `descriptor` or `write-error`, and the time of
 * writing.
 */
export function answer(policy, vector, parts, directory) {
    const call = toValue(vector.call);
    const verdict = attempt(() => inspect(policy, call, parts, LIMITS));
    if (verdict.error !== undefined) {
        return { error: toJson(verdict.error) };
    }
    const answered = { verdict: toJson(verdict.value) };
    if (verdict.value.tag !== "offload") {
        return answered;
    }
    const written = attempt(() => write(policy, call, parts, verdict.value.val, directory, LIMITS));
    if (written.error !== undefined) {
        return { ...answered, "write-error": toJson(written.error) };
    }
    return { ...answered, descriptor: toJson(written.value) };
}

/** Writes again with the plan of a vector. */
export function writeAgain(policy, vector, parts, directory) {
    const plan = toValue(vector.verdict.offload);
    write(policy, toValue(vector.call), parts, plan, directory, LIMITS);
}

function attempt(operation) {
    try {
        return { value: operation() };
    } catch (error) {
        return { error: error.refusal ?? error.message };
    }
}

/** The difference between an answer with files `{ NAME: { bytes, sha256 } }` and a vector; undefined without one. */
export function difference(vector, answered, files) {
    for (const name of ["verdict", "error", "descriptor", "write-error"]) {
        if (!isDeepStrictEqual(answered[name], vector[name])) {
            return `${name}: expected ${shown(vector[name])}, found ${shown(answered[name])}`;
        }
    }
    const expected = Object.entries(vector.files ?? {}).map(([name, { bytes, sha256 }]) => [name, { bytes, sha256 }]);
    if (!isDeepStrictEqual(files, Object.fromEntries(expected))) {
        return `files: expected ${shown(Object.fromEntries(expected))}, found ${shown(files)}`;
    }
    return undefined;
}

function shown(value) {
    return (JSON.stringify(value) ?? "nothing").slice(0, 500);
}

/** The median of an odd number of times. */
export function median(times) {
    return times.sort((one, other) => one - other)[(times.length - 1) / 2];
}
