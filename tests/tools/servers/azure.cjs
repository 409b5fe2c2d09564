// A server of Azure Blob Storage, azurite, in memory: azure.cjs NODE_MODULES. Prints its port, and ends with its standard input.

const { createHmac } = require("node:crypto");

// Known to all, of azurite.
const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const CONTAINER = "lro-tests";

async function createContainer(port) {
    const headers = { "x-ms-date": new Date().toUTCString(), "x-ms-version": "2023-11-03" };
    const signed = Object.entries(headers).map(([name, value]) => `${name}:${value}\n`).join("");
    const path = `/${ACCOUNT}/${CONTAINER}`;
    const text = `PUT${"\n".repeat(12)}${signed}/${ACCOUNT}${path}\nrestype:container`;
    const signature = createHmac("sha256", Buffer.from(KEY, "base64")).update(text).digest("base64");
    headers.Authorization = `SharedKey ${ACCOUNT}:${signature}`;
    const answer = await fetch(`http://127.0.0.1:${port}${path}?restype=container`, { method: "PUT", headers });
    if (!answer.ok) throw new Error(await answer.text());
}

const print = console.log;
console.log = async (line) => {
    const port = /listens on http:\/\/127\.0\.0\.1:(\d+)/.exec(line)?.[1];
    if (!port) return;
    await createContainer(port);
    print(port);
};
const [modules] = process.argv.splice(2);
process.argv.push("--inMemoryPersistence", "--disableTelemetry", "--silent", "--blobHost", "127.0.0.1", "--blobPort", "0");
require(`${modules}/azurite/dist/src/blob/main.js`);
process.stdin.on("end", () => process.exit(0)).resume();
