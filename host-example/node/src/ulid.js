import { randomBytes } from "node:crypto";

const DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH = 26;
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;

/** A new ULID, the id of an offload: the time in milliseconds and 80 unpredictable random bits. */
export function ulid() {
    const bits = (BigInt(Date.now()) << 80n) | BigInt(`0x${randomBytes(10).toString("hex")}`);
    const digit = (_, index) => DIGITS[Number((bits >> BigInt(5 * (LENGTH - 1 - index))) & 31n)];
    return Array.from({ length: LENGTH }, digit).join("");
}

/** Whether a text is a ULID. */
export function isUlid(text) {
    return ULID.test(text);
}

/** The creation time of a ULID, in milliseconds since 1970. */
export function timeOf(id) {
    return [...id.slice(0, 10)].reduce((time, digit) => time * 32 + DIGITS.indexOf(digit), 0);
}
