//! A policy that takes secrets out of results before they reach a file or the model: the values of secret fields,
//! e-mail addresses, card numbers and keys.
//!
//! It is the default policy, reading through a redactor: what the default policy does not see it cannot write. A result
//! with a secret in it never goes on as it is, however small.
//!
//! | module | what it does |
//! |---|---|
//! | `component` | the two exports |
//! | `policy` | the default policy over what is left of a result |
//! | `rules` | the settings |
//! | `redactor` | a text in slices, without its secrets: the two steps below |
//! | `fields` | the first step: values of secret fields |
//! | `patterns` | the second step: what looks like a secret |
//! | `find` | e-mail addresses, card numbers and keys in a text |
//! | `text` | JSON strings without their escapes |

#[cfg(target_arch = "wasm32")]
mod component;
mod fields;
mod find;
mod patterns;
#[cfg(target_arch = "wasm32")]
mod policy;
mod redactor;
mod rules;
mod text;

pub use find::MATCH_BYTES_MAX;
pub use redactor::Redactor;
pub use rules::{FIELDS, REPLACEMENT, Rules};
