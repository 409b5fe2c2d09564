//! Offloads as resources, `lro://{offload}/{section}{?offset,limit}`, for clients that read resources.

use std::num::NonZero;

use lro_contract::manifest::{FileRecord, OffloadRecord};
use lro_contract::ulid::Ulid;
use lro_mcp::percent_decoded as decoded;
use serde_json::json;

use crate::{PAGE_BYTES_MIN, Page, PageContent, PageError, PagePart, PageRequest, Start};

/// What the URI of a resource begins with.
pub const SCHEME: &str = "lro://";

/// Template of the resources, as in `resources/templates/list`. No list contains the resources themselves, as offloading a
/// result must not change a list.
pub const TEMPLATE: &str = r#"{"uriTemplate":"lro://{offload}/{section}{?offset,limit}","name":"lro-section","title":"Section of an offloaded result","description":"Records of a large tool result from `offset` on, at most `limit` of them; the handle is in the descriptor of the result and expires"}"#;

/// Maximum size of a resource page, in bytes. Clients read larger pages than models.
const PAGE_BYTES: u32 = 1 << 20;

/// Time in milliseconds for which a client may cache a page: the content never changes, but the offload expires.
const TTL_MILLIS: u32 = 60_000;

/// A parsed resource URI.
#[derive(Clone, Debug)]
pub struct ResourceUri {
    /// The offload.
    pub offload: Ulid,
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

impl ResourceUri {
    /// Parses the URI of a section.
    ///
    /// # Errors
    /// A message for the client.
    pub fn parse(uri: &str) -> Result<Self, String> {
        wanted(uri).ok_or_else(|| {
            format!("`{uri}` is not the URI of a section: expected lro://OFFLOAD/SECTION?offset=N&limit=N")
        })
    }

    /// Reads as many pages as the URI asks for, with `page`, in the name of a tenant, and returns the result of
    /// `resources/read` as JSON. No more than `bytes_max` bytes are read. The form depends on the revision: `modern` from
    /// 2026-07-28 on.
    ///
    /// # Errors
    /// Those of `page`.
    pub fn read<E: std::error::Error + 'static>(
        &self,
        uri: &str,
        tenant: &str,
        offload: &OffloadRecord,
        bytes_max: u32,
        modern: bool,
        page: impl FnMut(&PageRequest) -> Result<Page, PageError<E>>,
    ) -> Result<String, PageError<E>> {
        let media_type = offload.file(&self.section).map(|file| file.media_type.as_str()).unwrap_or_default();
        let found = self.content(tenant, bytes_max.min(PAGE_BYTES), page)?;
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

    fn content<E: std::error::Error + 'static>(
        &self,
        tenant: &str,
        most: u32,
        mut page: impl FnMut(&PageRequest) -> Result<Page, PageError<E>>,
    ) -> Result<ResourceContent, PageError<E>> {
        let mut lines: Vec<String> = Vec::new();
        let (mut bytes, mut total) = (0, u64::MAX);
        loop {
            let next = self.offset + lines.len() as u64;
            let records = self.limit.map_or(u64::from(u32::MAX), |limit| limit.get().into()) - lines.len() as u64;
            let room = most.saturating_sub(bytes);
            if !lines.is_empty() && (records == 0 || next >= total || room < PAGE_BYTES_MIN) {
                return Ok(ResourceContent::of_lines(&lines, (next < total).then_some(next)));
            }
            let request = PageRequest {
                start: Start::Record(next),
                bytes: Some(room),
                records: Some(u32::try_from(records).unwrap_or(u32::MAX)),
                ..PageRequest::new(tenant, self.offload, self.section.clone())
            };
            let page = page(&request)?;
            total = page.total;
            match page.content {
                PageContent::Records(more) if !more.is_empty() => {
                    // The size of a page does not include line feeds.
                    for line in more {
                        let with_feed = u32::try_from(line.len() + 1).unwrap_or(u32::MAX);
                        if !lines.is_empty() && with_feed > most.saturating_sub(bytes) {
                            return Ok(ResourceContent::of_lines(&lines, Some(self.offset + lines.len() as u64)));
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
pub fn resource_links(id: Ulid, offload: &OffloadRecord) -> Vec<String> {
    let link = |file: &FileRecord| {
        let uri = format!("{SCHEME}{}/{}", id, file.name);
        let size = file.bytes;
        json!({ "type": "resource_link", "uri": uri, "name": file.section, "mimeType": file.media_type, "size": size })
    };
    offload.files.iter().map(|file| link(file).to_string()).collect()
}

fn wanted(uri: &str) -> Option<ResourceUri> {
    let (path, query) = match uri.strip_prefix(SCHEME)?.split_once('?') {
        Some((path, query)) => (path, query),
        None => (uri.strip_prefix(SCHEME)?, ""),
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
