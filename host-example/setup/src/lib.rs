//! Configurations of MCP clients: where they are, and how the gateway comes before their servers and goes again.
//!
//! | module | purpose |
//! |---|---|
//! | `client` | the clients that are known, and the files they read |
//! | `tree` | a file in JSON, JSON with comments or TOML, with the place of each value |
//! | `document` | the servers of a file, and the text with the gateway before them, or without it |
//! | `file` | a file on the disk, and its backup |
//! | `hooks` | hooks of agents, added and taken away |
//! | `plan` | what will change in a file, known before anything does |
//!
//! A file is never written anew from what was understood of it: what changes is put between the bytes that are there, so that
//! comments, order and layout stay. Only servers that a client starts as processes are changed: a server at a URL is the
//! client's to reach, often with a login of its own.

mod client;
mod document;
mod file;
mod hooks;
mod plan;
mod tree;

pub use client::{ANY_CLIENT, Client, Home, Place, Scope, clients};
pub use document::{Document, ParseError, Server, State, is_program};
pub use file::{Configuration, FILE_BYTES_MAX, FileError};
pub use hooks::{HookClient, HookPlan, hook_clients};
pub use plan::{Plan, SetupError};
