//! The text of documents: those of real programs, and hostile ones.

#![expect(clippy::unwrap_used, reason = "these are tests")]

mod formats;
mod hostile;
mod support;
