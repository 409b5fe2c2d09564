import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { parse } from "@bytecodealliance/jco";

import { copying } from "../transpile.js";
import { transpiled } from "./support.js";

/** A module that copies bytes one by one from memory `$source` to memory 1, as the modules between components do. */
const loop = (source) => `(module
    (memory $one (export "one") 1)
    (memory $other (export "other") 1)
    (func (export "copy") (param $to i32) (param $from i32) (param $left i32) (result i32 i32 i32)
        (loop
            (i32.store8 $other (local.get $to) (i32.load8_u ${source} (local.get $from)))
            (local.set $from (i32.add (local.get $from) (i32.const 1)))
            (local.set $to (i32.add (local.get $to) (i32.const 1)))
            (br_if 0 (local.tee $left (i32.add (local.get $left) (i32.const -1)))))
        (local.get $to) (local.get $from) (local.get $left)))`;

/** Variables and the other memory, after bytes were copied. */
function copied(module) {
    const { copy, one, other } = new WebAssembly.Instance(new WebAssembly.Module(module)).exports;
    const bytes = new Uint8Array(one.buffer);
    bytes.forEach((_, index) => (bytes[index] = index % 251));
    return [copy(9, 1, 60_000), copy(70, 300, 1), other.buffer];
}

test("a loop that copies bytes between memories is one instruction that does the same", async () => {
    const module = await parse(loop("$one"));
    const changed = copying(module);
    assert.notDeepEqual(changed, Buffer.from(module));
    assert.deepEqual(copied(changed), copied(module));
});

test("a loop in one memory stays, as what it copies may overlap", async () => {
    const module = await parse(loop("$other"));
    assert.deepEqual(copying(module), Buffer.from(module));
});

test("no transpiled policy copies bytes between memories one by one", () => {
    const folder = transpiled("lro_policy");
    for (const name of readdirSync(folder).filter((name) => name.endsWith(".wasm"))) {
        const module = readFileSync(join(folder, name));
        assert.deepEqual(copying(module), module, name);
    }
});
