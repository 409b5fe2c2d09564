//! A gateway that is a component of the world `lro-middleware`: it stands between a client and the HTTP handler of an MCP server,
//! and filters the results of tools in the answers, JSON or event stream. Where offloads are kept, it adds the tools and resources that read
//! them. All else goes through byte for byte.
//!
//! | module | what it does |
//! |---|---|
//! | `settings` | the settings, from environment variables |
//! | `request` | the client's request, read and sent on |
//! | `asked` | what its messages ask for |
//! | `message` | what becomes of a message from the server |
//! | `own` | tools and resources to read what was offloaded |
//! | `answer` | the response to the client: a whole body, or an error |
//! | `stream` | the response to the client: an event stream |
//! | `body` | bodies: read up to a limit, and written |
//! | `long` | long events of a stream |
//! | `held` | long bodies, which the owner of what the policy reads holds |
#![cfg(target_arch = "wasm32")]

mod answer;
mod asked;
mod body;
mod held;
mod long;
mod message;
mod own;
mod request;
mod settings;
mod stream;

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Middleware;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter", "../../wit/http"],
        world: "lro:http/lro-middleware",
        generate_all,
    });

    export!(Middleware);
}

use bindings::exports::wasi::http::handler::Guest;
use bindings::wasi::http::types::{ErrorCode, Request, Response};
use settings::Settings;

struct Middleware;

impl Guest for Middleware {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        match Settings::of_environment() {
            Ok(settings) => request::answer(settings, request).await,
            Err(wrong) => Ok(answer::refusal(500, &wrong)),
        }
    }
}
