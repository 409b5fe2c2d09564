using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [ (name = "filter", worker = .filter) ],
  sockets = [ (name = "http", address = "127.0.0.1:8809", http = (), service = "filter") ],
);

const filter :Workerd.Worker = (
  compatibilityDate = "2026-11-01",
  bindings = [
    # Most bytes of files in memory; the oldest are removed first.
    (name = "TOTAL_BYTES", text = "67108864"),
    # Most bytes of one result.
    (name = "BODY_BYTES", text = "33554432"),
    # Seconds until files expire.
    (name = "TTL_SECONDS", text = "3600"),
    # The token that every request must send.
    (name = "TOKEN", fromEnvironment = "LRO_EDGE_TOKEN"),
  ],
  modules = [
    (name = "edge/worker.js", esModule = embed "worker.js"),
    (name = "edge/memory.js", esModule = embed "memory.js"),
    (name = "edge/policy.js", esModule = embed "policy.js"),
    (name = "edge/component/policy.js", esModule = embed "component/policy.js"),
    (name = "edge/component/policy.core.wasm", wasm = embed "component/policy.core.wasm"),
    (name = "edge/component/policy.core2.wasm", wasm = embed "component/policy.core2.wasm"),
    (name = "edge/component/policy.core3.wasm", wasm = embed "component/policy.core3.wasm"),
    (name = "node/src/call.js", esModule = embed "../node/src/call.js"),
    (name = "node/src/component.js", esModule = embed "../node/src/component.js"),
    (name = "node/src/copy.js", esModule = embed "../node/src/copy.js"),
    (name = "node/src/defaults.js", esModule = embed "../node/src/defaults.js"),
    (name = "node/src/elements.js", esModule = embed "../node/src/elements.js"),
    (name = "node/src/error.js", esModule = embed "../node/src/error.js"),
    (name = "node/src/filesystem.js", esModule = embed "../node/src/filesystem.js"),
    (name = "node/src/limits.js", esModule = embed "../node/src/limits.js"),
    (name = "node/src/outcome.js", esModule = embed "../node/src/outcome.js"),
    (name = "node/src/parts.js", esModule = embed "../node/src/parts.js"),
    (name = "node/src/result.js", esModule = embed "../node/src/result.js"),
    (name = "node/src/settings.js", esModule = embed "../node/src/settings.js"),
    (name = "node/src/tokens.js", esModule = embed "../node/src/tokens.js"),
    (name = "node/src/truncate.js", esModule = embed "../node/src/truncate.js"),
    (name = "node/src/ulid.js", esModule = embed "../node/src/ulid.js"),
  ],
);
