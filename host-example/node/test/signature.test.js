import assert from "node:assert/strict";
import { execFileSync, execSync } from "node:child_process";
import { createHash, createPrivateKey, createPublicKey, sign } from "node:crypto";
import { appendFileSync, cpSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import { Filter } from "lro-filter";

import { LRO, TARGET, filterFor, freshPath, textResult, transpiled } from "./support.js";

const REDACT = transpiled("lro_redact");
const RESULT = textResult("x".repeat(100_000));
const CALL = { tool: "search" };

/** Keys of the number, as those of the tests in Rust (`tests/swap/signing.rs`). */
function signer(number) {
    const id = Buffer.alloc(8, number);
    const seed = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), Buffer.alloc(32, number)]);
    const key = createPrivateKey({ key: seed, format: "der", type: "pkcs8" });
    const { x } = createPublicKey(key).export({ format: "jwk" });
    const text = (algorithm, signed, comment) => {
        const signature = sign(null, signed, key);
        const first = Buffer.concat([Buffer.from(algorithm), id, signature]).toString("base64");
        const last = sign(null, Buffer.concat([signature, Buffer.from(comment)]), key).toString("base64");
        return `untrusted comment: signature\n${first}\ntrusted comment: ${comment}\n${last}\n`;
    };
    return {
        id,
        publicKey: Buffer.concat([Buffer.from("Ed"), id, Buffer.from(x, "base64url")]).toString("base64"),
        sign: (data, comment = "made by a test") => text("ED", createHash("blake2b512").update(data).digest(), comment),
        signLegacy: (data) => text("Ed", data, "made by a test"),
    };
}

const [SIGNER, OTHER] = [signer(1), signer(2)];
const KEYS = { policyKeys: [OTHER.publicKey, SIGNER.publicKey], tenant: "acme" };

const sumsOf = (folder) => execSync("sha256sum policy.*", { cwd: folder, env: { ...process.env, LC_ALL: "C" } });

/** A folder of a policy with this signature, or what is made of its list. */
function folderWith(signature) {
    const folder = freshPath();
    cpSync(REDACT, folder, { recursive: true });
    const text = typeof signature === "function" ? signature(sumsOf(folder)) : signature;
    if (text !== undefined) {
        writeFileSync(join(folder, "SHA256SUMS.minisig"), text);
    }
    return folder;
}

const signed = (comment) => folderWith((sums) => SIGNER.sign(sums, comment));

test("the command of the Rust host takes these signatures", () => {
    const path = `${freshPath()}.wasm`;
    cpSync(join(TARGET, "wasm32-unknown-unknown/component/lro_redact.wasm"), path);
    writeFileSync(`${path}.minisig`, SIGNER.sign(readFileSync(path), "tenant=acme version=1.4"));
    const said = execFileSync(LRO, ["policy", "check", path, "--policy-keys", SIGNER.publicKey], { encoding: "utf8" });
    assert.match(said, /acme/);
    assert.match(said, /1\.4/);
});

test("a signed policy is used, and the default one needs no signature", async (t) => {
    const comment = "timestamp:1 file:a.wasm tenant=acme version=1.10 expires=2999-01-01T00:00:00.5-11:30";
    const filter = filterFor(t, { ...KEYS, policy: signed(comment) });
    assert.match((await filter.apply(CALL, RESULT)).content[0].text, /^\{"offloaded":true,/);
    await assert.rejects(filter.apply({ ...CALL, tenant: "other" }, RESULT), /signed for the tenant `acme`, not for `other`/);
    const plain = filterFor(t, KEYS);
    assert.match((await plain.apply(CALL, RESULT)).content[0].text, /^\{"offloaded":true,/);
});

test("what is not signed well is refused, and changes nothing", async (t) => {
    const filter = filterFor(t, { ...KEYS, policy: signed() });
    const changed = signed();
    appendFileSync(join(changed, "policy.js"), "\n");
    const more = signed();
    writeFileSync(join(more, "policy.more.js"), "");
    const renamed = (sums) => {
        const [first, line, ...rest] = SIGNER.sign(sums).split("\n");
        const bytes = Buffer.from(line, "base64");
        OTHER.id.copy(bytes, 2);
        return [first, bytes.toString("base64"), ...rest].join("\n");
    };
    for (const [folder, reason] of [
        [REDACT, /policy is not signed: it needs a signature beside it/],
        [changed, /The signature verification failed/],
        [more, /The signature verification failed/],
        [folderWith((sums) => SIGNER.sign(sums).replace("made by", "not made by")), /The signature verification failed/],
        [folderWith(renamed), /The signature verification failed/],
        [folderWith((sums) => signer(3).sign(sums)), /a different key than the one provided/],
        [folderWith((sums) => SIGNER.signLegacy(sums)), /Unexpected signature algorithm/],
        [folderWith((sums) => SIGNER.sign(sums).slice(0, 60)), /Invalid encoding/],
        [folderWith(""), /Invalid encoding/],
        [folderWith("\0".repeat(100)), /Invalid encoding/],
        [folderWith("x".repeat(5000)), /not a file of at most 4096 bytes/],
    ]) {
        await assert.rejects(filter.swap(folder), reason);
    }
    assert.match((await filter.apply(CALL, RESULT)).content[0].text, /^\{"offloaded":true,/);
    const unsigned = filterFor(t, { ...KEYS, policy: REDACT });
    await assert.rejects(unsigned.apply(CALL, RESULT), /policy is not signed/);
});

test("a signature for another tenant or time is refused", async (t) => {
    const filter = filterFor(t, { ...KEYS, policy: signed() });
    for (const [comment, reason] of [
        ["tenant=other", /policy is signed for the tenant `other`, not for `acme`/],
        ["expires=2026-01-01T01:00:00+01:00", /expired at 2026-01-01T00:00:00Z; it is now 20/],
        ["expires=soon", /`expires=soon` in its trusted comment, which needs a time as in RFC 3339/],
        ["expires=2999-02-30T00:00:00Z", /RFC 3339/],
        ["expires=2999-13-01T00:00:00Z", /RFC 3339/],
        ["version=two", /numbers with dots between them/],
        ["version=1.18446744073709551616", /numbers with dots between them/],
        ["tenant=", /the name of a tenant/],
        ["version=1 version=2", /`version=2` in its trusted comment, which needs it once/],
    ]) {
        await assert.rejects(filter.swap(signed(comment), { allowOlder: true }), reason);
    }
    await filter.swap(signed("color=red tenant=acme file:a=b.wasm"));
});

test("an older version is refused unless it is asked for", async (t) => {
    const filter = filterFor(t, { ...KEYS, policy: signed("version=1.10") });
    for (const [comment, found] of [["version=1.9.9", "1.9.9"], ["version=1.2.30", "1.2.30"], ["made by hand", "none"]]) {
        const expected = new RegExp(`policy has the version ${found}, and the tenant's has 1.10: `);
        await assert.rejects(filter.swap(signed(comment)), expected);
    }
    for (const comment of ["version=1.10.0", "version=1.010", "version=2"]) {
        await filter.swap(signed(comment));
    }
    await filter.swap(signed("version=1"), { allowOlder: true });
});

test("keys are checked", () => {
    for (const policyKeys of [["no key"], [SIGNER.publicKey.slice(0, -4)], SIGNER.publicKey, [7]]) {
        assert.throws(() => new Filter({ directory: freshPath(), policyKeys }), /^TypeError: policyKeys/);
    }
});
