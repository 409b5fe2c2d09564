import { createReadStream } from "node:fs";

/** The records of a JSONL file of an offload, without the header line before them. */
export async function* records(path) {
    let isHeader = true;
    for await (const line of linesOf(path)) {
        if (!isHeader) {
            yield JSON.parse(line);
        }
        isHeader = false;
    }
}

/** The lines of a file. (`readline` would end them at U+2028 too, which may stand in JSON.) */
async function* linesOf(path) {
    let begun = [];
    for await (const chunk of createReadStream(path, { encoding: "utf8" })) {
        const [end, ...lines] = chunk.split("\n");
        begun.push(end);
        for (const line of lines) {
            yield begun.join("");
            begun = [line];
        }
    }
    const last = begun.join("");
    if (last !== "") {
        yield last;
    }
}

/** The items of all pages of a list. */
export async function* listItems(fetch, member) {
    const followed = new Set();
    let cursor;
    do {
        const page = await fetch(cursor);
        yield* page[member] ?? [];
        cursor = page.nextCursor ?? undefined;
        if (followed.has(cursor)) {
            throw new Error(`the server repeats the cursor ${JSON.stringify(cursor)}: its list would never end`);
        }
        followed.add(cursor);
    } while (cursor !== undefined);
}
