//! A store that keeps nothing, a component of the world `lro-store-memory`: the files of a call are in the memory of the filter, and
//! gone with its next call. What keeps them for tools that read them belongs here.
#![cfg(target_arch = "wasm32")]

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Memory;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter", "../../wit/http"],
        world: "lro:http/lro-store-memory",
        generate_all,
    });

    export!(Memory);
}

use bindings::exports::lro::http::store::Guest;

struct Memory;

impl Guest for Memory {
    fn publish(_: String, _: String) -> Result<(), String> {
        Ok(())
    }

    fn discard() {}
}
