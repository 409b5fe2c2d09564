//! The limit of the texts with which requests name things. They are kept while a request is pending, or as long as a session,
//! and no setting counts their memory.

use bytes::Bytes;
use lro_host::mcp::{self, INVALID_PARAMS, INVALID_REQUEST, Id, Kind, Message};

use super::PARTS_TOKEN;
use super::decision::batch_of;

/// Maximum size in bytes of an id, of a token, of the name of a tool or a client, of a URI.
pub(crate) const NAME_BYTES_MAX: usize = 4 << 10;

/// The answer to a request with a name that is too long, or to a batch with such a request; `None` for any other message.
pub(crate) fn refusal(message: &Message) -> Option<Bytes> {
    // No name in a short message is too long.
    if message.bytes().len() <= NAME_BYTES_MAX {
        return None;
    }
    match message.kind() {
        Kind::Request => Some(error(message, &too_long(message)?)),
        Kind::Batch => {
            let elements = message.batch()?.into_iter().map(Message::read);
            let requests: Vec<Message> = elements.filter(|element| element.kind() == Kind::Request).collect();
            let reason = requests.iter().find_map(too_long)?;
            let errors: Vec<Bytes> = requests.iter().map(|request| error(request, &reason)).collect();
            Some(batch_of(&errors))
        }
        Kind::Notification | Kind::Response | Kind::Other => None,
    }
}

/// The code and the text of the error for a request with a name that is too long.
fn too_long(request: &Message) -> Option<(i32, String)> {
    let params = request.params();
    let meta = params.meta.as_ref();
    let client = params.client_info.as_ref().or(meta.and_then(|meta| meta.client_info.as_ref()));
    let token = |name| request.value(&["params", "_meta", name]).map_or(0, |token| token.len());
    let names = [
        ("id", id_bytes(request)),
        ("params.name", params.name.as_ref().map_or(0, |name| name.len())),
        ("params.uri", params.uri.as_ref().map_or(0, |uri| uri.len())),
        ("params.taskId", params.task_id.as_ref().map_or(0, |id| id.len())),
        ("progressToken", token("progressToken")),
        (PARTS_TOKEN, token(PARTS_TOKEN)),
        ("clientInfo.name", client.map_or(0, |client| client.name.len())),
        ("clientInfo.version", client.map_or(0, |client| client.version.len())),
    ];
    let (member, _) = names.into_iter().find(|(_, bytes)| *bytes > NAME_BYTES_MAX)?;
    let code = if member == "id" { INVALID_REQUEST } else { INVALID_PARAMS };
    Some((code, format!("`{member}` is longer than {NAME_BYTES_MAX} bytes, the most that is taken: shorten it")))
}

/// An error for a request; with its id, unless that is what is too long.
fn error(request: &Message, (code, text): &(i32, String)) -> Bytes {
    let id: Option<Id> = if id_bytes(request) > NAME_BYTES_MAX { None } else { request.id() };
    mcp::error_response(id.as_ref(), *code, text)
}

fn id_bytes(request: &Message) -> usize {
    request.value(&["id"]).map_or(0, |id| id.len())
}
