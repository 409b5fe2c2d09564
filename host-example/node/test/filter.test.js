import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import test from "node:test";

import { Filter, offloadable } from "lro-filter";

import { filterFor, freshPath, recordsResult, textResult, transpiled } from "./support.js";

const CALL = { tool: "search" };

function linesOf(path) {
    return readFileSync(path, "utf8").trimEnd().split("\n").slice(1);
}

test("a text that repeats the structured content is written once, and both are replaced", async (t) => {
    const filter = filterFor(t);
    const result = recordsResult(2000);
    const before = structuredClone(result);
    const reply = await filter.apply(CALL, result);
    assert.deepEqual(result, before);
    assert.deepEqual(Object.keys(reply.structuredContent.files), ["records"]);
    assert.equal(reply.structuredContent.total, 2000);
    assert.deepEqual(
        linesOf(reply.structuredContent.files.records),
        before.structuredContent.records.map((r) => JSON.stringify(r)),
    );
    assert.equal(reply.content.length, 1);
});

test("a large result arrives byte for byte, wherever it is cut on its way", async (t) => {
    const filter = filterFor(t);
    for (const before of ["", "x", "xx", "xxx"]) {
        const text = before + "aé€😀".repeat(100_000);
        const reply = await filter.apply(CALL, textResult(text));
        const { files } = JSON.parse(reply.content[0].text);
        assert.equal(readFileSync(Object.values(files)[0], "utf8"), text);
    }
});

test("an offloaded reply has no cursor to follow: it is in a file", async (t) => {
    const filter = filterFor(t);
    const reply = await filter.apply(CALL, { ...recordsResult(2000), nextCursor: "the-next-page" });
    assert.ok(!JSON.stringify(reply).includes("nextCursor"), JSON.stringify(reply));
    assert.deepEqual(reply.structuredContent.paging, { next: { cursor: "the-next-page" } });
    const rest = linesOf(reply.structuredContent.files.rest).map((line) => JSON.parse(line));
    assert.deepEqual(rest, [{ pointer: "/nextCursor", value: "the-next-page" }]);
});

test("copies of structured content are known by what they say, not by how they are spelled", async (t) => {
    const filter = filterFor(t, { mode: "always" });
    const item = { name: 'é"\\/\n😀', empty: {}, list: [], n: -1.5, more: null, long: "l".repeat(600) };
    const structuredContent = { items: [item, item] };
    const json = JSON.stringify(structuredContent);
    const copies = [
        json,
        JSON.stringify(structuredContent, null, "\t"),
        ` ${json.replaceAll(":", " : ").replaceAll(",", "\n,")}\r\n`,
        json.replaceAll("é", "\\u00e9").replaceAll("😀", "\\ud83d\\uDE00").replaceAll("/", "\\/"),
    ];
    const others = [
        json.replace("-1.5", "-1.50"),
        json.replace("null", "nul l"),
        `${json} 1`,
        json.replace("lll", "ll l"),
        '{"items"',
    ];
    const filesOf = async (text) => {
        const reply = await filter.apply(CALL, { ...textResult(text), structuredContent });
        return readdirSync(dirname(reply.structuredContent.files.items));
    };
    for (const text of copies) {
        assert.deepEqual(await filesOf(text), ["items.jsonl", "manifest.json"], text);
    }
    for (const text of others) {
        assert.ok((await filesOf(text)).length > 2, text);
    }
});

test("a wrapped text is written as text", async (t) => {
    const filter = filterFor(t, { threshold: 100 });
    const text = "a line of text\n".repeat(50);
    const reply = await filter.apply(CALL, { ...textResult(text), structuredContent: { result: text } });
    const [file, ...rest] = Object.values(reply.structuredContent.files);
    assert.deepEqual(rest, []);
    assert.equal(readFileSync(file, "utf8"), text);
});

test("numbers in a text keep their spelling", async (t) => {
    const filter = filterFor(t, { mode: "always" });
    const record = '{"big":12345678901234567890,"real":1.0,"exponent":1e2,"same":1,"same":2}';
    const reply = await filter.apply(CALL, textResult(`[${record},${record}]`));
    const [file] = Object.values(JSON.parse(reply.content[0].text).files);
    assert.deepEqual(linesOf(file), [record, record]);
});

