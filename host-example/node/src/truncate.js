/** Cuts a result to a limit: whole records of JSON, the beginning of other text, a note in place of the rest. */

import { Buffer } from "node:buffer";

import { elements } from "./elements.js";
import { tokens } from "./tokens.js";

const WARNING = "larger than the limit: only the first records are here";
const WARNING_CHARACTERS_MAX = 512;
const NO_RECORDS = { offloaded: false };

/** A member other than content is kept when it takes no more than one part in this many of the limit. */
const MEMBER_SHARE = 8;

/** Characters reserved for each block that follows, so that it can at least be named. */
const STUB_CHARACTERS = 160;

/**
 * The result cut to `limit`, a size as in the contract, measured on its JSON. `suffix` follows the cut of a text that
 * is not JSON; `warning` says why the result was cut.
 *
 * Blocks that fit stay, earlier ones first. A text that is a JSON array, or an object with arrays in it, becomes
 * `{"offloaded":false,"warning":…,POINTER:[…],"omitted":{POINTER:n}}` with the first records as written. Any other text
 * keeps its beginning, and in an error also its end; any other block is replaced by a note. Structured content is
 * replaced by the same object, or by `{"offloaded":false}`.
 */
export function truncated(result, taken, how) {
    const cutter = new Cutter(result, taken, how);
    cutter.keepMembers();
    cutter.keepStructured();
    (result.content ?? []).forEach((block, index) => cutter.keepBlock(block, index));
    cutter.note();
    return cutter.reply;
}

/** Builds a cut result. */
class Cutter {
    #result;
    #taken;
    #suffix;
    #warning;
    #budget;
    /** The first records of the structured content, which a text block repeats. */
    #object;
    #isWarned = false;
    #isLeftOut = false;
    #omitted = 0;

    constructor(result, taken, { limit, suffix, warning = "" }) {
        this.#result = result;
        this.#taken = taken;
        this.#suffix = suffix;
        this.#warning = [...warning].slice(0, WARNING_CHARACTERS_MAX).join("");
        this.#budget = new Budget(limit);
        this.reply = { ...result, content: [] };
        delete this.reply.structuredContent;
    }

    keepMembers() {
        const share = this.#budget.share(MEMBER_SHARE);
        for (const [name, value] of Object.entries(this.reply)) {
            const isNeeded = ["content", "isError", "resultType"].includes(name);
            if (!isNeeded && !share.take(member(name, value))) {
                delete this.reply[name];
            }
        }
        this.#budget.spend(JSON.stringify(this.reply));
    }

    /** Keeps structured content whole if it fits in half of the limit, or its first records. */
    keepStructured() {
        const { structuredContent: value, isError } = this.#result;
        if (this.#taken.structured === undefined) {
            return;
        }
        if (this.#budget.share(2).fits(member("structuredContent", value))) {
            this.reply.structuredContent = value;
        } else if (isError === true) {
            this.#isLeftOut = true;
            return;
        } else {
            const hasOthers = this.#taken.blocks.some((part) => part !== undefined);
            const room = this.#budget.share(hasOthers ? 4 : 2);
            this.#object = records(JSON.stringify(value), room, this.#warning || WARNING);
            this.#isLeftOut = this.#object === undefined;
            this.reply.structuredContent = this.#isLeftOut ? NO_RECORDS : JSON.parse(this.#object);
        }
        this.#budget.spend(member("structuredContent", this.reply.structuredContent));
        if (this.#object !== undefined && !this.#taken.blocks.includes(undefined)) {
            this.#isWarned = this.#push({ type: "text", text: this.#object });
        }
    }

