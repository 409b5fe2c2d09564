/** The worker, with a count of the bytes that it gets from its bucket: GET /count. */

import worker from "../worker.js";

export { OffloadObject } from "../worker.js";

let count = 0;

export default {
    fetch(request, env) {
        if (new URL(request.url).pathname === "/count") {
            return new Response(String(count));
        }
        return worker.fetch(request, { ...env, OFFLOAD_BUCKET: env.OFFLOAD_BUCKET && counted(env.OFFLOAD_BUCKET) });
    },
};

function counted(bucket) {
    return {
        list: (options) => bucket.list(options),
        put: (...args) => bucket.put(...args),
        delete: (keys) => bucket.delete(keys),
        async get(key, options) {
            const object = await bucket.get(key, options);
            count += options?.range?.length ?? object?.size ?? 0;
            return object;
        },
    };
}
