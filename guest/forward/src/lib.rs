//! Forwards requests to one server, a component of the world `lro-forward`. `LRO_UPSTREAM` says to which:
//! `http://HOST[:PORT][/PATH]`, or `https`.
//!
//! Without a path, requests keep theirs; with one, all go to it, and keep their query.
#![cfg(target_arch = "wasm32")]

mod upstream;

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Forward;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter", "../../wit/http"],
        world: "lro:http/lro-forward",
        generate_all,
    });

    export!(Forward);
}

use bindings::exports::wasi::http::handler::Guest;
use bindings::wasi::http::client::send;
use bindings::wasi::http::types::{ErrorCode, Request, Response};
use upstream::Upstream;

struct Forward;

impl Guest for Forward {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        let upstream = Upstream::of_environment().map_err(|wrong| ErrorCode::InternalError(Some(wrong)))?;
        let path = request.get_path_with_query().unwrap_or_default();
        let is_set = request.set_scheme(Some(&upstream.scheme)).is_ok()
            && request.set_authority(Some(&upstream.authority)).is_ok()
            && request.set_path_with_query(Some(&upstream.path_for(&path))).is_ok();
        match is_set {
            true => send(request).await,
            false => Err(ErrorCode::HttpRequestUriInvalid),
        }
    }
}
