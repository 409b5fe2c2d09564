/**
 * Schema of a descriptor or truncated result, for clients that validate: an object that says whether data is in files.
 */
const REPLACEMENT = { type: "object", properties: { offloaded: { type: "boolean" } }, required: ["offloaded"] };

const DEFINITIONS = ["$defs", "definitions"];

/**
 * The output schema of a tool whose results are filtered: `{"type":"object","anyOf":[schema, replacement]}`.
 * Definitions and `$schema` move to the new root, because references point to them from there.
 */
export function offloadable(schema) {
    const hoisted = Object.entries(schema).filter(
        ([key]) => key === "$schema" || (DEFINITIONS.includes(key) && !schema.$id),
    );
    const names = hoisted.map(([key]) => key);
    const original = Object.fromEntries(Object.entries(schema).filter(([key]) => !names.includes(key)));
    if (!schema.$id) {
        checkReferences(schema);
    }
    return { ...Object.fromEntries(hoisted), type: "object", anyOf: [original, REPLACEMENT] };
}

/** Throws on a reference to any other part of the root, which is one level deeper in the new schema. */
function checkReferences(value) {
    if (typeof value !== "object" || value === null) {
        return;
    }
    const { $ref } = value;
    const isMoved = typeof $ref === "string" && $ref.startsWith("#") && !/^#\/(\$defs|definitions)\//.test($ref);
    if (isMoved) {
        throw new TypeError(
            `the output schema refers to \`${$ref}\`: put what it means into \`$defs\` and refer to that`,
        );
    }
    Object.values(value).forEach(checkReferences);
}
