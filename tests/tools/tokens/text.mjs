// Texts to estimate: generated ones, the same on every run, and what the set-up installs.

import { existsSync, readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

const WORDS = (
    "connection timeout user request handler failed retry cache database session token worker queue index shard replica " +
    "primary leader election snapshot commit rollback transaction lock page buffer disk memory process thread socket client " +
    "server proxy upstream health check probe"
).split(" ");
const CAPITALS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/** The xorshift generator, so that a text is the same on every run. */
function random(seed) {
    let state = seed * 2654435761 || 1;
    const below = (most) => {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        return (state >>> 0) % most;
    };
    const pick = (list) => list[below(list.length)];
    const of = (letters, length) => Array.from({ length }, () => pick(letters)).join("");
    const two = (most) => String(below(most)).padStart(2, "0");
    return {
        below,
        pick,
        of,
        word: () => pick(WORDS),
        words: (count) => Array.from({ length: count }, () => pick(WORDS)).join(" "),
        hex: (length) => of("0123456789abcdef", length),
        time: () => `2026-${two(12)}-${two(28)}T${two(24)}:${two(60)}:${two(60)}.${String(below(1000)).padStart(3, "0")}Z`,
        address: () => [256, 256, 256, 256].map(below).join("."),
        base64: (bytes) => Buffer.from(Array.from({ length: bytes }, () => below(256))).toString("base64"),
    };
}

const lines = (count, line) => Array.from({ length: count }, (_, index) => line(index)).join("\n");

/** By kind; those whose name ends in `*` were not looked at when the estimate was fitted. */
const GENERATED = {
    "access log": (r) =>
        lines(700, () => `${r.address()} - - [${r.time()}] "GET /api/v1/${r.word()}/${r.below(1e5)}?page=${r.below(40)} HTTP/1.1" ${r.pick([200, 304, 404, 500])} ${r.below(90000)} "-" "Mozilla/5.0 (X11; Linux x86_64) Chrome/${100 + r.below(40)}.0.0.0"`),
    "application log": (r) =>
        lines(1000, () => `${r.time()} ${r.pick(["INFO", "WARN", "ERROR"])} [${r.word()}-${r.below(32)}] com.example.${r.word()}.Handler - ${r.words(5)} id=${r.below(1e6)} took ${r.below(5000)}ms`),
    "JSON log": (r) => lines(800, () => JSON.stringify({ ts: r.time(), level: "info", logger: r.word(), msg: r.words(6), trace_id: r.hex(32), ms: r.below(1e4) / 10 })),
    "UUIDs": (r) => lines(2000, () => [8, 4, 4, 4, 12].map((length) => r.hex(length)).join("-")),
    "ULIDs": (r) => lines(2500, () => `01J${r.of("0123456789ABCDEFGHJKMNPQRSTVWXYZ", 23)}`),
    "digests": (r) => lines(900, () => `${r.hex(64)}  ${r.word()}/${r.word()}.tar.gz`),
    "base64": (r) => r.base64(50_000),
    "CSV of numbers": (r) => lines(2000, () => Array.from({ length: 5 }, () => (r.below(2e9) / 1e6 - 1000).toFixed(4)).join(",")),
    "CSV of orders": (r) => lines(900, (id) => `${id},${r.below(1e6)},${r.time()},${r.below(1e5) / 100},${r.pick(["paid", "open"])},${r.word()}${r.below(100)}@example.com`),
    "JSON records": (r) => JSON.stringify(Array.from({ length: 600 }, (_, id) => ({ id, name: r.words(2), active: r.below(2) === 1, score: r.below(1e4) / 100, tags: [r.word(), r.word()], owner: null, updated_at: r.time() }))),
    "indented JSON": (r) => JSON.stringify(Array.from({ length: 400 }, (_, id) => ({ id, name: r.words(2), place: { lat: r.below(18000) / 100, lon: r.below(36000) / 100 }, tags: [r.word(), r.word()] })), null, 2),
    "list of files": (r) => lines(1000, () => `-rw-r--r--  1 root  staff  ${String(r.below(1e8)).padStart(9)} Nov ${1 + r.below(28)} 12:${r.below(60)} ${r.word()}_${r.word()}.py`),
    "stack traces": (r) => lines(120, () => `java.lang.IllegalStateException: ${r.words(4)}\n${lines(8, () => `\tat com.example.${r.word()}.SessionManager.invoke(SessionManager.java:${r.below(900)})`)}`),
    "containers *": (r) => lines(700, () => `${r.hex(12)}   ${r.word()}/${r.word()}:${r.below(9)}.${r.below(20)}   "/entrypoint.sh ${r.word()}"   ${r.below(59)} minutes ago   Up ${r.below(59)} minutes   0.0.0.0:${8000 + r.below(999)}->80/tcp   ${r.word()}_${r.word()}`),
    "key = value *": (r) => lines(1500, () => `${r.word()}.${r.word()}.${r.word()} = ${r.pick([r.below(1e5), `"${r.words(2)}"`, "true", `${r.below(900)}s`])}`),
    "requests *": (r) => lines(400, () => `curl -s -X POST https://${r.word()}.example.com/${r.word()}?${r.word()}=${r.below(1e4)} -H 'authorization: Bearer ${r.base64(24)}' -d '{"${r.word()}":"${r.words(3)}"}'`),
    "part numbers *": (r) => lines(4000, () => `${r.of(CAPITALS, 2)}${r.below(1e5)}-${r.of(CAPITALS, 1)}${r.below(100)}`),
    "plan *": (r) => lines(250, () => `  # ${r.word()}_instance.${r.word()} will be updated in-place\n  ~ resource "${r.word()}_instance" "${r.word()}" {\n        id   = "i-${r.hex(17)}"\n      ~ size = ${r.below(90)} -> ${r.below(90)}\n    }\n`),
};

/** Files of a folder and those in it with one of these endings, in the order of their names. */
function files(folder, endings, bytesMin = 3000) {
    if (!existsSync(folder)) {
        return [];
    }
    const entries = readdirSync(folder, { withFileTypes: true, recursive: true });
    const paths = entries.filter((entry) => entry.isFile() && endings.some((ending) => entry.name.endsWith(ending)));
    const sizes = paths.map((entry) => join(entry.parentPath ?? entry.path, entry.name)).filter((path) => statSync(path).size >= bytesMin);
    return sizes.sort();
}

/** The texts: `{ name, group, fitted, text }`. `data` is the folder of the set-up, `root` that of the repository. */
export function texts(data, root) {
    const generated = Object.entries(GENERATED).map(([name, text], index) => {
        const group = /log|trace/.test(name) ? "logs" : /CSV|JSON/.test(name) ? "data" : "identifiers, tables";
        return { name, group, fitted: !name.endsWith("*"), text: text(random(index + 1)) };
    });
    const npm = join(data, "npm/node_modules");
    const mcp = join(data, "mcp/node_modules");
    const [version] = readdirSync(join(data, "venv/lib"));
    const venv = join(data, "venv/lib", version, "site-packages");
    const each = (group, paths, fitted = true) => paths.map((path) => ({ name: path, group, fitted, text: readFileSync(path, "utf8") }));
    const joined = (name, group, paths, fitted = true) => ({ name, group, fitted, text: paths.slice(0, 40).map((path) => readFileSync(path, "utf8")).join("\n") });
    return [
        ...generated,
        ...each("data", files(join(npm, "vega-datasets/data"), [".csv", ".json", ".tsv"])),
        ...each("data", [join(npm, "emoji-datasource/emoji.json"), join(npm, "world-countries/dist/countries.csv"), join(venv, "airportsdata/airports.csv")]),
        ...["click", "pydantic", "mcp"].map((name) => joined(`Python ${name}`, "code", files(join(venv, name), [".py"]))),
        ...["httpx", "cryptography", "cyclopts"].map((name) => joined(`Python ${name}`, "code", files(join(venv, name), [".py"]), false)),
        ...["zod", "hono"].map((name) => joined(`JavaScript ${name}`, "code", files(join(mcp, name), [".js"]))),
        ...["jose", "ajv", "@modelcontextprotocol/sdk"].map((name) => joined(`JavaScript ${name}`, "code", files(join(mcp, name), [".js"]), false)),
        joined("Rust, host", "code", files(join(root, "host-example"), [".rs"])),
        joined("Rust, tests", "code", files(join(root, "tests"), [".rs"]), false),
        joined("documentation", "English", files(join(root, "host-example/docs"), [".md"])),
        joined("licenses", "English", files(mcp, ["LICENSE", "LICENSE.md"])),
        joined("readmes", "English", files(mcp, ["README.md"], 6000), false),
    ].filter(({ text }) => text.length > 6000);
}
