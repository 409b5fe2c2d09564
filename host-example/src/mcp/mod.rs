//! Tool results of the Model Context Protocol: takes one apart for a policy, builds the reply from its verdict, and offers
//! the tools that read back what was offloaded.
//!
//! The only module that knows MCP. A result is read as spans of the message it came in and the reply is put together
//! from the same spans, so what is not replaced goes on byte for byte.

mod announce;
mod answer;
mod blocks;
mod budget;
mod copy;
mod message;
mod output_schema;
pub(crate) mod percent;
mod records;
mod reply;
mod resource;
mod result;
mod schema;
mod sections;
mod shorten;
mod span;
mod tools;
mod truncate;

pub use announce::{
    ListedTool, SchemaChange, ToolChange, listed_tools, with_abilities, with_metadata, with_result_characters,
    with_template, with_tools,
};
pub use blocks::{BLOCK_EXTRA_BYTES_MAX, ESCAPED_BASE64_BYTES_MAX};
pub use message::{
    BATCH_MESSAGES_MAX, Fault, INLINE_MODE, INTERNAL_ERROR, INVALID_REQUEST, Id, Implementation, Kind,
    METHOD_NOT_FOUND, Message, Meta, Params, error_response, looks_like_tool_result, response, with_result_type,
};
pub use output_schema::{LEVELS_MAX, OutputSchema, SCHEMA_BYTES_MAX, STEPS_MAX, SchemaError};
pub use reply::{Replacement, exceeds, tool_error, wire_size};
pub use resource::resource_links;
pub use result::{BLOCKS_MAX, MEMBERS_MAX, OTHERS_BYTES_MAX, ParseError, ToolResult};
pub use shorten::shortened;
pub use tools::{EXTRACT_TOOL, INVALID_PARAMS, ProtocolError, READ_TOOL, Tools, definitions};
pub use truncate::{Truncation, WARNING_CHARACTERS_MAX};
