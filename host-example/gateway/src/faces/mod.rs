//! Where clients are: faces move messages between them and a session, and know no more of them than that.

pub mod http;
pub mod stdio;
