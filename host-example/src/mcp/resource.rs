//! The own resources: `lro://{offload}/{section}{?offset,limit}`, for clients that read resources.

use serde_json::json;

use super::tools::{INVALID_PARAMS, ProtocolError, Tools};
use crate::read::{PageContent, PageRequest, Start};
use crate::store::{FileRecord, Offload, Ulid};

/// JSON-RPC code of a resource that does not exist, in revisions up to 2025-11-25.
const RESOURCE_NOT_FOUND: i32 = -32002;

/// Longest page of a resource, in bytes: a client that reads a resource asks for more than a model does.
const PAGE_BYTES: u32 = 1 << 20;

/// Time in milliseconds for which a client may keep a page: it never changes, but it expires.
const KEEP_MILLIS: u32 = 60_000;

/// What a URI asks for.
struct Wanted {
    offload: Ulid,
    section: String,
    offset: u64,
    limit: Option<u32>,
}

impl Tools {
    /// Reads an own resource for a tenant: the result of `resources/read` as JSON. Blocks.
    ///
    /// # Errors
    /// When the URI makes no sense or there is nothing behind it. The code follows the revision: `modern` from 2026-07-28 on.
    pub fn resource(&self, tenant: &str, uri: &str, modern: bool) -> Result<String, ProtocolError> {
        let code = if modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
        let failed = |message: String| ProtocolError { code, message };
        let wanted = wanted(uri).ok_or_else(|| failed(format!("`{uri}` is no URI of a section")))?;
        let offload = self.store().find(tenant, wanted.offload).map_err(|error| failed(error.to_string()))?;
        let media_type = offload.file(&wanted.section).map(|file| file.media_type.clone()).unwrap_or_default();
        let request = PageRequest {
            start: Start::Record(wanted.offset),
            bytes: Some(PAGE_BYTES),
            records: wanted.limit.or(Some(u32::MAX)),
            ..PageRequest::new(tenant, wanted.offload, wanted.section)
        };
        let page = self.pages().page(&request).map_err(|error| failed(error.to_string()))?;
        let (content, count) = match page.content {
            PageContent::Records(records) => {
                let count = records.len() as u64;
                (json!({ "uri": uri, "mimeType": media_type, "text": records.join("\n") }), count)
            }
            PageContent::Text(part) => (json!({ "uri": uri, "mimeType": media_type, "text": part.data }), 1),
            PageContent::Base64(part) => (json!({ "uri": uri, "mimeType": media_type, "blob": part.data }), 1),
        };
        let next = page.first + count;
        let mut result = json!({ "contents": [content] });
        if next < page.total {
            result["_meta"] = json!({ "io.github.lro-filter/next-offset": next });
        }
        if modern {
            result["ttlMs"] = json!(KEEP_MILLIS);
            result["cacheScope"] = json!("private");
        }
        Ok(result.to_string())
    }
}

/// A link to each section of an offload, as content blocks.
pub fn resource_links(offload: &Offload) -> Vec<String> {
    let link = |file: &FileRecord| {
        let uri = format!("lro://{}/{}", offload.id(), file.name);
        let size = file.bytes;
        json!({ "type": "resource_link", "uri": uri, "name": file.section, "mimeType": file.media_type, "size": size })
    };
    offload.record().files.iter().map(|file| link(file).to_string()).collect()
}

fn wanted(uri: &str) -> Option<Wanted> {
    let (path, query) = match uri.strip_prefix("lro://")?.split_once('?') {
        Some((path, query)) => (path, query),
        None => (uri.strip_prefix("lro://")?, ""),
    };
    let (offload, section) = path.split_once('/')?;
    let mut wanted = Wanted { offload: offload.parse().ok()?, section: decoded(section)?, offset: 0, limit: None };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=')? {
            ("offset", value) => wanted.offset = value.parse().ok()?,
            ("limit", value) => wanted.limit = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(wanted)
}

/// Percent-encoding taken away.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let value = digit(rest.next()?)? * 16 + digit(rest.next()?)?;
                bytes.push(u8::try_from(value).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).ok()
}
