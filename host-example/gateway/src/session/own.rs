//! The gateway's own tools and resources, and calls whose arguments it fills in.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::session::handles;
use crate::session::reuse;
use crate::session::{Call, Session};
use crate::settings::ClientProfile;
use crate::tenants::memory::Reusable;
use lro_host::job;
use lro_host::mcp::{self, EXTRACT_TOOL, INVALID_PARAMS, Id, Message, READ_TOOL};

/// The template of the own resources, which are in no list: a result that was offloaded must not change one.
pub(crate) const TEMPLATE: &str = r#"{"uriTemplate":"lro://{offload}/{section}{?offset,limit}","name":"lro-section","title":"Section of an offloaded result","description":"Records of a large tool result from `offset` on, at most `limit` of them; the handle is in the descriptor of the result and expires"}"#;

/// What the model is told about the gateway.
pub(crate) fn guidance() -> String {
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
#[derive(Debug)]
pub struct OwnCall {
    session: Arc<Session>,
    id: Id,
    client: Arc<ClientProfile>,
    modern: bool,
    asked: Asked,
}

#[derive(Debug)]
enum Asked {
    /// A call of an own tool, with its arguments as JSON.
    Tool(&'static str, String),
    /// A read of an own resource.
    Resource(String),
    /// A call of a tool of the server, with references in its arguments.
    Arguments(Message),
    /// A call of a tool of the server that was made before, and what it became then.
    Again { call: Box<Call>, known: Arc<Reusable>, message: Bytes },
}

impl OwnCall {
    /// Does it. Blocks.
    pub fn run(self) -> Produced {
        job::finish(self.done())
    }

    /// A call of an own tool.
    pub(crate) fn tool(session: &Arc<Session>, id: &Id, call: &Call, tool: &str, arguments: &str) -> Self {
        let tool = if tool == EXTRACT_TOOL { EXTRACT_TOOL } else { READ_TOOL };
        Self::new(session, id, call, Asked::Tool(tool, arguments.to_owned()))
    }

    /// A read of an own resource.
    pub(crate) fn resource(session: &Arc<Session>, id: &Id, call: &Call, uri: &str) -> Self {
        Self::new(session, id, call, Asked::Resource(uri.to_owned()))
    }

    /// A call with references in its arguments.
    pub(crate) fn arguments(session: &Arc<Session>, id: &Id, call: &Call, message: &Message) -> Self {
        Self::new(session, id, call, Asked::Arguments(Message::read(message.bytes().clone())))
    }

    /// A call that was made before, and waits. It goes to the server when what it became is gone.
    pub(crate) fn reused(
        session: &Arc<Session>,
        id: &Id,
        call: &Call,
        known: Arc<Reusable>,
        message: &Message,
    ) -> Self {
        let message = message.bytes().clone();
        Self::new(session, id, call, Asked::Again { call: Box::new(call.clone()), known, message })
    }

    fn new(session: &Arc<Session>, id: &Id, call: &Call, asked: Asked) -> Self {
        let (session, client) = (Arc::clone(session), Arc::clone(&call.client));
        Self { session, id: id.clone(), client, modern: call.modern, asked }
    }

    /// Does it. Everything here reads files, so it is polled on a thread that may block.
    pub(crate) async fn done(&self) -> Produced {
        let start = Instant::now();
        let (tenant, tools) = (&self.session.who.tenant, self.session.rules.tools.as_ref());
        let (name, answered) = match (&self.asked, tools) {
            (Asked::Arguments(message), _) => return self.replaced(message),
            (Asked::Again { call, known, message }, _) => return self.answered_again(call, known, message),
            (Asked::Tool(tool, arguments), Some(tools)) => (*tool, tools.call_async(tenant, tool, arguments).await),
            (Asked::Resource(uri), Some(tools)) => ("resource", tools.resource(tenant, uri, self.modern)),
            (Asked::Tool(..) | Asked::Resource(_), None) => {
                let message = "there is nothing to read back: the gateway has no store".to_owned();
                ("resource", Err(mcp::ProtocolError { code: INVALID_PARAMS, message }))
            }
        };
        self.session.rules.metrics.own_call(name, start.elapsed());
        let answer = match answered {
            Ok(result) => mcp::response(&self.id, &mcp::with_result_type(result, self.modern)),
            Err(error) => mcp::error_response(Some(&self.id), error.code, &error.message),
        };
        if !self.session.is_too_large(&answer, &self.client) {
            return Produced::Answer(answer);
        }
        self.refused("the answer is larger than this client takes: ask for fewer records, fields or bytes")
    }

    /// The answer in its place.
    pub(crate) fn refused(&self, reason: &str) -> Produced {
        let error = match &self.asked {
            Asked::Tool(..) => mcp::response(&self.id, &mcp::with_result_type(mcp::tool_error(reason), self.modern)),
            Asked::Resource(_) => mcp::error_response(Some(&self.id), INVALID_PARAMS, reason),
            Asked::Arguments(_) => {
                let refused = self.session.refuse(&self.id, reason);
                // Nobody waits for it any more.
                refused.unwrap_or_else(|| mcp::error_response(Some(&self.id), INVALID_PARAMS, reason))
            }
            // The server knows the answer, too.
            Asked::Again { message, .. } => return Produced::Forward(message.clone()),
        };
        Produced::Answer(error)
    }

    fn answered_again(&self, call: &Call, known: &Reusable, message: &Bytes) -> Produced {
        match reuse::answer(&self.session, &self.id, call, known) {
            Some(answer) => {
                self.session.take(&self.id);
                Produced::Answer(answer)
            }
            None => Produced::Forward(message.clone()),
        }
    }

    fn replaced(&self, message: &Message) -> Produced {
        match handles::replaced(&self.session, message) {
            Ok(message) => Produced::Forward(message),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(tenant = self.session.who.tenant, error, "an argument cannot be filled in");
                let answer = self.session.refuse(&self.id, &error.to_string());
                answer.map_or_else(|| Produced::Forward(message.bytes().clone()), Produced::Answer)
            }
        }
    }
}
