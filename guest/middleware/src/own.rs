//! The gateway's own tools and resources, with which clients read what was offloaded: in the lists and instructions of the server,
//! and answered here.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use lro_contract::ulid::Ulid;
use lro_mcp::{
    INTERNAL_ERROR, INVALID_REQUEST, Id, Kind, METHOD_NOT_FOUND, Message, error_response, method, response,
    with_capabilities, with_items, with_result_type,
};
use lro_reading::resource::SCHEME;
use lro_reading::tool::reads_offloads;
use lro_reading::{Budget, PAGE_BYTES_MAX};

use crate::asked::List;
use crate::bindings::lro::adapter::reading::{self, Caller, Offload, ProtocolError};
use crate::bindings::lro::http::store;
use crate::message::batch_of;
use crate::settings::{Settings, milliseconds};

/// Why a batch is refused.
const IN_A_BATCH: &str = "the batch is not forwarded: requests about offloads are answered by the gateway, which takes each of them alone \
     and not in a batch";

/// What is added to the lists and instructions of a server.
pub(crate) struct Own {
    /// The definitions of the tools, JSON objects.
    pub(crate) tools: Vec<String>,
    guidance: String,
    template: String,
}

impl Own {
    /// `None` where nothing is kept that could be read.
    pub(crate) fn of_reader() -> Option<Self> {
        let tools = reading::tools();
        (!tools.is_empty()).then(|| Self { tools, guidance: reading::guidance(), template: reading::template() })
    }

    /// The answer of a server to `initialize` or `server/discover`, with capabilities and instructions.
    pub(crate) fn greeting(&self, message: &Message) -> Bytes {
        with_capabilities(message, &self.guidance, false, None)
    }

    /// The first page of templates, with one more.
    pub(crate) fn templates(&self, message: &Message) -> Bytes {
        with_items(message, List::Templates.member(), std::slice::from_ref(&self.template))
    }

    /// The answer to a list that the server does not have; `None` if that is not what it said.
    pub(crate) fn instead_of_missing(&self, message: &Message, list: List, modern: bool) -> Option<Bytes> {
        if message.error_code() != Some(i64::from(METHOD_NOT_FOUND)) {
            return None;
        }
        let items = match list {
            List::Tools => self.tools.join(","),
            List::Templates => self.template.clone(),
            List::Resources => String::new(),
        };
        let more = if modern { r#","ttlMs":0,"cacheScope":"private""# } else { "" };
        let result = format!(r#"{{"{}":[{items}]{more}}}"#, list.member());
        Some(response(&message.id()?, &with_result_type(result, modern)))
    }
}

/// The answer to a request about the own tools and resources; `None` for any other.
pub(crate) fn answer(settings: &Settings, message: &Message) -> Option<Bytes> {
    settings.own.as_ref()?;
    let id = message.id().filter(|_| message.kind() == Kind::Request)?;
    let params = message.params();
    let modern = params.is_modern();
    let answered = match message.method().as_deref()? {
        method::TOOLS_CALL => {
            let tool = params.name.as_deref().filter(|name| reads_offloads(name))?;
            let arguments = params.arguments.map_or("{}", |arguments| arguments.get());
            let handles = reading::handles(tool, arguments);
            about(settings, &handles, |caller| reading::call(caller, tool, arguments))
        }
        method::RESOURCES_READ => {
            let uri = params.uri.as_deref().filter(|uri| uri.starts_with(SCHEME))?;
            let handles = Vec::from_iter(reading::resource_handle(uri));
            about(settings, &handles, |caller| reading::read_resource(caller, uri, modern))
        }
        _ => return None,
    };
    Some(written(&id, answered, modern))
}

/// The answer to a batch with requests about the own tools and resources, none of which goes to the server; `None` for any other
/// message.
pub(crate) fn refusal(settings: &Settings, message: &Message) -> Option<Bytes> {
    settings.own.as_ref()?;
    let elements: Vec<Message> = message.batch()?.into_iter().map(Message::read).collect();
    elements.iter().any(is_own).then(|| {
        let requests = elements.iter().filter(|element| element.kind() == Kind::Request);
        let errors: Vec<Bytes> =
            requests.filter_map(Message::id).map(|id| error_response(Some(&id), INVALID_REQUEST, IN_A_BATCH)).collect();
        // Of notifications alone, there is none to answer.
        if errors.is_empty() { error_response(None, INVALID_REQUEST, IN_A_BATCH) } else { batch_of(&errors) }
    })
}

/// Whether a message is about the own tools and resources.
fn is_own(message: &Message) -> bool {
    let params = message.params();
    match message.method().as_deref() {
        Some(method::TOOLS_CALL) => params.name.is_some_and(|name| reads_offloads(&name)),
        Some(method::RESOURCES_READ) => params.uri.is_some_and(|uri| uri.starts_with(SCHEME)),
        _ => false,
    }
}

fn written(id: &Id, answered: Result<String, ProtocolError>, modern: bool) -> Bytes {
    match answered {
        Ok(result) => response(id, &with_result_type(result, modern)),
        Err(error) => error_response(Some(id), error.code, &error.message),
    }
}

/// What the reader says about these offloads.
fn about(
    settings: &Settings,
    handles: &[String],
    read: impl FnOnce(&Caller) -> Result<String, ProtocolError>,
) -> Result<String, ProtocolError> {
    let cursor_key = store::cursor_key().map_err(|message| ProtocolError { code: INTERNAL_ERROR, message })?;
    let expires = |handle: &String| {
        let made = handle.parse::<Ulid>().ok()?.time().duration_since(UNIX_EPOCH).ok()?;
        let made = u64::try_from(made.as_millis()).ok()?;
        Some(made.saturating_add(settings.ttl_seconds.saturating_mul(1_000)))
    };
    store::lend(&settings.tenant, handles);
    let Budget { bytes: answer_bytes, tokens: answer_tokens } = Budget::default();
    // Those that are not there too: the reader says whether they have expired.
    let offload = |handle: &String| Some(Offload { expires: expires(handle)?, intact: false, handle: handle.clone() });
    let caller = Caller {
        tenant: settings.tenant.clone(),
        offloads: handles.iter().filter_map(offload).collect(),
        now: milliseconds(),
        cursor_key,
        answer_bytes,
        answer_tokens,
        page_bytes: PAGE_BYTES_MAX,
    };
    let answered = read(&caller);
    store::discard();
    answered
}
