//! Pages for operators, at the address of the metrics: what the gateways do, the policies, and one offload looked at and asked.
//!
//! They are plain HTML: no script, nothing from elsewhere. Whoever may read names of tenants may read the overview. What changes
//! a policy or shows the content of an offload needs the admin token, which a browser sends as the password of HTTP Basic; a
//! change has to come from a form of these pages.

mod view;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, LOCATION, ORIGIN, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::Response;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Limited};
use lro_host::mcp::{EXTRACT_TOOL, percent_decoded};
use lro_host::store::{FileKind, OffloadRecord, Store, Ulid};
use serde_json::{Map, Value, json};

use self::view::{Overview, Shown};
use super::admin::Admin;
use super::{history, status};
use crate::listener::guard::text;
use crate::tenants::rules::Rules;

/// The path of the style sheet.
const STYLE_PATH: &str = "/style.css";
/// The beginning of the paths of offloads; the tenant and the handle follow.
const OFFLOADS_PATH: &str = "/offloads/";
/// The path of changes.
const CHANGE_PATH: &str = "/change";
/// The path that asks a browser for the admin token.
const LOGIN_PATH: &str = "/login";

const STYLE: &str = include_str!("style.css");

/// Nothing but the style sheet and forms to this address, and in no frame.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// Offloads on the first page.
const OFFLOADS_MAX: usize = 50;

/// Days on the first page.
const DAYS: u32 = 14;

/// Records or lines of an answer.
const RECORDS: u64 = 20;

/// What an offload is asked with: arguments of the tool that answers.
const ASKED: [&str; 3] = ["section", "where", "search"];

/// Maximum size of a form, in bytes.
const FORM_BYTES_MAX: usize = 16 << 10;

/// Who asks for a page.
pub(super) struct Visitor {
    pub(super) address: IpAddr,
    /// Whether names of tenants may be read; the admin always may.
    pub(super) sees_names: bool,
    pub(super) is_admin: bool,
}

/// Whether a path is that of a page.
pub(super) fn is_page(path: &str) -> bool {
    matches!(path, "/" | STYLE_PATH | CHANGE_PATH | LOGIN_PATH) || path.starts_with(OFFLOADS_PATH)
}

/// The token that a browser sends as the password of HTTP Basic.
pub(super) fn basic(headers: &HeaderMap) -> Option<String> {
    let (scheme, encoded) = text(headers, &AUTHORIZATION)?.split_once(' ')?;
    let decoded = STANDARD.decode(encoded.trim()).ok().filter(|_| scheme.eq_ignore_ascii_case("basic"))?;
    let pair = String::from_utf8(decoded).ok()?;
    pair.split_once(':').map(|(_, password)| password.to_owned())
}

/// The demand for a token.
pub(super) fn unauthorized() -> Response {
    let mut response =
        html(StatusCode::UNAUTHORIZED, view::error("Use the admin token as the password, with any name."));
    let demand =
        HeaderValue::from_static("Basic realm=\"lro-filter: the admin token is the password\", charset=\"UTF-8\"");
    response.headers_mut().insert(WWW_AUTHENTICATE, demand);
    response
}

/// Answers a request for a page.
pub(super) async fn answer(rules: &Arc<Rules>, admin: Option<&Admin>, visitor: &Visitor, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match path.as_str() {
        STYLE_PATH if reads => secured(StatusCode::OK, "text/css; charset=utf-8", STYLE),
        _ if !visitor.sees_names => unauthorized(),
        "/" if reads => overview(rules, admin, visitor, None).await,
        LOGIN_PATH if reads && admin.is_some() && !visitor.is_admin => unauthorized(),
        LOGIN_PATH if reads => redirect("/"),
        CHANGE_PATH | LOGIN_PATH if reads => not_allowed("this page takes a form"),
        _ if !visitor.is_admin => unauthorized(),
        CHANGE_PATH => change(rules, admin, visitor, request).await,
        _ if reads => offload(rules, request.uri().clone()).await,
        _ => not_allowed("use GET or HEAD"),
    }
}

async fn overview(rules: &Arc<Rules>, admin: Option<&Admin>, visitor: &Visitor, note: Option<String>) -> Response {
    let (rules, policies, may_change) =
        (Arc::clone(rules), admin.map(Admin::statuses).unwrap_or_default(), visitor.is_admin && admin.is_some());
    // Manifests are read from the disk.
    let made = tokio::task::spawn_blocking(move || {
        let (verdicts, jobs) = (rules.metrics.verdicts(), rules.jobs.count());
        let mut overview = Overview { verdicts, jobs, policies, may_change, note, ..Overview::default() };
        if let Ok(store) = &rules.filter.store {
            fill(&mut overview, store);
        }
        view::overview(&overview)
    });
    match made.await {
        Ok(page) => html(StatusCode::OK, page),
        Err(error) => html(StatusCode::INTERNAL_SERVER_ERROR, view::error(&error.to_string())),
    }
}

fn fill(overview: &mut Overview, store: &Store) {
    overview.gateways = status::live(store).unwrap_or_default();
    overview.days = history::of_days(store, DAYS).unwrap_or_default();
    let usage = store.usage();
    (overview.offloads_count, overview.offloads_bytes) = (usage.offloads, usage.bytes);
    let mut listed = store.list();
    listed.sort_by_key(|one| Reverse(one.id));
    listed.truncate(OFFLOADS_MAX);
    let tool = |tenant: &str, id: Ulid| store.find(tenant, id).ok().map(|offload| offload.record().tool.clone());
    overview.offloads =
        listed.into_iter().map(|one| (tool(&one.tenant, one.id), one)).map(|(tool, one)| (one, tool)).collect();
}

