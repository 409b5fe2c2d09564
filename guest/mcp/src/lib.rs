//! Messages and tool results of the Model Context Protocol: takes a result apart for a policy, and puts the reply
//! together.
//!
//! A result is read as spans of its message, and the reply is put together from the same spans, so everything that is
//! not replaced is preserved byte for byte. This crate runs no policies and sends no messages; it also compiles to
//! WebAssembly.

mod advice;
mod announce;
mod arguments;
mod blocks;
mod budget;
mod copy;
mod error;
mod link;
mod list;
mod message;
pub mod meta;
pub mod method;
mod output_schema;
mod outputs;
mod paging;
mod percent;
mod records;
mod reply;
mod result;
mod schema;
mod sections;
mod shorten;
mod span;
mod text;
mod tool_page;
mod truncate;

pub use advice::{ADVICE_CHARACTERS_MAX, ResultSize, advice, largest_field};
pub use announce::{
    ListedTool, SchemaChange, TASKS_EXTENSION, TaskSupport, ToolChange, has_argument, listed_tools, with_capabilities,
    with_extension, with_items, with_metadata, with_outputs, with_response_metadata, with_result_characters,
    with_revision, with_tools, with_tools_of_result, with_tools_that,
};
pub use arguments::{ArgumentError, ArgumentRule, BoundedCall, bounded_call, check_argument};
pub use blocks::{BLOCK_EXTRA_BYTES_MAX, ESCAPED_BASE64_BYTES_MAX};
pub use error::{BLOCKS_MAX, MEMBERS_MAX, ParseError};
pub use list::WholeList;
pub use message::{
    BATCH_MESSAGES_MAX, Fault, INLINE_MODE, INTERNAL_ERROR, INVALID_REQUEST, Id, Implementation, Kind,
    METHOD_NOT_FOUND, MODEL_KEY, Message, Meta, Params, error_response, looks_like_tool_result, notification, request,
    response, with_result_type,
};
pub use output_schema::{LEVELS_MAX, OutputSchema, SCHEMA_BYTES_MAX, STEPS_MAX, SchemaError};
pub use outputs::{
    Audience, OUTPUTS_REVISION, Output, OutputFormat, OutputsError, REVISION_BEFORE_OUTPUTS, RequestedOutputs,
};
pub use paging::{Following, Paging, PagingStyle, page_request, with_arguments};
pub use percent::{decoded as percent_decoded, encoded as percent_encoded};
pub use reply::{Replacement, exceeds, lines_of_response, size_beyond, text_of_response, wire_size};
pub use result::{OTHERS_BYTES_MAX, ToolResult};
pub use shorten::shortened;
pub use text::{text_block, tool_error};
pub use tool_page::{PageForm, ToolPage};
pub use truncate::{Truncation, WARNING_CHARACTERS_MAX};
