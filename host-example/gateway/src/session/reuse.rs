//! Replies that identical calls get again, for tools with the setting `reuse-seconds`: the server is not asked, and the client
//! gets the descriptor of the offload that is there already.
//!
//! Two calls are identical when tool and arguments are, the latter whatever the order of their members, and when everything
//! else that the reply depends on is: tenant, kind of client, settings and version of the policy. Only an offload is given
//! again, while it exists; never an error, never a call that is part of a longer exchange or asks for a task, never the call of
//! a client that the server may know by a header.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::session::{Asked, Call, QUERY_BYTES_MAX, Session};
use crate::settings::ClientProfile;
use crate::tenants::memory::{Key, Reusable};
use lro_host::mcp::{self, Id, Message};
use lro_host::store::Ulid;

/// Longest reply that is kept, in bytes: more than a descriptor at any level has.
const REPLY_BYTES_MAX: usize = 256 << 10;

/// Most levels of arguments that are compared.
const LEVELS_MAX: usize = 32;

/// Key of the metadata of a reply that is given again: seconds since the call that it was made for.
const AGE: &str = "io.github.lro-filter/reused-seconds";

/// Members of the parameters that do not make a call part of a longer exchange.
const PARAMS: [&str; 3] = ["name", "arguments", "_meta"];

/// That the reply to a call may be one of an earlier call, and of a later one.
#[derive(Clone, Debug)]
pub(crate) struct Reuse {
    key: Key,
    /// For how long.
    patience: Duration,
    /// The version of the policy when the call came.
    version: u64,
}

/// Whether the reply to a call of a tool may be reused. `client` and `modern` are as in [`Call`].
pub(crate) fn wanted(
    session: &Session,
    message: &Message,
    tool: &str,
    client: &ClientProfile,
    modern: bool,
) -> Option<Reuse> {
    let config = &session.rules.config;
    let gateway = config.gateway_tool(tool);
    let patience = Duration::from_secs(gateway.reuse_seconds?.get());
    if !session.rules.enabled() || session.rules.audits() || client.inline || !session.reuses() {
        return None;
    }
    let arguments = identical_arguments(&message.value(&["params"])?)?;
    let serving = session.rules.filter.slot.current()?;
    let settings = config.for_tool_and_client(tool, client);
    let rest = (tool, arguments, settings, gateway, client, modern, session.rules.has_namesakes());
    let mut digest = Sha256::new();
    digest.update(serving.policy.digest().0);
    digest.update(serving.number.to_be_bytes());
    digest.update(serde_json::to_vec(&rest).ok()?);
    Some(Reuse { key: Key(digest.finalize().into()), patience, version: serving.number })
}

/// What was kept for a call, unless it is too old.
pub(crate) fn known(session: &Session, call: &Call) -> Option<std::sync::Arc<Reusable>> {
    let Asked::Tool(tool) = &call.asked else { return None };
    let reuse = tool.reuse.as_ref()?;
    let known = session.rules.memory.reply(session.tenant(), &reuse.key)?;
    (known.since.elapsed() < reuse.patience).then_some(known)
}

/// The answer to a call from what was kept, if the offload is still there. Blocks.
pub(crate) fn answer(session: &Session, id: &Id, call: &Call, known: &Reusable) -> Option<Bytes> {
    session.rules.filter.store.as_ref().ok()?.find(session.tenant(), known.offload).ok()?;
    let age = known.since.elapsed().as_secs();
    let result = mcp::with_metadata(&known.result, AGE, &age.to_string());
    let answer = mcp::response(id, std::str::from_utf8(&result).ok()?);
    if session.is_too_large(&answer, &call.client) {
        return None;
    }
    session.rules.metrics.reused();
    tracing::info!(tenant = session.tenant(), offload = %known.offload, age, "an identical call gets its offload again");
    Some(answer)
}

/// Keeps the reply to a call whose result was offloaded.
pub(crate) fn keep(session: &Session, reuse: &Reuse, offload: Ulid, reply: &Bytes) {
    // An older or newer policy may have decided.
    let same = session.rules.filter.slot.current().is_some_and(|serving| serving.number == reuse.version);
    let result = Message::read(reply.clone()).result().filter(|result| result.len() <= REPLY_BYTES_MAX);
    if let Some(result) = result.filter(|_| same) {
        // Without the rest of the message.
        let result = Bytes::copy_from_slice(&result);
        session.rules.memory.keep_reply(
            session.tenant(),
            reuse.key,
            Reusable { offload, result, since: Instant::now() },
        );
    }
}

/// The arguments in a form that is the same for all that mean the same; none for parameters that ask for more than a result.
fn identical_arguments(params: &[u8]) -> Option<String> {
    let params: BTreeMap<String, &RawValue> = serde_json::from_slice(params).ok()?;
    if params.keys().any(|key| !PARAMS.contains(&key.as_str())) {
        return None;
    }
    if let Some(metadata) = params.get("_meta") {
        let metadata: BTreeMap<String, &RawValue> = serde_json::from_str(metadata.get()).ok()?;
        // Any other may change the result.
        let is_about_the_call = |key: &String| key == "progressToken" || key.starts_with("io.modelcontextprotocol/");
        if !metadata.keys().all(is_about_the_call) {
            return None;
        }
    }
    let arguments = params.get("arguments").map_or("{}", |arguments| arguments.get());
    let mut form = String::new();
    (arguments.len() <= QUERY_BYTES_MAX && push_canonical(arguments, LEVELS_MAX, &mut form)).then_some(form)
}

/// Appends a value without white space, members sorted, strings spelled alike and numbers as they are. Tells whether it could:
/// not with a member twice, as readers disagree which of the two counts, nor with too many levels.
fn push_canonical(json: &str, levels: usize, out: &mut String) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return false };
    match json.as_bytes().first() {
        Some(b'{') => {
            let Ok(members) = lro_jsonl::members(json) else { return false };
            let named =
                members.iter().map(|member| Some((serde_json::from_str::<String>(member.key).ok()?, member.value)));
            let Some(sorted) = named.collect::<Option<BTreeMap<_, _>>>() else { return false };
            push_list(out, ['{', '}'], &sorted, |(name, value), out| {
                out.push_str(&serde_json::Value::from(name.as_str()).to_string());
                out.push(':');
                push_canonical(value, levels, out)
            }) && sorted.len() == members.len()
        }
        Some(b'[') => {
            let Ok(elements) = lro_jsonl::elements(json) else { return false };
            push_list(out, ['[', ']'], elements, |element, out| push_canonical(element, levels, out))
        }
        Some(b'"') => {
            let Ok(text) = serde_json::from_str::<String>(json) else { return false };
            out.push_str(&serde_json::Value::from(text).to_string());
            true
        }
        _ => {
            out.push_str(json);
            true
        }
    }
}

fn push_list<T>(
    out: &mut String,
    [open, close]: [char; 2],
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(T, &mut String) -> bool,
) -> bool {
    out.push(open);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if !push(item, out) {
            return false;
        }
    }
    out.push(close);
    true
}
