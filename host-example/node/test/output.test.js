import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import test from "node:test";

import { Hashes } from "../src/hashes.js";
import { withDirectory } from "../src/output.js";
import { filterFor, freshPath, recordsResult, textResult, transpiled } from "./support.js";

const HOSTILE = transpiled("lro_test_policies");
const CALL = { tool: "search" };
const RESULT = textResult("x".repeat(100_000));

/** How many files the offload in a directory has, which agree with its manifest. */
function compared(path) {
    const { files } = JSON.parse(readFileSync(join(path, "manifest.json"), "utf8")).record;
    for (const { name, bytes, sha256, digest_from } of files) {
        const found = readFileSync(join(path, name));
        assert.equal(found.length, bytes, name);
        assert.equal(createHash("sha256").update(found.subarray(digest_from)).digest("hex"), sha256, name);
    }
    return files.length;
}

test("the digest of a file is that of its bytes, in whatever order they were written", async (t) => {
    const behaviours = { honest: 1, "overwrite:3": 1, "sparse:3": 1, exchange: 2, truncate: 1, "rename-to-itself": 1, "split-header": 1 };
    for (const [custom, count] of Object.entries({ ...behaviours, "create-and-remove:3": 0 })) {
        const directory = freshPath();
        await filterFor(t, { policy: HOSTILE, directory, custom, failure: "closed" }).apply(CALL, RESULT);
        const [handle, ...more] = readdirSync(join(directory, "default"));
        assert.deepEqual([custom, compared(join(directory, "default", handle)), more], [custom, count, []]);
    }
});

test("the digests of large files are right where several are written at once", async (t) => {
    const filter = filterFor(t, { threads: 2 });
    const replies = await Promise.all([60_000, 70_000, 80_000].map((count) => filter.apply(CALL, recordsResult(count))));
    for (const { structuredContent } of replies) {
        assert.ok(compared(dirname(structuredContent.files.records)) > 0);
    }
});

test("what is not offloaded makes no directory", async (t) => {
    const directory = freshPath();
    const filter = filterFor(t, { directory });
    await filter.apply(CALL, textResult("small"));
    await filterFor(t, { directory, action: "reject" }).apply(CALL, RESULT);
    await filterFor(t, { directory, action: "truncate" }).apply(CALL, RESULT);
    assert.deepEqual(readdirSync(directory), []);
});

test("a thread that is ended while it writes leaves nothing, and what it had written was private", async (t) => {
    const directory = freshPath();
    const limits = { wallTimeMs: 2000 };
    const filter = filterFor(t, { policy: HOSTILE, directory, custom: "loop", failure: "closed", limits });
    const reply = filter.apply(CALL, RESULT);
    const tenant = join(directory, "default");
    const staging = await new Promise((resolve) => {
        const look = setInterval(() => {
            const [name] = existsSync(tenant) ? readdirSync(tenant) : [];
            if (name !== undefined && existsSync(join(tenant, name, "manifest.json"))) {
                clearInterval(look);
                resolve(join(tenant, name));
            }
        }, 1);
    });
    assert.match(basename(staging), /^\.staging-/);
    const modes = [tenant, staging, join(staging, "manifest.json")].map((path) => statSync(path).mode & 0o777);
    assert.deepEqual(modes, [0o700, 0o700, 0o600]);
    assert.match((await reply).content[0].text, /limit wall-time-ms/);
    assert.deepEqual(readdirSync(tenant), []);
});

test("where the directory of an offload cannot be made, the failure mode decides and no path is told", async (t) => {
    const directory = freshPath();
    mkdirSync(directory, { mode: 0o700 });
    writeFileSync(join(directory, "default"), "a file");
    const { content, isError } = await filterFor(t, { directory, failure: "closed" }).apply(CALL, recordsResult(2000));
    assert.equal(isError, true);
    assert.equal(content[0].text, "the result could not be filtered: the files could not be kept: ENOTDIR");
    assert.ok(!content[0].text.includes(directory));
    const open = filterFor(t, { directory, failure: "open" });
    assert.match(JSON.stringify(await open.apply(CALL, recordsResult(2000))), /could not be written to files/);
    assert.equal(readFileSync(join(directory, "default"), "utf8"), "a file");
});

test("a component makes files with plain names only, and follows no link", () => {
    const [path, outside] = [join(freshPath(), "offload"), freshPath()];
    mkdirSync(dirname(path));
    const hashes = new Hashes();
    const create = { create: true, exclusive: true };
    withDirectory(path, hashes, ({ "wasi:filesystem/preopens": { getDirectories } }) => {
        const [[directory]] = getDirectories();
        const thrown = (action) => {
            try {
                action();
            } catch (code) {
                return code;
            }
        };
        for (const name of ["../outside", "a/b", "/etc/passwd", "..", ".", "", "a\0b"]) {
            assert.equal(thrown(() => directory.openAt({}, name, create, {})), "not-permitted");
            assert.equal(thrown(() => directory.renameAt("a.txt", directory, name)), "not-permitted");
            assert.equal(thrown(() => directory.unlinkFileAt(name)), "not-permitted");
        }
        assert.equal(existsSync(path), false);
        directory.openAt({}, "a.txt", create, {});
        symlinkSync(outside, join(path, "link"));
        for (const name of ["a.txt", "link"]) {
            assert.equal(thrown(() => directory.openAt({}, name, create, {})), "exist");
        }
        assert.equal(thrown(() => directory.openAt({}, "a.txt", {}, {})), "unsupported");
        assert.equal(thrown(() => directory.unlinkFileAt("absent.txt")), "no-entry");
    });
    assert.equal(existsSync(outside) || existsSync(path), false);
});
