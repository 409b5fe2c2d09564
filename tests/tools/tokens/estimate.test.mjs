import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { Tokens, tokens } from "./estimate.mjs";

const VECTORS = JSON.parse(readFileSync(new URL("../../vectors/tokens/estimates.json", import.meta.url), "utf8"));

test("estimated tokens are those of the vectors, wherever the text is cut", () => {
    for (const { text, tokens: expected } of VECTORS) {
        assert.equal(tokens(text), expected, text);
        const cut = new Tokens();
        for (const character of text) {
            cut.push(character);
        }
        assert.equal(cut.count, expected, text);
    }
});
