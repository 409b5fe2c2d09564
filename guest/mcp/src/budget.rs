//! Tracks how much of a limit is spent, measured on the text as sent on the wire.

use lro_jsonl::Measure;
use lro_payload::{Size, SizeUnit};

use super::reply::in_unit;

/// Most bytes of UTF-8 per unit: the estimate of tokens is lowest for spaces, a hundredth of a token each.
const BYTES_PER_UNIT_MAX: u64 = 100;

/// Bytes of JSON with English in it that a token has, at least.
const BYTES_PER_TOKEN: u64 = 3;

/// A limit and the amount spent of it. Every text is counted exactly; only the sum is rounded.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    spent: Measure,
    limit: Size,
}

impl Budget {
    pub(super) fn new(limit: Size) -> Self {
        Self { spent: Measure::text(), limit }
    }

    /// The amount left, in the unit of the limit.
    pub(super) fn left(&self) -> u64 {
        self.limit.amount.saturating_sub(in_unit(&self.spent, self.limit.unit))
    }

    /// Upper bound on the bytes of a text that fits.
    pub(super) fn bytes_max(&self) -> u64 {
        // A part of a token may be spent.
        self.left().saturating_add(1).saturating_mul(BYTES_PER_UNIT_MAX)
    }

    /// The cost of this many bytes of JSON with English in it, in the unit of the limit.
    pub(super) fn of_bytes(&self, bytes: u64) -> u64 {
        if self.limit.unit == SizeUnit::Tokens { bytes.div_ceil(BYTES_PER_TOKEN) } else { bytes }
    }

    /// Spends on a text, even beyond the limit.
    pub(super) fn spend(&mut self, text: &str) {
        self.spent.push(text);
    }

    /// Spends on a text if it fits.
    pub(super) fn take(&mut self, text: &str) -> bool {
        if text.len() as u64 > self.bytes_max() {
            return false;
        }
        let mut spent = self.spent.clone();
        spent.push(text);
        let fits = in_unit(&spent, self.limit.unit) <= self.limit.amount;
        if fits {
            self.spent = spent;
        }
        fits
    }

    /// Lets `spending` use the budget except a reserved amount.
    pub(super) fn with_reserve<T>(&mut self, amount: u64, spending: impl FnOnce(&mut Self) -> T) -> T {
        let all = self.limit.amount;
        self.limit.amount = all.saturating_sub(amount);
        let result = spending(self);
        self.limit.amount = all;
        result
    }

    /// Spends on the longest prefix of a text that fits, measured as sent on the wire, and returns that prefix.
    pub(super) fn take_head<'a>(&mut self, text: &'a str, wire: impl Fn(&str) -> String) -> &'a str {
        self.longest(text.len(), |length| text.get(..text.floor_char_boundary(length)).unwrap_or_default(), wire)
    }

    /// As [`take_head`](Self::take_head), for the longest suffix.
    pub(super) fn take_tail<'a>(&mut self, text: &'a str, wire: impl Fn(&str) -> String) -> &'a str {
        let start = |length| text.ceil_char_boundary(text.len() - length);
        self.longest(text.len(), |length| text.get(start(length)..).unwrap_or_default(), wire)
    }

    /// Spends on the longest text of length up to `most` that fits.
    fn longest<'a>(&mut self, most: usize, text: impl Fn(usize) -> &'a str, wire: impl Fn(&str) -> String) -> &'a str {
        let bound = usize::try_from(self.bytes_max()).unwrap_or(usize::MAX);
        let (mut fitting, mut beyond) = (0, most.min(bound) + 1);
        while beyond - fitting > 1 {
            // Never much more than what fits: a long text takes long to measure.
            let near = usize::try_from(self.left()).unwrap_or(usize::MAX).max(fitting.saturating_mul(2)).max(1);
            let middle = (fitting + (beyond - fitting) / 2).min(near);
            if self.clone().take(&wire(text(middle))) {
                fitting = middle;
            } else {
                beyond = middle;
            }
        }
        let found = text(fitting);
        if self.take(&wire(found)) { found } else { "" }
    }
}
