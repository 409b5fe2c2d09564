//! Counts tokens: by the estimate of the contract, or exactly, with the vocabulary of a model.

use std::num::NonZeroU64;
use std::sync::Arc;

use lro_host::mcp;
use lro_host::sandbox::{PartKind, Payload, PayloadReader};
use lro_host::settings::{Size, SizeUnit};
use serde::{Deserialize, Serialize};

/// Bytes of a text that are counted at once: 64 KiB. A token that two of them share is counted twice.
const COUNTED_BYTES: usize = 64 << 10;

/// What part of a limit in estimated tokens is kept back: text may have a quarter more tokens than the estimate says.
const ESTIMATE_MARGIN: u64 = 5;

/// How tokens are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tokenizer {
    /// By classes of characters: the larger of what `o200k_base` and the tokenizer of Claude 2 need, as
    /// `wit/types.wit` says at `size-unit`.
    #[default]
    Estimate,
    /// `o200k_base`: GPT-4o and later models of OpenAI.
    O200k,
    /// `cl100k_base`: GPT-4 and GPT-3.5 of OpenAI.
    Cl100k,
}

/// What the beginning of a text has, as far as it was counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    bytes: u64,
    tokens: u64,
}

impl Tokenizer {
    /// The vocabulary, which is loaded when it is first needed: 50 ms, and 65 MB of memory for `o200k_base`.
    fn vocabulary(self) -> Option<&'static bpe_openai::Tokenizer> {
        match self {
            Self::Estimate => None,
            Self::O200k => Some(bpe_openai::o200k_base()),
            Self::Cl100k => Some(bpe_openai::cl100k_base()),
        }
    }

    /// The vocabulary, if a size in this unit needs it.
    fn exact(self, unit: SizeUnit) -> Option<&'static bpe_openai::Tokenizer> {
        if unit == SizeUnit::Tokens { self.vocabulary() } else { None }
    }

    fn estimates(self, unit: SizeUnit) -> bool {
        self == Self::Estimate && unit == SizeUnit::Tokens
    }

    /// What an answer may have, so that it does not exceed a limit although tokens may be estimated.
    pub(crate) fn held(self, limit: Size) -> Size {
        let margin = if self.estimates(limit.unit) { limit.amount / ESTIMATE_MARGIN } else { 0 };
        Size { amount: limit.amount - margin, ..limit }
    }

    /// As [`Tokenizer::size_beyond`], for an answer and a limit that is [held](Tokenizer::held): with estimated tokens, each sign
    /// may be a token too, as in runs of them that a tokenizer has seldom met.
    pub(crate) fn answer_beyond(self, answer: &[u8], held: Size) -> Option<u64> {
        let size = self.size_beyond(answer, held);
        if size.is_some() || !self.estimates(held.unit) || answer.len() as u64 <= held.amount {
            return size;
        }
        let signs = signs(answer);
        Some(signs - signs / ESTIMATE_MARGIN).filter(|signs| *signs > held.amount)
    }

    /// The size of a message that exceeds a limit. It is counted until it does; the rest is extrapolated.
    pub(crate) fn size_beyond(self, message: &[u8], limit: Size) -> Option<u64> {
        let Some(vocabulary) = self.exact(limit.unit) else { return mcp::size_beyond(message, limit) };
        // No text has more tokens than bytes.
        if message.len() as u64 <= limit.amount {
            return None;
        }
        let (text, mut counted) = (String::from_utf8_lossy(message), Counted::default());
        for piece in pieces(&text) {
            counted.add(piece, vocabulary);
            if counted.tokens > limit.amount {
                return Some(scaled(counted.tokens, text.len() as u64, counted.bytes));
            }
        }
        None
    }

    /// Whether a message exceeds a limit.
    pub(crate) fn exceeds(self, message: &[u8], limit: Size) -> bool {
        self.size_beyond(message, limit).is_some()
    }

    /// A threshold for a policy, which estimates: of estimated tokens as many as this result has for the threshold.
    /// The result is counted up to where it exceeds it, or to its end.
    pub(crate) fn for_policy(self, threshold: Size, payload: &Arc<Payload>) -> Size {
        let Some(vocabulary) = self.exact(threshold.unit) else { return threshold };
        if payload.size() <= threshold.amount {
            return threshold;
        }
        let (mut reader, mut counted) = (PayloadReader::new(Arc::clone(payload)), Counted::default());
        let mut estimated = 0;
        for (number, part) in (0..).zip(payload.parts()) {
            let mut offset = 0;
            while part.kind != PartKind::Binary && counted.tokens <= threshold.amount {
                // A part that cannot be decoded ends the call of the policy.
                let Ok(piece) = reader.read_text(number, offset, COUNTED_BYTES as u32) else { break };
                if piece.is_empty() {
                    break;
                }
                offset += piece.len() as u64;
                estimated += mcp::wire_size(&piece, SizeUnit::Tokens);
                counted.add(&piece, vocabulary);
            }
        }
        Size { amount: scaled(threshold.amount, estimated, counted.tokens).max(1), ..threshold }
    }
}

impl Counted {
    fn add(&mut self, piece: &str, vocabulary: &bpe_openai::Tokenizer) {
        self.bytes += piece.len() as u64;
        self.tokens += vocabulary.count(piece) as u64;
    }
}

/// A text in pieces of [`COUNTED_BYTES`].
fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let (piece, rest) = text.split_at_checked(text.ceil_char_boundary(COUNTED_BYTES))?;
        text = rest;
        Some(piece).filter(|piece| !piece.is_empty())
    })
}

/// Signs of ASCII that differ from the byte before them, and backslashes, which escape what follows.
fn signs(text: &[u8]) -> u64 {
    let is_sign = |byte: u8, before: u8| byte.is_ascii_punctuation() && (byte != before || byte == b'\\');
    let pairs = text.iter().zip(text.iter().skip(1));
    pairs.map(|(before, byte)| u64::from(is_sign(*byte, *before))).sum()
}

/// `amount × more ÷ of`.
fn scaled(amount: u64, more: u64, of: u64) -> u64 {
    let Some(of) = NonZeroU64::new(of) else { return amount };
    u64::try_from(u128::from(amount) * u128::from(more) / u128::from(of.get())).unwrap_or(u64::MAX)
}
