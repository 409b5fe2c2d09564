/** Takes a `CallToolResult` apart for a policy, and builds its replacement. */

import { Buffer } from "node:buffer";

import { copyOf } from "./copy.js";

/** Most content blocks of a result. */
const BLOCKS_MAX = 16_384;

/** Most bytes of a block besides its text or data; a block with more becomes one part with its JSON. */
const BLOCK_EXTRA_BYTES_MAX = 1024;

const ENCODER = new TextEncoder();

/**
 * The parts of a result: `{ parts, blocks, structured, meta, cursor }`. `blocks` has for each content block the index
 * of its part, or undefined for a copy of the structured content; `structured`, `meta` and `cursor` are the indices of
 * their parts.
 *
 * Returns undefined for the acknowledgement of a task or an input request, which are not for a policy. Throws a
 * `TypeError` when `result` is not a tool result.
 */
export function takeApart(result) {
    const { content, structuredContent: value, _meta, nextCursor, resultType } = result ?? {};
    const hasStructured = value !== undefined && value !== null;
    const isOther = resultType === "input_required" || resultType === "task" || result?.task !== undefined;
    if (isOther && !content?.length && !hasStructured) {
        return undefined;
    }
    if (!Array.isArray(content) && (content !== undefined || !hasStructured)) {
        throw new TypeError("expected a CallToolResult: an object with an array `content`");
    }
    if (content?.length > BLOCKS_MAX) {
        throw new TypeError(`the tool result has more than ${BLOCKS_MAX} content blocks`);
    }
    const json = hasStructured ? JSON.stringify(value) : undefined;
    const parts = [];
    const add = (part) => parts.push(part) - 1;
    let structured;
    const blocks = (content ?? []).map((block) => {
        const part = typed(block);
        const copy =
            part?.kind === "text" && part.name === undefined && hasStructured && copyOf(part.text, value, json);
        if (copy) {
            structured = copy === "text" ? part : structured;
            return undefined;
        }
        return add(part ?? { kind: "block", text: JSON.stringify(block) });
    });
    const taken = { parts, blocks, structured: undefined, meta: undefined, cursor: undefined };
    if (hasStructured) {
        taken.structured = add(structured ?? { kind: "structured", text: json });
    }
    if (_meta !== undefined) {
        taken.meta = add({ kind: "meta", text: JSON.stringify(_meta) });
    }
    if (nextCursor !== undefined && nextCursor !== null) {
        taken.cursor = add({ kind: "meta", name: "nextCursor", text: JSON.stringify({ nextCursor }) });
    }
    return taken;
}

/** The same parts with `bytes` in place of `text`, as `component.js` takes them. */
export function encoded(parts) {
    return parts.map(({ text, ...part }) => (text === undefined ? part : { ...part, bytes: ENCODER.encode(text) }));
}

/** The part of a block of a known type; undefined when it is of another type, malformed, or large besides its data. */
function typed(block) {
    switch (block?.type) {
        case "text":
            return textPart(block.text, { ...block, text: "" });
        case "image":
        case "audio":
            return binaryPart(block.data, { ...block, data: "" }, { mediaType: textOf(block.mimeType) });
        case "resource": {
            const { text, blob, mimeType, uri } = block.resource ?? {};
            const attributes = { mediaType: textOf(mimeType), name: textOf(uri) };
            const rest = { ...block, resource: { ...block.resource, text: "", blob: "" } };
            if (text !== undefined && blob === undefined) {
                return textPart(text, rest, attributes);
            }
            return text === undefined ? binaryPart(blob, rest, attributes) : undefined;
        }
        default:
            return undefined;
    }
}

function textPart(text, rest, attributes) {
    return typeof text === "string" && isSmall(rest) ? { kind: "text", ...attributes, text } : undefined;
}

function binaryPart(data, rest, attributes) {
    if (typeof data !== "string" || !isSmall(rest)) {
        return undefined;
    }
    const bytes = Buffer.from(data, "base64");
    // Decoding is lenient; only the exact base64 of these bytes makes a binary part.
    const isExact = bytes.toString("base64") === data;
    return isExact ? { kind: "binary", ...attributes, bytes: new Uint8Array(bytes) } : undefined;
}

function isSmall(rest) {
    return Buffer.byteLength(JSON.stringify(rest)) <= BLOCK_EXTRA_BYTES_MAX;
}

function textOf(value) {
    return typeof value === "string" ? value : undefined;
}

/**
 * The result with a descriptor in place of every part that the plan does not keep: one text block that replaces the
 * first missing block, or comes last; the structured content, if any; no metadata and no cursor. Everything else stays.
 */
export function offloaded(result, taken, plan, descriptor) {
    const isKept = (part) => plan.parts[part]?.tag === "keep";
    const content = [];
    let isTold = false;
    (result.content ?? []).forEach((block, index) => {
        // A copy of the structured content is kept or replaced with it.
        if (isKept(taken.blocks[index] ?? taken.structured)) {
            content.push(block);
        } else if (!isTold) {
            content.push({ type: "text", text: descriptor });
            isTold = true;
        }
    });
    if (!isTold) {
        content.push({ type: "text", text: descriptor });
    }
    const { _meta, ...reply } = { ...result, content };
    if (taken.structured !== undefined && !isKept(taken.structured)) {
        reply.structuredContent = JSON.parse(descriptor);
    }
    if (taken.cursor !== undefined && !isKept(taken.cursor)) {
        delete reply.nextCursor;
    }
    return _meta !== undefined && isKept(taken.meta) ? { ...reply, _meta } : reply;
}

/** A tool error in place of the whole result. */
export function rejected(result, advice) {
    const reply = { content: [{ type: "text", text: advice }], isError: true };
    return result?.resultType === undefined ? reply : { resultType: result.resultType, ...reply };
}
