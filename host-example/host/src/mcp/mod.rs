//! Model Context Protocol: the message types of [`lro_mcp`], replies by outcome, and the tools that read offloads.

mod answer;
mod files;
mod list_items;
mod tools;

pub use answer::{answer, answer_within_schema};
pub use files::{Download, DownloadError, FILE_URI, file_blocks};
pub use list_items::{ListError, ListPage, list_items};
pub use lro_mcp::*;
pub use lro_reading::resource::{TEMPLATE, resource_links};
pub use tools::{
    EXTRACT_TOOL, INVALID_PARAMS, ProtocolError, READ_TOOL, RESOURCE_NOT_FOUND, ToolQuestion, Tools,
    check_names_with_file, definitions, guidance, question_schema, reads_offloads,
};
