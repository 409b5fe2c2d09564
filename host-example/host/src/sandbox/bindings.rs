//! Rust forms of the WIT package `lro:filter`, made from the files in `wit/`.

#![expect(missing_docs, reason = "the documentation stands in the WIT files")]

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

/// The world of the component that answers questions.
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
