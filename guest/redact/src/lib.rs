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
//! | `fields` | the first step: values of secret fields and columns |
//! | `pointers` | the position in a document, for fields that are JSON Pointers |
//! | `patterns` | the second step: text that looks like a secret |
//! | `candidates` | marks where in a text a secret may be |
//! | `find` | e-mail addresses, card numbers and keys in a text |
//! | `named` | values of secret fields in a text that is not JSON |
//! | `cells` | cells of secret columns in the tables of a text: those that `columns`, `html` and `literals` find |
//! | `columns`, `delimited` | delimited, drawn and aligned tables |
//! | `html` | tables of HTML |
//! | `literals` | tables that are JSON or Python literals in a text |
//! | `grid` | which values of JSON are in a secret column |
//! | `text` | JSON strings without their escapes |

mod candidates;
mod cells;
mod columns;
#[cfg(target_arch = "wasm32")]
mod component;
mod delimited;
mod fields;
mod find;
mod grid;
mod html;
mod literals;
mod named;
mod patterns;
mod pointers;
#[cfg(target_arch = "wasm32")]
mod policy;
mod redactor;
mod rules;
mod text;

pub use find::MATCH_BYTES_MAX;
pub use redactor::Redactor;
pub use rules::{FIELDS, REPLACEMENT, Rules};
