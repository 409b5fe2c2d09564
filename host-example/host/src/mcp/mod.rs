//! Tool results of the Model Context Protocol: what [`lro_mcp`] does with messages, replies to what a filter decided, and the
//! tools that read back what was offloaded.

mod answer;
mod resource;
mod tools;

pub use answer::{answer, answer_within_schema};
pub use lro_mcp::*;
pub use resource::resource_links;
pub use tools::{EXTRACT_TOOL, INVALID_PARAMS, ProtocolError, READ_TOOL, Tools, definitions};
