//! Why pages that came are not all there are, and what the result says of them.

use lro_host::mcp::Following;
use lro_json::write::{Object, string};

use super::Count;

/// Why the pages that came are not all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// More pages than the setting allows.
    #[error("there are more than {0} pages (collect.pages-max)")]
    Pages(u32),
    /// More bytes of items than the setting, or a message, allows.
    #[error("the items have more than {0} bytes (collect.bytes-max)")]
    Bytes(u64),
    /// It took longer than the setting allows, in milliseconds.
    #[error("the pages took more than {0} ms (collect.milliseconds-max)")]
    Time(u128),
    /// A page selects one that was there already.
    #[error("the server names a page again that it has answered already")]
    Again,
    /// Two pages in a row are the same.
    #[error("the server answered with the same items again")]
    Same,
    /// A page has a successor that cannot be asked for.
    #[error("the page says that there are more, but not how to ask for them")]
    Unknown,
    /// The list ended before its total, which is this one.
    #[error("the server has fewer items than the {0} that it names")]
    Fewer(u64),
    /// The server answered with an error, or not at all, for this reason.
    #[error("the server answered: {0}")]
    Server(String),
    /// A page has no list at this JSON Pointer.
    #[error("the next page has no list at {0:?}")]
    Shape(String),
    /// Nobody wants the pages any more.
    #[error("the client cancelled the call")]
    Cancelled,
}

/// The member `collected` of a result: `{"pages", "records", "complete"}`, and the reason and the arguments that continue when
/// it is not complete.
pub fn summary(count: Count, ended: Option<&Ended>, following: &Following) -> String {
    let mut object = Object::default();
    object.member("pages", &count.pages.to_string()).member("records", &count.records.to_string());
    object.member("complete", if ended.is_none() { "true" } else { "false" });
    if let Some(ended) = ended {
        object.member("reason", &string(&ended.to_string()));
        if let Following::Page(changes) = following {
            object.member("next", &arguments_of(changes));
        }
    }
    object.finish()
}

/// Arguments and their values, as a JSON object.
pub fn arguments_of(changes: &[(String, String)]) -> String {
    let mut object = Object::default();
    for (name, value) in changes {
        object.member(name, value);
    }
    object.finish()
}