/// Shows an offload, and asks it.
async fn offload(rules: &Arc<Rules>, uri: Uri) -> Response {
    let named = uri.path().strip_prefix(OFFLOADS_PATH).and_then(|rest| rest.split_once('/'));
    let named = named.and_then(|(tenant, handle)| Some((percent_decoded(tenant)?, handle.parse::<Ulid>().ok()?)));
    let (Some((tenant, id)), Ok(store), Some(tools)) = (named, &rules.filter.store, &rules.tools) else {
        return html(StatusCode::NOT_FOUND, view::error("This offload was not found."));
    };
    let (store, of_tenant) = (store.clone(), tenant.clone());
    let found = match tokio::task::spawn_blocking(move || store.find(&of_tenant, id)).await {
        Ok(Ok(offload)) => offload,
        Ok(Err(error)) => return html(StatusCode::NOT_FOUND, view::error(&error.for_client())),
        Err(error) => return html(StatusCode::INTERNAL_SERVER_ERROR, view::error(&error.to_string())),
    };
    let form = form(uri.query().unwrap_or_default());
    let asked = ASKED.map(|name| form.get(name).map(String::as_str).unwrap_or_default());
    let answer = match question(id, asked, found.record()) {
        None => None,
        Some(question) => Some(match tools.call_async(&tenant, EXTRACT_TOOL, &question.to_string()).await {
            Ok(result) => shown(&result),
            Err(error) => error.message,
        }),
    };
    let shown = Shown { tenant: &tenant, id, record: found.record(), asked, answer: answer.as_deref() };
    html(StatusCode::OK, view::offload(&shown))
}

/// What the form asks, if anything. The section of a text alone is shown from its first line.
fn question(id: Ulid, asked: [&str; ASKED.len()], record: &OffloadRecord) -> Option<Value> {
    let mut question = Map::new();
    let given = ASKED.iter().zip(asked).filter(|(_, value)| !value.is_empty());
    question.extend(given.map(|(name, value)| ((*name).to_owned(), json!(value))));
    let of_text = |section: &Value| {
        record.files.iter().any(|file| file.kind == FileKind::Text && *section == file.section.as_str())
    };
    let begins = question.len() == 1 && question.get("section").is_some_and(of_text);
    let bound = if begins { ("lines", json!([1, RECORDS])) } else { ("limit", json!(RECORDS)) };
    (!question.is_empty()).then(|| {
        question.extend([bound, ("handle", json!(id.to_string()))].map(|(name, value)| (name.to_owned(), value)));
        Value::Object(question)
    })
}

/// The texts of a tool result.
fn shown(result: &str) -> String {
    let result: Value = serde_json::from_str(result).unwrap_or_default();
    let blocks = result["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Changes a policy as a form of the page asks.
async fn change(rules: &Arc<Rules>, admin: Option<&Admin>, visitor: &Visitor, request: Request) -> Response {
    let Some(admin) = admin else {
        return html(StatusCode::NOT_FOUND, view::error("Policies cannot be changed without gateway.admin-token."));
    };
    if !is_own_form(request.headers()) {
        return html(StatusCode::FORBIDDEN, view::error("This form is not from this page."));
    }
    let Ok(body) = Limited::new(request.into_body(), FORM_BYTES_MAX).collect().await else {
        return html(StatusCode::BAD_REQUEST, view::error("The form is too large or incomplete."));
    };
    let body = body.to_bytes();
    let form = form(std::str::from_utf8(&body).unwrap_or_default());
    let [action, tenant, sha256] =
        ["action", "tenant", "sha256"].map(|name| form.get(name).map(String::as_str).unwrap_or_default());
    let note = match admin.change_by_form(visitor.address, action, tenant, sha256.trim()).await {
        Ok(change) => format!("{tenant}: {} to {}", change.outcome, change.sha256),
        Err((_, text)) => format!("{tenant}: {text}"),
    };
    overview(rules, Some(admin), visitor, Some(note)).await
}

/// Whether a browser sends a form from these pages: the origin is that of the address it is sent to.
fn is_own_form(headers: &HeaderMap) -> bool {
    let (Some(origin), Some(host)) = (text(headers, &ORIGIN), text(headers, &HOST)) else { return false };
    origin.split_once("://").is_some_and(|(_, origin)| origin.eq_ignore_ascii_case(host))
}

/// The members of a form or of the query of a URL.
fn form(text: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| percent_decoded(&text.replace('+', " ")).unwrap_or_default();
    text.split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (decoded(name), decoded(value)))
        .collect()
}

fn redirect(path: &'static str) -> Response {
    let mut response = html(StatusCode::SEE_OTHER, String::new());
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(path));
    response
}

fn not_allowed(text: &str) -> Response {
    html(StatusCode::METHOD_NOT_ALLOWED, view::error(text))
}

fn html(status: StatusCode, page: String) -> Response {
    secured(status, "text/html; charset=utf-8", page)
}

fn secured(status: StatusCode, media_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers: [(HeaderName, &str); 5] = [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
