//! Rust bindings of the WIT package `lro:filter`, generated from the files in `wit/`.

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
