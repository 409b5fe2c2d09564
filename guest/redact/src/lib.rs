//! A policy that removes secrets from results before they reach a file or the model: the values of secret fields,
//! e-mail addresses, card numbers and keys.
//!
//! It is the default policy, reading through a redactor: the default policy cannot write what it does not see. A result
//! that contains a secret never passes unchanged, however small.
//!
//! | module | what it does |
//! |---|---|
//! | `component` | the two exports |
//! | `policy` | the default policy on the redacted result |
//! | `rules` | the settings |
//! | `redactor` | redacts a text in slices, in the two steps below |
//! | `fields` | the first step: values of secret fields |
//! | `patterns` | the second step: text that looks like a secret |
//! | `candidates` | marks where in a text a secret may be |
//! | `find` | e-mail addresses, card numbers and keys in a text |
//! | `named` | values of secret fields in a text that is not JSON |
//! | `columns` | cells of secret columns in the tables of a text |
//! | `text` | JSON strings without their escapes |

mod candidates;
mod columns;
#[cfg(target_arch = "wasm32")]
mod component;
mod fields;
mod find;
mod named;
mod patterns;
#[cfg(target_arch = "wasm32")]
mod policy;
mod redactor;
mod rules;
mod text;

pub use find::MATCH_BYTES_MAX;
pub use redactor::Redactor;
pub use rules::{FIELDS, REPLACEMENT, Rules};
