//! What readers ask of an offload, in plain Rust types: questions and their answers, pages and their cursors, and the tools
//! with which models ask for both.
//!
//! It opens no file, calls no component and knows no runtime, and compiles to WebAssembly: a host in Rust, and the component
//! that reads for hosts in other languages, give the same answers to the same arguments.
//!
//! | module | what it has |
//! |---|---|
//! | `question`, `error` | questions, their limits, and why one has no answer |
//! | `files`, `fit`, `schema` | the files that a question is about, and the question in the names and types of their fields |
//! | `answer` | answers: lines within a budget, and what is left |
//! | `section` | lines and ranges of a file, by its index |
//! | `page` | pages: as many records as fit |
//! | `cursor`, `list_cursor`, `ticket` | what clients hand back unchanged: signed |
//! | [`tool`] | the tools `lro_extract` and `lro_read`: definitions, arguments, and texts of their results |
//! | [`resource`] | the same pages as resources |
//! | [`question_conversions!`] | between these types and those that bindings generate |

mod answer;
mod conversions;
mod cursor;
mod error;
mod files;
mod fit;
mod list_cursor;
mod page;
mod question;
pub mod resource;
mod schema;
mod section;
mod ticket;
pub mod tool;

pub use answer::{Answer, Cut, Failures, asked_budget};
pub use cursor::{Cursor, CursorError, CursorKey, PageSize, Position};
pub use error::QuestionError;
pub use files::{Table, files, sql_tables, stored_query};
pub use fit::{fit, fitted};
pub use list_cursor::ListCursor;
pub use page::{
    Growth, PAGE_BYTES_DEFAULT, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PAGE_RECORDS_MAX, Page, PageContent, PageError,
    PagePart, PageRequest, PageSource, Start, find_section, read_page,
};
pub use question::{
    ANSWER_BYTES_DEFAULT, ANSWER_BYTES_MAX, ANSWER_TOKENS_DEFAULT, Budget, HITS_MAX, Jq, LineRange, Pattern, Question,
    RESULTS_MAX, Search, Sql, TABLES_MAX,
};
pub use section::Section;
pub use ticket::{Ticket, TicketError};
