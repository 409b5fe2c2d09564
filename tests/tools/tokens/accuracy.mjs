// Compares the estimate of tokens with two tokenizers: node accuracy.mjs TEST_DATA_DIR

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { tokens } from "./estimate.mjs";
import { counter } from "./count.mjs";
import { texts } from "./text.mjs";

const WINDOW_BYTES = 4096;
const WINDOWS_MAX = 24;
const DOCUMENT_BYTES = 50_000;

const [data] = process.argv.slice(2);
const root = join(dirname(fileURLToPath(import.meta.url)), "../../..");
const counted = counter(data);

/** Windows between those that the estimate was fitted to, and the beginning of a long text. */
function samples(text) {
    const bytes = Buffer.from(text);
    const count = Math.floor(bytes.length / WINDOW_BYTES);
    const step = Math.max(1, Math.floor(count / WINDOWS_MAX));
    const windows = [];
    for (let index = step >> 1; index < count && windows.length < WINDOWS_MAX; index += step) {
        const window = bytes.subarray(index * WINDOW_BYTES, (index + 1) * WINDOW_BYTES).toString();
        windows.push(window.replace(/^\ufffd+|\ufffd+$/g, ""));
    }
    return { windows, documents: bytes.length >= DOCUMENT_BYTES ? [text.slice(0, 60_000)] : [] };
}

const percent = (list, test) => `${((100 * list.filter(test).length) / list.length).toFixed(1)} %`;
const range = (list) => (list.length === 0 ? "" : `${Math.min(...list).toFixed(2)} to ${Math.max(...list).toFixed(2)}`);

const groups = new Map();
for (const { group, fitted, text } of texts(data, root)) {
    const name = `${group}${fitted ? "" : ", kinds never fitted"}`;
    const found = groups.get(name) ?? { windows: [], documents: [] };
    const { windows, documents } = samples(text.toWellFormed());
    found.windows.push(...windows.map((window) => tokens(window) / counted(window)));
    found.documents.push(...documents.map((document) => tokens(document) / counted(document)));
    groups.set(name, found);
}
const all = [...groups.values()].reduce((sum, { windows, documents }) => ({ windows: [...sum.windows, ...windows], documents: [...sum.documents, ...documents] }));
console.log("Estimated tokens / the larger of o200k_base and Claude 2, windows of 4 KB and texts of 50 KB and more\n");
console.log("| text | windows | within ±15 % | ±10 % | below 0.85 | range | long texts | range |\n|---|---|---|---|---|---|---|---|");
for (const [name, { windows, documents }] of [...groups, ["all", all]]) {
    const near = (most) => percent(windows, (quotient) => Math.abs(quotient - 1) <= most);
    const below = percent(windows, (quotient) => quotient < 0.85);
    console.log(`| ${name} | ${windows.length} | ${near(0.15)} | ${near(0.1)} | ${below} | ${range(windows)} | ${documents.length} | ${range(documents)} |`);
}
const isGood = all.windows.filter((quotient) => Math.abs(quotient - 1) <= 0.15).length >= 0.9 * all.windows.length;
const areLong = all.documents.every((quotient) => quotient >= 0.85 && quotient <= 1.15);
if (!isGood || !areLong) {
    console.error("tokens: the estimate is worse than promised: nine of ten windows within 15 %, long texts from 0.85 to 1.15");
    process.exit(1);
}
