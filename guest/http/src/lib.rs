//! The bodies of Streamable HTTP, without a connection: what they are by their headers and their first bytes, and the events of a
//! `text/event-stream`.
//!
//! Nothing here parses the content of a message. Also compiles to WebAssembly.

mod content;
mod events;

pub use content::{BodyKind, Content, HeaderError, classify};
pub use events::{Buffer, Event, EventReader};
