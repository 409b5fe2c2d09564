/** Finds the elements of an array in a JSON text, which must be valid. */

/**
 * The spans `[start, end]` of the elements of the array: the text itself or, with a key, its member with this key.
 */
export function* elements(text, key) {
    const start = afterWhite(text, 0);
    let array = key === undefined ? start : undefined;
    if (key !== undefined) {
        // Readers use the last of two members with the same key.
        for (const [name, value] of members(text, start)) {
            array = name === key ? value : array;
        }
    }
    let at = afterWhite(text, array + 1);
    while (text[at] !== "]") {
        const end = afterValue(text, at);
        yield [at, end];
        at = afterWhite(text, end);
        at = text[at] === "," ? afterWhite(text, at + 1) : at;
    }
}

/** The keys of an object and the start of their values. */
function* members(text, start) {
    let at = afterWhite(text, start + 1);
    while (text[at] !== "}") {
        const end = afterString(text, at);
        const value = afterWhite(text, afterWhite(text, end) + 1);
        yield [JSON.parse(text.slice(at, end)), value];
        at = afterWhite(text, afterValue(text, value));
        at = text[at] === "," ? afterWhite(text, at + 1) : at;
    }
}

function afterWhite(text, at) {
    while (text.charCodeAt(at) <= 0x20) {
        at += 1;
    }
    return at;
}

function afterString(text, at) {
    let end = at;
    do {
        end = text.indexOf('"', end + 1);
    } while (isEscaped(text, end));
    return end + 1;
}

/** Whether an odd number of backslashes precedes an index. */
function isEscaped(text, at) {
    let before = at;
    while (text[before - 1] === "\\") {
        before -= 1;
    }
    return (at - before) % 2 === 1;
}

function afterValue(text, at) {
    let depth = 0;
    for (;;) {
        const character = text[at];
        if (character === '"') {
            at = afterString(text, at);
        } else if (character === "{" || character === "[") {
            depth += 1;
            at += 1;
        } else if (character === "}" || character === "]") {
            depth -= 1;
            at += 1;
        } else if (depth === 0) {
            const end = text.slice(at).search(/[\s,\]}]/);
            at = end < 0 ? text.length : at + end;
        } else {
            at += 1;
        }
        if (depth === 0) {
            return at;
        }
    }
}
