//! The gateway's own tools and resources, and calls whose arguments it fills in.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::handles;
use super::session::{Call, Session};
use crate::mcp::{self, EXTRACT_TOOL, INVALID_PARAMS, Id, Message, READ_TOOL};

/// The template of the own resources, which are in no list: a result that was offloaded must not change one.
pub(super) const TEMPLATE: &str = r#"{"uriTemplate":"lro://{offload}/{section}{?offset,limit}","name":"lro-section","title":"Section of an offloaded result","description":"Records of a large tool result from `offset` on, at most `limit` of them; the handle is in the descriptor of the result and expires"}"#;

/// What the model is told about the gateway.
pub(super) fn guidance() -> String {
    format!(
        "Tool results that are too large arrive as a descriptor with `\"offloaded\": true`: what there is, its fields, and a \
         `handle`. Answer questions about such a result with the tool `{EXTRACT_TOOL}` (filter, count, group, sort) and page \
         through it with `{READ_TOOL}`; do not call the first tool again for the same data."
    )
}

/// Where the outcome of some work goes.
#[derive(Debug)]
pub enum Produced {
    /// To the client.
    Answer(Bytes),
    /// To the server.
    Forward(Bytes),
}

/// Work that a message of the client asks for.
pub struct OwnCall {
    job: Box<dyn FnOnce() -> Produced + Send>,
}

impl fmt::Debug for OwnCall {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OwnCall").finish_non_exhaustive()
    }
}

impl OwnCall {
    /// Does it. Blocks.
    pub fn run(self) -> Produced {
        (self.job)()
    }

    /// A call of an own tool.
    pub(super) fn tool(session: Arc<Session>, id: Id, tool: &str, arguments: &str, asked: &Call) -> Self {
        let tool = if tool == EXTRACT_TOOL { EXTRACT_TOOL } else { READ_TOOL };
        let arguments = arguments.to_owned();
        Self::answering(session, id, tool, asked, move |tools, tenant| tools.call(tenant, tool, &arguments))
    }

    /// A read of an own resource.
    pub(super) fn resource(session: Arc<Session>, id: Id, uri: &str, asked: &Call) -> Self {
        let (uri, modern) = (uri.to_owned(), asked.modern);
        Self::answering(session, id, "resource", asked, move |tools, tenant| tools.resource(tenant, &uri, modern))
    }

    /// A call with references in its arguments.
    pub(super) fn arguments(session: Arc<Session>, message: Message) -> Self {
        let job = move || match handles::replaced(&session, &message) {
            Ok(message) => Produced::Forward(message),
            Err(error) => {
                let answer = message.id().and_then(|id| session.refuse(&id, &error.to_string()));
                answer.map_or_else(|| Produced::Forward(message.bytes().clone()), Produced::Answer)
            }
        };
        Self { job: Box::new(job) }
    }

    fn answering(
        session: Arc<Session>,
        id: Id,
        tool: &'static str,
        asked: &Call,
        call: impl FnOnce(&mcp::Tools, &str) -> Result<String, mcp::ProtocolError> + Send + 'static,
    ) -> Self {
        let (client, modern) = (Arc::clone(&asked.client), asked.modern);
        let job = move || {
            let start = Instant::now();
            let answered = match &session.rules.tools {
                Some(tools) => call(tools, &session.who.tenant),
                None => Err(mcp::ProtocolError { code: INVALID_PARAMS, message: format!("there is no tool `{tool}`") }),
            };
            session.rules.metrics.own_call(tool, start.elapsed());
            let answer = match answered {
                Ok(result) => mcp::response(&id, &mcp::with_result_type(result, modern)),
                Err(error) => mcp::error_response(Some(&id), error.code, &error.message),
            };
            if !session.is_too_large(&answer, &client) {
                return Produced::Answer(answer);
            }
            let text = "the answer is larger than this client takes: ask for fewer records, fields or bytes";
            Produced::Answer(match tool {
                "resource" => mcp::error_response(Some(&id), INVALID_PARAMS, text),
                _ => mcp::response(&id, &mcp::with_result_type(mcp::tool_error(text), modern)),
            })
        };
        Self { job: Box::new(job) }
    }
}