    /** Adds a block whole, cut or named, or only counts it. */
    keepBlock(block, index) {
        if (this.#taken.blocks[index] === undefined && this.#object !== undefined) {
            this.#isWarned = this.#push({ type: "text", text: this.#object }) || this.#isWarned;
            return;
        }
        const later = STUB_CHARACTERS * (this.#result.content.length - index - 1);
        const room = this.#budget.less(this.#noteCharacters() + Math.min(later, this.#budget.characters() / 2));
        if (room.fits(`,${JSON.stringify(block)}`)) {
            this.#push(block);
            return;
        }
        const cut = cutText(textOf(block), room, this.#result.isError === true, this.#suffix, this.#warning || WARNING);
        const isCut = cut !== undefined && this.#push({ type: "text", text: cut.text });
        this.#isWarned ||= isCut && cut.isObject;
        if (!isCut && !this.#push(stub(block))) {
            this.#omitted += 1;
        }
    }

    /** Ends the content with the warning, unless a block has it, and the number of blocks that are not named. */
    note() {
        const notes = [
            this.#isWarned ? "" : this.#warning,
            this.#isLeftOut ? "The structured content was left out." : "",
            this.#omitted > 0 ? `Content blocks omitted: ${this.#omitted}.` : "",
        ];
        const text = notes.filter((note) => note !== "").join(" ");
        if (text !== "") {
            this.#push({ type: "text", text });
        }
    }

    #noteCharacters() {
        return Math.min(STUB_CHARACTERS + this.#warning.length, this.#budget.characters() / 4);
    }

    /** Adds a block if it fits. */
    #push(block) {
        const fits = this.#budget.take(`,${JSON.stringify(block)}`);
        if (fits) {
            this.reply.content.push(block);
        }
        return fits;
    }
}

function member(name, value) {
    return `,${JSON.stringify(name)}:${JSON.stringify(value)}`;
}

function textOf(block) {
    const text = block?.type === "resource" ? block.resource?.text : block?.text;
    return typeof text === "string" ? text : undefined;
}

/** The text block that names an omitted block. */
function stub(block) {
    const type = textOf({ text: block?.type })?.slice(0, 64) ?? "content";
    return { type: "text", text: `[omitted: ${type} block of ${Buffer.byteLength(JSON.stringify(block))} bytes]` };
}

/** The prefix of a text that fits in a text block within a budget; undefined for a block without text. */
function cutText(text, budget, isError, suffix, warning) {
    if (text === undefined) {
        return undefined;
    }
    const room = budget.less(30);
    const object = isError ? undefined : records(text, room, warning);
    if (object !== undefined) {
        return { text: object, isObject: true };
    }
    const left = room.minus(escaped(suffix));
    const head = left.share(isError ? 4 / 3 : 1).head(text);
    const tail = isError ? left.share(4).tail(text.slice(head.length)) : "";
    return head === "" ? undefined : { text: head + suffix + tail, isObject: false };
}

/** The object with the first whole records of a JSON text; undefined when it has no records, or none fits. */
function records(text, budget, warning) {
    const sections = sectionsOf(text);
    let object = `{"offloaded":false,"warning":${JSON.stringify(warning)}`;
    const room = budget.minus(escaped(`${object},"omitted":{}}`));
    const omitted = [];
    let kept = 0;
    sections.forEach(({ pointer, count, spans }, index) => {
        const name = JSON.stringify(pointer);
        const share = room.share(sections.length - index);
        share.spend(escaped(`,${name}:[],${name}:${count}`));
        const taken = [];
        for (const [start, end] of spans) {
            if (!share.take(escaped(`,${text.slice(start, end)}`))) {
                break;
            }
            taken.push(text.slice(start, end));
        }
        room.spendAmount(share.spent);
        object += `,${name}:[${taken.join(",")}]`;
        kept += taken.length;
        if (taken.length < count) {
            omitted.push(`${name}:${count - taken.length}`);
        }
    });
    return kept === 0 ? undefined : `${object},"omitted":{${omitted.join(",")}}}`;
}

/** The arrays of a JSON text that are not empty: itself, or its members. */
function sectionsOf(text) {
    let value;
    try {
        value = /^\s*[[{]/.test(text) ? JSON.parse(text) : undefined;
    } catch {
        // Text that only looks like JSON.
    }
    if (Array.isArray(value)) {
        return [{ pointer: "", count: value.length, spans: elements(text, undefined) }];
    }
    const arrays = Object.entries(value ?? {}).filter(([, member]) => Array.isArray(member) && member.length > 0);
    return arrays.map(([key, { length }]) => ({
        pointer: `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`,
        count: length,
        spans: elements(text, key),
    }));
}

/** A text escaped for a JSON string. */
function escaped(text) {
    return JSON.stringify(text).slice(1, -1);
}

/** Characters of JSON with English in it that a token has, at least. */
const TOKEN_CHARACTERS = 3;

/** Most code units of a text for each unit of its cost: spaces cost a hundredth of a token. */
const UNITS_MAX = 100;

/** A limit and the amount spent of it. */
class Budget {
    constructor(limit, amount = Number(limit.amount)) {
        this.limit = limit;
        this.amount = amount;
        this.spent = 0;
    }

    left() {
        return Math.max(0, this.amount - this.spent);
    }

    /** The amount left, in characters. */
    characters() {
        return this.limit.unit === "tokens" ? this.left() * TOKEN_CHARACTERS : this.left();
    }

    cost(text) {
        switch (this.limit.unit) {
            case "bytes":
                return Buffer.byteLength(text);
            case "characters":
                return text.length - (text.match(/[\ud800-\udbff][\udc00-\udfff]/g)?.length ?? 0);
            default:
                return tokens(text);
        }
    }

    fits(text) {
        return text.length / UNITS_MAX <= this.left() && this.cost(text) <= this.left();
    }

    spend(text) {
        this.spent += this.cost(text);
    }

    spendAmount(amount) {
        this.spent += amount;
    }

    take(text) {
        const fits = this.fits(text);
        if (fits) {
            this.spend(text);
        }
        return fits;
    }

    /** A budget of a part of the amount left. */
    share(parts) {
        return new Budget(this.limit, this.left() / parts);
    }

    /** A budget of the amount left minus a reserve, in characters. */
    less(characters) {
        return new Budget(this.limit, this.left() - (this.limit.unit === "tokens" ? characters / TOKEN_CHARACTERS : characters));
    }

    /** A budget of the amount left after spending on a text. */
    minus(text) {
        return new Budget(this.limit, this.left() - this.cost(text));
    }

    /** The longest prefix of a text that fits inside a JSON string. */
    head(text) {
        return this.#longest(text.length, (length) => whole(text.slice(0, length)));
    }

    /** The longest suffix of a text that fits inside a JSON string. */
    tail(text) {
        return this.#longest(text.length, (length) => whole(text.slice(text.length - length)));
    }

    #longest(most, piece) {
        let [fitting, beyond] = [0, Math.min(most, Math.floor(this.left() * UNITS_MAX)) + 1];
        while (beyond - fitting > 1) {
            // Never much more than what fits: a long text takes long to measure.
            const middle = Math.min(Math.floor((fitting + beyond) / 2), Math.max(2 * fitting, Math.floor(this.left()), 1));
            [fitting, beyond] = this.fits(escaped(piece(middle))) ? [middle, beyond] : [fitting, middle];
        }
        return piece(fitting);
    }
}

/** A text without half a surrogate pair at either end. */
function whole(text) {
    return text.replace(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, "");
}
