//! Parts of the result of a call, which the server sends before its end.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use lro_host::mcp::{self, Id, Message, meta};
use serde_json::{Map, Value};

use super::{name_of, progress_token};
use crate::session::Session;
use crate::session::pending::{Call, Detachment, PartsToken, ToolCall};
use crate::tenants::jobs::Parts;

/// Metadata key of the token for parts of a result, as SEP-2998 proposes it.
pub(crate) const PARTS_TOKEN: &str = "partialResultToken";

/// The capability of clients that take them.
const PARTS: &str = "partialResults";

/// Path of the capabilities of the client in a request, from 2026-07-28 on.
const CAPABILITIES: [&str; 3] = ["params", "_meta", meta::CLIENT_CAPABILITIES];

impl Session {
    /// Where what comes of the result of a call is kept that may become a job.
    pub(super) fn parts_of(&self, tool: &ToolCall, begun: Instant) -> Option<Arc<Parts>> {
        let parts = Parts::new(&self.owner.tenant, name_of(&tool.name), begun);
        parts.inspect_err(|error| tracing::warn!(%error, "cannot make the handle of a job")).ok().map(Arc::new)
    }

    /// Keeps a part of the result of a call that may become a job, or is one. Returns whether no client waits for it.
    pub(in crate::session) fn hear_part(&self, notification: &Message) -> bool {
        let token =
            notification.value(&["params", PARTS_TOKEN]).map(|json| Id::of_json(&String::from_utf8_lossy(&json)));
        let Some(token) = token else { return false };
        let (parts, is_awaited) = {
            let mut state = self.state();
            let own = |call: &Call| {
                let detachment = call.detachment.as_ref()?;
                let own = detachment.parts_token.as_ref().filter(|own| own.token == token)?;
                Some((Arc::clone(&detachment.parts), call.job.is_none() && !own.is_own))
            };
            let found = state.calls.values_mut().flatten().find_map(|call| Some((own(call)?, call)));
            let Some((own, call)) = found else { return false };
            call.last = Instant::now();
            own
        };
        if parts.hear(notification) {
            let rules = Arc::clone(&self.rules);
            self.rules.workers.run(move |_| {
                if let Ok(store) = &rules.filter.store {
                    parts.write(store);
                }
            });
        }
        !is_awaited
    }
}

/// Asks the server for parts of the result before its end in place of the client, if that has not asked.
pub(super) fn with_parts(message: Message, id: &Id, detachment: &mut Detachment) -> Message {
    let Some(params) = message.value(&["params"]) else { return message };
    let asked = message.value(&["params", "_meta", PARTS_TOKEN]).filter(|token| token != "null");
    if let Some(token) = asked {
        detachment.parts_token =
            Some(PartsToken { token: Id::of_json(&String::from_utf8_lossy(&token)), is_own: false });
        return message;
    }
    let token = progress_token(id);
    let params = mcp::with_metadata(&params, PARTS_TOKEN, token.json());
    detachment.parts_token = Some(PartsToken { token, is_own: true });
    let message = Message::read(message.with_bytes(&["params"], &params));
    // From 2026-07-28 on, each request says what its client can do.
    let capabilities = message.value(&CAPABILITIES).filter(|json| json.starts_with(b"{"));
    let has_own =
        |json: &Bytes| serde_json::from_slice::<Map<String, Value>>(json).is_ok_and(|all| all.contains_key(PARTS));
    let Some(capabilities) = capabilities.filter(|json| !has_own(json)) else { return message };
    let rest = capabilities.slice(1..);
    let comma = if rest.trim_ascii_start() == b"}" { "" } else { "," };
    let capabilities = [format!(r#"{{"{PARTS}":{{}}{comma}"#).as_bytes(), &rest].concat();
    Message::read(message.with_bytes(&CAPABILITIES, &capabilities))
}
