//! Ceilings: no answer to a call of a tool is larger on the wire than its client, its tool and the gateway allow, and its text no
//! larger than what the client shows its model.
//!
//! What is too large is shortened in the way of its kind: a page gets smaller, a descriptor becomes a pointer, a text is cut.

use bytes::Bytes;
use lro_host::filter::{Offloaded, Outcome, Truncation};
use lro_host::mcp::{self, EXTRACT_TOOL, INTERNAL_ERROR, Kind, Message, READ_TOOL, Replacement};
use serde_json::json;

use crate::session::filtering::{Answer, errors};
use crate::session::{Call, RequestKind, Session};
use crate::settings::{ClientProfile, DecisionMode, Preset, SchemaStrategy, Sees, Size, SizeUnit, Tokenizer};

/// Error for a message that cannot be shortened.
pub(super) const TOO_LARGE: &str = "the response of the server is larger than this client accepts: ask for less";

/// How often an answer is made smaller. Each time it is cut to its share of the limit, so two are enough for most.
pub(super) const SHORTER_MAX: u32 = 6;

/// Bytes of a result that are taken for one token where a limit in bytes and one in tokens are compared.
const TOKEN_BYTES: u64 = 3;

/// Who gets an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) client: &'a ClientProfile,
    /// The tool that was called; empty for another request.
    pub(crate) tool: &'a str,
    /// Whether all is sent in spite of what the client shows its model.
    pub(crate) takes_all: bool,
}

/// A limit of an answer.
#[derive(Clone, Copy, Debug)]
enum Limit {
    /// Of the whole message.
    Message(Size),
    /// Of the text that the model of the client sees.
    Text(Size, Sees),
    /// Of its lines.
    Lines(u64),
}

impl Limit {
    /// How a message exceeds the limit, if it does.
    fn excess(self, message: &Bytes, tokenizer: Tokenizer) -> Option<Excess> {
        let size = self.size_beyond(message, tokenizer)?;
        Some(match self {
            Self::Message(limit) | Self::Text(limit, _) => Excess { most: limit.amount, limit: Some(limit), size },
            Self::Lines(most) => Excess { most, limit: None, size },
        })
    }

    fn size_beyond(self, message: &Bytes, tokenizer: Tokenizer) -> Option<u64> {
        match self {
            Self::Lines(most) => Some(mcp::lines_of_response(message)).filter(|lines| *lines > most),
            Self::Message(limit) => tokenizer.answer_beyond(message, limit),
            Self::Text(limit, sees) => {
                // Most are smaller as a whole.
                tokenizer.answer_beyond(message, limit)?;
                let unseen = match sees {
                    Sees::Structured => Some("content"),
                    Sees::Text => Some("structuredContent"),
                    Sees::Both => None,
                };
                tokenizer.answer_beyond(&mcp::text_of_response(message, unseen), limit)
            }
        }
    }
}

/// A message that is too large.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Excess {
    most: u64,
    size: u64,
    /// The limit, unless it is one of lines.
    limit: Option<Size>,
}

impl Excess {
    /// The share of an amount that fits, if the message grows with it; a bit less, for what does not.
    pub(crate) fn share_of(&self, amount: u64) -> u64 {
        let share = u128::from(amount) * u128::from(self.most) / u128::from(self.size.max(1));
        u64::try_from(share / 8 * 7).unwrap_or(u64::MAX)
    }
}

