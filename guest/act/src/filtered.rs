//! The result of a tool through the filter.

use lro_contract::ulid::Ulid;

use crate::bindings::act::core::types::Error;
use crate::bindings::act::tools::tool_provider::ToolResult;
use crate::bindings::act::tools::types::ToolEvent;
use crate::bindings::lro::act::settings;
use crate::bindings::lro::adapter::filter::{self, Abilities, Error as FilterError, Outcome, Reply, Request};
use crate::bindings::lro::adapter::messages::Message;
use crate::bindings::lro::http::store::{self, Bounds};
use crate::bindings::wasi::random0_3_0::random::get_random_u64;
use crate::{INTERNAL, TENANT, error, events, now};

/// What an event counts besides its content and metadata.
const EVENT_BYTES: usize = 256;

/// All events of a result.
pub(crate) async fn collected(result: ToolResult) -> Result<Vec<ToolEvent>, Error> {
    let mut stream = match result {
        ToolResult::Immediate(events) => return Ok(events),
        ToolResult::Streaming(stream) => stream,
    };
    let (limit, mut events, mut bytes) = (settings::result_bytes(), Vec::new(), 0);
    while let Some(event) = stream.next().await {
        bytes += (EVENT_BYTES + size(&event)) as u64;
        if bytes > limit {
            let text = format!(
                "the result of the tool has more than {limit} bytes: compose with a higher `--act-result-bytes`"
            );
            return Err(error(INTERNAL, text));
        }
        events.push(event);
    }
    Ok(events)
}

fn size(event: &ToolEvent) -> usize {
    let (content, metadata) = match event {
        ToolEvent::Content(part) => (part.data.len(), &part.metadata),
        ToolEvent::Error(error) => (events::message(&error.message).len(), &error.metadata),
    };
    content + metadata.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>()
}

/// What goes to the caller of `tool`. `query` are its arguments as JSON.
pub(crate) fn of(events: Vec<ToolEvent>, tool: &str, query: String) -> Vec<ToolEvent> {
    let result = events::to_mcp(&events);
    match filtered(&result, tool, query) {
        Ok(Reply { tool_result: Some(replacement), .. }) => events::of_mcp(&replacement),
        Ok(Reply { tool_result: None, .. }) => events,
        Err(
            FilterError::Settings(reason)
            | FilterError::Id(reason)
            | FilterError::ToolResult(reason)
            | FilterError::Digests(reason),
        ) => vec![ToolEvent::Error(error(INTERNAL, reason))],
    }
}

fn filtered(result: &str, tool: &str, query: String) -> Result<Reply, FilterError> {
    let id = new_id();
    let directory = settings::directory();
    let request = Request {
        shown_path: format!("{}/{TENANT}/{id}", directory.trim_end_matches('/')),
        id,
        tenant: TENANT.to_owned(),
        session: None,
        tool: tool.to_owned(),
        query: Some(query),
        input_schema: None,
        abilities: Abilities::EXTRACT_TOOL | Abilities::READ_TOOL,
        reader_limit: None,
        descriptor_room: None,
        settings: settings::filter(),
    };
    let message = Message::new(result.len() as u64);
    message.append_text(result);
    let reply = filter::filter(&request, message.number())?;
    if reply.outcome != Outcome::Offload {
        store::discard();
        return Ok(reply);
    }
    // Nothing expires.
    let oldest = Ulid::from_parts(0, 0).to_string();
    let bounds = Bounds { oldest, bytes: settings::store_bytes(), offloads: settings::store_offloads() };
    match store::publish(TENANT, &request.id, &bounds) {
        Ok(()) => Ok(reply),
        Err(reason) => filter::failed(&request, message.number(), &reason, true),
    }
}

/// A new id: the time, and random bits.
fn new_id() -> String {
    let random = u128::from(get_random_u64()) << 64 | u128::from(get_random_u64());
    Ulid::from_parts(u128::from(now()), random).to_string()
}
