/** The logic of the policy without a host and without a build: node --test test/logic.test.js */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { register } from "node:module";
import test, { beforeEach } from "node:test";

import { files } from "./host.js";

register("./hooks.js", import.meta.url);
const { lroFilter } = await import("../policy.js");

beforeEach(() => files.clear());

/** A call whose threshold is 10 characters, and where small texts do not stay. */
function call(settings = {}) {
    return {
        id: "01M7Z7003RS6EXNVP3H26M4WD4",
        tool: "search",
        isError: false,
        shownPath: "/offloads/1",
        reader: { abilities: { shell: true } },
        settings: {
            mode: "by-size",
            threshold: { amount: 10n, unit: "characters" },
            action: "offload",
            inlineLimit: 0,
            headerType: "meta",
            descriptorLimit: 40_000,
            ...settings,
        },
    };
}

/** A result of these parts; a text stands for a part with it. Slices end at every possible position. */
function result(parts) {
    const all = parts.map((part) => ({ kind: "text", complete: true, ...(typeof part === "string" ? { text: part } : part) }));
    const bytes = all.map(({ text }) => Buffer.from(text));
    return {
        parts: () => all.map(({ text, ...part }, index) => ({ ...part, size: BigInt(bytes[index].length) })),
        readText(index, offset) {
            const rest = bytes[index].subarray(Number(offset));
            let end = Math.min(rest.length, 7);
            while (end < rest.length && (rest[end] & 0xc0) === 0x80) {
                end -= 1;
            }
            return rest.toString("utf8", 0, end);
        },
    };
}

/** The plan for a result, or undefined when it passes. */
function planOf(parts, settings) {
    const { tag, val } = lroFilter.inspectResult(call(settings), result(parts));
    assert.ok(tag === "pass" || tag === "offload", tag);
    return val;
}

/** The descriptor of a result that is offloaded, its content parsed. */
function offload(parts, settings) {
    const descriptor = lroFilter.writeSections(call(settings), result(parts), planOf(parts, settings));
    assert.deepEqual(descriptor.files.map(({ name }) => name), [...files.keys()]);
    for (const { name, bytes } of descriptor.files) {
        assert.equal(bytes, BigInt(files.get(name).length), name);
    }
    return { ...descriptor, content: JSON.parse(descriptor.content) };
}

/** The lines of a file of records, below its header. */
function recordLines(name) {
    const [header, ...lines] = files.get(name).toString().trimEnd().split("\n");
    assert.deepEqual(JSON.parse(header), { type: "meta", operation: "search", section: name.split(".")[0] });
    return lines;
}

/** The texts of `log.txt` by the indices of their parts, cut out by the outline. */
function cutOut() {
    const log = files.get("log.txt");
    const starts = [0];
    for (let at = log.indexOf("\n"); at !== -1; at = log.indexOf("\n", at + 1)) {
        starts.push(at + 1);
    }
    const cut = (json) => {
        const { block, line, lines, offset, bytes } = JSON.parse(json);
        const text = log.toString("utf8", offset, offset + bytes);
        assert.equal(offset, starts[line - 1], json);
        assert.equal(lines, text === "" ? 0 : text.replace(/\n$/, "").split("\n").length, json);
        return [block, text];
    };
    return new Map(recordLines("blocks.jsonl").map(cut));
}

test("the threshold is for all texts together, in each unit", () => {
    for (const [unit, exact, larger] of [
        ["characters", ["é".repeat(5), "é".repeat(5)], ["é".repeat(5), "é".repeat(6)]],
        ["bytes", ["01234", "56789"], ["01234", "5678é"]],
        ["tokens", ["one two ", "1234 5678"], ["one two ", "1234 56789 1 2"]],
        ["characters", Array(10).fill("a"), Array(11).fill("a")],
    ]) {
        const threshold = { amount: 10n, unit };
        assert.equal(planOf(exact, { threshold }), undefined, `${exact}`);
        assert.notEqual(planOf(larger, { threshold }), undefined, `${larger}`);
    }
});

test("estimated tokens are those of the vectors", () => {
    const vectors = new URL("../../../tests/vectors/tokens/estimates.json", import.meta.url);
    for (const { text, tokens } of JSON.parse(readFileSync(vectors, "utf8")).filter(({ tokens }) => tokens > 0)) {
        assert.equal(planOf([text], { threshold: { amount: BigInt(tokens), unit: "tokens" } }), undefined, text);
        assert.notEqual(planOf([text], { threshold: { amount: BigInt(tokens) - 1n, unit: "tokens" } }), undefined, text);
    }
});

