//! What a regular expression may be, in a condition as in jq: the syntax, the engine and the limits are those of the search of texts.

use lro_text::search::{COMPILED_BYTES_MAX, NEST_MAX, STATES_BYTES_MAX};
use regex::{Error, RegexBuilder};

/// Begins an expression within these limits.
pub(crate) fn builder(pattern: &str) -> RegexBuilder {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(STATES_BYTES_MAX).nest_limit(NEST_MAX);
    builder
}

/// Why a pattern is no expression, without the picture of the pattern.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::CompiledTooBig(limit) => format!("compiled, it has more than {limit} bytes; use smaller repetitions"),
        other => {
            let text = other.to_string();
            text.rsplit("error: ").next().unwrap_or(&text).to_owned()
        }
    }
}
