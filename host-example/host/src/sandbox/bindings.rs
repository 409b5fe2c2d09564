//! Rust bindings of the WIT package `lro:filter`, generated from the files in `wit/`: the newest version, whose types the
//! host works with, and the older versions that it still runs.

#![expect(missing_docs, reason = "the WIT files have the documentation")]

wasmtime::component::bindgen!({
    path: "../../wit",
    world: "lro-policy",
    imports: { default: trappable },
    exports: { default: async },
    additional_derives: [PartialEq],
    with: {
        "lro:filter/types.tool-result": crate::sandbox::PayloadReader,
        "wasi:filesystem": wasmtime_wasi::p2::bindings::sync::filesystem,
        "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
        "wasi:io": wasmtime_wasi::p2::bindings::sync::io,
    },
});

/// The world of the component that answers queries.
pub mod extraction {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "lro-extract",
        imports: { default: trappable },
        exports: { default: async },
        additional_derives: [PartialEq],
        with: {
            "lro:filter/types": super::lro::filter::types,
            "wasi:filesystem": wasmtime_wasi::p2::bindings::sync::filesystem,
            "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
            "wasi:io": wasmtime_wasi::p2::bindings::sync::io,
        },
    });
}

/// The world of the component that reads documents.
pub mod document {
    wasmtime::component::bindgen!({
        path: "../../wit/document",
        world: "lro-document",
        exports: { default: async },
        additional_derives: [PartialEq],
    });
}

/// The world of policies in version 0.1.0.
pub(crate) mod v0_1 {
    wasmtime::component::bindgen!({
        path: ["../../wit/deps/io.wit", "../../wit/deps/clocks.wit", "../../wit/deps/filesystem.wit", "../../wit/0.1.0"],
        world: "lro:filter/lro-policy@0.1.0",
        imports: { default: trappable },
        exports: { default: async },
        with: {
            "lro:filter/types.tool-result": crate::sandbox::PayloadReader,
            "wasi:filesystem": wasmtime_wasi::p2::bindings::sync::filesystem,
            "wasi:clocks": wasmtime_wasi::p2::bindings::clocks,
            "wasi:io": wasmtime_wasi::p2::bindings::sync::io,
        },
    });
}
