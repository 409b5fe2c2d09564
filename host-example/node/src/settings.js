/** Settings and calls as the composed component takes them. It checks them: `wit/adapter/filter.wit`. */

/** The tenant of whoever names none. */
export const DEFAULT_TENANT = "default";

/** The settings as JSON, from options with their names in camelCase, and the limits that the component keeps. */
export function settingsJson(given, { writtenBytes, files, openFiles, nameBytes }) {
    const { custom, sections, ...others } = given;
    const settings = {
        ...others,
        custom: jsonText(custom),
        sections: Array.isArray(sections) ? sections.map(section) : sections,
        limits: { writtenBytes, files, openFiles, nameBytes },
    };
    return JSON.stringify(spelled(settings));
}

/** The members of a request that a call has: `{ tool, session?, query?, tenant?, abilities? }`. */
export function requestOf(call, defaultTenant = DEFAULT_TENANT) {
    checkNames(call, ["tool", "session", "query", "tenant", "abilities"], "call");
    const { tool, session, query, tenant = defaultTenant, abilities } = call;
    checkAbilities(abilities, "call.abilities");
    expect(typeof tool === "string", "call.tool", "the name of the tool", tool);
    for (const [name, value] of Object.entries({ session, tenant })) {
        expect(value === undefined || typeof value === "string", `call.${name}`, "a text", value);
    }
    return { tool, session, query: jsonText(query), tenant, abilities };
}

/** Throws when abilities have an unknown name. */
export function checkAbilities(abilities = {}, what = "abilities") {
    checkNames(abilities, ["shell", "extractTool", "readTool"], what);
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

function section(rule) {
    return { ...rule, schema: jsonText(rule?.schema) };
}

/** Names in camelCase as the settings spell them. */
function spelled(value) {
    if (Array.isArray(value)) {
        return value.map(spelled);
    }
    if (typeof value !== "object" || value === null) {
        return value;
    }
    const kebab = (name) => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [kebab(name), spelled(member)]));
}

/** Text unchanged, any other value as JSON. */
function jsonText(value) {
    return value === undefined || typeof value === "string" ? value : JSON.stringify(value);
}
