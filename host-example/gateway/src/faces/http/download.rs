//! Downloads of files by signed addresses, without a token: see [`Tools::authorize_download`].
//!
//! An address names a ticket and nothing else: no path, no tenant and no handle comes from the client. A response is
//! streamed, and the rules for slow readers, hosts, origins and the shares of tenants apply to it as to any other.
//!
//! [`Tools::authorize_download`]: lro_host::mcp::Tools::authorize_download

use std::ops::Range;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, ALLOW, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use lro_host::job::Job;
use lro_host::mcp::{Download, DownloadError};
use lro_host::read::{Ticket, TicketError};
use lro_host::store::StoreError;

use super::{HttpFace, table};
use crate::listener::body::{self, PIECE_BYTES};
use crate::listener::connections::Caller;
use crate::listener::guard::{self, Refusal};
use crate::listener::shares::removed;

/// The beginning of the paths of downloads; the rest is the ticket.
pub(super) const PATH: &str = "/lro/files/";

/// Media type of a file whose own is not valid in a header.
const ANY_MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/octet-stream");

/// What a response holds of a file.
#[derive(Debug, PartialEq, Eq)]
enum Selection {
    Whole,
    Part(Range<u64>),
    /// The range begins behind the end.
    Nothing,
    /// The client has this file.
    NotModified,
}

/// Whether this is the path of a download.
pub(crate) fn is_download(path: &str) -> bool {
    path.starts_with(PATH)
}

impl HttpFace {
    /// Answers a request with the path of a download.
    pub(super) async fn download(&self, caller: &Caller, head: &Parts) -> Response {
        if !matches!(head.method, Method::GET | Method::HEAD) {
            let text = "a download is a GET or HEAD request".to_owned();
            let mut response = Refusal::Status(StatusCode::METHOD_NOT_ALLOWED, text).response();
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        }
        self.downloaded(caller, head).await.unwrap_or_else(Refusal::response)
    }

    async fn downloaded(&self, caller: &Caller, head: &Parts) -> Result<Response, Refusal> {
        self.guard.check_source(&head.headers, &head.uri)?;
        let wanted = table::wanted(head.uri.query())?;
        let tools = self.rules.tools.as_ref().ok_or(Refusal::NotFound)?;
        let text = head.uri.path().strip_prefix(PATH).unwrap_or_default();
        let ticket = tools.ticket(text).map_err(|error| refusal(&error))?;
        let tenant = ticket.tenant.clone();
        if self.rules.is_removed(&tenant) {
            return Err(Refusal::NotFound);
        }
        caller.hold(self.shares.requests(&self.holder(tenant.clone(), caller), 1)?);
        let active = self.active.watch(&tenant);
        let (tools, is_head) = (tools.clone(), head.method == Method::HEAD);
        let open = move |ticket: Ticket| Job::new(async move { tools.download(&ticket) });
        let rules = self.rules.of(&tenant);
        let opened = tokio::select! {
            opened = rules.questions.run_job(open(ticket)) => opened,
            () = removed(active.clone()) => return Err(Refusal::NotFound),
        };
        let unavailable = |reason: String| Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, reason);
        let file = opened.map_err(|error| unavailable(error.to_string()))?;
        let file = file.map_err(|error| refusal(&DownloadError::Store(error)))?;
        let response = match wanted {
            None => response(file, &head.headers, is_head),
            Some(wanted) => table::response(file, wanted, &head.headers, &head.method).await?,
        };
        Ok(response.map(|body| body::until(body, removed(active))))
    }
}

/// What a client learns of a failure. The log has the rest.
fn refusal(error: &DownloadError) -> Refusal {
    let (status, text) = match error {
        DownloadError::Ticket(TicketError::Forged) => return Refusal::NotFound,
        DownloadError::Ticket(TicketError::Expired) => {
            (StatusCode::GONE, "this address has expired: ask files/authorizeDownload for another".to_owned())
        }
        DownloadError::Store(StoreError::Expired { .. } | StoreError::NotFound { .. }) => {
            (StatusCode::GONE, "the file has expired: call the tool again that made it".to_owned())
        }
        DownloadError::Store(error) => {
            tracing::warn!(error = error as &dyn std::error::Error, "cannot download a file");
            (StatusCode::INTERNAL_SERVER_ERROR, error.for_client())
        }
    };
    Refusal::Status(status, text)
}

