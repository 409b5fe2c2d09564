/**
 * The transpiled policy. Its modules are compiled when the worker is loaded, the only time that an edge runtime allows
 * it.
 */

import core from "./component/policy.core.wasm";
import core2 from "./component/policy.core2.wasm";
import core3 from "./component/policy.core3.wasm";
import { instantiate } from "./component/policy.js";

export const policy = {
    instantiate,
    modules: { "policy.core.wasm": core, "policy.core2.wasm": core2, "policy.core3.wasm": core3 },
};
