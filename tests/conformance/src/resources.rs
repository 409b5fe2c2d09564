//! The resources: a text, an image, one to subscribe to, and a template.

use rmcp::model::{ErrorData, ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::media::{PIXEL, PIXEL_TYPE};

const TEXT: &str = "test://static-text";
const BINARY: &str = "test://static-binary";
const WATCHED: &str = "test://watched-resource";
const TEMPLATE_START: &str = "test://template/";
const TEMPLATE_END: &str = "/data";

pub(crate) fn list() -> Vec<Resource> {
    let resource = |uri: &str, name: &str, description: &str, media_type: &str| {
        Resource::new(uri, name).with_description(description).with_mime_type(media_type)
    };
    vec![
        resource(TEXT, "static-text", "A text that never changes", "text/plain"),
        resource(BINARY, "static-binary", "One red pixel", PIXEL_TYPE),
        resource(WATCHED, "watched-resource", "A text to subscribe to", "text/plain"),
    ]
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{TEMPLATE_START}{{id}}{TEMPLATE_END}"), "template")
            .with_description("A document about its own identifier")
            .with_mime_type("application/json"),
    ]
}

pub(crate) fn read(uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let contents = match uri {
        TEXT => plain(uri, "This is the content of the static text resource."),
        BINARY => ResourceContents::blob(PIXEL, uri).with_mime_type(PIXEL_TYPE),
        WATCHED => plain(uri, "This is the content of the watched resource."),
        _ => from_template(uri).ok_or_else(|| unknown(uri))?,
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

/// Rejects the URI of a resource that does not exist.
pub(crate) fn check(uri: &str) -> Result<(), ErrorData> {
    read(uri).map(drop)
}

fn plain(uri: &str, text: &str) -> ResourceContents {
    ResourceContents::text(text, uri).with_mime_type("text/plain")
}

fn from_template(uri: &str) -> Option<ResourceContents> {
    let id = uri.strip_prefix(TEMPLATE_START)?.strip_suffix(TEMPLATE_END)?;
    let text = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")}).to_string();
    Some(ResourceContents::text(text, uri).with_mime_type("application/json"))
}

fn unknown(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("Resource not found", Some(json!({"uri": uri})))
}
