/** Builds the result to send in place of a tool result. */

import { CallError } from "./error.js";
import { offloaded, rejected } from "./result.js";
import { truncated } from "./truncate.js";

/** Failure modes. */
export const FAILURE_MODES = ["open", "truncate", "closed"];

/** The result for a verdict. `descriptor` is that of an offload. */
export function answered(result, taken, verdict, descriptor) {
    switch (verdict.tag) {
        case "offload":
            return offloaded(result, taken, verdict.val, descriptor.content);
        case "truncate":
            return truncated(result, taken, verdict.val);
        case "reject":
            return rejected(result, verdict.val);
        default:
            return result;
    }
}

/** The reason why a policy's decision failed, for people. Contains no paths, which clients must not see. */
export function reason(error) {
    return error instanceof CallError
        ? `the policy ${error.message}`
        : `the files could not be kept: ${error.code ?? "error"}`;
}

/** The result for the failure mode; `wrote` says whether the verdict was to offload. */
export function afterFailure(result, taken, failure, wrote, why, settings) {
    if (failure === "closed") {
        return rejected(result, `the result could not be filtered: ${why}`);
    }
    if (failure === "open" && !wrote) {
        return result;
    }
    const warning = `The result could not be written to files (${why}), so a part of it follows.`;
    return truncated(result, taken, { limit: settings.truncateLimit, suffix: settings.truncateSuffix, warning });
}

/** Checks a descriptor before anything is published. */
export function checkDescriptor({ content }, settings) {
    if ([...content].length > settings.descriptorLimit) {
        throw new CallError("answered with a descriptor over its limit");
    }
    let value;
    try {
        value = JSON.parse(content);
    } catch {
        // The check below throws.
    }
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
        throw new CallError("answered with a descriptor that is not a JSON object");
    }
}

/** Checks that the files on the disk are those that a descriptor lists, once each. */
export function checkFiles(files, names) {
    const listed = new Set(files.map((file) => file.name));
    const wrong = names.find((name) => !listed.has(name)) ?? [...listed].find((name) => !names.includes(name));
    if (wrong !== undefined || listed.size !== files.length) {
        throw falseAccount(wrong ?? files[0].name, "not once in the directory and once in the list");
    }
}

/** The error for a file that differs from the policy's report. */
export function falseAccount(name, why) {
    return new CallError(`answered with a false account of its files: ${JSON.stringify(name.slice(0, 128))}: ${why}`);
}