test("images, resources, unknown blocks and metadata are written or stay, byte for byte", async (t) => {
    const filter = filterFor(t, { threshold: 1000, images: "offload" });
    const image = Buffer.from(Array.from({ length: 3000 }, (_, index) => index % 251));
    const note = { type: "text", text: "a note" };
    const content = [
        { type: "image", data: image.toString("base64"), mimeType: "image/png" },
        note,
        {
            type: "resource",
            resource: { uri: "file:///a/b.csv", mimeType: "text/csv", text: "id,price\n1,2\n".repeat(300) },
        },
        { type: "resource", resource: { uri: "file:///c", blob: image.toString("base64") } },
        { type: "later", value: "x".repeat(3000) },
    ];
    const reply = await filter.apply(CALL, { content, _meta: { trace: "y".repeat(3000) }, other: 1 });
    assert.equal(reply.other, 1);
    assert.deepEqual(reply.content[1], note);
    const directory = dirname(Object.values(JSON.parse(reply.content[0].text).files)[0]);
    const written = readdirSync(directory).map((name) => readFileSync(join(directory, name)));
    const holds = (bytes) => written.some((file) => file.includes(bytes));
    assert.ok(holds(image));
    assert.equal(written.filter((file) => file.equals(image)).length, 2);
    assert.ok(holds("id,price\n1,2\n".repeat(300)));
    assert.ok(holds("x".repeat(3000)));
    assert.ok(holds("y".repeat(3000)));
});

test("a block that is not as it should be, or large in its margins, is one part with its JSON", async (t) => {
    const filter = filterFor(t, { threshold: 1000 });
    const blocks = [
        { type: "image", data: "not base64!".repeat(200), mimeType: "image/png" },
        { type: "text", text: "short", annotations: { more: "z".repeat(3000) } },
    ];
    const reply = await filter.apply(CALL, { content: blocks });
    const { files } = JSON.parse(reply.content[0].text);
    const written = Object.values(files)
        .map((file) => readFileSync(file, "utf8"))
        .join("");
    assert.ok(written.includes("not base64!".repeat(200)));
    assert.ok(written.includes("z".repeat(3000)));
});

test("an error of a tool stays an error", async (t) => {
    const filter = filterFor(t, { threshold: 1000 });
    const reply = await filter.apply(CALL, { ...textResult(`first ${"x".repeat(9000)} last`), isError: true });
    assert.equal(reply.isError, true);
    assert.ok(JSON.stringify(reply).length <= 1000);
    assert.match(reply.content[0].text, /^first .* last$/s);
});

test("a rejection is an error of the tool with advice", async (t) => {
    const filter = filterFor(t, { threshold: 1000, action: "reject", advice: "Ask for fewer." });
    const reply = await filter.apply(CALL, recordsResult(100));
    assert.deepEqual(reply, { content: [{ type: "text", text: "Ask for fewer." }], isError: true });
});

test("a truncated result keeps to its limit in every unit, with whole records", async (t) => {
    const results = [
        recordsResult(500),
        textResult('wörd 名前 😀 "quoted" '.repeat(400)),
        textResult(JSON.stringify(recordsResult(500).structuredContent)),
        textResult(JSON.stringify(recordsResult(500).structuredContent.records, null, 2)),
        { content: Array.from({ length: 40 }, (_, index) => ({ type: "text", text: `${index} ${"x".repeat(400)}` })) },
        {
            content: [{ type: "image", data: "AAAA".repeat(3000), mimeType: "image/png" }],
            _meta: { a: "b".repeat(5000) },
        },
    ];
    const sizes = {
        bytes: (text) => Buffer.byteLength(text),
        characters: (text) => [...text].length,
        tokens: (text) => {
            const quarters = [...text].map((c) => (c.codePointAt(0) < 0x300 ? 1 : c.codePointAt(0) < 0x2000 ? 2 : 4));
            return quarters.reduce((sum, quarter) => sum + quarter, 0) / 4;
        },
    };
    for (const [unit, size] of Object.entries(sizes)) {
        for (const threshold of [300, 1000, 5000]) {
            const filter = filterFor(t, { threshold, unit, action: "truncate" });
            for (const [index, result] of results.entries()) {
                const reply = await filter.apply(CALL, result);
                if (size(JSON.stringify(result)) <= threshold) {
                    continue;
                }
                const found = size(JSON.stringify(reply));
                assert.ok(found <= threshold, `result ${index}, ${threshold} ${unit}: ${found}`);
                assert.ok(reply.content.length > 0);
                const { structuredContent } = reply;
                const kept = structuredContent?.["/records"] ?? [];
                assert.deepEqual(kept, recordsResult(kept.length).structuredContent.records);
                const more = structuredContent?.omitted?.["/records"];
                assert.ok(more === undefined || more + kept.length === 500);
            }
            await filter.close();
        }
    }
});

test("records that are kept keep their spelling", async (t) => {
    const filter = filterFor(t, { threshold: 700, action: "truncate" });
    const record = '{ "big":12345678901234567890, "text":"a ] , } \\" \\\\" }';
    const reply = await filter.apply(CALL, textResult(`{"first":[],"a/b" : [${Array(50).fill(record).join(" ,\n")}]}`));
    const { text } = reply.content[0];
    assert.ok(text.startsWith('{"offloaded":false,'));
    const compact = '{"big":12345678901234567890,"text":"a ] , } \\" \\\\"}';
    assert.ok(text.includes(`"/a~1b":[${compact},${compact}`), text);
    const { omitted, "/a~1b": kept } = JSON.parse(text);
    assert.equal(omitted["/a~1b"] + kept.length, 50);
});

