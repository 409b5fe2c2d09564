//! Tool results of the Model Context Protocol: takes one apart for a policy, builds the reply from its verdict, and offers
//! the tools that read back what was offloaded.
//!
//! The only module that knows MCP. A result is read as spans of the message it came in and the reply is put together
//! from the same spans, so what is not replaced goes on byte for byte.

mod answer;
mod blocks;
mod budget;
mod copy;
mod records;
mod reply;
mod result;
mod sections;
mod span;
mod tools;
mod truncate;

pub use blocks::{BLOCK_EXTRA_BYTES_MAX, ESCAPED_BASE64_BYTES_MAX};
pub use reply::{exceeds, wire_size};
pub use result::{BLOCKS_MAX, MEMBERS_MAX, ParseError, ToolResult};
pub use tools::{EXTRACT_TOOL, INVALID_PARAMS, ProtocolError, READ_TOOL, Tools, definitions};
pub use truncate::{Truncation, WARNING_CHARACTERS_MAX};