fn response(file: Download, headers: &HeaderMap, is_head: bool) -> Response {
    let etag = format!("\"{}\"", file.sha256);
    let (status, range) = match selection(headers, &etag, file.bytes, is_head) {
        Selection::Whole => (StatusCode::OK, 0..file.bytes),
        Selection::Part(range) => (StatusCode::PARTIAL_CONTENT, range),
        Selection::NotModified => (StatusCode::NOT_MODIFIED, 0..0),
        Selection::Nothing => {
            let text = format!("the file has {} bytes: the range begins behind them", file.bytes);
            let mut response = Refusal::Status(StatusCode::RANGE_NOT_SATISFIABLE, text).response();
            let range = header_value(&format!("bytes */{}", file.bytes));
            response.headers_mut().extend(range.map(|range| (CONTENT_RANGE, range)));
            return response;
        }
    };
    let content = (status != StatusCode::NOT_MODIFIED).then_some((file.name.as_str(), file.media_type.as_str()));
    let more: [(HeaderName, Option<String>); 2] = [
        (CONTENT_LENGTH, content.map(|_| (range.end - range.start).to_string())),
        (
            CONTENT_RANGE,
            (status == StatusCode::PARTIAL_CONTENT)
                .then(|| format!("bytes {}-{}/{}", range.start, range.end.saturating_sub(1), file.bytes)),
        ),
    ];
    let mut response = attachment(status, content, &etag, Body::empty());
    let all = response.headers_mut();
    all.extend(more.into_iter().filter_map(|(name, value)| Some((name, header_value(&value?)?))));
    all.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if !is_head && status != StatusCode::NOT_MODIFIED {
        *response.body_mut() = Body::from_stream(pieces(file, range));
    }
    response
}

/// A response that no browser runs. `content` is the name and the media type of what is in it, if there is anything.
pub(super) fn attachment(status: StatusCode, content: Option<(&str, &str)>, etag: &str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let all = response.headers_mut();
    all.extend(header_value(etag).map(|etag| (ETAG, etag)));
    all.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    if let Some((name, media_type)) = content {
        let disposition = header_value(&format!("attachment; filename=\"{name}\""));
        all.extend(disposition.map(|disposition| (CONTENT_DISPOSITION, disposition)));
        all.insert(CONTENT_TYPE, header_value(media_type).unwrap_or(ANY_MEDIA_TYPE));
        all.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        all.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    }
    response
}

fn header_value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_str(text).ok()
}

/// What a request selects, as RFC 9110 says. A range is for GET alone; several ranges are answered with the whole file.
fn selection(headers: &HeaderMap, etag: &str, bytes: u64, is_head: bool) -> Selection {
    if is_known(headers, etag) {
        return Selection::NotModified;
    }
    let is_same = !headers.contains_key(IF_RANGE) || guard::text(headers, &IF_RANGE) == Some(etag);
    let is_one = headers.get_all(RANGE).iter().count() == 1;
    match guard::text(headers, &RANGE).and_then(|range| of_range(range, bytes)) {
        Some(selection) if is_same && is_one && !is_head => selection,
        _ => Selection::Whole,
    }
}

/// Whether the client has what has this tag.
pub(super) fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|value| value.split(',')).map(str::trim);
    known.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == etag)
}

/// What a header `Range` selects; `None` if it is invalid, or has several ranges.
fn of_range(range: &str, bytes: u64) -> Option<Selection> {
    let (unit, range) = range.split_once('=')?;
    let (first, last) = range.trim().split_once('-')?;
    let are_digits = [first, last].iter().all(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !unit.trim().eq_ignore_ascii_case("bytes") || !are_digits || (first.is_empty() && last.is_empty()) {
        return None;
    }
    // A number beyond 64 bits is behind the end of any file.
    let number = |digits: &str| digits.parse().unwrap_or(u64::MAX);
    let range = match (first, last) {
        ("", last) => bytes.saturating_sub(number(last))..bytes,
        (first, "") => number(first)..bytes,
        (first, last) if number(first) > number(last) => return None,
        (first, last) => number(first)..number(last).saturating_add(1).min(bytes),
    };
    Some(if range.is_empty() { Selection::Nothing } else { Selection::Part(range) })
}

/// Reads a part of a file piece by piece, each when the one before is written.
fn pieces(file: Download, range: Range<u64>) -> impl Stream<Item = std::io::Result<Bytes>> + Send {
    stream::try_unfold((Arc::new(file), range), |(file, left)| async move {
        if left.is_empty() {
            return Ok(None);
        }
        let length = usize::try_from(left.end - left.start).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let (reading, start) = (Arc::clone(&file), left.start);
        let piece = tokio::task::spawn_blocking(move || reading.read(start, length)).await;
        let piece = piece.map_err(std::io::Error::other)?.map_err(std::io::Error::other)?;
        if piece.len() < length {
            return Err(std::io::Error::other("the file has become shorter"));
        }
        Ok(Some((Bytes::from(piece), (file, start + length as u64..left.end))))
    })
}