test("what is not for a policy passes, what is not a tool result is refused", async (t) => {
    const filter = filterFor(t, { mode: "always" });
    for (const result of [{ task: { taskId: "1" } }, { resultType: "input_required", content: [] }]) {
        assert.equal(await filter.apply(CALL, result), result);
    }
    for (const result of [undefined, null, {}, { content: "text" }, []]) {
        await assert.rejects(filter.apply(CALL, result), { name: "TypeError", message: /^expected an object with `content`/ });
    }
    await assert.rejects(filter.apply({}, textResult("")), { message: /call\.tool: expected the name of the tool/ });
    await assert.rejects(filter.apply({ ...CALL, user: 1 }, textResult("")), { message: /no such option `user`/ });
});

test("an invalid option is an error that names it", () => {
    const directory = freshPath();
    const wrong = [
        [{}, /^directory: expected the path/],
        [{ directory, treshold: 1 }, /^`treshold` is not a setting$/],
        [{ directory, threshold: 0 }, /^`threshold` is 0: /],
        [{ directory, inlineLimit: -1 }, /^`inlineLimit` is -1: /],
        [{ directory, mode: "maybe" }, /^`mode` is "maybe": .*expected one of `by-size`, `always`, `never`/],
        [{ directory, failure: "loud" }, /^`failure` is "loud": .*`open`, `closed`, `truncate`/],
        [{ directory, preset: "30k" }, /^`preset` is "30k": expected `1600-tokens` or `25k`/],
        [{ directory, sections: [{}] }, /^`sections` is \[\{\}\]: missing field `key`/],
        [{ directory, limits: { wallTime: 1 } }, /^limits\.wallTime: no such limit/],
        [{ directory, limits: { files: -1 } }, /^limits\.files: expected a whole number/],
        [{ directory, abilities: { shel: true } }, /no such option `shel`/],
    ];
    for (const [options, message] of wrong) {
        assert.throws(() => new Filter(options), { name: "TypeError", message });
    }
});

test("settings reach the policy", async (t) => {
    const filter = filterFor(t, {
        preset: "1600-tokens",
        headerType: "own",
        level: "full",
        sections: [{ key: "records", filenamePrefix: "people", summaries: [{ kind: "distinct", field: "/name" }] }],
        inlineKeys: ["total"],
    });
    const call = { tool: "search", session: "s1", query: { q: "ä" }, tenant: "acme" };
    const { structuredContent } = await filter.apply(call, recordsResult(1000));
    const [file] = Object.values(structuredContent.files);
    assert.match(file, /\/people[^/]*\.jsonl$/);
    const header = JSON.parse(readFileSync(file, "utf8").split("\n")[0]);
    assert.equal(header.type, "own");
    assert.equal(header.query, '{"q":"ä"}');
    assert.equal(structuredContent.total, 1000);
    assert.equal(structuredContent.schemas.records.properties.id.type, "integer");
});

test("a tenant's own policy takes secrets out before they reach a file or the reply", async (t) => {
    const filter = filterFor(t, { policy: transpiled("lro_redact"), failure: "closed", threshold: 1000 });
    const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    const records = Array.from({ length: 50 }, (_, id) => ({ id, password: "hunter2", note: `token ${secret}` }));
    const reply = await filter.apply(CALL, { content: [], structuredContent: { records } });
    const written = readFileSync(reply.structuredContent.files.records, "utf8");
    assert.ok(written.includes("[redacted]"));
    for (const text of [written, JSON.stringify(reply)]) {
        assert.ok(!text.includes(secret) && !text.includes("hunter2"));
    }
});

test("an output schema accepts results, descriptors and truncated results, and keeps its references", () => {
    const schema = { $defs: { item: { type: "object" } }, type: "object", properties: { a: { $ref: "#/$defs/item" } } };
    assert.deepEqual(offloadable(schema), {
        $defs: schema.$defs,
        type: "object",
        anyOf: [
            { type: "object", properties: schema.properties },
            { type: "object", properties: { offloaded: { type: "boolean" } }, required: ["offloaded"] },
        ],
    });
    const [own] = offloadable({ type: "object", properties: { a: { $ref: "#/properties/b" }, b: {} } }).anyOf;
    assert.deepEqual(own.properties.a, { $ref: "#/anyOf/0/properties/b" });
});

test("several calls at once share the threads and each gets its own files", async (t) => {
    const filter = filterFor(t, { threads: 2, threshold: 1000 });
    const replies = await Promise.all(
        Array.from({ length: 20 }, (_, index) => filter.apply(CALL, recordsResult(100 + index))),
    );
    const directories = replies.map(({ structuredContent }) => dirname(structuredContent.files.records));
    assert.equal(new Set(directories).size, 20);
    replies.forEach(({ structuredContent }, index) => {
        assert.equal(linesOf(join(directories[index], "records.jsonl")).length, 100 + index);
        assert.equal(structuredContent.total, 100 + index);
    });
});