impl Session {
    /// Who gets the answer to a request. Who wants all of a result wants it in spite of what the client shows.
    pub(super) fn reader<'a>(&self, call: &'a Call) -> Reader<'a> {
        let (client, tool) = (&*call.client, call.tool_name());
        let takes_all = match &call.kind {
            _ if client.inline || (client.text_limit.is_none() && client.text_lines.is_none()) => true,
            RequestKind::Tool(called) => called.inline || self.rules.config.for_tool(tool).mode == DecisionMode::Never,
            _ => true,
        };
        Reader { client, tool, takes_all }
    }

    /// The limits of a whole message.
    fn message_limits<'a>(&'a self, reader: &Reader<'a>) -> impl Iterator<Item = Size> + use<'a> {
        let (client, config) = (reader.client, &self.rules.config);
        let held = client.ceiling.into_iter().chain(config.ceilings(reader.tool));
        let held = held.map(|limit| client.tokenizer.held(limit));
        let own = client.result_limit.map(|amount| Size { amount, unit: SizeUnit::Bytes });
        held.chain(own).chain(config.preset.map(Preset::size))
    }

    /// The limit that a policy plans with: the smallest of a whole message.
    pub(super) fn reply_limit(&self, reader: &Reader<'_>) -> Option<Size> {
        self.message_limits(reader).min_by_key(|limit| match limit.unit {
            SizeUnit::Bytes | SizeUnit::Characters => limit.amount,
            SizeUnit::Tokens => limit.amount.saturating_mul(TOKEN_BYTES),
        })
    }

    /// The limit that a message exceeds most, if it exceeds one.
    pub(crate) fn excess(&self, message: &Bytes, reader: &Reader<'_>) -> Option<Excess> {
        let client = reader.client;
        let text = client.text_limit.map(|limit| Limit::Text(client.tokenizer.held(limit), client.sees));
        let shown = text.into_iter().chain(client.text_lines.map(Limit::Lines)).filter(|_| !reader.takes_all);
        let limits = self.message_limits(reader).map(Limit::Message).chain(shown);
        let excesses = limits.filter_map(|limit| limit.excess(message, client.tokenizer));
        // The larger quotient of size and limit.
        excesses.max_by_key(|excess| excess.size.saturating_mul(1 << 16) / excess.most.max(1))
    }

    pub(crate) fn is_too_large(&self, message: &Bytes, reader: &Reader<'_>) -> bool {
        self.excess(message, reader).is_some()
    }

    /// Whether a reply to a call cannot be sent, or kept if the call has become a job.
    pub(super) fn is_too_large_for(&self, reply: &Bytes, call: &Call) -> bool {
        let is_kept = call.job.is_none() || reply.len() as u64 <= self.rules.config.gateway.job_result_bytes.get();
        !is_kept || self.is_too_large(reply, &self.reader(call))
    }

    /// Returns the message, unless it is larger than the client accepts: then an error, or a notification without its
    /// data.
    pub(crate) fn within_ceiling(&self, bytes: Bytes, message: &Message, call: &Call) -> Bytes {
        let reader = self.reader(call);
        let Some(excess) = self.excess(&bytes, &reader) else { return bytes };
        if message.kind() == Kind::Notification {
            return message.without_data();
        }
        let code = message.error_code().and_then(|code| i32::try_from(code).ok()).unwrap_or(INTERNAL_ERROR);
        let error = |text: &str| mcp::error_response(message.id().as_ref(), code, text);
        let cut = message.error_text().and_then(|text| self.cut_text(&text, excess, &reader, error));
        cut.unwrap_or_else(|| error(TOO_LARGE))
    }

    /// Returns the batch, unless it is larger than the client accepts: then an error for each response.
    pub(crate) fn batch_within_ceiling(&self, batch: Bytes) -> Bytes {
        if !self.is_too_large(&batch, &Reader { client: &self.client(), tool: "", takes_all: true }) {
            return batch;
        }
        errors(&Message::read(batch), TOO_LARGE)
    }

    /// A reply that is too large, shorter; `None` if it cannot be.
    pub(super) fn shorter(&self, answer: Answer<'_>, reply: &Bytes, outcome: &Outcome) -> Option<Bytes> {
        let Answer { result, call, tool } = answer;
        let fits = |reply: &Bytes| !self.is_too_large_for(reply, call);
        let reader = self.reader(call);
        match outcome {
            Outcome::Pass => None,
            Outcome::Offload(offloaded) => {
                let pointer = pointer(offloaded);
                let replacement = Replacement { descriptor: &pointer, ..Replacement::default() };
                let conforms = matches!(
                    self.rules.config.gateway_tool(&tool.name).schema,
                    SchemaStrategy::Rewrite | SchemaStrategy::Strip
                );
                let short = conforms.then(|| result.offloaded(&replacement).into()).filter(fits);
                short.or_else(|| Some(result.rejected(&pointer).into()).filter(fits))
            }
            Outcome::Truncate { truncation, warning } => {
                let mut limit = truncation.limit;
                let mut reply = reply.clone();
                for _ in 0..SHORTER_MAX {
                    let Some(excess) = self.excess(&reply, &reader) else { return Some(reply) };
                    let other = excess.limit.filter(|most| limit.unit != most.unit || limit.amount > most.amount);
                    limit = other.unwrap_or(Size { amount: excess.share_of(limit.amount), ..limit });
                    let truncation = Truncation { limit, suffix: truncation.suffix.clone() };
                    reply = self.truncated(answer, &Outcome::Truncate { truncation, warning: warning.clone() });
                }
                Some(reply).filter(fits)
            }
            Outcome::Reject(text) | Outcome::Fail(text) => {
                let excess = self.excess(reply, &reader)?;
                self.cut_text(text, excess, &reader, |text| result.rejected(text).into())
            }
        }
    }

    /// The message with the longest beginning of a text that fits, and a note.
    fn cut_text(
        &self,
        text: &str,
        mut excess: Excess,
        reader: &Reader<'_>,
        message: impl Fn(&str) -> Bytes,
    ) -> Option<Bytes> {
        let mut length = text.len() as u64;
        for _ in 0..SHORTER_MAX {
            length = excess.share_of(length);
            let head = text.get(..text.floor_char_boundary(usize::try_from(length).unwrap_or(usize::MAX)))?;
            let shorter = message(&format!("{head}… [{} bytes cut]", text.len() - head.len()));
            match self.excess(&shorter, reader) {
                Some(more) => excess = more,
                None => return Some(shorter),
            }
        }
        None
    }
}

impl Call {
    /// The tool that is called; empty for another request.
    pub(super) fn tool_name(&self) -> &str {
        match &self.kind {
            RequestKind::Tool(tool) => &tool.name,
            _ => "",
        }
    }
}

/// What stands for a descriptor that is too large: the handle, by which everything is found.
fn pointer(offloaded: &Offloaded) -> String {
    let message =
        format!("Its descriptor is larger than this client accepts. Ask `{EXTRACT_TOOL}`, or page with `{READ_TOOL}`.");
    json!({ "offloaded": true, "handle": offloaded.offload.id().to_string(), "message": message }).to_string()
}