test("1,000 JSON objects are the records of one section", () => {
    const texts = Array.from({ length: 1000 }, (_, number) =>
        number % 2 === 0 ? `{"id": ${number}, "big": 12345678901234567890123}` : `\n{\n  "id": ${number},\r\n  "text": "a\\nb é"\n}`,
    );
    const { files: listed, content } = offload(texts);
    assert.equal(listed.length, 1);
    const [{ section, kind, shape, pointer, records, parts }] = listed;
    assert.deepEqual({ section, kind, shape, pointer, records }, { section: "records", kind: "records", shape: "value", pointer: "", records: 1000n });
    assert.deepEqual([...parts], texts.map((_, index) => index));
    assert.deepEqual(recordLines("records.jsonl"), texts.map((text) => text.replace(/[\r\n]/g, " ")));
    assert.equal(content.summary.records.records, 1000);
    assert.equal(content.pattern, undefined);
});

test("1,000 texts are one text with block numbers, searched as one", () => {
    const texts = Array.from({ length: 1000 }, (_, number) => (number === 700 ? "ERROR" : "").padEnd(400, "x"));
    const { files: listed, content, offloadedTokens } = offload(texts);
    assert.deepEqual(listed.map(({ section, records }) => [section, records]), [["log", 1000n], ["blocks", 1000n]]);
    assert.deepEqual([listed[1].origin, listed[1].derivedFrom], ["outline", "log.txt"]);
    assert.deepEqual([...cutOut().values()], texts);
    const { lines, matches, first } = content.summary.log;
    assert.deepEqual([lines, matches, first.length], [1000, 1, 1]);
    assert.match(first[0], /^701: ERRORx/);
    // 400,000 letters, nearly all of 0.3 tokens.
    assert.ok(offloadedTokens > 117_000n && offloadedTokens < 123_000n, `${offloadedTokens}`);
});

test("20,000 parts are three files, and nothing is lost", () => {
    const shapes = ["a\nb", "ends\n", "", "\n", "\r\n\n", "é漢🎉", "{not json", "[{}]", "42", '{"a": 1}', "{}", "\uFEFF{}"];
    const texts = Array.from({ length: 20_000 }, (_, number) => shapes[number % shapes.length].repeat(1 + (number % 7)));
    const kinds = { 3: "binary", 5000: "block", 17_000: "structured", 19_999: "meta" };
    const parts = texts.map((text, index) => ({ text, kind: kinds[index] ?? "text" }));
    const plan = planOf(parts);
    const { files: listed } = offload(parts);
    assert.deepEqual(listed.map(({ name }) => name), ["log.txt", "blocks.jsonl", "records.jsonl"]);
    const found = cutOut();
    assert.deepEqual([...listed[0].parts], [...found.keys()]);
    recordLines("records.jsonl").forEach((line, at) => found.set(listed[2].parts[at], line));
    for (const [index, text] of texts.entries()) {
        const isKept = index in kinds;
        assert.equal(plan.parts[index].tag === "keep", isKept, `${index}`);
        assert.equal(found.get(index), isKept ? undefined : text, `${index}`);
    }
});

test("a few small texts stay, and many are data", () => {
    const settings = { inlineLimit: 5 };
    const kept = (count) => planOf([...Array(count).fill("small"), "not so small"], settings).parts.filter(({ tag }) => tag === "keep").length;
    assert.deepEqual([kept(8), kept(9)], [8, 0]);
    // Three are more than the threshold, and nothing else could be written.
    assert.ok(planOf(Array(3).fill("small"), settings).parts.every(({ tag }) => tag !== "keep"));
    assert.deepEqual(planOf(["small"], { mode: "always", ...settings }).parts, [{ tag: "text" }]);
});

test("a text with a name is written with it, and is no record", () => {
    const part = { text: '{"id": 1, "of": "file"}', name: "file:///../a\n.json", mediaType: "application/json" };
    offload([part]);
    assert.equal(files.get("log.txt").toString(), part.text);
    const [block] = recordLines("blocks.jsonl").map(JSON.parse);
    assert.deepEqual(block, { block: 0, line: 1, lines: 1, offset: 0, bytes: 23, name: part.name, media_type: part.mediaType });
});

test("a long object is a text, and a wrong plan is refused", () => {
    const object = (length) => `{"text": "${"x".repeat(length)}"}`;
    assert.deepEqual(planOf([object(16_384 - 12), object(16_384 - 11)]).parts.map(({ tag }) => tag), ["sections", "text"]);
    for (const parts of [[], [{ tag: "bytes" }], [{ tag: "joined", val: 0 }]]) {
        assert.throws(() => lroFilter.writeSections(call(), result(["a text"]), { parts }), { tag: "invalid" });
    }
});
