/** Signatures in the format of minisign, and what their trusted comments say: `docs/how-to/tenants.md`. */

import { createHash, createPublicKey, verify } from "node:crypto";

/** Most bytes of a signature file. */
export const SIGNATURE_BYTES_MAX = 4096;

const COMMENT = "trusted comment: ";
const NUMBER_MAX = 2n ** 64n - 1n;
const TIME = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;

/** The words of a trusted comment: how each is read, `undefined` for what is wrong, and what is expected. */
const WORDS = {
    tenant: [(text) => text || undefined, "the name of a tenant"],
    version: [versionOf, "numbers with dots between them"],
    expires: [timeOf, "a time as in RFC 3339"],
};

/** The public key in one line of base64, as `minisign -G` prints it. Throws a `TypeError` when it is not one. */
export function keyOf(text) {
    const data = typeof text === "string" ? decoded(text) : undefined;
    if (data?.length !== 42 || !["Ed", "ED"].includes(data.toString("latin1", 0, 2))) {
        throw new TypeError(`policyKeys: ${JSON.stringify(text)} is not a public key of minisign`);
    }
    const jwk = { kty: "OKP", crv: "Ed25519", x: data.toString("base64url", 10) };
    return { id: data.subarray(2, 10), key: createPublicKey({ key: jwk, format: "jwk" }) };
}

/**
 * What the signature `text` of `data` says, which one of the keys made, and which is good for this tenant and now:
 * `{ tenant, version, expires }`, each `undefined` where it says nothing. Throws when it is not good.
 */
export function verified(data, text, keys, tenant) {
    const claims = claimsOf(trustedComment(data, text, keys));
    if (claims.tenant !== undefined && claims.tenant !== tenant) {
        throw new Error(`policy is signed for the tenant \`${claims.tenant}\`, not for \`${tenant}\``);
    }
    if (claims.expires !== undefined && claims.expires <= Date.now()) {
        const [expires, now] = [claims.expires, Date.now()].map((time) => `${new Date(time).toISOString().slice(0, 19)}Z`);
        throw new Error(`policy has a signature that expired at ${expires}; it is now ${now}`);
    }
    return claims;
}

/** Throws when what the signature of a policy says is older than what that of the serving one does. */
export function expectNotOlder(found, serving) {
    if (serving.version === undefined || (found.version !== undefined && compared(found.version, serving.version) >= 0)) {
        return;
    }
    const shown = found.version?.join(".") ?? "none";
    const both = `policy has the version ${shown}, and the tenant's has ${serving.version.join(".")}`;
    throw new Error(`${both}: an older one is loaded only on request (allowOlder)`);
}

function trustedComment(data, text, keys) {
    const [, signed = "", comment = "", global = ""] = text.split("\n").map((line) => line.replace(/\r$/, ""));
    const [first, last] = [decoded(signed), decoded(global)];
    if (first?.length !== 74 || last?.length !== 64 || !comment.startsWith(COMMENT)) {
        throw refused("Invalid encoding in minisign data");
    }
    const [id, signature] = [first.subarray(2, 10), first.subarray(10)];
    const key = keys.find((one) => one.id.equals(id))?.key;
    if (key === undefined) {
        throw refused("The signature was created with a different key than the one provided");
    }
    // `Ed` is of the data itself, which only old versions of minisign sign.
    if (first.toString("latin1", 0, 2) !== "ED") {
        throw refused("Unexpected signature algorithm");
    }
    const said = comment.slice(COMMENT.length);
    const digest = createHash("blake2b512").update(data).digest();
    const isGood = verify(null, digest, key, signature) && verify(null, Buffer.concat([signature, Buffer.from(said)]), key, last);
    if (!isGood) {
        throw refused("The signature verification failed");
    }
    return said;
}

function claimsOf(comment) {
    const claims = {};
    for (const word of comment.split(/\s+/)) {
        const [, name, value] = /^([^=]*)=(.*)$/s.exec(word) ?? [];
        if (name === undefined || !Object.hasOwn(WORDS, name)) {
            continue;
        }
        const [read, expected] = WORDS[name];
        const claim = read(value);
        const isRepeated = Object.hasOwn(claims, name);
        if (claim === undefined || isRepeated) {
            const needs = isRepeated ? "it once" : expected;
            throw new Error(`policy has a signature with \`${word}\` in its trusted comment, which needs ${needs}`);
        }
        claims[name] = claim;
    }
    return claims;
}

/** Decimal numbers below 2^64 with dots between them. */
function versionOf(text) {
    const parts = text.split(".");
    const numbers = parts.every((part) => /^[0-9]+$/.test(part)) ? parts.map(BigInt) : [];
    return numbers.length > 0 && numbers.every((number) => number <= NUMBER_MAX) ? numbers : undefined;
}

/** Below 0 if the version `one` is earlier. Missing numbers are 0. */
function compared(one, other) {
    for (let index = 0; index < Math.max(one.length, other.length); index += 1) {
        const [left, right] = [one[index] ?? 0n, other[index] ?? 0n];
        if (left !== right) {
            return left < right ? -1 : 1;
        }
    }
    return 0;
}

/** Milliseconds since 1970. */
function timeOf(text) {
    const [, date, clock, fraction = "", zone] = TIME.exec(text) ?? [];
    if (date === undefined) {
        return undefined;
    }
    // `Date` takes the 30th of February for the 1st of March.
    const day = new Date(`${date}T00:00:00Z`);
    const isDay = !Number.isNaN(day.getTime()) && day.toISOString().startsWith(date);
    const time = Date.parse(`${date}T${clock}${fraction.slice(0, 4)}${zone.toUpperCase()}`);
    return isDay && !Number.isNaN(time) ? time : undefined;
}

/** The bytes of base64; `undefined` if it is not base64. */
function decoded(text) {
    const bytes = Buffer.from(text, "base64");
    return bytes.toString("base64") === text ? bytes : undefined;
}

function refused(reason) {
    return new Error(`policy has a signature that is not accepted: ${reason}`);
}
