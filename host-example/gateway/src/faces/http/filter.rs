//! `POST /filter`: one tool result, filtered for whoever called the tool: another gateway, or a program in any language.
//!
//! The request is `{"tool", "arguments"?, "result", "session"?}`, where `result` is that of `tools/call`. The response is
//! `{"outcome", "handle"?, "result"}`. Tokens, shares and limits are those of the MCP endpoint.

use std::str;
use std::sync::Arc;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use lro_host::filter::Outcome;
use lro_host::job::Job;
use lro_host::mcp::ToolResult;
use lro_json::members;
use lro_json::write::{Object, string};

use super::HttpFace;
use crate::listener::body;
use crate::listener::guard::{self, Refusal};
use crate::listener::shares::Holder;
use crate::session::{NAME_BYTES_MAX, Session, SessionOwner};

/// The path, unless it is that of the MCP endpoint.
pub(super) const PATH: &str = "/filter";

/// A request.
struct Filtered {
    tool: String,
    session: Option<String>,
    /// The arguments as JSON.
    arguments: Option<String>,
    result: ToolResult,
}

impl HttpFace {
    /// Answers a request with this path.
    pub(super) async fn filter(&self, holder: &Holder, head: &Parts, body: Body) -> Result<Response, Refusal> {
        if head.method != Method::POST {
            let text = "a result is filtered by a POST request".to_owned();
            return Err(Refusal::Status(StatusCode::METHOD_NOT_ALLOWED, text));
        }
        let rules = self.rules.of(&holder.tenant);
        let body = body::of_request(body, &rules).await?;
        let request = read(&body).map_err(|error| Refusal::Status(StatusCode::BAD_REQUEST, error))?;
        let owner = SessionOwner { tenant: holder.tenant.clone(), session: request.session.clone(), local: false };
        let session = Arc::new(Session::new(&self.rules, owner));
        let Filtered { tool, arguments, result, .. } = request;
        let job = Job::new(async move { session.filter_result(tool, arguments, &result).await });
        let unavailable = |error: String| Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, error);
        let filtered = rules.workers.run_job(job).await.map_err(|error| unavailable(error.to_string()))?;
        let (reply, outcome) =
            filtered.map_err(|error| Refusal::Status(StatusCode::UNPROCESSABLE_ENTITY, error.to_owned()))?;
        let mut answer = Object::default();
        answer.member("outcome", &string(outcome.as_ref().map_or("pass", Outcome::name)));
        if let Some(Outcome::Offload(offloaded)) = &outcome {
            answer.member("handle", &string(&offloaded.offload.id().to_string()));
        }
        answer.member("result", &String::from_utf8_lossy(&reply));
        Ok(guard::json(StatusCode::OK, answer.finish()))
    }
}

/// Reads a request. The result is a part of its bytes.
fn read(body: &Bytes) -> Result<Filtered, String> {
    let text = str::from_utf8(body).map_err(|error| format!("the body is not UTF-8: {error}"))?;
    let members = members(text).map_err(|error| format!("the body is not a JSON object: {error}"))?;
    let (mut tool, mut session, mut arguments, mut result) = (None, None, None, None);
    for member in members {
        match member.key {
            "\"tool\"" => tool = Some(of_string("tool", member.value)?),
            "\"session\"" => session = Some(of_string("session", member.value)?),
            "\"arguments\"" => arguments = Some(member.value.to_owned()),
            "\"result\"" => result = Some(body.slice_ref(member.value.as_bytes())),
            key => return Err(format!("unknown member {key}: expected tool, arguments, result, session")),
        }
    }
    let tool = tool.ok_or("`tool` is missing: the name of the tool")?;
    let result = result.ok_or("`result` is missing: the result of `tools/call`")?;
    let result = ToolResult::parse(result).map_err(|error| format!("`result`: {error}"))?;
    Ok(Filtered { tool, session, arguments, result })
}

fn of_string(key: &str, value: &str) -> Result<String, String> {
    let text: String = serde_json::from_str(value).map_err(|_| format!("`{key}` is not a string"))?;
    if text.len() > NAME_BYTES_MAX {
        return Err(format!("`{key}` is longer than {NAME_BYTES_MAX} bytes, the most that is taken: shorten it"));
    }
    Ok(text)
}
