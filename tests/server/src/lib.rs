//! An MCP server over HTTP, a component of WASI 0.3.
//!
//! `POST` answers messages. Its tool `records` gives as many records as the argument `count` says, in JSON, or with `stream` as the
//! last event of a stream; the tool `fail` gives an error. `GET /PATH?BYTES` gives so many bytes that are no message.
#![cfg(target_arch = "wasm32")]

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Server;

    wit_bindgen::generate!({
        path: [
            "../../wit/http/deps/clocks.wit",
            "../../wit/http/deps/random.wit",
            "../../wit/http/deps/filesystem.wit",
            "../../wit/http/deps/sockets.wit",
            "../../wit/http/deps/cli.wit",
            "../../wit/http/deps/http.wit",
        ],
        world: "wasi:http/service",
        generate_all,
    });

    export!(Server);
}

use bindings::exports::wasi::http::handler::Guest;
use bindings::wasi::http::types::{ErrorCode, Fields, Method, Request, Response};
use bindings::{wit_future, wit_stream};
use serde_json::{Value, json};

/// Bytes of a page that are written at a time.
const SLICE_BYTES: usize = 64 << 10;

struct Server;

impl Guest for Server {
    async fn handle(request: Request) -> Result<Response, ErrorCode> {
        if !matches!(request.get_method(), Method::Post) {
            let path = request.get_path_with_query().unwrap_or_default();
            let bytes = path.split_once('?').and_then(|(_, bytes)| bytes.parse().ok()).unwrap_or_default();
            return Ok(respond(200, "text/plain", slices(bytes)));
        }
        let (body, _) = Request::consume_body(request, wit_future::new(|| Ok(())).1);
        let body = body.collect().await;
        let message: Value = serde_json::from_slice(&body).unwrap_or_default();
        if message.get("id").is_none() {
            return Ok(respond(202, "text/plain", std::iter::empty()));
        }
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result(&message)}).to_string();
        if message["params"]["arguments"]["stream"] != true {
            return Ok(respond(200, "application/json", std::iter::once(answer.into_bytes())));
        }
        let events = [
            ": a comment\n\n".to_owned(),
            "id: 1\ndata:{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":1}}\n\n"
                .to_owned(),
            format!("id: 2\r\nevent: message\r\ndata: {answer}\r\n\r\n"),
        ];
        Ok(respond(200, "text/event-stream", events.into_iter().map(String::into_bytes)))
    }
}

fn result(message: &Value) -> Value {
    let params = &message["params"];
    match (message["method"].as_str(), params["name"].as_str()) {
        (Some("initialize"), _) => json!({
            "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "component", "version": "1"},
        }),
        (Some("tools/list"), _) => {
            let items = json!({"type": "object", "properties": {"items": {"type": "array"}}, "required": ["items"]});
            json!({"tools": [
                {"name": "records", "inputSchema": {"type": "object"}, "outputSchema": items},
                {"name": "fail", "inputSchema": {"type": "object"}},
            ]})
        }
        (Some("tools/call"), Some("records")) => {
            let count = params["arguments"]["count"].as_u64().unwrap_or_default();
            let record = |id| json!({"id": id, "name": format!("record number {id}"), "state": if id % 3 == 0 { "open" } else { "closed" }});
            let items = json!({"items": (0..count).map(record).collect::<Vec<_>>()});
            json!({"content": [{"type": "text", "text": items.to_string()}], "structuredContent": items})
        }
        (Some("tools/call"), _) => {
            json!({"isError": true, "content": [{"type": "text", "text": "there is no such tool"}]})
        }
        _ => json!({}),
    }
}

/// So many bytes, in slices.
fn slices(bytes: usize) -> impl Iterator<Item = Vec<u8>> {
    let sizes = (0..bytes).step_by(SLICE_BYTES).map(move |at| SLICE_BYTES.min(bytes - at));
    sizes.map(|size| vec![b'x'; size])
}

fn respond(status: u16, kind: &str, pieces: impl Iterator<Item = Vec<u8>> + 'static) -> Response {
    let headers = Fields::new();
    let _ = headers.set("content-type", &[kind.as_bytes().to_vec()]);
    let (mut writer, reader) = wit_stream::new();
    let (response, _) = Response::new(headers, Some(reader), wit_future::new(|| Ok(None)).1);
    let _ = response.set_status_code(status);
    wit_bindgen::spawn_local(async move {
        for piece in pieces {
            if !writer.write_all(piece).await.is_empty() {
                return;
            }
        }
    });
    response
}
