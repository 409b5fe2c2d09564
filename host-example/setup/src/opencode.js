// lro-filter: large results of tools go to files, and the model gets what describes them. Added by `lro setup --hooks`.
import { spawn } from "node:child_process";

const lro = "LRO";

/** What the command `lro hook opencode` answers. */
function answer(event) {
    return new Promise((resolve) => {
        const child = spawn(lro, ["hook", "opencode"], { stdio: ["pipe", "pipe", "ignore"] });
        let text = "";
        const end = () => {
            try {
                resolve(JSON.parse(text));
            } catch {
                resolve({});
            }
        };
        child.on("error", () => resolve({}));
        child.stdin.on("error", () => {});
        child.stdout.setEncoding("utf8").on("data", (part) => (text += part));
        child.on("close", end);
        child.stdin.end(JSON.stringify(event));
    });
}

export const LroFilter = async ({ client }) => ({
    "tool.execute.after": async ({ tool, sessionID, callID, args }, output) => {
        const { set, message } = await answer({ tool, sessionID, callID, args, output });
        Object.assign(output, set);
        if (message) await client.app.log({ body: { service: "lro-filter", level: "warn", message } }).catch(() => {});
    },
});
