//! Errors of a message that should be a tool result, and its limits.

/// Most content blocks of a tool result that become parts: 32,768. One costs up to 1 KiB of memory besides the message. A
/// result with more is one part as a whole, unless its blocks only repeat the elements of its structured content.
pub const BLOCKS_MAX: usize = 32_768;

/// Most members of a tool result, and of the message around it: 1,024.
pub const MEMBERS_MAX: usize = 1_024;

/// The reason why a message is not a tool result. It may still be any JSON or text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The message is not UTF-8 from this byte on.
    #[error("expected a tool result as JSON: not UTF-8 at byte {0}")]
    NotUtf8(usize),
    /// The message is not JSON.
    #[error("expected a tool result as JSON: {0}")]
    Syntax(lro_json::SyntaxError),
    /// JSON, but neither a tool result nor a response that holds one.
    #[error("expected an object with `content` or a JSON-RPC response with such a `result`: {0}")]
    NotAToolResult(&'static str),
    /// Two members of the same name: readers disagree which one is valid.
    #[error("the tool result has two members `{0}`")]
    Duplicate(&'static str),
    /// The message exceeds a limit.
    #[error("the tool result has more than {limit} {what}")]
    TooMany {
        /// The items counted, in the plural.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
}
