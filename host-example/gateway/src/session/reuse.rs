//! Reuse of replies for identical calls, for tools with the setting `reuse-seconds`: the client gets the descriptor of
//! the existing offload, and the server is not called.
//!
//! Two calls are identical if their tool and arguments are, regardless of the order of members, and everything else
//! that the reply depends on: tenant, kind of client, settings and version of the policy. Only replies with an offload
//! that still exists are reused. Never reused are errors, calls that are part of a longer exchange or ask for a task,
//! and calls of clients that the server may identify by a header.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, Id, MODEL_KEY, Message, meta};
use lro_host::store::Ulid;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::session::{Call, QUERY_BYTES_MAX, RequestKind, Session, arguments};
use crate::settings::ClientProfile;
use crate::tenants::caches::{CachedReply, CallKey};
use crate::trace;

/// Maximum size of a cached reply, in bytes: larger than a descriptor at any level.
const REPLY_BYTES_MAX: usize = 256 << 10;

/// Maximum nesting of arguments that are compared.
const LEVELS_MAX: usize = 32;

/// Metadata key of a reused reply: seconds since the original call.
const AGE: &str = "io.github.lro-filter/reused-seconds";

/// Parameters of a call that is not part of a longer exchange.
const PARAMS: [&str; 3] = ["name", "arguments", "_meta"];

/// Allows reusing an earlier reply for a call, and its reply for later calls.
#[derive(Clone, Debug)]
pub(crate) struct Reuse {
    key: CallKey,
    /// Maximum age of a reply.
    age_max: Duration,
    /// The version of the policy when the call arrived.
    version: u64,
}

/// Returns how to reuse the reply to a tool call; `None` if it must not be. `client`, `modern` and
/// `downloads` are as in [`Call`].
pub(crate) fn wanted(
    session: &Session,
    message: &Message,
    tool: &str,
    client: &ClientProfile,
    modern: bool,
    downloads: bool,
) -> Option<Reuse> {
    let config = &session.rules.config;
    let gateway = config.gateway_tool(tool);
    let age_max = Duration::from_secs(gateway.reuse_seconds?.get());
    if !session.rules.enabled() || session.rules.audits() || client.inline || !session.reuses() {
        return None;
    }
    let arguments = canonical_arguments(&message.value(&["params"])?)?;
    let serving = session.rules.filter.slot.current()?;
    let settings = config.for_tool_and_client(tool, client);
    let rest = (tool, arguments, settings, gateway, client, modern, downloads, session.rules.has_name_conflict());
    let mut digest = Sha256::new();
    digest.update(serving.policy.digest().0);
    digest.update(serving.number.to_be_bytes());
    digest.update(serde_json::to_vec(&rest).ok()?);
    Some(Reuse { key: CallKey(digest.finalize().into()), age_max, version: serving.number })
}

/// The cached reply for a call, unless it is too old.
pub(crate) fn cached(session: &Session, call: &Call) -> Option<std::sync::Arc<CachedReply>> {
    let RequestKind::Tool(tool) = &call.kind else { return None };
    let reuse = tool.reuse.as_ref()?;
    let cached = session.rules.caches.reply(session.tenant(), &reuse.key)?;
    (cached.created.elapsed() < reuse.age_max).then_some(cached)
}

/// Answers a call with a cached reply; `None` if the offload is gone or the answer too large. Blocks.
pub(crate) fn answer(session: &Session, id: &Id, call: &Call, cached: &CachedReply) -> Option<Bytes> {
    session.rules.filter.store.as_ref().ok()?.find(session.tenant(), cached.offload).ok()?;
    let age = cached.created.elapsed().as_secs();
    let result = mcp::with_metadata(&cached.result, AGE, &age.to_string());
    let answer = mcp::response(id, std::str::from_utf8(&result).ok()?);
    let answer = arguments::noted(session, answer, call);
    if session.is_too_large(&answer, &session.reader(call)) {
        return None;
    }
    session.rules.metrics.reused();
    tracing::info!(tenant = session.tenant(), offload = %cached.offload, age, "reused the reply to an identical call");
    Some(call.shaped(answer))
}

/// Caches the reply to a call whose result was offloaded.
pub(crate) fn keep(session: &Session, reuse: &Reuse, offload: Ulid, reply: &Bytes) {
    // Another version of the policy may have decided.
    let same = session.rules.filter.slot.current().is_some_and(|serving| serving.number == reuse.version);
    let result = Message::read(reply.clone()).result().filter(|result| result.len() <= REPLY_BYTES_MAX);
    if let Some(result) = result.filter(|_| same) {
        // Copied, so that the rest of the message is freed.
        let result = Bytes::copy_from_slice(&result);
        session.rules.caches.keep_reply(
            session.tenant(),
            reuse.key,
            CachedReply { offload, result, created: Instant::now() },
        );
    }
}

/// The arguments in canonical form; `None` if the parameters ask for more than a result.
fn canonical_arguments(params: &[u8]) -> Option<String> {
    let params: BTreeMap<String, &RawValue> = serde_json::from_slice(params).ok()?;
    if params.keys().any(|key| !PARAMS.contains(&key.as_str())) {
        return None;
    }
    if let Some(metadata) = params.get("_meta") {
        let metadata: BTreeMap<String, &RawValue> = serde_json::from_str(metadata.get()).ok()?;
        // Any other metadata may change the result.
        let is_about_the_call = |key: &String| {
            ["progressToken", MODEL_KEY, trace::PARENT, trace::STATE].contains(&key.as_str())
                || key.starts_with(meta::PREFIX)
        };
        if !metadata.keys().all(is_about_the_call) {
            return None;
        }
    }
    let arguments = params.get("arguments").map_or("{}", |arguments| arguments.get());
    let mut form = String::new();
    (arguments.len() <= QUERY_BYTES_MAX && push_canonical(arguments, LEVELS_MAX, &mut form)).then_some(form)
}

/// Appends a value in canonical form: without white space, members sorted, strings escaped uniformly, numbers
/// unchanged. Returns whether that was possible: not with duplicate members, which parsers resolve differently, nor
/// with too many levels.
fn push_canonical(json: &str, levels: usize, out: &mut String) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return false };
    match json.as_bytes().first() {
        Some(b'{') => {
            let Ok(members) = lro_json::members(json) else { return false };
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
            let Ok(elements) = lro_json::elements(json) else { return false };
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
