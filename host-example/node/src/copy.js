/** Detects text that is only a serialized copy of the structured content, whatever its white space and escapes. */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Letters, digits and signs: white space between two of them separates tokens. */
const isScalar = (code) =>
    (code >= 0x30 && code <= 0x39) ||
    (code >= 0x41 && code <= 0x5a) ||
    (code >= 0x61 && code <= 0x7a) ||
    code === 0x2b ||
    code === 0x2d ||
    code === 0x2e;
const isWhite = (code) => code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d;

/**
 * Which of the two becomes the part when a text and the structured content are equal: `"structured"` when the text is
 * its JSON, or that of its only member `result`; `"text"` when it is an object whose only member is that text.
 *
 * `json` is the structured content as JSON. Numbers are compared as written, members in their order.
 */
export function copyOf(text, structured, json) {
    if (isSameJson(text, json)) {
        return "structured";
    }
    const members = isObject(structured) ? Object.entries(structured) : [];
    if (members.length !== 1) {
        return undefined;
    }
    const [[key, value]] = members;
    if (value === text) {
        return "text";
    }
    return key === "result" && value !== undefined && isSameJson(text, JSON.stringify(value))
        ? "structured"
        : undefined;
}

function isObject(value) {
    return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a text is equal to this compact JSON. */
function isSameJson(text, json) {
    if (text === json) {
        return true;
    }
    let [at, same] = [0, 0];
    let isInString = false;
    while (at < text.length && same < json.length) {
        const [code, other] = [text.charCodeAt(at), json.charCodeAt(same)];
        if (isInString && (code === BACKSLASH || other === BACKSLASH)) {
            const [one, two] = [character(text, at), character(json, same)];
            if (one === undefined || one.code !== two?.code) {
                return false;
            }
            [at, same] = [one.end, two.end];
        } else if (code === other) {
            isInString = code === QUOTE ? !isInString : isInString;
            at += 1;
            same += 1;
        } else if (!isInString && isWhite(code) && !(isScalar(json.charCodeAt(same - 1)) && isScalar(other))) {
            at += 1;
        } else {
            return false;
        }
    }
    while (isWhite(text.charCodeAt(at))) {
        at += 1;
    }
    return at === text.length && same === json.length;
}

const SIMPLE = { '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" };

/** The code unit of a string at an index, escaped or not, and its end. */
function character(text, at) {
    if (text.charCodeAt(at) !== BACKSLASH) {
        // An unescaped quotation mark ends the string and equals no escape.
        return text.charCodeAt(at) === QUOTE ? undefined : { code: text.charCodeAt(at), end: at + 1 };
    }
    if (text[at + 1] === "u") {
        const digits = text.slice(at + 2, at + 6);
        return /^[0-9A-Fa-f]{4}$/.test(digits) ? { code: Number.parseInt(digits, 16), end: at + 6 } : undefined;
    }
    const simple = SIMPLE[text[at + 1]];
    return simple === undefined ? undefined : { code: simple.charCodeAt(0), end: at + 2 };
}
