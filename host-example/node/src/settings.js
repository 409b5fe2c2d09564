/**
 * The settings of a policy: the record `settings` of `wit/types.wit`, from options with the names of the settings in camelCase.
 */

import { DEFAULTS, PRESETS } from "./defaults.js";

/** The names of all settings. */
export const SETTING_NAMES = [
    "mode",
    "threshold",
    "unit",
    "preset",
    "action",
    "sections",
    "inlineKeys",
    "inlineLimit",
    "infer",
    "headerType",
    "sessionKey",
    "level",
    "dialect",
    "descriptorLimit",
    "truncateLimit",
    "truncateSuffix",
    "advice",
    "images",
    "imagesMax",
    "imagesBytes",
    "custom",
];

const CHOICES = {
    mode: ["by-size", "always", "never"],
    unit: ["bytes", "characters", "tokens"],
    preset: Object.keys(PRESETS),
    action: ["offload", "truncate", "reject"],
    level: ["pointer", "standard", "full"],
    dialect: ["sections", "specification"],
    images: ["keep", "offload"],
};

const SUMMARIES = ["count", "range", "top-values", "distinct"];
const U32_MAX = 2 ** 32 - 1;

/** The effective settings. Throws a `TypeError` that names the setting and the expected value. */
export function policySettings(given) {
    const defaults = { ...DEFAULTS, sections: [], inlineKeys: [] };
    const chosen = (name) => (given[name] === undefined ? defaults[name] : given[name]);
    const options = Object.fromEntries(SETTING_NAMES.map((name) => [name, chosen(name)]));
    for (const [name, choices] of Object.entries(CHOICES)) {
        const value = options[name];
        expect(choices.includes(value) || (name === "preset" && value === undefined), name, choices.join(", "), value);
    }
    for (const name of ["threshold", "descriptorLimit", "truncateLimit"]) {
        const value = options[name];
        const isAbsent = name === "truncateLimit" && value === undefined;
        const most = name === "descriptorLimit" ? U32_MAX : Number.MAX_SAFE_INTEGER;
        expect(isAbsent || isWhole(value, 1, most), name, "a whole number of at least 1", value);
    }
    for (const [name, most] of [["inlineLimit", U32_MAX], ["imagesMax", U32_MAX], ["imagesBytes", Number.MAX_SAFE_INTEGER]]) {
        expect(isWhole(options[name], 0, most), name, "a whole number", options[name]);
    }
    expect(typeof options.infer === "boolean", "infer", "true or false", options.infer);
    for (const name of ["headerType", "truncateSuffix", "advice"]) {
        expect(typeof options[name] === "string", name, "a text", options[name]);
    }
    const { sessionKey, inlineKeys, sections } = options;
    expect(sessionKey === undefined || typeof sessionKey === "string", "sessionKey", "a text", sessionKey);
    expect(isTexts(inlineKeys), "inlineKeys", "a list of texts", inlineKeys);
    expect(Array.isArray(sections), "sections", "a list", sections);
    const { amount, unit } = PRESETS[options.preset] ?? { amount: options.threshold, unit: options.unit };
    const threshold = { amount: BigInt(amount), unit };
    const { truncateLimit } = options;
    return {
        mode: options.mode,
        threshold,
        action: options.action,
        sections: sections.map(sectionRule),
        inlineKeys,
        inlineLimit: options.inlineLimit,
        infer: options.infer,
        headerType: options.headerType,
        sessionKey,
        level: options.level,
        dialect: options.dialect,
        descriptorLimit: options.descriptorLimit,
        truncateLimit:
            truncateLimit === undefined ? threshold : { amount: BigInt(truncateLimit), unit: threshold.unit },
        truncateSuffix: options.truncateSuffix,
        advice: options.advice,
        images: options.images,
        imagesMax: options.imagesMax,
        imagesBytes: BigInt(options.imagesBytes),
        custom: jsonText(options.custom),
    };
}

function sectionRule(rule, index) {
    const at = `sections[${index}]`;
    checkNames(rule, ["key", "filenamePrefix", "schema", "summaries", "recipes"], at);
    const { key, filenamePrefix, schema, summaries = [], recipes = [] } = rule;
    expect(typeof key === "string", `${at}.key`, "a JSON Pointer or a top-level key", key);
    for (const { kind } of summaries) {
        expect(SUMMARIES.includes(kind), `${at}.summaries`, `kinds ${SUMMARIES.join(", ")}`, kind);
    }
    recipes.forEach((recipe) => {
        checkNames(recipe, ["name", "description", "command"], `${at}.recipes`);
        expect(
            isTexts(Object.values(recipe)) && Object.keys(recipe).length === 3,
            `${at}.recipes`,
            "three texts",
            recipe,
        );
    });
    return {
        key,
        filenamePrefix,
        schema: jsonText(schema),
        summaries: summaries.map(({ kind, field = "" }) => ({ kind, field })),
        recipes,
    };
}

/** Throws when an object has a member with an unknown name. */
export function checkNames(given, names, what) {
    for (const name of Object.keys(given)) {
        if (!names.includes(name)) {
            throw new TypeError(`${what}: no such option \`${name}\`; there are ${names.join(", ")}`);
        }
    }
}

/** Throws when a condition does not hold. */
export function expect(holds, name, expected, found) {
    if (!holds) {
        throw new TypeError(`${name}: expected ${expected}, found ${JSON.stringify(found)?.slice(0, 80)}`);
    }
}

/** Text unchanged, any other value as JSON. */
export function jsonText(value) {
    return value === undefined || typeof value === "string" ? value : JSON.stringify(value);
}

function isWhole(value, least, most) {
    return Number.isSafeInteger(value) && value >= least && value <= most;
}

function isTexts(values) {
    return Array.isArray(values) && values.every((value) => typeof value === "string");
}
