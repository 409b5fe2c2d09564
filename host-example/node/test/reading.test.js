import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import test from "node:test";

import { listItems, records } from "lro-filter";

import { filterFor, freshPath, recordsResult } from "./support.js";

async function collected(iterator) {
    const items = [];
    for await (const item of iterator) {
        items.push(item);
    }
    return items;
}

test("records are those of the file, whatever stands in them", async (t) => {
    const result = recordsResult(2000);
    result.structuredContent.records.push({ id: "a\u2028b\rc\u0085d", name: "x".repeat(1_000_000) });
    result.content = [];
    const reply = await filterFor(t).apply({ tool: "search" }, result);
    const found = await collected(records(reply.structuredContent.files.records));
    assert.deepEqual(found, result.structuredContent.records);
});

test("a file is read as its records are used", async () => {
    const path = freshPath();
    writeFileSync(path, `{}\n${"1\n".repeat(500_000)}no JSON\n`);
    const found = [];
    for await (const record of records(path)) {
        found.push(record);
        if (found.length === 1000) {
            break;
        }
    }
    assert.deepEqual(found, Array(1000).fill(1));
    await assert.rejects(collected(records(path)), SyntaxError);
    await assert.rejects(collected(records(freshPath())), { code: "ENOENT" });
});

/** Fetches pages named by cursors, and notes the cursors. */
function serve(pages, fetched) {
    return async (cursor) => {
        fetched.push(cursor);
        return pages.get(cursor);
    };
}

test("a list is that of all pages, each fetched as it is used", async () => {
    const fetched = [];
    const pages = new Map([
        [undefined, { tools: [1, 2], nextCursor: "" }],
        ["", { tools: [], nextCursor: "b" }],
        ["b", { tools: [3], nextCursor: null }],
    ]);
    const items = listItems(serve(pages, fetched), "tools");
    assert.deepEqual(await items.next(), { done: false, value: 1 });
    assert.deepEqual(fetched, [undefined]);
    assert.deepEqual(await collected(items), [2, 3]);
    assert.deepEqual(fetched, [undefined, "", "b"]);
});

test("a list that repeats a cursor ends", async () => {
    const fetched = [];
    const pages = new Map([
        [undefined, { tools: [1], nextCursor: "a" }],
        ["a", { tools: [2], nextCursor: "b" }],
        ["b", { tools: [3], nextCursor: "a" }],
    ]);
    const found = [];
    await assert.rejects(async () => {
        for await (const item of listItems(serve(pages, fetched), "tools")) {
            found.push(item);
        }
    }, /repeats the cursor "a"/);
    assert.deepEqual(found, [1, 2, 3]);
    assert.deepEqual(fetched, [undefined, "a", "b"]);
});
