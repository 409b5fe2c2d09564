//! The faces of the gateway, which only move messages between clients and a session.

pub mod http;
pub mod stdio;
