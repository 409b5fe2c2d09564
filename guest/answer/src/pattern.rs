//! What a regular expression may be, in a condition as in jq: the syntax, the engine and the limits are those of the search of texts.

use regex::{Error, RegexBuilder};

/// Bytes that a compiled expression may have. `\w{50}` has half of it.
const COMPILED_BYTES_MAX: usize = 2 << 20;

/// Bytes of the states that the matching of an expression keeps. With more states, it forgets some, or goes on without.
const STATES_BYTES_MAX: usize = 4 << 20;

/// Groups inside groups that an expression may have: it is taken apart recursively.
const NEST_MAX: u32 = 100;

/// Begins an expression within these limits.
pub(crate) fn builder(pattern: &str) -> RegexBuilder {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(STATES_BYTES_MAX).nest_limit(NEST_MAX);
    builder
}

/// Why a pattern is no expression, without the picture of the pattern.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::CompiledTooBig(limit) => {
            format!("compiled, it has more than {limit} bytes; use smaller repetitions")
        }
        other => {
            let text = other.to_string();
            text.rsplit("error: ").next().unwrap_or(&text).to_owned()
        }
    }
}
