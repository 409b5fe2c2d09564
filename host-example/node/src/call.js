/** The tool call as passed to a policy: the record `call` of `wit/types.wit`. */

import { checkNames, expect, jsonText } from "./settings.js";
import { timeOf } from "./ulid.js";

const NAMES = ["tool", "session", "query", "tenant"];

/** Validates a call: `{ tool, session?, query?, tenant? }`. */
export function checkCall(call) {
    checkNames(call, NAMES, "call");
    expect(typeof call.tool === "string", "call.tool", "the name of the tool", call.tool);
    for (const name of ["session", "tenant"]) {
        expect(call[name] === undefined || typeof call[name] === "string", `call.${name}`, "a text", call[name]);
    }
}

/** The record for an offload with this id. `query` is text, or any other value as JSON. */
export function callRecord({ tool, session, query, tenant = "default" }, id, isError, shownPath, abilities, settings) {
    return {
        id,
        time: new Date(timeOf(id)).toISOString().replace(/\.\d+Z$/, "Z"),
        tenant,
        session,
        tool,
        query: jsonText(query),
        isError,
        shownPath,
        // Version 0.1.0 of the contract has the abilities here.
        abilities,
        reader: { abilities },
        settings,
    };
}
