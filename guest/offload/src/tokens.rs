//! Estimated tokens of what is written to a file.

use lro_jsonl::Measure;

/// Bytes at the beginning of a file whose tokens are counted; the rest of the file is extrapolated.
const SAMPLE_BYTES: usize = 64 * 1024;

/// Estimates the tokens of a file from its beginning, so that the estimate of a large one costs nothing.
pub(crate) struct TokenSample(Measure);

impl Default for TokenSample {
    fn default() -> Self {
        Self(Measure::text())
    }
}

impl TokenSample {
    /// Adds the next bytes of the file. They may be cut anywhere: incomplete characters do not matter for an estimate.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let left = SAMPLE_BYTES.saturating_sub(usize::try_from(self.0.bytes()).unwrap_or(usize::MAX));
        let sample = bytes.get(..left.min(bytes.len())).unwrap_or_default();
        match std::str::from_utf8(sample) {
            Ok(text) => self.0.push(text),
            Err(_) => self.0.push(&String::from_utf8_lossy(sample)),
        }
    }

    /// Estimated tokens of the file, which has this many bytes.
    pub(crate) fn tokens(&self, bytes: u64) -> u64 {
        let whole = u128::from(self.0.tokens()) * u128::from(bytes);
        u64::try_from(whole.div_ceil(u128::from(self.0.bytes().max(1)))).unwrap_or(u64::MAX)
    }
}
