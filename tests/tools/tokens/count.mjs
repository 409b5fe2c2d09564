// Counts tokens as tokenizers do: node count.mjs TEST_DATA_DIR [ENCODING] reads a JSON array of texts, and writes one of counts:
// by `o200k_base` or `cl100k_base`; without an encoding the larger count of `o200k_base` and of Claude 2.

import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { argv, stdin } from "node:process";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";

const PLAIN = { disallowedSpecial: new Set() };

/** A function that counts the tokens of a text: the larger count of `o200k_base` and of Claude 2. */
export function counter(data) {
    const require = createRequire(join(resolve(data), "tokenizers/package.json"));
    const o200k = encoding(data, "o200k_base");
    const claude = require("@anthropic-ai/tokenizer").getTokenizer();
    return (text) => Math.max(o200k(text), claude.encode(text.normalize("NFKC"), "all").length);
}

/** A function that counts the tokens of a text by an encoding of OpenAI. */
function encoding(data, name) {
    const require = createRequire(join(resolve(data), "tokenizers/package.json"));
    const { countTokens } = require(`gpt-tokenizer/encoding/${name}`);
    return (text) => countTokens(text, PLAIN);
}

if (argv[1] === fileURLToPath(import.meta.url)) {
    const [, , data, name] = argv;
    const count = name ? encoding(data, name) : counter(data);
    // Not as the argument of `map`: the functions take one text.
    console.log(JSON.stringify(JSON.parse(await text(stdin)).map((text) => count(text))));
}
