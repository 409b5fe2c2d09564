//! Offloads as resources, `lro://{offload}/{section}{?offset,limit}`, for clients that read resources.

use std::num::NonZero;

use lro_mcp::percent_decoded as decoded;
use serde_json::json;

use super::tools::{ProtocolError, Tools, client_message};
use crate::read::{PAGE_BYTES_MIN, PageContent, PageError, PagePart, PageRequest, Start};
use crate::store::{FileRecord, Offload, Ulid};

/// Maximum size of a resource page, in bytes. Clients read larger pages than models.
const PAGE_BYTES: u32 = 1 << 20;

/// Time in milliseconds for which a client may cache a page: the content never changes, but the offload expires.
const TTL_MILLIS: u32 = 60_000;

/// A parsed resource URI.
struct ResourceUri {
    offload: Ulid,
    section: String,
    offset: u64,
    limit: Option<NonZero<u32>>,
}

/// The content that was read.
struct ResourceContent {
    data: Data,
    /// Number of the next record.
    next: Option<u64>,
    /// Remaining bytes of a single record or value that is longer than a page.
    bytes_left: u64,
}

enum Data {
    Text(String),
    Base64(String),
}

impl Tools {
    /// Reads a resource of a tenant. Returns the result of `resources/read` as JSON. Blocks.
    ///
    /// # Errors
    /// When the URI is invalid or its resource does not exist. The code depends on the revision: `modern` from
    /// 2026-07-28 on.
    pub fn resource(&self, tenant: &str, uri: &str, modern: bool) -> Result<String, ProtocolError> {
        let failed = |message: String| ProtocolError::missing_resource(message, modern);
        let wanted = wanted(uri).ok_or_else(|| {
            failed(format!("`{uri}` is not the URI of a section: expected lro://OFFLOAD/SECTION?offset=N&limit=N"))
        })?;
        let offload =
            self.store().find(tenant, wanted.offload).map_err(|error| failed(client_message(tenant, &error)))?;
        let media_type = offload.file(&wanted.section).map(|file| file.media_type.clone()).unwrap_or_default();
        let found = self.read_pages(tenant, &wanted).map_err(|error| match error {
            PageError::Store(error) => failed(client_message(tenant, &error)),
            error => failed(error.to_string()),
        })?;
        let content = match found.data {
            Data::Text(text) => json!({ "uri": uri, "mimeType": media_type, "text": text }),
            Data::Base64(blob) => json!({ "uri": uri, "mimeType": media_type, "blob": blob }),
        };
        let mut result = json!({ "contents": [content] });
        if let Some(next) = found.next {
            result["_meta"]["io.github.lro-filter/next-offset"] = json!(next);
        }
        if found.bytes_left > 0 {
            result["_meta"]["io.github.lro-filter/bytes-left"] = json!(found.bytes_left);
        }
        if modern {
            result["ttlMs"] = json!(TTL_MILLIS);
            result["cacheScope"] = json!("private");
        }
        Ok(result.to_string())
    }

    /// Reads as many pages as the URI asks for.
    fn read_pages(&self, tenant: &str, wanted: &ResourceUri) -> Result<ResourceContent, PageError> {
        let mut lines: Vec<String> = Vec::new();
        let (mut bytes, mut total) = (0, u64::MAX);
        let most = self.pages().bytes_max().min(PAGE_BYTES);
        loop {
            let next = wanted.offset + lines.len() as u64;
            let records = wanted.limit.map_or(u64::from(u32::MAX), |limit| limit.get().into()) - lines.len() as u64;
            let room = most.saturating_sub(bytes);
            if !lines.is_empty() && (records == 0 || next >= total || room < PAGE_BYTES_MIN) {
                return Ok(ResourceContent::of_lines(&lines, (next < total).then_some(next)));
            }
            let request = PageRequest {
                start: Start::Record(next),
                bytes: Some(room),
                records: Some(u32::try_from(records).unwrap_or(u32::MAX)),
                ..PageRequest::new(tenant, wanted.offload, wanted.section.clone())
            };
            let page = self.pages().page(&request)?;
            total = page.total;
            match page.content {
                PageContent::Records(more) if !more.is_empty() => {
                    // The size of a page does not include line feeds.
                    for line in more {
                        let with_feed = u32::try_from(line.len() + 1).unwrap_or(u32::MAX);
                        if !lines.is_empty() && with_feed > most.saturating_sub(bytes) {
                            return Ok(ResourceContent::of_lines(&lines, Some(wanted.offset + lines.len() as u64)));
                        }
                        bytes = bytes.saturating_add(with_feed);
                        lines.push(line);
                    }
                }
                PageContent::Text(part) if lines.is_empty() => {
                    return Ok(ResourceContent::of_part(part, Data::Text, next + 1, total));
                }
                PageContent::Base64(part) if lines.is_empty() => {
                    return Ok(ResourceContent::of_part(part, Data::Base64, next + 1, total));
                }
                _ => return Ok(ResourceContent::of_lines(&lines, (next < total).then_some(next))),
            }
        }
    }
}

impl ResourceContent {
    fn of_lines(lines: &[String], next: Option<u64>) -> Self {
        Self { data: Data::Text(lines.join("\n")), next, bytes_left: 0 }
    }

    fn of_part(part: PagePart, data: impl Fn(String) -> Data, next: u64, total: u64) -> Self {
        let bytes_left = part.record_bytes.saturating_sub(part.offset + part.bytes);
        Self { data: data(part.data), next: (next < total).then_some(next), bytes_left }
    }
}

/// Resource links to the sections of an offload, as content blocks.
pub fn resource_links(offload: &Offload) -> Vec<String> {
    let link = |file: &FileRecord| {
        let uri = format!("lro://{}/{}", offload.id(), file.name);
        let size = file.bytes;
        json!({ "type": "resource_link", "uri": uri, "name": file.section, "mimeType": file.media_type, "size": size })
    };
    offload.record().files.iter().map(|file| link(file).to_string()).collect()
}

fn wanted(uri: &str) -> Option<ResourceUri> {
    let (path, query) = match uri.strip_prefix("lro://")?.split_once('?') {
        Some((path, query)) => (path, query),
        None => (uri.strip_prefix("lro://")?, ""),
    };
    let (offload, section) = path.split_once('/')?;
    let mut wanted = ResourceUri { offload: offload.parse().ok()?, section: decoded(section)?, offset: 0, limit: None };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=')? {
            ("offset", value) => wanted.offset = value.parse().ok()?,
            ("limit", value) => wanted.limit = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(wanted)
}
