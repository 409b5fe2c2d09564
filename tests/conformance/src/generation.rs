//! What comes before the service: the whole request is read, and with one generation of the protocol alone, for clients of
//! the other behind a translation, what is of the other is refused.

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// First revision without a handshake.
const MODERN: &str = "2026-07-28";

/// Largest body of a request, in bytes.
const BODY_MAX: usize = 16 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Generation {
    /// Up to 2025-11-25.
    Legacy,
    /// From 2026-07-28 on.
    Modern,
}

/// Reads a request, and refuses it if it is of the other generation than `only`.
///
/// The service refuses a foreign origin before it has read the body, and the connection is closed then. The client of
/// `wasmtime serve` 48 loses the answer when it still writes.
pub(crate) async fn keep_to(only: Option<Generation>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, BODY_MAX).await else { return StatusCode::PAYLOAD_TOO_LARGE.into_response() };
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let of_header = parts.headers.get("mcp-protocol-version").and_then(|value| value.to_str().ok());
    let of_body = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
    let is_modern = [of_header, of_body].into_iter().flatten().any(|revision| revision >= MODERN);
    if only.is_none_or(|only| is_modern == (only == Generation::Modern)) {
        return next.run(Request::from_parts(parts, Body::from(body))).await;
    }
    let error = json!({"code": -32_022, "message": "this server is of another generation of the protocol"});
    let answer = json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string();
    (StatusCode::BAD_REQUEST, [(CONTENT_TYPE, "application/json")], answer).into_response()
}
