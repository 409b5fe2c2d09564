# The worker of config.capnp with its offloads in Durable Objects, whose databases are in the folder `offloads`, which must exist.

using Workerd = import "/workerd/workerd.capnp";
using Component = import "component/modules.capnp";

const config :Workerd.Config = (
  services = [
    (name = "filter", worker = .filter),
    (name = "offloads", disk = (path = "offloads", writable = true)),
  ],
  sockets = [ (name = "http", address = "127.0.0.1:8809", http = (), service = "filter") ],
);

const filter :Workerd.Worker = (
  compatibilityDate = "2026-11-01",
  durableObjectNamespaces = [ (className = "OffloadObject", uniqueKey = "lro-offloads", enableSql = true) ],
  durableObjectStorage = (localDisk = "offloads"),
  bindings = [
    (name = "OFFLOAD_OBJECTS", durableObjectNamespace = "OffloadObject"),
    # Most bytes of the files of one result.
    (name = "TOTAL_BYTES", text = "67108864"),
    # Most bytes of the files of a tenant, and most offloads; the oldest are removed first.
    (name = "TENANT_BYTES", text = "1073741824"),
    (name = "TENANT_OFFLOADS", text = "1000"),
    # Most bytes of one result.
    (name = "BODY_BYTES", text = "33554432"),
    # Seconds until files expire.
    (name = "TTL_SECONDS", text = "3600"),
    # The token for all tenants.
    (name = "TOKEN", fromEnvironment = "LRO_EDGE_TOKEN"),
    # Tenants and their tokens, as a JSON object. A request needs one of these tokens, or that for all.
    (name = "TENANTS", fromEnvironment = "LRO_EDGE_TENANTS"),
  ],
  # From build.js.
  modules = Component.modules,
);
