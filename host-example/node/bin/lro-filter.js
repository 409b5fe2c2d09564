#!/usr/bin/env node
// Runs the command of the package for this platform, with the same arguments, streams, environment, signals and exit code.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { constants } from "node:os";

const platform = `@lro-filter/${process.platform}-${process.arch}`;

function program() {
    const name = process.platform === "win32" ? "lro.exe" : "lro";
    try {
        return createRequire(import.meta.url).resolve(`${platform}/bin/${name}`);
    } catch {
        console.error(`lro-filter: the package ${platform} is not installed. It is an optional dependency: install without
--omit=optional, and on the platform that the command is to run on. Where there is none for a platform, build the command
from source, or use the library of this package, which needs no program.`);
        process.exit(1);
    }
}

const file = program();
const args = process.argv.slice(2);

// Node 22.15 and later become the program, so that nothing stands between it and the client. Elsewhere it is a child.
if (process.execve && process.platform !== "win32") {
    process.execve(file, [file, ...args], process.env);
}
const child = spawn(file, args, { stdio: "inherit" });
child.on("error", (error) => {
    console.error(`lro-filter: cannot run ${file}: ${error.message}`);
    process.exit(1);
});
for (const signal of ["SIGTERM", "SIGHUP"]) {
    process.on(signal, () => child.kill(signal));
}
// A terminal sends it to the child too.
process.on("SIGINT", () => {});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
